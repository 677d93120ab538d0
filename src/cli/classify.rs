//! `formwork classify`: predicts classes of images or texts, numbers and rewards of texts, and tags of words.
//!
//! If one of several inputs cannot be read, it is named on standard error, the others are classified, and the exit status is 1.

mod labels;
pub(super) mod rewards;
mod scores_texts;
mod tags;

use super::class_names::ClassNames;
use super::{inputs, output};
use crate::data::batch::{ImageBatch, ImageItem, TextBatch, TextItem};
use crate::data::images::read_image;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::open::OpenedRun;
use crate::experiment::run_contents::CheckpointChoice;
use crate::experiment::zero_shot::ZeroShot;
use crate::nn::pass::Pass;
use burn::tensor::{Tensor, activation};
use clap::Args;
use scores_texts::ScoresTexts;
use std::path::{Path, PathBuf};

/// `formwork classify`.
#[derive(Debug, Args)]
pub struct ClassifyArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// Images: PNG or JPEG, or folders of them, which are searched recursively.
    files: Vec<PathBuf>,
    /// A text; may be given several times.
    #[arg(long, allow_hyphen_values = true, conflicts_with = "files")]
    text: Vec<String>,
    /// The second text of a pair, or, for a run of rewards, the answer to a prompt; as often as --text.
    #[arg(long, allow_hyphen_values = true, requires = "text")]
    pair: Vec<String>,
    /// Texts, one per line, - for standard input; both texts of a pair, or a prompt and its answer, are separated by a tab. For
    /// a run of rewards that reads conversations also {"messages": [...]}, whose last message is the answer.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "text"])]
    input: Option<PathBuf>,
    #[command(flatten)]
    names: ClassNames,
    /// Number of classes shown, the most likely first; when absent 3, or those above the threshold if a text may have many.
    #[arg(long, value_name = "K")]
    top: Option<usize>,
    /// Print one JSON object for each.
    #[arg(long)]
    json: bool,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
}

/// Runs `formwork classify`.
///
/// # Errors
/// If the run predicts neither classes nor numbers, or cannot read an image or text.
pub fn run(args: ClassifyArgs) -> Result<()> {
    if args.files.is_empty() && args.text.is_empty() && args.input.is_none() {
        return Err(Error::usage(
            "give image files, or texts with --text or --input",
        ));
    }
    if args.top == Some(0) {
        return Err(Error::usage("--top 0 shows nothing; give at least 1"));
    }
    if !args.pair.is_empty() && args.pair.len() != args.text.len() {
        return Err(Error::usage(
            "give --pair as often as --text, or not at all",
        ));
    }
    let opened = super::open_run::open(&args.run, args.checkpoint, args.device.as_deref())?;
    if args.names.is_given() && args.files.is_empty() {
        return Err(Error::usage(
            "--class and --prompt have no effect on texts; remove them",
        ));
    }
    let named = match args.files.is_empty() {
        true => None,
        false => zero_shot_classes(&args, &opened)?,
    };
    require(&args, &opened, named.is_some())?;
    let files = inputs::image_files(&args.files)?;
    let mut pictures = inputs::InputCounter::of(files.len());
    for file in &files {
        pictures.record(classify_image(&args, &opened, named.as_ref(), file), "")?;
    }
    pictures.finish("pictures")?;
    for (number, text) in args.text.iter().enumerate() {
        let pair = args.pair.get(number).map(String::as_str);
        classify_text(&args, &opened, text, pair)?;
    }
    match &args.input {
        Some(path) => classify_lines(&args, &opened, path),
        None => Ok(()),
    }
}

/// Returns an error for inputs that the run cannot classify, and for a flag without effect.
fn require(args: &ClassifyArgs, opened: &OpenedRun, named: bool) -> Result<()> {
    let networks = opened.model.networks();
    let classes = networks.text_classifier.is_some() || networks.multi_label.is_some();
    let texts = classes
        || networks.text_regression.is_some()
        || networks.reward.is_some()
        || networks.token_classifier.is_some();
    if args.files.is_empty() && !texts {
        return Err(unsupported_input(args, opened, "texts"));
    }
    let images = named || networks.image_classifier.is_some() || networks.text_classifier.is_some();
    if !args.files.is_empty() && !images {
        return Err(unsupported_input(args, opened, "images"));
    }
    if args.top.is_some() && args.files.is_empty() && !classes {
        let kind = opened.experiment.task.kind();
        return Err(Error::usage(format!(
            "--top has no effect: a run of {kind} does not classify whole texts; remove it"
        )));
    }
    Ok(())
}

