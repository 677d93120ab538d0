//! A decoder that reads an image through cross-attention between its blocks (Alayrac et al. 2022, Flamingo, section 2).
//!
//! ```text
//! memory = resampler(image network(pixels))      logits = decoder(tokens), with x ← cross block(x, memory) before every n-th block
//! ```
//!
//! Each text has one image, which all of its tokens see. With gates that start at 0 it is Flamingo, whose image network and
//! decoder are taken from other runs and frozen (`[init]`). Without gates, and with a cross-attention block before each decoder
//! block, it is an image encoder with a captioning decoder. The loss is elsewhere.

mod config;
pub mod cross;
mod facts;
pub mod resampler;

pub use config::VisionLanguageConfig;
pub use cross::{CrossBlock, CrossConfig, Gate};
pub use resampler::{Resampler, ResamplerConfig};

use super::decoder::DecoderInput;
use super::heads::VocabularyHead;
use super::{BuildContext, Decoder, ImageModel, LanguageModel, ModelConfig, Use};
use crate::nn::Kind;
use crate::nn::attention::Visibility;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles};
use crate::nn::state::{LayerState, StateUse};
use crate::stack::{BeforeBlock, ModelState};
use burn::module::Module;
use burn::tensor::{Int, Tensor};

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "vision_language",
    summary: "decoder with cross-attention to an image between its blocks: Flamingo, image captioning models",
    source: "Alayrac et al. 2022, Flamingo",
    example: "kind = \"vision_language\"\nimage = { kind = \"vision\", n_layers = 4, d_model = 128 }\ntext = { kind = \"decoder\", n_layers = 4, d_model = 128 }\nresampler = { n_latents = 16, n_layers = 2 }\ncross_attention = { every = 2, feed_forward = { kind = \"dense\" } }",
};

/// The uses that it serves.
pub(super) const USES: &[Use] = &[Use::ImageToText];

/// Places of the parameters of [`VisionLanguage`].
pub const ROLES: Roles = Roles::new(
    "VisionLanguage",
    &[("cross", Declaration::Place(Place::Blocks))],
);

/// A decoder that reads images.
#[derive(Module, Debug)]
pub struct VisionLanguage {
    /// The image network.
    pub image: ImageModel,
    /// The resampler that reduces the number of an image's vectors.
    pub resampler: Option<Resampler>,
    /// The cross-attention blocks, in the order of the decoder blocks that they precede.
    pub cross: Vec<CrossBlock>,
    /// The decoder.
    pub text: Decoder,
    every: usize,
}

impl VisionLanguage {
    /// Builds the network of a config; `None` if the config is of another kind, or the inputs have no image.
    pub fn new(model: &ModelConfig, inputs: &BuildContext) -> Option<Self> {
        match model {
            ModelConfig::VisionLanguage(c) => c.init(inputs),
            _ => None,
        }
    }

    /// Computes the vectors that the decoder attends to: images `[batch, channels, height, width]` → `[batch, vectors, features]`.
    pub fn image_memory(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        let read = pass.in_network("image", || self.image.memory_vectors(pixels, pass));
        match &self.resampler {
            Some(resampler) => pass.in_network("resampler", || resampler.forward(&read, pass)),
            None => read,
        }
    }

    /// Returns the language model of texts about images, given the images' vectors from [`Self::image_memory`], one row for each text.
    pub fn with_images(&self, memory: Tensor<3>) -> ImageConditionedDecoder<'_> {
        ImageConditionedDecoder {
            network: self,
            memory,
        }
    }
}

/// A decoder together with the images that its texts are about.
#[derive(Clone, Debug)]
pub struct ImageConditionedDecoder<'a> {
    network: &'a VisionLanguage,
    memory: Tensor<3>,
}

impl ImageConditionedDecoder<'_> {
    /// Selects rows: row i sees the image of `rows[i]`.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        self.memory = self.memory.clone().select(0, rows.clone());
    }
}

impl BeforeBlock for ImageConditionedDecoder<'_> {
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
            Some(block) => pass.in_block(format_args!("cross.{number}"), || {
                block.forward(x, &self.memory, kept, (number, visible), pass)
            }),
            None => x,
        }
    }
}

impl LanguageModel for ImageConditionedDecoder<'_> {
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

    fn has_bounded_state(&self) -> bool {
        self.network.text.has_bounded_state()
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
        pass.in_network("text", || {
            self.network
                .text
                .forward_with(Some(self), input, state, pass)
        })
    }

    fn vocabulary_head(&self) -> VocabularyHead<'_> {
        self.network.text.vocabulary_head()
    }
}
