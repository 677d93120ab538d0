//! Sampling from a generator: one token for each masked position, by one uniform draw.
//!
//! The sampled token is the first one whose cumulative probability exceeds the draw. This is the same distribution as
//! the maximum of logits with Gumbel noise, which would need a draw for each token of the vocabulary. Draws are a
//! function of (seed, step, row of the step's batch), so that neither micro-batches nor a resume nor padding change
//! them.

use crate::data::batch::TextBatch;
use crate::kernel;
use crate::nn::pass::Pass;
use crate::rng::Purpose;
use burn::tensor::{FloatDType, Tensor, TensorData, activation};

/// Returns the uniform draws for the scored positions of a batch, row by row.
pub fn draws(texts: &TextBatch, pass: &Pass) -> Vec<f32> {
    let rows = texts.targets.chunks(texts.cols.max(1)).enumerate();
    let draws = rows.flat_map(|(row, targets)| {
        let mut stream = pass.stream(Purpose::Sampled, row);
        let scored = targets.iter().filter(|target| **target >= 0);
        scored.map(|_| stream.uniform()).collect::<Vec<f32>>()
    });
    draws.collect()
}

/// Samples a token for each row of logits `[n, vocab]` by its draw, from softmax(scores / temperature); nothing is
/// tracked.
pub fn sample_tokens(scores: Tensor<2>, temperature: f64, draws: &[f32]) -> Vec<i32> {
    let [n, vocab] = scores.dims();
    assert_eq!(n, draws.len(), "one draw for each row of scores");
    let scores = kernel::untracked(scores).cast(FloatDType::F32);
    let scores = match temperature == 1.0 {
        true => scores,
        false => scores / temperature,
    };
    let below = activation::softmax(scores, 1).cumsum(1);
    let all = below.clone().slice([0..n, vocab - 1..vocab]);
    let draws = TensorData::new(draws.to_vec(), [n, 1]);
    let draws = Tensor::<2>::from_data(draws, (&below.device(), below.dtype())) * all;
    let passed = below.lower_equal(draws.expand([n, vocab])).int();
    let tokens = kernel::read(passed.sum_dim(1));
    let last = vocab.saturating_sub(1) as i32;
    tokens.iter::<i32>().map(|token| token.min(last)).collect()
}

/// Texts with samples at the scored positions, and which of their tokens differ from the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedTexts {
    /// Token ids `[rows, cols]`.
    pub inputs: Vec<i32>,
    /// 1 for a token that differs from the original, else 0; `[rows, cols]`.
    pub replaced: Vec<i32>,
}

impl ReplacedTexts {
    /// Inserts a sample at each scored position of masked texts.
    pub fn new(texts: &TextBatch, samples: &[i32]) -> Self {
        let mut samples = samples.iter();
        let tokens = texts.inputs.iter().zip(&texts.targets);
        let tokens = tokens.map(|(input, target)| match target {
            target if *target >= 0 => {
                let sample = *samples.next().unwrap_or(target);
                (sample, i32::from(sample != *target))
            }
            _ => (*input, 0),
        });
        let (inputs, replaced) = tokens.unzip();
        Self { inputs, replaced }
    }

    /// Builds the result for masked texts without a generator: the token at each masked position counts as its sample.
    pub fn as_masked(texts: &TextBatch) -> Self {
        let pairs = texts.inputs.iter().zip(&texts.targets);
        let scored = pairs.filter(|(_, target)| **target >= 0);
        let standing: Vec<i32> = scored.map(|(input, _)| *input).collect();
        Self::new(texts, &standing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::NOT_SCORED;
    use burn::tensor::Device;

    fn texts() -> TextBatch {
        TextBatch {
            inputs: vec![1, 9, 3, 9, 5, 6],
            targets: vec![NOT_SCORED, 2, NOT_SCORED, 4, NOT_SCORED, NOT_SCORED],
            cols: 3,
            ..TextBatch::default()
        }
    }

    #[test]
    fn a_sample_that_is_the_text_s_own_token_is_no_replacement() {
        let replaced = ReplacedTexts::new(&texts(), &[7, 4]);
        assert_eq!(replaced.inputs, [1, 7, 3, 4, 5, 6]);
        assert_eq!(replaced.replaced, [0, 1, 0, 0, 0, 0]);
        let masked = ReplacedTexts::as_masked(&texts());
        assert_eq!(masked.inputs, texts().inputs);
        assert_eq!(masked.replaced, [0, 1, 0, 1, 0, 0]);
    }

    #[test]
    fn tokens_are_drawn_as_often_as_they_are_probable() {
        let shares = [0.5f32, 0.125, 0.0, 0.375];
        let scores: Vec<f32> = shares.iter().map(|p| (p + 1e-30).ln()).collect();
        let n = 4096;
        let scores = Tensor::<2>::from_data(
            TensorData::new(scores.repeat(n), [n, 4]),
            &Device::default(),
        );
        let draws: Vec<f32> = (0..n).map(|i| (i as f32 + 0.5) / n as f32).collect();
        for (temperature, wanted) in [
            (1.0, shares),
            // p², normalised.
            (0.5, [0.6153846, 0.0384615, 0.0, 0.34615386]),
        ] {
            let found = sample_tokens(scores.clone(), temperature, &draws);
            for (token, share) in wanted.iter().enumerate() {
                let times = found.iter().filter(|id| **id == token as i32).count();
                let off = (times as f32 / n as f32 - share).abs();
                assert!(off < 1.0 / n as f32, "{token} at {temperature}: {times}");
            }
        }
    }

    #[test]
    fn the_first_and_the_last_draw_give_tokens_that_are_probable() {
        let scores = TensorData::new(vec![-1e9f32, 0.0, 0.0, -1e9], [1, 4]);
        let scores = Tensor::<2>::from_data(scores, &Device::default());
        let last = 1.0 - f32::EPSILON / 2.0;
        for (draw, wanted) in [(0.0, 1), (0.49, 1), (0.51, 2), (last, 2)] {
            assert_eq!(
                sample_tokens(scores.clone(), 1.0, &[draw]),
                [wanted],
                "{draw}"
            );
        }
    }
}
