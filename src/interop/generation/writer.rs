//! Writes `generation_config.json`: the settings that a run was imported with, or else the run's own settings.

use super::{ImportedGeneration, NAME, opening};
use crate::error::{Error, Result};
use crate::files;
use crate::generate::beam::{AtLimit, BeamConfig, DoneWhen, LengthPenalty};
use crate::generate::{ContinuationConfig, SamplingConfig};
use crate::tokenizer::TextMarks;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The key of the first token that a decoder reads.
const START: &str = "decoder_start_token_id";

/// The kind of texts that a run generates, with the settings of generation.
#[derive(Clone, Copy, Debug)]
pub enum GenerationSettings<'a> {
    /// Target texts for source texts.
    Pairs(&'a BeamConfig),
    /// Continuations of a text: sampled, or searched for if the second setting is given.
    Continuations(&'a SamplingConfig, Option<&'a ContinuationConfig>),
    /// Transcripts of recordings, which begin with these tokens.
    Transcripts(&'a BeamConfig, &'a [u32]),
}

/// Writes the file; returns notes on what the file cannot express. The file that a run was imported with (`kept`) is written
/// unchanged while it agrees with the run's settings; otherwise only its keys that are not read here are kept.
///
/// # Errors
/// If the file cannot be written.
pub fn write(
    dir: &Path,
    writes: GenerationSettings,
    marks: TextMarks,
    kept: Option<&ImportedGeneration>,
) -> Result<Vec<String>> {
    let still = kept.filter(|kept| match writes {
        GenerationSettings::Pairs(search) | GenerationSettings::Transcripts(search, _) => {
            kept.search == *search
        }
        GenerationSettings::Continuations(sampling, beams) => {
            kept.sampling == *sampling && kept.beam_search.as_ref() == beams
        }
    });
    let mut without = Vec::new();
    let file = match still {
        Some(kept) => kept.kept.clone(),
        None => {
            let mut file = Map::new();
            for (key, value) in kept.iter().flat_map(|kept| &kept.kept) {
                if !super::reader::is_read(key) {
                    file.insert(key.clone(), value.clone());
                }
            }
            let known = special_token_keys(marks)
                .into_iter()
                .filter(|(_, id)| id.is_some());
            file.extend(known.map(|(key, id)| (key.to_owned(), json!(id))));
            match writes {
                GenerationSettings::Pairs(search) => {
                    add_search(&mut file, search, marks, &mut without)
                }
                GenerationSettings::Continuations(sampling, beams) => {
                    add_sampling(&mut file, sampling, beams.is_some());
                    if let Some(beams) = beams {
                        add_beams(&mut file, &beams.search(), &mut without);
                    }
                }
                GenerationSettings::Transcripts(search, begun) => {
                    add_search(&mut file, search, marks, &mut without);
                    opening::add(&mut file, begun);
                }
            }
            file
        }
    };
    let mut text = serde_json::to_vec_pretty(&file)
        .map_err(|e| Error::run(format!("cannot write {NAME}: {e}")))?;
    text.push(b'\n');
    files::write(&dir.join(NAME), &text)?;
    Ok(without)
}

