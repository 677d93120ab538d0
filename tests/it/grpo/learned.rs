//! Steps of a small policy on its own completions: draws, micro-batches, several updates per sampling, evaluations, and
//! learning.

use crate::batches::{cut, in_one_step, of_texts};
use crate::oracle::difference;
use crate::transfer::gradients_of;
use burn::module::Module;
use burn::tensor::Device;
use burn::train::{InferenceStep, TrainStep};
use formwork::data::batch::Batch;
use formwork::data::{NOT_SCORED, Shape};
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::grpo::Judge;
use formwork::task::{Objective, StepOutput, TaskConfig, TrainableModel};
use formwork::tokenizer::Tokenizer;
use formwork::train::gradients::{accumulate, accumulate_from};
use formwork::train::optim::{self, OptimizerConfig};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

/// The vocabulary's characters, ordered by id; the line break, 7, ends a text.
const ALPHABET: &str = "abcdefg\n";
const END: i32 = 7;
const CONTEXT: usize = 8;

/// A policy, with a tokenizer for its rewards and a reference of other weights.
fn small(keys: &Value, dropout: f64) -> Objective {
    let task = |config: Value, seed: u64, device: &Device| {
        let config: TaskConfig = serde_json::from_value(config).unwrap();
        let model = json!({ "kind": "decoder", "n_layers": 2, "d_model": 16, "dropout": dropout, "position": { "kind": "learned" },
            "attention": { "kind": "multi_head", "n_heads": 2 }, "init": { "kind": "gpt2", "std": 0.3 } });
        let model: ModelConfig = serde_json::from_value(model).unwrap();
        let inputs = BuildContext {
            shape: &Shape::of_text(CONTEXT, ALPHABET.len()),
            seed,
            device,
        };
        let task = config.init(&model, &inputs, true).unwrap();
        materialize(name_parameters(task))
    };
    let mut config = json!({ "kind": "grpo", "group_size": 4 });
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    let policy = task(config, 5, &Device::flex().autodiff());
    let reference = task(json!({ "kind": "causal_lm" }), 6, &Device::flex());
    let tokenizer = Tokenizer::of_characters(ALPHABET, Some('\n')).unwrap();
    let judge = Judge::new(tokenizer, vec![END as u32], None);
    Objective(policy.0.with_teacher(reference.0).with_judge(judge))
}

/// Four prompts of two lengths; the right answer is `b`.
fn prompts(step: u64) -> Batch {
    let row = |prompt: &[i32]| {
        let inputs = [prompt, &[1, END]].concat();
        let mut targets = vec![NOT_SCORED; prompt.len() - 1];
        targets.extend([1, END, NOT_SCORED]);
        let filled = |mut values: Vec<i32>, with: i32| {
            values.resize(CONTEXT, with);
            values
        };
        (filled(inputs, END), filled(targets, NOT_SCORED))
    };
    let rows: [&[i32]; 4] = [&[0, 2], &[3, 4, 5], &[5, 6], &[2, 0, 2]];
    let (inputs, targets): (Vec<_>, Vec<_>) = rows.map(row).into_iter().unzip();
    let mut batch = of_texts(&inputs.concat(), &targets.concat(), 4);
    batch.step = step;
    batch
}

fn told(output: &StepOutput, metric: &str) -> f64 {
    output.metrics[metric].mean()
}

#[test]
fn micro_batches_write_the_same_and_equal_one_batch_with_dropout_on() {
    for keys in [
        json!({ "reward": { "kind": "contains" } }),
        json!({ "reward": { "kind": "contains" }, "loss": "dr_grpo", "scale_rewards": false, "top_k": 5, "max_new_tokens": 4 }),
    ] {
        let task = small(&keys, 0.3);
        let whole = prompts(3);
        let parts = vec![cut(&whole, 0..1, false), cut(&whole, 1..4, false)];
        let parts = accumulate(&task, in_one_step(parts, 3));
        let one = accumulate(&task, in_one_step(vec![whole], 3));
        for (name, sum) in &one.output.metrics {
            let (a, b) = (sum.mean(), told(&parts.output, name));
            assert!((a - b).abs() <= 1e-5 + 2e-5 * b.abs(), "{name}: {a}, {b}");
        }
        let (a, b) = (one.output.mean_loss(), parts.output.mean_loss());
        assert!((a - b).abs() < 1e-5, "{a}, {b}");
        assert_eq!(one.output.loss.weight, 4.0, "a mean over prompts");
        assert!(one.output.added.contains("reward"), "training's journal");
        let theirs = gradients_of(&task, &parts.gradients);
        for (path, ours) in gradients_of(&task, &one.gradients) {
            let off = difference(&ours.values, &theirs[&path].values);
            assert!(off < 1e-4, "{keys}: {path} is off by {off:e}");
        }
        // Another step samples other completions.
        let other = accumulate(&task, in_one_step(vec![prompts(4)], 4));
        let lengths = |output: &StepOutput| output.metrics["completion_length"].sum;
        let kl = |output: &StepOutput| output.metrics["kl"].sum;
        assert!(
            lengths(&other.output) != lengths(&one.output) || kl(&other.output) != kl(&one.output)
        );
    }
}

