//! The stem of a speech encoder: convolutions over the frames of log-mel features (Radford et al. 2022, section 2.2).
//!
//! ```text
//! x ← act(conv(x))     once for each stride, each over `size` frames, with zeros beyond both ends
//! ```
//!
//! A convolution is one matrix product: the frames in each window are concatenated, and the matrix holds an output channel's
//! weights for all of them, in the order of PyTorch's `[outputs, inputs, size]`.

use crate::data::SpeechShape;
use crate::faults::TableFaults;
use crate::nn::feed_forward::Activation;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::role::{Declaration, Place, Roles};
use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of frames in a window.
const MAX_WINDOW: usize = 101;
/// Maximum number of convolutions, and maximum stride.
const MAX_CONVOLUTIONS: usize = 16;

/// The settings of the convolutions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpeechStemConfig {
    /// Window size of each convolution in frames, an odd number. Source: Radford et al. 2022, section 2.2.
    #[schemars(range(min = 1, max = MAX_WINDOW))]
    pub size: usize,
    /// Stride of each convolution; one convolution for each stride. Source: Radford et al. 2022, section 2.2.
    pub strides: Vec<usize>,
    /// Activation after each convolution.
    pub activation: Activation,
}

impl Default for SpeechStemConfig {
    fn default() -> Self {
        Self {
            size: 3,
            strides: vec![1, 2],
            activation: Activation::Gelu,
        }
    }
}

impl SpeechStemConfig {
    /// Checks its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        if at.count("size", self.size, MAX_WINDOW) && self.size.is_multiple_of(2) {
            let rule = format!(
                "size = {} must be odd, so that a window has a middle frame; use {} or {}",
                self.size,
                self.size - 1,
                self.size + 1
            );
            at.fault(&["size"], rule);
        }
        let (count, strides) = (self.strides.len(), &self.strides);
        if !(1..=MAX_CONVOLUTIONS).contains(&count)
            || strides.iter().any(|n| !(1..=MAX_CONVOLUTIONS).contains(n))
        {
            let rule = format!(
                "strides = {strides:?} must be a list of 1 to {MAX_CONVOLUTIONS} steps, each from 1 to {MAX_CONVOLUTIONS}"
            );
            at.fault(&["strides"], rule);
        }
    }

    /// Number of output positions for this many frames.
    pub fn positions(&self, frames: usize) -> usize {
        let steps = self.strides.iter();
        steps.fold(frames, |frames, step| frames.div_ceil((*step).max(1)))
    }

    /// Multiplications of a forward pass over one audio clip.
    pub(super) fn products(&self, speech: SpeechShape, d_model: usize) -> u128 {
        let layers = self.layers(speech, d_model);
        layers
            .map(|[inputs, frames]| (inputs * self.size * d_model) as u128 * frames as u128)
            .sum()
    }

    /// Elements kept for one audio clip for the backward pass: the frames in all windows, and the inputs and outputs of
    /// activations.
    pub(super) fn activations(&self, speech: SpeechShape, d_model: usize) -> u128 {
        let layers = self.layers(speech, d_model);
        layers
            .map(|[inputs, frames]| (inputs * self.size + 2 * d_model) as u128 * frames as u128)
            .sum()
    }

    /// Returns the input channels and the output frames of each convolution.
    fn layers(&self, speech: SpeechShape, d_model: usize) -> impl Iterator<Item = [usize; 2]> {
        let (mut inputs, mut frames) = (speech.n_mels, speech.n_frames);
        self.strides.iter().map(move |step| {
            frames = frames.div_ceil((*step).max(1));
            [std::mem::replace(&mut inputs, d_model), frames]
        })
    }

    /// Builds the convolutions for features with `n_mels` mel bands.
    pub(super) fn build(&self, n_mels: usize, d_model: usize, init: &Init) -> SpeechStem {
        let convolution = |number: usize| {
            let (inputs, role) = match number {
                0 => (n_mels, MatrixRole::Input),
                _ => (d_model, MatrixRole::Inner),
            };
            let init = init.part(&number.to_string());
            Linear::new(inputs * self.size, d_model, true, role, &init)
        };
        SpeechStem {
            convolutions: (0..self.strides.len()).map(convolution).collect(),
            size: self.size,
            strides: self.strides.clone(),
            activation: self.activation,
        }
    }
}

/// Places of the parameters of [`SpeechStem`].
pub const ROLES: Roles = Roles::new(
    "SpeechStem",
    &[("convolutions", Declaration::Place(Place::Input))],
);

/// Convolutions over the frames of audio clips.
#[derive(Module, Debug)]
pub struct SpeechStem {
    /// The convolutions, each `[d_model, inputs·size]`: for an output, the weights of the window's frames, input channel after
    /// input channel.
    pub convolutions: Vec<Linear>,
    size: usize,
    #[module(skip)]
    strides: Vec<usize>,
    #[module(skip)]
    activation: Activation,
}

