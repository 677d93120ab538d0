//! Opens a run for use: evaluation, generation, classification.

mod lengths;

use super::assemble::{self, WeightSource};
use super::run_contents::{self, CheckpointChoice};
use super::{Experiment, check, file};
use crate::data::{ExampleForm, SearchPath, Shape, Tokenizers};
use crate::error::{Error, Result, shell_word};
use crate::model::Use;
use crate::task::Objective;
use crate::train::checkpoint::{self, Checkpoint};
use crate::train::{run_dir, run_manifest};
use burn::module::Module;
use burn::tensor::Device;
pub use lengths::Lengths;
use std::path::{Path, PathBuf};

/// What a run is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Weights in evaluation mode, adapters merged into them.
    Inference,
    /// Tracked weights, adapters merged into them.
    Gradients,
    /// Weights in evaluation mode, with separate adapters.
    Adapters,
    /// As `Use`, in a process that computes in the number format of another run.
    Companion,
}

/// A run that is opened for use.
pub struct OpenedRun {
    /// The experiment that was trained.
    pub experiment: Experiment,
    /// Weights in evaluation mode, or tracked; the adapters of `[lora]` are merged into them.
    pub model: Objective,
    /// Where its data is searched for.
    pub places: SearchPath,
    /// The run's tokenizers.
    pub tokenizers: Tokenizers,
    /// The shape of the data that the model was built for.
    pub shape: Shape,
    /// Training step of the checkpoint.
    pub step: u64,
}

/// Opens a checkpoint of a run for use.
///
/// # Errors
/// If there is no run in the folder; if its experiment is invalid; if the checkpoint or the tokenizer is missing or damaged; if
/// the device cannot be opened.
pub fn open(folder: &Path, which: CheckpointChoice, device: Option<&str>) -> Result<OpenedRun> {
    open_for(
        folder,
        which,
        device,
        Lengths::default(),
        Purpose::Inference,
    )
}

/// As [`open`], for use beside another run, whose device and number format it takes; weights in another format are converted.
///
/// # Errors
/// As [`open`].
pub fn open_companion(folder: &Path, which: CheckpointChoice, device: &str) -> Result<OpenedRun> {
    let lengths = Lengths::default();
    open_for(folder, which, Some(device), lengths, Purpose::Companion)
}

/// As [`open`], with the adapters of `[lora]` kept separate from the frozen weights.
///
/// # Errors
/// As [`open`]; if the run has no adapters.
pub fn open_with_adapters(folder: &Path, which: CheckpointChoice) -> Result<OpenedRun> {
    let opened = open_for(folder, which, None, Lengths::default(), Purpose::Adapters)?;
    match opened.experiment.lora {
        Some(_) => Ok(opened),
        None => Err(Error::usage(format!(
            "the run {} has no adapters: its experiment has no [lora]",
            folder.display()
        ))),
    }
}

/// As [`open`], for computing gradients: all parameters are tracked, including frozen ones. Dropout is off, as in any
/// evaluation pass.
///
/// # Errors
/// As [`open`].
pub fn open_tracked(
    folder: &Path,
    which: CheckpointChoice,
    device: Option<&str>,
) -> Result<OpenedRun> {
    open_for(
        folder,
        which,
        device,
        Lengths::default(),
        Purpose::Gradients,
    )
}

/// The message that the best checkpoint is used although a newer one exists.
pub fn older_checkpoint_note(folder: &Path, which: CheckpointChoice, step: u64) -> Option<String> {
    let newest = checkpoint::steps(folder).pop().filter(|n| *n > step)?;
    (which == CheckpointChoice::Best).then(|| {
        format!(
            "the best checkpoint, at step {step}; the newest is at step {newest} (--checkpoint latest)"
        )
    })
}

/// Loads the experiment of a run without its weights.
///
/// # Errors
/// If there is no run in the folder, or its experiment is invalid.
pub fn stored_experiment(folder: &Path) -> Result<Experiment> {
    run_dir::require_run(folder)?;
    run_manifest::verify(folder)?;
    let loaded = file::load(&folder.join(run_dir::RESOLVED), &[])?;
    check::check_without_files(&loaded)?;
    Ok(loaded.experiment)
}

/// As [`open`], with other sequence lengths than in training, to test how a position scheme extrapolates.
///
/// # Errors
/// As [`open`]; if the run does not read windows of text; if windows are longer than a position table; if the model has no
/// memory of earlier segments; if the stride is longer than a window, or the run carries its state between windows.
pub fn open_with_lengths(
    folder: &Path,
    which: CheckpointChoice,
    device: Option<&str>,
    lengths: Lengths,
) -> Result<OpenedRun> {
    let opened = open_for(folder, which, device, lengths, Purpose::Inference);
    opened.map_err(|error| lengths.reword_error(error))
}

