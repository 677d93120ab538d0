//! `[init] from`: takes the weights of another run, and its tokenizer if the experiment has none of its own.

mod classes;
pub(super) mod limit;
pub(super) mod rows;
mod sums;
mod tables;
mod vocabularies;

use super::{Experiment, assemble, export, file, initial, run_contents, teacher};
use crate::data::images::Fit;
use crate::data::{SearchPath, Shape, Tokenizers};
use crate::error::{Error, Result};
use crate::interop::families::HfShape;
use crate::interop::layer_computation_differences;
use crate::model::ModelConfig;
use crate::nn::role::ParameterKind;
use crate::report::read::sweep::{ARM, seed_folder};
use crate::task::{Objective, TaskConfig};
use crate::train::lora::LoraConfig;
use crate::train::parameters::{self, Parameter};
use crate::train::transfer::{
    InitialCheckpoint, InitialRun, LengthChange, Lengths, PartName, PathMapping, TransferConfig,
    Transferred,
};
use crate::train::{run_dir, run_manifest};
use burn::module::Module;
use burn::tensor::TensorData;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use sums::apply_sums;
use tables::{ImageReader, resample_table};

/// Returns the folders of the runs that `[init]` names, by key. For an arm of a sweep it is the run with the same seed, so that
/// runs with several seeds start from as many runs. A folder without a run, or with changed files, is an error.
pub fn folders(
    experiment: &Experiment,
    places: &SearchPath,
) -> Vec<(&'static str, Result<PathBuf>)> {
    let all = experiment.init.initial_runs().into_iter();
    all.map(|one| (one.key, folder(&one, experiment.seed, places)))
        .collect()
}

/// The folder of one of these runs.
pub(super) fn folder(beginning: &InitialRun, seed: u64, places: &SearchPath) -> Result<PathBuf> {
    let folder = run_for_seed(places.anchored(&beginning.from), seed);
    run_dir::require_run(&folder).map_err(|error| {
        let (table, from) = (table(beginning), &beginning.from);
        Error::usage(format!(
            "{table} from = {from:?}: {error}; train that run first"
        ))
    })?;
    run_manifest::verify(&folder)?;
    Ok(folder)
}

/// The name of the table that names a run.
pub(super) fn table(beginning: &InitialRun) -> String {
    let table = beginning.key.strip_suffix(".from");
    format!("[{}]", table.unwrap_or(beginning.key))
}

/// If a folder holds a sweep arm's runs, one for each seed, the run of this seed; otherwise the folder itself.
pub(super) fn run_for_seed(folder: PathBuf, seed: u64) -> PathBuf {
    let runs = !run_dir::is_run(&folder) && folder.join(ARM).is_file();
    match runs {
        true => folder.join(seed_folder(seed)),
        false => folder,
    }
}

/// The source run of the text network, or of the whole model.
pub(super) fn text_source(experiment: &Experiment) -> Option<InitialRun> {
    let mut all = experiment.init.initial_runs().into_iter();
    all.find(|one| one.part.is_none_or(|[own, _]| own == PartName::Text))
}

/// Returns the tokenizers to read data with: those of the source run or of the teacher if the experiment has none.
///
/// # Errors
/// If there is no run where `[init]` or the teacher says, or its tokenizer is damaged.
pub fn tokenizers(experiment: &Experiment, places: &SearchPath) -> Result<Tokenizers> {
    match text_source(experiment) {
        _ if experiment.tokenizer.is_some() => Ok(Tokenizers::default()),
        Some(one) => run_contents::framed_tokenizers(&folder(&one, experiment.seed, places)?),
        None => teacher::tokenizers(experiment, places),
    }
}

/// The kind of module that holds a parameter: the last enum variant in its path.
fn kind_of(parameter: &Parameter) -> Option<String> {
    let mut names = parameter.old_path.split('.');
    let variant = |name: &&str| name.starts_with(|c: char| c.is_ascii_uppercase());
    names.rfind(variant).map(str::to_lowercase)
}

/// Pairs of parameter paths: a parameter, and the one that is added to it.
type Sums = &'static [(&'static str, &'static str)];

/// The parameters of the other run's task that this one stores as sums; empty if this task also has the summands.
fn stored_as_sums(theirs: &TaskConfig, own: &TaskConfig) -> Sums {
    let [theirs, own] = [theirs, own].map(|task| task.facts().summed_parameters());
    if theirs == own { &[] } else { theirs }
}

