//! Weights as safetensors, keyed by dotted parameter path: a file that any tool of the field opens.
//!
//! Reading compares names, shapes and number formats exactly and lists everything that differs; [`format`](super::format)
//! says how the files are laid out.

use super::format::{self, Weights};
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::kernel;
use crate::nn::linear;
use crate::nn::path::Path as Dotted;
use crate::task::only_trained;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Int, Tensor, TensorData, bf16, f16};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Differences that a message lists before it only counts them.
const LISTED: usize = 8;

/// Writes the float and integer parameters of a module.
///
/// # Errors
/// When the disk refuses, and for number formats that the file format lacks (quantised weights).
pub fn save<M: Module>(model: &M, path: &Path) -> Result<()> {
    format::write(collect(model), path)
}

/// Puts a file's weights into a module of the same parameters.
///
/// # Errors
/// When the file cannot be read, is not safetensors, or does not fit: every parameter that is missing,
/// unused, or of another shape or number format, or holds what is not a number, is named.
pub fn load<M: Module>(model: M, path: &Path) -> Result<M> {
    load_without(model, path, Formats::Equal, |_| false)
}

/// [`load`] for a model that is used: what training alone needs may be in the file and not in the module.
///
/// # Errors
/// As [`load`].
pub fn load_to_use<M: Module>(model: M, path: &Path) -> Result<M> {
    load_without(model, path, Formats::Equal, only_trained)
}

/// [`load_to_use`] for a model that computes in another number format than the run that made the file: its numbers become
/// those of the model.
///
/// # Errors
/// As [`load`], but for float parameters of another number format; numbers beyond the range of the model's.
pub fn load_converted<M: Module>(model: M, path: &Path) -> Result<M> {
    load_without(model, path, Formats::Converted, only_trained)
}

/// Which number formats of float parameters are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Formats {
    /// Those of the module's own parameters.
    Equal,
    /// All, since their numbers are converted.
    Converted,
}

/// Puts weights into a module that does without some of a file's.
fn load_without<M: Module>(
    model: M,
    path: &Path,
    formats: Formats,
    spared: impl Fn(&str) -> bool,
) -> Result<M> {
    let file = Weights::open(path, || linear::weights(&model))?;
    let mut checker = Checker {
        path: Dotted::default(),
        file: &file,
        formats,
        unused: file.paths().collect(),
        faults: Vec::new(),
    };
    model.visit(&mut checker);
    let mut faults = checker.faults;
    faults.extend(file.not_finite()?);
    let unused = checker.unused.into_iter().filter(|name| !spared(name));
    faults.extend(unused.map(|name| format!("`{name}` is in the file but not in the model")));
    if !faults.is_empty() {
        return Err(misfit(path, &faults));
    }
    let mut failure = None;
    let model = filled(model, |path: &str| {
        file.tensor(path).unwrap_or_else(|error| {
            failure = Some(error);
            None
        })
    });
    failure.map_or(model, Err)
}

/// Every tensor of a file by its path, as `model` has it; the file may be another model's.
///
/// # Errors
/// When the file cannot be read or is not safetensors.
pub fn read<M: Module>(path: &Path, model: &M) -> Result<BTreeMap<String, TensorData>> {
    let file = Weights::open(path, || linear::weights(model))?;
    let faults = file.not_finite()?;
    if !faults.is_empty() {
        return Err(misfit(path, &faults));
    }
    let read = |path: &str| Some((path.to_string(), file.tensor(path).transpose()?));
    let tensors = file.paths().filter_map(read);
    tensors.map(|(path, tensor)| Ok((path, tensor?))).collect()
}

/// Puts weights into a module by their paths, each converted to the number format of its parameter; parameters without one
/// stay as they are. Shapes must fit.
///
/// # Errors
/// Weights beyond the range of that format: all of them, with the largest number of each.
pub fn fill<M: Module>(model: M, mut weights: BTreeMap<String, TensorData>) -> Result<M> {
    filled(model, |path: &str| weights.remove(path))
}

/// A module with the values that are given for its paths.
fn filled<M: Module>(model: M, values: impl FnMut(&str) -> Option<TensorData>) -> Result<M> {
    let mut filler = Filler {
        path: Dotted::default(),
        values,
        beyond: Vec::new(),
    };
    let model = model.map(&mut filler);
    let Some((_, _, format)) = filler.beyond.first() else {
        return Ok(model);
    };
    let (name, most, remedy) = match format {
        DType::F16 => ("f16", f16::MAX.to_f64(), "\"bf16\" or \"f32\""),
        DType::BF16 => ("bf16", bf16::MAX.to_f64(), "\"f32\""),
        _ => ("f32", f64::from(f32::MAX), "a format that has them"),
    };
    let largest = filler.beyond.iter();
    let largest = largest.map(|(path, largest, _)| format!("`{path}` has {}", shown(*largest)));
    let message = format!(
        "[train] dtype = \"{name}\" ends at {}, and weights lie beyond it: {}; set it to {remedy}",
        shown(most),
        listed(&largest.collect::<Vec<_>>())
    );
    Err(Error::usage(message))
}

