//! `formwork fill`: prints what a masked language model predicts for each mask or, for a replaced-token detector, the
//! probability that each token of a text was replaced.
//!
//! If a line of a file cannot be read, it is reported on standard error, the others are processed, and the exit status is 1.

use super::{inputs, output};
use crate::data::batch::TextBatch;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::open::OpenedRun;
use crate::experiment::run_contents::CheckpointChoice;
use crate::model::encoder::EncoderInput;
use crate::nn::pass::Pass;
use crate::task::ReplacedToken;
use crate::tokenizer::{Tokenizer, USER_MASK};
use burn::tensor::{Tensor, TensorData, activation};
use clap::Args;
use std::ops::Range;
use std::path::PathBuf;

/// `formwork fill`.
#[derive(Debug, Args)]
pub struct FillArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// A text with one mask or more, written [MASK] or as the tokenizer writes it; for a run that detects replaced tokens, any
    /// text.
    #[arg(long, allow_hyphen_values = true, required_unless_present = "input")]
    text: Option<String>,
    /// Texts, one per line, - for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    input: Option<PathBuf>,
    /// Number of candidates for each mask; 5 when absent.
    #[arg(long, value_name = "K")]
    top: Option<usize>,
    /// Print one JSON object for each text.
    #[arg(long)]
    json: bool,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
}

/// Default number of candidates shown for a mask.
const DEFAULT_TOP: usize = 5;

/// A candidate for a mask, or a token of a text.
struct Candidate {
    id: u32,
    probability: f64,
    /// The token in readable form.
    token: String,
    /// The token as the vocabulary spells it.
    piece: String,
}

impl Candidate {
    fn new(tokenizer: &Tokenizer, id: u32, probability: f32) -> Self {
        let piece = tokenizer.token(id).unwrap_or_else(|| id.to_string());
        Self {
            id,
            probability: f64::from(probability),
            token: readable(tokenizer, id, &piece),
            piece,
        }
    }

    /// The JSON object, with the probability under the name `named`.
    fn json(&self, named: &str) -> serde_json::Value {
        serde_json::json!({ "token": self.token, "id": self.id, "piece": self.piece, named: self.probability })
    }
}

/// Runs `formwork fill`.
///
/// # Errors
/// If the run predicts no masked tokens; if a text has no mask or is too long.
pub fn run(args: FillArgs) -> Result<()> {
    if args.top == Some(0) {
        return Err(Error::usage("--top 0 shows nothing; give at least 1"));
    }
    let opened = super::open_run::open(&args.run, args.checkpoint, args.device.as_deref())?;
    require(&args, &opened)?;
    if let Some(text) = &args.text {
        fill_text(&args, &opened, text)?;
    }
    let Some(path) = &args.input else {
        return Ok(());
    };
    let mut lines = inputs::InputCounter::of(usize::MAX);
    for (place, line) in inputs::lines(path)? {
        lines.record(
            line.and_then(|text| fill_text(&args, &opened, &text)),
            &place,
        )?;
    }
    lines.finish("lines")
}

/// Returns an error for a run that predicts nothing about masked texts, and for a flag without effect.
fn require(args: &FillArgs, opened: &OpenedRun) -> Result<()> {
    let networks = opened.model.networks();
    match (networks.replaced_token, networks.masked_lm, args.top) {
        (None, None, _) if networks.permuted_lm.is_none() => Err(unsupported_run(args, opened)),
        (Some(_), _, Some(top)) => Err(Error::usage(format!(
            "--top {top} has no effect: the run detects replaced tokens, and all tokens are shown; remove it"
        ))),
        (Some(_), _, None) | (None, _, _) => Ok(()),
    }
}

fn unsupported_run(args: &FillArgs, opened: &OpenedRun) -> Error {
    Error::usage(format!(
        "{} was trained for {}, which does not predict masked tokens",
        args.run.display(),
        opened.experiment.task.kind()
    ))
}

/// Prints the predictions for one text; for a line of a file, prints the line first.
fn fill_text(args: &FillArgs, opened: &OpenedRun, text: &str) -> Result<()> {
    let begun = || match args.input.is_some() && !args.json {
        true => output::line(text),
        false => Ok(()),
    };
    if let Some(model) = opened.model.networks().replaced_token {
        let told = replaced_probabilities(opened, model, text).map_err(Error::into_usage_error)?;
        begun()?;
        return show_replaced(args, text, &told);
    }
    let found = candidates(args, opened, text).map_err(Error::into_usage_error)?;
    begun()?;
    show(args, text, &found)
}

fn show(args: &FillArgs, text: &str, found: &[Vec<Candidate>]) -> Result<()> {
    if args.json {
        let masks: Vec<serde_json::Value> = found
            .iter()
            .map(|mask| mask.iter().map(|c| c.json("probability")).collect())
            .collect();
        return output::line(serde_json::json!({ "text": text, "masks": masks }).to_string());
    }
    for (number, mask) in found.iter().enumerate() {
        if found.len() > 1 {
            output::line(format!("mask {}", number + 1))?;
        }
        for c in mask {
            output::line(format!("{:6.2} %  {}", 100.0 * c.probability, c.token))?;
        }
    }
    Ok(())
}

