//! The maximal update parametrization (`[model.mup]`) against Microsoft's `mup` (`tests/goldens/make_mup.py`): steps of a
//! decoder twice as wide as its base, initial deviations, and a model whose width is that of its base.

use crate::batches;
use crate::diagnostics::says;
use crate::oracle::{Oracle, difference, values};
use crate::transfer::{Arrays, put, values_of};
use burn::tensor::{Device, Tensor};
use formwork::data::Shape;
use formwork::experiment::{LoadedExperiment, load_text, training};
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::{ImageClassificationConfig, Objective, TaskConfig};
use formwork::train::gradients::accumulate;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::json;
use std::path::Path;

const HEADER: &str = r#"name = "mup"
[model]
kind = "decoder"
n_layers = 2
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
position = { kind = "learned" }
tie_embeddings = TIED
[model.mup]
d_model = 8
[tokenizer]
kind = "char"
[data]
kind = "text"
path = "text.txt"
context = 8
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-2
betas = [0.9, 0.95]
eps = 1e-12
weight_decay = 0.1
[schedule]
kind = "constant"
[train]
steps = 8
"#;

fn loaded(source: &str) -> LoadedExperiment {
    load_text(Path::new("mup.toml"), source.into(), &[]).unwrap()
}

fn objective(loaded: &LoadedExperiment, vocab: usize) -> Objective {
    let shape = Shape::of_text(8, vocab);
    let inputs = BuildContext {
        shape: &shape,
        seed: 5,
        device: &Device::flex().autodiff(),
    };
    let experiment = &loaded.experiment;
    let task = experiment
        .task
        .init(&experiment.model, &inputs, false)
        .unwrap();
    materialize(name_parameters(task))
}

/// Trains eight steps from the oracle's weights: losses must agree to 1e-4, and the final weights too. `keys` are further keys
/// of `[model.mup]`.
fn follows(case: &str, tied: bool, keys: &str) {
    let oracle = Oracle::open("mup");
    let source = HEADER.replace("TIED", &tied.to_string());
    let loaded = loaded(&source.replace("\nd_model = 8\n", &format!("\nd_model = 8\n{keys}")));
    let named = |part: &str| -> Arrays {
        let prefix = format!("{case}.{part}.");
        let arrays = oracle.arrays(|name| name.strip_prefix(&prefix));
        arrays
            .into_iter()
            .map(|(name, array)| (format!("model.{name}"), array))
            .collect()
    };
    let mut model = put(objective(&loaded, 11), &named("start"));
    let mut optimizer = training::optimizer(&loaded.experiment, &model).unwrap();
    let (shape, ids) = oracle.integers(&format!("{case}.ids"));
    let (_, targets) = oracle.integers(&format!("{case}.targets"));
    let size = shape[1] * shape[2];
    for (step, theirs) in oracle.doubles(&format!("{case}.losses")).iter().enumerate() {
        let of = |values: &[i32]| values[step * size..(step + 1) * size].to_vec();
        let batch = batches::of_texts(&of(&ids), &of(&targets), shape[1]);
        let gradient = accumulate(&model, batches::in_one_step(vec![batch], step));
        let loss = gradient.output.loss.mean();
        let off = (loss - theirs).abs();
        assert!(off < 1e-4, "{case}, step {step}: {loss}, mup's {theirs}");
        model = optimizer.step(1e-2, model, gradient.gradients);
    }
    let ends = values_of(&model);
    for (path, theirs) in named("end") {
        // Key biases have no gradient except rounding, which Adam turns into whole steps.
        if path.ends_with("attention.key.bias") {
            continue;
        }
        let off = difference(&ends[&path].values, &theirs.values);
        assert!(off < 1e-3, "{case}: {path} ends {off:e} away");
    }
}

#[test]
fn steps_with_a_tied_head_are_mup_s() {
    follows("tied", true, "");
}

#[test]
fn steps_with_a_head_of_its_own_are_mup_s() {
    follows("untied", false, "");
}

#[test]
fn multiplied_scores_are_mup_s() {
    follows("tied_multiplied", true, "output_multiplier = 2.5\n");
    follows("untied_multiplied", false, "output_multiplier = 2.5\n");
}

