//! Models that have read a source, as [`NextScores`] of a search.

use super::beam::NextScores;
use crate::error::Result;
use crate::model::decoder::DecoderInput;
use crate::model::encoder_decoder::Source;
use crate::model::generation;
pub(super) use crate::model::generation::row_indices as numbers;
use crate::model::recurrent::{RecurrentEncoderDecoder, RecurrentSource};
use crate::model::{Decoder, EncoderDecoder, LanguageModel};
use crate::nn::pass::Pass;
use crate::stack::ModelState;
use crate::stop::StopFlag;
use burn::tensor::{Device, Int, Tensor, TensorData, activation};

/// A model that stops with an error when it is asked to.
pub(super) struct Interruptible<'a> {
    pub(super) model: Box<dyn NextScores + 'a>,
    pub(super) stop: &'a StopFlag,
}

impl NextScores for Interruptible<'_> {
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        self.stop.check()?;
        self.model.next(tokens)
    }

    fn select(&mut self, rows: &[usize]) -> Result<()> {
        self.model.select(rows)
    }
}

/// An encoder-decoder with the sources it has read.
pub(super) struct EncoderDecoderScores<'a> {
    pub(super) model: &'a EncoderDecoder,
    pub(super) source: Source,
    pub(super) state: ModelState,
}

impl NextScores for EncoderDecoderScores<'_> {
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let ids = column(tokens, &self.source.states.device());
        let pass = Pass::evaluation();
        let state = Some(&mut self.state);
        let hidden = self.model.decode(ids, &self.source, state, &pass);
        Ok(log_probs(self.model.logits(hidden)))
    }

    fn select(&mut self, rows: &[usize]) -> Result<()> {
        self.source = self.source.select(rows);
        let numbers = numbers(rows, &self.source.states.device());
        self.state.select(&numbers);
        Ok(())
    }
}

/// Recurrent cells with the sources they have read.
pub(super) struct RecurrentScores<'a> {
    pub(super) model: &'a RecurrentEncoderDecoder,
    pub(super) source: RecurrentSource,
    pub(super) state: ModelState,
    pub(super) device: Device,
}

impl NextScores for RecurrentScores<'_> {
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let ids = column(tokens, &self.device);
        let (source, state) = (&self.source, &mut self.state);
        let hidden = self.model.decode(ids, source, state, &Pass::evaluation());
        Ok(log_probs(self.model.vocabulary_head().logits(hidden)))
    }

    fn select(&mut self, rows: &[usize]) -> Result<()> {
        let numbers = numbers(rows, &self.device);
        self.source = self.source.select(&numbers);
        self.state.select(&numbers);
        Ok(())
    }
}

/// A decoder with the sources it has read.
pub(super) struct PrefixDecoderScores<'a> {
    pub(super) model: &'a Decoder,
    pub(super) state: ModelState,
    pub(super) device: Device,
}

impl NextScores for PrefixDecoderScores<'_> {
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let input = DecoderInput::new(column(tokens, &self.device));
        let state = Some(&mut self.state);
        let hidden = self.model.forward(input, state, &Pass::evaluation());
        Ok(log_probs(self.model.logits(hidden)))
    }

    fn select(&mut self, rows: &[usize]) -> Result<()> {
        self.state.select(&numbers(rows, &self.device));
        Ok(())
    }
}

/// Builds the ids of one token for each row, `[rows, 1]`.
pub(super) fn column(tokens: &[u32], device: &Device) -> Tensor<2, Int> {
    let ids: Vec<i32> = tokens.iter().map(|t| *t as i32).collect();
    Tensor::from_data(TensorData::new(ids, [tokens.len(), 1]), device)
}

/// Returns log-probabilities `[rows, vocab]` from logits `[rows, 1, vocab]`.
pub(super) fn log_probs(logits: Tensor<3>) -> Vec<f32> {
    generation::to_floats(activation::log_softmax(logits, 2))
}
