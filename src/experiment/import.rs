//! Imports a Hugging Face folder as a run: its weights, its tokenizer, and an experiment that describes them.

mod images;
mod recordings;
mod task_and_shape;
mod tokenizers;

use super::{Experiment, check, file, resolved_toml};
use crate::data::{DataConfig, Shape};
use crate::device::DeviceName;
use crate::error::{Error, Fault, Result};
use crate::generate::beam::BeamConfig;
use crate::interop::generation::{self, ImportedGeneration, TextKind};
use crate::interop::{HfModel, hf_keys, peft, read_hf, shapes};
use crate::model::{BuildContext, Use};
use crate::nn::linear;
use crate::task::Objective;
use crate::train::checkpoint;
use crate::train::config::TrainConfig;
use crate::train::machine::Machine;
use crate::train::optim::OptimizerConfig;
use crate::train::parameters::name_parameters;
use crate::train::run_dir::{self, Existing, RunDir};
use crate::train::run_manifest;
use std::path::Path;
use task_and_shape::{input_shape, reward_task};

/// Outcome of an import, for display.
#[derive(Clone, Debug, Default)]
pub struct ImportReport {
    /// The family's `model_type`.
    pub family: &'static str,
    /// Number of parameters in the run's weights.
    pub params: usize,
    /// Keys of config.json that were ignored.
    pub ignored_keys: Vec<String>,
    /// Tensors that were skipped: buffers, copies, heads of other tasks.
    pub skipped_tensors: Vec<String>,
    /// Settings of the other files that cannot be expressed here.
    pub unsupported: Vec<String>,
    /// Notes on where token ids or logits can differ from those of transformers.
    pub notes: Vec<String>,
    /// Whether the model reads text but the folder has no tokenizer.
    pub lacks_tokenizer: bool,
}

/// Imports the HF folder `dir` as a run in `folder`, ignoring the keys `ignore` of its config.json. `adapter` is a `peft`
/// folder whose adapters the run keeps beside its weights. `rewards` makes a text regression model a reward model.
///
/// # Errors
/// If the folder is damaged or its model is not supported; if the adapter belongs to another model or is of another kind; if
/// the run folder exists; if writing fails. Nothing is left behind in these cases.
pub fn import(
    dir: &Path,
    folder: &Path,
    ignore: &[String],
    adapter: Option<&Path>,
    rewards: bool,
) -> Result<ImportReport> {
    let mut hf = read_hf(dir, ignore).map_err(Error::into_usage_error)?;
    hf.require_tensors()?;
    let mut imported = ImportReport {
        family: hf.family.model_type,
        ignored_keys: hf.ignored_keys.clone(),
        notes: hf.notes.clone(),
        ..ImportReport::default()
    };
    match hf.shape.shape.speech {
        Some(speech) => recordings::settings(&mut hf, speech, &mut imported)?,
        None => images::settings(&mut hf, &mut imported)?,
    }
    if let Some(modules) = &hf.modules {
        imported.unsupported.extend(modules.ignored.clone());
    }
    let mut experiment = experiment(&hf, folder);
    if rewards {
        experiment.task = reward_task(&hf).map_err(Error::into_usage_error)?;
        experiment.data = DataConfig::imported(experiment.task.example_form(), &input_shape(&hf));
    }
    let settings = settings(&hf, &mut experiment, &mut imported)?;
    let tokenizers = tokenizers::tokenizer_files(&hf, settings.as_ref(), &mut imported)?;
    let device = "flex".parse::<DeviceName>()?.open()?;
    let inputs = BuildContext {
        shape: &hf.shape.shape,
        seed: experiment.seed,
        device: &device,
    };
    let plain = resolved_toml(&experiment);
    let loaded = file::load_text(Path::new(run_dir::RESOLVED), plain, &[])?;
    check::check_without_files(&loaded).map_err(|error| reword_config_error(dir, error))?;
    let objective = experiment.task.init(&experiment.model, &inputs, false)?;
    let others = hf.weights.others().iter();
    imported
        .unsupported
        .extend(others.map(|name| format!("{name} (no tensor)")));
    let mut source = hf
        .source(&objective, hf.table())
        .map_err(Error::into_usage_error)?;
    imported.skipped_tensors.clone_from(&source.ignored);
    let mut shapes = source.shapes();
    let mut arrays = images::random_parameters(&objective, &source.randomly_initialised);
    let drawn = arrays.iter();
    shapes.extend(drawn.map(|(path, array)| (path.clone(), array.shape.clone())));
    if let Some(adapter) = adapter {
        let found = read_adapter(&hf, &objective, adapter)?;
        imported.unsupported.extend(found.unsupported);
        let factors = found.arrays.iter();
        shapes.extend(factors.map(|(path, array)| (path.clone(), array.shape.clone())));
        arrays.extend(found.arrays);
        experiment.lora = Some(found.lora);
    }
    let text = resolved_toml(&experiment);
    if let Some(lora) = &experiment.lora {
        lora.attach(name_parameters(objective), experiment.seed)?;
    }
    imported.params = shapes.values().map(|s| s.iter().product::<usize>()).sum();
    let existed = folder.exists();
    if run_dir::is_run(folder) {
        return Err(Error::usage(format!(
            "{} already contains a run; import into another folder",
            folder.display()
        )));
    }
    let run = RunDir::create(folder, Existing::Refuse)?;
    let mut read = |path: &str| {
        if let Some(array) = arrays.remove(path) {
            return Ok(array.values);
        }
        let array = source.read(path).map_err(Error::into_usage_error)?;
        let values = array.map(|array| array.values).unwrap_or_default();
        match values.iter().all(|x| x.is_finite()) {
            true => Ok(values),
            false => Err(Error::usage(format!(
                "{}: the weights of `{path}` contain values that are infinite or not numbers",
                dir.display()
            ))),
        }
    };
    let written = checkpoint::import(&run, &shapes, &mut read)
        .and_then(|_| write_files(&run, &hf, settings.as_ref(), tokenizers, text));
    if let (Err(_), false) = (&written, existed) {
        // Frees the disk space; the original error is the one that matters.
        let _ = std::fs::remove_dir_all(folder);
    }
    written.map(|()| imported)
}