impl SpeechStem {
    /// Computes the encoder's input: log-mel features `[batch, n_mels, frames]` → `[batch, positions, d_model]`.
    pub fn forward(&self, features: Tensor<3>) -> Tensor<3> {
        let layers = self.convolutions.iter().zip(&self.strides);
        layers.fold(features.swap_dims(1, 2), |x, (convolution, stride)| {
            convolution
                .forward_activated(unfold_padded(x, self.size, *stride), self.activation.into())
        })
    }
}

/// Concatenates the frames in each window: `[batch, frames, channels]` → `[batch, ⌈frames/stride⌉, channels·size]`, channel after
/// channel, with zeros beyond both ends.
fn unfold_padded(x: Tensor<3>, size: usize, stride: usize) -> Tensor<3> {
    let frames = x.dims()[1];
    let made = frames.div_ceil(stride);
    // The number of strides that the last window reaches into.
    let steps = made + (size - 1) / stride;
    let (before, all) = (size / 2, steps * stride);
    let behind = all.saturating_sub(before + frames);
    let x = x.pad((0, 0, before, behind), PadMode::Constant(0.0));
    concat_frames(x, [size, stride], made)
}

/// Concatenates the frames in each window that lies entirely within a clip: `[batch, frames, channels]` →
/// `[batch, ⌊(frames−size)/stride⌋ + 1, channels·size]`, channel after channel.
pub fn unfold(x: Tensor<3>, size: usize, stride: usize) -> Tensor<3> {
    let frames = x.dims()[1];
    assert!(frames >= size, "a recording is as long as a window");
    let made = (frames - size) / stride + 1;
    let behind = ((made + (size - 1) / stride) * stride).saturating_sub(frames);
    let x = match behind {
        0 => x,
        _ => x.pad((0, 0, 0, behind), PadMode::Constant(0.0)),
    };
    concat_frames(x, [size, stride], made)
}

/// Concatenates the frames in `made` consecutive windows from the first frame on; the frames must fill whole strides.
fn concat_frames(x: Tensor<3>, [size, stride]: [usize; 2], made: usize) -> Tensor<3> {
    let [batch, _, planes] = x.dims();
    let steps = made + (size - 1) / stride;
    let x = x.narrow(1, 0, steps * stride);
    let x = x.reshape([batch, steps, stride, planes]);
    let under = (0..size).map(|place| {
        let one = x.clone().narrow(1, place / stride, made);
        let one = one.narrow(2, place % stride, 1);
        one.reshape([batch, made, planes, 1])
    });
    Tensor::cat(under.collect(), 3).reshape([batch, made, planes * size])
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    #[test]
    fn windows_are_pytorch_s() {
        let device = Device::default();
        let values: Vec<f32> = (1..=10).map(|n| n as f32).collect();
        // Two channels of five frames: (1, 2), (3, 4) and so on.
        let x = Tensor::<3>::from_data(TensorData::new(values, [1, 5, 2]), &device);
        let all = |x: Tensor<3>| x.into_data().try_to_vec::<f32>().unwrap_or_default();
        let by_one = unfold_padded(x.clone(), 3, 1);
        assert_eq!(by_one.dims(), [1, 5, 6]);
        assert_eq!(all(by_one.clone())[..6], [0.0, 1.0, 3.0, 0.0, 2.0, 4.0]);
        assert_eq!(all(by_one)[24..], [7.0, 9.0, 0.0, 8.0, 10.0, 0.0]);
        let by_two = unfold_padded(x.clone(), 3, 2);
        assert_eq!(by_two.dims(), [1, 3, 6]);
        assert_eq!(all(by_two.clone())[..6], [0.0, 1.0, 3.0, 0.0, 2.0, 4.0]);
        assert_eq!(all(by_two)[12..], [7.0, 9.0, 0.0, 8.0, 10.0, 0.0]);
        let wide = unfold_padded(x, 5, 3);
        assert_eq!(wide.dims(), [1, 2, 10]);
        assert_eq!(all(wide)[10..15], [3.0, 5.0, 7.0, 9.0, 0.0]);
    }

    #[test]
    fn windows_within_a_recording_are_pytorch_s() {
        let values: Vec<f32> = (1..=7).map(|n| n as f32).collect();
        let x = Tensor::<3>::from_data(TensorData::new(values, [1, 7, 1]), &Device::default());
        let cut = |size, stride| {
            let found = unfold(x.clone(), size, stride);
            let made = found.dims()[1];
            (
                made,
                found.into_data().try_to_vec::<f32>().unwrap_or_default(),
            )
        };
        assert_eq!(
            cut(3, 2),
            (3, vec![1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 5.0, 6.0, 7.0])
        );
        assert_eq!(cut(2, 2), (3, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        assert_eq!(cut(4, 5), (1, vec![1.0, 2.0, 3.0, 4.0]));
        assert_eq!(cut(7, 1).0, 1);
    }

    #[test]
    fn a_recording_keeps_half_of_its_frames() {
        let config = SpeechStemConfig::default();
        assert_eq!(
            [3000, 2999, 1].map(|n| config.positions(n)),
            [1500, 1500, 1]
        );
        let speech = SpeechShape {
            n_mels: 80,
            n_frames: 3000,
            normalized: false,
        };
        let products = 3 * 384 * (80 * 3000 + 384 * 1500);
        assert_eq!(config.products(speech, 384), products);
    }
}
