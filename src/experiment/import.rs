//! An HF folder becomes a run: its weights, its tokenizer, and an experiment that describes them.

use super::{Experiment, check, file, resolved_toml};
use crate::data::{DataConfig, Gives, ImportedConfig};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::interop::families::HfShape;
use crate::interop::{HfModel, read_hf};
use crate::model::ModelInputs;
use crate::tokenizer::Tokenizer;
use crate::train::checkpoint;
use crate::train::config::TrainConfig;
use crate::train::machine::Machine;
use crate::train::optim::OptimizerConfig;
use crate::train::run_dir::{self, Existing, RunDir};
use std::path::Path;

/// The outcome of an import, for a person to read.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The family's `model_type`.
    pub family: &'static str,
    /// Numbers in the run's weights.
    pub params: usize,
    /// Keys of config.json that were passed over.
    pub ignored_keys: Vec<String>,
    /// Tensors that were passed over: buffers, copies, heads of other tasks.
    pub passed_over: Vec<String>,
    /// Whether the folder has a tokenizer.
    pub tokenizer: bool,
}

/// Makes a run of the HF folder `dir` in `folder`; keys of its config.json in `ignore` are passed over.
///
/// # Errors
/// A folder that is damaged, or of a model that we do not have; a run folder that exists; a disk that refuses. Nothing is
/// left behind then.
pub fn import(dir: &Path, folder: &Path, ignore: &[String]) -> Result<Imported> {
    let hf = read_hf(dir, ignore)?;
    hf.require_tensors()?;
    let experiment = experiment(&hf.shape, dir);
    let text = resolved_toml(&experiment);
    check::check_without_files(&file::load_text(
        Path::new(run_dir::RESOLVED),
        text.clone(),
        &[],
    )?)?;
    let device = "flex".parse::<DeviceName>()?.open()?;
    let inputs = ModelInputs {
        shape: &hf.shape.shape,
        seed: experiment.seed,
        device: &device,
    };
    let objective = experiment.task.init(&experiment.model, &inputs, false)?;
    let mut source = hf.source(&objective, hf.table())?;
    let tokenizer = tokenizer(&hf)?;
    let existed = folder.exists();
    let run = RunDir::create(folder, Existing::Refuse)?;
    let written = describe(&run, &experiment, &hf, tokenizer.as_ref()).and_then(|()| {
        let shapes = source.shapes();
        let mut read = |path: &str| {
            let array = source.read(path)?;
            Ok(array.map(|array| array.values).unwrap_or_default())
        };
        checkpoint::import(&run, &shapes, &mut read)?;
        run.write(run_dir::RESOLVED, text.as_bytes())
    });
    if let (Err(_), false) = (&written, existed) {
        // Gives the space back; the error that is returned is the one that matters.
        let _ = std::fs::remove_dir_all(folder);
    }
    written?;
    let shapes = source.shapes();
    Ok(Imported {
        family: hf.family.model_type,
        params: shapes.values().map(|s| s.iter().product::<usize>()).sum(),
        ignored_keys: hf.ignored_keys.clone(),
        passed_over: source.passed_over.clone(),
        tokenizer: tokenizer.is_some(),
    })
}

/// The experiment of an imported run: the model and its task; what training needs beside them has its usual values.
fn experiment(shape: &HfShape, dir: &Path) -> Experiment {
    let name = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let name = name.file_name().map(|name| name.to_string_lossy());
    let gives = shape.task.reads();
    Experiment {
        name: name.map_or_else(|| "imported".into(), |name| name.into_owned()),
        seed: super::default_seed(),
        model: shape.model.clone(),
        tokenizer: None,
        init: Default::default(),
        data: DataConfig::Imported(ImportedConfig {
            gives,
            context: match gives {
                Gives::Images => 0,
                Gives::Text | Gives::Labelled | Gives::Pairs => shape.shape.context,
            },
            image: shape.shape.image,
        }),
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

/// The folder's tokenizer, when it has one.
fn tokenizer(hf: &HfModel) -> Result<Option<Tokenizer>> {
    let path = hf.dir.join("tokenizer.json");
    path.is_file().then(|| Tokenizer::load(&path)).transpose()
}

/// Writes the run's files but its experiment as it is resolved, which makes the folder a run.
fn describe(
    run: &RunDir,
    experiment: &Experiment,
    hf: &HfModel,
    tokenizer: Option<&Tokenizer>,
) -> Result<()> {
    let json = |value: serde_json::Result<String>| {
        value.map_err(|e| Error::run(format!("cannot describe the run: {e}")))
    };
    let machine = json(serde_json::to_string_pretty(&Machine::here("flex")))?;
    run.write(run_dir::MACHINE, format!("{machine}\n").as_bytes())?;
    let shape = json(serde_json::to_string_pretty(&hf.shape.shape))?;
    run.write(run_dir::DATA, format!("{shape}\n").as_bytes())?;
    if let Some(tokenizer) = tokenizer {
        run.write(run_dir::TOKENIZER, tokenizer.json())?;
    }
    let config = hf.dir.join("config.json");
    let config = std::fs::read(&config).map_err(Error::io("read", &config))?;
    run.write(run_dir::HF_CONFIG, &config)?;
    let source = format!(
        "# {}, imported from {}\n{}",
        hf.family.summary,
        hf.dir.display(),
        resolved_toml(experiment)
    );
    run.write(run_dir::EXPERIMENT, source.as_bytes())
}
