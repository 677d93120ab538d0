//! Settings of a beam search: its width, the length of texts, tokens that are never written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LengthPenalty;
use crate::error::{Error, Result};
use crate::one_table::is_usual;
use crate::tokenizer::Tokenizer;

/// Maximum of `max_len_b` and `no_repeat_ngram_size`, in tokens.
const MOST_TOKENS: usize = 1 << 20;

/// Settings of the beam search for texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BeamConfig {
    /// Number of hypotheses per source; 1 takes the likeliest token at each step.
    #[schemars(range(min = 1, max = 4096))]
    pub beam: usize,
    /// How finished hypotheses are compared.
    pub length_penalty: LengthPenalty,
    /// Number of texts returned per source, at most `beam`.
    #[schemars(range(min = 1, max = 4096))]
    pub n_best: usize,
    /// Maximum tokens of a text per token of its source: a text has at most `max_len_a` · source tokens + `max_len_b`
    /// tokens. Source: Ott et al. 2019 (fairseq).
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_len_a: f64,
    /// Maximum tokens of a text beyond those that `max_len_a` allows.
    #[schemars(range(max = MOST_TOKENS))]
    pub max_len_b: usize,
    /// Minimum tokens of a text, if its length limit allows that many.
    pub min_len: usize,
    /// Size of the n-grams that a text contains only once, the tokens before it included; 0 allows all. If every token
    /// would repeat one, all are allowed. Source: Paulus et al. 2018, section 2.5.
    #[schemars(range(max = MOST_TOKENS))]
    #[serde(skip_serializing_if = "is_usual")]
    pub no_repeat_ngram_size: usize,
    /// Token that follows a text that has reached its length limit.
    #[serde(skip_serializing_if = "AtLimit::is_default")]
    pub at_limit: AtLimit,
    /// When the search for a source is finished, with a beam of several hypotheses.
    #[serde(skip_serializing_if = "DoneWhen::is_default")]
    pub done_when: DoneWhen,
    /// Id of the token that every text begins with; it counts towards the length and has log-probability 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
    /// Ids of tokens that are never written (`suppress_tokens` of transformers).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suppress: Vec<u32>,
    /// Ids of tokens that no text begins with; with the end mark among them no text is empty (`begin_suppress_tokens`
    /// of transformers).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suppress_first: Vec<u32>,
}

/// Token that follows a text that has reached its length limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// The end mark, scored like any other token (fairseq).
    #[default]
    End,
    /// The end mark, with log-probability 0 (transformers with `forced_eos_token_id`).
    FreeEnd,
    /// Any token, scored; if it is not the end mark, the text is one token longer and has no end mark (transformers).
    Any,
}

impl AtLimit {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When the search for the texts of a source is finished. The first way does not change the result; the others are faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoneWhen {
    /// No unfinished hypothesis can get a better score (`early_stopping = "never"` of transformers).
    #[default]
    Settled,
    /// As many hypotheses as the beam is wide have finished, and the likeliest unfinished one has a worse score as it
    /// stands (`early_stopping = false`).
    Unlikely,
    /// As many hypotheses as the beam is wide have finished (`early_stopping = true`).
    Full,
}

impl DoneWhen {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What limits the length of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthLimit {
    /// `max_len_a` and `max_len_b` of the search.
    Search,
    /// The number of positions of the model.
    Model,
}

impl LengthLimit {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::Search, Self::Model];
}

impl Default for BeamConfig {
    /// The settings of Vaswani et al., arXiv:1706.03762, section 6.1.
    fn default() -> Self {
        Self {
            beam: 4,
            length_penalty: LengthPenalty::default(),
            n_best: 1,
            max_len_a: 1.0,
            max_len_b: 50,
            min_len: 0,
            no_repeat_ngram_size: 0,
            at_limit: AtLimit::default(),
            done_when: DoneWhen::default(),
            first: None,
            suppress: Vec::new(),
            suppress_first: Vec::new(),
        }
    }
}

impl BeamConfig {
    /// Returns the settings of greedy search: the likeliest token at each step.
    pub fn greedy() -> Self {
        Self {
            beam: 1,
            ..Self::default()
        }
    }

    /// Returns the maximum number of tokens of a text for a source of `source_len` tokens.
    pub fn max_len(&self, source_len: usize) -> usize {
        ((self.max_len_a * source_len as f64) as usize).saturating_add(self.max_len_b)
    }

    /// Returns the maximum number of tokens, also limited by the `placed` positions of a model, if it has a limit; and
    /// which limit applies.
    pub fn limited_len(&self, source_len: usize, placed: Option<usize>) -> (usize, LengthLimit) {
        let wanted = self.max_len(source_len);
        match placed.filter(|placed| *placed < wanted) {
            Some(placed) => (placed.max(1), LengthLimit::Model),
            None => (wanted.max(1), LengthLimit::Search),
        }
    }

