//! Export of a model of ours to an HF folder: finds the family it belongs to, and its config.json.

use super::differences::{differences, is_about};
use super::families::declined::{Declined, declined};
use super::families::{FAMILIES, Family, HfShape, decoder_heads, image_heads};
use super::{ReadConfig, read_config};
use crate::error::{Error, Result};
use crate::model::ModelConfig;
use crate::task::{MultiLabelConfig, TaskConfig};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Number of differences that a message lists before it only counts the rest.
const LISTED: usize = 6;

/// The HF family that a model belongs to.
#[derive(Debug)]
pub struct Target {
    /// The family.
    pub family: Family,
    /// The model's config.json, which reads back as the same model.
    pub config: Value,
    /// The model as read back from `config`.
    pub shape: HfShape,
    /// Notes on where the transformers class computes something other than config.json says.
    pub notes: Vec<String>,
}

/// Finds the family that a model belongs to: only `wanted` if it is given, else the first that fits, trying `likely` first.
/// `task` names the kind of task that the model was trained for in messages; the task in `shape` is the one that families know.
///
/// # Errors
/// If no family fits; the message names the nearest family and the differences from it.
pub fn target(
    shape: &HfShape,
    task: &str,
    wanted: Option<&str>,
    likely: Option<&str>,
) -> Result<Target> {
    target_among(shape, task, wanted, likely, LISTED)
}

/// [`target`] among all families, with an error that fits in a line of text.
///
/// # Errors
/// If no family fits; the message names the nearest family and the first difference from it.
pub fn target_brief(shape: &HfShape, task: &str, likely: Option<&str>) -> Result<Target> {
    target_among(shape, task, None, likely, 1)
}

