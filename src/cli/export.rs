//! `formwork export`: exports a run as a Hugging Face folder, or its adapters as a `peft` folder.

use super::output;
use crate::error::Result;
use crate::experiment::export::{self, WeightSelection};
use crate::experiment::run_contents::CheckpointChoice;
use clap::Args;
use std::path::PathBuf;

/// `formwork export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// The Hugging Face folder to create.
    folder: PathBuf,
    /// The model family (`model_type`) to export as: bert, gpt2, llama …; the one that fits when absent.
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Write only the adapters of [lora], in the format of `peft`; without this flag they are merged into the weights.
    #[arg(long, conflicts_with = "base")]
    adapter: bool,
    /// Write the frozen weights without the adapters of [lora]: the base model for the folder of --adapter.
    #[arg(long)]
    base: bool,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
}

/// Runs `formwork export`.
///
/// # Errors
/// If the run cannot be opened, the model fits no Hugging Face family, or the folder is not empty.
pub fn run(args: ExportArgs) -> Result<()> {
    let family = args.family.as_deref();
    let (run, which, folder) = (&args.run, args.checkpoint, &args.folder);
    if args.adapter {
        let exported = export::export_adapter(run, which, folder, family)?;
        for note in &exported.notes {
            output::note(note);
        }
        return output::line(format!(
            "{}: an adapter of {} with {} tensors",
            folder.display(),
            exported.family,
            exported.tensors
        ));
    }
    let part = match args.base {
        true => WeightSelection::Base,
        false => WeightSelection::Merged,
    };
    let exported = export::export(run, which, folder, family, part)?;
    for note in &exported.notes {
        output::note(note);
    }
    if exported.lacks_tokenizer {
        output::note("the run has no tokenizer, so the exported folder has none");
    }
    output::line(format!(
        "{}: {} with {} tensors",
        args.folder.display(),
        exported.family,
        exported.tensors
    ))
}