    /// Describes a length limit for a message.
    pub fn describe_limit(&self, limit: LengthLimit) -> String {
        match limit {
            LengthLimit::Search if self.max_len_a == 0.0 => {
                format!("decode.search.max_len_b = {}", self.max_len_b)
            }
            LengthLimit::Search => format!(
                "decode.search.max_len_a = {:?} and max_len_b = {}",
                self.max_len_a, self.max_len_b
            ),
            LengthLimit::Model => "the number of positions of the model".into(),
        }
    }

    /// Returns all invalid values; `table` is the table of the keys.
    pub fn faults(&self, table: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(format!("[{table}] {message}"));
            }
        };
        let (beam, n_best) = (self.beam, self.n_best);
        fault(
            beam == 0,
            "beam = 0 must be at least 1 (greedy search)".into(),
        );
        fault(
            n_best == 0 || n_best > beam.max(1),
            format!("n_best = {n_best} must be between 1 and beam = {beam}"),
        );
        fault(
            !(0.0..=1e6).contains(&self.max_len_a),
            format!(
                "max_len_a = {} must be between 0 and 1000000",
                self.max_len_a
            ),
        );
        fault(
            self.max_len_b > MOST_TOKENS,
            format!(
                "max_len_b = {} must be at most {MOST_TOKENS}",
                self.max_len_b
            ),
        );
        fault(
            self.max_len_a == 0.0 && self.max_len_b == 0,
            "max_len_a and max_len_b are both 0, so every text would be empty; increase one".into(),
        );
        let size = self.no_repeat_ngram_size;
        fault(
            size > MOST_TOKENS,
            format!("no_repeat_ngram_size = {size} must be at most {MOST_TOKENS}"),
        );
        let penalty = self.length_penalty.fault();
        fault(penalty.is_some(), penalty.unwrap_or_default());
        faults
    }
}

/// Tokens with a special role in the search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRules {
    /// Tokens that end a text; the first one follows a text that has reached its limit. If there are none, texts end
    /// only at their limit.
    pub ends: Vec<u32>,
    /// Tokens that are never written.
    pub banned: Vec<u32>,
}

impl TokenRules {
    /// Builds the rules of a tokenizer: a text ends with the end mark and contains no other special token except
    /// sentinels: none that begins or separates texts, pads rows or stands for unknown text.
    ///
    /// # Errors
    /// If the vocabulary has no marks.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self> {
        let end = tokenizer.marks()?.end;
        let written = tokenizer.sentinels(usize::MAX);
        let specials = tokenizer.specials().iter().copied();
        Ok(Self {
            ends: vec![end],
            banned: specials
                .filter(|id| *id != end && !written.contains(id))
                .collect(),
        })
    }
}

impl BeamConfig {
    /// Fails if texts should begin with, or avoid, a token that the vocabulary lacks.
    pub(crate) fn require_vocabulary(&self, vocab_size: usize) -> Result<()> {
        let all = [
            ("first", self.first.as_slice()),
            ("suppress", self.suppress.as_slice()),
            ("suppress_first", self.suppress_first.as_slice()),
        ];
        for (key, ids) in all {
            let Some(id) = ids.iter().find(|id| **id as usize >= vocab_size) else {
                continue;
            };
            let of = match key {
                "first" => format!("first = {id}"),
                _ => format!("{key}: {id}"),
            };
            return Err(Error::usage(format!(
                "[decode.search] {of} is not a token id: the vocabulary has {vocab_size} tokens, numbered from 0"
            )));
        }
        Ok(())
    }
}

impl TokenRules {
    /// Returns, for each token, whether it may be written or end a text, or begin one if `begins`.
    pub(super) fn allowed(
        &self,
        vocab_size: usize,
        config: &BeamConfig,
        begins: bool,
    ) -> Vec<bool> {
        let tokens = self.ends.iter().all(|id| (*id as usize) < vocab_size);
        assert!(tokens, "what ends a text is a token");
        let mut allowed = vec![true; vocab_size];
        for id in &self.banned {
            if let Some(place) = allowed.get_mut(*id as usize) {
                *place = false;
            }
        }
        for id in &self.ends {
            allowed[*id as usize] = true;
        }
        let first = config.suppress_first.iter().filter(|_| begins);
        for id in config.suppress.iter().chain(first) {
            if let Some(place) = allowed.get_mut(*id as usize) {
                *place = false;
            }
        }
        allowed
    }
}