/// Masked language models have their own head: its logits, except for their bias, are multiplied.
#[test]
fn scores_of_hidden_tokens_are_multiplied() {
    let scores = |tied: bool, keys: &str| {
        let text = HEADER
            .replace("TIED", &tied.to_string())
            .replace("\"decoder\"", "\"encoder\"")
            .replace("\"causal_lm\"", "\"masked_lm\"")
            .replace("\nd_model = 8\n", &format!("\nd_model = 8\n{keys}"));
        let task = objective(&loaded(&text), 11);
        let mut begun = values_of(&task);
        let mut biases = begun
            .iter_mut()
            .filter(|(path, array)| path.contains("head") && array.values.len() == 11);
        biases.next().unwrap().1.values.fill(0.25);
        let task = put(task, &begun);
        let model = task.networks().masked_lm.unwrap();
        let hidden = Tensor::<3>::ones([1, 2, 16], &Device::flex().autodiff());
        values(model.head.forward(hidden, &model.model))
    };
    for tied in [true, false] {
        let [plain, multiplied] = ["", "output_multiplier = 4.0\n"].map(|keys| scores(tied, keys));
        let wanted: Vec<f32> = plain.iter().map(|x| 4.0 * (x - 0.25) + 0.25).collect();
        let off = difference(&multiplied, &wanted);
        assert!(off < 1e-5 && plain != multiplied, "off by {off:e}");
    }
}

#[test]
fn initial_deviations_are_mup_s() {
    let wide = HEADER
        .replace("TIED", "false")
        .replace("d_model = 16", "d_model = 512")
        .replace("d_model = 8", "d_model = 64");
    let values = values_of(&objective(&loaded(&wide), 200));
    let deviation = |path: &str| {
        let values = &values[path].values;
        let squares: f64 = values.iter().map(|x| f64::from(*x).powi(2)).sum();
        (squares / values.len() as f64).sqrt()
    };
    let paths = [
        "model.stack.blocks.0.feed_forward.up.weight",
        "model.head.weight",
        "model.embedding.weight",
    ];
    for (path, theirs) in paths.iter().zip(Oracle::open("mup").doubles("deviations")) {
        let ours = deviation(path);
        let off = (ours / theirs - 1.0).abs();
        assert!(off < 0.03, "{path}: {ours}, mup's {theirs}");
    }
}

/// A base of the model's own width changes nothing, bit for bit.
#[test]
fn the_base_is_itself() {
    let own = HEADER
        .replace("TIED", "true")
        .replace("\nd_model = 8", "\nd_model = 16");
    let without = own.replace("[model.mup]\nd_model = 16\n", "");
    let [own, without] = [own, without].map(|text| values_of(&objective(&loaded(&text), 11)));
    for (path, array) in &without {
        assert_eq!(array.values, own[path].values, "{path}");
    }
}

