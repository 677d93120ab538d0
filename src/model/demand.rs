//! The demand that a task and its data place on a network, as plain values: a network checks its own keys against a demand
//! and knows no task.

use super::generator::GeneratorShape;
use super::vision::{LocalViews, PatchMasking};
use super::{
    ModelConfig, convolutional, decoder, encoder, encoder_decoder, recurrent, resnet, speech,
    speech_encoder, swin, two_towers, vision, vision_language,
    {DecoderConfig, EncoderConfig, SpeechEncoderConfig, VisionConfig},
};
use crate::data::{Shape, SpeechShape};
use crate::faults::{self, TableFaults};
use crate::nn::Kind;
use crate::nn::position::Grid;
use crate::nn::vocabulary::VocabularyConfig;

/// A use of a network by a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Logits of the next token.
    NextTokens,
    /// Logits of masked tokens.
    MaskedTokens,
    /// Target texts for source texts.
    TextToText,
    /// Classes of texts.
    TextClasses,
    /// One number for each text (regression).
    TextRegression,
    /// Text embeddings.
    TextEmbeddings,
    /// Classes of the tokens of a text.
    TokenClasses,
    /// Start and end scores of spans in a text.
    Spans,
    /// Classes of images.
    ImageClasses,
    /// Hidden states of an image's patches, most of which are masked.
    MaskedPatches,
    /// Vectors of image views of two sizes (self-distillation).
    ImageViews,
    /// Embeddings of images and of texts.
    ImageText,
    /// Texts about images.
    ImageToText,
    /// Transcripts of audio clips.
    SpeechToText,
    /// Character scores along audio clips (CTC).
    SpeechCharacters,
    /// Hidden states of masked frames of audio clips.
    MaskedFrames,
}

impl Use {
    /// Whether logits over a vocabulary are needed.
    pub fn scores_tokens(self) -> bool {
        match self {
            Self::NextTokens
            | Self::MaskedTokens
            | Self::TextToText
            | Self::ImageToText
            | Self::SpeechToText
            | Self::SpeechCharacters => true,
            Self::TextClasses
            | Self::TextRegression
            | Self::TextEmbeddings
            | Self::TokenClasses
            | Self::Spans
            | Self::ImageClasses
            | Self::MaskedPatches
            | Self::ImageViews
            | Self::ImageText
            | Self::MaskedFrames => false,
        }
    }
}

/// The pooled vector of a whole text that a task reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PooledText {
    /// No pooled vector is read.
    Unused,
    /// The network's own pooled vector.
    NetworkDefault,
    /// The network's pooled vector of the first position.
    FirstPosition,
}

/// The demand of a task and its data on a network. The docs of its fields name the keys of other tables that a fault may cite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The use of the network.
    pub used_for: Use,
    /// The pooled vector of a whole text: `task.pooling`.
    pub pooled_text: PooledText,
    /// Whether a text has two segments with separate segment vectors: `task.pairs`.
    pub segments: bool,
    /// Whether a query stream goes through the blocks beside the text's stream: `task.kind`.
    pub has_query_stream: bool,
    /// Whether hidden states of layers before the last are read: `task.intermediate_layers`.
    pub inner_layers: bool,
    /// Whether every position of a source sees the whole source: `task.bidirectional_source`.
    pub bidirectional_source: bool,
    /// Whether labels are smoothed: `task.label_smoothing`.
    pub smooths_labels: bool,
    /// Whether a learned bias is added to the image-text scores: `task.loss`.
    pub has_score_bias: bool,
    /// Whether sources have a separate vocabulary: `data.separate_vocabularies`.
    pub two_vocabularies: bool,
    /// The generator trained beside the network: `task.generator`.
    pub generator: Option<GeneratorShape>,
    /// The masked patches of images: `task.mask_ratio`.
    pub masked_patches: Option<PatchMasking>,
    /// The local views of images: `task.views`.
    pub local_views: Option<LocalViews>,
    /// Number of tokens of the longest input, if known.
    pub context: Option<usize>,
    /// Number of tokens of the longest text that is generated for an input, if known; otherwise as long as the input.
    pub max_generated: Option<usize>,
    /// Channels, height and width of images, if known.
    pub image: Option<[usize; 3]>,
    /// Mel bands and frames of audio clips, if known.
    pub speech: Option<SpeechShape>,
}

impl Demand {
    /// Builds the plain demand of a use.
    pub fn plain(used_for: Use) -> Self {
        Self {
            used_for,
            pooled_text: PooledText::Unused,
            segments: false,
            has_query_stream: false,
            inner_layers: false,
            bidirectional_source: false,
            smooths_labels: false,
            has_score_bias: false,
            two_vocabularies: false,
            generator: None,
            masked_patches: None,
            local_views: None,
            context: None,
            max_generated: None,
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

/// Returns the model kinds that serve a use.
pub fn kinds_serving(used_for: Use) -> Vec<&'static str> {
    let serve = USES.iter().filter(|(_, uses)| uses.contains(&used_for));
    serve.map(|(kind, _)| kind.kind).collect()
}

impl ModelConfig {
    /// Returns the uses that the model serves.
    pub fn uses(&self) -> &'static [Use] {
        let own = USES.iter().find(|(kind, _)| kind.kind == self.kind());
        own.map_or(&[], |(_, uses)| uses)
    }

    /// Checks the model's own keys under a demand, without those that all transformers share. Returns the number of positions of
    /// its longest input, if it is known.
    pub fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        self.facts().faults(demand, at)
    }

