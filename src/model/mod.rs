//! Whole networks: from token ids, pixels or audio to hidden states and logits; losses belong to the tasks.

mod carried;
pub mod contrastive_head;
pub mod convolutional;
pub mod decoder;
mod decoder_pass;
pub mod demand;
pub mod encoder;
pub mod encoder_decoder;
mod encoder_pass;
pub mod facts;
pub mod generation;
pub mod generator;
pub mod global_tokens;
pub mod heads;
pub mod image;
mod inputs;
pub mod language;
pub mod mask_decoder;
mod measures;
pub mod pair;
pub mod pixel_decoder;
pub mod preset;
pub mod projection_head;
pub mod recurrent;
pub mod resnet;
pub mod retrieval;
pub mod sampling;
pub mod side;
pub mod source;
pub mod speech;
pub mod speech_encoder;
pub mod swin;
mod target_positions;
pub mod text;
mod transformer;
pub mod two_towers;
pub mod vision;
pub mod vision_language;

use crate::nn::Kind;
use crate::nn::attention::AttentionConfig;
use crate::nn::init::InitSettings;
use crate::nn::role::Roles;
use crate::stack::{BlockConfig, LayerGroup};
use burn::module::{Module, ModuleVisitor};
pub use carried::CarriedWidths;
pub use convolutional::{Convolutional, ConvolutionalConfig};
pub use decoder::{Decoder, DecoderConfig};
pub use demand::{Demand, PooledText, Use};
pub use encoder::{Encoder, EncoderConfig};
pub use encoder_decoder::{EncoderDecoder, EncoderDecoderConfig};
pub use facts::NetworkFacts;
pub use global_tokens::{GlobalTokens, TextBatchLayout};
pub use image::ImageModel;
pub use inputs::BuildContext;
pub use language::{AnyLanguageModel, LanguageModel};
pub use mask_decoder::{MaskDecoder, MaskDecoderConfig};
pub use measures::{StackDepths, ThroughputUnit};
pub use pair::PairModel;
pub use recurrent::RecurrentModelConfig;
pub use resnet::{Resnet, ResnetConfig};
pub use retrieval::RetrievalConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use speech::{SpeechEncoderDecoder, SpeechEncoderDecoderConfig};
pub use speech_encoder::{SpeechEncoder, SpeechEncoderConfig};
pub use swin::{Swin, SwinConfig};
pub use text::TextModel;
pub use transformer::Transformer;
pub use two_towers::{TwoTowers, TwoTowersConfig};
pub use vision::{Vision, VisionConfig};
pub use vision_language::{VisionLanguage, VisionLanguageConfig};

/// The model kinds: the values of `[model] kind`.
pub const KINDS: &[Kind] = &[
    decoder::KIND,
    encoder::KIND,
    encoder_decoder::KIND,
    vision::KIND,
    resnet::KIND,
    swin::KIND,
    recurrent::KIND,
    convolutional::KIND,
    two_towers::KIND,
    vision_language::KIND,
    speech::KIND,
    speech_encoder::KIND,
];

/// The places of the networks' parameters (embedding, blocks, head, …) for each module struct.
pub const ROLES: &[Roles] = &[
    convolutional::ROLES,
    decoder::ROLES,
    encoder::ROLES,
    encoder::pooler::ROLES,
    encoder_decoder::ROLES,
    side::ROLES,
    heads::ROLES,
    mask_decoder::ROLES,
    generator::ROLES,
    generator::BLOCKS_ROLES,
    pixel_decoder::ROLES,
    projection_head::ROLES,
    contrastive_head::ROLES,
    recurrent::ROLES,
    recurrent::LM_ROLES,
    recurrent::READER_ROLES,
    recurrent::encoder_decoder::ROLES,
    resnet::ROLES,
    retrieval::ROLES,
    speech::ROLES,
    speech::stem::ROLES,
    speech_encoder::ROLES,
    speech_encoder::features::ROLES,
    speech_encoder::group_norm::ROLES,
    speech_encoder::positional::ROLES,
    swin::ROLES,
    swin::STAGE_ROLES,
    swin::cosines::ROLES,
    swin::merging::ROLES,
    swin::window::ROLES,
    two_towers::ROLES,
    two_towers::sigmoid::ROLES,
    vision::ROLES,
    vision::attention_pooling::ROLES,
    vision_language::ROLES,
    vision_language::cross::ROLES,
    vision_language::resampler::ROLES,
    vision_language::resampler::LAYER_ROLES,
    crate::stack::ROLES,
    crate::stack::block::ROLES,
    crate::stack::residual_scale::ROLES,
    crate::stack::residual_scale::admin::ROLES,
];

