//! A short causal depthwise convolution (Mamba's, Gu and Dao 2023, figure 3; with two taps, RWKV's mix of a position
//! with the previous one, Peng et al. 2023, equations 11 to 13): y_t = act(bias + Σ_j w_j·x_{t−K+1+j}).
//!
//! Positions before a sequence are zero. Positions before the row are taken from `before`, unless a sequence begins
//! in between.

pub mod composed;
#[cfg(feature = "flex")]
pub mod extension;
#[cfg(feature = "flex")]
mod tracked;

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::recurrent::Sequences;
#[cfg(feature = "flex")]
use super::{extension::maybe, has_flex_kernels};
#[cfg(feature = "flex")]
use extension::ShortConvolutionOps;

/// The tensors of a convolution over `[batch, seq]` positions and `channels`, with `taps` positions per output.
#[derive(Clone, Debug)]
pub struct ShortConvolution {
    /// Input, `[batch, seq, channels]`.
    pub x: Tensor<3>,
    /// Weight, `[channels, taps]`; the last tap is that of the position itself.
    pub weight: Tensor<2>,
    /// Bias, `[channels]`.
    pub bias: Option<Tensor<1>>,
    /// The `taps − 1` positions before the first one, oldest first, `[batch, (taps − 1)·channels]`; zeros if absent.
    /// They receive no gradient.
    pub before: Option<Tensor<2>>,
    /// Whether SiLU is applied to the result.
    pub silu: bool,
}

impl ShortConvolution {
    /// Returns the numbers of batch rows, positions, channels and taps.
    fn dims(&self) -> [usize; 4] {
        let ([batch, seq, channels], [_, taps]) = (self.x.dims(), self.weight.dims());
        [batch, seq, channels, taps]
    }

    fn require(&self) {
        let [batch, _, channels, taps] = self.dims();
        assert_eq!(self.weight.dims()[0], channels, "weights of a convolution");
        assert!(taps > 0, "taps of a convolution");
        if let Some(bias) = &self.bias {
            assert_eq!(bias.dims(), [channels], "bias of a convolution");
        }
        if let Some(before) = &self.before {
            let earlier = [batch, (taps - 1) * channels];
            assert_eq!(before.dims(), earlier, "positions before a convolution");
        }
    }
}

/// Returns y `[batch, seq, channels]`. Past a row's length y is meaningless.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn short_convolution(convolution: ShortConvolution, sequences: &Sequences) -> Tensor<3> {
    convolution.require();
    let [batch, seq, ..] = convolution.dims();
    sequences.require(batch, seq);
    if seq == 0 {
        return convolution.x;
    }
    #[cfg(feature = "flex")]
    if has_flex_kernels(&convolution.x) {
        let settings = extension::ShortConvolutionSettings {
            sequences: sequences.clone(),
            silu: convolution.silu,
        };
        let (channels, device) = (convolution.weight.dims()[0], convolution.x.device());
        let bias = convolution.bias;
        let bias = bias.unwrap_or_else(|| Tensor::zeros([channels], &device));
        let out = Dispatch::short_convolution(
            convolution.x.into_dispatch(),
            convolution.weight.into_dispatch(),
            bias.into_dispatch(),
            maybe(convolution.before.map(Tensor::detach)),
            settings,
        );
        return Tensor::from_dispatch(out);
    }
    composed::short_convolution(convolution, sequences)
}

/// Returns for each position of a row how many previous positions, at most `most`, it may read.
pub fn available_positions(
    sequences: &Sequences,
    [row, seq]: [usize; 2],
    most: usize,
) -> impl Iterator<Item = usize> + '_ {
    let begins = sequences.begins.as_ref();
    (0..seq).scan(most, move |reach, at| {
        let begins = begins.is_some_and(|begins| begins[row * seq + at]);
        *reach = if begins { 0 } else { (*reach + 1).min(most) };
        Some(*reach)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_looks_back_to_the_beginning_of_its_sequence() {
        let sequences = Sequences {
            begins: Some([false, false, true, false, false, false].into()),
            lengths: None,
        };
        let of = |row, seq| available_positions(&sequences, [row, seq], 2).collect::<Vec<_>>();
        assert_eq!(of(0, 6), [2, 2, 0, 1, 2, 2]);
        assert_eq!((of(0, 3), of(1, 3)), (vec![2, 2, 0], vec![2, 2, 2]));
    }
}
