//! The tokens that the transcript of a recording begins with: Whisper's `<|startoftranscript|>`, then tokens for the language,
//! for the task, and for leaving out timestamps (Radford et al. 2022, section 2.3). Released files give them as
//! `forced_decoder_ids` with an open language, as tables of languages and tasks, or both.

use super::ImportedGeneration;
use serde_json::{Map, Value, json};

/// The language used if the file leaves it open.
pub const LANGUAGE: &str = "<|en|>";
const FORCED: &str = "forced_decoder_ids";
const NO_TIMESTAMPS: &str = "no_timestamps_token_id";

/// The tokens that a transcript begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptPrefix {
    /// The tokens before the text; `None` in the position of the language if the file leaves it open and does not name the token
    /// of [`LANGUAGE`].
    pub tokens: Vec<Option<u32>>,
    /// Whether the file leaves the language open; the token of [`LANGUAGE`] then takes its position, if the file names it.
    pub language_is_open: bool,
}

impl ImportedGeneration {
    /// The tokens that a transcript begins with; `None` if the file gives only the first one, or none.
    pub fn transcript_prefix(&self) -> Option<TranscriptPrefix> {
        let kept = &self.kept;
        let mut tokens = vec![Some(self.begin?)];
        let entry = |table: &str, name: &str| id(kept.get(table)?.get(name)?);
        let language = entry("lang_to_id", LANGUAGE);
        let mut open = false;
        match forced(kept) {
            Some(forced) => {
                open = forced.contains(&None);
                tokens.extend(forced.into_iter().map(|id| id.or(language)));
            }
            None if kept.get("is_multilingual") == Some(&json!(true)) => {
                open = language.is_some();
                let job = entry("task_to_id", "transcribe");
                tokens.extend([language, job].into_iter().filter(Option::is_some));
            }
            None => {}
        }
        let no_times = kept.get(NO_TIMESTAMPS).and_then(id).map(Some);
        tokens.extend(no_times.filter(|id| !tokens.contains(id)));
        (tokens.len() > 1).then_some(TranscriptPrefix {
            tokens,
            language_is_open: open,
        })
    }
}

/// The tokens of `forced_decoder_ids` from position 1 on, `None` for an open one. Returns `None` if the list is empty.
fn forced(kept: &Map<String, Value>) -> Option<Vec<Option<u32>>> {
    let mut pairs: Vec<(u64, Option<u32>)> = Vec::new();
    let list = kept.get(FORCED)?.as_array()?;
    for pair in Some(list).filter(|list| !list.is_empty())? {
        pairs.push((pair.get(0)?.as_u64()?, pair.get(1).and_then(id)));
    }
    pairs.sort_unstable();
    Some(pairs.into_iter().map(|(_, id)| id).collect())
}

fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// Adds the tokens after the first one to a generation_config.json.
pub(super) fn add(file: &mut Map<String, Value>, opening: &[u32]) {
    let forced = opening.iter().enumerate().skip(1);
    let forced: Vec<Value> = forced.map(|(place, id)| json!([place, id])).collect();
    if !forced.is_empty() {
        file.insert(FORCED.to_owned(), forced.into());
    }
}

/// Keys of Whisper's files that are read here, or that concern timestamps, which are not written, and preceding text.
pub(super) const KEYS: [&str; 10] = [
    FORCED,
    NO_TIMESTAMPS,
    "lang_to_id",
    "task_to_id",
    "is_multilingual",
    "alignment_heads",
    "max_initial_timestamp_index",
    "median_filter_width",
    "prev_sot_token_id",
    "return_timestamps",
];

#[cfg(test)]
mod tests {
    use super::super::{TextKind, parse};
    use super::*;

    fn opening(value: &Value) -> Option<TranscriptPrefix> {
        let object = value.as_object().cloned().unwrap_or_default();
        parse(
            "generation_config.json".into(),
            object,
            TextKind::Transcripts,
        )
        .unwrap()
        .transcript_prefix()
    }

    #[test]
    fn released_files_say_it_in_three_ways() {
        let whole = |tokens: &[u32], open| {
            Some(TranscriptPrefix {
                tokens: tokens.iter().copied().map(Some).collect(),
                language_is_open: open,
            })
        };
        // Only English.
        let english = json!({"decoder_start_token_id": 50257, "forced_decoder_ids": [[1, 50362]], "no_timestamps_token_id": 50362});
        assert_eq!(opening(&english), whole(&[50257, 50362], false));
        // Multilingual: the language is told from the recording.
        let tables = json!({
            "decoder_start_token_id": 7, "is_multilingual": true, "lang_to_id": {"<|en|>": 8, "<|de|>": 9},
            "task_to_id": {"transcribe": 10, "translate": 11}, "no_timestamps_token_id": 12,
        });
        assert_eq!(opening(&tables), whole(&[7, 8, 10, 12], true));
        let mut both = tables.clone();
        both["forced_decoder_ids"] = json!([[2, 10], [1, null]]);
        assert_eq!(opening(&both), whole(&[7, 8, 10, 12], true));
        both["forced_decoder_ids"] = json!([[1, 9], [2, 11], [3, 12]]);
        assert_eq!(opening(&both), whole(&[7, 9, 11, 12], false));
        // An empty list says nothing.
        both["forced_decoder_ids"] = json!([]);
        assert_eq!(opening(&both), whole(&[7, 8, 10, 12], true));
        // No table names the token of a language.
        let bare = json!({"decoder_start_token_id": 7, "forced_decoder_ids": [[1, null], [2, 9]]});
        let holed = TranscriptPrefix {
            tokens: vec![Some(7), None, Some(9)],
            language_is_open: true,
        };
        assert_eq!(opening(&bare), Some(holed));
        assert_eq!(opening(&json!({"decoder_start_token_id": 7})), None);
        assert_eq!(opening(&json!({"no_timestamps_token_id": 7})), None);
    }
}
