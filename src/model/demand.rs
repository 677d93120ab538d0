//! The demand of a task and its data on a network, as values: a network says the faults of its own keys under a demand,
//! and knows no task.

use super::generator::GeneratorShape;
use super::vision::{HiddenPatches, LocalViews};
use super::{
    ModelConfig, convolutional, decoder, encoder, encoder_decoder, recurrent, resnet, speech,
    speech_encoder, swin, two_towers, vision, vision_language,
    {DecoderConfig, EncoderConfig, VisionConfig},
};
use crate::data::{Shape, SpeechShape};
use crate::faults::{self, TableFaults};
use crate::nn::Kind;
use crate::nn::position::Grid;
use crate::nn::vocabulary::VocabularyConfig;

/// The use that a task has for a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Scores of the next token.
    NextTokens,
    /// Scores of hidden tokens.
    HiddenTokens,
    /// Texts for texts.
    TextToText,
    /// Classes of texts.
    TextClasses,
    /// Numbers of texts.
    TextNumbers,
    /// Vectors of texts.
    TextVectors,
    /// Classes of the tokens of a text.
    TokenClasses,
    /// Spans of a text.
    Spans,
    /// Classes of images.
    ImageClasses,
    /// States of the patches of an image, of which most are hidden.
    HiddenPatches,
    /// Vectors of views of images, of two sizes.
    ImageViews,
    /// Vectors of images and of texts.
    ImageText,
    /// Texts about images.
    ImageToText,
    /// Texts of recordings.
    SpeechToText,
    /// Scores of characters along recordings.
    SpeechCharacters,
}

impl Use {
    /// Whether scores of a vocabulary are asked for.
    pub fn scores_tokens(self) -> bool {
        match self {
            Self::NextTokens
            | Self::HiddenTokens
            | Self::TextToText
            | Self::ImageToText
            | Self::SpeechToText
            | Self::SpeechCharacters => true,
            Self::TextClasses
            | Self::TextNumbers
            | Self::TextVectors
            | Self::TokenClasses
            | Self::Spans
            | Self::ImageClasses
            | Self::HiddenPatches
            | Self::ImageViews
            | Self::ImageText => false,
        }
    }
}

/// The vector of a whole text that a task reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeText {
    /// None.
    NotRead,
    /// The one that the network makes.
    Own,
    /// The one that the network makes of the first position.
    First,
}

/// The demand of a task and its data on a network. The keys of other tables that a fault names stand beside the fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The use of the network.
    pub used_for: Use,
    /// The vector of a whole text: `task.pooling`.
    pub whole_text: WholeText,
    /// Whether a text has two segments that vectors tell apart: `task.pairs`.
    pub segments: bool,
    /// Whether a stream of queries goes through the blocks beside that of the text: `task.kind`.
    pub two_streams: bool,
    /// Whether the layers before the last are read: `task.intermediate_layers`.
    pub inner_layers: bool,
    /// Whether every position of a source sees all of it: `task.bidirectional_source`.
    pub whole_source: bool,
    /// Whether labels are smoothed: `task.label_smoothing`.
    pub smooths: bool,
    /// Whether a learned bias is added to the scores of images with texts: `task.loss`.
    pub biased_scores: bool,
    /// Whether sources have a vocabulary of their own: `data.separate_vocabularies`.
    pub two_vocabularies: bool,
    /// The generator beside the network: `task.generator`.
    pub generator: Option<GeneratorShape>,
    /// The patches of images that are hidden: `task.mask_ratio`.
    pub hidden_patches: Option<HiddenPatches>,
    /// The local views of images: `task.views`.
    pub local_views: Option<LocalViews>,
    /// Tokens of the longest input, when they are known.
    pub context: Option<usize>,
    /// Tokens of the longest text that is written for an input, when they are known; as many as the input has otherwise.
    pub written: Option<usize>,
    /// Channels, height and width of images, when they are known.
    pub image: Option<[usize; 3]>,
    /// Bands and frames of recordings, when they are known.
    pub speech: Option<SpeechShape>,
}

impl Demand {
    /// The plain demand of a use.
    pub fn of(used_for: Use) -> Self {
        Self {
            used_for,
            whole_text: WholeText::NotRead,
            segments: false,
            two_streams: false,
            inner_layers: false,
            whole_source: false,
            smooths: false,
            biased_scores: false,
            two_vocabularies: false,
            generator: None,
            hidden_patches: None,
            local_views: None,
            context: None,
            written: None,
            image: None,
            speech: None,
        }
    }
}

/// The uses of each kind of `[model]`.
const USES: &[(Kind, &[Use])] = &[
    (decoder::KIND, decoder::USES),
    (encoder::KIND, encoder::USES),
    (encoder_decoder::KIND, encoder_decoder::USES),
    (vision::KIND, vision::USES),
    (resnet::KIND, resnet::USES),
    (swin::KIND, swin::USES),
    (recurrent::KIND, recurrent::USES),
    (convolutional::KIND, convolutional::USES),
    (two_towers::KIND, two_towers::USES),
    (vision_language::KIND, vision_language::USES),
    (speech::KIND, speech::USES),
    (speech_encoder::KIND, speech_encoder::USES),
];

/// The kinds of `[model]` that serve a use.
pub fn serving(used_for: Use) -> Vec<&'static str> {
    let serve = USES.iter().filter(|(_, uses)| uses.contains(&used_for));
    serve.map(|(kind, _)| kind.kind).collect()
}