/// The network that an experiment trains.
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
    /// An encoder, and a decoder that attends to its output.
    EncoderDecoder(EncoderDecoderConfig),
    /// A vision transformer.
    Vision(VisionConfig),
    /// A residual convolutional network.
    Resnet(ResnetConfig),
    /// A vision transformer with shifted windows.
    Swin(SwinConfig),
    /// A recurrent network.
    Recurrent(RecurrentModelConfig),
    /// A convolutional network over tokens.
    Convolutional(ConvolutionalConfig),
    /// An image encoder and a text encoder.
    TwoTowers(TwoTowersConfig),
    /// A decoder that reads images.
    VisionLanguage(VisionLanguageConfig),
    /// An encoder of audio features, and a decoder that attends to its output.
    SpeechEncoderDecoder(SpeechEncoderDecoderConfig),
    /// An encoder of raw audio samples.
    SpeechEncoder(SpeechEncoderConfig),
}

impl ModelConfig {
    /// Returns the facts of the config's kind of network.
    pub fn facts(&self) -> &dyn NetworkFacts {
        match self {
            Self::Decoder(c) => c,
            Self::Encoder(c) => c,
            Self::EncoderDecoder(c) => c,
            Self::Vision(c) => c,
            Self::Resnet(c) => c,
            Self::Swin(c) => c,
            Self::Recurrent(c) => c,
            Self::Convolutional(c) => c,
            Self::TwoTowers(c) => c,
            Self::VisionLanguage(c) => c,
            Self::SpeechEncoderDecoder(c) => c,
            Self::SpeechEncoder(c) => c,
        }
    }

    /// Shows the network's parameters to a visitor, without those that a task adds. Networks for images or audio show none
    /// if the inputs have no image or audio shape.
    pub fn visit<V: ModuleVisitor>(&self, inputs: &BuildContext, visitor: &mut V) {
        match self {
            Self::Decoder(c) => c.init(inputs).visit(visitor),
            Self::Encoder(c) => c.init(inputs).visit(visitor),
            Self::EncoderDecoder(c) => c.init(inputs).visit(visitor),
            Self::Vision(_) | Self::Resnet(_) | Self::Swin(_) => {
                visit_network(ImageModel::new(self, inputs), visitor)
            }
            Self::Recurrent(c) => c.language_model(inputs).visit(visitor),
            Self::Convolutional(c) => c.init(inputs).visit(visitor),
            Self::TwoTowers(c) => visit_network(c.init(inputs), visitor),
            Self::VisionLanguage(c) => visit_network(c.init(inputs), visitor),
            Self::SpeechEncoderDecoder(c) => visit_network(c.init(inputs), visitor),
            Self::SpeechEncoder(c) => visit_network(c.init(inputs), visitor),
        }
    }

