//! `generation_config.json`: how texts are written, both ways.
//!
//! transformers compares ended hypotheses by their sum of log-probabilities over `length ^ length_penalty`, the end
//! mark counted: our `average`. Its lengths count the token that a decoder begins with and the end mark, ours neither.
//! Files before transformers 4.26 have the same keys in `config.json`.

use crate::error::{Error, Fault, Result};
use crate::files;
use crate::generate::Sampling;
use crate::generate::beam::{AverageConfig, BeamConfig, LengthPenalty};
use crate::tokenizer::Marks;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The file.
pub const NAME: &str = "generation_config.json";
/// What `do_sample` keeps when the file does not say it.
const TOP_K: usize = 50;
/// The longest text that transformers writes when the file does not say it.
const MAX_LENGTH: usize = 20;

/// How texts are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// `[decode.search]`: of texts for texts.
    pub search: BeamConfig,
    /// Of texts that continue.
    pub sampling: Sampling,
    /// The token that a decoder begins with: `decoder_start_token_id`, else `bos_token_id`.
    pub begin: Option<u32>,
    /// The tokens that end a text, the first of which is the mark.
    pub end: Vec<u32>,
    /// The token that fills up rows.
    pub pad: Option<u32>,
    /// What it says that has no place here, with its value.
    pub without_place: Vec<String>,
}

/// Keys that are read.
const READ: [&str; 17] = [
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
    "repetition_penalty",
    "early_stopping",
];
/// Keys without a place.
const WITHOUT: [&str; 21] = [
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "force_words_ids",
    "diversity_penalty",
    "exponential_decay_length_penalty",
    "sequence_bias",
    "guidance_scale",
    "penalty_alpha",
    "min_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "stop_strings",
    "max_time",
    "num_beam_groups",
    "typical_p",
    "encoder_repetition_penalty",
];

/// Reads a folder's generation_config.json, else what its config.json says of generation; `None` when neither says
/// anything. `encoder_decoder` says whose lengths they are.
///
/// # Errors
/// A file that is no JSON object; every key whose value is none.
pub fn read(dir: &Path, encoder_decoder: bool) -> Result<Option<Generation>> {
    let own = dir.join(NAME);
    let path = if own.is_file() {
        own
    } else {
        dir.join("config.json")
    };
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read(&path).map_err(Error::io("read", &path))?;
    let at = |message: String| Fault {
        file: Some(path.clone()),
        line: None,
        message,
    };
    let mut object: Map<String, Value> = serde_json::from_slice(&text)
        .map_err(|e| Error::Invalid(vec![at(format!("is not a JSON object: {e}"))]))?;
    let known = |key: &str| READ.contains(&key) || WITHOUT.contains(&key);
    if !path.ends_with(NAME) {
        object.retain(|key, value| known(key) && !value.is_null());
        if object.is_empty() {
            return Ok(None);
        }
    }
    let mut reader = Reader {
        object,
        faults: Vec::new(),
    };
    let generation = reader.generation(encoder_decoder);
    match reader.faults.is_empty() {
        true => Ok(Some(generation)),
        false => Err(Error::Invalid(reader.faults.into_iter().map(at).collect())),
    }
}

/// Writes the file; gives what has no place in it.
///
/// # Errors
/// The disk's.
pub fn write(
    dir: &Path,
    search: Option<&BeamConfig>,
    marks: Option<&Marks>,
) -> Result<Vec<String>> {
    let mut file = Map::new();
    let mut without = Vec::new();
    if let Some(marks) = marks {
        file.insert("bos_token_id".into(), json!(marks.begin));
        file.insert("eos_token_id".into(), json!(marks.end));
        file.extend(marks.pad.map(|pad| ("pad_token_id".to_owned(), json!(pad))));
    }
    if let Some(search) = search {
        file.extend(marks.map(|marks| ("decoder_start_token_id".to_owned(), json!(marks.begin))));
        file.insert("num_beams".into(), json!(search.beam));
        file.insert("num_return_sequences".into(), json!(search.n_best));
        if search.beam > 1 {
            file.insert("early_stopping".into(), json!("never"));
        }
        let penalty = match search.length_penalty {
            LengthPenalty::Average(c) => c.alpha,
            LengthPenalty::None(_) => 0.0,
            LengthPenalty::Gnmt(c) => {
                without.push(format!(
                    "length_penalty of kind gnmt with alpha = {}: sums are compared as they are",
                    c.alpha
                ));
                0.0
            }
        };
        file.insert("length_penalty".into(), json!(penalty));
        if search.max_len_a != 0.0 {
            without.push(format!(
                "max_len_a = {}: lengths do not depend on the source",
                search.max_len_a
            ));
        }
        // The end mark is one of theirs.
        file.insert(
            "max_new_tokens".into(),
            json!(search.max_len_b.saturating_add(1)),
        );
        file.insert("min_new_tokens".into(), json!(search.min_len));
    }
    let mut text = serde_json::to_vec_pretty(&file)
        .map_err(|e| Error::run(format!("cannot write {NAME}: {e}")))?;
    text.push(b'\n');
    files::write(&dir.join(NAME), &text)?;
    Ok(without)
}

