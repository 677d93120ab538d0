//! `formwork inspect RUN… ASPECT`: shows the inside of a trained model as a table, figures and JSON.

mod attention;
mod context;
mod examples;
mod filters;
mod gradients;
mod heads;
mod maps;
mod pictures;
mod positions;
mod rollout;
mod text;

use super::output;
use crate::device::DeviceName;
use crate::error::{Error, Result, suggestion};
use crate::experiment::run_contents::CheckpointChoice;
use crate::files;
use crate::report::render::figure::{self, Figure};
use crate::train::{run_dir, symlinks};
use clap::Args;
use std::path::{Path, PathBuf};
use text::InspectedTextRun;

/// What can be inspected.
const ASPECTS: [&str; 6] = [
    "context",
    "attention",
    "rollout",
    "filters",
    "positions",
    "gradients",
];
/// Flags that select the inputs and what is drawn of them.
const EXAMPLE_FLAGS: &[&str] = &[
    "--context",
    "--examples",
    "--step",
    "--example",
    "--text",
    "--pair",
    "--image",
    "--layer",
];
/// Default number of examples.
const EXAMPLES: usize = 64;

/// Help text that explains each aspect.
const ABOUT: &str = "\
context    For language models on text: the mean loss of a token by its position, that is, the number of tokens that the model
           has read before it, over windows spread evenly over the validation text. Also the relative effective context length
           (RECL) of the runs as a group (Dai et al. 2019, section 4.3 and appendix C). With l(c, t) the loss of token t
           after c tokens, the baseline of a group is b(c, t) = min over its models of l(c, t); on the share r of the tokens
           with the largest b, a model's relative loss is f(c, c') = mean of min(b(c, t), l(c', t)), and its relative gain
           g(c, c') = (exp f(c, c) - exp f(c, c')) / exp f(c, c). Starting at c = D, c grows by D while g(c, c + D) >= 0.01; the
           RECL is the c at which it stops, for r = 0.1, 0.5 and 1. The last token of each window is measured, and all runs must
           read the same tokens. A model without carried state reads as many tokens as its window contains.
attention  For language models on text: the mean weight by distance, for each head of each layer, over the last segment of each
           window; the mean distance; and the share of keys with a high weight, above 2/n, where n is the number of keys up to
           the query's position. With a memory, also the share of its keys with a high weight, and the memory's part of the
           weights.
           For all other models, over examples of the validation split: mean distance, entropy, the largest weight and the
           weight on the first key, each averaged over queries. Distances in an image follow Dosovitskiy et al. 2021,
           figure 7: in pixels between the centres of patches, without the weights on class tokens.
           For one example (--example, --text, --image): a picture of the weights of each head; with --layer, larger pictures
           with the names of the tokens, and the weights in the JSON. For an image, the overlay shows the attention of the class
           token, or, without one, the mean over all patches. For a run that generates texts from texts, --text is the source and
           --pair the target, which the run generates if it is absent.
rollout    How much of each input position reaches the output if each layer passes on half of its input and half of the mean of
           its heads (Abnar and Zuidema 2020), for one example (by default the first) or for images of the validation split, at
           most 64. The figure shows what reaches the class token, the last position of a decoder, or the mean of all positions,
           as the task reads them; the JSON contains the whole rollout of a text.
filters    For models of images: the first 28 principal components of the filters of the patch embedding, or of the first
           convolution (Dosovitskiy et al. 2021, figure 7), and the first filters themselves.
positions  The cosine similarity of the position vectors, for an image patch by patch; if biases are added to scores by distance
           (relative_bias, alibi), these biases by head. The number of positions is that of the longest of 64 examples, or of
           the given example.
gradients  The norm of the gradient of each block and parameter, and of its values: for the training loss with all of its terms,
           over examples of the validation split, without dropout (Xiong et al. 2020, section 3.3, for norm placements).

A run that carries its state reads each example from an empty state, except for context and for attention over windows.

Figures are written as SVG and PNG.";

/// `formwork inspect`.
#[derive(Debug, Args)]
#[command(after_long_help = ABOUT)]
pub struct InspectArgs {
    /// The run folder (several for `context`), then what to inspect: context, attention, rollout, filters, positions or
    /// gradients.
    #[arg(value_names = ["RUN", "ASPECT"], num_args = 2.., required = true)]
    words: Vec<PathBuf>,
    /// Folder for the figures; `inspect/` in the run when absent.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Length of a window in tokens; the run's when absent. If state is carried, four segments or as many as fill the memory.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    context: Option<u32>,
    /// Number of examples, or windows of a text, spread evenly over the validation split; 64 when absent, 8 images for rollout.
    #[arg(long = "examples", visible_alias = "windows", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    examples: Option<u32>,
    /// Step in tokens by which contexts grow in search of the effective one; an eighth of a window when absent.
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..))]
    step: Option<u32>,
    /// One example of the validation split, by its number from 0.
    #[arg(long, value_name = "N", conflicts_with_all = ["text", "image"])]
    example: Option<u64>,
    /// A text to use as the single example.
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "image"
    )]
    text: Option<String>,
    /// The second text of a pair, or the target text for a source text.
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        requires = "text"
    )]
    pair: Option<String>,
    /// An image to use as the single example: PNG or JPEG.
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// The layer whose attention is drawn, from 0; all layers when absent.
    #[arg(long, value_name = "L")]
    layer: Option<usize>,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl InspectArgs {
    /// Number of examples of the validation split.
    fn examples(&self) -> usize {
        self.examples.map_or(EXAMPLES, |n| n as usize)
    }

    /// Returns an error for the first of these flags that is given.
    fn refuse(&self, aspect: &str, flags: &[&str]) -> Result<()> {
        let given = [
            ("--context", self.context.is_some()),
            ("--examples", self.examples.is_some()),
            ("--step", self.step.is_some()),
            ("--example", self.example.is_some()),
            ("--text", self.text.is_some()),
            ("--pair", self.pair.is_some()),
            ("--image", self.image.is_some()),
            ("--layer", self.layer.is_some()),
        ];
        let wrong = given
            .iter()
            .find(|(flag, given)| *given && flags.contains(flag));
        match wrong {
            Some((flag, _)) => Err(Error::usage(format!(
                "{flag} has no effect on {aspect}; remove it"
            ))),
            None => Ok(()),
        }
    }
}

