//! Whole networks: ids or pixels in, hidden states and logits out; no loss.

mod carried;
pub mod decoder;
mod decoder_pass;
pub mod demand;
pub mod encoder;
pub mod encoder_decoder;
mod encoder_pass;
pub mod generator;
pub mod global_tokens;
pub mod heads;
pub mod image;
mod inputs;
pub mod language;
pub mod mask_decoder;
mod measures;
pub mod pair;
pub mod preset;
pub mod recurrent;
pub mod resnet;
pub mod retrieval;
pub mod side;
pub mod source;
mod target_positions;
pub mod text;
mod transformer;
pub mod two_towers;
pub mod vision;
pub mod vision_language;

use crate::nn::Kind;
use crate::nn::attention::AttentionConfig;
use crate::nn::role::Roles;
use crate::stack::{BlockConfig, LayerGroup};
use burn::module::{Module, ModuleVisitor};
pub use carried::CarriedWidths;
pub use decoder::{Decoder, DecoderConfig};
pub use demand::{Demand, Use, WholeText};
pub use encoder::{Encoder, EncoderConfig};
pub use encoder_decoder::{EncoderDecoder, EncoderDecoderConfig};
pub use global_tokens::{GlobalTokens, MarkedTexts};
pub use image::ImageModel;
pub use inputs::ModelInputs;
pub use language::{AnyLanguageModel, LanguageModel};
pub use mask_decoder::{MaskDecoder, MaskDecoderConfig};
pub use measures::{ItemOf, StackDepths};
pub use pair::PairModel;
pub use recurrent::RecurrentModelConfig;
pub use resnet::{Resnet, ResnetConfig};
pub use retrieval::RetrievalConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use text::TextModel;
pub use transformer::Transformer;
pub use two_towers::{TwoTowers, TwoTowersConfig};
pub use vision::{Vision, VisionConfig};
pub use vision_language::{VisionLanguage, VisionLanguageConfig};

/// The kinds of `[model]`.
pub const KINDS: &[Kind] = &[
    decoder::KIND,
    encoder::KIND,
    encoder_decoder::KIND,
    vision::KIND,
    resnet::KIND,
    recurrent::KIND,
    two_towers::KIND,
    vision_language::KIND,
];

/// Where the parameters of the networks stand.
pub const ROLES: &[Roles] = &[
    decoder::ROLES,
    encoder::ROLES,
    encoder_decoder::ROLES,
    side::ROLES,
    heads::ROLES,
    mask_decoder::ROLES,
    generator::ROLES,
    generator::BLOCKS_ROLES,
    recurrent::ROLES,
    recurrent::LM_ROLES,
    recurrent::READER_ROLES,
    recurrent::encoder_decoder::ROLES,
    resnet::ROLES,
    retrieval::ROLES,
    two_towers::ROLES,
    vision::ROLES,
    vision_language::ROLES,
    vision_language::cross::ROLES,
    vision_language::resampler::ROLES,
    vision_language::resampler::LAYER_ROLES,
    crate::stack::ROLES,
    crate::stack::block::ROLES,
];

/// Which network an experiment trains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each experiment"
)]
pub enum ModelConfig {
    /// A decoder-only language model.
    Decoder(DecoderConfig),
    /// A bidirectional encoder.
    Encoder(EncoderConfig),
    /// An encoder and a decoder that looks at it.
    EncoderDecoder(EncoderDecoderConfig),
    /// A vision transformer.
    Vision(VisionConfig),
    /// A residual convolutional network.
    Resnet(ResnetConfig),
    /// Recurrent cells.
    Recurrent(RecurrentModelConfig),
    /// A network for images and one for texts.
    TwoTowers(TwoTowersConfig),
    /// A decoder that looks at an image.
    VisionLanguage(VisionLanguageConfig),
}

