//! Text-to-text generation: sources are encoded in batches of similar lengths, and targets are found by beam search
//! with key-value caches.
//!
//! A decoder that continues after its source (prefix language model) reads sources of equal length together, since a
//! row has no room for padding between a source and its target.

use super::beam::{
    BeamConfig, Hypothesis, LengthLimit, NextScores, SearchStart, TokenRules, search,
};
use super::decode::DecodeConfig;
use super::next::{EncoderDecoderScores, Interruptible, PrefixDecoderScores, RecurrentScores};
use super::sources::{SourceEncoder, forced_beginning};
use crate::data::Tokenizers;
use crate::error::{Error, Result};
use crate::model::LanguageModel;
use crate::model::decoder::DecoderInput;
use crate::nn::pass::Pass;
use crate::nn::state::StateUse;
use crate::stop::StopFlag;
use crate::task::{Objective, TextToText};
use burn::tensor::{Device, Int, Tensor, TensorData};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A text that was written for a source.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedText {
    /// The text.
    pub text: String,
    /// Log-probability of its tokens and the end mark.
    pub log_prob: f64,
    /// The score that hypotheses are compared by.
    pub score: f64,
    /// Limit that the text reached, if it has as many tokens as allowed.
    pub limit: Option<LengthLimit>,
}

impl GeneratedText {
    /// Converts what a search for up to `max_len` tokens found for one source; `limit` says which limit that is.
    pub(super) fn all(
        found: Vec<Hypothesis>,
        (max_len, limit): (usize, LengthLimit),
        text: impl Fn(&[u32]) -> String,
    ) -> Vec<Self> {
        let written = |hypothesis: Hypothesis| Self {
            limit: (hypothesis.tokens.len() >= max_len).then_some(limit),
            text: text(&hypothesis.tokens),
            log_prob: hypothesis.log_prob,
            score: hypothesis.score,
        };
        found.into_iter().map(written).collect()
    }
}

/// Writes texts with a model in evaluation mode.
pub struct Translator<'a> {
    pub(super) network: TextToText<'a>,
    pub(super) tokenizers: &'a Tokenizers,
    batch_size: usize,
    /// Maximum tokens of a source.
    longest: usize,
    /// Number of sources that were longer.
    pub(super) cut: AtomicUsize,
    device: Device,
    stop: StopFlag,
}

impl<'a> Translator<'a> {
    /// Builds the translator for a text-to-text model; `None` for any other model. `longest` is the length of its
    /// training inputs.
    pub fn new(
        model: &'a Objective,
        tokenizers: &'a Tokenizers,
        config: &DecodeConfig,
        longest: usize,
    ) -> Option<Self> {
        let network = model.networks().text_to_text?;
        let embedding = match network {
            TextToText::EncoderDecoder(model) => &model.embedding,
            TextToText::Prefix(task) => &task.model.embedding,
            TextToText::Recurrent(model) => &model.embedding,
        };
        let device = embedding.device();
        Some(Self {
            network,
            tokenizers,
            batch_size: config.batch_size.max(1),
            longest,
            cut: AtomicUsize::new(0),
            device,
            stop: StopFlag::default(),
        })
    }

    /// Makes the translator return [`Error::Stopped`] when the flag is raised.
    #[must_use]
    pub fn with_stop(self, stop: &StopFlag) -> Self {
        Self {
            stop: stop.clone(),
            ..self
        }
    }

    /// Returns the maximum number of tokens of a source; longer sources are truncated.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the number of sources truncated so far.
    pub fn truncated(&self) -> usize {
        self.cut.load(Ordering::Relaxed)
    }

    /// Finds the best texts for each source, in the order of the sources.
    ///
    /// # Errors
    /// If the run has no tokenizers, they cannot encode a text, or scores are not finite.
    pub fn write(&self, sources: &[&str], config: &BeamConfig) -> Result<Vec<Vec<GeneratedText>>> {
        let written = self.write_each(sources, config)?.into_iter().zip(1..);
        let named = |(texts, number): (Result<_>, usize)| {
            texts.map_err(|e| Error::usage(format!("text {number}: {e}")))
        };
        written.map(named).collect()
    }

