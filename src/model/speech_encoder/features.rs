//! The feature extractor: convolutions over mono audio samples, one after another, without padding (Baevski et
//! al. 2020, wav2vec 2.0, section 2).
//!
//! ```text
//! x ← act(norm(conv(x)))      frames ← ⌊(frames − size) / stride⌋ + 1
//! ```
//!
//! With the norm `first`, only the first convolution has a norm: of each channel over all frames of a clip. With `every`, each
//! has a norm, over all channels of a frame. Padding counts for neither, so that a clip has the same features alone and in a
//! batch with longer clips. Without an attention mask, the model of Hugging Face Transformers reads the zeros after a clip; this
//! one does so only if they are part of the clip.

use super::group_norm::OverFrames;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel;
use crate::model::speech::stem::unfold;
use crate::nn::feed_forward::Activation;
use crate::nn::init::Init;
use crate::nn::linear::Linear;
use crate::nn::norm::LayerNorm;
use crate::nn::role::{Declaration, Place, Roles};
use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of convolutions, window size and stride.
const MAX_SETTING: usize = 64;
/// Epsilon added to variances, independent of the model's other norms.
const EPS: f64 = 1e-5;

/// The convolutions that have a norm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeatureNorm {
    /// Only the first convolution: each channel is normalised over a clip's frames (wav2vec 2.0 base, HuBERT base).
    #[default]
    First,
    /// Every convolution: each frame is normalised over its channels (the large models).
    Every,
}

/// The settings of the convolutions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SampleFeaturesConfig {
    /// Output channels of each convolution. Source: Baevski et al. 2020, section 4.2.
    pub widths: Vec<usize>,
    /// Window size of each convolution in frames, one for each of `widths`. Source: Baevski et al. 2020, section 4.2.
    pub sizes: Vec<usize>,
    /// Stride of each convolution, one for each of `widths`. Source: Baevski et al. 2020, section 4.2.
    pub strides: Vec<usize>,
    /// The convolutions that have a norm.
    pub norm: FeatureNorm,
    /// Whether convolutions have biases.
    pub bias: bool,
    /// Activation after each convolution.
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
    /// Checks its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        let count = self.widths.len();
        for (key, numbers, most) in [
            ("widths", &self.widths, MAX_WIDTH),
            ("sizes", &self.sizes, MAX_SETTING),
            ("strides", &self.strides, MAX_SETTING),
        ] {
            let fine = (1..=MAX_SETTING).contains(&numbers.len());
            if !fine || numbers.iter().any(|n| !(1..=most).contains(n)) {
                let rule = format!(
                    "{key} = {numbers:?} must be a list of 1 to {MAX_SETTING} numbers, each from 1 to {most}"
                );
                at.fault(&[key], rule);
            } else if numbers.len() != count {
                let rule = format!(
                    "{key} = {numbers:?} has {} numbers, but widths has {count}; give one of each for every convolution",
                    numbers.len()
                );
                at.fault(&[key, "widths"], rule);
            }
        }
    }

    /// Returns window size and stride of each convolution.
    fn windows(&self) -> impl DoubleEndedIterator<Item = [usize; 2]> {
        let windows = self.sizes.iter().zip(&self.strides);
        windows.map(|(size, stride)| [(*size).max(1), (*stride).max(1)])
    }

    /// Number of frames after the first `convolutions` convolutions, for a clip of `samples` samples; at least 1.
    fn frames_after(&self, convolutions: usize, samples: usize) -> usize {
        let windows = self.windows().take(convolutions);
        let frames = windows.fold(samples, |n, [size, stride]| match n >= size {
            true => (n - size) / stride + 1,
            false => 0,
        });
        frames.max(1)
    }

    /// Number of frames for a clip of `samples` samples.
    pub fn frames(&self, samples: usize) -> usize {
        self.frames_after(self.sizes.len(), samples)
    }

    /// Number of samples of the shortest clip that gives a frame without padding.
    pub fn min_samples(&self) -> usize {
        let windows = self.windows().rev();
        windows.fold(1, |n: usize, [size, stride]| {
            (n - 1).saturating_mul(stride).saturating_add(size)
        })
    }

    /// Returns each convolution's input channels, output channels, window size, and number of output frames for `samples` samples.
    fn layers(&self, samples: usize) -> impl Iterator<Item = [usize; 4]> {
        let mut inputs = 1;
        let layers = self.widths.iter().zip(&self.sizes).enumerate();
        layers.map(move |(number, (width, size))| {
            let frames = self.frames_after(number + 1, samples);
            [
                std::mem::replace(&mut inputs, *width),
                *width,
                *size,
                frames,
            ]
        })
    }

    /// Multiplications of a forward pass over one audio clip.
    pub(super) fn products(&self, samples: usize) -> u128 {
        let each = self.layers(samples);
        each.map(|[inputs, width, size, frames]| (inputs * size * width) as u128 * frames as u128)
            .sum()
    }

    /// Elements kept for one audio clip for the backward pass: the frames in all windows, and the inputs and outputs of norms and
    /// activations.
    pub(super) fn activations(&self, samples: usize) -> u128 {
        let each = self.layers(samples);
        each.map(|[inputs, width, size, frames]| {
            (inputs * size + 3 * width) as u128 * frames as u128
        })
        .sum()
    }

    /// Builds the convolutions.
    pub(super) fn build(&self, init: &Init) -> SampleFeatures {
        let (mut convolutions, mut norms) = (Vec::new(), Vec::new());
        for (number, [inputs, width, size, _]) in self.layers(0).enumerate() {
            let init = init.part(&number.to_string());
            // Variance 2/inputs, as in He et al. 2015 for layers followed by a rectifier.
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
            over_frames: over_frames
                .then(|| OverFrames::new(first, EPS, &init.part("over_frames"))),
            config: self.clone(),
        }
    }
}

