//! The keys of replaced-token detection: defaults, faults, and FLOPs of plans.

use super::{ALL, COLS, VOCAB, built, config, model};
use crate::diagnostics::judged;
use crate::transfer::values_of;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::model::ModelConfig;
use formwork::model::generator::TableSharing;
use formwork::plan::{ModelCost, PlanRequest, plan};
use formwork::task::{ReplacedTokenConfig, TaskConfig};
use serde_json::json;

pub fn cost(task: &TaskConfig, model: &ModelConfig, shape: &Shape) -> ModelCost {
    let question = PlanRequest {
        task: Some(task),
        micro_batch_size: 2,
        ..PlanRequest::of(model, shape)
    };
    plan(&question, &Device::default()).unwrap()
}

#[test]
fn a_plan_counts_both_networks_and_says_what_stays() {
    let shape = Shape::of_text(COLS, VOCAB);
    for embeddings in ALL {
        let task = config(embeddings, json!({}));
        let model = model(json!({}));
        let planned = cost(&task, &model, &shape);
        let values = values_of(&built(&task, &model));
        let count = |of: &dyn Fn(&str) -> bool| -> usize {
            let found = values.iter().filter(|(path, _)| of(path));
            found.map(|(_, array)| array.values.len()).sum()
        };
        let of_generator = count(&|path| path.starts_with("generator."));
        assert_eq!(planned.params, count(&|_| true));
        assert_eq!(planned.parts["generator"], of_generator);
        assert_eq!(planned.kept, planned.params - of_generator);
    }
    let task = config(TableSharing::Shared, json!({}));
    let none = config(
        TableSharing::Shared,
        json!({ "generator": { "size": 0.0 } }),
    );
    let memory = |task| cost(task, &model(json!({})), &shape).memory_bytes["activations"];
    assert!(memory(&task) > memory(&none));
}

#[test]
fn all_that_a_generator_guesses_is_masked_unless_said_otherwise() {
    let of = |text: &str| -> ReplacedTokenConfig { toml::from_str(text).unwrap() };
    let masking = of("").masking;
    assert_eq!(
        (masking.share, masking.masked, masking.random),
        (0.15, 1.0, 0.0)
    );
    let masking = of("masking = { share = 0.25, unit = \"word\" }").masking;
    assert_eq!(
        (masking.share, masking.masked, masking.random),
        (0.25, 1.0, 0.0)
    );
    let masking = of("masking = { masked = 0.85 }").masking;
    assert_eq!((masking.masked, masking.random), (0.85, 0.0));
    let text = toml::to_string(&of("masking = { masked = 0.85 }")).unwrap();
    assert_eq!(of(&text), of("masking = { masked = 0.85 }"));
}

/// Returns the message of `check` about these keys of `[model]` and `[task]`.
fn says(model: &str, task: &str) -> String {
    let text = format!(
        "name = \"x\"\ndata = {{ kind = \"grammar\", documents = 9 }}\noptimizer = {{ kind = \"adamw\", lr = 1e-3 }}\n\
         train = {{ steps = 1, batch_size = 1 }}\n[model]\nkind = \"encoder\"\n{model}\n[task]\nkind = \"replaced_token\"\n{task}\n"
    );
    judged(&text, &[]).map_or_else(|error| error.to_string(), |_| "nothing".into())
}

#[test]
fn faults_of_its_keys() {
    for (model, task, wanted) in [
        ("", "", "nothing"),
        ("", "generator = { size = 0.5, n_layers = 2 }", "nothing"),
        (
            "d_model = 96\nattention = { kind = \"multi_head\", n_heads = 3 }",
            "generator.size = 0.3333",
            "nothing",
        ),
        (
            "d_embedding = 16",
            "embeddings = \"disentangled\"",
            "nothing",
        ),
        (
            "",
            "weight = 0",
            "x.toml:10: [task] weight = 0.0 must be above 0",
        ),
        (
            "",
            "temperature = -1",
            "x.toml:10: [task] temperature = -1.0 must be above 0",
        ),
        (
            "",
            "generator.size = 1.5",
            "x.toml:10: [task.generator] size = 1.5 must be above 0 and at most 1",
        ),
        (
            "",
            "generator.size = 0.0",
            "x.toml:10: [task.generator] generator.size = 0 disables the generator, so no tokens are replaced and there is \
             nothing to learn; remove it for 0.25",
        ),
        (
            "",
            "generator.size = 0.3",
            "x.toml:10: [task.generator] size = 0.3: the generator's d_model, heads and d_ff must be whole numbers, so size must \
             be a multiple of 1/4; the nearest is 0.25",
        ),
        (
            "attention = { kind = \"multi_head\", n_heads = 2 }",
            "generator.size = 0.125",
            "x.toml:10: [task.generator] size = 0.125: the generator's d_model, heads and d_ff must be whole numbers, so size \
             must be a multiple of 1/2; the nearest is 0.5",
        ),
        (
            "attention = { kind = \"multi_head\", n_heads = 1 }",
            "generator.size = 0.5",
            "x.toml:10: [task.generator] size = 0.5: the generator's d_model, heads and d_ff must be whole numbers, but those of \
             the encoder (1 and 128) have no common divisor above 1: set size = 1.0, or give [model] numbers with a common \
             divisor",
        ),
        (
            "",
            "generator.n_layers = 0",
            "x.toml:10: [task.generator] n_layers = 0 is not between 1 and 1000",
        ),
        (
            "",
            "masking.masked = 2.0",
            "x.toml:10: [task] masking: masked = 2 must be between 0 and 1",
        ),
        (
            "head_transform = false",
            "",
            "x.toml:7: [model] the generator's head is the embedding table, whose vectors have 128 elements, but its hidden \
             states have 32: set head_transform = true or tie_embeddings = false",
        ),
        (
            "head_transform = false",
            "embeddings = \"unshared\"",
            "nothing",
        ),
        ("head_transform = false", "generator.size = 1.0", "nothing"),
    ] {
        let said = says(model, task);
        assert!(said.starts_with(wanted), "{model} {task}: {said}");
    }
    let said = says(
        "position = { kind = \"axial\", axial_widths = [28, 100] }",
        "embeddings = \"unshared\"",
    );
    assert!(said.contains("generator: "), "{said}");
    assert!(says("", "masking.masks = 1").contains("masks"));
    let said = says("", "generator.sise = 1");
    assert!(said.contains("size"), "{said}");
}