/// The keys of special tokens, with their ids.
fn special_token_keys(marks: TextMarks) -> [(&'static str, Option<u32>); 3] {
    [
        ("bos_token_id", marks.begin),
        ("eos_token_id", marks.end),
        ("pad_token_id", marks.pad),
    ]
}

/// Adds the special tokens to a config.json that lacks them, as null if there is none: transformers classes have default ids for
/// absent keys, which may be other tokens of the vocabulary or outside of it.
pub fn add_marks(config: &mut Value, marks: TextMarks) {
    for (key, id) in special_token_keys(marks) {
        add(config, key, id);
    }
}

/// Adds the first token that a decoder reads, if there is one, to the config.json of an encoder-decoder that lacks it: its class
/// uses the token to make decoder inputs from `labels`. Null is not a valid value of the key.
pub fn add_start(config: &mut Value, marks: TextMarks) {
    if marks.start.is_some() {
        add(config, START, marks.start);
    }
}

fn add(config: &mut Value, key: &str, id: Option<u32>) {
    if config.get(key).is_none() {
        config[key] = json!(id);
    }
}

fn add_search(
    file: &mut Map<String, Value>,
    search: &BeamConfig,
    marks: TextMarks,
    without: &mut Vec<String>,
) {
    let start = marks.start.map(|id| (START, id));
    file.extend(start.map(|(key, id)| (key.to_owned(), json!(id))));
    add_beams(file, search, without);
    if search.max_len_a != 0.0 {
        without.push(format!(
            "max_len_a = {}: transformers has no length limit that depends on the source",
            search.max_len_a
        ));
    }
    // HF counts the end token.
    file.insert(
        "max_new_tokens".into(),
        json!(search.max_len_b.saturating_add(1)),
    );
    file.insert("min_new_tokens".into(), json!(search.min_len));
    add_ngrams(file, search.no_repeat_ngram_size);
    let first = search.first.or(marks.opening);
    file.extend(first.map(|id| ("forced_bos_token_id".to_owned(), json!(id))));
    for (key, ids) in [
        ("suppress_tokens", &search.suppress),
        ("begin_suppress_tokens", &search.suppress_first),
    ] {
        if !ids.is_empty() {
            file.insert(key.to_owned(), json!(ids));
        }
    }
    if search.at_limit != AtLimit::Any {
        let end = marks.end.map(|id| ("forced_eos_token_id", id));
        file.extend(end.map(|(key, id)| (key.to_owned(), json!(id))));
    }
    if search.at_limit == AtLimit::End && search.beam > 1 {
        without.push(
            "at_limit = \"end\": transformers does not score the end token of a text that has reached its limit"
                .into(),
        );
    }
}

/// Adds the keys of beam search for any kind of text.
fn add_beams(file: &mut Map<String, Value>, search: &BeamConfig, without: &mut Vec<String>) {
    file.insert("num_beams".into(), json!(search.beam));
    file.insert("num_return_sequences".into(), json!(search.n_best));
    if search.beam > 1 {
        let early = match search.done_when {
            DoneWhen::Settled => json!("never"),
            DoneWhen::Unlikely => json!(false),
            DoneWhen::Full => json!(true),
        };
        file.insert("early_stopping".into(), early);
    }
    let penalty = match search.length_penalty {
        LengthPenalty::Average(c) => c.alpha,
        LengthPenalty::None(_) => 0.0,
        LengthPenalty::Gnmt(c) => {
            without.push(format!(
                "length_penalty of kind gnmt with alpha = {}: transformers compares the sums without a penalty",
                c.alpha
            ));
            0.0
        }
    };
    file.insert("length_penalty".into(), json!(penalty));
}

/// Adds the size of the n-grams that texts do not repeat, if there is one.
fn add_ngrams(file: &mut Map<String, Value>, size: usize) {
    if size > 0 {
        file.insert("no_repeat_ngram_size".into(), json!(size));
    }
}

fn add_sampling(file: &mut Map<String, Value>, sampling: &SamplingConfig, searched: bool) {
    if sampling.is_default() && !searched {
        return;
    }
    let drawn = sampling.temperature > 0.0 && !searched;
    file.insert("do_sample".into(), json!(drawn));
    if drawn {
        file.insert("temperature".into(), json!(sampling.temperature));
        // 0 means all tokens; without the key the default is 50.
        file.insert("top_k".into(), json!(sampling.top_k.unwrap_or(0)));
        file.insert("top_p".into(), json!(sampling.top_p.unwrap_or(1.0)));
        file.extend(sampling.min_p.map(|p| ("min_p".to_owned(), json!(p))));
    }
    let penalty = json!(sampling.repetition_penalty);
    file.insert("repetition_penalty".into(), penalty);
    add_ngrams(file, sampling.no_repeat_ngram_size);
    match sampling.max_length {
        Some(n) => file.insert("max_length".into(), json!(n)),
        None => {
            let tokens = sampling
                .tokens
                .unwrap_or(crate::generate::sampling_config::DEFAULT_TOKENS);
            file.insert("max_new_tokens".into(), json!(tokens))
        }
    };
    if !sampling.end.is_empty() {
        file.insert("eos_token_id".into(), json!(sampling.end));
    }
}