/// Runs `formwork inspect`.
///
/// # Errors
/// If flags do not fit; if the run cannot be opened or lacks what is to be inspected; if data is missing or figures cannot be
/// written.
pub fn run(args: InspectArgs) -> Result<()> {
    let Some((aspect, runs)) = args.words.split_last() else {
        return Err(Error::usage("give a run and then an aspect"));
    };
    let aspect = aspect.to_string_lossy();
    let runs: Vec<PathBuf> = runs.iter().map(|run| run_dir::locate(run)).collect();
    let runs = runs.as_slice();
    match &*aspect {
        "context" => context::run(&args, runs),
        "attention" => attention::run(&args, runs),
        "rollout" => rollout::run(&args, runs),
        "filters" => filters::run(&args, runs),
        "positions" => positions::run(&args, runs),
        "gradients" => gradients::run(&args, runs),
        other => Err(Error::usage(format!(
            "inspect has no aspect `{other}`; the aspect comes last, after the run{}",
            suggestion(other, ASPECTS.iter().copied()),
        ))),
    }
}

/// The folder for the figures.
fn out(args: &InspectArgs, runs: &[PathBuf]) -> Result<PathBuf> {
    let out = match (&args.out, runs) {
        (Some(out), _) => out.clone(),
        (None, [one]) => {
            let out = one.join("inspect");
            // A folder from elsewhere could contain links that lead outside of it.
            symlinks::refuse_symlinks_in(&out)?;
            out
        }
        (None, _) => {
            return Err(Error::usage(
                "give the folder for the figures of several runs with --out",
            ));
        }
    };
    output::output_folder(out)
}

/// Writes figures as SVG and PNG; returns the paths of the files.
fn write(out: &Path, figures: &[Figure]) -> Result<Vec<String>> {
    std::fs::create_dir_all(out).map_err(Error::io("make", out))?;
    let mut written = Vec::new();
    for figure in figures {
        let png = figure::png(&figure.svg)?;
        for (ending, bytes) in [("svg", figure.svg.as_bytes()), ("png", &png)] {
            let path = out.join(format!("{}.{ending}", figure.name));
            files::write_result(&path, bytes)?;
            written.push(path.display().to_string());
        }
    }
    Ok(written)
}
