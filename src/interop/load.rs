//! Reads the weights of HF's files into the parameters of a module, by dotted paths, one at a time.

use super::parameters::shapes;
use super::rename::{Constant, Rule, Table};
use super::weights::{Array, Weights};
use super::{HfModel, LISTED};
use crate::error::{Error, Result};
use crate::nn::path::Path;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};
use std::collections::{BTreeMap, BTreeSet};

/// Largest difference of a value from its formula that rounding explains, even for tables in half precision.
const CONSTANT_TOLERANCE: f32 = 2e-3;

impl HfModel {
    /// Finds where each parameter of `module` lies in the folder, by the rules of `table`. No tensor is read yet, and
    /// no parameter is allocated.
    ///
    /// # Errors
    /// If tensors are missing, have no counterpart in the model or have another shape; the error lists the first of
    /// them.
    pub fn source<M: Module>(&self, module: &M, table: Table) -> Result<Source<'_>> {
        let shapes = shapes(module);
        let mut plan = Plan::new(self, &shapes);
        for rule in &table.rules {
            plan.add(rule, table.prefix);
        }
        plan.finish(&table)
    }

    /// Checks that the folder has at least as many tensors as config.json has blocks: building more blocks could take
    /// any amount of memory.
    ///
    /// # Errors
    /// If there are fewer tensors than blocks.
    pub fn require_tensors(&self) -> Result<()> {
        let networks = self.shape.model.networks().into_iter();
        let networks = networks.filter_map(|network| network.transformer());
        let layers: usize = networks
            .map(|network| network.depths().map(|depth| depth.blocks()).sum::<usize>())
            .sum();
        let tensors = self.weights.names().count();
        if layers <= tensors {
            return Ok(());
        }
        let message =
            format!("contains {tensors} tensors, too few for the {layers} layers of config.json");
        Err(Error::Invalid(vec![super::fault(&self.dir, message)]))
    }

    /// Returns `module` with the folder's weights as 32-bit floats.
    ///
    /// # Errors
    /// The errors of [`Self::source`], and if a file cannot be read.
    pub fn load<M: Module>(&self, module: M, table: Table) -> Result<M> {
        let mut loader = Loader {
            path: Path::default(),
            source: self.source(&module, table)?,
            failure: None,
        };
        let module = module.map(&mut loader);
        match loader.failure {
            Some(error) => Err(error),
            None => Ok(module),
        }
    }
}

/// The source of one of our parameters.
#[derive(Debug)]
struct HfTensors {
    rule: Rule,
    /// The names of the rule's tensors in the files.
    names: Vec<String>,
    part: usize,
    shape: Vec<usize>,
}

/// The source of a module's parameters in an HF folder.
#[derive(Debug)]
pub struct Source<'a> {
    weights: &'a Weights,
    sources: BTreeMap<String, HfTensors>,
    /// The tensors read last, with their names: a fused tensor serves three parameters in a row.
    last: Option<(Vec<String>, Vec<Array>)>,
    /// Tensors in the files that are not used by any parameter: buffers, copies, heads of other tasks.
    pub ignored: Vec<String>,
    /// Our parameters that the files may and do lack: a classifier, if the files hold a network without one.
    pub randomly_initialised: Vec<String>,
}

impl Source<'_> {
    /// Returns the shape of every parameter by its path.
    pub fn shapes(&self) -> BTreeMap<String, Vec<usize>> {
        let entries = self.sources.iter();
        entries
            .map(|(path, source)| (path.clone(), source.shape.clone()))
            .collect()
    }

    /// Reads a parameter by its path; `None` if the module has no such parameter.
    ///
    /// # Errors
    /// If a file cannot be read, or its numbers are not floats.
    pub fn read(&mut self, path: &str) -> Result<Option<Array>> {
        let Some(source) = self.sources.get(path) else {
            return Ok(None);
        };
        let theirs = match self.last.take().filter(|(names, _)| *names == source.names) {
            Some((_, arrays)) => arrays,
            None => {
                let names = source.names.iter();
                names
                    .map(|name| self.weights.read(name))
                    .collect::<Result<_>>()?
            }
        };
        let ours = source.rule.import(&theirs, source.part, &source.shape);
        self.last = Some((source.names.clone(), theirs));
        Ok(Some(ours))
    }
}

/// A [`Source`] under construction.
struct Plan<'a, 's> {
    model: &'a HfModel,
    shapes: &'s BTreeMap<String, Vec<usize>>,
    sources: BTreeMap<String, HfTensors>,
    used: BTreeSet<String>,
    faults: Vec<String>,
    /// Messages about missing tensors, by our parameter; reported unless another rule provides the parameter.
    missing: Vec<(String, Vec<String>)>,
}