/// Rewords errors of the converted config.json, since there is no experiment file yet that a user could look at.
fn reword_config_error(dir: &Path, error: Error) -> Error {
    let Error::Invalid(faults) = error else {
        return error;
    };
    let file = dir.join("config.json");
    // The file was read before; if it has vanished since, the errors are reported without its keys.
    let config = crate::files::json::encode_infinity(std::fs::read(&file).unwrap_or_default());
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap_or_default();
    let told = faults.into_iter().map(|fault| {
        let said = match hf_keys(&config, &fault.message) {
            said if said.is_empty() => String::new(),
            said => format!(" with {}", said.join(", ")),
        };
        Fault {
            file: Some(file.clone()),
            line: None,
            message: format!(
                "describes a model that cannot be imported{said}: {}",
                fault.message
            ),
        }
    });
    Error::Invalid(told.collect())
}

/// Reads the adapter of this model from a `peft` folder.
fn read_adapter(hf: &HfModel, objective: &Objective, dir: &Path) -> Result<peft::Adapter> {
    let (table, shapes, linear) = (
        hf.table(),
        shapes(objective),
        linear::weight_paths(objective),
    );
    let base = peft::Base {
        table: &table,
        shapes: &shapes,
        linear: &linear,
        weights: &hf.weights,
    };
    peft::read(dir, &base).map_err(Error::into_usage_error)
}

/// Builds the experiment of an imported run: its model and task, with default values for training. Its name is that of the
/// folder.
fn experiment(hf: &HfModel, folder: &Path) -> Experiment {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| match c.is_alphanumeric() || "-_.+".contains(c) {
        true => c,
        false => '-',
    };
    let name: String = name.chars().map(plain).take(50).collect();
    let name = name.trim_start_matches(['.', '-']);
    let shape = &hf.shape;
    Experiment {
        name: match name {
            "" => "imported".into(),
            name => name.into(),
        },
        seed: super::default_seed(),
        model: shape.model.clone(),
        tokenizer: None,
        init: Default::default(),
        lora: None,
        data: DataConfig::imported(shape.task.example_form(), &input_shape(hf)),
        task: shape.task.clone(),
        optimizer: OptimizerConfig::default(),
        schedule: Default::default(),
        train: TrainConfig {
            steps: 1,
            ..TrainConfig::default()
        },
        diagnostics: None,
        journal: Default::default(),
        decode: Default::default(),
        expect: Default::default(),
        ablation: None,
    }
}

