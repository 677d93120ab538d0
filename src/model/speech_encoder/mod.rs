//! An encoder of raw audio samples, with character scores at every frame for CTC: wav2vec 2.0 (Baevski et al. 2020) and HuBERT (Hsu
//! et al. 2021).
//!
//! ```text
//! z = projection(norm(features(samples)))      states = encoder(z + positions(z))      scores = head(states)
//! ```
//!
//! Padding is masked from attention and set to 0 for the convolution of positions, so that a clip has the same scores alone
//! and in a batch with longer clips. Losses are elsewhere: [`crate::task::ctc`], and [`crate::task::contrastive_speech`] for
//! pretraining without transcripts, whose network has no head.

mod config;
mod facts;
pub mod features;
pub mod group_norm;
pub mod masks;
pub mod positional;

pub use config::SpeechEncoderConfig;
pub use features::{FeatureNorm, SampleFeaturesConfig};
pub use masks::{FeatureMasks, FeatureMasksConfig};
pub use positional::ConvolutionalPositionsConfig;

use super::side::Side;
use super::{BuildContext, ModelConfig, Use};
use crate::kernel::replay;
use crate::nn::Kind;
use crate::nn::attention::Visibility;
use crate::nn::linear::Linear;
use crate::nn::norm::Norm;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use features::SampleFeatures;
use positional::ConvolutionalPositions;

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "speech_encoder",
    summary: "encoder of audio samples after convolutions, with character logits at every frame: wav2vec 2.0, HuBERT",
    source: "Baevski et al. 2020, wav2vec 2.0; Hsu et al. 2021, HuBERT",
    example: "kind = \"speech_encoder\"\nn_layers = 4\nd_model = 128\nnorm_placement = \"post\"\nembedding_norm = true\nposition = { kind = \"none\" }\nconvolutional_positions = { size = 16, groups = 4 }",
};

/// The uses that it serves.
pub(super) const USES: &[Use] = &[Use::SpeechCharacters, Use::MaskedFrames];

/// Places of the parameters of [`SpeechEncoder`].
pub const ROLES: Roles = Roles::new(
    "SpeechEncoder",
    &[
        ("features", Declaration::Place(Place::Input)),
        ("projection_norm", Declaration::Place(Place::Input)),
        ("projection", Declaration::Place(Place::Input)),
        ("mask_vector", TABLE),
        ("mask_vector", Declaration::Place(Place::Input)),
        (
            "convolutional_positions",
            Declaration::Place(Place::Position),
        ),
        ("head", Declaration::Place(Place::TokenHead)),
    ],
);

/// An encoder of raw audio samples.
#[derive(Module, Debug)]
pub struct SpeechEncoder {
    /// The convolutions from samples to features.
    pub features: SampleFeatures,
    /// The norm of the features.
    pub projection_norm: Option<Norm>,
    /// Projection from the features' width to the stack's.
    pub projection: Linear,
    /// The learned vector that replaces masked frames in training, `[d_model]`.
    pub mask_vector: Option<Param<Tensor<1>>>,
    /// The convolution over frames that adds positions.
    pub convolutional_positions: Option<ConvolutionalPositions>,
    /// The encoder stack.
    pub encoder: Side,
    /// The head of character scores, for CTC.
    pub head: Option<Linear>,
    #[module(skip)]
    masks: FeatureMasksConfig,
    dropout: f64,
    dropout_projection: f64,
}

/// The encoded frames of a batch of audio clips.
#[derive(Clone, Debug)]
pub struct Frames {
    /// Hidden states `[batch, frames, d_model]`.
    pub states: Tensor<3>,
    /// Number of frames in each row.
    pub lengths: Vec<usize>,
}

impl SpeechEncoder {
    /// Builds the network of a config; `None` if the config is of another kind, or the inputs have no audio.
    pub fn new(model: &ModelConfig, inputs: &BuildContext) -> Option<Self> {
        match model {
            ModelConfig::SpeechEncoder(c) => c.init(inputs),
            _ => None,
        }
    }

    /// Returns the network without its head of character scores.
    #[must_use]
    pub fn without_head(self) -> Self {
        Self { head: None, ..self }
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.projection.weight.val().device()
    }

    /// Computes hidden states of samples `[batch, width]`; `lengths` are the rows' numbers of samples. A training pass masks
    /// features.
    pub fn forward(&self, samples: Tensor<2>, lengths: &[usize], pass: &Pass) -> Frames {
        let features = self.normalise(self.features.forward(samples, lengths));
        let lengths = self.features.frames(lengths);
        let masked = pass.is_training() && !self.masks.is_none();
        let masks = masked.then(|| self.draw_masks(&features, &lengths, pass));
        self.encode(features, lengths, masks.as_ref(), pass)
    }

    /// Draws the masks of features `[batch, frames, channels]`; `lengths` are the rows' numbers of frames.
    pub fn draw_masks(&self, features: &Tensor<3>, lengths: &[usize], pass: &Pass) -> FeatureMasks {
        let ([_, longest, _], [d, _]) = (features.dims(), self.projection.weight.dims());
        self.masks.draw(lengths, [longest, d], pass)
    }

    /// Applies the norm of features `[batch, frames, channels]`, if there is one.
    pub fn normalise(&self, features: Tensor<3>) -> Tensor<3> {
        match &self.projection_norm {
            Some(norm) => norm.forward(features),
            None => features,
        }
    }

    /// Computes hidden states of normalised features `[batch, frames, channels]`; `lengths` are the rows' numbers of frames.
    pub fn encode(
        &self,
        features: Tensor<3>,
        lengths: Vec<usize>,
        masks: Option<&FeatureMasks>,
        pass: &Pass,
    ) -> Frames {
        let x = self.projection.forward(features);
        let x = pass.dropout(x, "projection", self.dropout_projection);
        let vector = self.mask_vector.as_ref().map(Param::val);
        let x = match masks {
            Some(masks) => masks.apply(x, vector),
            None => x,
        };
        let (x, filled) = zero_padding(x, &lengths);
        let x = match &self.convolutional_positions {
            Some(positions) => x.clone() + positions.forward(x),
            None => x,
        };
        let visible = match filled {
            true => Visibility::from_lengths(&lengths),
            false => Visibility::default(),
        };
        let states = self
            .encoder
            .forward(x, self.dropout, &visible, None, None, pass);
        Frames { states, lengths }
    }

    /// Computes character scores `[batch, frames, vocab]`.
    pub fn scores(&self, states: Tensor<3>) -> Tensor<3> {
        let Some(head) = &self.head else {
            unreachable!("networks for CTC have a head")
        };
        head.forward(states)
    }
}

/// Sets padded frames to zero; also returns whether there are any.
fn zero_padding(x: Tensor<3>, lengths: &[usize]) -> (Tensor<3>, bool) {
    let [_, longest, _] = x.dims();
    if lengths.iter().all(|length| *length >= longest) {
        return (x, false);
    }
    let own = own_frames(lengths, longest, &x.device());
    (x * own, true)
}

/// 1 for the frames of recordings of these lengths and 0 for padding, `[rows, frames, 1]`.
pub fn own_frames(lengths: &[usize], frames: usize, device: &Device) -> Tensor<3> {
    let row = |length: &usize| {
        let length = *length;
        (0..frames).map(move |frame| f32::from(u8::from(frame < length)))
    };
    let own: Vec<f32> = lengths.iter().flat_map(row).collect();
    replay::floats(TensorData::new(own, [lengths.len(), frames, 1]), device)
}
