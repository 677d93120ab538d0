//! How samples become features: convolutions over a channel of sound, one behind the other, without zeros beyond its ends (Baevski et
//! al. 2020, wav2vec 2.0, section 2).
//!
//! ```text
//! x ← act(norm(conv(x)))      frames ← ⌊(frames − size) / stride⌋ + 1
//! ```
//!
//! With the norm `first` the first convolution alone has one: of each channel over all frames of a recording. With `every` each has
//! one, of all channels of a frame. What fills up rows counts for neither, so that a recording has the same features alone and among
//! longer ones; transformers' model without an attention mask reads the zeros behind a recording, as this one reads samples of 0.

use super::over_frames::OverFrames;
use crate::faults::{TableFaults, WIDEST};
use crate::kernel;
use crate::model::speech::stem::unfolded;
use crate::nn::feed_forward::Activation;
use crate::nn::init::Init;
use crate::nn::linear::Linear;
use crate::nn::norm::LayerNorm;
use crate::nn::role::{Place, Roles, Says};
use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Convolutions, frames under a window, and the step of one, at most.
const MOST: usize = 64;
/// Added to variances, whatever the other norms of a model add.
const EPS: f64 = 1e-5;

/// Which convolutions have a norm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeatureNorm {
    /// The first one: each channel over the frames of a recording (wav2vec 2.0 base, HuBERT base).
    #[default]
    First,
    /// Every one: all channels of a frame (the large models).
    Every,
}

/// The knobs of the convolutions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SampleFeaturesConfig {
    /// Channels of each convolution. Source: Baevski et al. 2020, section 4.2.
    pub widths: Vec<usize>,
    /// Frames under the window of each convolution, as many as `widths`. Source: Baevski et al. 2020, section 4.2.
    pub sizes: Vec<usize>,
    /// The step of each convolution, as many as `widths`. Source: Baevski et al. 2020, section 4.2.
    pub strides: Vec<usize>,
    /// Which convolutions have a norm.
    pub norm: FeatureNorm,
    /// Whether convolutions have biases.
    pub bias: bool,
    /// The nonlinearity behind each of them.
    pub activation: Activation,
}

impl Default for SampleFeaturesConfig {
    fn default() -> Self {
        Self {
            widths: vec![512; 7],
            sizes: vec![10, 3, 3, 3, 3, 2, 2],
            strides: vec![5, 2, 2, 2, 2, 2, 2],
            norm: FeatureNorm::First,
            bias: false,
            activation: Activation::Gelu,
        }
    }
}

impl SampleFeaturesConfig {
    /// Faults of its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        let count = self.widths.len();
        for (key, numbers, most) in [
            ("widths", &self.widths, WIDEST),
            ("sizes", &self.sizes, MOST),
            ("strides", &self.strides, MOST),
        ] {
            let fine = (1..=MOST).contains(&numbers.len());
            if !fine || numbers.iter().any(|n| !(1..=most).contains(n)) {
                let rule = format!(
                    "{key} = {numbers:?} must be a list of 1 to {MOST} numbers, each from 1 to {most}"
                );
                at.fault(&[key], rule);
            } else if numbers.len() != count {
                let rule = format!(
                    "{key} = {numbers:?} has {} numbers, and widths has {count}: each convolution has one of both",
                    numbers.len()
                );
                at.fault(&[key, "widths"], rule);
            }
        }
    }

    /// Size and step of each convolution.
    fn windows(&self) -> impl DoubleEndedIterator<Item = [usize; 2]> {
        let windows = self.sizes.iter().zip(&self.strides);
        windows.map(|(size, stride)| [(*size).max(1), (*stride).max(1)])
    }

    /// Frames behind the first `convolutions` of a recording of so many samples, of which there is always one.
    fn behind(&self, convolutions: usize, samples: usize) -> usize {
        let windows = self.windows().take(convolutions);
        let frames = windows.fold(samples, |n, [size, stride]| match n >= size {
            true => (n - size) / stride + 1,
            false => 0,
        });
        frames.max(1)
    }

    /// Frames of a recording of so many samples.
    pub fn frames(&self, samples: usize) -> usize {
        self.behind(self.sizes.len(), samples)
    }

    /// Samples of the shortest recording that has a frame without zeros behind it.
    pub fn shortest(&self) -> usize {
        let windows = self.windows().rev();
        windows.fold(1, |n: usize, [size, stride]| {
            (n - 1).saturating_mul(stride).saturating_add(size)
        })
    }

    /// The channels that each convolution reads and makes, the frames under its window, and those that it makes of so many samples.
    fn layers(&self, samples: usize) -> impl Iterator<Item = [usize; 4]> {
        let mut inputs = 1;
        let layers = self.widths.iter().zip(&self.sizes).enumerate();
        layers.map(move |(number, (width, size))| {
            let frames = self.behind(number + 1, samples);
            [
                std::mem::replace(&mut inputs, *width),
                *width,
                *size,
                frames,
            ]
        })
    }

    /// Multiplications of a forward pass over a recording.
    pub(super) fn products(&self, samples: usize) -> u128 {
        let each = self.layers(samples);
        each.map(|[inputs, width, size, frames]| (inputs * size * width) as u128 * frames as u128)
            .sum()
    }

    /// Numbers that are kept of a recording for the backward pass: the frames under all windows, and what stands before and behind
    /// norms and nonlinearities.
    pub(super) fn kept(&self, samples: usize) -> u128 {
        let each = self.layers(samples);
        each.map(|[inputs, width, size, frames]| {
            (inputs * size + 3 * width) as u128 * frames as u128
        })
        .sum()
    }

    /// The convolutions.
    pub(super) fn build(&self, init: &Init) -> SampleFeatures {
        let (mut convolutions, mut norms) = (Vec::new(), Vec::new());
        for (number, [inputs, width, size, _]) in self.layers(0).enumerate() {
            let init = init.of(&number.to_string());
            // Variance 2/inputs, as He et al. 2015 have it for what a rectifier follows.
            let bound = (6.0 / (inputs * size).max(1) as f32).sqrt();
            convolutions.push(Linear {
                weight: init.uniform([width, inputs * size], move |u| bound * (2.0 * u - 1.0)),
                bias: self.bias.then(|| init.vector(width, 0.0)),
            });
            if self.norm == FeatureNorm::Every {
                norms.push(LayerNorm::new(width, EPS, 1.0, &init));
            }
        }
        let first = self.widths.first().copied().unwrap_or(1);
        let over_frames = self.norm == FeatureNorm::First;
        SampleFeatures {
            convolutions,
            norms,
            over_frames: over_frames.then(|| OverFrames::new(first, EPS, &init.of("over_frames"))),
            config: self.clone(),
        }
    }
}

