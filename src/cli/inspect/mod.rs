//! `formwork inspect RUN… context|attention`: a trained language model from the inside, as a table, a figure and JSON.

mod attention;
mod context;

use super::output;
use crate::data::Split;
use crate::device::DeviceName;
use crate::error::{Error, Result, suggestion};
use crate::experiment::open::{self, Lengths, Opened};
use crate::experiment::saved::Which;
use crate::experiment::{Experiment, assemble, data_files};
use crate::files;
use crate::inspect::reader::windows;
use crate::inspect::{Reader, Window};
use crate::report::render::figure::{self, Figure};
use crate::train::links;
use clap::Args;
use std::path::{Path, PathBuf};

/// What can be looked at.
const ASPECTS: [&str; 2] = ["context", "attention"];
/// Segments of a window where state is carried, at least, unless a flag says the tokens; a memory is full before the last.
const SEGMENTS: usize = 4;

/// What each aspect is.
const ABOUT: &str = "\
context    The mean loss of a token against its position, the number of tokens that the model has read before it, over windows
           spread evenly over the validation text. Then the relative effective context length (RECL) of the runs as a group
           (Dai et al. 2019, section 4.3 and appendix C). With l(c, t) the loss of token t after c tokens, the baseline of a
           group is b(c, t) = min over its models of l(c, t); on the share r of the tokens with the largest b, a model's
           relative loss is f(c, c') = mean of min(b(c, t), l(c', t)), and its relative gain
           g(c, c') = (exp f(c, c) - exp f(c, c')) / exp f(c, c). From c = D on, c grows by D while g(c, c + D) >= 0.01; where
           it stops is the RECL, for r = 0.1, 0.5 and 1. The last token of each window is measured, and all runs must read
           the same tokens. A model without carried state reads as many tokens as its window holds.
attention  The mean attention weight by distance, for each head of each layer of one run, over the last segment of each window;
           the mean distance; and the share of keys that are looked at highly: with a weight above 2/n, where a query has n
           keys up to its own position. Where there is a memory, also the share of its keys that are looked at highly, and
           the part of the weights that lies on it.

Figures are written as SVG and PNG.";

/// `formwork inspect`.
#[derive(Debug, Args)]
#[command(after_long_help = ABOUT)]
pub struct InspectArgs {
    /// The run folder, several for `context`, then what to look at: context or attention.
    #[arg(value_names = ["RUN", "ASPECT"], num_args = 2.., required = true)]
    words: Vec<PathBuf>,
    /// The folder of the figures; `inspect/` in the run when absent.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Tokens of a window; the run's when absent. Where state is carried, four segments or as many as fill the memory.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    context: Option<u32>,
    /// Windows, spread evenly over the validation text.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    windows: u32,
    /// Tokens by which contexts grow in search of the effective one; an eighth of a window when absent.
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..))]
    step: Option<u32>,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: Which,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::of_flag)]
    device: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `formwork inspect`.
///
/// # Errors
/// Flags that do not fit, a run that cannot be opened or continues no text, data that is missing, figures that cannot be
/// written.
pub fn run(args: InspectArgs) -> Result<()> {
    let Some((aspect, runs)) = args.words.split_last() else {
        return Err(Error::usage("name a run and what to look at"));
    };
    let aspect = aspect.to_string_lossy();
    match &*aspect {
        "context" => context::run(&args, runs),
        "attention" => attention::run(&args, runs),
        other => Err(Error::usage(format!(
            "inspect knows no `{other}`{}; the run comes first, then {}",
            suggestion(other, ASPECTS.iter().copied()),
            ASPECTS.join(" or ")
        ))),
    }
}

/// A run and the tokens that it reads.
struct Inspected {
    folder: PathBuf,
    opened: Opened,
    /// Tokens of its windows.
    length: usize,
}

impl Inspected {
    /// Opens a run of a language model on text.
    fn open(args: &InspectArgs, folder: &Path) -> Result<Self> {
        let device = args.device.as_deref();
        let carries = open::stored(folder)?.train.carry_state;
        let asked = args.context.map(|n| n as usize);
        let lengths = Lengths {
            context: asked.filter(|_| !carries),
            ..Lengths::default()
        };
        let opened = open::open_at(folder, args.checkpoint, device, lengths)?;
        let segment = opened.shape.context;
        let filling = opened
            .experiment
            .model
            .remembered()
            .div_ceil(segment.max(1));
        let segments = if carries {
            SEGMENTS.max(filling + 1)
        } else {
            1
        };
        let length = asked.unwrap_or(segments * segment);
        let text = opened.experiment.data.in_every_window(length).is_some();
        if opened.model.networks().language_model.is_none() || !text {
            let (task, data) = (opened.experiment.task.kind(), opened.experiment.data.kind());
            return Err(Error::usage(format!(
                "{} is a run of {task} on data of kind {data}; inspect looks at language models (causal_lm) on text",
                folder.display()
            )));
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            opened,
            length,
        })
    }

    /// The model as it reads.
    fn reader(&self) -> Result<Reader<'_>> {
        let network = self.opened.model.networks().language_model;
        let train = &self.opened.experiment.train;
        Ok(Reader {
            network: network.ok_or_else(|| Error::usage("the run continues no text"))?,
            segment: self.opened.shape.context,
            carries: train.carry_state,
            rows: train.eval_batch_size(),
        })
    }

    /// Windows of `length` tokens, spread over the validation text as it was when the run began.
    fn windows(&self, args: &InspectArgs, length: usize) -> Result<Vec<Window>> {
        let (experiment, places) = (&self.opened.experiment, &self.opened.places);
        let own = &experiment.data;
        let held = data_files::hold(&self.folder, experiment, own, places, false, |text| {
            output::note(text)
        })?;
        let Some(data) = held.data.in_every_window(length) else {
            return Err(Error::usage("the data of the run is no text"));
        };
        let experiment = Experiment {
            data,
            ..experiment.clone()
        };
        let (tokenizers, shape) = (&self.opened.tokenizers, &self.opened.shape);
        let data = assemble::data(&experiment, places, tokenizers, Some(shape))?;
        windows(data.source(Split::Valid)?.as_ref(), args.windows as usize)
    }

    fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or(self.folder.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// The folder of the figures.
fn out(args: &InspectArgs, runs: &[PathBuf]) -> Result<PathBuf> {
    let out = match (&args.out, runs) {
        (Some(out), _) => out.clone(),
        (None, [one]) => {
            let out = one.join("inspect");
            // A folder from elsewhere must not lead what is written out of it.
            links::refuse_all(&out)?;
            out
        }
        (None, _) => {
            return Err(Error::usage(
                "--out: name the folder for the figures of several runs",
            ));
        }
    };
    output::folder(out)
}

/// Writes figures as SVG and PNG; the paths of their files.
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
