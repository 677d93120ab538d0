//! Preference optimisation: losses, rewards and gradients of a tiny LLaMA against TRL (`tests/goldens/make_preference.py` is
//! the oracle), micro-batches, dropout only in the policy, and a trained policy without its reference.

mod refused;
pub mod runs;

use crate::batches::{self, cut, in_one_step};
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, decoder_of, difference, hf_folder};
use crate::transfer::gradients_of;
use burn::module::Module;
use burn::tensor::Device;
use burn::train::InferenceStep;
use formwork::data::batch::{Batch, Content, Item, TextItem};
use formwork::data::{NOT_SCORED, Shape};
use formwork::interop::rename::Table;
use formwork::interop::{HfModel, read_hf};
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::{
    AnyTask, CausalLm, CausalLmConfig, Objective, Preference, PreferenceConfig, StepOutput,
    TaskConfig, causal_lm,
};
use formwork::train::gradients::{Gradient, accumulate};
use formwork::train::parameters::{list, materialize, name_parameters};
use serde_json::{Value, json};

const ORACLE: &str = "preference";

/// Writes one of the oracle's two models as a Hugging Face folder.
fn folder(oracle: &Oracle, prefix: &str) -> (tempfile::TempDir, HfModel) {
    let weights = oracle.arrays(|name| name.strip_prefix(prefix));
    let dir = hf_folder(&oracle.config(), &weights);
    let model = read_hf(dir.path(), &[]).unwrap();
    (dir, model)
}

/// The oracle's policy and its reference, with the names of its parameters.
fn task(oracle: &Oracle, keys: &Value) -> (Objective, Table) {
    let config: PreferenceConfig = serde_json::from_value(keys.clone()).unwrap();
    let network = |prefix: &str, device: &Device| {
        let (_dir, model) = folder(oracle, prefix);
        let network = decoder_of(&model, device).unwrap();
        let task = CausalLm::new(network, &CausalLmConfig::default(), 1, false);
        (task, model.table())
    };
    let (policy, table) = network("policy.", &Device::flex().autodiff());
    let (reference, _) = network("reference.", &Device::flex());
    let task = Preference::new(policy, &config, false).with_reference(AnyTask::CausalLm(reference));
    (Objective(AnyTask::Preference(task)), table)
}

/// The oracle's pairs, one in each row.
fn batch(oracle: &Oracle) -> Batch {
    let (shape, ids) = oracle.integers("input_ids");
    let (_, mask) = oracle.integers("attention_mask");
    let (_, said) = oracle.integers("completion_mask");
    let (rows, cols) = (shape[0] / 2, shape[1]);
    let text = |number: usize| {
        let own = number * cols..(number + 1) * cols;
        let (ids, said) = (&ids[own.clone()], &said[own.clone()]);
        let length = mask[own].iter().sum::<i32>() as usize;
        let targets = (1..length).map(|at| match said[at] {
            1 => ids[at],
            _ => NOT_SCORED,
        });
        (ids[..length - 1].to_vec(), targets.collect::<Vec<i32>>())
    };
    let items = (0..rows).map(|row| {
        let (better, worse) = (text(row), text(rows + row));
        let documents = [vec![1; better.0.len()], vec![2; worse.0.len()]];
        Item::Text(TextItem {
            inputs: [better.0, worse.0].concat(),
            targets: [better.1, worse.1].concat(),
            documents: Some(documents.concat()),
            ..TextItem::default()
        })
    });
    let items: Vec<Item> = items.collect();
    batches::of(Content::of(&items), rows)
}

/// Reads a number of the oracle.
fn number(oracle: &Oracle, name: &str) -> f64 {
    f64::from(oracle.array(name).values[0])
}