/// Applies the folder's generation settings to the experiment; `None` if it has none or the model has no tokens.
fn settings(
    hf: &HfModel,
    experiment: &mut Experiment,
    imported: &mut ImportReport,
) -> Result<Option<ImportedGeneration>> {
    let Shape { vocab_size, .. } = hf.shape.shape;
    if vocab_size == 0 {
        return Ok(None);
    }
    let uses = hf.shape.task.network_use();
    let of = match uses {
        Use::TextToText => TextKind::Pairs,
        Use::SpeechToText => TextKind::Transcripts,
        _ => TextKind::Continuations,
    };
    let Some(mut settings) = generation::read(&hf.dir, of).map_err(Error::into_usage_error)? else {
        return Ok(None);
    };
    match uses {
        Use::TextToText => {
            settings.require_vocabulary(vocab_size)?;
            experiment.decode.search = settings.search.clone();
            if !settings.limits_length() {
                imported.notes.push(format!(
                    "the generation settings have neither max_new_tokens nor max_length, and transformers then generates 20 \
                     tokens with the end token: texts of `eval` and `translate`, and of runs that extend this one, end after \
                     decode.search.max_len_b = {}",
                    settings.search.max_len_b
                ));
            }
        }
        Use::SpeechToText => {
            settings.require_vocabulary(vocab_size)?;
            experiment.decode.search = BeamConfig {
                // A recording has no token count that a length could be relative to.
                max_len_a: BeamConfig::default().max_len_a,
                ..settings.search.clone()
            };
        }
        Use::NextTokens => {
            let mut sampling = settings.sampling.clone();
            sampling.end.retain(|id| (*id as usize) < vocab_size);
            if sampling.end.len() < settings.sampling.end.len() {
                imported.notes.push(format!(
                    "tokens of eos_token_id that are not in the vocabulary of {vocab_size} end no text"
                ));
            }
            experiment.decode.sampling = sampling;
            experiment.decode.beam_search = settings.beam_search.clone();
        }
        Use::MaskedTokens
        | Use::TextClasses
        | Use::TextRegression
        | Use::TextEmbeddings
        | Use::TokenClasses
        | Use::Spans
        | Use::ImageClasses
        | Use::MaskedPatches
        | Use::ImageViews
        | Use::ImageText
        | Use::ImageToText
        | Use::SpeechCharacters
        | Use::MaskedFrames => {}
    }
    let unsupported = settings.unsupported.iter().cloned();
    imported.unsupported.extend(unsupported);
    Ok(Some(settings))
}

/// Writes the run's files. The resolved experiment comes last, since it makes the folder a run.
fn write_files(
    run: &RunDir,
    hf: &HfModel,
    settings: Option<&ImportedGeneration>,
    tokenizers: Vec<(&'static str, Vec<u8>)>,
    resolved: String,
) -> Result<()> {
    let json = |value: serde_json::Result<String>| {
        value
            .map(|text| format!("{text}\n").into_bytes())
            .map_err(|e| Error::run(format!("cannot serialise the run: {e}")))
    };
    let config = hf.dir.join("config.json");
    let config = std::fs::read(&config).map_err(Error::io("read", &config))?;
    let source = format!(
        "# {}, imported from {}\n{resolved}",
        hf.family.summary,
        hf.dir.display()
    );
    // Evaluation files are read in the way of a new run.
    let shape = Shape {
        files_distinguished: true,
        ..hf.shape.shape.clone()
    };
    let mut files = vec![
        (
            run_dir::MACHINE,
            json(serde_json::to_string_pretty(&Machine::detect("flex")))?,
        ),
        (run_dir::DATA, json(serde_json::to_string_pretty(&shape))?),
        (run_dir::HF_CONFIG, config),
    ];
    if let Some(settings) = settings {
        let kept = json(serde_json::to_string_pretty(&settings.kept))?;
        files.push((run_dir::HF_GENERATION, kept));
    }
    files.extend(tokenizers);
    files.push((run_dir::EXPERIMENT, source.into_bytes()));
    files.push((run_dir::RESOLVED, resolved.into_bytes()));
    run_manifest::write_new(run, &files)
}
