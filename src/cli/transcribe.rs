//! `formwork transcribe`: transcribes recordings with a trained model.
//!
//! A recording that is longer than those in training is split into consecutive parts of their length, and the texts of its
//! parts are joined by spaces. Parts of several recordings form a batch.
//!
//! If one of several recordings cannot be read, it is reported on standard error, the others are transcribed, and the exit
//! status is 1.

use super::{inputs, output};
use crate::data::SpeechShape;
use crate::data::batch::SpeechItem;
use crate::data::speech::{HOP, SpeechInputs, samples};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::run_contents::CheckpointChoice;
use crate::experiment::temporary_keys::{self, with_keys};
use crate::generate::beam::BeamConfig;
use crate::generate::decode::{check_search, with_flags};
use crate::generate::{GeneratedText, SpeechToText};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

/// `formwork transcribe`.
#[derive(Debug, Args)]
pub struct TranscribeArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// Recordings: WAV or FLAC, of any length.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Beam size of the search; 1 takes the most likely token each time. The experiment's when absent.
    #[arg(long, value_name = "B")]
    beam: Option<usize>,
    /// Number of texts per recording, the best first, each after its score.
    #[arg(long, value_name = "N")]
    n_best: Option<usize>,
    /// The language of the recordings, as its token in the vocabulary spells it, such as de; the run's when absent.
    #[arg(long, value_name = "LANGUAGE")]
    language: Option<String>,
    /// Translate into English, with a model that was trained for this.
    #[arg(long)]
    translate: bool,
    /// Print one JSON object for each recording.
    #[arg(long)]
    json: bool,
    /// Set a key of [decode] for this command only, as in decode.search.max_len_b=100; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
}

/// Runs `formwork transcribe`.
///
/// # Errors
/// If flags are out of range, the run transcribes no recordings, or it cannot read a recording.
pub fn run(args: TranscribeArgs) -> Result<()> {
    check_search(args.beam, args.n_best)?;
    temporary_keys::require(&args.sets, None)?;
    let opened = super::open_run::open(&args.run, args.checkpoint, args.device.as_deref())?;
    let experiment = with_keys(&opened.experiment, &args.run, &args.sets)?;
    let decode = &experiment.decode;
    let (model, tokenizers, shape) = (&opened.model, &opened.tokenizers, &opened.shape);
    let listener = SpeechToText::new(model, tokenizers, decode, shape.context)?;
    let (Some(listener), Some(speech)) = (listener, shape.speech) else {
        return Err(Error::usage(format!(
            "{} was trained for {}, which does not transcribe recordings",
            args.run.display(),
            opened.experiment.task.kind()
        )));
    };
    let widths = [args.beam, args.n_best].into_iter().flatten();
    let searches = widths.max().is_some_and(|n| n > 1);
    let listener = listener.with_flags(args.language.as_deref(), args.translate, searches)?;
    let search = with_flags(&decode.search, args.beam, args.n_best)?;
    transcribe_all(&args, &listener, speech, &search)
}

/// Transcribes all recordings, batching their parts.
fn transcribe_all(
    args: &TranscribeArgs,
    listener: &SpeechToText,
    speech: SpeechShape,
    search: &BeamConfig,
) -> Result<()> {
    let hearing = SpeechInputs::new(speech);
    let mut files = inputs::InputCounter::of(args.files.len());
    let (mut batch, mut waiting) = (Vec::new(), Vec::new());
    for (file, number) in args.files.iter().zip(1..) {
        let read = parts(file, &hearing).and_then(|parts| require_single_part(parts, file, search));
        let count = read.map(|parts| {
            let count = parts.len();
            batch.extend(parts);
            count
        });
        waiting.push((file, count));
        if batch.len() < listener.batch_size() && number < args.files.len() {
            continue;
        }
        let found = listener.write(&batch, search);
        let mut found = found.map_err(Error::into_usage_error)?.into_iter();
        for (file, count) in waiting.drain(..) {
            let count = count.map_err(Error::into_usage_error);
            let told = count.and_then(|count| {
                let texts = found.by_ref().take(count).collect();
                show(args, &file.display().to_string(), &join_parts(texts))
            });
            files.record(told, "")?;
        }
        batch.clear();
    }
    files.finish("recordings")
}

/// Returns an error if several texts are requested for a recording that has several parts.
fn require_single_part(
    parts: Vec<SpeechItem>,
    file: &Path,
    search: &BeamConfig,
) -> Result<Vec<SpeechItem>> {
    if parts.len() == 1 || search.n_best == 1 {
        return Ok(parts);
    }
    let n_frames = parts.first().map_or(0, |part| part.shape.n_frames);
    Err(Error::usage(format!(
        "{}: --n-best works only on recordings that are read in one part, of at most {n_frames} frames of 10 ms; remove it",
        file.display()
    )))
}

/// Splits a recording into parts as the model reads them, of equal length; the last one is shorter or, as features, padded with
/// silence.
fn parts(file: &Path, hearing: &SpeechInputs) -> Result<Vec<SpeechItem>> {
    let samples = samples(file)?;
    let part = |samples: &[f32]| hearing.item(samples);
    let length = (hearing.shape().n_frames * HOP).max(1);
    Ok(match samples.is_empty() {
        true => vec![part(&[])],
        false => samples.chunks(length).map(part).collect(),
    })
}

/// The texts of a recording: those of its only part, or the best texts of all parts joined.
fn join_parts(found: Vec<Vec<GeneratedText>>) -> Vec<(String, f64)> {
    let told = |written: GeneratedText| (written.text.trim().to_owned(), written.score);
    if found.len() == 1 {
        return found.into_iter().flatten().map(told).collect();
    }
    let best = found
        .into_iter()
        .filter_map(|texts| texts.into_iter().next());
    let (texts, scores): (Vec<String>, Vec<f64>) = best.map(told).unzip();
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    vec![(texts.join(" "), scores.iter().sum())]
}

/// Prints the text of a recording on one line, or several, each with its score.
fn show(args: &TranscribeArgs, name: &str, texts: &[(String, f64)]) -> Result<()> {
    if args.json {
        let all = texts.iter();
        let all: Vec<serde_json::Value> = all
            .map(|(text, score)| json!({ "text": text, "score": score }))
            .collect();
        return output::line(json!({ "input": name, "transcripts": all }).to_string());
    }
    for (text, score) in texts {
        let text = text.replace(['\n', '\r'], " ");
        match texts.len() {
            1 => output::line(format!("{name}: {text}"))?,
            _ => output::line(format!("{name}: {score:.4}\t{text}"))?,
        }
    }
    Ok(())
}
