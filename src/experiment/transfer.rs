//! `[init] from`: the weights of another run, and its tokenizer when the experiment has none of its own.

use super::saved::{self, Which};
use super::{Experiment, assemble, file, teacher};
use crate::data::{Places, Shape, Tokenizers};
use crate::device;
use crate::error::{Error, Result};
use crate::interop::families::HfShape;
use crate::interop::other_computations;
use crate::nn::position::Grid;
use crate::nn::position::resample::{repeat, resample_grid, stretch};
use crate::nn::role::{ParameterKind, Place};
use crate::report::read::sweep::{ARM, run_of_seed};
use crate::task::{Objective, TaskConfig};
use crate::tokenizer::Tokenizer;
use crate::train::checkpoint::weights as stored;
use crate::train::lora::{self, LoraConfig};
use crate::train::parameters::{self, Parameter};
use crate::train::transfer::{Lengthen, Transferred};
use crate::train::{run_dir, run_files};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of the run that `[init]` names; of an arm of a sweep the run of the same seed, so that runs with several seeds
/// begin from as many runs.
///
/// # Errors
/// No run there, or one whose files were changed.
pub fn folder(experiment: &Experiment, places: &Places) -> Result<Option<PathBuf>> {
    let Some(from) = &experiment.init.from else {
        return Ok(None);
    };
    let folder = of_seed(places.anchored(from), experiment.seed);
    run_dir::require_run(&folder).map_err(|error| {
        Error::usage(format!(
            "[init] from = {from:?}: {error}; train that run first"
        ))
    })?;
    run_files::verify(&folder)?;
    Ok(Some(folder))
}

/// The run of a seed where a folder holds an arm's runs, one for each seed; else the folder itself.
fn of_seed(folder: PathBuf, seed: u64) -> PathBuf {
    let runs = !run_dir::is_run(&folder) && folder.join(ARM).is_file();
    match runs {
        true => folder.join(run_of_seed(seed)),
        false => folder,
    }
}

/// The tokenizers that data is read with: those of the other run when the experiment names none, or of a teacher.
///
/// # Errors
/// No run where `[init]` or a teacher says, or a damaged tokenizer of it.
pub fn tokenizers(experiment: &Experiment, places: &Places) -> Result<Tokenizers> {
    match folder(experiment, places)? {
        _ if experiment.tokenizer.is_some() => Ok(Tokenizers::default()),
        Some(folder) => saved::tokenizers(&folder),
        None => teacher::tokenizers(experiment, places),
    }
}

/// An error when rows of tables are to be taken that belong to other tokens: the vocabulary is not the other run's.
fn same_vocabulary(
    experiment: &Experiment,
    folder: &Path,
    own: &Tokenizers,
    model: &Objective,
) -> Result<()> {
    let theirs = saved::tokenizers(folder)?;
    let print = |t: &Option<Tokenizer>| t.as_ref().map(Tokenizer::fingerprint);
    let [reads, writes] = [
        (print(&theirs.text), print(&own.text)),
        (
            theirs.of_targets().map(Tokenizer::fingerprint),
            own.of_targets().map(Tokenizer::fingerprint),
        ),
    ]
    .map(|(theirs, own)| theirs.is_some() && theirs != own);
    let all = parameters::with_state(model);
    // Adapters belong to this run alone.
    let all: Vec<_> = all
        .into_iter()
        .filter(|p| !lora::is_adapter(&p.path))
        .collect();
    let of_source = |p: &&Parameter| p.role.place == Some(Place::SourceTokens);
    let one = !all.iter().any(|p| of_source(&p));
    let foreign = all.iter().filter(|p| p.role.is_of_tokens()).filter(|p| {
        // With one vocabulary the table of what is written is also the table of what is read.
        match p.role.place {
            Some(Place::SourceTokens) => reads,
            Some(Place::Tokens) => writes || one && reads,
            _ => writes,
        }
    });
    let foreign = foreign.map(|p| p.path.as_str());
    let foreign = experiment.init.taken(foreign)?;
    if foreign.is_empty() {
        return Ok(());
    }
    let anew: Vec<String> = foreign.iter().map(|path| format!("{path:?}")).collect();
    Err(Error::usage(format!(
        "[init] the other run has another vocabulary, so that its embeddings belong to other tokens; leave [tokenizer] \
         out to take that of the run, or let what is made of tokens begin anew: add {} to new",
        anew.join(", ")
    )))
}

