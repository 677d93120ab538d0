//! Generation of text, token by token with a KV cache, for several texts side by side. It serves the commands that write texts and
//! tasks that learn from their own texts.

use super::LanguageModel;
use super::decoder::DecoderInput;
use super::sampling::Sampling;
use crate::error::{Error, Result};
use crate::nn::neighbours::{Neighbours, Retriever};
use crate::nn::pass::Pass;
use crate::nn::state::StateUse;
use crate::stack::ModelState;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Continues prompts of one length side by side with a model in evaluation mode: each forward pass computes the next token of
/// every row.
pub struct TextGenerator<'a> {
    model: &'a dyn LanguageModel,
    /// The retriever of neighbours, for a model that reads them.
    retriever: Option<&'a dyn Retriever>,
    device: Device,
    /// Maximum number of tokens that are read in one pass.
    max_pass_tokens: usize,
    /// Maximum number of tokens that the state may hold.
    limit: usize,
    state: ModelState,
    /// Number of tokens per row for which the cache reserves room.
    reserved: usize,
    rows: Vec<Vec<u32>>,
    /// Logits of the next token, row after row.
    logits: Vec<f32>,
}

impl<'a> TextGenerator<'a> {
    /// Reads the prompts in one pass. `context` is the length that the model was trained with, and the most tokens it sees at
    /// once. A model with a memory of earlier segments has no such limit, and reads long prompts in segments.
    ///
    /// # Errors
    /// If there is no prompt, a prompt is empty, or the prompts differ in length.
    pub fn new(model: &'a dyn LanguageModel, context: usize, prompts: &[&[u32]]) -> Result<Self> {
        Self::with_retriever(model, context, prompts, None)
    }

