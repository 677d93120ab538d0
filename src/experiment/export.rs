//! Exports a run as a Hugging Face folder (config.json, weights under HF's names, tokenizer), or its adapters as a `peft`
//! folder.

mod chat;
mod max_length;
mod positions;
mod settings;
mod special_tokens;

use self::positions::PositionOffset;
use super::open::{self, OpenedRun};
use super::run_contents::CheckpointChoice;
use super::{Experiment, initial};
use crate::data::Shape;
use crate::error::{Error, Result, shell_word};
use crate::files::PartialFolder;
use crate::interop::export::{self, Target, with_harmless_keys_of};
use crate::interop::families::HfShape;
use crate::interop::stream::write_parameters;
use crate::interop::{
    Parameters, arrays, feature_extractor, image_processor, peft, sample_extractor,
    sentence_transformers,
};
use crate::model::Use;
use crate::tokenizer::{Tokenizer, hf};
use crate::train::run_dir;
use serde_json::Value;
use std::path::Path;

/// Outcome of an export, for display.
#[derive(Clone, Debug)]
pub struct ExportReport {
    /// The family's `model_type`.
    pub family: &'static str,
    /// Number of tensors written.
    pub tensors: usize,
    /// Whether the model reads text but the run has no tokenizer.
    pub lacks_tokenizer: bool,
    /// Notes on what the folder cannot express, and where transformers computes something else than the folder says.
    pub notes: Vec<String>,
}

/// Which weights of a run to export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightSelection {
    /// All weights, with adapters merged into them.
    Merged,
    /// The frozen weights without the adapters of `[lora]`.
    Base,
}

/// Exports a checkpoint of a run as the HF folder `dir`, of the model family `wanted` or of one that fits.
///
/// # Errors
/// If the run cannot be opened; if the model fits no HF family; if the folder exists and is not empty; if writing fails.
/// Nothing is left behind in these cases.
pub fn export(
    run: &Path,
    which: CheckpointChoice,
    dir: &Path,
    wanted: Option<&str>,
    part: WeightSelection,
) -> Result<ExportReport> {
    let mut opened = match part {
        WeightSelection::Merged => open::open(run, which, None)?,
        WeightSelection::Base => open::open_with_adapters(run, which)?,
    };
    max_length::set_max_length(run, &mut opened)?;
    let older = imported_config(run)?;
    let first = PositionOffset::of(&opened, wanted, older.is_some());
    let target = target(&opened, first, original_config(run)?.as_ref(), wanted)?;
    let table = target.family.exported_names(&target.shape);
    let mut parameters = Parameters::of(&opened.model);
    for (path, other) in opened.experiment.task.facts().summed_parameters() {
        parameters.add(path, other);
    }
    if let Some(first) = first {
        first.move_table(&mut parameters);
    }
    let imported = older.is_some();
    let config = match older {
        Some(older) => with_harmless_keys_of(target.config, &older),
        None => special_tokens::disable_layer_drop(target.config),
    };
    let mut notes = target.notes;
    notes.extend(open::older_checkpoint_note(run, which, opened.step));
    notes.extend(first.and_then(|first| first.note(&target.shape)));
    let tensors = create_folder(dir, |dir| {
        let config = special_tokens::add_padding_token(config.clone(), &opened, &mut notes);
        let config = special_tokens::add_text_ends(config, &opened, &mut notes);
        let config = special_tokens::add_special_tokens(config, &opened, imported);
        notes.extend(special_tokens::position_offset_note(&config, &opened));
        write(dir, run, &config, &opened, &mut notes)?;
        write_parameters(&dir.join("model.safetensors"), &table, &parameters)
    })?;
    Ok(ExportReport {
        family: target.family.model_type,
        tensors,
        lacks_tokenizer: opened.shape.vocab_size > 0 && opened.tokenizers.text.is_none(),
        notes,
    })
}