fn candidates(args: &FillArgs, opened: &OpenedRun, text: &str) -> Result<Vec<Vec<Candidate>>> {
    let Some(tokenizer) = &opened.tokenizers.text else {
        return Err(unsupported_run(args, opened));
    };
    let Some(mask) = tokenizer.mask() else {
        return Err(Error::usage("the run's tokenizer has no mask token"));
    };
    let (ids, own) = encode_with_frame(text, tokenizer)?;
    let edges = tokenizer.special_token_layout();
    let places: Vec<i32> = (0..ids.len())
        .filter(|i| ids[*i] == mask as i32)
        .map(|i| i as i32)
        .collect();
    if places.is_empty() {
        return Err(Error::usage(format!(
            "the text has no mask; write {USER_MASK} where a token is to be predicted"
        )));
    }
    require_short(&ids, opened)?;
    let texts = TextBatch {
        cols: ids.len(),
        inputs: ids,
        segments: edges.and_then(|edges| edges.segments(own.len())),
        ..TextBatch::default()
    };
    let networks = opened.model.networks();
    let scores = match (networks.masked_lm, networks.permuted_lm) {
        (Some(model), _) => {
            let device = model.model.embedding.weight.val().device();
            model.scores_at(&texts, &places, &device)
        }
        (None, Some(model)) => model.scores_at(&texts, &places),
        (None, None) => return Err(unsupported_run(args, opened)),
    };
    let scores = activation::softmax(scores, 1);
    let [_, vocab] = scores.dims();
    let scores: Vec<f32> = scores.into_data().iter::<f32>().collect();
    Ok(scores
        .chunks(vocab)
        .map(|row| top_candidates(row, args.top.unwrap_or(DEFAULT_TOP), tokenizer))
        .collect())
}

/// Returns an error if a text is longer than those that the model was trained on.
fn require_short(ids: &[i32], opened: &OpenedRun) -> Result<()> {
    let longest = opened.shape.context;
    match ids.len() > longest {
        true => Err(Error::usage(format!(
            "the text has {} tokens, but the model was trained on at most {longest}",
            ids.len()
        ))),
        false => Ok(()),
    }
}

/// The probability that each token of the text was replaced; excludes the special tokens that the tokenizer adds.
fn replaced_probabilities(
    opened: &OpenedRun,
    model: &ReplacedToken,
    text: &str,
) -> Result<Vec<Candidate>> {
    let tokenizer = opened.tokenizers.text.as_ref();
    let tokenizer = tokenizer
        .ok_or_else(|| Error::usage("the run has no tokenizer, so it cannot read text"))?;
    let (ids, own) = encode_with_frame(text, tokenizer)?;
    require_short(&ids, opened)?;
    let device = model.device();
    let data = TensorData::new(ids.clone(), [1, ids.len()]);
    let input = EncoderInput {
        ids: Tensor::from_data(data, &device),
        segments: None,
        lengths: None,
        globals: None,
    };
    let scores = model.scores(input, &Pass::evaluation());
    let shares = activation::sigmoid(scores).into_data();
    let told = ids.iter().zip(shares.iter::<f32>());
    let of_text = told.skip(own.start).take(own.len());
    let of_text = of_text.map(|(id, share)| Candidate::new(tokenizer, *id as u32, share));
    Ok(of_text.collect())
}

fn show_replaced(args: &FillArgs, text: &str, told: &[Candidate]) -> Result<()> {
    if args.json {
        let tokens = told.iter().map(|c| c.json("replaced"));
        let tokens: Vec<serde_json::Value> = tokens.collect();
        let line = serde_json::json!({ "text": text, "tokens": tokens });
        return output::line(line.to_string());
    }
    for c in told {
        output::line(format!("{:6.2} %  {}", 100.0 * c.probability, c.token))?;
    }
    Ok(())
}

/// The ids of a text with the special tokens that the tokenizer adds, and the range of the text's own ids.
fn encode_with_frame(text: &str, tokenizer: &Tokenizer) -> Result<(Vec<i32>, Range<usize>)> {
    let ids = tokenizer.encode(&tokenizer.with_masks(text))?;
    let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
    let edges = tokenizer.special_token_layout();
    let before = edges.as_ref().map_or(0, |edges| edges.before().len());
    let own = before..before + ids.len();
    Ok(match edges {
        Some(edges) => (edges.around(&ids), own),
        None => (ids, own),
    })
}

fn top_candidates(row: &[f32], top: usize, tokenizer: &Tokenizer) -> Vec<Candidate> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
    order
        .into_iter()
        .take(top)
        .map(|id| Candidate::new(tokenizer, id as u32, row[id]))
        .collect()
}

/// A token in readable form; a byte-level piece, which the vocabulary spells in other characters, is decoded.
fn readable(tokenizer: &Tokenizer, id: u32, piece: &str) -> String {
    let text = tokenizer.decode(&[id]);
    let whole = !text.trim().is_empty() && !text.contains(char::REPLACEMENT_CHARACTER);
    // WordPiece marks pieces inside a word with `##`.
    match whole && !piece.starts_with("##") {
        true => text.trim().into(),
        false => piece.into(),
    }
}