    /// [`Self::new`] with a retriever: the neighbours of a chunk of a text are looked up once the chunk is complete.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_retriever(
        model: &'a dyn LanguageModel,
        context: usize,
        prompts: &[&[u32]],
        retriever: Option<&'a dyn Retriever>,
    ) -> Result<Self> {
        let length = prompts.first().map_or(0, |prompt| prompt.len());
        if length == 0 {
            return Err(Error::usage(
                "the prompt is empty: give at least one token to continue",
            ));
        }
        if prompts.iter().any(|prompt| prompt.len() != length) {
            return Err(Error::usage(
                "prompts that are continued together have one length",
            ));
        }
        let segment = model.max_len().unwrap_or(context).min(context).max(1);
        let mut generator = Self {
            model,
            retriever,
            device: model.device(),
            max_pass_tokens: segment,
            limit: match model.has_bounded_state() && model.max_len().is_none() {
                true => usize::MAX,
                false => segment,
            },
            state: model.empty_state(StateUse::Decoding),
            reserved: 0,
            rows: prompts.iter().map(|prompt| prompt.to_vec()).collect(),
            logits: Vec::new(),
        };
        generator.refill();
        Ok(generator)
    }

    /// Reserves room for this many more tokens at once, so that the cache does not grow step by step.
    pub fn reserve(&mut self, tokens: usize) {
        self.reserved = self.state.seen.saturating_add(tokens).min(self.limit);
        self.state.reserve(self.reserved);
    }

    /// Returns the logits of a row's next token.
    pub fn logits(&self, row: usize) -> &[f32] {
        let vocab = self.logits.len() / self.rows.len();
        &self.logits[row * vocab..(row + 1) * vocab]
    }

    /// Number of texts that are continued.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns a row's prompt and generated tokens.
    pub fn tokens(&self, row: usize) -> &[u32] {
        &self.rows[row]
    }

    /// Samples the next token of every row and reads it. Each row draws from its own random stream.
    pub fn next(&mut self, sampling: &Sampling) -> Vec<u32> {
        let draw = |row| sampling.draw(self.logits(row), &self.rows[row], row);
        let tokens: Vec<u32> = (0..self.rows.len()).map(draw).collect();
        self.push(&tokens);
        tokens
    }

    /// Reads the given tokens, one for each row.
    pub fn push(&mut self, tokens: &[u32]) {
        assert_eq!(tokens.len(), self.rows.len(), "a token for each row");
        for (row, token) in self.rows.iter_mut().zip(tokens) {
            row.push(*token);
        }
        let seen = self.state.seen;
        if seen >= self.limit {
            self.refill();
        } else if self.limit < usize::MAX && self.model.cache_is_stale_after(seen) {
            self.rebuild_from(seen + 1);
        } else {
            self.logits = self.read_newest(1);
        }
    }

    /// Replaces the rows by these rows in this order, with their states and logits; a row may be taken several times, or not at
    /// all.
    pub fn select(&mut self, rows: &[usize]) {
        self.state.select(&row_indices(rows, &self.device));
        let scores = rows.iter().flat_map(|row| self.logits(*row));
        self.logits = scores.copied().collect();
        self.rows = rows.iter().map(|row| self.rows[*row].clone()).collect();
    }

    /// Rebuilds the cache. A text longer than the limit keeps its newest half, so that as many tokens fit before the next rebuild.
    fn refill(&mut self) {
        let length = self.rows[0].len();
        let window = if length <= self.limit {
            length
        } else {
            self.limit.div_ceil(2)
        };
        self.rebuild_from(window);
    }

    /// Rebuilds the cache from the newest tokens of every row.
    fn rebuild_from(&mut self, newest: usize) {
        self.state = self.model.empty_state(StateUse::Decoding);
        self.state.reserve(self.reserved);
        let mut left = newest;
        while left > self.max_pass_tokens {
            drop(self.hidden_states(left, self.max_pass_tokens));
            left -= self.max_pass_tokens;
        }
        self.logits = self.read_newest(left);
    }

    /// Reads the newest tokens of every row; returns the logits after the last one.
    fn read_newest(&mut self, newest: usize) -> Vec<f32> {
        let hidden = self.hidden_states(newest, newest);
        let [rows, seq, d] = hidden.dims();
        let last = hidden.slice([0..rows, seq - 1..seq, 0..d]);
        let last = last.reshape([1, rows, d]);
        to_floats(self.model.vocabulary_head().logits(last))
    }

    /// Computes hidden states `[rows, count, d_model]` of the first `count` of the newest tokens of every row.
    fn hidden_states(&mut self, newest: usize, count: usize) -> Tensor<3> {
        let part = |row: &'_ Vec<u32>| {
            let from = row.len() - newest;
            row[from..from + count].to_vec()
        };
        let ids: Vec<i32> = self.rows.iter().flat_map(part).map(|t| t as i32).collect();
        let rows = self.rows.len();
        let ids: Tensor<2, Int> =
            Tensor::from_data(TensorData::new(ids, [rows, count]), &self.device);
        let input = DecoderInput {
            neighbours: self.retriever.map(|r| self.neighbours(r, newest, count)),
            ..DecoderInput::new(ids)
        };
        self.model
            .forward(input, Some(&mut self.state), &Pass::evaluation())
    }

    /// Retrieves the neighbours of the chunks that end in the first `count` of the newest tokens. Chunks are counted from the
    /// first token of the cache.
    fn neighbours(&self, retriever: &dyn Retriever, newest: usize, count: usize) -> Neighbours {
        let (m, seen) = (retriever.chunk(), self.state.seen);
        let mut found = Neighbours::empty(m, retriever.count());
        for row in &self.rows {
            let first = row.len() - newest - seen;
            for chunk in seen / m..(seen + count) / m {
                let tokens = &row[first + chunk * m..first + (chunk + 1) * m];
                let tokens: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
                retriever.retrieve(&tokens, &mut found);
            }
        }
        found
    }
}

/// Converts row numbers to a tensor.
pub(crate) fn row_indices(rows: &[usize], device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
    Tensor::from_data(TensorData::new(rows.clone(), [rows.len()]), device)
}

/// Reads the values of a tensor, in order.
pub(crate) fn to_floats<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    let data = x.into_data().convert::<f32>();
    data.try_into_vec().expect("float32, by the conversion")
}
