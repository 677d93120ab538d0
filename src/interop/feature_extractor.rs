//! Reads and writes `preprocessor_config.json` of audio models: how sound becomes a model's inputs. Processors saved by version 5
//! of transformers have the same keys in `processor_config.json`, in its object `feature_extractor`.
//!
//! The features are those of `data::speech`: log-mel spectrograms of sound at 16 kHz, as the class WhisperFeatureExtractor makes
//! them. Other sampling rates, windows and hop lengths are refused.

use super::fault;
use super::image_processor::{NAME, PROCESSOR};
use crate::data::SpeechShape;
use crate::data::speech::{HOP, N_FFT, RATE};
use crate::error::{Error, Fault, Result};
use crate::files;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The key of the feature extractor in the file of a whole processor.
const OF_SPEECH: &str = "feature_extractor";
const CLASS: &str = "WhisperFeatureExtractor";
/// Frames per second.
const FRAMES: usize = RATE / HOP;

/// Keys that change no feature here: names, ways of padding a batch, and values that follow from other keys.
const IGNORED: [&str; 8] = [
    "auto_map",
    "feature_extractor_type",
    "mel_filters",
    "nb_max_frames",
    "padding_side",
    "processor_class",
    "return_attention_mask",
    "tokenizer_class",
];

/// Checks a folder's feature extractor against the inputs of its model; returns whether the folder has one.
///
/// # Errors
/// If the file is not a JSON object, and for every key whose value differs from the model's or from ours.
pub fn check(dir: &Path, shape: SpeechShape) -> Result<bool> {
    match settings(dir)? {
        Some((path, object)) => check_values(&path, &object, shape).map(|()| true),
        None => Ok(false),
    }
}

/// Returns the feature extractor's settings in a folder and their file; `None` if it has none.
pub(super) fn settings(dir: &Path) -> Result<Option<(PathBuf, Map<String, Value>)>> {
    let whole = dir.join(PROCESSOR);
    if let Some(object) = object(&whole)?
        && let Some(of_speech) = object.get(OF_SPEECH)
    {
        let Value::Object(of_speech) = of_speech else {
            let message = format!("`{OF_SPEECH}` = {of_speech} is not an object {{…}}");
            return Err(Error::Invalid(vec![fault(&whole, message)]));
        };
        return Ok(Some((whole, of_speech.clone())));
    }
    let path = dir.join(NAME);
    Ok(object(&path)?.map(|object| (path, object)))
}

/// Reads the JSON object in a file; `None` if there is no file.
fn object(path: &Path) -> Result<Option<Map<String, Value>>> {
    if !path.is_file() {
        return Ok(None);
    }
    let text = files::json::encode_infinity(files::read(path)?);
    let found = serde_json::from_slice(&text);
    found.map(Some).map_err(|e| {
        let message = format!("is not a JSON object: {e}");
        Error::Invalid(vec![fault(path, message)])
    })
}

/// The keys that may have only one value here, each with this value and the reason for it.
fn required_values(shape: SpeechShape) -> [(&'static str, Value, &'static str); 7] {
    let samples = shape.n_frames * HOP;
    [
        (
            "feature_size",
            json!(shape.n_mels),
            "`num_mel_bins` of config.json",
        ),
        (
            "sampling_rate",
            json!(RATE),
            "the only supported sampling rate",
        ),
        ("hop_length", json!(HOP), "the only supported step"),
        ("n_fft", json!(N_FFT), "the only supported window"),
        (
            "n_samples",
            json!(samples),
            "two frames for each position (`max_source_positions` of config.json)",
        ),
        ("padding_value", json!(0.0), "silence"),
        ("dither", json!(0.0), "because noise is not supported"),
    ]
}

fn check_values(path: &Path, object: &Map<String, Value>, shape: SpeechShape) -> Result<()> {
    let wanted = required_values(shape);
    let mut faults: Vec<Fault> = Vec::new();
    for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        let known = wanted.iter().find(|(name, ..)| name == key);
        let message = match (key.as_str(), known) {
            (_, Some((_, ours, why))) if value.as_f64() != ours.as_f64() => {
                format!("`{key}` = {value} must be {ours}, {why}")
            }
            ("chunk_length", _) if !is_length(value, shape) => format!(
                "`chunk_length` = {value} seconds of {FRAMES} frames must be the {} frames of `max_source_positions` in config.json",
                shape.n_frames
            ),
            ("do_normalize", _) if *value != json!(false) => {
                format!(
                    "`do_normalize` = {value} must be false: recordings are not normalised here"
                )
            }
            ("chunk_length" | "do_normalize", _) | (_, Some(_)) => continue,
            (name, None) if IGNORED.contains(&name) => continue,
            (name, None) => format!("`{name}` is not known: it may change the model's input"),
        };
        faults.push(fault(path, message));
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Error::Invalid(faults)),
    }
}

/// Whether a length in seconds equals the number of frames of the model's recordings.
fn is_length(value: &Value, shape: SpeechShape) -> bool {
    let frames = value.as_f64().map(|seconds| seconds * FRAMES as f64);
    frames.is_some_and(|frames| (frames - shape.n_frames as f64).abs() < 1e-6)
}

/// Writes the file for recordings of this size; returns notes on what the file cannot express.
///
/// # Errors
/// If the file cannot be written.
pub fn write(dir: &Path, shape: SpeechShape) -> Result<Vec<String>> {
    let seconds = shape.n_frames as f64 / FRAMES as f64;
    let whole = shape.n_frames.is_multiple_of(FRAMES);
    let mut file = json!({
        "feature_extractor_type": CLASS,
        "processor_class": "WhisperProcessor",
        "chunk_length": match whole {
            true => json!(shape.n_frames / FRAMES),
            false => json!(seconds),
        },
        "nb_max_frames": shape.n_frames,
        "padding_side": "right",
        "return_attention_mask": false,
    });
    for (key, value, _) in required_values(shape) {
        file[key] = value;
    }
    let mut text = serde_json::to_vec_pretty(&file)
        .map_err(|e| Error::run(format!("cannot write {NAME}: {e}")))?;
    text.push(b'\n');
    files::write(&dir.join(NAME), &text)?;
    let rounded = (!whole)
        .then(|| format!("recordings of {seconds} seconds: the class of the feature extractor supports only whole seconds"));
    Ok(rounded.into_iter().collect())
}