/// A file, and what is wrong with it so far.
struct Reader {
    object: Map<String, Value>,
    faults: Vec<String>,
}

impl Reader {
    fn get(&self, key: &str) -> Option<&Value> {
        self.object.get(key).filter(|v| !v.is_null())
    }

    fn wrong<T>(&mut self, key: &str, wanted: &str) -> Option<T> {
        let value = self.get(key).cloned().unwrap_or_default();
        self.faults
            .push(format!("`{key}` = {value} is not {wanted}"));
        None
    }

    /// A whole number up to a bound.
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

    /// One token, or several.
    fn tokens(&mut self, key: &str) -> Vec<u32> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        let found: Option<Vec<u32>> = match self.get(key) {
            None => Some(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(id).collect(),
            Some(one) => id(one).map(|id| vec![id]),
        };
        found.unwrap_or_else(|| {
            self.wrong(key, "the id of a token or a list of them")
                .unwrap_or_default()
        })
    }

    fn generation(&mut self, encoder_decoder: bool) -> Generation {
        let begin = self.tokens("decoder_start_token_id");
        let bos = self.tokens("bos_token_id");
        let (end, pad) = (self.tokens("eos_token_id"), self.tokens("pad_token_id"));
        let mut without_place = self.without_place();
        if end.len() > 1 {
            without_place.push(format!("eos_token_id: of {end:?} the first ends a text"));
        }
        Generation {
            search: self.search(encoder_decoder, &mut without_place),
            sampling: self.sampling(),
            begin: begin.first().or(bos.first()).copied(),
            end,
            pad: pad.first().copied(),
            without_place,
        }
    }

    fn search(&mut self, encoder_decoder: bool, without_place: &mut Vec<String>) -> BeamConfig {
        let most = crate::generate::decode::MOST as u64;
        let beam = self.count("num_beams", most).unwrap_or(1).max(1);
        let n_best = self.count("num_return_sequences", most).unwrap_or(1).max(1);
        let alpha = self.real("length_penalty", -10.0..=10.0).unwrap_or(1.0);
        let length = 1 << 20;
        let (max_new, max) = (
            self.count("max_new_tokens", length),
            self.count("max_length", length),
        );
        let (min_new, min) = (
            self.count("min_new_tokens", length),
            self.count("min_length", length),
        );
        if !encoder_decoder {
            // These count the prompt.
            for (key, value) in [("max_length", max), ("min_length", min.filter(|n| *n > 0))] {
                without_place.extend(value.map(|n| format!("{key} = {n}: counts the prompt")));
            }
        }
        let max = max_new
            .or(max.map(|n| n.saturating_sub(1)))
            .unwrap_or(MAX_LENGTH - 1);
        let min = min_new.or(min.map(|n| n.saturating_sub(1))).unwrap_or(0);
        BeamConfig {
            beam,
            length_penalty: LengthPenalty::Average(AverageConfig { alpha }),
            n_best: n_best.min(beam),
            max_len_a: 0.0,
            max_len_b: max.saturating_sub(1).max(1),
            min_len: min,
        }
    }

    fn sampling(&mut self) -> Sampling {
        let sample = self
            .get("do_sample")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        let temperature = self.real("temperature", 0.0..=1e6);
        let top_k = self
            .count("top_k", 1 << 24)
            .or(Some(TOP_K))
            .filter(|k| *k > 0);
        let top_p = self.real("top_p", 0.0..=1.0).filter(|p| *p < 1.0);
        let repetition_penalty = self.real("repetition_penalty", 1e-6..=1e6).unwrap_or(1.0);
        let greedy = Sampling {
            temperature: 0.0,
            repetition_penalty,
            ..Sampling::default()
        };
        match sample {
            true => Sampling {
                temperature: temperature.unwrap_or(1.0),
                top_k,
                top_p,
                ..greedy
            },
            false => greedy,
        }
    }

    /// Keys that say something and have no place.
    fn without_place(&self) -> Vec<String> {
        let drawn = self.get("do_sample") == Some(&json!(true));
        let says = |key: &str, value: &Value| match key {
            "early_stopping" => value != "never" && *value != json!(false),
            "typical_p" | "encoder_repetition_penalty" | "num_beam_groups" | "guidance_scale" => {
                value.as_f64() != Some(1.0)
            }
            "min_p"
            | "epsilon_cutoff"
            | "eta_cutoff"
            | "diversity_penalty"
            | "no_repeat_ngram_size"
            | "encoder_no_repeat_ngram_size" => value.as_f64() != Some(0.0),
            // A search reads none of these, and `generate` its own options.
            "repetition_penalty" => value.as_f64() != Some(1.0),
            "do_sample" | "temperature" | "top_k" | "top_p" => drawn,
            _ if READ.contains(&key) => false,
            _ if WITHOUT.contains(&key) => true,
            _ => !super::harmless::is_harmless(key) && key != "_from_model_config",
        };
        let found = self
            .object
            .iter()
            .filter(|(key, value)| !value.is_null() && says(key, value));
        found
            .map(|(key, value)| format!("{key} = {value}"))
            .collect()
    }
}