#[test]
fn losses_rewards_and_gradients_are_trl_s() {
    let oracle = Oracle::open(ORACLE);
    let batch = batch(&oracle);
    for (name, keys) in [
        ("sigmoid", json!({})),
        ("hinge", json!({ "loss": "hinge", "beta": 0.5 })),
        ("ipo", json!({ "loss": "ipo", "beta": 0.3 })),
        ("smoothed", json!({ "label_smoothing": 0.2 })),
    ] {
        let (task, table) = task(&oracle, &keys);
        let Gradient {
            gradients, output, ..
        } = accumulate(&task, vec![batch.clone()]);
        let wanted = number(&oracle, &format!("{name}.loss"));
        let found = output.loss.mean();
        assert!((found / wanted - 1.0).abs() < 1e-5, "{name}: {found}");
        assert_eq!(output.loss.weight, 4.0, "{name}: a mean over pairs");
        let found = table.export(&gradients_of(&task, &gradients));
        let prefix = format!("{name}.grad.");
        let theirs = oracle.arrays(|tensor| tensor.strip_prefix(&*prefix));
        assert!(found.keys().eq(theirs.keys()), "{name}: other gradients");
        for (weight, theirs) in &theirs {
            let off = difference(&found[weight].values, &theirs.values);
            assert!(off < TOLERANCE, "{name}: {weight} is off by {off:e}");
        }
        let told = |metric: &str| output.metrics[metric].mean();
        let scale = keys["beta"].as_f64().unwrap_or(0.1) / 0.1;
        let margin = number(&oracle, "reward_margin") * scale;
        assert_eq!(told("reward_accuracy"), number(&oracle, "reward_accuracy"));
        assert!((told("reward_margin") / margin - 1.0).abs() < 1e-4);
        assert!(
            output.added.contains("reward_accuracy"),
            "training's journal"
        );
        // An evaluation uses no label smoothing.
        let evaluated = InferenceStep::step(&task.valid(), batch.clone().into());
        let plain = match name {
            "smoothed" => number(&oracle, "sigmoid.loss"),
            _ => wanted,
        };
        let found = evaluated.loss.mean();
        assert!((found / plain - 1.0).abs() < 1e-5, "{name}: {found}");
        assert!(!evaluated.is_token_loss(), "no perplexity of pairs");
    }
}

/// A policy with a small decoder that has dropout, and a reference initialised with another seed.
fn small(keys: &Value, reference: u64) -> Objective {
    let task = |config: Value, seed: u64, device: &Device| {
        let config: TaskConfig = serde_json::from_value(config).unwrap();
        let model = json!({ "kind": "decoder", "n_layers": 2, "d_model": 16, "dropout": 0.3, "position": { "kind": "learned" },
            "attention": { "kind": "multi_head", "n_heads": 2 }, "init": { "kind": "gpt2", "std": 0.3 } });
        let model: ModelConfig = serde_json::from_value(model).unwrap();
        // The longest text has nine input tokens, so a row of two texts has eighteen.
        let inputs = BuildContext {
            shape: &Shape::of_text(9, 31),
            seed,
            device,
        };
        let task = config.init(&model, &inputs, true).unwrap();
        materialize(name_parameters(task))
    };
    let mut config = json!({ "kind": "preference" });
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    let policy = task(config, 5, &Device::flex().autodiff());
    let reference = task(json!({ "kind": "causal_lm" }), reference, &Device::flex());
    Objective(policy.0.with_teacher(reference.0))
}

fn sums(output: &StepOutput) -> Vec<f64> {
    let metrics = output.metrics.values().flat_map(|s| [s.sum, s.weight]);
    let loss = [output.loss.sum, output.loss.weight, output.items as f64];
    metrics.chain(loss).collect()
}