/// What the parameters of [`SampleFeatures`] are.
pub const ROLES: Roles = Roles::new(
    "SampleFeatures",
    &[
        ("convolutions", Says::Stands(Place::Input)),
        ("norms", Says::Stands(Place::Input)),
        ("over_frames", Says::Stands(Place::Input)),
    ],
);

/// Convolutions over samples.
#[derive(Module, Debug)]
pub struct SampleFeatures {
    /// Each `[width, inputs·size]`: of an output, for each channel the weights of the frames under the window.
    pub convolutions: Vec<Linear>,
    /// Behind each of them, where every one has a norm.
    pub norms: Vec<LayerNorm>,
    /// Behind the first one, where it alone has a norm.
    pub over_frames: Option<OverFrames>,
    #[module(skip)]
    config: SampleFeaturesConfig,
}

impl SampleFeatures {
    /// Frames of each row.
    pub fn frames(&self, lengths: &[usize]) -> Vec<usize> {
        let each = lengths.iter();
        each.map(|samples| self.config.frames(*samples)).collect()
    }

    /// Samples `[batch, width]`, of which each row has so many, → `[batch, frames, channels]`.
    pub fn forward(&self, samples: Tensor<2>, lengths: &[usize]) -> Tensor<3> {
        let [batch, width] = samples.dims();
        let mut x = samples.reshape([batch, width, 1]);
        let lacking = self.config.shortest().saturating_sub(width);
        if lacking > 0 {
            x = x.pad((0, 0, 0, lacking), PadMode::Constant(0.0));
        }
        let activation: kernel::Activation = self.config.activation.into();
        let layers = self.convolutions.iter().zip(self.config.windows());
        for (number, (convolution, [size, stride])) in layers.enumerate() {
            let seen = unfolded(x, size, stride);
            let over_frames = self.over_frames.as_ref().filter(|_| number == 0);
            x = match (self.norms.get(number), over_frames) {
                (Some(norm), _) => {
                    kernel::activate(norm.forward(convolution.forward(seen)), activation)
                }
                (None, Some(norm)) => {
                    let frames = lengths.iter().map(|n| self.config.behind(1, *n)).collect();
                    let normed = norm.forward(convolution.forward(seen), frames);
                    kernel::activate(normed, activation)
                }
                (None, None) => convolution.activated(seen, activation),
            };
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_samples_are_those_of_wav2vec_2() {
        let config = SampleFeaturesConfig::default();
        // 25 ms make a frame, and one comes every 20 ms.
        assert_eq!(config.shortest(), 400);
        let found = [0, 399, 400, 719, 720, 16_000].map(|samples| config.frames(samples));
        assert_eq!(found, [1, 1, 1, 1, 2, 49]);
        assert_eq!(config.behind(1, 16_000), 3199);
        let first = 10 * 512 * 3199;
        assert!(config.products(16_000) > first);
    }
}
