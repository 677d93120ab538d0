//! Hash buckets of vectors: `argmax [xR; −xR]` with random rotations R (Andoni et al. 2015, arXiv:1509.02897, as used by Kitaev
//! et al. 2020).

use crate::kernel;
use crate::rng::Stream;
use burn::tensor::{FloatDType, Tensor, TensorData};
use rayon::prelude::*;

/// The random matrices of all heads and rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct HashRotations {
    /// `[heads, rounds, columns, d_head]`.
    numbers: Vec<f32>,
    heads: usize,
    rounds: usize,
    /// Half of each factor of the number of buckets: each column stands for a bucket, and its opposite for another.
    halves: Vec<usize>,
}

impl HashRotations {
    /// Creates rotations from these values, `[heads, rounds, columns, d_head]`, for these factors of the number of buckets.
    pub fn from_values(numbers: Vec<f32>, [heads, rounds]: [usize; 2], factors: &[usize]) -> Self {
        Self {
            numbers,
            heads,
            rounds,
            halves: factors.iter().map(|factor| factor / 2).collect(),
        }
    }

    /// Draws rotations from a normal distribution.
    pub fn draw(
        stream: &mut Stream,
        [heads, rounds, d_head]: [usize; 3],
        factors: &[usize],
    ) -> Self {
        let columns: usize = factors.iter().map(|factor| factor / 2).sum();
        let numbers = (0..heads * rounds * columns * d_head).map(|_| stream.normal());
        Self::from_values(numbers.collect(), [heads, rounds], factors)
    }

    /// Returns the number of columns of one round.
    fn columns(&self) -> usize {
        self.halves.iter().sum()
    }

    /// Returns the bucket of each vector of `x` `[batch, heads, tokens, d_head]` in each round, as
    /// `[batch, heads, rounds, tokens]`.
    pub fn buckets(&self, x: Tensor<4>) -> Vec<u32> {
        let [batch, heads, tokens, d_head] = x.dims();
        assert_eq!(heads, self.heads, "rotations for each head");
        let (columns, rounds) = (self.columns(), self.rounds);
        let (x, all) = (kernel::untracked(x), rounds * columns);
        let mut buckets = vec![0; batch * heads * rounds * tokens];
        for head in 0..heads {
            let of_head = &self.numbers[head * all * d_head..][..all * d_head];
            let rotation = TensorData::new(of_head.to_vec(), [all, d_head]);
            let rotation = Tensor::<2>::from_data(rotation, &x.device());
            let vectors = x
                .clone()
                .narrow(1, head, 1)
                .reshape([batch, tokens, d_head]);
            let rotated = kernel::linear(vectors, rotation, None).cast(FloatDType::F32);
            let rotated = kernel::read(rotated);
            let Ok(rotated) = rotated.as_slice::<f32>() else {
                unreachable!("float32 as it was cast")
            };
            let mut found = vec![0; batch * tokens * rounds];
            let each = found.par_iter_mut().zip(rotated.par_chunks(columns));
            each.with_min_len(1024)
                .for_each(|(bucket, rotated)| *bucket = self.bucket(rotated));
            for (row, found) in found.chunks_exact(tokens * rounds).enumerate() {
                let place = (row * heads + head) * rounds * tokens;
                for (token, found) in found.chunks_exact(rounds).enumerate() {
                    for (round, bucket) in found.iter().enumerate() {
                        buckets[place + round * tokens + token] = *bucket;
                    }
                }
            }
        }
        buckets
    }

    /// Returns the bucket of a rotated vector: one digit for each factor, the first digit the lowest.
    fn bucket(&self, rotated: &[f32]) -> u32 {
        let (mut bucket, mut unit, mut rest) = (0, 1, rotated);
        for half in &self.halves {
            let (now, later) = rest.split_at(*half);
            bucket += unit * signed_argmax(now) as u32;
            unit *= 2 * *half as u32;
            rest = later;
        }
        bucket
    }
}

/// Returns the index of the largest number in `[x; −x]`, the first of equals.
fn signed_argmax(x: &[f32]) -> usize {
    let (mut high, mut low) = ((0, f32::NEG_INFINITY), (0, f32::INFINITY));
    for (i, x) in x.iter().enumerate() {
        if *x > high.1 {
            high = (i, *x);
        }
        if *x < low.1 {
            low = (i, *x);
        }
    }
    match high.1 >= -low.1 {
        true => high.0,
        false => x.len() + low.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn buckets_are_the_nearest_columns() {
        assert_eq!(signed_argmax(&[0.5, -2.0, 1.0]), 4);
        assert_eq!(signed_argmax(&[0.5, -1.0, 2.0]), 2);
        // Two factors, of two and four buckets: the first column is the lower digit.
        let columns = vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
        let rotations = HashRotations::from_values(columns, [1, 1], &[2, 4]);
        let x = TensorData::new(vec![1.0f32, 0.1, -1.0, -2.0], [1, 1, 2, 2]);
        let x = Tensor::from_data(x, &Device::flex());
        // (1, 0.1): 1 | 0.1, 1.1; (−1, −2): −1 | −2, −3.
        assert_eq!(rotations.buckets(x), [2, 1 + 2 * 3]);
    }
}
