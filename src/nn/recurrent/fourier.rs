//! The Fourier mixer of FNet (Lee-Thorp et al. 2021, arXiv:2105.03824, section 3.2): y = Re(F x G), where F is the discrete
//! Fourier transform over the positions of a text and G the one over the channels of a position. It has no parameters.
//!
//! Both transforms are matrix products, which every backend supports and which the authors use for short texts (section 3.3); the
//! length need not be a power of two. Since x is real and both matrices are symmetric, Re(F x G) = C x C' − S x S' with only
//! their cosines C, C' and sines S, S'.
//!
//! A text is transformed over its own n positions, whatever the longest text of its batch: padding is neither read nor counted,
//! so that a text has the same result by itself and beside others. The authors' code also transforms padding, so a padded row has
//! other results there.
//!
//! Every position reads all others, so the mixer can be used only in encoders, and in rows of one text each. Its results have no
//! dropout, as in the authors' code.

use super::Kind;
use crate::kernel;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::pass::tables::FourierTransforms;
use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "fourier",
    summary: "the real part of the discrete Fourier transform over positions and channels, for encoders: no parameters",
    source: "Lee-Thorp et al. 2021, FNet, section 3.2",
    example: "{ kind = \"fourier\" }",
};

/// `fourier` has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FourierConfig {}

impl FourierConfig {
    /// Returns the multiplications per position of a forward pass over a text of `tokens` positions, in a model of width
    /// `d_model`: two products along channels, two along positions.
    pub fn products(&self, d_model: usize, tokens: usize) -> u128 {
        let (d, tokens) = (d_model as u128, tokens as u128);
        2 * d * d + 2 * d * tokens
    }

    /// Returns the size per position of the matrices that all layers of a pass share, for a text of `tokens` positions: cosines
    /// and sines.
    pub fn shared_activations(&self, tokens: usize) -> u128 {
        2 * tokens as u128
    }
}

/// The Fourier mixer.
#[derive(Module, Debug)]
pub struct Fourier {}

impl Layer for Fourier {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let visible = cx.visible;
        assert!(
            !visible.causal && visible.documents.is_none(),
            "checks keep the Fourier mixer out of decoders and of rows with several documents"
        );
        let [_, seq, d_model] = x.dims();
        let waves = FourierTransforms::new(d_model, seq, visible.lengths.as_deref());
        let [channels, positions] = cx.pass.transforms(waves, &x);
        let both = kernel::linear(x, channels.squeeze_dim(0), None);
        let halves = [0, d_model].map(|from| both.clone().narrow(2, from, d_model));
        positions.matmul(Tensor::cat(halves.to_vec(), 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Visibility;
    use crate::nn::pass::Pass;
    use burn::tensor::{Device, TensorData};
    use std::f64::consts::TAU;

    const SHAPE: [usize; 3] = [3, 7, 6];

    fn inputs() -> Vec<f32> {
        let count = SHAPE.iter().product::<usize>();
        (0..count)
            .map(|i| ((i * i % 23) as f32 - 11.0) / 7.0)
            .collect()
    }

    /// Re Σ over positions and channels of one text, computed term by term.
    fn defined(x: &[f32], n: usize, d: usize) -> Vec<f64> {
        let phase = |a: usize, b: usize, of: usize| TAU * (a * b) as f64 / of as f64;
        let at = |i: usize, j: usize| {
            let terms = (0..n).flat_map(|k| (0..d).map(move |l| (k, l)));
            let each = |(k, l)| f64::from(x[k * d + l]) * (phase(i, k, n) + phase(j, l, d)).cos();
            terms.map(each).sum::<f64>()
        };
        (0..n)
            .flat_map(|i| (0..d).map(move |j| (i, j)))
            .map(|(i, j)| at(i, j))
            .collect()
    }

    fn mixed(lengths: Option<&[usize]>) -> Vec<f32> {
        let x = Tensor::<3>::from_data(TensorData::new(inputs(), SHAPE), &Device::flex());
        let pass = Pass::evaluation();
        let visible = lengths.map_or(Visibility::ALL, Visibility::from_lengths);
        let mut cx = LayerContext::standalone(SHAPE[1], &pass);
        cx.visible = &visible;
        let y = Fourier {}.forward(x, &mut cx);
        y.into_data().try_to_vec().unwrap()
    }

    #[test]
    fn texts_are_transformed_over_their_own_positions() {
        let [rows, seq, d] = SHAPE;
        let x = inputs();
        for lengths in [None, Some([7, 7, 7]), Some([7, 5, 1])] {
            let y = mixed(lengths.as_ref().map(<[usize; 3]>::as_slice));
            for row in 0..rows {
                let from = row * seq * d;
                let n = lengths.map_or(seq, |all| all[row]);
                let wanted = defined(&x[from..from + n * d], n, d);
                for (at, wanted) in wanted.iter().enumerate() {
                    let found = f64::from(y[from + at]);
                    assert!(
                        (found - wanted).abs() < 1e-4,
                        "row {row}: {found} for {wanted}"
                    );
                }
                let behind = &y[from + n * d..from + seq * d];
                assert!(behind.iter().all(|x| *x == 0.0));
            }
        }
    }
}