    /// Splits a demand on the whole model into the demands on its image and text networks; `None` for a single network.
    pub fn split_demand(&self, demand: &Demand) -> Option<[Demand; 2]> {
        self.facts().parts().map(|parts| (parts.demands)(demand))
    }

    /// Returns the patch grid of images of `[channels, height, width]`; `None` if the model reads no patches.
    pub fn grid(&self, image: Option<[usize; 3]>) -> Option<Grid> {
        let [_, height, width] = image?;
        self.facts().image_facts()?.grid(height, width)
    }

    /// Returns the reason why images of `[channels, height, width]` cannot be read, if there is one, with the config table at
    /// fault.
    pub fn image_size_fault(&self, image: Option<[usize; 3]>) -> Option<String> {
        let [_, height, width] = image?;
        let (table, rule) = self
            .facts()
            .image_facts()?
            .image_size_fault(height, width)?;
        let network = match self.parts() {
            Some([(part, _), _]) => format!("model.{part}"),
            None => "model".to_owned(),
        };
        let table = match table {
            "" => network,
            table => format!("{network}.{table}"),
        };
        Some(faults::prefix_with_table(&table, &rule))
    }

    /// Returns the reason why the model cannot hold a vocabulary of this size, if there is one.
    pub fn vocabulary_fault(&self, vocab: usize) -> Option<String> {
        self.facts().vocabulary()?.size_fault(vocab)
    }

    /// Multiplications of one position's logits over the vocabulary.
    pub fn logit_products(&self, vocab: usize) -> f64 {
        let full = VocabularyConfig::default();
        let vocabulary = self.facts().vocabulary().unwrap_or(&full);
        vocabulary.scored_products(vocab, self.d_output())
    }

    /// Returns the model without the parts that are not read under a demand.
    #[must_use]
    pub fn restricted_to(&self, demand: &Demand) -> Self {
        self.facts()
            .restricted_to(demand)
            .unwrap_or_else(|| self.clone())
    }

    /// Multiplications of a forward pass over one example of this shape (a text, a pair or an image of maximum length) under a
    /// demand, including class scores if it asks for them.
    pub fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let network = self.facts().products(demand, shape);
        let tokens = shape.context;
        match demand.used_for {
            Use::TextRegression => network + self.d_output() as f64,
            Use::Spans => network + tokens as f64 * (2 * self.d_output()) as f64,
            Use::TokenClasses => {
                network + tokens as f64 * (shape.classes.len() * self.d_output()) as f64
            }
            Use::TextClasses | Use::ImageClasses => {
                let heads = 1 + usize::from(self.has_distillation_token());
                network + (heads * shape.classes.len() * self.d_pooled()) as f64
            }
            Use::NextTokens
            | Use::MaskedTokens
            | Use::TextToText
            | Use::TextEmbeddings
            | Use::MaskedPatches
            | Use::ImageViews
            | Use::ImageText
            | Use::ImageToText
            | Use::SpeechToText
            | Use::SpeechCharacters
            | Use::MaskedFrames => network,
        }
    }

    /// Whether it has a distillation token, and so a head that learns from a teacher.
    pub fn has_distillation_token(&self) -> bool {
        matches!(self, Self::Vision(c) if c.distillation_token)
    }

    /// Name of its learned pooling of images, if it has one. The pooling's parameters learn only if the pooled vector is read.
    pub fn learned_pooling(&self) -> Option<&'static str> {
        match self {
            Self::Vision(c) => c.pooling.learned_name(),
            _ => None,
        }
    }

    /// Returns the decoder that reads a source and continues with its target in one row; `None` for other kinds.
    pub fn prefix_decoder(&self) -> Option<&DecoderConfig> {
        match self {
            Self::Decoder(c) => Some(c),
            _ => None,
        }
    }

    /// Returns the network that can read a subset of an image's patches, or images of two sizes; `None` for other kinds.
    pub fn patch_network(&self) -> Option<&VisionConfig> {
        match self {
            Self::Vision(c) => Some(c),
            _ => None,
        }
    }

    /// Returns the encoder of audio samples; `None` for other kinds.
    pub fn sample_encoder(&self) -> Option<&SpeechEncoderConfig> {
        match self {
            Self::SpeechEncoder(c) => Some(c),
            _ => None,
        }
    }

    /// Returns the encoder that predicts masked tokens; `None` for other kinds.
    pub fn masked_lm_encoder(&self) -> Option<&EncoderConfig> {
        match self {
            Self::Encoder(c) => Some(c),
            _ => None,
        }
    }
}

/// Reports a demand for layers before the last on a network with one layer.
pub(super) fn inner_layer_faults(demand: &Demand, layers: usize, at: &mut TableFaults) {
    if demand.inner_layers && layers == 1 {
        at.fault(
            &["task.intermediate_layers", "n_layers"],
            "intermediate_layers = true has no effect: the model has only one layer; remove it or add layers",
        );
    }
}

/// Reports a bias on an LM head that is tied to the embedding table.
pub(super) fn head_faults(
    vocabulary: &VocabularyConfig,
    bias: bool,
    tied: bool,
    at: &mut TableFaults,
) {
    if bias && tied && vocabulary.is_full() {
        at.fault(
            &["head_bias", "tie_embeddings"],
            "head_bias = true has no effect: the head is the embedding table; remove it or set tie_embeddings = false",
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
