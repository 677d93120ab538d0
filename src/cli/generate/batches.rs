//! Prompts of one length are continued side by side: one pass over the weights gives all of them a token. What is drawn of a
//! prompt does not depend on those beside it.

use super::text::{Text, drawn};
use super::{Prompt, beams};
use crate::error::Result;
use crate::generate::{BeamConfig, Generator, Hypothesis, SamplingConfig, likeliest};
use crate::model::LanguageModel;
use crate::nn::neighbours::Retrieves;
use crate::tokenizer::Tokenizer;
use std::collections::{HashMap, VecDeque};

/// Continuations that are made side by side where no flag says how many.
pub(super) const USUAL: usize = 8;

/// What continues prompts.
pub(super) struct Continues<'a> {
    pub decoder: &'a dyn LanguageModel,
    pub context: usize,
    pub retriever: Option<&'a dyn Retrieves>,
    pub tokenizer: &'a Tokenizer,
    /// Tokens that end a text.
    pub ends: &'a [u32],
    /// Texts that end a text.
    pub stops: &'a [String],
    pub config: &'a SamplingConfig,
    /// Where the likeliest are searched for.
    pub search: Option<&'a BeamConfig>,
    /// Rows of a prompt.
    pub rows: usize,
    /// Texts of a prompt that are shown.
    pub each: usize,
}

impl<'a> Continues<'a> {
    /// The continuations of some prompts of one length, prompt by prompt. `grows` shows what they grow by.
    ///
    /// # Errors
    /// Scores that are not numbers; those of `grows`.
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
            Generator::retrieving(self.decoder, self.context, &rows, self.retriever)?;
        generator.reserve(most);
        let empty = |tokens: &[u32]| Text::new(self.tokenizer, tokens, self.stops);
        let samplings = prompts.iter().map(|prompt| self.config.rules(prompt.seed));
        let samplings: Vec<_> = samplings.collect();
        if let (Some(search), Some(penalty)) = (self.search, samplings.first()) {
            let found = likeliest(generator, most, self.ends, penalty, search)?;
            let of_prompt = |(prompt, found): (&&Prompt, Vec<Hypothesis>)| -> Vec<Text<'a>> {
                let text = |found| beams::text(empty(&prompt.tokens), found, most);
                found.iter().map(text).collect()
            };
            return Ok(prompts.iter().zip(found).map(of_prompt).collect());
        }
        let texts: Vec<Text> = rows.iter().map(|tokens| empty(tokens)).collect();
        let texts = drawn(generator, &samplings, most, self.ends, texts, grows)?;
        let mut texts = texts.into_iter();
        let of_prompt = |_: &&Prompt| -> Vec<Text<'a>> { texts.by_ref().take(self.rows).collect() };
        Ok(prompts.iter().map(of_prompt).collect())
    }
}

/// The places of prompts that are continued together, `most` at most: the first that is left, and the next ones of its length.
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