/// The name of the kind of part that holds a parameter: the last variant in its path.
fn kind_of(parameter: &Parameter) -> Option<String> {
    let mut names = parameter.old_path.split('.');
    let variant = |name: &&str| name.starts_with(|c: char| c.is_ascii_uppercase());
    names.rfind(variant).map(str::to_lowercase)
}

/// The paths of parameters, each with that of what is added to it.
type Sums = &'static [(&'static str, &'static str)];

/// The parameters of the other run's task that this one reads as sums: none where it holds their summands itself.
fn read_as_sums(theirs: &TaskConfig, own: &TaskConfig) -> Sums {
    let [theirs, own] = [theirs, own].map(|task| task.facts().sums());
    if theirs == own { &[] } else { theirs }
}

/// An error when gains of norms are to be taken that belong to norms of another kind: they have the same names and
/// shapes, and mean something else. Else the adapters of the other run.
fn same_norms(
    experiment: &Experiment,
    source: &Experiment,
    theirs: &Shape,
    device: &Device,
    model: &Objective,
) -> Result<(Option<LoraConfig>, Sums)> {
    let (lora, sums) = (
        source.lora.clone(),
        read_as_sums(&source.task, &experiment.task),
    );
    let source = assemble::objective(source, theirs, device)?;
    let norms = |model: &Objective| {
        let all = parameters::with_state(model).into_iter();
        let norms = all.filter(|p| p.role.kind == Some(ParameterKind::Norm));
        let norms = norms.filter_map(|p| Some((p.path.clone(), kind_of(&p)?)));
        norms.collect::<BTreeMap<String, String>>()
    };
    let (theirs, own) = (norms(&source), norms(model));
    let taken = experiment.init.taken(own.keys().map(String::as_str))?;
    let other = taken
        .iter()
        .filter_map(|path| Some((path, theirs.get(*path)?, &own[*path])));
    let other: Vec<_> = other.filter(|(_, theirs, own)| theirs != own).collect();
    let Some((path, theirs, own)) = other.first() else {
        return Ok((lora, sums));
    };
    Err(Error::usage(format!(
        "[init] `{path}` and {} more are of norms of kind \"{theirs}\" in the other run and of kind \"{own}\" here; keep \
         the run's kind in [model.norm], or let norms begin anew: add patterns such as \"norm\" to new",
        other.len() - 1
    )))
}

/// The model with the other run's weights; what became of each parameter, when there is another run.
///
/// # Errors
/// A checkpoint that is missing or damaged; another vocabulary, and tables of tokens that do not begin anew; every
/// parameter that does not fit without being asked for.
pub fn weights(
    experiment: &Experiment,
    places: &Places,
    shape: &Shape,
    tokenizers: &Tokenizers,
    model: Objective,
) -> Result<(Objective, Option<Transferred>)> {
    let Some(folder) = folder(experiment, places)? else {
        return Ok((model, None));
    };
    same_vocabulary(experiment, &folder, tokenizers, &model)?;
    let which = experiment.init.checkpoint.as_deref().unwrap_or("best");
    let which: Which = which
        .parse()
        .map_err(|rule| Error::usage(format!("[init] checkpoint = {which:?} is none; {rule}")))?;
    if let Which::Average(_) = which {
        return Err(Error::usage(
            "[init] checkpoint: a run begins from one checkpoint: best, latest or the number of a step",
        ));
    }
    let checkpoint = saved::chosen(&folder, which).map_err(as_key)?;
    let file = checkpoint.evaluated_weights();
    let theirs = saved::shape(&folder)?;
    let resample = |data: &TensorData, wanted: &[usize], how: Lengthen| {
        resampled(experiment, [theirs.image, shape.image], data, wanted, how)
    };
    let source = file::load(&folder.join(run_dir::RESOLVED), &[])?.experiment;
    let (lora, sums) = same_norms(experiment, &source, &theirs, &model.devices()[0], &model)?;
    let grid = |image| experiment.model.grid(image);
    let moved = grid(theirs.image) != grid(shape.image);
    let init = &experiment.init;
    let (model, mut done) = init.transfer(model, &file, &resample, moved, lora.as_ref())?;
    let model = summed(model, &file, sums, &done.loaded)?;
    done.differing =
        other_computations(&described(experiment, shape), &described(&source, &theirs));
    // A frozen parameter stays frozen with its new values.
    Ok((experiment.init.frozen(model)?, Some(done)))
}