/// Returns an error if norm gains would be taken from norms of another kind: they have the same names and shapes, but another
/// meaning. Otherwise returns the adapters and sums of the other run.
fn require_same_norms(
    experiment: &Experiment,
    (rules, way): (&TransferConfig, Option<&PathMapping>),
    source: &Experiment,
    theirs: &Shape,
    model: &Objective,
) -> Result<(Option<LoraConfig>, Sums)> {
    let (lora, sums) = (
        source.lora.clone(),
        stored_as_sums(&source.task, &experiment.task),
    );
    if way.is_some() && !sums.is_empty() {
        return Err(Error::usage(format!(
            "[init] the parameters of a run of {} are summed, which is possible only for a whole model: name it with [init] from",
            source.task.kind()
        )));
    }
    let source = assemble::objective(source, theirs, &model.devices()[0])?;
    let norms = |model: &Objective| {
        let all = parameters::list_with_state(model).into_iter();
        let norms = all.filter(|p| p.role.kind == Some(ParameterKind::Norm));
        let norms = norms.filter_map(|p| Some((p.path.clone(), kind_of(&p)?)));
        norms.collect::<BTreeMap<String, String>>()
    };
    let (theirs, own) = (norms(&source).into_iter(), norms(model));
    let theirs = theirs.filter_map(|(path, kind)| match way {
        Some(way) => Some((way.map_path(&path)?, kind)),
        None => Some((path, kind)),
    });
    let theirs: BTreeMap<String, String> = theirs.collect();
    let taken = rules.taken_paths(own.keys().map(String::as_str))?;
    let other = taken
        .iter()
        .filter_map(|path| Some((path, theirs.get(*path)?, &own[*path])));
    let other: Vec<_> = other.filter(|(_, theirs, own)| theirs != own).collect();
    let Some((path, theirs, own)) = other.first() else {
        return Ok((lora, sums));
    };
    Err(Error::usage(format!(
        "[init] `{path}` and {} more belong to norms of kind \"{theirs}\" in the other run and of kind \"{own}\" here; set the \
         run's kind in [model.norm], or initialise the norms anew: add a pattern, for example \"norm\", to new",
        other.len() - 1
    )))
}

/// Fills a model with the weights of other runs; also reports what happened to each parameter, if there is another run.
///
/// # Errors
/// If a checkpoint is missing or damaged; if the vocabulary differs and the embedding tables are not listed as new; if any
/// parameter does not fit and nothing in `[init]` allows for it.
pub fn weights(
    experiment: &Experiment,
    places: &SearchPath,
    shape: &Shape,
    tokenizers: &Tokenizers,
    mut model: Objective,
) -> Result<(Objective, Option<Transferred>)> {
    let mut all: Option<Transferred> = None;
    for beginning in experiment.init.initial_runs() {
        let folder = folder(&beginning, experiment.seed, places)?;
        let of_run = (shape, tokenizers);
        let (taken, done) = fill_from_run(experiment, &beginning, &folder, of_run, model)?;
        model = taken;
        all.get_or_insert_default().join(done);
    }
    if all.is_some() {
        // A frozen parameter stays frozen with its new values.
        model = experiment.init.freeze_matching(model)?;
    }
    Ok((model, all))
}