#[test]
fn micro_batches_equal_one_batch_with_dropout_on() {
    let whole = batch(&Oracle::open(ORACLE));
    for keys in [
        json!({ "label_smoothing": 0.1 }),
        json!({ "loss": "hinge" }),
        json!({ "loss": "ipo" }),
    ] {
        let task = small(&keys, 6);
        let parts = vec![cut(&whole, 0..1, false), cut(&whole, 1..4, false)];
        let parts = accumulate(&task, in_one_step(parts, 3));
        let one = accumulate(&task, in_one_step(vec![whole.clone()], 3));
        for (a, b) in sums(&one.output).iter().zip(sums(&parts.output)) {
            assert!((a - b).abs() <= 1e-5 + 2e-5 * b.abs(), "{keys}: {a}, {b}");
        }
        let theirs = gradients_of(&task, &parts.gradients);
        for (path, ours) in gradients_of(&task, &one.gradients) {
            let off = difference(&ours.values, &theirs[&path].values);
            assert!(off < 1e-4, "{keys}: {path} is off by {off:e}");
        }
    }
}

#[test]
fn a_policy_drops_and_its_reference_does_not() {
    let batch = batch(&Oracle::open(ORACLE));
    // Both have the same weights: in evaluation every difference is exactly zero.
    let task = small(&json!({}), 5);
    let ln_2 = std::f64::consts::LN_2;
    let evaluated = InferenceStep::step(&task.valid(), batch.clone().into());
    assert!((evaluated.loss.mean() - ln_2).abs() < 1e-6);
    assert_eq!(evaluated.metrics["reward_margin"].sum, 0.0);
    assert_eq!(evaluated.metrics["reward_accuracy"].sum, 0.0);
    assert_eq!(evaluated.metrics["exact_match"].weight, 4.0);
    let trained = accumulate(&task, vec![batch]).output;
    assert!(trained.metrics["reward_margin"].sum.abs() > 1e-3);
}

#[test]
fn without_a_reference_it_scores_texts_as_a_language_model_does() {
    let oracle = Oracle::open(ORACLE);
    let batch = batch(&oracle);
    let (_dir, model) = folder(&oracle, "policy.");
    let network = decoder_of(&model, &Device::flex()).unwrap();
    let plain = CausalLm::new(network, &CausalLmConfig::default(), 1, false);
    let alone = Preference::new(plain.clone(), &PreferenceConfig::default(), false);
    let [plain, alone] = [AnyTask::CausalLm(plain), AnyTask::Preference(alone)].map(Objective);
    let [plain, alone] =
        [plain, alone].map(|task| InferenceStep::step(&task, batch.clone().into()));
    assert_eq!(plain, alone);
    assert!(plain.is_token_loss() && plain.loss.weight > 4.0);
    // The log-probabilities are those of the oracle.
    let logps = oracle.array("logps").values;
    let sum: f64 = logps.iter().map(|x| -f64::from(*x)).sum();
    assert!((plain.loss.sum / sum - 1.0).abs() < 1e-5);
}

#[test]
fn what_fills_a_row_up_has_a_place_in_every_table() {
    let text = |length: usize, document: i32| (vec![3; length], vec![document; length]);
    let row = |texts: [(Vec<i32>, Vec<i32>); 2]| {
        let [one, other] = texts;
        Item::Text(TextItem {
            targets: vec![NOT_SCORED; one.0.len() + other.0.len()],
            inputs: [one.0, other.0].concat(),
            documents: Some([one.1, other.1].concat()),
            ..TextItem::default()
        })
    };
    let items = [row([text(2, 1), text(1, 2)]), row([text(4, 1), text(4, 2)])];
    let Content::Text(texts) = Content::of(&items) else {
        panic!("texts");
    };
    let input = causal_lm::input(&texts, &Device::flex());
    let positions = input.positions.unwrap().into_data();
    let positions: Vec<i64> = positions.iter().collect();
    assert_eq!(positions, [0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 1, 2, 3]);
}

/// A run of next-token prediction can begin from one of preferences, and the reverse.
#[test]
fn parameters_are_those_of_next_token_prediction() {
    let task = small(&json!({}), 6);
    let network = task.networks().language_model.unwrap();
    assert_eq!(network.max_len(), Some(9));
    for parameter in list(&task) {
        assert!(parameter.path.starts_with("model."), "{}", parameter.path);
    }
}
