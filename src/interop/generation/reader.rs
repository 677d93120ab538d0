//! Reads the keys of `generation_config.json`, each with its allowed values, and finds those without an effect
//! here.

use super::{ImportedGeneration, TextKind, opening};
use crate::generate::beam::{AtLimit, AverageConfig, BeamConfig, DoneWhen, LengthPenalty};
use crate::generate::{ContinuationConfig, SamplingConfig};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// The default of `top_k` in transformers.
const TOP_K: usize = 50;
/// The number of tokens that transformers generates if the file gives no limit.
const NEW_TOKENS: usize = 20;
/// The largest length that may be asked for, in tokens.
const LONGEST: u64 = 1 << 20;

/// Keys that are read.
const READ: [&str; 23] = [
    "decoder_start_token_id",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "num_beams",
    "num_return_sequences",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "early_stopping",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
];
/// Keys of generation that are not supported here.
const UNSUPPORTED: [&str; 15] = [
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "force_words_ids",
    "diversity_penalty",
    "exponential_decay_length_penalty",
    "sequence_bias",
    "guidance_scale",
    "penalty_alpha",
    "epsilon_cutoff",
    "eta_cutoff",
    "stop_strings",
    "max_time",
    "num_beam_groups",
    "typical_p",
    "encoder_repetition_penalty",
];

/// Whether a key of config.json is about generation.
pub(super) fn is_known(key: &str) -> bool {
    READ.contains(&key) || UNSUPPORTED.contains(&key) || opening::KEYS.contains(&key)
}

/// Whether a key is one of those that are read.
pub(super) fn is_read(key: &str) -> bool {
    READ.contains(&key)
}