/// Places of the parameters of [`SampleFeatures`].
pub const ROLES: Roles = Roles::new(
    "SampleFeatures",
    &[
        ("convolutions", Declaration::Place(Place::Input)),
        ("norms", Declaration::Place(Place::Input)),
        ("over_frames", Declaration::Place(Place::Input)),
    ],
);

/// Convolutions over audio samples.
#[derive(Module, Debug)]
pub struct SampleFeatures {
    /// The convolutions, each `[width, inputs·size]`: for an output, the weights of the window's frames, input channel after input
    /// channel.
    pub convolutions: Vec<Linear>,
    /// The norms after the convolutions, if every one has a norm.
    pub norms: Vec<LayerNorm>,
    /// The norm after the first convolution, if only that one has a norm.
    pub over_frames: Option<OverFrames>,
    #[module(skip)]
    config: SampleFeaturesConfig,
}

impl SampleFeatures {
    /// Number of frames in each row.
    pub fn frames(&self, lengths: &[usize]) -> Vec<usize> {
        let each = lengths.iter();
        each.map(|samples| self.config.frames(*samples)).collect()
    }

    /// Computes features `[batch, frames, channels]` of samples `[batch, width]`; `lengths` are the rows' numbers of samples.
    pub fn forward(&self, samples: Tensor<2>, lengths: &[usize]) -> Tensor<3> {
        let [batch, width] = samples.dims();
        let mut x = samples.reshape([batch, width, 1]);
        let lacking = self.config.min_samples().saturating_sub(width);
        if lacking > 0 {
            x = x.pad((0, 0, 0, lacking), PadMode::Constant(0.0));
        }
        let activation: kernel::Activation = self.config.activation.into();
        let layers = self.convolutions.iter().zip(self.config.windows());
        for (number, (convolution, [size, stride])) in layers.enumerate() {
            let seen = unfold(x, size, stride);
            let over_frames = self.over_frames.as_ref().filter(|_| number == 0);
            x = match (self.norms.get(number), over_frames) {
                (Some(norm), _) => {
                    kernel::activate(norm.forward(convolution.forward(seen)), activation)
                }
                (None, Some(norm)) => {
                    let frames = lengths
                        .iter()
                        .map(|n| self.config.frames_after(1, *n))
                        .collect();
                    let normed = norm.forward(convolution.forward(seen), frames);
                    kernel::activate(normed, activation)
                }
                (None, None) => convolution.forward_activated(seen, activation),
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
        // A frame covers 25 ms, and there is one every 20 ms.
        assert_eq!(config.min_samples(), 400);
        let found = [0, 399, 400, 719, 720, 16_000].map(|samples| config.frames(samples));
        assert_eq!(found, [1, 1, 1, 1, 2, 49]);
        assert_eq!(config.frames_after(1, 16_000), 3199);
        let first = 10 * 512 * 3199;
        assert!(config.products(16_000) > first);
    }
}
