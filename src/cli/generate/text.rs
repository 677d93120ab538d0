//! Continuations while they grow, and how they are shown.

use crate::cli::output;
use crate::error::Result;
use crate::generate::{Generator, Sampling, Stops, TextStream};
use crate::tokenizer::Tokenizer;

/// How continuations are shown: one alone while it grows, others whole, or as JSON.
pub(super) struct Shown {
    /// Continuations in all.
    pub of: usize,
    pub json: bool,
}

impl Shown {
    fn alone(&self) -> bool {
        self.of == 1 && !self.json
    }

    pub fn begins(&self, prompt: &str) -> Result<()> {
        self.grows(prompt)
    }

    pub fn grows(&self, new: &str) -> Result<()> {
        match self.alone() {
            true => output::part(new),
            false => Ok(()),
        }
    }

    pub fn ends(&self, prompt: &str, number: usize, sample: usize, text: &Text) -> Result<()> {
        if self.json {
            let mut line = serde_json::json!({
                "prompt": prompt, "sample": sample, "text": text.whole, "tokens": text.tokens,
            });
            if let Some(score) = text.score {
                line["score"] = score.into();
            }
            return output::line(line.to_string());
        }
        if self.alone() {
            return output::part("\n");
        }
        let score = text.score.map(|score| format!(", score {score:.4}"));
        let score = score.unwrap_or_default();
        output::line(format!("--- {} of {}{score}", number + 1, self.of))?;
        output::line(format!("{prompt}{}", text.whole))
    }
}

/// Texts of the rows of a generator, with `most` more tokens at most; one of `ends` ends a text. The rows are those of some prompts,
/// as many of each, whose draws have the rules `samplings`. `grows` shows what texts grow by.
///
/// # Errors
/// Those of `grows`.
pub(in crate::cli) fn drawn<'a>(
    mut generator: Generator,
    samplings: &[Sampling],
    most: usize,
    ends: &[u32],
    mut texts: Vec<Text<'a>>,
    mut grows: impl FnMut(&str) -> Result<()>,
) -> Result<Vec<Text<'a>>> {
    let each = (texts.len() / samplings.len().max(1)).max(1);
    // The text of each row.
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
        // Texts that have ended are read on while they are the fewer: leaving rows out copies the others.
        if 2 * open.len() <= rows.len() {
            generator.select(&open);
            tokens = open.iter().map(|row| tokens[*row]).collect();
            rows = open.iter().map(|row| rows[*row]).collect();
        }
        generator.push(&tokens);
    }
    Ok(texts)
}

/// A continuation while it grows.
pub(in crate::cli) struct Text<'a> {
    stream: TextStream<'a>,
    stops: Stops,
    /// All that was handed out.
    pub whole: String,
    /// Settled text that was not handed out.
    unshown: String,
    pub tokens: usize,
    pub ended: bool,
    /// Of a text that was searched for, or told the best by its reward.
    pub score: Option<f64>,
}

impl<'a> Text<'a> {
    pub fn new(tokenizer: &'a Tokenizer, prompt: &[u32], stops: &[String]) -> Self {
        Self {
            stream: TextStream::new(tokenizer, prompt),
            stops: Stops::new(stops),
            whole: String::new(),
            unshown: String::new(),
            tokens: 0,
            ended: false,
            score: None,
        }
    }

    /// The settled text that a token adds; none once the text has ended.
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

    /// Adds tokens that were found together, of so many with the one that ended the text; [`Self::finish`] gives their text.
    pub fn found(&mut self, tokens: &[u32], with_end: usize) {
        for token in tokens {
            self.unshown.push_str(&self.stream.push(*token));
        }
        self.tokens = with_end;
    }

    /// The rest of the text when no token follows.
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
