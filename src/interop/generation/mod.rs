//! `generation_config.json`: how texts are written, both ways.
//!
//! transformers compares ended hypotheses by their sum of log-probabilities over `length ^ length_penalty`, the end
//! mark counted: our `average`. Its lengths count the token that a decoder begins with and the end mark, ours neither.
//! Files before transformers 4.26 have the same keys in `config.json`. A run keeps the keys as they were, so that an
//! exported folder has those without a place here too.

pub mod opening;
mod reader;
mod written;

use crate::error::{Error, Fault, Result};
use crate::files;
use crate::generate::beam::BeamConfig;
use crate::generate::{ContinuationConfig, SamplingConfig};
use reader::Reader;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
pub use written::{Writes, add_marks, add_start, write};

/// The file.
pub const NAME: &str = "generation_config.json";

/// The texts that a model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Texts for texts.
    Pairs,
    /// What continues a text.
    Continuations,
    /// Texts of recordings.
    Transcripts,
}

impl Of {
    /// Whether texts are searched for.
    fn searches(self) -> bool {
        self != Self::Continuations
    }
}

/// How texts are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// The file that says it.
    pub file: PathBuf,
    /// `[decode.search]`: of texts for texts.
    pub search: BeamConfig,
    /// `[decode.sampling]`: of texts that continue.
    pub sampling: SamplingConfig,
    /// `[decode.beam_search]`: of texts that continue, where the likeliest are searched for.
    pub beam_search: Option<ContinuationConfig>,
    /// The token that a decoder begins with: `decoder_start_token_id`, else `bos_token_id`.
    pub begin: Option<u32>,
    /// The tokens that end a text, the first of which is the mark.
    pub end: Vec<u32>,
    /// The token that fills up rows.
    pub pad: Option<u32>,
    /// What it says that has no effect here, with its value.
    pub without_place: Vec<String>,
    /// All that it says.
    pub kept: Map<String, Value>,
}

impl Generation {
    /// Whether it says how long a text may be. Where it does not, transformers writes 20 tokens.
    pub fn says_length(&self) -> bool {
        let keys = ["max_new_tokens", "max_length"];
        keys.iter()
            .any(|key| self.kept.get(*key).is_some_and(|value| !value.is_null()))
    }

    /// An error when every text begins with a token that is none. Of those that are never written the ones that the vocabulary lacks
    /// are left out.
    ///
    /// # Errors
    /// Then.
    pub fn require_vocabulary(&mut self, size: usize) -> Result<()> {
        if let Some(id) = self.search.first.filter(|id| *id as usize >= size) {
            let message =
                format!("`forced_bos_token_id` = {id} is no token; there are {size}, from 0 on");
            return Err(Error::Invalid(vec![super::fault(&self.file, message)]));
        }
        self.leave_out_beyond(size);
        Ok(())
    }

    /// Leaves the tokens that are never written out of the search where the vocabulary lacks them, and tells them among those without
    /// a place.
    pub fn leave_out_beyond(&mut self, size: usize) {
        let lacks = |id: &u32| *id as usize >= size;
        for (key, ids) in [
            ("suppress_tokens", &mut self.search.suppress),
            ("begin_suppress_tokens", &mut self.search.suppress_first),
        ] {
            let none: Vec<u32> = ids.iter().copied().filter(lacks).collect();
            if !none.is_empty() {
                ids.retain(|id| !lacks(id));
                self.without_place.push(format!(
                    "{key}: {none:?} are none of the vocabulary's {size} tokens"
                ));
            }
        }
    }
}

/// Reads a folder's generation_config.json, else what its config.json says of generation; `None` when neither says
/// anything.
///
/// # Errors
/// A file that is no JSON object; every key whose value is none.
pub fn read(dir: &Path, of: Of) -> Result<Option<Generation>> {
    let own = dir.join(NAME);
    let path = if own.is_file() {
        own
    } else {
        dir.join("config.json")
    };
    if !path.is_file() {
        return Ok(None);
    }
    let mut object = object(&path)?;
    if !path.ends_with(NAME) {
        object.retain(|key, value| reader::is_known(key) && !value.is_null());
        if object.is_empty() {
            return Ok(None);
        }
    }
    said(path, object, of).map(Some)
}

/// Reads the file in which a run keeps what it was imported with; `None` where there is none.
///
/// # Errors
/// As [`read`].
pub fn read_kept(path: &Path, of: Of) -> Result<Option<Generation>> {
    match path.is_file() {
        true => said(path.to_path_buf(), object(path)?, of).map(Some),
        false => Ok(None),
    }
}

fn object(path: &Path) -> Result<Map<String, Value>> {
    let text = files::json::plain(files::read(path)?);
    serde_json::from_slice(&text).map_err(|e| {
        let message = format!("is not a JSON object: {e}");
        Error::Invalid(vec![super::fault(path, message)])
    })
}

fn said(file: PathBuf, object: Map<String, Value>, of: Of) -> Result<Generation> {
    let mut reader = Reader::new(&object, of);
    let mut generation = reader.generation(file.clone());
    let faults: Vec<Fault> = reader
        .faults
        .iter()
        .map(|message| super::fault(&file, message))
        .collect();
    generation.kept = object;
    match faults.is_empty() {
        true => Ok(generation),
        false => Err(Error::Invalid(faults)),
    }
}