/// Prints the predictions for the lines of a file; the two texts of a pair are separated by a tab.
fn classify_lines(args: &ClassifyArgs, opened: &OpenedRun, path: &Path) -> Result<()> {
    let data = &opened.experiment.data;
    let pairs = data.data_set().has_two_texts();
    let rewards = opened.model.networks().reward;
    let mut lines = inputs::InputCounter::of(usize::MAX);
    for (place, line) in inputs::lines(path)? {
        let one = line.and_then(|line| match (rewards, line.split_once('\t')) {
            (Some(model), _) => rewards::show_line(model, opened, &line, args.json),
            (None, Some((text, pair))) if pairs || data.is_imported() => {
                classify_text(args, opened, text, Some(pair))
            }
            (None, None) if pairs => Err(Error::usage(
                "the run reads pairs of texts; separate the two texts with a tab",
            )),
            (None, Some(_) | None) => classify_text(args, opened, &line, None),
        });
        lines.record(one, &place)?;
    }
    lines.finish("lines")
}

/// Prints the prediction for one image, by the run's classes or by those that flags name.
fn classify_image(
    args: &ClassifyArgs,
    opened: &OpenedRun,
    named: Option<&ZeroShot>,
    file: &Path,
) -> Result<()> {
    let (scores, classes) = match named {
        Some(named) => (named.scores(&image_batch(opened, file)?), &named.classes),
        None => (image(args, opened, file)?, &opened.shape.classes),
    };
    let name = file.display().to_string();
    show(args, classes, (name.as_str(), None), scores)
}

/// The classes that flags name, for a run that compares images with texts.
fn zero_shot_classes<'a>(
    args: &ClassifyArgs,
    opened: &'a OpenedRun,
) -> Result<Option<ZeroShot<'a>>> {
    let compares = opened.model.networks().image_text.is_some();
    if compares && !args.names.is_given() {
        return Err(Error::usage(
            "a run of image_text has no fixed classes; name each class with --class",
        ));
    }
    let (classes, prompts) = (args.names.classes.clone(), &args.names.prompts);
    let named = args.names.is_given();
    named
        .then(|| ZeroShot::new(opened, classes, prompts))
        .transpose()
}

/// Prints the prediction for one text, or a pair.
fn classify_text(
    args: &ClassifyArgs,
    opened: &OpenedRun,
    text: &str,
    pair: Option<&str>,
) -> Result<()> {
    let networks = opened.model.networks();
    if let Some(model) = networks.token_classifier {
        return tags::show(model, opened, text, pair, args.json);
    }
    if let Some(model) = networks.reward {
        return rewards::show(model, opened, (text, pair), args.json);
    }
    let read = || -> Result<(TextBatch, &dyn ScoresTexts)> {
        let classifier = networks
            .text_classifier
            .map(|model| model as &dyn ScoresTexts);
        let several = networks.multi_label.map(|model| model as &dyn ScoresTexts);
        let regression = networks
            .text_regression
            .map(|model| model as &dyn ScoresTexts);
        let Some(model) = classifier.or(several).or(regression) else {
            return Err(unsupported_input(args, opened, "texts"));
        };
        Ok((tokenize_input(args, opened, text, pair)?, model))
    };
    let (texts, model) = read().map_err(Error::into_usage_error)?;
    let scores = model.class_scores(&texts);
    if let Some(model) = networks.multi_label {
        let (names, threshold) = (&opened.shape.classes, model.threshold());
        return labels::show((text, pair), names, scores, threshold, args.top, args.json);
    }
    match networks.text_regression {
        None => show(args, &opened.shape.classes, (text, pair), scores),
        Some(_) => {
            let number = scores.into_data().iter::<f32>().next().unwrap_or(f32::NAN);
            match args.json {
                true => {
                    let mut line = input_json((text, pair));
                    line["score"] = output::number(number);
                    output::line(line.to_string())
                }
                false => output::line(format!("{text}: {number:.3}")),
            }
        }
    }
}

