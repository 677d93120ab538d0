//! Weights as safetensors, keyed by dotted parameter path: a file that common tools can open.
//!
//! Reading compares names, shapes and number formats exactly and lists all differences; [`format`](super::format)
//! describes the layout of the files.

use super::format::{self, WeightFile};
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::kernel;
use crate::nn::linear;
use crate::nn::path::Path as Dotted;
use crate::task::is_training_only;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Int, Tensor, TensorData, bf16, f16};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Number of differences that a message lists before it only counts the rest.
const LISTED: usize = 8;

/// Writes the float and integer parameters of a module.
///
/// # Errors
/// If the disk cannot be written, or the file format lacks a number format (quantised weights).
pub fn save<M: Module>(model: &M, path: &Path) -> Result<()> {
    format::write(collect(model), path)
}

/// Loads a file's weights into a module with the same parameters.
///
/// # Errors
/// If the file cannot be read, is not safetensors, or does not fit: the message names every parameter that is missing,
/// unused, of another shape or number format, or not finite.
pub fn load<M: Module>(model: M, path: &Path) -> Result<M> {
    load_partial(model, path, Formats::Equal, |_| false)
}

/// [`load`] for a model in use: parameters that only training needs may be in the file but not in the module.
///
/// # Errors
/// As [`load`].
pub fn load_for_inference<M: Module>(model: M, path: &Path) -> Result<M> {
    load_partial(model, path, Formats::Equal, is_training_only)
}

/// [`load_for_inference`] for a model with another number format than the run that wrote the file: the values are converted to
/// the model's format.
///
/// # Errors
/// As [`load`], except for float parameters of another number format; values beyond the range of the model's format.
pub fn load_converted<M: Module>(model: M, path: &Path) -> Result<M> {
    load_partial(model, path, Formats::Converted, is_training_only)
}

/// Number formats of float parameters that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Formats {
    /// The formats of the module's parameters.
    Equal,
    /// All formats; values are converted.
    Converted,
}

/// Loads weights into a module that may lack the `spared` ones of the file.
fn load_partial<M: Module>(
    model: M,
    path: &Path,
    formats: Formats,
    spared: impl Fn(&str) -> bool,
) -> Result<M> {
    let file = WeightFile::open(path, || linear::weight_paths(&model))?;
    let mut checker = Checker {
        path: Dotted::default(),
        file: &file,
        formats,
        unused: file.paths().collect(),
        faults: Vec::new(),
    };
    model.visit(&mut checker);
    let mut faults = checker.faults;
    faults.extend(file.non_finite_faults()?);
    let unused = checker.unused.into_iter().filter(|name| !spared(name));
    faults.extend(unused.map(|name| format!("`{name}` is in the file but not in the model")));
    if !faults.is_empty() {
        return Err(mismatch_error(path, &faults));
    }
    let mut failure = None;
    let model = assign(model, |path: &str| {
        file.tensor(path).unwrap_or_else(|error| {
            failure = Some(error);
            None
        })
    });
    failure.map_or(model, Err)
}

/// Reads every tensor of a file by path, in the layout that `model` uses; the file may be another model's.
///
/// # Errors
/// If the file cannot be read or is not safetensors.
pub fn read<M: Module>(path: &Path, model: &M) -> Result<BTreeMap<String, TensorData>> {
    let file = WeightFile::open(path, || linear::weight_paths(model))?;
    let faults = file.non_finite_faults()?;
    if !faults.is_empty() {
        return Err(mismatch_error(path, &faults));
    }
    let read = |path: &str| Some((path.to_string(), file.tensor(path).transpose()?));
    let tensors = file.paths().filter_map(read);
    tensors.map(|(path, tensor)| Ok((path, tensor?))).collect()
}

/// Sets weights of a module by path, each converted to the number format of its parameter; parameters without a value
/// are unchanged. Shapes must fit.
///
/// # Errors
/// If weights are beyond the range of that format: the message lists all of them, with the largest value of each.
pub fn fill<M: Module>(model: M, mut weights: BTreeMap<String, TensorData>) -> Result<M> {
    assign(model, |path: &str| weights.remove(path))
}

/// Sets the parameters of a module to the values given for their paths.
fn assign<M: Module>(model: M, values: impl FnMut(&str) -> Option<TensorData>) -> Result<M> {
    let mut filler = Filler {
        path: Dotted::default(),
        values,
        overflowing: Vec::new(),
    };
    let model = model.map(&mut filler);
    let Some((_, _, format)) = filler.overflowing.first() else {
        return Ok(model);
    };
    let (name, most, remedy) = match format {
        DType::F16 => ("f16", f16::MAX.to_f64(), "\"bf16\" or \"f32\""),
        DType::BF16 => ("bf16", bf16::MAX.to_f64(), "\"f32\""),
        _ => ("f32", f64::from(f32::MAX), "a format with a larger range"),
    };
    let largest = filler.overflowing.iter();
    let largest =
        largest.map(|(path, largest, _)| format!("`{path}` has {}", format_number(*largest)));
    let message = format!(
        "[train] dtype = \"{name}\" has the largest value {}, but weights exceed it: {}; set it to {remedy}",
        format_number(most),
        join_faults(&largest.collect::<Vec<_>>())
    );
    Err(Error::usage(message))
}

/// Formats a number in plain digits if it is below 10⁹, else in scientific notation.
fn format_number(number: f64) -> String {
    match number < 1e9 {
        true => format!("{number}"),
        false => format!("{number:.4e}"),
    }
}

/// Converts values to another format; `Err` with the largest absolute value if it overflows that format.
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

/// Computes the SHA-256 over the parameters sorted by path: path, number format, shape and bytes of each.
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

/// Lists the parameters with their paths.
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

/// Compares the parameters that a module expects with a file's.
struct Checker<'a> {
    path: Dotted,
    file: &'a WeightFile<'a>,
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
                "`{path}` has the shape {found:?}, but the model needs {shape:?}"
            ));
        }
        let converted = self.formats == Formats::Converted
            && format.is_some_and(|format| format.is_float() && dtype.is_float());
        if format != Some(dtype) && !converted {
            let format = format.map_or("another".into(), |format| format!("{format:?}"));
            self.faults.push(format!(
                "`{path}` has the number format {format}, but the model needs {dtype:?}"
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

/// Returns the number format of a parameter as files have it. Uninitialised weights are not drawn just to be replaced.
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

/// Replaces parameters by the values given for their paths, which were found to fit, converted to the parameters'
/// number formats.
struct Filler<F> {
    path: Dotted,
    values: F,
    /// Parameters whose values overflow their format: path, largest absolute value, and format.
    overflowing: Vec<(String, f64, DType)>,
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
                self.overflowing.push((self.path.joined(), largest, dtype));
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

fn mismatch_error(path: &Path, faults: &[String]) -> Error {
    let path = path.display();
    Error::run(format!(
        "{path} does not fit the model: {}",
        join_faults(faults)
    ))
}

/// Lists the first of several faults, and counts the rest.
fn join_faults(all: &[String]) -> String {
    let mut text = all[..all.len().min(LISTED)].join("; ");
    if all.len() > LISTED {
        text.push_str(&format!("; and {} more", all.len() - LISTED));
    }
    text
}
