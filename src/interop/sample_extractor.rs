//! Reads and writes `preprocessor_config.json` of models that read raw samples (class Wav2Vec2FeatureExtractor): whether the
//! samples of a recording are normalised. Settings of batch padding have no effect here, because padding is always masked.

use super::image_processor::NAME;
use super::{fault, feature_extractor};
use crate::data::SpeechShape;
use crate::data::speech::RATE;
use crate::error::{Error, Fault, Result};
use crate::files;
use serde_json::{Value, json};
use std::path::Path;

const CLASS: &str = "Wav2Vec2FeatureExtractor";

/// Keys that change no input here: names, and ways of padding a batch.
const IGNORED: [&str; 6] = [
    "auto_map",
    "feature_extractor_type",
    "padding_side",
    "processor_class",
    "return_attention_mask",
    "tokenizer_class",
];

/// Reads from a folder whether the samples of recordings are normalised; `None` if it has no such file.
///
/// # Errors
/// If the file is not a JSON object, and for every key whose value would make other inputs.
pub fn normalizes(dir: &Path) -> Result<Option<bool>> {
    let Some((path, object)) = feature_extractor::settings(dir)? else {
        return Ok(None);
    };
    let mut faults: Vec<Fault> = Vec::new();
    // The class normalises if the file does not say.
    let mut found = true;
    for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        let wanted = match key.as_str() {
            "feature_size" => json!(1),
            "sampling_rate" => json!(RATE),
            "padding_value" => json!(0.0),
            "do_normalize" => {
                match value.as_bool() {
                    Some(value) => found = value,
                    None => {
                        let message = format!("`do_normalize` = {value} is not true or false");
                        faults.push(fault(&path, message));
                    }
                }
                continue;
            }
            name if IGNORED.contains(&name) => continue,
            name => {
                let message = format!("`{name}` is not known: it may change the model's input");
                faults.push(fault(&path, message));
                continue;
            }
        };
        if value.as_f64() != wanted.as_f64() {
            let message = format!("`{key}` = {value} must be {wanted}, the only supported value");
            faults.push(fault(&path, message));
        }
    }
    match faults.is_empty() {
        true => Ok(Some(found)),
        false => Err(Error::Invalid(faults)),
    }
}

/// Writes the file; `masked` says whether the class returns an attention mask that tells padding from recordings.
///
/// # Errors
/// If the file cannot be written.
pub fn write(dir: &Path, shape: SpeechShape, masked: bool) -> Result<()> {
    let file = json!({
        "feature_extractor_type": CLASS,
        "processor_class": "Wav2Vec2Processor",
        "feature_size": 1,
        "sampling_rate": RATE,
        "padding_side": "right",
        "padding_value": 0.0,
        "do_normalize": shape.normalized,
        "return_attention_mask": masked,
    });
    let mut text = serde_json::to_vec_pretty::<Value>(&file)
        .map_err(|e| Error::run(format!("cannot write {NAME}: {e}")))?;
    text.push(b'\n');
    files::write(&dir.join(NAME), &text)
}
