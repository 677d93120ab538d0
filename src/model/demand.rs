//! The demand of a task and its data on a network, as values: a network says the faults of its own keys under a demand,
//! and knows no task.

use super::generator::GeneratorShape;
use super::{
    ModelConfig, decoder, encoder, encoder_decoder, recurrent, resnet, two_towers, vision,
    vision_language, {DecoderConfig, EncoderConfig},
};
use crate::data::Shape;
use crate::faults::TableFaults;
use crate::nn::Kind;
use crate::nn::init::InitConfig;
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
    /// Vectors of images and of texts.
    ImageText,
    /// Texts about images.
    ImageToText,
}

impl Use {
    /// Whether scores of a vocabulary are asked for.
    pub fn scores_tokens(self) -> bool {
        match self {
            Self::NextTokens | Self::HiddenTokens | Self::TextToText | Self::ImageToText => true,
            Self::TextClasses
            | Self::TextNumbers
            | Self::TextVectors
            | Self::TokenClasses
            | Self::Spans
            | Self::ImageClasses
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
    /// Whether the layers before the last are read: `task.intermediate_layers`.
    pub inner_layers: bool,
    /// Whether every position of a source sees all of it: `task.bidirectional_source`.
    pub whole_source: bool,
    /// Whether labels are smoothed: `task.label_smoothing`.
    pub smooths: bool,
    /// Whether sources have a vocabulary of their own: `data.separate_vocabularies`.
    pub two_vocabularies: bool,
    /// The generator beside the network: `task.generator`.
    pub generator: Option<GeneratorShape>,
    /// Tokens of the longest input, when they are known.
    pub context: Option<usize>,
    /// Tokens of the longest text that is written for an input, when they are known; as many as the input has otherwise.
    pub written: Option<usize>,
    /// Channels, height and width of images, when they are known.
    pub image: Option<[usize; 3]>,
}

impl Demand {
    /// The plain demand of a use.
    pub fn of(used_for: Use) -> Self {
        Self {
            used_for,
            whole_text: WholeText::NotRead,
            segments: false,
            inner_layers: false,
            whole_source: false,
            smooths: false,
            two_vocabularies: false,
            generator: None,
            context: None,
            written: None,
            image: None,
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
    (recurrent::KIND, recurrent::USES),
    (two_towers::KIND, two_towers::USES),
    (vision_language::KIND, vision_language::USES),
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
        match self {
            Self::Decoder(c) => return c.faults(demand, at),
            Self::Vision(c) => return c.faults(demand, at),
            Self::Encoder(c) => c.faults(demand, at),
            Self::EncoderDecoder(c) => c.faults(demand, at),
            Self::Resnet(c) => c.faults(at),
            Self::Recurrent(c) => c.faults(demand, at),
            Self::TwoTowers(c) => c.faults(demand, at),
            Self::VisionLanguage(c) => c.faults(demand, at),
        }
        demand.context
    }

    /// The patches of images of `[channels, height, width]`; `None` when it reads no patches.
    pub fn grid(&self, image: Option<[usize; 3]>) -> Option<Grid> {
        match (self, image) {
            (Self::Vision(c), Some([_, height, width])) => Some(c.grid(height, width)),
            (Self::TwoTowers(c), image) => c.image.grid(image),
            (Self::VisionLanguage(c), image) => c.image.grid(image),
            _ => None,
        }
    }

    /// The reason why images of `[channels, height, width]` cannot be read, if there is one.
    pub fn misfit(&self, image: Option<[usize; 3]>) -> Option<String> {
        match (self, image) {
            (Self::Vision(c), Some([_, height, width])) => c.stem.misfit(height, width),
            (Self::TwoTowers(c), image) => c.image.misfit(image),
            (Self::VisionLanguage(c), image) => c.image.misfit(image),
            _ => None,
        }
    }

    /// The reason why it cannot hold a vocabulary of this size, if there is one.
    pub fn vocabulary_misfit(&self, vocab: usize) -> Option<String> {
        match self {
            Self::Decoder(c) => c.vocabulary.misfit(vocab),
            Self::EncoderDecoder(c) => c.vocabulary.misfit(vocab),
            Self::Recurrent(c) => c.vocabulary.misfit(vocab),
            Self::TwoTowers(c) => c.text.vocabulary_misfit(vocab),
            Self::VisionLanguage(c) => c.text.vocabulary_misfit(vocab),
            Self::Encoder(_) | Self::Vision(_) | Self::Resnet(_) => None,
        }
    }

    /// Multiplications of the scores of one position over the vocabulary.
    pub fn scored_products(&self, vocab: usize) -> f64 {
        let full = VocabularyConfig::default();
        let vocabulary = match self {
            Self::Decoder(c) => &c.vocabulary,
            Self::EncoderDecoder(c) => &c.vocabulary,
            Self::Recurrent(c) => &c.vocabulary,
            Self::VisionLanguage(c) => c.decoder().map_or(&full, |text| &text.vocabulary),
            Self::Encoder(_) | Self::Vision(_) | Self::Resnet(_) | Self::TwoTowers(_) => &full,
        };
        vocabulary.scored_products(vocab, self.d_output())
    }

    /// How its initial weights are drawn, and those of heads on it.
    pub fn initial(&self) -> InitConfig {
        match self {
            Self::Decoder(c) => c.stack.init(),
            Self::Encoder(c) => c.stack.init(),
            Self::EncoderDecoder(c) => c.stack.init(),
            Self::Vision(c) => c.stack.init(),
            Self::Recurrent(c) => c.init.clone(),
            Self::Resnet(_) => InitConfig::default(),
            Self::TwoTowers(c) => c.image.initial(),
            Self::VisionLanguage(c) => c.text.initial(),
        }
    }

    /// The model without the parts that nothing reads under a demand.
    #[must_use]
    pub fn under(&self, demand: &Demand) -> Self {
        match self {
            Self::Encoder(c) => {
                let guesses = demand.used_for == Use::HiddenTokens;
                let mut c = c.pooled_if(demand.whole_text != WholeText::NotRead);
                c.mask_decoder = c.mask_decoder.filter(|_| guesses);
                Self::Encoder(c)
            }
            // A network that reads texts has no head onto the vocabulary.
            Self::Decoder(c) if !demand.used_for.scores_tokens() => Self::Decoder(DecoderConfig {
                tie_embeddings: true,
                head_bias: false,
                head_scale: false,
                ..c.clone()
            }),
            Self::TwoTowers(c) => Self::TwoTowers(c.under(demand)),
            Self::VisionLanguage(c) => Self::VisionLanguage(c.under(demand)),
            Self::Decoder(_)
            | Self::EncoderDecoder(_)
            | Self::Vision(_)
            | Self::Resnet(_)
            | Self::Recurrent(_) => self.clone(),
        }
    }

    /// Multiplications of a forward pass over one example of this shape under a demand: a text, a pair, or an image, as
    /// long as it may be, and its classes where those are asked for. Of a source and a target in one row the target alone
    /// is scored against the vocabulary; an encoder gives states.
    pub fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let (vocab, tokens) = (shape.vocab_size, shape.context);
        let written = demand.written.unwrap_or(tokens);
        let network = match self {
            Self::Decoder(c) if !demand.used_for.scores_tokens() => {
                c.products(vocab, tokens, 0) as f64
            }
            Self::Decoder(c) if demand.used_for == Use::TextToText => {
                c.products(vocab, tokens.saturating_add(written), written) as f64
            }
            Self::Decoder(c) => c.products(vocab, tokens, tokens) as f64,
            Self::Encoder(c) => c.products(tokens) as f64,
            Self::EncoderDecoder(c) => c.products(vocab, [tokens, written]) as f64,
            Self::Vision(c) => shape.image.map_or(0.0, |image| c.products(image)),
            Self::Resnet(c) => shape.image.map_or(0.0, |image| c.cost(image).products),
            Self::Recurrent(c) => c.products(demand.used_for, vocab, [tokens, written]) as f64,
            Self::TwoTowers(c) => c.products(demand, shape),
            Self::VisionLanguage(c) => c.products(demand, shape),
        };
        match demand.used_for {
            Use::TextNumbers => network + self.d_output() as f64,
            Use::Spans => network + tokens as f64 * (2 * self.d_output()) as f64,
            Use::TokenClasses => {
                network + tokens as f64 * (shape.classes.len() * self.d_output()) as f64
            }
            Use::TextClasses | Use::ImageClasses => {
                let heads = 1 + usize::from(self.has_distillation_token());
                network + (heads * shape.classes.len() * self.d_output()) as f64
            }
            Use::NextTokens
            | Use::HiddenTokens
            | Use::TextToText
            | Use::TextVectors
            | Use::ImageText
            | Use::ImageToText => network,
        }
    }

    /// Whether it has a token, and so a head, that a teacher teaches.
    pub fn has_distillation_token(&self) -> bool {
        matches!(self, Self::Vision(c) if c.distillation_token)
    }

    /// The network that reads a source and continues with its target in one row; `None` when it is another.
    pub fn continuing(&self) -> Option<&DecoderConfig> {
        match self {
            Self::Decoder(c) => Some(c),
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