fn open_for(
    folder: &Path,
    which: CheckpointChoice,
    device: Option<&str>,
    lengths: Lengths,
    purpose: Purpose,
) -> Result<OpenedRun> {
    run_dir::require_run(folder)?;
    run_manifest::verify(folder)?;
    let device = device.map(|d| format!("train.device={d}"));
    let windows = lengths
        .data_overrides()
        .map(|(key, _, value)| format!("{key}={value}"));
    let sets: Vec<String> = device.into_iter().chain(windows).collect();
    let mut loaded = file::load(&folder.join(run_dir::RESOLVED), &sets)?;
    if let Some(positions) = lengths.memory
        && !loaded.experiment.model.set_evaluation_memory(positions)
    {
        return Err(Error::usage(
            "--memory has no effect: no layer of the run has a memory of earlier segments ([model.attention] memory); remove it",
        ));
    }
    check::check_without_files(&loaded)?;
    let tokenizers = run_contents::tokenizers(folder)?;
    if tokenizers.text.is_none() && loaded.experiment.data.data_set().is_text() {
        return Err(Error::run(format!(
            "{} is missing: it contains the text of each of the model's tokens",
            folder.join(run_dir::TOKENIZER).display()
        )));
    }
    let mut shape = run_contents::shape(folder)?;
    let trained = shape.context;
    shape.context = lengths.context.unwrap_or(trained);
    run_contents::require_vocabulary(folder, &tokenizers, &shape)?;
    let tokenizers = run_contents::with_framing(tokenizers, &loaded.experiment, &shape)?;
    let chosen = run_contents::find_checkpoints(folder, which)?;
    let Some(checkpoint) = chosen.last() else {
        unreachable!("a name is that of one checkpoint at least")
    };
    run_manifest::require_sealed(folder, checkpoint.state())?;
    let files: Vec<PathBuf> = chosen.iter().map(Checkpoint::evaluated_weights).collect();
    let weights = match which {
        CheckpointChoice::Average(_) => {
            for one in &chosen {
                assemble::require_average(&loaded.experiment, one)?;
            }
            WeightSource::Mean(&files)
        }
        CheckpointChoice::Best | CheckpointChoice::Latest | CheckpointChoice::Step(_) => {
            match purpose {
                Purpose::Companion => WeightSource::ForCompanion(checkpoint),
                Purpose::Inference | Purpose::Gradients | Purpose::Adapters => {
                    WeightSource::ForInference(checkpoint)
                }
            }
        }
    };
    let places = loaded.places();
    let mut experiment = loaded.experiment;
    experiment.task = experiment.task.without_training_parts();
    let device = match purpose {
        // The process has settled on a number format already.
        Purpose::Companion => assemble::unconfigured_device(&experiment)?,
        purpose => assemble::device(&experiment, purpose == Purpose::Gradients)?,
    };
    // Tables as long as the training context keep all their rows when windows are shorter.
    let built = Shape {
        context: shape.context.max(trained),
        ..shape.clone()
    };
    let used = for_inference(&experiment, &built, &device)?;
    lengths::require_rows(&used, &built, trained, &device)?;
    let (model, _) = assemble::model(&used, &built, &device, &weights)?;
    Ok(OpenedRun {
        model: match purpose {
            Purpose::Inference | Purpose::Companion => model.valid().materialize(),
            Purpose::Gradients => model.materialize().set_require_grad(true),
            Purpose::Adapters => model.valid(),
        },
        experiment,
        places,
        tokenizers,
        shape,
        step: checkpoint.state().step,
    })
}

/// The experiment of a model in use: nothing is frozen, since nothing is trained, and `[lora]` lacks the patterns that match
/// only parts used in training.
fn for_inference(experiment: &Experiment, shape: &Shape, device: &Device) -> Result<Experiment> {
    let mut used = experiment.clone();
    used.init.freeze.clear();
    if let Some(mut lora) = used.lora.take() {
        lora.drop_unmatched(&assemble::objective(&used, shape, device)?)?;
        used.lora = Some(lora);
    }
    Ok(used)
}

/// Suggests a command that uses a finished run.
pub fn suggested_use(experiment: &Experiment, run: &Path) -> Option<String> {
    let prompt = match &experiment.train.sample {
        Some(sample) if !sample.prompt.trim().is_empty() => Some(sample.prompt.clone()),
        Some(_) | None => experiment.data.data_set().prompt(),
    };
    // A prompt that the run's tokenizer cannot encode is not suggested.
    let known = run_contents::tokenizers(run).ok();
    let texts = known.as_ref().and_then(|known| known.text.as_ref());
    let readable = |text: &String| texts.is_none_or(|t| t.encode(text).is_ok());
    let prompt = prompt.map(|prompt| match readable(&prompt) {
        true => prompt,
        false => "TEXT".into(),
    });
    if experiment.data.sequence_image_size().is_some() {
        return Some(format!("formwork classify {} FILE.png", shell_word(run)));
    }
    // A preference run on plain texts may have inherited the chat template of the run it began from.
    let answers = known.is_some_and(|tokenizers| tokenizers.chat.is_some())
        && (experiment.data.data_set().example_form() != ExampleForm::Preferences
            || run_contents::shape(run).is_ok_and(|shape| shape.templated));
    if answers && experiment.task.network_use() == Use::NextTokens {
        return Some(format!("formwork chat {} --message TEXT", shell_word(run)));
    }
    let facts = experiment.task.facts();
    facts.command(&shell_word(run), prompt.as_deref())
}

#[cfg(test)]
mod tests {
    use super::{CheckpointChoice, older_checkpoint_note};
    use std::fs;

    #[test]
    fn the_best_checkpoint_is_told_where_a_newer_one_is_there() {
        let folder = tempfile::tempdir().unwrap();
        for step in ["00000010", "00000020"] {
            fs::create_dir_all(folder.path().join("steps").join(step)).unwrap();
        }
        let told = |which, step| older_checkpoint_note(folder.path(), which, step);
        let said = told(CheckpointChoice::Best, 10).unwrap();
        assert!(
            said.contains("at step 10; the newest is at step 20"),
            "{said}"
        );
        assert_eq!(told(CheckpointChoice::Best, 20), None);
        assert_eq!(told(CheckpointChoice::Step(10), 10), None);
    }
}
