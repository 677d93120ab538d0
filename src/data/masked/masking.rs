//! Masks for masked language models: which tokens are masked, and what replaces them.
//!
//! A share of the tokens of a text is chosen; 80 % of those become the mask token, 10 % a random token and 10
//! % stay unchanged, and all of them are scored (Devlin et al. 2018, section 3.1). Tokens are chosen one by
//! one, in whole words (Devlin et al., 2019 release), in spans of geometric length (Joshi et al. 2019,
//! SpanBERT, section 3.1), or in n-grams of words, p(n) ∝ 1/n (Lan et al. 2019, ALBERT, section 4.1). `masks`
//! draws them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[task] masking`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MaskingConfig {
    /// Share of the tokens that are scored. Source: Devlin et al. 2019, section 3.1.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub share: f64,
    /// Share of the scored tokens that becomes the mask token. Source: Devlin et al. 2019, section 3.1.
    #[schemars(range(min = 0, max = 1))]
    pub masked: f64,
    /// Share of the scored tokens that becomes a random token. Source: Devlin et al. 2019, section 3.1.
    #[schemars(range(min = 0, max = 1))]
    pub random: f64,
    /// The unit of masking.
    pub unit: Unit,
    /// Mean length of a span in words, if the unit is spans. Default 3.8, the mean of SpanBERT's lengths.
    /// Source: Joshi et al. 2020, section 3.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_span: Option<f64>,
    /// Maximum length of a span in words, if the unit is spans. Default 10. Source: Joshi et al. 2020, section 3.1.
    #[schemars(range(min = 1, max = MOST_WORDS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_span: Option<usize>,
    /// Maximum length of an n-gram in words, if the unit is n-grams. Default 3, as in ALBERT.
    /// Source: Lan et al. 2020, section 4.1.
    #[schemars(range(min = 1, max = MOST_WORDS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_ngram: Option<usize>,
    /// Number of masks per text that are used in turn, one per epoch (static masking, BERT: 10), together
    /// with their pairs; when absent, masks are new each time (dynamic masking, Liu et al. 2019, RoBERTa).
    /// Source: Liu et al. 2019, section 4.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u64>,
}

/// The unit of masking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Single tokens.
    #[default]
    Token,
    /// All tokens of a word.
    Word,
    /// Spans of words.
    Span,
    /// n-grams of words, short ones more often.
    Ngram,
}

/// The relation of the two segments of an input, `[task] pairs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pairs {
    /// One segment: text fills the whole length (Liu et al. 2019, FULL-SENTENCES).
    #[default]
    None,
    /// The second segment follows the first, or comes from another document, each half of the time (Devlin et
    /// al. 2018).
    NextSentence,
    /// Two consecutive segments, or the same two swapped, each half of the time (Lan et al. 2019, ALBERT).
    SentenceOrder,
}

/// A text as a masked language model reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MaskedView {
    /// How tokens are masked.
    pub masking: MaskingConfig,
    /// How the segments of an input are paired.
    pub pairs: Pairs,
    /// Whether the token that stands for the whole text is the last one of its frame, in its own segment
    /// (XLNet).
    pub class_token_last: bool,
}

impl Default for MaskingConfig {
    fn default() -> Self {
        Self {
            share: 0.15,
            masked: 0.8,
            random: 0.1,
            unit: Unit::Token,
            mean_span: None,
            longest_span: None,
            longest_ngram: None,
            copies: None,
        }
    }
}

/// Mean and maximum length of SpanBERT's spans in words: p = 0.2, clipped at 10.
const MEAN_SPAN: f64 = 3.8;
const LONGEST_SPAN: usize = 10;
/// Maximum length of ALBERT's n-grams in words (Lan et al. 2019, section 4.1).
const LONGEST_NGRAM: usize = 3;
/// Allowed maximum length of a span or n-gram in words.
const MOST_WORDS: usize = 1000;

impl MaskingConfig {
    /// Returns the mean and maximum length of a span, in words.
    pub(super) fn span(&self) -> (f64, usize) {
        let longest = self.longest_span.unwrap_or(LONGEST_SPAN);
        (self.mean_span.unwrap_or(MEAN_SPAN), longest)
    }

    /// Returns the maximum length of an n-gram, in words.
    pub(super) fn ngram(&self) -> usize {
        self.longest_ngram.unwrap_or(LONGEST_NGRAM)
    }

    /// Returns all faults of its keys, each with its remedy.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(format!("[task] masking: {message}"));
            }
        };
        let share = self.share;
        fault(
            !(share > 0.0 && share < 1.0),
            format!("share = {share} must be above 0 and below 1"),
        );
        for (key, value) in [("masked", self.masked), ("random", self.random)] {
            fault(
                !(0.0..=1.0).contains(&value),
                format!("{key} = {value} must be between 0 and 1"),
            );
        }
        fault(
            self.masked + self.random > 1.0 + 1e-9,
            "masked + random must be at most 1".into(),
        );
        fault(
            self.copies == Some(0),
            "copies = 0 must be at least 1; remove it to draw new masks each time".into(),
        );
        let (mean, longest) = self.span();
        if self.unit == Unit::Span {
            let known = (1..=MOST_WORDS).contains(&longest);
            fault(
                !known,
                format!("longest_span = {longest} is not between 1 and {MOST_WORDS}"),
            );
            let most = (longest as f64 + 1.0) / 2.0;
            fault(
                known && (!(mean > 1.0 || longest == 1) || mean > most.max(1.0)),
                format!(
                    "mean_span = {mean} must be above 1 and at most {most}, half of 1 + longest_span"
                ),
            );
        } else {
            for (key, given) in [
                ("mean_span", self.mean_span.is_some()),
                ("longest_span", self.longest_span.is_some()),
            ] {
                fault(
                    given,
                    format!("{key} has no effect: unit is not \"span\"; remove it"),
                );
            }
        }
        let longest = self.ngram();
        match self.unit {
            Unit::Ngram => fault(
                !(1..=MOST_WORDS).contains(&longest),
                format!("longest_ngram = {longest} is not between 1 and {MOST_WORDS}"),
            ),
            Unit::Token | Unit::Word | Unit::Span => fault(
                self.longest_ngram.is_some(),
                "longest_ngram has no effect: unit is not \"ngram\"; remove it".into(),
            ),
        }
        faults
    }
}