impl<'a, 's> Plan<'a, 's> {
    fn new(model: &'a HfModel, shapes: &'s BTreeMap<String, Vec<usize>>) -> Self {
        Self {
            model,
            shapes,
            sources: BTreeMap::new(),
            used: BTreeSet::new(),
            faults: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Finds the tensors of a rule; rules whose parameters the module lacks are skipped.
    fn add(&mut self, rule: &Rule, prefix: &str) {
        let paths = rule.ours.iter();
        let ours: Option<Vec<&[usize]>> = paths
            .map(|path| self.shapes.get(path).map(Vec::as_slice))
            .collect();
        let Some(ours) = ours else { return };
        let expected = rule.their_shape(&ours);
        if !rule.fits(ours[0]) {
            let (theirs, ours) = (&rule.theirs[0], &rule.ours[0]);
            self.faults.push(format!(
                "tensor `{theirs}` {expected:?} and our `{ours}` have different sizes"
            ));
            return;
        }
        let (mut names, mut missing) = (Vec::with_capacity(rule.theirs.len()), Vec::new());
        for theirs in &rule.theirs {
            match find(&self.model.weights, prefix, theirs) {
                None => missing.push(format!("tensor `{theirs}` {expected:?} is missing")),
                Some((name, found)) if found != expected => self.faults.push(format!(
                    "tensor `{name}` has the shape {found:?}; config.json requires {expected:?}"
                )),
                Some((name, _)) => names.push(name.to_string()),
            }
        }
        if !missing.is_empty() {
            if !rule.read_only {
                self.missing.push((rule.ours[0].clone(), missing));
            }
            return;
        }
        self.used.extend(names.iter().cloned());
        if names.len() < rule.theirs.len() {
            return;
        }
        for (part, path) in rule.ours.iter().enumerate() {
            let source = HfTensors {
                rule: rule.clone(),
                names: names.clone(),
                part,
                shape: self.shapes[path].clone(),
            };
            // A tensor's own name takes precedence over alternative names.
            match rule.read_only {
                true => self.sources.entry(path.clone()).or_insert(source),
                false => self
                    .sources
                    .entry(path.clone())
                    .insert_entry(source)
                    .into_mut(),
            };
        }
    }

    /// Compares a tensor that follows from the shape with its formula, if the folder has the tensor.
    fn check(&mut self, constant: &Constant, prefix: &str) -> Result<()> {
        let Some((name, _)) = find(&self.model.weights, prefix, &constant.name) else {
            return Ok(());
        };
        let (found, shape) = (self.model.weights.read(name)?, &constant.shape);
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= CONSTANT_TOLERANCE;
        // Compare the shape first: a table of another shape may be of any size.
        if found.shape != *shape || !found.values.iter().zip(&constant.array().values).all(near) {
            self.faults.push(format!(
                "tensor `{name}` is not the table {shape:?} of sines and cosines that config.json requires"
            ));
        }
        self.used.insert(name.to_string());
        Ok(())
    }

    /// Returns the source if every parameter has one; else one error that lists missing, unplaced and wrongly shaped
    /// tensors.
    fn finish(mut self, table: &Table) -> Result<Source<'a>> {
        for (path, missing) in std::mem::take(&mut self.missing) {
            if !self.sources.contains_key(&path) && !table.may_lack(&path) {
                self.faults.extend(missing);
            }
        }
        let held = table.constants.iter();
        for constant in held.filter(|constant| !table.ignores(&constant.name)) {
            self.check(constant, table.prefix)?;
        }
        let unused = self.model.weights.names();
        let unused = unused.filter(|name| !self.used.contains(*name));
        let (passed_over, unplaced): (Vec<&str>, Vec<&str>) =
            unused.partition(|name| table.ignores(name));
        let paths = self.shapes.keys();
        let without = paths.filter(|path| !self.sources.contains_key(*path));
        let (drawn, without): (Vec<&String>, Vec<&String>) =
            without.partition(|path| table.may_lack(path));
        if self.faults.is_empty() {
            let family = self.model.family.model_type;
            self.faults.extend(without.into_iter().map(|path| {
                format!("our parameter `{path}` has no counterpart in the family {family}")
            }));
            let unplaced = unplaced.iter();
            self.faults
                .extend(unplaced.map(|name| format!("tensor `{name}` has no place in the model")));
        }
        if self.faults.is_empty() {
            return Ok(Source {
                weights: &self.model.weights,
                sources: self.sources,
                last: None,
                ignored: passed_over.into_iter().map(String::from).collect(),
                randomly_initialised: drawn.into_iter().cloned().collect(),
            });
        }
        let more = self.faults.len().saturating_sub(LISTED);
        self.faults.truncate(LISTED);
        if more > 0 {
            self.faults
                .push(format!("and {more} more faults of its tensors"));
        }
        let faults = self.faults.iter();
        let faults = faults.map(|message| super::fault(&self.model.dir, message));
        Err(Error::Invalid(faults.collect()))
    }
}

/// Finds a tensor by its full name or by its name without `prefix`; returns the name found and the shape.
fn find<'a>(weights: &'a Weights, prefix: &str, name: &str) -> Option<(&'a str, &'a [usize])> {
    let name = weights.find(prefix, name)?;
    Some((name, weights.shape(name)?))
}

/// Replaces every parameter of a module by its value in an HF folder.
struct Loader<'a> {
    path: Path,
    source: Source<'a>,
    failure: Option<Error>,
}

impl ModuleMapper for Loader<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failure.is_some() {
            return param;
        }
        match self.source.read(&self.path.joined()) {
            Ok(Some(array)) => {
                let data = TensorData::new(array.values, array.shape);
                let tensor = Tensor::from_data(data, &param.lazy_device());
                let id = param.id;
                param.transform_for_load(tensor, id)
            }
            Ok(None) => param,
            Err(error) => {
                self.failure = Some(error);
                param
            }
        }
    }
}