fn unsupported_input(args: &ClassifyArgs, opened: &OpenedRun, what: &str) -> Error {
    if opened.experiment.data.sequence_image_size().is_some() {
        return Error::usage(format!(
            "{} reads images as sequences of grey values, not texts; give image files",
            args.run.display()
        ));
    }
    Error::usage(format!(
        "{} was trained for {}, which predicts neither classes nor numbers for {what}",
        args.run.display(),
        opened.experiment.task.kind()
    ))
}

fn image(args: &ClassifyArgs, opened: &OpenedRun, file: &Path) -> Result<Tensor<2>> {
    let networks = opened.model.networks();
    if let Some(model) = networks.text_classifier
        && let Some(item) = image_as_sequence(opened, file)?
    {
        return Ok(model.class_scores(&TextBatch::single(item)));
    }
    let Some(model) = networks.image_classifier else {
        return Err(unsupported_input(args, opened, "images"));
    };
    Ok(model.logits(&image_batch(opened, file)?, &Pass::evaluation()))
}

/// The grey values of an image as a token sequence, if the run reads images in this way.
fn image_as_sequence(opened: &OpenedRun, file: &Path) -> Result<Option<TextItem>> {
    let read = opened.experiment.data.read_sequence(file);
    read.map_err(Error::into_usage_error)
}

/// Reads an image as the run's network expects it.
fn image_batch(opened: &OpenedRun, file: &Path) -> Result<ImageBatch> {
    let read = read_image(file, &opened.shape).map_err(Error::into_usage_error)?;
    let ImageItem { pixels, shape, .. } = read;
    Ok(ImageBatch {
        pixels,
        shape,
        labels: vec![0],
        mixed: None,
        views: None,
    })
}

/// Tokenizes one text, or a pair, as the run reads it.
fn tokenize_input(
    args: &ClassifyArgs,
    opened: &OpenedRun,
    text: &str,
    pair: Option<&str>,
) -> Result<TextBatch> {
    let Some(tokenizer) = &opened.tokenizers.text else {
        return Err(match opened.experiment.data.sequence_image_size() {
            Some(_) => unsupported_input(args, opened, "texts"),
            None => Error::usage(format!(
                "{} was trained on token ids, not text, so it has no tokenizer",
                args.run.display()
            )),
        });
    };
    let item = opened.experiment.data.read_text(text, pair, tokenizer)?;
    let mut tokens = tokenizer.encode(text)?.len();
    if let Some(pair) = pair {
        tokens += tokenizer.encode(pair)?.len();
    }
    let marks = tokenizer
        .special_token_layout()
        .map_or(0, |e| e.len(pair.is_some()));
    if tokens + marks > item.inputs.len() {
        output::note(format!(
            "the text has {tokens} tokens, more than the {} that the model was trained on; it is truncated",
            item.inputs.len() - marks
        ));
    }
    Ok(TextBatch::single(item))
}

/// The first fields of a JSON line: the text or the path of an image, and the second text of a pair.
fn input_json((input, pair): (&str, Option<&str>)) -> serde_json::Value {
    let mut line = serde_json::json!({ "input": input });
    if let Some(pair) = pair {
        line["pair"] = pair.into();
    }
    line
}

fn show(
    args: &ClassifyArgs,
    names: &[String],
    (name, pair): (&str, Option<&str>),
    scores: Tensor<2>,
) -> Result<()> {
    let probabilities = activation::softmax(scores, 1).into_data();
    let mut classes: Vec<(usize, f64)> = probabilities.iter::<f64>().enumerate().collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    classes.truncate(args.top.unwrap_or(3));
    let class = |number: usize| match names.get(number) {
        Some(class) => class.clone(),
        None => number.to_string(),
    };
    if args.json {
        let list: Vec<serde_json::Value> = classes
            .iter()
            .map(|(n, p)| serde_json::json!({ "class": class(*n), "probability": p }))
            .collect();
        let mut line = input_json((name, pair));
        line["classes"] = list.into();
        return output::line(line.to_string());
    }
    let list: Vec<String> = classes
        .iter()
        .map(|(n, p)| format!("{} {:.2} %", class(*n), 100.0 * p))
        .collect();
    output::line(format!("{name}: {}", list.join(", ")))
}
