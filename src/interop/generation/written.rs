//! Writing `generation_config.json`: what a run was imported with, or what its own settings are there.

use super::{Generation, NAME};
use crate::error::{Error, Result};
use crate::files;
use crate::generate::SamplingConfig;
use crate::generate::beam::{AtLimit, BeamConfig, DoneWhen, LengthPenalty};
use crate::tokenizer::Marks;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The texts that a run writes, with the settings of how.
#[derive(Clone, Copy, Debug)]
pub enum Writes<'a> {
    /// Texts for texts.
    Pairs(&'a BeamConfig),
    /// What continues a text.
    Continuations(&'a SamplingConfig),
}

/// Writes the file; gives what has no place in it. What a run was imported with (`kept`) is written as it was while it says
/// the run's settings, and without them what it says beside them.
///
/// # Errors
/// The disk's.
pub fn write(
    dir: &Path,
    writes: Writes,
    marks: Option<&Marks>,
    kept: Option<&Generation>,
) -> Result<Vec<String>> {
    let still = kept.filter(|kept| match writes {
        Writes::Pairs(search) => kept.search == *search,
        Writes::Continuations(sampling) => kept.sampling == *sampling,
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
            add_marks(&mut file, marks);
            match writes {
                Writes::Pairs(search) => add_search(&mut file, search, marks, &mut without),
                Writes::Continuations(sampling) => add_sampling(&mut file, sampling),
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

fn add_marks(file: &mut Map<String, Value>, marks: Option<&Marks>) {
    if let Some(marks) = marks {
        file.insert("bos_token_id".into(), json!(marks.begin));
        file.insert("eos_token_id".into(), json!(marks.end));
        file.extend(marks.pad.map(|pad| ("pad_token_id".to_owned(), json!(pad))));
    }
}

fn add_search(
    file: &mut Map<String, Value>,
    search: &BeamConfig,
    marks: Option<&Marks>,
    without: &mut Vec<String>,
) {
    file.extend(marks.map(|marks| ("decoder_start_token_id".to_owned(), json!(marks.begin))));
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
    file.extend(
        search
            .first
            .map(|id| ("forced_bos_token_id".to_owned(), json!(id))),
    );
    if search.at_limit != AtLimit::Any {
        file.extend(marks.map(|marks| ("forced_eos_token_id".to_owned(), json!(marks.end))));
    }
    if search.at_limit == AtLimit::End && search.beam > 1 {
        without.push(
            "at_limit = \"end\": the end mark of a text that has reached its limit is not scored"
                .into(),
        );
    }
}

fn add_sampling(file: &mut Map<String, Value>, sampling: &SamplingConfig) {
    if sampling.is_default() {
        return;
    }
    let drawn = sampling.temperature > 0.0;
    file.insert("do_sample".into(), json!(drawn));
    if drawn {
        file.insert("temperature".into(), json!(sampling.temperature));
        // All tokens: without the key it is 50 of them.
        file.insert("top_k".into(), json!(sampling.top_k.unwrap_or(0)));
        file.insert("top_p".into(), json!(sampling.top_p.unwrap_or(1.0)));
    }
    let penalty = json!(sampling.repetition_penalty);
    file.insert("repetition_penalty".into(), penalty);
    match sampling.max_length {
        Some(n) => file.insert("max_length".into(), json!(n)),
        None => {
            let tokens = sampling.tokens.unwrap_or(crate::generate::defaults::TOKENS);
            file.insert("max_new_tokens".into(), json!(tokens))
        }
    };
    if !sampling.end.is_empty() {
        file.insert("eos_token_id".into(), json!(sampling.end));
    }
}