/// A number in digits where these are few.
fn shown(number: f64) -> String {
    match number < 1e9 {
        true => format!("{number}"),
        false => format!("{number:.4e}"),
    }
}

/// Numbers in another format; the largest of them where that format does not reach it.
pub(in crate::train) fn converted(
    data: TensorData,
    dtype: DType,
) -> std::result::Result<TensorData, f64> {
    if data.dtype() == dtype {
        return Ok(data);
    }
    let largest = data.iter::<f64>().map(f64::abs).fold(0.0, f64::max);
    let data = data.convert_dtype(dtype);
    let finite = data.iter::<f64>().all(f64::is_finite);
    if finite { Ok(data) } else { Err(largest) }
}

/// SHA-256 over the parameters in the order of their paths: path, number format, shape and bytes of each.
pub fn weights_hash<M: Module>(model: &M) -> String {
    let mut tensors = collect(model);
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut hash = Sha256::new();
    for (path, data) in &tensors {
        let head = format!("{path}\n{:?}{:?}\n", data.dtype(), data.shape().to_vec());
        hash.update(head.as_bytes());
        hash.update(data.as_bytes());
    }
    hex(&hash.finalize())
}

/// The parameters by their paths.
fn collect<M: Module>(model: &M) -> Vec<(String, TensorData)> {
    let mut collector = Collector::default();
    model.visit(&mut collector);
    collector.found
}

#[derive(Default)]
struct Collector {
    path: Dotted,
    found: Vec<(String, TensorData)>,
}

impl ModuleVisitor for Collector {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let data = kernel::read(param.transform_for_save().val());
        self.found.push((self.path.joined(), data));
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let data = kernel::read(param.transform_for_save().val());
        self.found.push((self.path.joined(), data));
    }
}

/// Holds what a module expects against what a file has.
struct Checker<'a> {
    path: Dotted,
    file: &'a Weights<'a>,
    formats: Formats,
    unused: BTreeSet<&'a str>,
    faults: Vec<String>,
}

impl Checker<'_> {
    fn expect(&mut self, shape: &[usize], dtype: DType) {
        let path = self.path.joined();
        self.unused.remove(path.as_str());
        let Some((found, format)) = self.file.info(&path) else {
            self.faults.push(format!("`{path}` is missing"));
            return;
        };
        if found != shape {
            self.faults.push(format!(
                "`{path}` has the shape {found:?}, the model wants {shape:?}"
            ));
        }
        let converted = self.formats == Formats::Converted
            && format.is_some_and(|format| format.is_float() && dtype.is_float());
        if format != Some(dtype) && !converted {
            let format = format.map_or("another".into(), |format| format!("{format:?}"));
            self.faults.push(format!(
                "`{path}` has the number format {format}, the model wants {dtype:?}"
            ));
        }
    }
}

impl ModuleVisitor for Checker<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.expect(&param.lazy_shape().to_vec(), format_of(param));
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.expect(&param.lazy_shape().to_vec(), param.val().dtype());
    }
}

/// The number format of a parameter as files have it. Weights that were never drawn are not drawn only to be replaced.
fn format_of<const D: usize>(param: &Param<Tensor<D>>) -> DType {
    let dtype = if param.is_initialized() {
        param.val().dtype()
    } else {
        param.lazy_device().settings().float_dtype.into()
    };
    match dtype {
        DType::Flex32 => DType::F32,
        other => other,
    }
}

/// Replaces parameters by those that are given for their paths, which were found to fit, in the parameters' number formats.
struct Filler<F> {
    path: Dotted,
    values: F,
    /// Parameters whose format does not reach their values: the largest of these, and the format.
    beyond: Vec<(String, f64, DType)>,
}

impl<F: FnMut(&str) -> Option<TensorData>> Filler<F> {
    fn take(&mut self) -> Option<TensorData> {
        (self.values)(&self.path.joined())
    }
}

impl<F: FnMut(&str) -> Option<TensorData>> ModuleMapper for Filler<F> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(data) = self.take() else {
            return param;
        };
        let (id, device, dtype) = (param.id, param.lazy_device(), format_of(&param));
        match converted(data, dtype) {
            Ok(data) => param.transform_for_load(Tensor::from_data(data, (&device, dtype)), id),
            Err(largest) => {
                self.beyond.push((self.path.joined(), largest, dtype));
                param
            }
        }
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let Some(data) = self.take() else {
            return param;
        };
        let (id, device, dtype) = (param.id, param.lazy_device(), data.dtype());
        param.transform_for_load(Tensor::from_data(data, (&device, dtype)), id)
    }
}

fn misfit(path: &Path, faults: &[String]) -> Error {
    let path = path.display();
    Error::run(format!("{path} does not fit the model: {}", listed(faults)))
}

/// The first of several things, and how many more there are.
fn listed(all: &[String]) -> String {
    let mut text = all[..all.len().min(LISTED)].join("; ");
    if all.len() > LISTED {
        text.push_str(&format!("; and {} more", all.len() - LISTED));
    }
    text
}
