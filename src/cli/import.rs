//! `formwork import`: imports a Hugging Face folder as a run.

use super::output;
use crate::error::{Error, Result, printable};
use crate::experiment::import::{self, ImportReport};
use crate::experiment::parity;
use crate::files::PartialFolder;
use crate::interop::weights::header;
use crate::tokenizer::hf;
use crate::train::run_dir;
use clap::Args;
use std::path::{Component, Path, PathBuf};

/// `formwork import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The Hugging Face folder: config.json, weights, and a tokenizer if there is one.
    folder: PathBuf,
    /// The run folder to create.
    run: PathBuf,
    /// A `peft` folder with LoRA adapters for this model: the run keeps them beside its weights.
    #[arg(long, value_name = "PEFT_DIR", conflicts_with = "python")]
    adapter: Option<PathBuf>,
    /// Import a class with one number per text (ForSequenceClassification with num_labels = 1) as a run of rewards.
    #[arg(long)]
    reward: bool,
    /// An unknown key of config.json to ignore because it changes nothing; may be given several times.
    #[arg(long, value_name = "KEY")]
    ignore_key: Vec<String>,
    /// Compare the outputs with those of this file: inputs under Hugging Face's names, and expected.logits and others, as
    /// benches/hf_reference.py writes them.
    #[arg(long, value_name = "FILE.safetensors", conflicts_with = "python")]
    reference: Option<PathBuf>,
    /// Compute that file with this Python interpreter, which has torch, transformers and safetensors, and compare.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

/// Runs `formwork import`.
///
/// # Errors
/// If the folder is damaged or its model is not supported; if the run folder exists; if outputs are far from the reference. A
/// run that this command began is deleted in these cases.
pub fn run(args: ImportArgs) -> Result<()> {
    require_folder(&args.folder)?;
    if let Some(file) = args.reference.as_ref().filter(|file| !file.is_file()) {
        return Err(Error::usage(format!(
            "--reference {}: there is no such file",
            file.display()
        )));
    }
    if let Some(file) = &args.reference {
        // A damaged file is reported before a run is created.
        header(file).map_err(Error::into_usage_error)?;
    }
    let made = match &args.python {
        Some(python) => Some(parity::compute_reference(python, &args.folder)?),
        None => None,
    };
    let result = import_run(&args, made.as_ref().map(|(_, file)| file.as_path()));
    if let Some((folder, _)) = made {
        // The report has been printed; a leftover file in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(folder);
    }
    result
}

/// Returns an error if there is no such folder. If it could be a model name of the hub, the error says how to download it.
fn require_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        return Ok(());
    }
    let shown = folder.display();
    let parts: Vec<_> = folder.components().collect();
    let is_name = parts.len() <= 2
        && parts
            .iter()
            .all(|part| matches!(part, Component::Normal(_)));
    let way = match folder.file_name().filter(|_| is_name) {
        Some(last) => {
            let last = Path::new(last).display();
            format!("; download a model of the hub with: hf download {shown} --local-dir {last}")
        }
        None => String::new(),
    };
    Err(Error::usage(format!(
        "there is no folder {shown}; `import` reads a folder on disk{way}"
    )))
}

/// Creates the run, and compares it with the given or computed reference. The run is moved to its path once complete, so
/// nothing remains of a process that is killed or of a model that differs from its reference.
fn import_run(args: &ImportArgs, made: Option<&Path>) -> Result<()> {
    if run_dir::is_run(&args.run) {
        return Err(Error::usage(format!(
            "{} already contains a run; import into another folder",
            args.run.display()
        )));
    }
    let part = PartialFolder::create_for(&args.run)?;
    let imported = import::import(
        &args.folder,
        part.path(),
        &args.ignore_key,
        args.adapter.as_deref(),
        args.reward,
    )?;
    let Some(file) = args.reference.as_deref().or(made) else {
        part.place(run_dir::RESOLVED)?;
        return show(args, &imported);
    };
    show(args, &imported)?;
    compare_outputs(args, part.path(), file)?;
    part.place(run_dir::RESOLVED)
}

/// The skipped tensors worth reporting: without the batch counters that PyTorch keeps in each batch norm, which no class
/// computes with.
fn tensors_to_report(passed_over: &[String]) -> Vec<String> {
    let counter = |name: &&String| !name.ends_with(".num_batches_tracked");
    passed_over.iter().filter(counter).cloned().collect()
}

/// Prints what was imported, and what could not be expressed.
fn show(args: &ImportArgs, imported: &ImportReport) -> Result<()> {
    for (what, names) in [
        (
            "keys of config.json without an effect on the model",
            &imported.ignored_keys,
        ),
        (
            "tensors that are not parameters of the model",
            &tensors_to_report(&imported.skipped_tensors),
        ),
        ("settings that cannot be imported", &imported.unsupported),
    ] {
        if !names.is_empty() {
            output::note(printable(&format!("{what}: {}", names.join(", "))));
        }
    }
    for note in &imported.notes {
        output::note(printable(note));
    }
    if imported.lacks_tokenizer {
        output::note(format!(
            "the folder has no tokenizer (none of {}): `formwork infer` accepts token ids, but commands that read text need a \
             tokenizer",
            hf::EXPECTED
        ));
    }
    output::line(format!(
        "{}: {} with {} parameters",
        args.run.display(),
        imported.family,
        imported.params
    ))
}

/// Prints the distance of each output from the expected one.
fn compare_outputs(args: &ImportArgs, run: &Path, file: &Path) -> Result<()> {
    let report = parity::parity(run, file)?;
    for output in &report {
        output::line(format!(
            "{}: at most {:.1e}, on average {:.1e} from the reference, of {} numbers up to {:.3}",
            output.name,
            output.max_difference,
            output.mean_difference,
            output.compared,
            output.max_expected
        ))?;
    }
    let far = report.iter().filter(|output| !output.is_near());
    let far: Vec<&str> = far.map(|output| output.name.as_str()).collect();
    if far.is_empty() {
        return Ok(());
    }
    Err(Error::run(format!(
        "{}: these outputs differ from the reference by more than rounding: {}; the imported model is not the same, so the run \
         is not kept",
        args.run.display(),
        far.join(", ")
    )))
}