impl ModelConfig {
    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Decoder(_) => decoder::KIND.kind,
            Self::Encoder(_) => encoder::KIND.kind,
            Self::EncoderDecoder(_) => encoder_decoder::KIND.kind,
            Self::Vision(_) => vision::KIND.kind,
            Self::Resnet(_) => resnet::KIND.kind,
            Self::Recurrent(_) => recurrent::KIND.kind,
            Self::TwoTowers(_) => two_towers::KIND.kind,
            Self::VisionLanguage(_) => vision_language::KIND.kind,
        }
    }

    /// Width of the residual stream, or of the last feature map; of two towers that of the one for images, of a decoder that looks at one its own.
    pub fn d_model(&self) -> usize {
        match self {
            Self::Decoder(c) => c.stack.d_model,
            Self::Encoder(c) => c.stack.d_model,
            Self::EncoderDecoder(c) => c.stack.d_model,
            Self::Vision(c) => c.stack.d_model,
            Self::Resnet(c) => c.features(),
            Self::Recurrent(c) => c.d_model,
            Self::TwoTowers(c) => c.image.d_model(),
            Self::VisionLanguage(c) => c.text.d_model(),
        }
    }

    /// Shows its parameters to a visitor, without what a task adds; none of a network for images when the shape
    /// has no image.
    pub fn visit<V: ModuleVisitor>(&self, inputs: &ModelInputs, visitor: &mut V) {
        match self {
            Self::Decoder(c) => c.init(inputs).visit(visitor),
            Self::Encoder(c) => c.init(inputs).visit(visitor),
            Self::EncoderDecoder(c) => c.init(inputs).visit(visitor),
            Self::Vision(_) | Self::Resnet(_) => {
                if let Some(network) = ImageModel::new(self, inputs) {
                    network.visit(visitor);
                }
            }
            Self::Recurrent(c) => c.language_model(inputs).visit(visitor),
            Self::TwoTowers(c) => {
                if let Some(network) = c.init(inputs) {
                    network.visit(visitor);
                }
            }
            Self::VisionLanguage(c) => {
                if let Some(network) = c.init(inputs) {
                    network.visit(visitor);
                }
            }
        }
    }

    /// Width of the states that heads read, of a whole text's or an image's vector too.
    pub fn d_output(&self) -> usize {
        match self {
            Self::Decoder(c) => c.stack.d_output(),
            Self::Encoder(c) => c.d_whole(),
            Self::EncoderDecoder(c) => c.stack.d_output(),
            Self::Vision(c) => c.stack.d_output(),
            Self::Resnet(_) | Self::Recurrent(_) => self.d_model(),
            Self::TwoTowers(c) => c.d_joint,
            Self::VisionLanguage(c) => c.text.d_output(),
        }
    }

    /// Parameters that a token does not use: of experts that are not chosen.
    pub fn unused(&self) -> usize {
        let transformers = self.networks().into_iter().filter_map(Self::transformer);
        let own = transformers.fold(0, |sum: usize, model| sum.saturating_add(model.unused()));
        own.saturating_add(match self {
            Self::VisionLanguage(c) => c.decoder().map_or(0, |text| c.cross_attention.unused(text)),
            _ => 0,
        })
    }

    /// The network for images and the one for texts that it is made of, with the keys that hold them; `None` when it is one.
    pub fn parts(&self) -> Option<[(&'static str, &Self); 2]> {
        match self {
            Self::TwoTowers(c) => Some(c.towers()),
            Self::VisionLanguage(c) => Some(c.parts()),
            _ => None,
        }
    }

    /// The demands on both of [`Self::parts`] of a demand on the whole.
    pub fn demands(&self, demand: &Demand) -> [Demand; 2] {
        match self {
            Self::VisionLanguage(_) => VisionLanguageConfig::demands(demand),
            _ => TwoTowersConfig::demands(demand),
        }
    }

    /// The networks that it is made of, each by itself: itself, or one for images and one for texts.
    pub fn networks(&self) -> Vec<&Self> {
        match self.parts() {
            Some(parts) => parts.map(|(_, part)| part).to_vec(),
            None => vec![self],
        }
    }

    /// The path of a gate that begins closed, of a network that has some: nothing behind it learns while it stays so.
    pub fn closed_gate(&self) -> Option<&'static str> {
        match self {
            Self::VisionLanguage(c) => c.gates(),
            Self::Decoder(_)
            | Self::Encoder(_)
            | Self::EncoderDecoder(_)
            | Self::Vision(_)
            | Self::Resnet(_)
            | Self::Recurrent(_)
            | Self::TwoTowers(_) => None,
        }
    }

    /// The neighbours that it reads beside its texts, when it reads some.
    pub fn retrieval(&self) -> Option<&RetrievalConfig> {
        match self {
            Self::Decoder(c) => c.retrieval.as_ref(),
            Self::Encoder(_)
            | Self::EncoderDecoder(_)
            | Self::Vision(_)
            | Self::Resnet(_)
            | Self::Recurrent(_)
            | Self::TwoTowers(_)
            | Self::VisionLanguage(_) => None,
        }
    }

    /// Numbers that are kept of each token for the backward pass beyond the decoder's own, of a model that reads neighbours.
    pub fn kept_of_neighbours(&self) -> u128 {
        match self {
            Self::Decoder(c) => c.retrieval.as_ref().map_or(0, |r| r.kept(c)),
            _ => 0,
        }
    }

    /// What it is as a transformer; `None` when it is none.
    pub fn transformer(&self) -> Option<Transformer<'_>> {
        let (stack, stacks, embedding_norm) = match self {
            Self::Decoder(c) => (&c.stack, [Some(c.depth()), None], c.embedding_norm),
            Self::Encoder(c) => (&c.stack, [Some(c.depth()), None], c.embedding_norm),
            Self::EncoderDecoder(c) => {
                let stacks = [Some(c.encoder_depth()), Some(c.decoder_depth())];
                (&c.stack, stacks, c.embedding_norm)
            }
            Self::Vision(c) => (&c.stack, [Some(c.depth()), None], c.embedding_norm),
            Self::Resnet(_) | Self::Recurrent(_) | Self::TwoTowers(_) | Self::VisionLanguage(_) => {
                return None;
            }
        };
        Some(Transformer {
            stack,
            stacks,
            embedding_norm,
        })
    }

    /// Whether some attention forms a weight for a query and a key, of a transformer.
    pub fn forms_weights(&self) -> bool {
        let forms = |c: &AttentionConfig| c.facts().abilities().weights;
        let of_block = |block: BlockConfig| {
            let mut attentions = [block.attention, block.cross].into_iter().flatten();
            attentions.any(forms)
        };
        let mut networks = self.networks().into_iter();
        networks.any(|network| {
            let transformer = network.transformer();
            transformer.is_none_or(|transformer| transformer.sorts().any(of_block))
        })
    }

    /// Layers that remember earlier segments take so many positions of them in evaluation; whether there is such a layer.
    pub fn remember_at_evaluation(&mut self, positions: usize) -> bool {
        match self {
            Self::Decoder(c) => c.remember_at_evaluation(positions),
            Self::Encoder(_)
            | Self::EncoderDecoder(_)
            | Self::Vision(_)
            | Self::Resnet(_)
            | Self::Recurrent(_)
            | Self::TwoTowers(_)
            | Self::VisionLanguage(_) => false,
        }
    }

    /// Most positions of earlier segments that a layer remembers in evaluation.
    pub fn remembered(&self) -> usize {
        let Some(transformer) = self.transformer() else {
            return 0;
        };
        let sorts = transformer.sorts();
        let each = sorts.filter_map(|block| block.attention?.segments());
        each.map(|memory| memory.evaluation).max().unwrap_or(0)
    }

    /// What it is as a network of recurrent cells; `None` when it is none.
    pub fn cells(&self) -> Option<&RecurrentModelConfig> {
        match self {
            Self::Recurrent(c) => Some(c),
            Self::Decoder(_)
            | Self::Encoder(_)
            | Self::EncoderDecoder(_)
            | Self::Vision(_)
            | Self::Resnet(_)
            | Self::TwoTowers(_)
            | Self::VisionLanguage(_) => None,
        }
    }
}

/// The keys that groups of layers stand in place of, where every stack of a model has groups.
fn replaced(stacks: &[&[LayerGroup]]) -> &'static [&'static str] {
    match stacks.iter().all(|groups| !groups.is_empty()) {
        true => &["attention", "feed_forward"],
        false => &[],
    }
}
