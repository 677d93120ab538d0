//! Translation, summarisation, any text to text with an encoder-decoder: −log p(y_t | y_{<t}, x), with label
//! smoothing (Vaswani et al. 2017, section 5.4).

use super::{Networks, Scored, Task, TextToText, host};
use crate::data::batch::{Batch, PairBatch};
use crate::evaluate::metric::ACCURACY;
use crate::kernel::HeadLoss;
use crate::model::EncoderDecoder;
use crate::model::heads::VocabularyHead;
use crate::model::recurrent::RecurrentEncoderDecoder;
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::nn::probe::Sample;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "translation",
    summary: "text to text: an encoder-decoder, or a decoder that goes on after the source (prefix language model)",
    source: "Vaswani et al. 2017; Liu et al. 2018 (decoder-only); Raffel et al. 2019 (prefix)",
    example: "{ kind = \"translation\", label_smoothing = 0.1 }",
};

/// The knobs of translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TranslationConfig {
    /// Share of the probability that is spread over the whole vocabulary; reported validation losses are without
    /// it.
    pub label_smoothing: f64,
    /// Whether a decoder sees all of the source from every position of it; a causal mask everywhere otherwise.
    /// For decoders only: an encoder always does.
    pub bidirectional_source: bool,
}

/// A network of an encoder and a decoder.
pub trait ReadsAndWrites {
    /// Hidden states `[batch, target, d_model]` of target ids after source ids `[batch, source]` of these lengths.
    fn hidden(
        &self,
        source: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        target: Tensor<2, Int>,
        pass: &Pass,
    ) -> Tensor<3>;

    /// The product onto the vocabulary.
    fn vocabulary_head(&self) -> VocabularyHead<'_>;

    /// The network as one that writes texts for texts.
    fn text_to_text(&self) -> TextToText<'_>;
}

impl ReadsAndWrites for EncoderDecoder {
    fn hidden(
        &self,
        source: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        target: Tensor<2, Int>,
        pass: &Pass,
    ) -> Tensor<3> {
        let source = self.encode(source, lengths, pass);
        self.decode(target, &source, None, pass)
    }

    fn vocabulary_head(&self) -> VocabularyHead<'_> {
        Self::vocabulary_head(self)
    }

    fn text_to_text(&self) -> TextToText<'_> {
        TextToText::EncoderDecoder(self)
    }
}

impl ReadsAndWrites for RecurrentEncoderDecoder {
    fn hidden(
        &self,
        source: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        target: Tensor<2, Int>,
        pass: &Pass,
    ) -> Tensor<3> {
        let source = self.encode(source, lengths, pass);
        self.decode(target, &source, &mut source.state.clone(), pass)
    }

    fn vocabulary_head(&self) -> VocabularyHead<'_> {
        Self::vocabulary_head(self)
    }

    fn text_to_text(&self) -> TextToText<'_> {
        TextToText::Recurrent(self)
    }
}

/// An encoder and a decoder with their objective.
#[derive(Module, Debug)]
pub struct Translation<M: Module = EncoderDecoder> {
    /// The network.
    pub model: M,
    seed: u64,
    label_smoothing: f64,
}

impl<M: Module + ReadsAndWrites> Translation<M> {
    /// `seed` draws dropout.
    pub fn new(model: M, config: &TranslationConfig, seed: u64) -> Self {
        Self {
            model,
            seed,
            label_smoothing: config.label_smoothing,
        }
    }

    /// The loss of some pairs.
    fn loss(&self, pairs: &PairBatch, device: &Device, pass: &Pass) -> HeadLoss {
        let source = host::matrix(&pairs.source, pairs.source_cols, device);
        let filled = pairs.source_lengths.iter().any(|n| *n < pairs.source_cols);
        let lengths = filled.then(|| pairs.source_lengths.clone());
        let inputs = host::matrix(&pairs.inputs, pairs.target_cols, device);
        let hidden = self.model.hidden(source, lengths, inputs, pass);
        let targets = host::vector(&pairs.targets, device);
        let smoothing = host::smoothing(self.label_smoothing, pass);
        self.model
            .vocabulary_head()
            .loss(hidden, targets, smoothing)
    }
}

impl<M: Module + ReadsAndWrites> Task for Translation<M> {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let pairs = host::pairs(batch);
        let embedding = self.model.vocabulary_head().embedding;
        let device = embedding.weight.val().device();
        let loss = self.loss(pairs, &device, pass);
        let accuracy = (!pass.trains()).then(|| host::right(&loss, &pairs.targets));
        let scored = Scored::new(loss.sum, batch.tokens as u64);
        match accuracy {
            Some(accuracy) => scored.with_metric(ACCURACY, accuracy),
            None => scored,
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn sample(&self, batch: &Batch) -> Sample {
        // The encoder's mask tells itself what fills sources up.
        Sample {
            within: "decoder",
            ..host::longest(host::pairs(batch).target_lengths.iter().copied())
        }
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            text_to_text: Some(self.model.text_to_text()),
            ..Networks::default()
        }
    }
}
