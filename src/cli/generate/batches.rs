//! Continues prompts of equal length in batches: each pass over the weights yields one token for all of them. The draws for a
//! prompt do not depend on the others in its batch.

use super::text::{Text, sample_texts};
use super::{Prompt, beams};
use crate::error::Result;
use crate::generate::{
    BeamConfig, Hypothesis, SamplingConfig, TextGenerator, search_continuations,
};
use crate::model::LanguageModel;
use crate::nn::neighbours::Retriever;
use crate::tokenizer::Tokenizer;
use std::collections::{HashMap, VecDeque};

/// Default number of continuations generated in parallel.
pub(super) const DEFAULT_ROWS: usize = 8;

/// Settings for continuing prompts.
pub(super) struct Continuations<'a> {
    pub decoder: &'a dyn LanguageModel,
    pub context: usize,
    pub retriever: Option<&'a dyn Retriever>,
    pub tokenizer: &'a Tokenizer,
    /// Tokens that end a text.
    pub ends: &'a [u32],
    /// Texts that stop generation.
    pub stops: &'a [String],
    pub config: &'a SamplingConfig,
    /// The beam search, if one is used instead of sampling.
    pub search: Option<&'a BeamConfig>,
    /// Number of rows per prompt.
    pub rows: usize,
    /// Number of texts shown per prompt.
    pub each: usize,
}

impl<'a> Continuations<'a> {
    /// Generates the continuations of prompts of equal length, grouped by prompt. `grows` is called with newly generated text.
    ///
    /// # Errors
    /// If logits are not numbers; the errors of `grows`.
    pub(super) fn texts(
        &self,
        prompts: &[&Prompt],
        grows: impl FnMut(&str) -> Result<()>,
    ) -> Result<Vec<Vec<Text<'a>>>> {
        let length = prompts.first().map_or(0, |prompt| prompt.tokens.len());
        let most = self.config.tokens_after(length)?;
        let rows = prompts
            .iter()
            .flat_map(|prompt| vec![prompt.tokens.as_slice(); self.rows]);
        let rows: Vec<&[u32]> = rows.collect();
        let mut generator =
            TextGenerator::with_retriever(self.decoder, self.context, &rows, self.retriever)?;
        generator.reserve(most);
        let empty = |tokens: &[u32]| Text::new(self.tokenizer, tokens, self.stops);
        let samplings = prompts.iter().map(|prompt| self.config.rules(prompt.seed));
        let samplings: Vec<_> = samplings.collect();
        if let (Some(search), Some(penalty)) = (self.search, samplings.first()) {
            let found = search_continuations(generator, most, self.ends, penalty, search)?;
            let of_prompt = |(prompt, found): (&&Prompt, Vec<Hypothesis>)| -> Vec<Text<'a>> {
                let text = |found| beams::text(empty(&prompt.tokens), found, most);
                found.iter().map(text).collect()
            };
            return Ok(prompts.iter().zip(found).map(of_prompt).collect());
        }
        let texts: Vec<Text> = rows.iter().map(|tokens| empty(tokens)).collect();
        let texts = sample_texts(generator, &samplings, most, self.ends, texts, grows)?;
        let mut texts = texts.into_iter();
        let of_prompt = |_: &&Prompt| -> Vec<Text<'a>> { texts.by_ref().take(self.rows).collect() };
        Ok(prompts.iter().map(of_prompt).collect())
    }
}

/// Groups prompts into batches of at most `most` with equal length: each starts with the first prompt that is left, followed by
/// the next ones of its length. Returns their indices.
pub(super) fn batches(lengths: &[usize], most: usize) -> Vec<Vec<usize>> {
    let mut left: HashMap<usize, VecDeque<usize>> = HashMap::new();
    for (place, length) in lengths.iter().enumerate() {
        left.entry(*length).or_default().push_back(place);
    }
    let mut batches = Vec::new();
    for (place, length) in lengths.iter().enumerate() {
        let Some(alike) = left.get_mut(length) else {
            continue;
        };
        if alike.front() == Some(&place) {
            let count = alike.len().min(most.max(1));
            batches.push(alike.drain(..count).collect());
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::batches;

    #[test]
    fn the_first_prompt_that_is_left_comes_next() {
        let lengths = [3, 5, 3, 3, 5, 2];
        assert_eq!(
            batches(&lengths, 2),
            [vec![0, 2], vec![1, 4], vec![3], vec![5]]
        );
        assert_eq!(batches(&lengths, 1).concat(), [0, 1, 2, 3, 4, 5]);
        assert!(batches(&[], 4).is_empty());
    }
}