    /// [`Translator::write`] that returns a separate error for each text that the tokenizer cannot encode.
    ///
    /// # Errors
    /// If the run has no tokenizers, or scores are not finite.
    pub fn write_each(
        &self,
        sources: &[&str],
        config: &BeamConfig,
    ) -> Result<Vec<Result<Vec<GeneratedText>>>> {
        let (reads, writes) = self.source_and_target()?;
        let framed = SourceEncoder::of(reads, self.longest)?;
        let rules = TokenRules::of(writes)?;
        let (before, first) = match config.first {
            Some(_) => (Vec::new(), writes.marks()?.begin),
            None => forced_beginning(writes)?,
        };
        let mut written: Vec<Result<Vec<GeneratedText>>> =
            sources.iter().map(|_| Ok(Vec::new())).collect();
        let mut ids = Vec::new();
        for (number, text) in sources.iter().enumerate() {
            // An empty source has an empty text.
            if text.trim().is_empty() {
                continue;
            }
            match framed.ids(text) {
                Ok((source, cut)) => {
                    self.cut.fetch_add(usize::from(cut), Ordering::Relaxed);
                    ids.push((number, source));
                }
                Err(error) => written[number] = Err(error),
            }
        }
        // Stable sort: equal lengths stay in order.
        ids.sort_by_key(|(_, ids)| ids.len());
        let longest = |ids: &[u32]| self.target_limit(ids.len(), config).0;
        for batch in self.batches(&ids) {
            let sentences: Vec<SearchStart> = batch
                .iter()
                .map(|(_, ids)| SearchStart {
                    prompt: [before.as_slice(), &[first]].concat(),
                    max_len: longest(ids).saturating_sub(before.len()).max(1),
                })
                .collect();
            let rows: Vec<&[u32]> = batch.iter().map(|(_, ids)| ids.as_slice()).collect();
            self.stop.check()?;
            let mut model = Interruptible {
                model: self.encode_sources(&rows),
                stop: &self.stop,
            };
            for token in &before {
                model.next(&vec![*token; rows.len()])?;
            }
            let found = search(&mut model, &sentences, &rules, config)?;
            for ((place, ids), (found, of)) in batch.iter().zip(found.into_iter().zip(&sentences)) {
                let (_, limit) = self.target_limit(ids.len(), config);
                let text = |tokens: &[u32]| writes.decode_text(tokens);
                written[*place] = Ok(GeneratedText::all(found, (of.max_len, limit), text));
            }
        }
        Ok(written)
    }

    /// Returns the maximum number of tokens of a target, which the search allows and the model has positions for, and
    /// which of the two limits applies.
    fn target_limit(&self, source: usize, config: &BeamConfig) -> (usize, LengthLimit) {
        // The mark that begins a target takes a position too.
        let limit = match self.network {
            TextToText::EncoderDecoder(model) => model.max_len().map(|n| n.saturating_sub(1)),
            TextToText::Prefix(task) => task.model.max_len().map(|n| n.saturating_sub(source + 1)),
            TextToText::Recurrent(_) => None,
        };
        config.limited_len(source, limit)
    }

    /// Splits the sources, sorted by length, into batches that are decoded together.
    fn batches<'b>(&self, ids: &'b [(usize, Vec<u32>)]) -> Vec<&'b [(usize, Vec<u32>)]> {
        match self.network {
            TextToText::EncoderDecoder(_) | TextToText::Recurrent(_) => {
                ids.chunks(self.batch_size).collect()
            }
            TextToText::Prefix(_) => ids
                .chunk_by(|a, b| a.1.len() == b.1.len())
                .flat_map(|alike| alike.chunks(self.batch_size))
                .collect(),
        }
    }

    /// Encodes the sources.
    fn encode_sources(&self, rows: &[&[u32]]) -> Box<dyn NextScores + 'a> {
        let cols = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let lengths: Vec<usize> = rows.iter().map(|row| row.len()).collect();
        let filled = rows.iter().flat_map(|row| {
            let filling = std::iter::repeat_n(0, cols - row.len());
            row.iter().map(|id| *id as i32).chain(filling)
        });
        let ids = TensorData::new(filled.collect::<Vec<i32>>(), [rows.len(), cols]);
        let ids: Tensor<2, Int> = Tensor::from_data(ids, &self.device);
        let pass = Pass::evaluation();
        match self.network {
            TextToText::EncoderDecoder(model) => {
                let uneven = lengths.iter().any(|n| *n < cols);
                Box::new(EncoderDecoderScores {
                    source: model.encode(ids, uneven.then_some(lengths), &pass),
                    state: model.empty_state(StateUse::Decoding),
                    model,
                })
            }
            TextToText::Recurrent(model) => {
                let uneven = lengths.iter().any(|n| *n < cols);
                let source = model.encode(ids, uneven.then_some(lengths), &pass);
                Box::new(RecurrentScores {
                    state: source.state.clone(),
                    source,
                    model,
                    device: self.device.clone(),
                })
            }
            TextToText::Prefix(task) => {
                let mut state = task.model.empty_state(StateUse::Decoding);
                let mut input = DecoderInput::new(ids);
                if task.sees_whole_source() {
                    input.visible.prefix = Some(lengths.as_slice().into());
                }
                // Only the state is needed.
                drop(task.model.forward(input, Some(&mut state), &pass));
                Box::new(PrefixDecoderScores {
                    model: &task.model,
                    state,
                    device: self.device.clone(),
                })
            }
        }
    }
}
