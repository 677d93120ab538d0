//! `formwork eval`: computes the metrics of a run on a split.

mod given_data;
mod ineffective_flags;
mod predictions;

use super::class_names::ClassNames;
use super::output;
use crate::data::{self, Captions, Data, Texts};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::data_files::{self, ChangedFiles};
use crate::experiment::open::{self, Lengths, OpenedRun};
use crate::experiment::predicted;
use crate::experiment::run_contents::{self, CheckpointChoice};
use crate::experiment::temporary_keys::{self, with_keys};
use crate::experiment::text_scores;
use crate::experiment::zero_shot::{self, ZeroShot};
use crate::experiment::{judge, teacher};
use crate::generate::beam::BeamConfig;
use crate::generate::decode::check_width;
use crate::generate::{Describer, Translator};
use crate::report::render::terminal::{loss, number};
use crate::train::evaluation::{Scores, Split, evaluate};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `formwork eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// Which split of the data.
    #[arg(long, value_enum, default_value = "valid")]
    split: SplitName,
    /// Evaluate on these examples instead of the run's own: a file or folder of the run's kind of data. If labels or targets
    /// are in a separate file, give it as the second; for captions the second is the image folder. With --class or --prompt,
    /// labelled images as data of kind `images` reads them. The scores are not kept.
    #[arg(long, value_name = "FILE", num_args = 1..=2, conflicts_with_all = ["split", "other_data"])]
    data: Vec<PathBuf>,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N. Only scores of the best one are
    /// kept.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
    /// Beam size, for runs that generate texts from texts; the experiment's when absent.
    #[arg(long, value_name = "B")]
    beam: Option<usize>,
    /// Set a key of [decode] for this command only, as in decode.search.length_penalty.alpha=1, or with --data one of [data],
    /// as in data.text=sentence; may be given several times. The scores are not kept.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Length of the windows in tokens; the experiment's when absent. Scores with another length are kept as SPLIT@N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    /// Number of positions of earlier segments that attention sees, 0 for none; the experiment's when absent. Scores with
    /// another memory are kept as SPLIT+N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1 << 24))]
    memory: Option<u32>,
    /// Overlapping windows: each begins S tokens after the one before and is scored on its last S tokens, the first one on all.
    /// 1 gives each token as much context as a window holds. Scores are kept as SPLIT/S.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    stride: Option<u32>,
    /// Maximum number of keys that a query sees: windows of N tokens (as --context), or a memory of N minus the segment length.
    #[arg(long, value_name = "N", conflicts_with = "memory", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    attention_length: Option<u32>,
    /// Also write the prediction for each example (classes, numbers, tags and answers, or the text generated from its source),
    /// one JSON object per line.
    #[arg(long, value_name = "FILE")]
    predictions: Option<PathBuf>,
    /// Also print the confusion matrix of the classes.
    #[arg(long)]
    confusion: bool,
    #[command(flatten)]
    names: ClassNames,
    /// Evaluate although data files have changed since the run began; the scores are not kept.
    #[arg(long)]
    other_data: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SplitName {
    Train,
    Valid,
    Test,
}

/// Runs `formwork eval`.
///
/// # Errors
/// If flags are out of range; if the run cannot be opened; if data is missing, or the experiment lacks the split.
pub fn run(args: EvalArgs) -> Result<()> {
    check_width("--beam", args.beam)?;
    temporary_keys::require(&args.sets, Some(!args.data.is_empty()))?;
    if let Some(path) = &args.predictions {
        predictions::require(path, &args.data)?;
    }
    let device = args.device.as_deref();
    let lengths = Lengths {
        context: args.context.map(|n| n as usize),
        memory: args.memory.map(|n| n as usize),
        stride: args.stride.map(|n| n as usize),
    };
    let lengths = match args.attention_length {
        Some(keys) => lengths.for_attention_length(keys as usize, &args.run)?,
        None => lengths,
    };
    let mut opened = open::open_with_lengths(&args.run, args.checkpoint, device, lengths)?;
    opened.experiment.decode =
        with_keys(&opened.experiment, &args.run, &sets_of(&args, false))?.decode;
    ineffective_flags::require_effective(&args, &opened)?;
    if args.names.is_given() {
        return eval_zero_shot(&args, &opened);
    }
    teacher::attach_reference(&mut opened, &args.run)?;
    judge::attach_judge(&mut opened, &args.run)?;
    let prepared = evaluation_data(&args, &opened)?;
    let which = match args.split {
        SplitName::Train => data::Split::Train,
        SplitName::Valid => data::Split::Valid,
        SplitName::Test => data::Split::Test,
    };
    let name = name(&args, which, lengths);
    let name = name.as_str();
    let split = Split {
        source: prepared.source(which)?.clone(),
        bytes_per_token: *prepared.bytes_per_token.get(which),
        carries_state: opened.experiment.train.carry_state,
        groups: opened.experiment.train.eval_groups(),
        contrasts_rows: opened.experiment.task.facts().compared_rows().is_some(),
    };
    split.require_rows()?;
    let batch_size = opened.experiment.train.eval_batch_size();
    let mut scores = evaluate(&opened.model, &split, batch_size)?;
    let mut lines = None;
    if let Some(texts) = prepared.pairs.get(which)
        && let Some(written) = generated_texts(&args, &opened, texts)?
    {
        let metrics = &opened.experiment.decode.metrics;
        let metrics = text_scores::text_metrics(&written, &texts.references, metrics);
        scores.metrics.extend(metrics);
        lines = Some(predicted::generated_lines(texts, &written));
    }
    if let Some(captions) = prepared.captions.get(which) {
        scores
            .metrics
            .extend(caption_metrics(&args, &opened, captions)?);
    }
    if let Some(path) = &args.predictions {
        predictions::write(path, lines, &opened, split.source.as_ref(), batch_size)?;
    }
    predictions::note_unread(&opened, split.source.as_ref());
    let shown = show(&args, name, opened.step, &scores, &opened.shape.classes);
    // Scores of another checkpoint, beam or data do not replace the run's own scores.
    let tried =
        args.beam.is_some() || args.other_data || !args.data.is_empty() || !args.sets.is_empty();
    if args.checkpoint != CheckpointChoice::Best {
        output::note(
            "the scores are not saved: scores.json contains only those of --checkpoint best",
        );
    }
    if args.checkpoint != CheckpointChoice::Best || tried {
        return shown;
    }
    // The results have been printed; if the run folder cannot be written to, they remain valid.
    if let Err(error) = run_contents::write_scores(&args.run, name, opened.step, &scores) {
        output::note(format!("the scores were not saved: {error}"));
    }
    shown
}

/// Computes the metrics of labelled images whose classes are named by texts.
fn eval_zero_shot(args: &EvalArgs, opened: &OpenedRun) -> Result<()> {
    let [file, ..] = args.data.as_slice() else {
        return Err(Error::usage(
            "--class and --prompt are for labelled images; give the images with --data, for example a folder with one subfolder \
             per class",
        ));
    };
    let (source, classes) = zero_shot::labelled_images(opened, &args.data, &args.names.classes)?;
    let zero_shot = ZeroShot::new(opened, classes, &args.names.prompts)?;
    let batch_size = opened.experiment.train.eval_batch_size();
    let scores = zero_shot.evaluate(&source, batch_size)?;
    let name = file.display().to_string();
    show(args, &name, opened.step, &scores, &zero_shot.classes)
}

/// The name under which scores are shown and kept: includes lengths that differ from the experiment's.
fn name(args: &EvalArgs, split: data::Split, lengths: Lengths) -> String {
    if let Some(file) = args.data.first() {
        return file.display().to_string();
    }
    let part = |mark: &str, length: Option<usize>| length.map(|n| format!("{mark}{n}"));
    let parts = [
        Some(split.name().to_string()),
        part("@", lengths.context),
        part("/", lengths.stride),
        part("+", lengths.memory),
    ];
    parts.into_iter().flatten().collect()
}

/// The run's data from its current location, or that in the files of `--data`.
fn evaluation_data(args: &EvalArgs, opened: &OpenedRun) -> Result<Data> {
    if !args.data.is_empty() {
        return given_data::data(args, opened);
    }
    let notice = |text: &str| output::note(text);
    let other = ChangedFiles::of_flag(args.other_data);
    data_files::read_run_data(&args.run, opened, other, notice, Ok)
}

/// The `--set` arguments of `[data]`, or the others.
fn sets_of(args: &EvalArgs, data: bool) -> Vec<String> {
    let sets = args
        .sets
        .iter()
        .filter(|set| temporary_keys::is_of_data(set) == data);
    sets.cloned().collect()
}

/// The texts that the model generates from a split's sources; `None` if it generates none, or if neither metrics nor
/// predictions need them.
fn generated_texts(
    args: &EvalArgs,
    opened: &OpenedRun,
    texts: &Texts,
) -> Result<Option<Vec<String>>> {
    let config = &opened.experiment.decode;
    let longest = opened.shape.context;
    let translator = Translator::new(&opened.model, &opened.tokenizers, config, longest);
    let asked = !config.metrics.is_empty() || args.predictions.is_some();
    let Some(translator) = translator.filter(|_| asked && !texts.is_empty()) else {
        return Ok(None);
    };
    let search = search_config(args, &config.search);
    let (written, reached) = text_scores::generate_texts(&translator, &texts.sources, &search)?;
    let told = text_scores::limit_messages(&reached, written.len(), &search);
    told.iter().for_each(output::note);
    Ok(Some(written))
}

/// Metrics of the texts that the model generates for a split's images or recordings.
fn caption_metrics(
    args: &EvalArgs,
    opened: &OpenedRun,
    captions: &Captions,
) -> Result<BTreeMap<String, f64>> {
    let config = &opened.experiment.decode;
    let context = opened.shape.context;
    let describer = Describer::new(&opened.model, &opened.tokenizers, config, context)?;
    match describer {
        Some(describer) => text_scores::score_captions(
            &describer,
            captions,
            &search_config(args, &config.search),
            &config.metrics,
        ),
        None => Ok(BTreeMap::new()),
    }
}

/// The run's search settings, with the beam size of the flag.
fn search_config(args: &EvalArgs, search: &BeamConfig) -> BeamConfig {
    BeamConfig {
        beam: args.beam.unwrap_or(search.beam),
        n_best: 1,
        ..search.clone()
    }
}

fn show(
    args: &EvalArgs,
    split: &str,
    step: u64,
    scores: &Scores,
    classes: &[String],
) -> Result<()> {
    if args.json {
        let mut object = serde_json::Map::new();
        object.insert("run".into(), args.run.display().to_string().into());
        object.insert("split".into(), split.into());
        object.extend(run_contents::scores_json(step, scores));
        if let Some(confusion) = scores.confusion.as_ref().filter(|_| args.confusion) {
            let n = confusion.names().len();
            let row = |truth| -> Vec<u64> { (0..n).map(|p| confusion.count(truth, p)).collect() };
            let rows: Vec<Vec<u64>> = (0..n).map(row).collect();
            object.insert(
                "classes".into(),
                confusion.with_names(classes).names().into(),
            );
            object.insert("confusion".into(), serde_json::json!(rows));
        }
        return output::line(serde_json::Value::Object(object).to_string());
    }
    output::line(format!("{split} loss {} at step {step}", loss(scores.loss)))?;
    for (metric, value) in &scores.metrics {
        output::line(format!("{metric} {}", number(*value)))?;
    }
    match scores.confusion.as_ref().filter(|_| args.confusion) {
        Some(confusion) => output::line(confusion.with_names(classes).to_string()),
        None => Ok(()),
    }
}