/// Fills the model with the weights of one run.
fn fill_from_run(
    experiment: &Experiment,
    beginning: &InitialRun,
    folder: &Path,
    (shape, tokenizers): (&Shape, &Tokenizers),
    model: Objective,
) -> Result<(Objective, Transferred)> {
    let source = file::load(&folder.join(run_dir::RESOLVED), &[])?.experiment;
    let (own, other, way) = networks(experiment, &source, beginning)?;
    let (rules, way) = (&beginning.rules, way.as_ref());
    let checkpoint = initial::checkpoint(beginning, folder)?;
    let taken = initial::checkpoint_record(beginning, folder, experiment.seed, &checkpoint)?;
    let file = checkpoint.evaluated_weights();
    let theirs = run_contents::shape(folder)?;
    let shapes = [&theirs, shape];
    let longer = vocabularies::extended_tables((rules, way), folder, tokenizers, shapes, &model)?;
    let readers = [(other, theirs.image), (own, shape.image)];
    let readers = readers.map(|(model, image)| ImageReader { model, image });
    let resample = |table: (&str, &TensorData), wanted: &[usize], how: LengthChange| {
        resample_table(readers, table, wanted, (how, rules.resample_antialias))
    };
    let (lora, sums) = require_same_norms(experiment, (rules, way), &source, &theirs, &model)?;
    let lengths = Lengths {
        resample: &resample,
        positions_differ: tables::patches_differ(readers),
        token_tables: &longer,
    };
    let classes = classes::other_classes((rules, way), shapes, &model)?;
    let (model, mut done) = rules.transfer(model, &file, lengths, lora.as_ref(), way)?;
    let model = apply_sums(model, &file, sums, (&done.loaded, &longer))?;
    done.differing = layer_computation_differences(
        &hf_shape(own, experiment, shape),
        &hf_shape(other, &source, &theirs),
        &|own, theirs| rules.chosen_layers(own, theirs),
    );
    done.differing
        .extend(pixel_differences(own, &theirs, shape));
    done.differing.extend(classes);
    if let Some(lora) = &experiment.lora {
        // The path of the parameter is the first word of a note.
        let grown = || done.grown.iter().filter_map(|note| note.split(' ').next());
        let in_full = lora.in_full(grown())?;
        let drawn = grown().filter(|path| !in_full.contains(path));
        done.drawn = drawn.map(str::to_owned).collect();
    }
    if beginning.part.is_none() {
        let lost = export::export_obstacle(experiment, shape, folder)?;
        done.without_family.extend(lost);
    }
    done.checkpoints.push(InitialCheckpoint {
        merged: done.merged,
        ..taken
    });
    if let Some([part, _]) = beginning.part {
        let named = done
            .differing
            .iter()
            .map(|key| format!("{}: {key}", part.key()));
        done.differing = named.collect();
    }
    Ok((model, done))
}

/// Differences in how the other run's network saw images: pixel normalisation, and how images were brought to one size.
fn pixel_differences(own: &ModelConfig, theirs: &Shape, shape: &Shape) -> Vec<String> {
    let patches = |[_, height, width]: [usize; 3]| own.patches(height, width);
    if theirs.image.is_none() || shape.image.and_then(patches).is_none() {
        return Vec::new();
    }
    let [pixels, fits] = theirs.images_differ(shape);
    let of = |shape: &Shape| format!("mean {:?}, std {:?}", shape.mean, shape.std);
    let pixels = pixels.then(|| format!("pixels of {} ({} here)", of(theirs), of(shape)));
    let [there, here] = [theirs, shape].map(|shape| Fit::describe(shape.fit));
    let fits = fits.then(|| format!("images {there} (here {here})"));
    pixels.into_iter().chain(fits).collect()
}

/// The network to fill, the network it is taken from, and, if it is a part of a model, the mapping between their paths.
fn networks<'a>(
    experiment: &'a Experiment,
    source: &'a Experiment,
    beginning: &InitialRun,
) -> Result<(&'a ModelConfig, &'a ModelConfig, Option<PathMapping>)> {
    let (model, whole) = (&experiment.model, &source.model);
    let Some([own, other]) = beginning.part else {
        return Ok((model, whole, None));
    };
    let named = |model: &'a ModelConfig, name: PartName| {
        let mut parts = model.parts().into_iter().flatten();
        parts.find(|(key, _)| *key == name.key())
    };
    let Some((key, network)) = named(model, own) else {
        unreachable!("parts of a model that has none are refused when it is checked")
    };
    let (theirs, found) = match named(whole, other) {
        Some((key, found)) => (format!("model.{key}."), found),
        None => ("model.".to_owned(), whole),
    };
    if network.kind() != found.kind() {
        return Err(Error::usage(format!(
            "{} from = {:?}: its network is of kind = \"{}\", but [model.{key}] is of kind = \"{}\"",
            table(beginning),
            beginning.from,
            found.kind(),
            network.kind()
        )));
    }
    let ours = format!("model.{key}.");
    Ok((network, found, Some(PathMapping { theirs, ours })))
}

/// A run's network with its data, in the form for comparison with another one.
fn hf_shape(model: &ModelConfig, experiment: &Experiment, shape: &Shape) -> HfShape {
    HfShape {
        model: model.clone(),
        task: experiment.task.clone(),
        shape: shape.clone(),
    }
}

/// Rewords the suggested `--checkpoint` flag of an error as a key of a table.
pub(super) fn as_key_of(table: &str, key: &str, error: Error) -> Error {
    let text = error.to_string();
    match text.split_once("--checkpoint ") {
        Some((before, step)) => Error::usage(format!("{table} {before}{table} {key} = \"{step}\"")),
        None => error,
    }
}