/// Parts without a known scaling rule are refused, with the line of the key.
#[test]
fn what_goes_by_the_width_otherwise_is_refused() {
    let whole = HEADER.replace("TIED", "true");
    for (from, to, rule) in [
        (
            "kind = \"adamw\"\nlr = 1e-2\nbetas = [0.9, 0.95]\neps = 1e-12",
            "kind = \"sgd\"\nlr = 1e-2",
            "[optimizer] mup scales learning rates, so it needs steps whose length does not depend on the size of the gradient: use \"adamw\", \"adam\", \"radam\", \"nadam\", \"adopt\", \"ademamix\", \"schedule_free\" or \"lion\"",
        ),
        (
            "kind = \"constant\"",
            "kind = \"noam\"\nwarmup_steps = 2",
            "[schedule] kind = \"noam\" depends on the width of the model, and so does mup",
        ),
        (
            "kind = \"multi_head\"",
            "kind = \"linear\"",
            "mup has no rule for how the parameters of \"linear\" scale with the width; use \"multi_head\"",
        ),
        (
            "position = { kind = \"learned\" }",
            "position = { kind = \"learned\" }\nfeed_forward = { kind = \"moe\", n_experts = 4 }",
            "mup has no rule for how the parameters of \"moe\" scale with the width; use \"dense\" or \"gated\"",
        ),
        (
            "position = { kind = \"learned\" }",
            "position = { kind = \"learned\" }\nembedding_scale = true",
            "embedding_scale = true scales by the width of the model",
        ),
        (
            "position = { kind = \"learned\" }",
            "position = { kind = \"learned\" }\ninit = \"t5\"",
            "mup scales the deviations of the initial weights, but kind = \"t5\" has its own",
        ),
        (
            "kind = \"adamw\"",
            "kind = \"adam\"",
            "[optimizer] weight_decay of \"adam\" is part of the moments, where the learning rates of mup do not scale it",
        ),
        (
            "[tokenizer]",
            "[[model.layers]]\nattention = { kind = \"multi_head\", n_heads = 2 }\n[[model.layers]]\nmixer = { kind = \"mamba\" }\n[tokenizer]",
            "x.toml:14: [[model.layers]] 2 mixer: mup has no rule for how the parameters of \"mamba\" scale with the width; use \
             attention of kind \"multi_head\" or",
        ),
        (
            "[model.mup]\nd_model = 8",
            "[model.mup]\nd_model = 0",
            "[model.mup] d_model = 0 is not between 1 and",
        ),
        (
            "[model.mup]\nd_model = 8",
            "[model.mup]\nd_head = 8",
            "d_model",
        ),
        (
            "[model.mup]\nd_model = 8",
            "[model.mup]\nd_model = 8\noutput_multiplier = 0.0",
            "x.toml:11: [model.mup] output_multiplier = 0.0 must be above 0",
        ),
    ] {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole, "{from}");
        says(&text, rule);
    }
}

/// Attention scores scale with 1/d_head, whether their factor is given or not: if the base's heads have half the width, the
/// factor is halved.
#[test]
fn scores_go_by_the_width_of_a_head() {
    let of = |scale: &str, mup: &str| {
        let heads = format!("n_heads = 2{scale} }}");
        let text = HEADER
            .replace("TIED", "true")
            .replace("n_heads = 2 }", &heads)
            .replace("[model.mup]\nd_model = 8\n", mup);
        let loaded = loaded(&text);
        let stack = loaded.experiment.model.transformer().unwrap().stack.clone();
        stack.score_factor(Some(&stack.attention))
    };
    assert_eq!(of("", ""), 1.0);
    assert_eq!(of("", "[model.mup]\nd_model = 4\n"), 0.5);
    assert_eq!(of(", scale = 1.0", "[model.mup]\nd_model = 4\n"), 0.5);
    assert_eq!(of("", "[model.mup]\nd_model = 4\nd_head = 8\n"), 1.0);
}

/// A wider model has as many pixels, so their projection keeps its deviation under each scheme.
#[test]
fn projections_of_pixels_keep_their_deviation() {
    for scheme in [
        json!({ "kind": "xavier" }),
        json!({ "kind": "gpt2" }),
        json!({ "kind": "truncated_normal" }),
    ] {
        let deviation = |d_model: usize| {
            let config = json!({
                "kind": "vision", "n_layers": 1, "d_model": d_model, "init": scheme, "mup": { "d_model": 64 },
                "stem": { "kind": "patches", "size": 8 }, "attention": { "kind": "multi_head", "n_heads": 4 },
            });
            let model: ModelConfig = serde_json::from_value(config).unwrap();
            let shape = Shape {
                image: Some([3, 16, 16]),
                classes: vec!["a".into(), "b".into()],
                ..Shape::default()
            };
            let inputs = BuildContext {
                shape: &shape,
                seed: 5,
                device: &Device::flex().autodiff(),
            };
            let task = TaskConfig::ImageClassification(ImageClassificationConfig::default());
            let task = materialize(name_parameters(task.init(&model, &inputs, false).unwrap()));
            let values = &values_of(&task)["model.stem.projection.weight"].values;
            let squares: f64 = values.iter().map(|x| f64::from(*x).powi(2)).sum();
            (squares / values.len() as f64).sqrt()
        };
        let ratio = deviation(512) / deviation(64);
        assert!((ratio - 1.0).abs() < 0.03, "{scheme}: {ratio}");
    }
}
