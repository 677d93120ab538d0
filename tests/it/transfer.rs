//! Moves weights and gradients between an oracle and Formwork's modules, by tables of names.

use crate::oracle::{Oracle, difference};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use formwork::interop::HfModel;
use formwork::interop::rename::Table;
use formwork::interop::weights::Array;
use formwork::model::BuildContext;
use formwork::nn::path::Path;
use formwork::task::{Objective, is_state};
use formwork::train::parameters::{materialize, name_parameters};
use std::collections::BTreeMap;

/// Arrays by Formwork's dotted paths.
pub type Arrays = BTreeMap<String, Array>;

fn array<const D: usize>(tensor: Tensor<D>) -> Array {
    Array {
        shape: tensor.dims().to_vec(),
        values: tensor.into_data().iter::<f32>().collect(),
    }
}

/// A traversal that collects the values, or the gradients, of all parameters.
struct Collect<'a> {
    path: Path,
    gradients: Option<&'a GradientsParams>,
    found: Arrays,
}

impl ModuleVisitor for Collect<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }
    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.joined();
        let tensor = match self.gradients {
            None => param.val(),
            // State that no optimizer updates has no gradient.
            Some(_) if path.rsplit('.').next().is_some_and(is_state) => return,
            Some(gradients) => {
                let gradient = gradients.get::<D>(param.id);
                gradient.unwrap_or_else(|| panic!("{path} has no gradient"))
            }
        };
        self.found.insert(path, array(tensor));
    }
}

fn collect<M: Module>(module: &M, gradients: Option<&GradientsParams>) -> Arrays {
    let mut visitor = Collect {
        path: Path::default(),
        gradients,
        found: BTreeMap::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}

/// Returns the parameters of a module.
pub fn values_of<M: Module>(module: &M) -> Arrays {
    collect(module, None)
}

/// Returns the gradients of a module's parameters; each parameter must have one.
pub fn gradients_of<M: Module>(module: &M, gradients: &GradientsParams) -> Arrays {
    collect(module, Some(gradients))
}

struct Put<'a> {
    path: Path,
    arrays: &'a Arrays,
}

impl ModuleMapper for Put<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }
    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let path = self.path.joined();
        let array = self.arrays.get(&path);
        let array = array.unwrap_or_else(|| panic!("nothing is given for {path}"));
        let (id, old, mapper) = param.consume();
        assert_eq!(old.dims().as_slice(), array.shape, "{path}");
        let data = TensorData::new(array.values.clone(), array.shape.clone());
        let value = Tensor::<D>::from_data(data, &old.device());
        Param::from_mapped_value(id, value.require_grad(), mapper)
    }
}

/// Returns the module with these parameters, all of which must be used.
pub fn put<M: Module>(module: M, arrays: &Arrays) -> M {
    let module = module.map(&mut Put {
        path: Path::default(),
        arrays,
    });
    let known = values_of(&module);
    assert!(known.keys().eq(arrays.keys()), "more is given than asked");
    module
}

/// Builds the task of a Hugging Face folder with its weights, for training.
pub fn opened(hf: &HfModel) -> Objective {
    let inputs = BuildContext {
        shape: &hf.shape.shape,
        seed: 0,
        device: &Device::flex().autodiff(),
    };
    let task = hf.shape.task.init(&hf.shape.model, &inputs, false).unwrap();
    let task = materialize(name_parameters(task));
    hf.load(task, hf.table()).unwrap()
}

/// Returns the module with an oracle's weights, each of which must be used.
pub fn import<M: Module>(module: M, table: &Table, theirs: &Arrays) -> M {
    let mut ours = BTreeMap::new();
    for name in theirs.keys() {
        let rule = table
            .rules
            .iter()
            .find(|rule| rule.theirs == [name.as_str()]);
        let rule = rule.unwrap_or_else(|| panic!("the table does not know {name}"));
        for (part, path) in rule.ours.iter().enumerate() {
            ours.insert(
                path.clone(),
                rule.import(std::slice::from_ref(&theirs[name]), part, &[]),
            );
        }
    }
    put(module, &ours)
}

/// Compares values with an oracle's, and records the largest difference.
pub struct Against<'a> {
    name: &'a str,
    oracle: &'a Oracle,
    tolerance: f64,
    worst: (f64, String),
}

impl<'a> Against<'a> {
    pub fn new(name: &'a str, oracle: &'a Oracle, tolerance: f64) -> Self {
        Self {
            name,
            oracle,
            tolerance,
            worst: (0.0, "nothing".into()),
        }
    }

    /// Compares one tensor under the oracle's name for it.
    pub fn check(&mut self, tensor: &str, ours: &[f32]) {
        let off = difference(ours, &self.oracle.array(tensor).values);
        let name = self.name;
        assert!(off < self.tolerance, "{name}: {tensor} is off by {off:e}");
        if off > self.worst.0 {
            self.worst = (off, tensor.to_string());
        }
    }

    /// Compares every gradient, under the oracle's names and in its shapes.
    pub fn check_gradients(&mut self, ours: &Arrays, table: &Table) {
        let found = table.export(ours);
        let theirs = self.oracle.arrays(|name| name.strip_prefix("grad."));
        assert!(
            found.keys().eq(theirs.keys()),
            "{}: other gradients",
            self.name
        );
        let largest = theirs.values().map(|array| size(&array.values));
        let largest = largest.fold(0.0, f32::max);
        for (name, theirs) in &theirs {
            assert_eq!(found[name].shape, theirs.shape, "{}: {name}", self.name);
            // Key biases shift all scores of a query alike, so their gradient is only rounding.
            if size(&theirs.values) < NOTHING * largest {
                let own = size(&found[name].values);
                assert!(own < 10.0 * NOTHING * largest, "{}: {name}", self.name);
                continue;
            }
            self.check(&format!("grad.{name}"), &found[name].values);
        }
    }
}

/// A gradient below this share of the largest one is rounding.
const NOTHING: f32 = 1e-6;

fn size(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most, x| most.max(x.abs()))
}

impl Drop for Against<'_> {
    fn drop(&mut self) {
        println!("{}: {:.1e} at {}", self.name, self.worst.0, self.worst.1);
    }
}

/// Returns the values `[row, position, …]` with zeros at padding, as in the oracles' files.
pub fn at_tokens(mut values: Vec<f32>, lengths: &[usize], positions: usize) -> Vec<f32> {
    let width = values.len() / (lengths.len() * positions);
    for (row, length) in lengths.iter().enumerate() {
        values[(row * positions + length) * width..(row + 1) * positions * width].fill(0.0);
    }
    values
}

/// Returns the number of tokens in each row of a mask.
pub fn lengths(oracle: &Oracle, mask: &str) -> Vec<usize> {
    let (shape, mask) = oracle.integers(mask);
    let cols = shape[shape.len() - 1];
    let rows = mask.chunks(cols);
    rows.map(|row| row.iter().map(|m| *m as usize).sum())
        .collect()
}