/// [`target`] with an error that lists at most `listed` differences.
fn target_among(
    shape: &HfShape,
    task: &str,
    wanted: Option<&str>,
    likely: Option<&str>,
    listed: usize,
) -> Result<Target> {
    let mut families: Vec<&Family> = FAMILIES.iter().collect();
    if let Some(wanted) = wanted {
        families.retain(|family| family.model_type == wanted);
        if families.is_empty() {
            let known = FAMILIES.iter().map(|f| f.model_type);
            let hint = crate::error::suggestion(wanted, known);
            return Err(Error::usage(format!("there is no family `{wanted}`{hint}")));
        }
    }
    families.sort_by_key(|family| Some(family.model_type) != likely);
    let mut nearest: Option<Candidate> = None;
    let mut declining: Vec<(&str, Declined)> = Vec::new();
    for family in families {
        let (config, read) = match write_and_read_back(family, shape) {
            Ok(both) => both,
            Err(declined) => {
                let whole = all_differences(family, shape, task, &declined);
                match whole.filter(|_| wanted.is_none()) {
                    Some(off) => keep_nearest(&mut nearest, (family.model_type, off), likely),
                    None => declining.push((family.model_type, declined)),
                }
                continue;
            }
        };
        let off = differences(shape, &read.shape, task);
        if off.is_empty() {
            let mut notes = match read.headless {
                true if image_heads::is_body(&shape.task) => {
                    vec![image_heads::no_head_note(&config)]
                }
                true => vec![image_heads::no_classifier_note(&config)],
                false => read.notes,
            };
            notes.extend(unwritten_setting_note(&shape.task));
            return Ok(Target {
                family: *family,
                config,
                shape: read.shape,
                notes,
            });
        }
        keep_nearest(&mut nearest, (family.model_type, off), likely);
    }
    if let (ModelConfig::Vision(vision), None) = (&shape.model, wanted)
        && vision.stem.network().is_some()
    {
        return Err(Error::usage(
            "transformers 5 has no class for a vision transformer on top of a residual network (it removed `vit-hybrid`), so no \
             folder can contain the model",
        ));
    }
    if let Some(why) = decoder_heads::unsupported_head(shape) {
        return Err(Error::usage(format!(
            "no Hugging Face class supports the head: {why}"
        )));
    }
    declining.retain(|(_, declined)| !declined.differences.is_empty());
    let is_likely = |(name, _): &(&str, Declined)| Some(*name) == likely;
    let of_likely = declining.iter().position(is_likely);
    let of_likely = of_likely.map(|at| declining.remove(at));
    let of_their_kind = declining
        .into_iter()
        .min_by_key(|(_, declined)| declined.distance());
    let why = |(name, declined): (&'static str, Declined)| (name, declined.differences);
    let nearest = of_likely.map(why).or(nearest).or(of_their_kind.map(why));
    let Some((name, off)) = nearest else {
        if let Some(wanted) = wanted {
            return Err(Error::usage(format!(
                "the family `{wanted}` has no model of kind `{}` for the task `{task}`{}",
                shape.model.kind(),
                other_family_clause(shape)
            )));
        }
        return Err(Error::usage(format!(
            "no Hugging Face family has a model of kind `{}` for the task `{task}`",
            shape.model.kind()
        )));
    };
    let mut text = off[..off.len().min(listed)].join("; ");
    if off.len() > listed {
        text.push_str(&format!("; and {} more", off.len() - listed));
    }
    Err(Error::usage(match wanted {
        None => format!(
            "the model does not belong to a Hugging Face family; it is nearest to `{name}`, but {text}"
        ),
        Some(wanted) => format!(
            "the model does not belong to the family `{wanted}`{}: {text}",
            other_family_clause(shape)
        ),
    }))
}

/// A family, and the differences of the model from it.
type Candidate = (&'static str, Vec<String>);

/// Keeps the nearest family so far: of equally near ones the first, and `likely` before all others.
fn keep_nearest(nearest: &mut Option<Candidate>, found: Candidate, likely: Option<&str>) {
    let nearer = |(name, least): &Candidate| Some(*name) != likely && found.1.len() < least.len();
    if nearest.as_ref().is_none_or(nearer) {
        *nearest = Some(found);
    }
}

/// All differences from a family that declines a model but would take a close variant of it: the reasons for declining, and
/// the differences from that variant.
fn all_differences(
    family: &Family,
    shape: &HfShape,
    task: &str,
    declined: &Declined,
) -> Option<Vec<String>> {
    let near = declined.nearest.as_deref()?;
    let (_, read) = write_and_read_back(family, near).ok()?;
    let said = declined
        .differences
        .iter()
        .filter_map(|why| why.split(' ').next());
    let said = said.map(|key| if key == "images" { "image" } else { key });
    let said: Vec<&str> = said.collect();
    let mut all = declined.differences.clone();
    let others = differences(shape, &read.shape, task).into_iter();
    all.extend(others.filter(|other| !said.iter().any(|table| is_about(other, table))));
    Some(all)
}

/// A note on a setting of the task for which config.json has no key.
fn unwritten_setting_note(task: &TaskConfig) -> Option<String> {
    match task {
        TaskConfig::MultiLabel(c) if c.threshold != MultiLabelConfig::default().threshold => {
            Some(format!(
                "config.json has no key for task.threshold = {:?}; set the threshold where the folder is used",
                c.threshold
            ))
        }
        _ => None,
    }
}

/// A clause for an error message about the family that does hold the model, if there is one.
fn other_family_clause(shape: &HfShape) -> String {
    match target(shape, shape.task.kind(), None, None) {
        Ok(found) => format!(
            "; without --family it is exported as a `{}`",
            found.family.model_type
        ),
        Err(_) => String::new(),
    }
}

/// Returns a family's config.json of a model and what is read back from it, or why the family has no such model.
fn write_and_read_back(
    family: &Family,
    shape: &HfShape,
) -> std::result::Result<(Value, ReadConfig), Declined> {
    let keys = family.config_json(shape);
    let keys = keys.ok_or_else(|| declined(family, shape))?;
    let mut config = json!({ "model_type": family.model_type });
    for (key, value) in keys.as_object().into_iter().flatten() {
        // Nulls are kept too: the family's class may have another default.
        config[key] = value.clone();
    }
    config["dtype"] = json!("float32");
    let read = read_config(Path::new("config.json"), config.clone(), &[], None);
    let mut read = read.map_err(unreadable)?;
    if is_text_embedding(shape) {
        decoder_heads::set_text_embedding(&mut read.shape);
    }
    if image_heads::is_body(&shape.task) && read.headless {
        read.shape.task = shape.task.clone();
    }
    // Parts that the task does not use are left out on both sides.
    let demand = read.shape.task.facts().demand();
    read.shape.model = read.shape.model.restricted_to(&demand);
    // Only the weights say whether scores have a bias (BART, Marian), and here a folder is read without them.
    if let (ModelConfig::EncoderDecoder(ours), ModelConfig::EncoderDecoder(theirs)) =
        (&shape.model, &mut read.shape.model)
    {
        theirs.head_bias &= ours.head_bias;
    }
    Ok((config, read))
}

/// Turns the errors of reading back a config.json into reasons for declining the model.
fn unreadable(error: Error) -> Declined {
    let Error::Invalid(faults) = error else {
        return Declined::default();
    };
    let faults = faults.into_iter().map(|fault| fault.message);
    Declined {
        differences: faults
            .map(|why| format!("its config.json would not be valid: {why}"))
            .collect(),
        ..Declined::default()
    }
}

/// Whether the task is text embedding: files of sentence-transformers beside config.json say so.
fn is_text_embedding(shape: &HfShape) -> bool {
    matches!(shape.task, TaskConfig::TextEmbedding(_))
}

/// Adds the keys of an older config.json that a newly written one lacks and that do not change the forward pass, such as ids
/// of special tokens.
pub fn with_harmless_keys_of(mut config: Value, older: &Value) -> Value {
    let empty = Map::new();
    for (key, value) in older.as_object().unwrap_or(&empty) {
        if super::harmless::is_harmless(key) && config.get(key).is_none() {
            config[key] = value.clone();
        }
    }
    config
}