/// A file's keys, and the faults found in them so far.
pub(super) struct Reader<'a> {
    object: &'a Map<String, Value>,
    of: TextKind,
    /// The faults so far.
    pub faults: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Makes a reader of an object of keys.
    pub fn new(object: &'a Map<String, Value>, of: TextKind) -> Self {
        Self {
            object,
            of,
            faults: Vec::new(),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|v| !v.is_null())
    }

    fn wrong<T>(&mut self, key: &str, wanted: &str) -> Option<T> {
        let value = self.get(key).cloned().unwrap_or_default();
        self.faults
            .push(format!("`{key}` = {value} is not {wanted}"));
        None
    }

    /// A whole number of at most `most`.
    fn count(&mut self, key: &str, most: u64) -> Option<usize> {
        let value = self.get(key)?;
        match value.as_u64().filter(|n| *n <= most) {
            Some(n) => Some(n as usize),
            None => self.wrong(key, &format!("a whole number up to {most}")),
        }
    }

    fn real(&mut self, key: &str, range: std::ops::RangeInclusive<f64>) -> Option<f64> {
        let value = self.get(key)?;
        match value.as_f64().filter(|x| range.contains(x)) {
            Some(x) => Some(x),
            None => self.wrong(
                key,
                &format!("a number from {} to {}", range.start(), range.end()),
            ),
        }
    }

    fn flag(&mut self, key: &str) -> bool {
        let found = self.get(key).map(|value| value.as_bool());
        match found {
            None => false,
            Some(Some(flag)) => flag,
            Some(None) => self.wrong(key, "true or false").unwrap_or(false),
        }
    }

    /// The ids of a key that holds one token or a list of them.
    fn tokens(&mut self, key: &str) -> Vec<u32> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let found: Option<Vec<u32>> = match self.get(key) {
            None => Some(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(id).collect(),
            Some(one) => id(one).map(|id| vec![id]),
        };
        found.unwrap_or_else(|| {
            self.wrong(key, "a token id or a list of token ids")
                .unwrap_or_default()
        })
    }

    /// Reads all settings.
    pub fn generation(&mut self, file: PathBuf) -> ImportedGeneration {
        let begin = self.tokens("decoder_start_token_id");
        let bos = self.tokens("bos_token_id");
        let (end, pad) = (self.tokens("eos_token_id"), self.tokens("pad_token_id"));
        let mut without_place = self.unsupported();
        if end.len() > 1 && self.of.uses_beam_search() {
            without_place.push(format!(
                "eos_token_id: only the first of {end:?} ends a text"
            ));
        }
        let search = self.search(&end, &mut without_place);
        ImportedGeneration {
            file,
            beam_search: self.beam_search(&search),
            search,
            sampling: self.sampling(&end),
            begin: begin.first().or(bos.first()).copied(),
            end,
            pad: pad.first().copied(),
            unsupported: without_place,
            kept: Map::new(),
        }
    }

    fn search(&mut self, end: &[u32], without_place: &mut Vec<String>) -> BeamConfig {
        let most = crate::generate::decode::MAX_ROWS as u64;
        let beam = self.count("num_beams", most).unwrap_or(1).max(1);
        let n_best = self.count("num_return_sequences", most).unwrap_or(1).max(1);
        let alpha = self.real("length_penalty", -10.0..=10.0).unwrap_or(1.0);
        // In transformers, lengths count the token that a decoder begins with.
        let new = |n: usize| n.saturating_sub(1);
        let max = self.count("max_new_tokens", LONGEST);
        let max = max.or(self.count("max_length", LONGEST).map(new));
        let min = self.count("min_new_tokens", LONGEST);
        let min = min.or(self.count("min_length", LONGEST).map(new));
        let (first, last) = (
            self.tokens("forced_bos_token_id"),
            self.tokens("forced_eos_token_id"),
        );
        for (key, ids) in [
            ("forced_bos_token_id", &first),
            ("forced_eos_token_id", &last),
        ] {
            if ids.len() > 1 && self.of.uses_beam_search() {
                without_place.push(format!("{key}: only the first of {ids:?} is used"));
            }
        }
        let at_limit = match last.first() {
            None => AtLimit::Any,
            Some(id) if end.first().is_none_or(|end| end == id) => AtLimit::FreeEnd,
            Some(id) => {
                if self.of.uses_beam_search() {
                    without_place.push(format!("forced_eos_token_id = {id}: not the end token"));
                }
                AtLimit::Any
            }
        };
        BeamConfig {
            beam,
            length_penalty: LengthPenalty::Average(AverageConfig { alpha }),
            n_best: n_best.min(beam),
            max_len_a: 0.0,
            max_len_b: max.unwrap_or(NEW_TOKENS).saturating_sub(1).max(1),
            min_len: min.unwrap_or(0),
            no_repeat_ngram_size: self.count("no_repeat_ngram_size", LONGEST).unwrap_or(0),
            at_limit,
            done_when: self.done_when(),
            first: first.first().copied(),
            suppress: self.tokens("suppress_tokens"),
            suppress_first: self.tokens("begin_suppress_tokens"),
        }
    }

    /// The beam search for continuations that the file asks for, with several beams and without sampling.
    fn beam_search(&self, search: &BeamConfig) -> Option<ContinuationConfig> {
        let meant = !self.of.uses_beam_search() && search.beam > 1 && !self.samples();
        meant.then_some(ContinuationConfig {
            beam: search.beam,
            n_best: search.n_best,
            length_penalty: search.length_penalty,
            done_when: search.done_when,
        })
    }

    fn samples(&self) -> bool {
        self.get("do_sample") == Some(&json!(true))
    }

    fn done_when(&mut self) -> DoneWhen {
        match self.get("early_stopping") {
            None | Some(Value::Bool(false)) => DoneWhen::Unlikely,
            Some(Value::Bool(true)) => DoneWhen::Full,
            Some(word) if word == "never" => DoneWhen::Settled,
            Some(_) => self
                .wrong("early_stopping", "true, false or \"never\"")
                .unwrap_or_default(),
        }
    }

    fn sampling(&mut self, end: &[u32]) -> SamplingConfig {
        let drawn = self.flag("do_sample");
        let temperature = self.real("temperature", 0.0..=1e6);
        let top_p = self.real("top_p", 0.0..=1.0);
        // A nucleus (`top_p`) of probability 0 means the most probable token.
        let top_k = match (top_p, self.count("top_k", 1 << 24)) {
            (Some(0.0), _) => Some(1),
            (_, given) => given.or(Some(TOP_K)).filter(|k| *k > 0),
        };
        let top_p = top_p.filter(|p| (f64::MIN_POSITIVE..1.0).contains(p));
        let min_p = self.real("min_p", 0.0..=1.0).filter(|p| *p > 0.0);
        let penalty = self.real("repetition_penalty", 1e-6..=1e6);
        let tokens = self.count("max_new_tokens", LONGEST).filter(|n| *n > 0);
        let max_length = self.count("max_length", LONGEST);
        let greedy = SamplingConfig {
            tokens,
            max_length: max_length.filter(|n| *n > 0 && tokens.is_none()),
            temperature: 0.0,
            repetition_penalty: penalty.unwrap_or(1.0),
            no_repeat_ngram_size: self.count("no_repeat_ngram_size", LONGEST).unwrap_or(0),
            end: end.to_vec(),
            ..SamplingConfig::default()
        };
        let temperature = temperature.unwrap_or(1.0);
        match drawn && temperature > 0.0 {
            true => SamplingConfig {
                temperature,
                top_k,
                top_p,
                min_p,
                ..greedy
            },
            false => greedy,
        }
    }

    /// Keys that are set but have no effect here.
    fn unsupported(&self) -> Vec<String> {
        let found = self.object.iter();
        let found = found.filter(|(key, value)| !value.is_null() && !self.is_supported(key, value));
        found
            .map(|(key, value)| format!("{key} = {value}"))
            .collect()
    }

    /// Whether a key has an effect here, or has none in transformers either with this value.
    fn is_supported(&self, key: &str, value: &Value) -> bool {
        let (pairs, number) = (self.of.uses_beam_search(), value.as_f64());
        let drawn = self.samples();
        let beams = self.get("num_beams").and_then(Value::as_f64) > Some(1.0);
        match key {
            "typical_p" | "encoder_repetition_penalty" | "num_beam_groups" | "guidance_scale" => {
                number == Some(1.0)
            }
            "epsilon_cutoff"
            | "eta_cutoff"
            | "diversity_penalty"
            | "encoder_no_repeat_ngram_size" => number == Some(0.0),
            // Target texts and transcripts are searched for, never sampled.
            "do_sample" => !pairs || !drawn,
            "repetition_penalty" => !pairs || number == Some(1.0),
            "temperature" | "top_p" => pairs != drawn || number == Some(1.0),
            "min_p" => pairs != drawn || number == Some(0.0),
            "top_k" => pairs != drawn || number == Some(TOP_K as f64) || number == Some(0.0),
            // Sampling from beams is not supported, nor is a minimum length of continuations.
            "num_beams" => pairs || !beams || !drawn,
            "num_return_sequences" => pairs || number == Some(1.0) || beams && !drawn,
            "length_penalty" | "early_stopping" => pairs || !beams || !drawn,
            "min_length" | "min_new_tokens" => pairs || number == Some(0.0),
            "forced_bos_token_id"
            | "forced_eos_token_id"
            | "decoder_start_token_id"
            | "suppress_tokens"
            | "begin_suppress_tokens" => pairs,
            "max_length" => pairs || self.get("max_new_tokens").is_none(),
            _ if READ.contains(&key) => true,
            _ if UNSUPPORTED.contains(&key) => false,
            // Timestamps are never written.
            "return_timestamps" => *value == Value::Bool(false),
            _ if opening::KEYS.contains(&key) => self.of == TextKind::Transcripts,
            _ => crate::interop::harmless::is_harmless(key) || key == "_from_model_config",
        }
    }
}