impl ModelConfig {
    /// The uses that it serves.
    pub fn uses(&self) -> &'static [Use] {
        let own = USES.iter().find(|(kind, _)| kind.kind == self.kind());
        own.map_or(&[], |(_, uses)| uses)
    }

    /// Faults of its own keys under a demand; the positions of its longest input, when they are known. The keys that all
    /// transformers have are not among them.
    pub fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        self.facts().faults(demand, at)
    }

    /// The demands on both networks that it is made of, of a demand on the whole; `None` when it is one.
    pub fn demands(&self, demand: &Demand) -> Option<[Demand; 2]> {
        self.facts().parts().map(|parts| (parts.demands)(demand))
    }

    /// The patches of images of `[channels, height, width]`; `None` when it reads no patches.
    pub fn grid(&self, image: Option<[usize; 3]>) -> Option<Grid> {
        let [_, height, width] = image?;
        self.facts().of_images()?.grid(height, width)
    }

    /// The reason why images of `[channels, height, width]` cannot be read, if there is one, with the table that says so.
    pub fn misfit(&self, image: Option<[usize; 3]>) -> Option<String> {
        let [_, height, width] = image?;
        let (table, rule) = self.facts().of_images()?.misfit(height, width)?;
        let network = match self.parts() {
            Some([(part, _), _]) => format!("model.{part}"),
            None => "model".to_owned(),
        };
        let table = match table {
            "" => network,
            table => format!("{network}.{table}"),
        };
        Some(faults::about(&table, &rule))
    }

    /// The reason why it cannot hold a vocabulary of this size, if there is one.
    pub fn vocabulary_misfit(&self, vocab: usize) -> Option<String> {
        self.facts().vocabulary()?.misfit(vocab)
    }

    /// Multiplications of the scores of one position over the vocabulary.
    pub fn scored_products(&self, vocab: usize) -> f64 {
        let full = VocabularyConfig::default();
        let vocabulary = self.facts().vocabulary().unwrap_or(&full);
        vocabulary.scored_products(vocab, self.d_output())
    }

    /// The model without the parts that nothing reads under a demand.
    #[must_use]
    pub fn under(&self, demand: &Demand) -> Self {
        self.facts().under(demand).unwrap_or_else(|| self.clone())
    }

    /// Multiplications of a forward pass over one example of this shape under a demand: a text, a pair, or an image, as
    /// long as it may be, and its classes where those are asked for.
    pub fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let network = self.facts().products(demand, shape);
        let tokens = shape.context;
        match demand.used_for {
            Use::TextNumbers => network + self.d_output() as f64,
            Use::Spans => network + tokens as f64 * (2 * self.d_output()) as f64,
            Use::TokenClasses => {
                network + tokens as f64 * (shape.classes.len() * self.d_output()) as f64
            }
            Use::TextClasses | Use::ImageClasses => {
                let heads = 1 + usize::from(self.has_distillation_token());
                network + (heads * shape.classes.len() * self.d_pooled()) as f64
            }
            Use::NextTokens
            | Use::HiddenTokens
            | Use::TextToText
            | Use::TextVectors
            | Use::HiddenPatches
            | Use::ImageViews
            | Use::ImageText
            | Use::ImageToText
            | Use::SpeechToText
            | Use::SpeechCharacters => network,
        }
    }

    /// Whether it has a token, and so a head, that a teacher teaches.
    pub fn has_distillation_token(&self) -> bool {
        matches!(self, Self::Vision(c) if c.distillation_token)
    }

    /// The pooling that makes one vector of an image by parameters of its own, which learn where that vector is read alone.
    pub fn learned_pooling(&self) -> Option<&'static str> {
        match self {
            Self::Vision(c) => c.pooling.learned(),
            _ => None,
        }
    }

    /// The network that reads a source and continues with its target in one row; `None` when it is another.
    pub fn continuing(&self) -> Option<&DecoderConfig> {
        match self {
            Self::Decoder(c) => Some(c),
            _ => None,
        }
    }

    /// The network that reads the patches of images, some of them or of images of two sizes; `None` when it is another.
    pub fn of_patches(&self) -> Option<&VisionConfig> {
        match self {
            Self::Vision(c) => Some(c),
            _ => None,
        }
    }

    /// The network that guesses hidden tokens; `None` when it is another.
    pub fn guessing(&self) -> Option<&EncoderConfig> {
        match self {
            Self::Encoder(c) => Some(c),
            _ => None,
        }
    }
}

/// Layers before the last that are read, of a network with one layer.
pub(super) fn inner_layer_faults(demand: &Demand, layers: usize, at: &mut TableFaults) {
    if demand.inner_layers && layers == 1 {
        at.fault(
            &["task.intermediate_layers", "n_layers"],
            "intermediate_layers = true has no effect: the model has one layer, and none before it; leave it out or add layers",
        );
    }
}

/// A bias of a product onto the vocabulary that is the embeddings' table.
pub(super) fn head_faults(
    vocabulary: &VocabularyConfig,
    bias: bool,
    tied: bool,
    at: &mut TableFaults,
) {
    if bias && tied && vocabulary.is_full() {
        at.fault(
            &["head_bias", "tie_embeddings"],
            "head_bias = true has no effect: the head is the embeddings' table; leave it out or set tie_embeddings = false",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::KINDS;

    #[test]
    fn every_kind_of_model_has_a_use() {
        let kinds: Vec<&str> = USES.iter().map(|(kind, _)| kind.kind).collect();
        assert!(kinds.iter().copied().eq(KINDS.iter().map(|k| k.kind)));
        assert!(USES.iter().all(|(_, uses)| !uses.is_empty()));
    }
}