/// Exports the adapters of a run's checkpoint as the `peft` folder `dir`, with the parameters that were trained in full.
///
/// # Errors
/// As [`export`]; if the run has no adapters, or adapts weights that `peft` cannot express.
pub fn export_adapter(
    run: &Path,
    which: CheckpointChoice,
    dir: &Path,
    wanted: Option<&str>,
) -> Result<ExportReport> {
    let opened = open::open_with_adapters(run, which)?;
    let first = PositionOffset::of(&opened, wanted, imported_config(run)?.is_some());
    let target = target(&opened, first, original_config(run)?.as_ref(), wanted)?;
    let table = target.family.exported_names(&target.shape);
    let lora = opened.experiment.lora.clone().unwrap_or_default();
    // For other tasks `peft` adds modules of its own, whose weights would have to be in the folder.
    let networks = opened.model.networks();
    let task_type = match (networks.text_to_text, networks.language_model) {
        (Some(_), _) => Some("SEQ_2_SEQ_LM"),
        (None, Some(_)) => Some("CAUSAL_LM"),
        (None, None) => None,
    };
    let mut arrays = arrays(&opened.model);
    if let Some(first) = first {
        first.move_array(&mut arrays);
    }
    let names = (target.family.model_type, &table);
    let tensors = create_folder(dir, |dir| {
        peft::write(dir, &arrays, &lora, names, task_type)
    })?;
    let begun = initial::read(run)?;
    let merged = begun.iter().find(|one| one.merged);
    let mut notes = Vec::from_iter(open::older_checkpoint_note(run, which, opened.step));
    notes.extend(merged.map(|one| {
        format!(
            "these adapters belong to weights into which the adapters of {} are merged: load them with the folder that \
             `formwork export {} DIR --base` writes, not with the model below the first adapters",
            one.run,
            shell_word(run)
        )
    }));
    Ok(ExportReport {
        family: target.family.model_type,
        tensors,
        lacks_tokenizer: false,
        notes,
    })
}

/// Finds the family of a run's model; `older` is the config.json that the run, or the run it began from, was imported with.
fn target(
    opened: &OpenedRun,
    first: Option<PositionOffset>,
    older: Option<&Value>,
    wanted: Option<&str>,
) -> Result<Target> {
    let mut shape = hf_shape(&opened.experiment, &opened.shape);
    if let Some(first) = first {
        first.apply_to(&mut shape);
    }
    let found = export::target(
        &shape,
        task_of(&opened.experiment),
        wanted,
        family_hint(older),
    );
    found.map_err(|error| match first {
        Some(first) => first.explain(error),
        None => error,
    })
}

/// Returns the family that runs of an experiment are exported as, from its keys and data shape only; `run` is the folder of an
/// existing run.
///
/// # Errors
/// The first reason why no family has such a model.
pub fn family(experiment: &Experiment, shape: &Shape, run: Option<&Path>) -> Result<&'static str> {
    let older = run.map(original_config).transpose()?.flatten();
    let shape = hf_shape(experiment, shape);
    let target = export::target_brief(&shape, task_of(experiment), family_hint(older.as_ref()))?;
    Ok(target.family.model_type)
}

/// Explains why a run cannot be exported although the run in the folder `other`, which it starts from, was imported from a
/// family; none if it can be exported.
///
/// # Errors
/// If the config.json of the other run is damaged.
pub(super) fn export_obstacle(
    experiment: &Experiment,
    shape: &Shape,
    other: &Path,
) -> Result<Option<String>> {
    let Some(older) = imported_config(other)? else {
        return Ok(None);
    };
    let shape = hf_shape(experiment, shape);
    let found = export::target_brief(&shape, task_of(experiment), family_hint(Some(&older)));
    Ok(found.err().map(|error| error.to_string()))
}

/// The config.json that a run was imported with, or else that of the imported run it began from, if that still exists.
fn original_config(run: &Path) -> Result<Option<Value>> {
    if let Some(own) = imported_config(run)? {
        return Ok(Some(own));
    }
    let begun = initial::read(run)?.into_iter();
    let mut found = begun.filter_map(|one| imported_config(Path::new(&one.run)).ok()?);
    Ok(found.next())
}

/// A trained model in the form in which families match it.
fn hf_shape(experiment: &Experiment, shape: &Shape) -> HfShape {
    HfShape {
        model: experiment
            .model
            .restricted_to(&experiment.task.facts().demand()),
        task: experiment.task.published_as(),
        shape: max_length::with_model_positions(shape),
    }
}

