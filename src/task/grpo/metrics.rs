//! Metrics of completions in training and evaluations.

use super::Rollouts;
use super::losses;
use crate::evaluate::metric::Metric;
use crate::kernel;
use crate::task::scored::Count;
use crate::task::{Scored, Sum};
use burn::tensor::Tensor;

/// Mean reward of completions.
const REWARD: Metric = Metric::higher("reward");
/// Mean standard deviation of the rewards within a group.
const REWARD_STD: Metric = Metric::higher("reward_std");
/// Share of groups whose completions all have the same reward; they teach nothing.
const FRAC_REWARD_ZERO_STD: Metric = Metric::lower("frac_reward_zero_std");
/// Estimated divergence from the reference, mean over tokens.
const KL: Metric = Metric::lower("kl");
/// Share of tokens whose ratio is clipped.
const CLIP_RATIO: Metric = Metric::lower("clip_ratio");
/// Mean number of tokens of a completion.
const COMPLETION_LENGTH: Metric = Metric::lower("completion_length");
/// Share of completions without an end token.
const TRUNCATED: Metric = Metric::lower("truncated");

/// The metrics that this task defines; the training journal shows them too.
pub const METRICS: &[Metric] = &[
    REWARD,
    REWARD_STD,
    FRAC_REWARD_ZERO_STD,
    KL,
    CLIP_RATIO,
    COMPLETION_LENGTH,
    TRUNCATED,
];

/// Adds the metrics that are counted on the device: the divergence of tokens, and the number of clipped ratios.
pub(super) fn with_token_metrics(
    mut scored: Scored,
    [divergence, clipped]: [Option<Tensor<1>>; 2],
    tokens: usize,
) -> Scored {
    for (metric, sum) in [(KL, divergence), (CLIP_RATIO, clipped)] {
        if let Some(sum) = sum.map(kernel::untracked) {
            // Without tokens the sum is 0.
            let of = tokens.max(1) as f64;
            scored.added.insert(metric.name);
            scored = scored.with_count(metric, Count { sum, of });
        }
    }
    scored
}

/// Adds the metrics of groups of `count` completions.
pub(super) fn with_group_metrics(mut scored: Scored, sampled: &Rollouts, count: usize) -> Scored {
    let groups = sampled.rewards.chunks(count);
    let deviations = groups.map(|rewards| losses::advantages(rewards, false).1);
    let deviations: Vec<f64> = deviations.collect();
    let flat = deviations.iter().filter(|deviation| **deviation == 0.0);
    let of = |sum: f64| Sum::new(sum, deviations.len() as f64);
    for (metric, sum) in [
        (FRAC_REWARD_ZERO_STD, of(flat.count() as f64)),
        (REWARD_STD, of(deviations.iter().sum())),
    ] {
        scored.added.insert(metric.name);
        scored = scored.with_metric(metric, sum);
    }
    scored
}

/// Adds the metrics of completions that training and evaluations share.
pub(super) fn with_completion_metrics(mut scored: Scored, written: &Rollouts) -> Scored {
    let of = |sum: f64| Sum::new(sum, written.completions.len() as f64);
    let tokens = written.completions.iter().map(|one| one.tokens.len());
    let truncated = written.completions.iter().filter(|one| !one.ended);
    let rewards = written.rewards.iter().map(|reward| f64::from(*reward));
    for (metric, sum) in [
        (REWARD, of(rewards.sum())),
        (COMPLETION_LENGTH, of(tokens.sum::<usize>() as f64)),
        (TRUNCATED, of(truncated.count() as f64)),
    ] {
        scored.added.insert(metric.name);
        scored = scored.with_metric(metric, sum);
    }
    scored
}