/// A run's network with its data, to be compared with another one.
fn described(experiment: &Experiment, shape: &Shape) -> HfShape {
    HfShape {
        model: experiment.model.clone(),
        task: experiment.task.clone(),
        shape: shape.clone(),
    }
}

/// The model in which those of the parameters that were `taken` from a file are the sums that they are read as.
fn summed(model: Objective, file: &Path, sums: Sums, taken: &[String]) -> Result<Objective> {
    if sums.is_empty() {
        return Ok(model);
    }
    let theirs = stored::read(file, &model)?;
    let sums = sums.iter().filter_map(|(path, other)| {
        let path = taken.iter().find(|taken| taken == path)?;
        let (one, other) = (theirs.get(path)?, theirs.get(*other)?);
        let pairs = one.iter::<f32>().zip(other.iter::<f32>());
        let sum: Vec<f32> = pairs.map(|(one, other)| one + other).collect();
        let sum = TensorData::new(sum, one.shape().clone());
        Some((path.clone(), sum.convert_dtype(one.dtype())))
    });
    let sums = sums.collect();
    Ok(stored::fill(model, sums))
}

/// The remedy of an error about a checkpoint as a key, where commands have a flag.
fn as_key(error: Error) -> Error {
    as_key_of("[init]", "checkpoint", error)
}

/// The remedy as a key of a table.
pub(super) fn as_key_of(table: &str, key: &str, error: Error) -> Error {
    let text = error.to_string();
    match text.split_once("--checkpoint ") {
        Some((before, step)) => Error::usage(format!("{table} {before}{table} {key} = \"{step}\"")),
        None => error,
    }
}

/// A table of positions for another number of them, whose rows lie between the old ones or repeat them: of the patches of images of the first size for those of the
/// second by their two sides, of a text along it. `None` when it is no such table.
fn resampled(
    experiment: &Experiment,
    images: [Option<[usize; 3]>; 2],
    data: &TensorData,
    shape: &[usize],
    how: Lengthen,
) -> Option<TensorData> {
    let (&[from, width], &[to, d]) = (&data.shape().to_vec()[..], shape) else {
        return None;
    };
    let transformer = experiment.model.transformer();
    let resamples = transformer.is_some_and(|model| model.stack.position.facts().has_a_row_each());
    if width != d || from == 0 || !resamples {
        return None;
    }
    let table: Vec<f32> = data.iter::<f32>().collect();
    if how == Lengthen::Repeat {
        let values = repeat(&table, [from, to], d, reserved(experiment))?;
        return Some(TensorData::new(values, [to, d]).convert_dtype(data.dtype()));
    }
    let values = match images.map(|image| experiment.model.grid(image)) {
        [Some(theirs), Some(ours)] => {
            if theirs.positions() != from || ours.positions() != to {
                return None;
            }
            let data = TensorData::new(table, [from, d]);
            let table = Tensor::<2>::from_data(data, &device::host());
            let sides = |grid: Grid| [grid.rows, grid.cols];
            let table = resample_grid(table, sides(theirs), sides(ours), ours.class_token);
            table.into_data().iter::<f32>().collect()
        }
        _ => stretch(&table, [from, to], d, reserved(experiment))?,
    };
    Some(TensorData::new(values, [to, d]).convert_dtype(data.dtype()))
}

/// Rows at the head of the table of positions that are no position's.
fn reserved(experiment: &Experiment) -> usize {
    let transformer = experiment.model.transformer();
    transformer.map_or(0, |model| model.stack.position.facts().reserved())
}
