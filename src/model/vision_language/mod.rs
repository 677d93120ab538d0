//! A decoder that looks at an image: cross-attention between its blocks (Alayrac et al. 2022, Flamingo, section 2).
//!
//! ```text
//! memory = resampler(image network(pixels))      logits = decoder(tokens), where before every n-th block x ← cross block(x, memory)
//! ```
//!
//! A text has one image, which all of its tokens see. With gates that begin at 0 it is Flamingo, whose networks are those of
//! other runs and frozen (`[init]`); without gates and with a block before each of the decoder's it is an encoder of images with
//! a decoder of captions. Not here: the loss.

mod config;
pub mod cross;
mod facts;
pub mod resampler;

pub use config::VisionLanguageConfig;
pub use cross::{CrossBlock, CrossConfig, Gate};
pub use resampler::{Resampler, ResamplerConfig};

use super::decoder::DecoderInput;
use super::heads::VocabularyHead;
use super::{Decoder, ImageModel, LanguageModel, ModelConfig, ModelInputs, Use};
use crate::nn::Kind;
use crate::nn::attention::Visibility;
use crate::nn::pass::Pass;
use crate::nn::role::{Place, Roles, Says};
use crate::nn::state::{LayerState, StateUse};
use crate::stack::{Between, ModelState};
use burn::module::Module;
use burn::tensor::{Int, Tensor};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "vision_language",
    summary: "a decoder that looks at an image between its blocks: Flamingo, encoders with decoders of captions",
    source: "Alayrac et al. 2022, Flamingo",
    example: "kind = \"vision_language\"\nimage = { kind = \"vision\", n_layers = 4, d_model = 128 }\ntext = { kind = \"decoder\", n_layers = 4, d_model = 128 }\nresampler = { n_latents = 16, n_layers = 2 }\ncross_attention = { every = 2, feed_forward = { kind = \"dense\" } }",
};

/// The uses that it serves.
pub(super) const USES: &[Use] = &[Use::ImageToText];

/// What the parameters of [`VisionLanguage`] are.
pub const ROLES: Roles = Roles::new("VisionLanguage", &[("cross", Says::Stands(Place::Blocks))]);

/// A decoder that looks at images.
#[derive(Module, Debug)]
pub struct VisionLanguage {
    /// Reads images.
    pub image: ImageModel,
    /// Makes fewer vectors of an image.
    pub resampler: Option<Resampler>,
    /// Blocks that look at the image, in the order of the decoder's before which they stand.
    pub cross: Vec<CrossBlock>,
    /// Writes.
    pub text: Decoder,
    every: usize,
}

impl VisionLanguage {
    /// The network of a config; `None` when the config is of another kind, or the inputs have no image.
    pub fn new(model: &ModelConfig, inputs: &ModelInputs) -> Option<Self> {
        match model {
            ModelConfig::VisionLanguage(c) => c.init(inputs),
            _ => None,
        }
    }

    /// What the decoder looks at of images `[batch, channels, height, width]`: `[batch, vectors, features]`.
    pub fn look(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        let read = pass.within("image", || self.image.looked_at(pixels, pass));
        match &self.resampler {
            Some(resampler) => pass.within("resampler", || resampler.forward(&read, pass)),
            None => read,
        }
    }

    /// The language model of texts about these images: what [`Self::look`] gave, a row for each text.
    pub fn seeing(&self, memory: Tensor<3>) -> Seeing<'_> {
        Seeing {
            network: self,
            memory,
        }
    }
}

/// A decoder with the images that its texts are about.
#[derive(Clone, Debug)]
pub struct Seeing<'a> {
    network: &'a VisionLanguage,
    memory: Tensor<3>,
}

impl Seeing<'_> {
    /// The same for other rows: row i sees the image of `rows[i]`.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        self.memory = self.memory.clone().select(0, rows.clone());
    }
}

impl Between for Seeing<'_> {
    fn before(
        &self,
        layer: usize,
        x: Tensor<3>,
        kept: Option<&mut LayerState>,
        visible: &Visibility,
        pass: &Pass,
    ) -> Tensor<3> {
        let (number, rest) = (layer / self.network.every, layer % self.network.every);
        let block = self.network.cross.get(number);
        match block.filter(|_| rest == 0) {
            Some(block) => pass.block(format_args!("cross.{number}"), || {
                block.forward(x, &self.memory, kept, (number, visible), pass)
            }),
            None => x,
        }
    }
}

impl LanguageModel for Seeing<'_> {
    fn empty_state(&self, of: StateUse) -> ModelState {
        let mut state = self.network.text.empty_state(of);
        let looking = state.layers.iter_mut().step_by(self.network.every);
        for (layer, block) in looking.zip(&self.network.cross) {
            layer.cross = block.empty_state(of);
        }
        state
    }

    fn max_len(&self) -> Option<usize> {
        self.network.text.max_len()
    }

    fn cache_is_stale_after(&self, seen: usize) -> bool {
        self.network.text.cache_is_stale_after(seen)
    }

    fn forward(
        &self,
        input: DecoderInput,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        pass.within("text", || {
            self.network
                .text
                .forward_with(Some(self), input, state, pass)
        })
    }

    fn vocabulary_head(&self) -> VocabularyHead<'_> {
        self.network.text.vocabulary_head()
    }
}