    /// Returns the value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        self.facts().kind().kind
    }

    /// Width of the residual stream, or of the last feature map. For two towers it is the image tower's width; for a decoder
    /// that reads images, the decoder's.
    pub fn d_model(&self) -> usize {
        self.facts().d_model()
    }

    /// Width of the hidden states that heads read.
    pub fn d_output(&self) -> usize {
        self.facts().d_output()
    }

    /// Width of the pooled vector of a whole text or image.
    pub fn d_pooled(&self) -> usize {
        self.facts().d_pooled()
    }

    /// How the initial weights of the network and of the heads on it are drawn.
    pub fn init_settings(&self) -> InitSettings {
        self.facts().init_settings()
    }

    /// Returns the network's transformer facts; `None` if it is no transformer.
    pub fn transformer(&self) -> Option<Transformer<'_>> {
        self.facts().transformer()
    }

    /// Returns the config of the recurrent network; `None` if it is none.
    pub fn recurrent_config(&self) -> Option<&RecurrentModelConfig> {
        self.facts().recurrent_config()
    }

    /// Returns the retrieval settings of a network that reads retrieved neighbours beside its text.
    pub fn retrieval(&self) -> Option<&RetrievalConfig> {
        self.facts().retrieval()
    }

    /// The image network and the text network of a model made of two, each with the key that holds it; `None` for a single
    /// network.
    pub fn parts(&self) -> Option<[(&'static str, &Self); 2]> {
        self.facts().parts().map(|parts| parts.networks)
    }

    /// The networks that the model is made of: the image and the text network, or the model itself.
    pub fn networks(&self) -> Vec<&Self> {
        match self.parts() {
            Some(parts) => parts.map(|(_, part)| part).to_vec(),
            None => vec![self],
        }
    }

    /// Number of parameters that a single token does not use: those of the experts it is not routed to.
    pub fn inactive_parameters(&self) -> usize {
        let transformers = self.networks().into_iter().filter_map(Self::transformer);
        let own = transformers.fold(0, |sum: usize, model| {
            sum.saturating_add(model.inactive_parameters())
        });
        own.saturating_add(self.facts().inactive_parameters_between())
    }

    /// Whether some attention computes a weight for each query and key; true for networks that are no transformers.
    pub fn has_attention_weights(&self) -> bool {
        let mut networks = self.networks().into_iter();
        networks.any(|network| network.transformer().is_none_or(computes_weights))
    }

    /// Why the model has no attention weights to write or draw, as the end of a sentence whose subject is the model; `None` if
    /// it has some.
    pub fn no_weights_reason(&self) -> Option<&'static str> {
        let networks = self.networks();
        let mut each = networks.iter();
        let shown = each.any(|network| match network.transformer() {
            Some(transformer) => computes_weights(transformer),
            // A recurrent decoder attends to the source.
            None => network.recurrent_config().is_some(),
        });
        if shown {
            return None;
        }
        let transforms = networks
            .iter()
            .any(|network| network.transformer().is_some());
        let attends = networks
            .iter()
            .any(|network| network.facts().has_attention());
        Some(match (transforms, attends) {
            (true, _) => "has attention that computes no weights between queries and keys",
            (false, true) => "has attention within windows of images, whose weights are not kept",
            (false, false) => "has no attention",
        })
    }

    /// Sets how many earlier positions the layers with segment memory keep in evaluation; returns whether there is such a layer.
    pub fn set_evaluation_memory(&mut self, positions: usize) -> bool {
        match self {
            Self::Decoder(c) => c.set_evaluation_memory(positions),
            Self::Encoder(c) => c.set_evaluation_memory(positions),
            _ => false,
        }
    }

    /// Maximum number of earlier positions that a layer with segment memory keeps in evaluation.
    pub fn evaluation_memory(&self) -> usize {
        let Some(transformer) = self.transformer() else {
            return 0;
        };
        let distinct_blocks = transformer.distinct_blocks();
        let each = distinct_blocks.filter_map(|block| block.attention?.segments());
        each.map(|memory| memory.evaluation).max().unwrap_or(0)
    }
}

/// Whether some attention of a transformer computes a weight for each query and key.
fn computes_weights(transformer: Transformer) -> bool {
    let forms = |c: &AttentionConfig| c.facts().abilities().weights;
    let of_block = |block: BlockConfig| {
        let mut attentions = [block.attention, block.cross].into_iter().flatten();
        attentions.any(forms)
    };
    transformer.distinct_blocks().any(of_block)
}

/// Shows the parameters of a network to a visitor, if there is a network.
fn visit_network<M: Module, V: ModuleVisitor>(network: Option<M>, visitor: &mut V) {
    if let Some(network) = network {
        network.visit(visitor);
    }
}

/// The keys that layer groups replace, if every stack of the model has groups.
fn keys_replaced_by_groups(stacks: &[&[LayerGroup]]) -> &'static [&'static str] {
    match stacks.iter().all(|groups| !groups.is_empty()) {
        true => &["attention", "feed_forward"],
        false => &[],
    }
}