/// The task kind as the experiment's file names it; for a distillation, the kind of the learned task.
fn task_of(experiment: &Experiment) -> &'static str {
    let task = &experiment.task;
    task.distillation().map_or(task.kind(), |c| c.of.kind())
}

/// The family named by a config.json.
fn family_hint(older: Option<&Value>) -> Option<&str> {
    older?["model_type"].as_str()
}

/// Fills a temporary folder beside `dir`, which must be vacant, and moves it to `dir` once complete.
fn create_folder<T>(dir: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let part = PartialFolder::create_for(dir)?;
    std::fs::create_dir(part.path()).map_err(Error::io("create", dir))?;
    let filled = fill(part.path())?;
    part.place("config.json")?;
    Ok(filled)
}

/// The config.json that the run was imported with, if it was imported.
fn imported_config(run: &Path) -> Result<Option<Value>> {
    imported(run, run_dir::HF_CONFIG)
}

/// Reads a JSON file of the model that the run was imported from, if it is there.
fn imported(run: &Path, name: &str) -> Result<Option<Value>> {
    let path = run.join(name);
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read(&path).map_err(Error::io("read", &path))?;
    let value = serde_json::from_slice(&crate::files::json::encode_infinity(text))
        .map_err(|e| Error::run(format!("{} is damaged: {e}", path.display())))?;
    Ok(Some(value))
}

/// Writes the tokenizer, or both tokenizers if sources and targets have separate ones.
fn write_tokenizers(
    dir: &Path,
    text: &Tokenizer,
    opened: &OpenedRun,
    reads: hf::ModelInputs,
    notes: &mut Vec<String>,
) -> Result<()> {
    let used_for = opened.experiment.task.network_use();
    if let Use::SpeechCharacters | Use::MaskedFrames = used_for {
        if let Err(why) = hf::write_ctc(dir, text)? {
            notes.push(format!(
                "the folder has the tokenizer as a tokenizer.json, which does not merge the characters that frames repeat: {why}"
            ));
            return hf::write(dir, text, reads).map(drop);
        }
        return Ok(());
    }
    let Some(target) = &opened.tokenizers.target else {
        return hf::write(dir, text, reads).map(drop);
    };
    match hf::write_pair(dir, [text, target], reads)? {
        Ok(()) => Ok(()),
        Err(why) => {
            notes.push(format!(
                "the folder contains the tokenizer of sources and has no place for the tokenizer of targets: {why}"
            ));
            hf::write(dir, text, reads).map(drop)
        }
    }
}

fn write(
    dir: &Path,
    run: &Path,
    config: &Value,
    opened: &OpenedRun,
    notes: &mut Vec<String>,
) -> Result<()> {
    let path = dir.join("config.json");
    std::fs::write(&path, format!("{config:#}\n")).map_err(Error::io("write", &path))?;
    let family = config["model_type"].as_str().unwrap_or_default();
    notes.extend(match opened.shape.speech {
        Some(speech) if speech.n_mels == 0 => {
            let masked = config["feat_extract_norm"] == "layer";
            sample_extractor::write(dir, speech, masked)?;
            Vec::new()
        }
        Some(speech) => feature_extractor::write(dir, speech)?,
        None => image_processor::write(dir, &opened.shape, family)?,
    });
    let (task, model) = (&opened.experiment.task, &opened.experiment.model);
    sentence_transformers::write(dir, task, model.d_output())?;
    settings::write(dir, run, opened, notes)?;
    let Some(tokenizer) = &opened.tokenizers.text else {
        return Ok(());
    };
    notes.extend(hf::rebuild_note(tokenizer, family));
    let reads = hf::ModelInputs {
        max_length: max_length::truncation_length(opened),
        segments: config["type_vocab_size"].as_u64().is_some_and(|n| n > 1),
        pairs: model.kind() == "encoder_decoder",
    };
    write_tokenizers(dir, tokenizer, opened, reads, notes)?;
    if let Some(template) = &opened.tokenizers.chat {
        chat::write(dir, template)?;
    }
    match imported(run, run_dir::HF_TOKENIZER)? {
        Some(Value::Object(kept)) => hf::restore(dir, &kept),
        Some(_) => Err(Error::run(format!(
            "{} is damaged: it is not a JSON object",
            run.join(run_dir::HF_TOKENIZER).display()
        ))),
        None => Ok(()),
    }
}
