//! Group norm with one group per channel (Wu and He 2018), over the frames of each audio clip:
//!
//! ```text
//! y(t, c) = γ_c (x(t, c) − μ_c) / √(σ²_c + ε) + β_c      μ_c and σ²_c over the frames t of one audio clip
//! ```
//!
//! Padded frames count neither for means nor for variances. The norm is one operation of the graph, which keeps only the centred
//! input.

use crate::kernel::custom_op::{CustomGradients, Leaves, custom_op};
use crate::kernel::{replay, untracked};
use crate::nn::init::Init;
use crate::nn::role::{NORM, Roles};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};

/// Places of the parameters of [`OverFrames`].
pub const ROLES: Roles = Roles::new("OverFrames", &[("gamma", NORM), ("beta", NORM)]);

/// A norm of each channel over frames, with gain γ and shift β.
#[derive(Module, Debug)]
pub struct OverFrames {
    /// The gain γ, `[channels]`, initially 1.
    pub gamma: Param<Tensor<1>>,
    /// The shift β, `[channels]`, initially 0.
    pub beta: Param<Tensor<1>>,
    eps: f64,
}

/// Masks of the frames of each row.
#[derive(Clone, Debug)]
struct FrameMasks {
    /// Averaging weights, `[batch, 1, frames]`: 1/length for a row's own frames, 0 for padding.
    mean: Tensor<3>,
    /// Mask of a row's own frames, `[batch, frames, 1]`; `None` if no row is padded.
    own: Option<Tensor<3>>,
}

impl FrameMasks {
    fn new(lengths: &[usize], longest: usize, device: &Device) -> Self {
        let rows = lengths.len();
        let of_rows = |value: &dyn Fn(usize) -> f32| -> Vec<f32> {
            let row = |length: &usize| {
                let length = (*length).min(longest);
                let (value, behind) = (value(length), longest - length);
                let own = std::iter::repeat_n(value, length);
                own.chain(std::iter::repeat_n(0.0, behind))
            };
            lengths.iter().flat_map(row).collect()
        };
        let means = of_rows(&|length| 1.0 / length.max(1) as f32);
        let filled = lengths.iter().any(|length| *length < longest);
        let tensor = |values, shape| replay::floats(TensorData::new(values, shape), device);
        Self {
            mean: tensor(means, [rows, 1, longest]),
            own: filled.then(|| tensor(of_rows(&|_| 1.0), [rows, longest, 1])),
        }
    }

    /// Averages `x` `[batch, frames, channels]` over each row's own frames: `[batch, 1, channels]`.
    fn mean(&self, x: Tensor<3>) -> Tensor<3> {
        self.mean.clone().matmul(x)
    }
}

impl OverFrames {
    /// Builds a norm over this many channels.
    pub fn new(channels: usize, eps: f64, init: &Init) -> Self {
        Self {
            gamma: init.vector(channels, 1.0),
            beta: init.vector(channels, 0.0),
            eps,
        }
    }

    /// Normalises `[batch, frames, channels]`; `lengths` are the rows' numbers of frames.
    pub fn forward(&self, x: Tensor<3>, lengths: Vec<usize>) -> Tensor<3> {
        let [_, longest, channels] = x.dims();
        let [gamma, beta] = [&self.gamma, &self.beta].map(|v| v.val().reshape([1, 1, channels]));
        let plain = untracked(x.clone());
        let frames = FrameMasks::new(&lengths, longest, &plain.device());
        let centred = plain.clone() - frames.mean(plain);
        let variance = frames.mean(centred.clone().square());
        let inverse = (variance + self.eps).sqrt().recip();
        let [plain_gamma, plain_beta] = [&gamma, &beta].map(|v| untracked(v.clone()));
        let scale = inverse.clone() * plain_gamma.clone();
        let y = centred.clone() * scale + plain_beta;
        if !x.is_autodiff() {
            return y;
        }
        custom_op(
            vec![x, gamma, beta],
            &Leaves::default(),
            y,
            move |outer, _| {
                let normed = centred * inverse.clone();
                let along = outer.clone() * normed.clone();
                let sum = |x: Tensor<3>| x.sum_dim(1).sum_dim(0);
                let (of_gamma, of_beta) = (sum(along.clone()), sum(outer.clone()));
                let less = normed * frames.mean(along) + frames.mean(outer.clone());
                let less = match frames.own {
                    Some(own) => less * own,
                    None => less,
                };
                CustomGradients {
                    inputs: vec![
                        Some((outer - less) * (inverse * plain_gamma)),
                        Some(of_gamma),
                        Some(of_beta),
                    ],
                    parameters: Vec::new(),
                }
            },
        )
    }
}
