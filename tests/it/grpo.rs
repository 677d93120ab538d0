//! Group-relative policy optimisation: losses, metrics and gradients of a tiny LLaMA against TRL (`tests/goldens/make_grpo.py`
//! is the oracle), micro-batches, several updates per sampling, evaluations, and rising rewards.

mod learned;
mod refused;
mod runs;

use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, decoder_of, difference, hf_folder};
use crate::transfer::gradients_of;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use formwork::interop::read_hf;
use formwork::interop::rename::Table;
use formwork::nn::pass::Pass;
use formwork::task::grpo::Rollouts;
use formwork::task::grpo::rollouts::{Completion, Prompt};
use formwork::task::{AnyTask, CausalLm, CausalLmConfig, Grpo, GrpoConfig};
use serde_json::{Value, json};

const ORACLE: &str = "grpo";

/// Context of the oracle's model in tokens.
const CONTEXT: usize = 16;

/// The oracle's policy and its reference, with the names of its parameters.
fn task(oracle: &Oracle, keys: &Value) -> (Grpo, Table) {
    let config: GrpoConfig = serde_json::from_value(keys.clone()).unwrap();
    let network = |prefix: &str, device: &Device| {
        let weights = oracle.arrays(|name| name.strip_prefix(prefix));
        let dir = hf_folder(&oracle.config(), &weights);
        let model = read_hf(dir.path(), &[]).unwrap();
        let network = decoder_of(&model, device).unwrap();
        let task = CausalLm::new(network, &CausalLmConfig::default(), 1, false);
        (task, model.table())
    };
    let (policy, table) = network("policy.", &Device::flex().autodiff());
    let (reference, _) = network("reference.", &Device::flex());
    let task = Grpo::new(policy, &config, CONTEXT).with_reference(AnyTask::CausalLm(reference));
    (task, table)
}

/// Returns the oracle's prompts with their sampled completions.
fn sampled(oracle: &Oracle) -> (Vec<Prompt>, Rollouts) {
    let rows = |name: &str, lengths: &str| -> Vec<Vec<u32>> {
        let ((shape, ids), (_, lengths)) = (oracle.integers(name), oracle.integers(lengths));
        let rows = ids.chunks(shape[1]).zip(lengths);
        let rows = rows.map(|(row, length)| row[..length as usize].to_vec());
        rows.map(|row| row.into_iter().map(|id| id as u32).collect())
            .collect()
    };
    let prompts = rows("prompts", "prompt_lengths").into_iter();
    let prompts = prompts.map(|tokens| Prompt {
        tokens,
        answer: vec![1],
    });
    let (_, ended) = oracle.integers("ended");
    let completions = rows("completions", "lengths").into_iter().zip(ended);
    let completions: Vec<Completion> = completions
        .map(|(tokens, ended)| Completion {
            tokens,
            ended: ended == 1,
        })
        .collect();
    let old = oracle.array("old");
    let old = old.values.chunks(old.shape[1]).zip(&completions);
    let old = old.flat_map(|(row, one)| row[..one.tokens.len()].to_vec());
    let rollouts = Rollouts {
        old: Some(old.collect()),
        rewards: oracle.array("rewards").values,
        completions,
    };
    (prompts.collect(), rollouts)
}

fn number(tensor: Tensor<1>) -> f64 {
    f64::from(tensor.into_scalar::<f32>())
}

#[test]
fn losses_metrics_and_gradients_are_trl_s() {
    let oracle = Oracle::open(ORACLE);
    let (prompts, sampled) = sampled(&oracle);
    let tokens: usize = sampled.completions.iter().map(|one| one.tokens.len()).sum();
    for (name, keys) in [
        ("grpo", json!({ "beta": 0.04, "updates": 2 })),
        (
            "dapo",
            json!({ "loss": "dapo", "beta": 0.0, "updates": 2, "epsilon_high": 0.28 }),
        ),
        (
            "dr_grpo",
            json!({ "loss": "dr_grpo", "max_new_tokens": 8, "scale_rewards": false, "beta": 0.1, "updates": 2, "epsilon": 0.1 }),
        ),
        ("on_policy", json!({ "temperature": 0.7, "beta": 0.04 })),
        (
            "masked",
            json!({ "loss": "dapo", "beta": 0.0, "updates": 2, "epsilon_high": 0.28, "mask_truncated": true }),
        ),
    ] {
        let mut keys = keys;
        keys["group_size"] = json!(4);
        let (task, table) = task(&oracle, &keys);
        let own = Rollouts {
            old: sampled.old.clone().filter(|_| name != "on_policy"),
            ..sampled.clone()
        };
        let (sums, _, read) = task.loss(&prompts, &own, &Pass::evaluation());
        assert_eq!(
            read,
            4 * (4 + 2 + 6) + tokens - 12,
            "the last tokens are not read"
        );
        // The loss of a step is the mean over its prompts.
        let loss = sums.loss / prompts.len() as f64;
        let found = number(loss.clone());
        let wanted = f64::from(oracle.array(&format!("{name}.loss")).values[0]);
        assert!(
            (found / wanted - 1.0).abs() < 1e-4,
            "{name}: {found}, not {wanted}"
        );
        for (metric, sum) in [("kl", sums.divergence), ("clip_ratio", sums.clipped)] {
            let metric = format!("{name}.{metric}");
            let Some(sum) = sum.filter(|_| oracle.names().contains(&metric)) else {
                continue;
            };
            let (found, wanted) = (number(sum) / tokens as f64, oracle.array(&metric).values[0]);
            assert!(
                (found - f64::from(wanted)).abs() < 1e-5,
                "{metric}: {found}, not {wanted}"
            );
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &task);
        let found = table.export(&gradients_of(&task, &gradients));
        let prefix = format!("{name}.grad.");
        let theirs = oracle.arrays(|tensor| tensor.strip_prefix(&*prefix));
        assert!(found.keys().eq(theirs.keys()), "{name}: other gradients");
        for (weight, theirs) in &theirs {
            let off = difference(&found[weight].values, &theirs.values);
            assert!(off < TOLERANCE, "{name}: {weight} is off by {off:e}");
        }
    }
}
