//! State that steps on the same completions pass on to each other, and that checkpoints keep: the tokens of the
//! completions, their log-probabilities under the policy that sampled them, and each completion's length, end and
//! reward.
//!
//! The step loop treats it as the state of a recurrent model: vectors by row, from the previous step. A row without
//! vectors, or with zero vectors, begins with a new sampling.

use super::Rollouts;
use super::rollouts::Completion;
use crate::kernel;
use crate::model::CarriedWidths;
use crate::nn::state::LayerState;
use crate::stack::state::{BlockState, ModelState};
use burn::tensor::{DType, Device, Tensor, TensorData};

/// Numbers kept of each completion beside those of its tokens: its length, whether it ended, and its reward.
const VALUES_PER_COMPLETION: usize = 3;

/// Returns the widths of the vectors, for `count` completions of at most `most` tokens each.
pub fn widths(count: usize, most: usize) -> CarriedWidths {
    let tokens = count * most;
    CarriedWidths {
        d_model: 0,
        blocks: vec![[
            vec![tokens, tokens, count * VALUES_PER_COMPLETION],
            Vec::new(),
        ]],
    }
}

/// Returns the state before anything was sampled.
pub fn empty() -> ModelState {
    ModelState::new(vec![BlockState {
        own: LayerState::Recurrent(Vec::new()),
        ..BlockState::default()
    }])
}

/// Reads the completions sampled at an earlier step with `rows` rows; `None` if the state holds none that fit.
pub fn read(state: &ModelState, rows: usize, count: usize, most: usize) -> Option<Rollouts> {
    let Some(LayerState::Recurrent(vectors)) = state.layers.first().map(|block| &block.own) else {
        return None;
    };
    let [tokens, old, each] = vectors.as_slice() else {
        return None;
    };
    let values = |x: &Tensor<2>| -> Vec<f32> { kernel::read(x.clone()).iter::<f32>().collect() };
    let [tokens, old, each] = [tokens, old, each].map(values);
    let completions = rows * count;
    let fits = tokens.len() == completions * most
        && old.len() == tokens.len()
        && each.len() == completions * VALUES_PER_COMPLETION;
    if !fits || each.chunks(VALUES_PER_COMPLETION).any(|one| one[0] < 1.0) {
        return None;
    }
    let mut found = Rollouts::default();
    let mut likelihoods = Vec::new();
    for (number, one) in each.chunks(VALUES_PER_COMPLETION).enumerate() {
        let own = number * most..number * most + (one[0] as usize).min(most);
        found.completions.push(Completion {
            tokens: tokens[own.clone()].iter().map(|id| *id as u32).collect(),
            ended: one[1] > 0.0,
        });
        likelihoods.extend_from_slice(&old[own]);
        found.rewards.push(one[2]);
    }
    found.old = Some(likelihoods);
    Some(found)
}

/// Stores the sampled completions and `old`, the log-probabilities of all their tokens.
pub fn store(
    state: &mut ModelState,
    sampled: &Rollouts,
    old: &[f32],
    (rows, most): (usize, usize),
    device: &Device,
) {
    let count = sampled.completions.len();
    let (mut tokens, mut likelihoods) = (vec![0.0; count * most], vec![0.0; count * most]);
    let mut each = Vec::with_capacity(count * VALUES_PER_COMPLETION);
    let mut old = old.iter();
    for (number, completion) in sampled.completions.iter().enumerate() {
        for (place, token) in completion.tokens.iter().take(most).enumerate() {
            tokens[number * most + place] = *token as f32;
            likelihoods[number * most + place] = old.next().copied().unwrap_or_default();
        }
        let ended = f32::from(u8::from(completion.ended));
        each.extend([
            completion.tokens.len() as f32,
            ended,
            sampled.rewards[number],
        ]);
    }
    let vector = |values: Vec<f32>| {
        let width = values.len() / rows.max(1);
        let data = TensorData::new(values, [rows, width]);
        Tensor::<2>::from_data(data, (device, DType::F32))
    };
    let kept = LayerState::Recurrent([tokens, likelihoods, each].map(vector).into());
    state.layers = vec![BlockState {
        own: kept,
        ..BlockState::default()
    }];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sampled_comes_back() {
        let completion = |tokens: &[u32], ended| Completion {
            tokens: tokens.to_vec(),
            ended,
        };
        let sampled = Rollouts {
            completions: vec![completion(&[5, 1], true), completion(&[7, 7, 7], false)],
            rewards: vec![1.0, -0.5],
            old: None,
        };
        let old = [-0.5, -1.0, -2.0, -3.0, -4.0];
        let mut state = empty();
        assert_eq!(read(&state, 1, 2, 3), None);
        store(&mut state, &sampled, &old, (1, 3), &Device::flex());
        let wanted = Rollouts {
            old: Some(old.into()),
            ..sampled
        };
        assert_eq!(read(&state, 1, 2, 3), Some(wanted));
        // A row that begins again has zeros.
        state.reset(&[false]);
        assert_eq!(read(&state, 1, 2, 3), None);
        assert_eq!(read(&empty(), 1, 2, 3), None);
    }
}
