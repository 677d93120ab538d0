//! A run becomes an HF folder: config.json, weights under HF's names, its tokenizer.

use super::open::{self, Opened};
use super::saved::Which;
use crate::data::Gives;
use crate::error::{Error, Result};
use crate::interop::export::{self, with_keys_of, write_weights};
use crate::interop::families::HfShape;
use crate::interop::{generation, image_processor, to_hf};
use crate::tokenizer::{Tokenizer, hf};
use crate::train::run_dir;
use serde_json::Value;
use std::path::Path;

/// The outcome of an export, for a person to read.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The family's `model_type`.
    pub family: &'static str,
    /// Tensors that were written.
    pub tensors: usize,
    /// Whether the folder has a tokenizer.
    pub tokenizer: bool,
    /// What the folder does not say, and where transformers computes something else than it says.
    pub notes: Vec<String>,
}

/// Makes an HF folder `dir` of a run's checkpoint; of the family `wanted`, or of one that fits.
///
/// # Errors
/// A run that cannot be opened, a model that is none of HF's families, a folder that exists and is not empty, a disk that
/// refuses. Nothing is left behind then.
pub fn export(run: &Path, which: Which, dir: &Path, wanted: Option<&str>) -> Result<Exported> {
    let opened = open::open(run, which, None)?;
    let older = config_of(run)?;
    let shape = HfShape {
        model: opened.experiment.model.clone(),
        task: opened.experiment.task.clone(),
        shape: opened.shape.clone(),
    };
    let likely = older.as_ref().and_then(|c| c["model_type"].as_str());
    let target = export::target(&shape, wanted, likely)?;
    let table = (target.family.table)(&target.shape);
    let weights = to_hf(&opened.model, &table);
    // Idle rules have no counts: a shortcut that a block lacks.
    let counts: Vec<String> = table
        .counts
        .into_iter()
        .filter(|name| weights.contains_key(&name.replace("num_batches_tracked", "weight")))
        .collect();
    let config = match older {
        Some(older) => with_keys_of(target.config, &older),
        None => target.config,
    };
    require_vacant(dir)?;
    let existed = dir.exists();
    std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    let mut notes = target.notes;
    let written = write(dir, &config, &opened, &mut notes)
        .and_then(|()| write_weights(&dir.join("model.safetensors"), &weights, &counts));
    if let (Err(_), false) = (&written, existed) {
        // Gives the space back; the error that is returned is the one that matters.
        let _ = std::fs::remove_dir_all(dir);
    }
    written?;
    Ok(Exported {
        family: target.family.model_type,
        tensors: weights.len(),
        tokenizer: opened.tokenizers.text.is_some(),
        notes,
    })
}

/// The config.json that the run was imported with, when it was.
fn config_of(run: &Path) -> Result<Option<Value>> {
    let path = run.join(run_dir::HF_CONFIG);
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read(&path).map_err(Error::io("read", &path))?;
    let value = serde_json::from_slice(&text)
        .map_err(|e| Error::run(format!("{} is damaged: {e}", path.display())))?;
    Ok(Some(value))
}

fn require_vacant(dir: &Path) -> Result<()> {
    let vacant = match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    };
    match vacant {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "{} exists and is not an empty folder; name another",
            dir.display()
        ))),
    }
}

/// The tokenizer, or both of them where sources and targets have one each.
fn write_tokenizers(
    dir: &Path,
    text: &Tokenizer,
    opened: &Opened,
    reads: hf::ReadBy,
    notes: &mut Vec<String>,
) -> Result<()> {
    let Some(target) = &opened.tokenizers.target else {
        return hf::write(dir, text, reads).map(drop);
    };
    match hf::write_pair(dir, [text, target], reads)? {
        Ok(()) => Ok(()),
        Err(why) => {
            notes.push(format!(
                "the tokenizer of targets has no place in the folder, which has that of sources: {why}"
            ));
            hf::write(dir, text, reads).map(drop)
        }
    }
}

fn write(dir: &Path, config: &Value, opened: &Opened, notes: &mut Vec<String>) -> Result<()> {
    let path = dir.join("config.json");
    std::fs::write(&path, format!("{config:#}\n")).map_err(Error::io("write", &path))?;
    notes.extend(image_processor::write(dir, &opened.shape)?);
    let Some(tokenizer) = &opened.tokenizers.text else {
        return Ok(());
    };
    let reads = hf::ReadBy {
        max_length: Some(opened.shape.context).filter(|n| *n > 0),
        segments: config["type_vocab_size"].as_u64().is_some_and(|n| n > 1),
    };
    write_tokenizers(dir, tokenizer, opened, reads, notes)?;
    let writes = opened.tokenizers.of_targets().unwrap_or(tokenizer);
    let search = &opened.experiment.decode.search;
    let search = (opened.experiment.task.reads() == Gives::Pairs).then_some(search);
    if search.is_some() || opened.model.networks().language_model.is_some() {
        generation::write(dir, search, writes.marks().ok().as_ref())?;
    }
    Ok(())
}
