//! Continuations during generation, and how they are shown.

use crate::cli::output;
use crate::error::Result;
use crate::generate::{Sampling, StopTexts, TextGenerator, TextStream};
use crate::tokenizer::Tokenizer;

/// How continuations are shown: a single one while it is generated, several when complete, or as JSON.
pub(super) struct TextPrinter {
    /// Total number of continuations.
    pub total: usize,
    pub json: bool,
}

impl TextPrinter {
    fn is_single(&self) -> bool {
        self.total == 1 && !self.json
    }

    pub fn begin(&self, prompt: &str) -> Result<()> {
        self.append(prompt)
    }

    pub fn append(&self, new: &str) -> Result<()> {
        match self.is_single() {
            true => output::line_part(new),
            false => Ok(()),
        }
    }

    pub fn finish_text(
        &self,
        prompt: &str,
        number: usize,
        sample: usize,
        text: &Text,
    ) -> Result<()> {
        if self.json {
            let mut line = serde_json::json!({
                "prompt": prompt, "sample": sample, "text": text.whole, "tokens": text.tokens,
            });
            if let Some(score) = text.score {
                line["score"] = score.into();
            }
            return output::line(line.to_string());
        }
        if self.is_single() {
            return output::line_part("\n");
        }
        let score = text.score.map(|score| format!(", score {score:.4}"));
        let score = score.unwrap_or_default();
        output::line(format!("--- {} of {}{score}", number + 1, self.total))?;
        output::line(format!("{prompt}{}", text.whole))
    }
}

/// Samples the texts of a generator's rows, with at most `most` more tokens each; a token in `ends` ends a text. The rows are
/// grouped by prompt, with equally many rows for each, and prompt `i` is sampled by `samplings[i]`. `grows` is called with
/// newly generated text.
///
/// # Errors
/// The errors of `grows`.
pub(in crate::cli) fn sample_texts<'a>(
    mut generator: TextGenerator,
    samplings: &[Sampling],
    most: usize,
    ends: &[u32],
    mut texts: Vec<Text<'a>>,
    mut grows: impl FnMut(&str) -> Result<()>,
) -> Result<Vec<Text<'a>>> {
    let each = (texts.len() / samplings.len().max(1)).max(1);
    // Index of the text of each row.
    let mut rows: Vec<usize> = (0..texts.len()).collect();
    for step in 1..=most {
        let draw = |(row, text): (usize, &usize)| {
            let (scores, tokens) = (generator.logits(row), generator.tokens(row));
            samplings[text / each].draw(scores, tokens, text % each)
        };
        let mut tokens: Vec<u32> = rows.iter().enumerate().map(draw).collect();
        for (text, token) in rows.iter().zip(&tokens) {
            let new = texts[*text].push(*token, ends);
            grows(&new)?;
        }
        let open = |row: &usize| !texts[rows[*row]].ended;
        let open: Vec<usize> = (0..rows.len()).filter(open).collect();
        if open.is_empty() || step == most {
            break;
        }
        // Finished texts stay in the batch until they are half of it: removing rows copies the others.
        if 2 * open.len() <= rows.len() {
            generator.select(&open);
            tokens = open.iter().map(|row| tokens[*row]).collect();
            rows = open.iter().map(|row| rows[*row]).collect();
        }
        generator.push(&tokens);
    }
    Ok(texts)
}

/// A continuation during generation.
pub(in crate::cli) struct Text<'a> {
    stream: TextStream<'a>,
    stops: StopTexts,
    /// All text that was returned so far.
    pub whole: String,
    /// Decoded text that was not returned yet.
    unshown: String,
    pub tokens: usize,
    pub ended: bool,
    /// Score of a beam search, or reward of best-of-n sampling.
    pub score: Option<f64>,
}

impl<'a> Text<'a> {
    pub fn new(tokenizer: &'a Tokenizer, prompt: &[u32], stops: &[String]) -> Self {
        Self {
            stream: TextStream::new(tokenizer, prompt),
            stops: StopTexts::new(stops),
            whole: String::new(),
            unshown: String::new(),
            tokens: 0,
            ended: false,
            score: None,
        }
    }

    /// Adds a token and returns the text that is now settled; empty once the text has ended.
    pub fn push(&mut self, token: u32, ends: &[u32]) -> String {
        if self.ended {
            return String::new();
        }
        self.tokens += 1;
        if ends.contains(&token) {
            self.ended = true;
            return self.flush();
        }
        let (new, found) = self.stops.push(&self.stream.push(token));
        let new = new.to_string();
        self.ended = found;
        self.whole.push_str(&new);
        new
    }

    /// Adds tokens of a finished search; `with_end` is their number including the end token. [`Self::finish`] returns their
    /// text.
    pub fn push_found(&mut self, tokens: &[u32], with_end: usize) {
        for token in tokens {
            self.unshown.push_str(&self.stream.push(*token));
        }
        self.tokens = with_end;
    }

    /// Returns the rest of the text when no token follows.
    pub fn finish(&mut self) -> String {
        if self.ended {
            return String::new();
        }
        self.ended = true;
        self.flush()
    }

    fn flush(&mut self) -> String {
        let rest = std::mem::take(&mut self.unshown) + &self.stream.finish();
        let (new, found) = self.stops.push(&rest);
        let mut new = new.to_string();
        if !found {
            new.push_str(self.stops.finish());
        }
        self.whole.push_str(&new);
        new
    }
}