#[test]
fn updates_of_one_sampling_go_on_with_its_completions() {
    let keys = json!({ "updates": 2, "epsilon": 0.01, "reward": { "kind": "contains" }, "temperature": 1.5 });
    let task = small(&keys, 0.0);
    let config: OptimizerConfig = serde_json::from_value(json!({ "kind": "adamw" })).unwrap();
    let mut optimizer = optim::build(&config, &task).unwrap();
    let state = task.empty_state();
    let mut batch = prompts(0);
    batch.begins = Some(vec![true; 4]);
    let first = accumulate_from(&task, vec![batch], state.as_ref());
    let (sampled, passed_on) = (first.output.clone(), first.output.state.clone());
    assert_eq!(
        told(&sampled, "clip_ratio"),
        0.0,
        "the policy is the one that sampled"
    );
    let task = TrainStep::optimize(task, &mut optimizer, 1e-2.into(), first.gradients);
    let second = |begins: bool, step: u64| {
        let mut batch = prompts(step);
        batch.begins = Some(vec![begins; 4]);
        accumulate_from(&task, vec![batch], passed_on.as_ref()).output
    };
    let again = second(false, 1);
    for metric in ["reward", "reward_std", "completion_length", "truncated"] {
        assert_eq!(told(&again, metric), told(&sampled, metric), "{metric}");
    }
    assert!(told(&again, "clip_ratio") > 0.0, "weights have moved");
    assert_ne!(again.mean_loss(), sampled.mean_loss());
    // If rows begin again, completions are sampled again.
    let anew = second(true, 1);
    assert_eq!(told(&anew, "clip_ratio"), 0.0);
    assert_ne!(anew.metrics["kl"].sum, again.metrics["kl"].sum);
}

#[test]
fn an_evaluation_writes_the_likeliest_and_its_loss_is_the_reward_with_the_other_sign() {
    let task = small(&json!({ "reward": { "kind": "exact" } }), 0.3).valid();
    let [one, other] = [0, 9].map(|step| InferenceStep::step(&task, prompts(step).into()));
    assert_eq!(one, other, "nothing is drawn");
    assert_eq!(one.loss.sum, -one.metrics["reward"].sum);
    assert_eq!(one.metrics["reward"], one.metrics["exact_match"]);
    assert_eq!(one.metrics["reward"].weight, 4.0);
    assert!(!one.is_token_loss(), "no perplexity of rewards");
}

#[test]
fn without_rewards_it_scores_texts_as_a_language_model_does() {
    let batch = prompts(0);
    let config: TaskConfig = serde_json::from_value(json!({ "kind": "grpo" })).unwrap();
    let plain: TaskConfig = serde_json::from_value(json!({ "kind": "causal_lm" })).unwrap();
    let found = [config, plain].map(|config| {
        let model = json!({ "kind": "decoder", "n_layers": 1, "d_model": 16,
            "attention": { "kind": "multi_head", "n_heads": 2 } });
        let model: ModelConfig = serde_json::from_value(model).unwrap();
        let inputs = BuildContext {
            shape: &Shape::of_text(CONTEXT, ALPHABET.len()),
            seed: 3,
            device: &Device::flex(),
        };
        let task = materialize(name_parameters(
            config.init(&model, &inputs, false).unwrap(),
        ));
        InferenceStep::step(&task, batch.clone().into())
    });
    assert_eq!(found[0], found[1]);
    assert!(found[0].is_token_loss());
}

/// One token after each prompt, right if it is `b`: among eight tokens, the policy finds it and keeps to it.
#[test]
fn rewards_rise() {
    for loss in ["grpo", "dapo", "dr_grpo"] {
        let keys = json!({ "loss": loss, "max_new_tokens": 1, "beta": 0.0, "group_size": 16, "reward": { "kind": "contains" } });
        let mut task = small(&keys, 0.0);
        let config: OptimizerConfig = serde_json::from_value(json!({ "kind": "adamw" })).unwrap();
        let mut optimizer = optim::build(&config, &task).unwrap();
        let (mut first, mut last) = (0.0, 0.0);
        for step in 0..80 {
            let step = accumulate(&task, vec![prompts(step)]);
            last = told(&step.output, "reward");
            if first == 0.0 {
                first = last;
            }
            task = TrainStep::optimize(task, &mut optimizer, 1e-2.into(), step.gradients);
        }
        assert!(first < 0.6 && last > 0.9, "{loss}: from {first} to {last}");
        let written = InferenceStep::step(&task.valid(), prompts(0).into());
        assert_eq!(told(&written, "reward"), 1.0, "{loss}");
    }
}

#[test]
fn parameters_are_those_of_next_token_prediction() {
    let task = small(&json!({}), 0.0);
    assert!(task.networks().language_model.is_some());
    for parameter in formwork::train::parameters::list(&task) {
        assert!(parameter.path.starts_with("model."), "{}", parameter.path);
    }
}
