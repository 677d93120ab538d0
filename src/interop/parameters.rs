//! The parameters of a module by their dotted paths: their values under HF's names, and their shapes.

use super::rename::Table;
use super::weights::Array;
use crate::nn::path::Path;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Returns the weights of `module` under HF's names.
pub fn to_hf<M: Module>(module: &M, table: &Table) -> BTreeMap<String, Array> {
    table.export(&arrays(module))
}

/// Returns the values of every parameter, by dotted path.
pub fn arrays<M: Module>(module: &M) -> BTreeMap<String, Array> {
    let parameters = Parameters::of(module);
    let all = parameters.found.iter();
    all.map(|(path, parameter)| (path.clone(), parameter.array()))
        .collect()
}

/// Returns the values of the parameters with these dotted paths; no other parameter is initialised.
pub fn arrays_of<M: Module>(module: &M, paths: &[String]) -> BTreeMap<String, Array> {
    struct Chosen<'p> {
        path: Path,
        paths: &'p [String],
        found: BTreeMap<String, Array>,
    }
    impl ModuleVisitor for Chosen<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let path = self.path.joined();
            if self.paths.contains(&path) {
                let tensor = param.val();
                let shape = tensor.dims().to_vec();
                let values = tensor.into_data().iter::<f32>().collect();
                self.found.insert(path, Array { shape, values });
            }
        }
    }
    let mut visitor = Chosen {
        path: Path::default(),
        paths,
        found: BTreeMap::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}

/// The parameters of a module by their dotted paths; their values are read one parameter at a time.
#[derive(Default)]
pub struct Parameters {
    found: BTreeMap<String, Parameter>,
}

/// A parameter: its shape, and the terms whose sum is its value.
struct Parameter {
    shape: Vec<usize>,
    values: Vec<Rc<dyn Fn() -> Vec<f32>>>,
}

impl Parameters {
    /// Collects the parameters of a module.
    pub fn of<M: Module>(module: &M) -> Self {
        struct Found {
            path: Path,
            parameters: Parameters,
        }
        impl ModuleVisitor for Found {
            fn enter_module(&mut self, name: &str, container: &str) {
                self.path.enter(name, container);
            }
            fn exit_module(&mut self, _name: &str, container: &str) {
                self.path.exit(container);
            }
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let tensor = param.val();
                let parameter = Parameter {
                    shape: tensor.dims().to_vec(),
                    values: vec![Rc::new(move || {
                        tensor.clone().into_data().iter::<f32>().collect()
                    })],
                };
                let path = self.path.joined();
                self.parameters.found.insert(path, parameter);
            }
        }
        let mut visitor = Found {
            path: Path::default(),
            parameters: Self::default(),
        };
        module.visit(&mut visitor);
        visitor.parameters
    }

    /// Adds the values of the parameter `other` to those of `path`, if both exist.
    pub fn add(&mut self, path: &str, other: &str) {
        let other = self.found.get(other).map(|other| other.values.clone());
        if let (Some(other), Some(sum)) = (other, self.found.get_mut(path)) {
            sum.values.extend(other);
        }
    }

    /// Moves the rows of the matrix `path` so that row `from` becomes row `to`: the rows before it are dropped, new rows are 0.
    pub fn move_rows(&mut self, path: &str, from: usize, to: usize) {
        let Some(parameter) = self.found.get_mut(path) else {
            return;
        };
        let shape = parameter.shape.clone();
        let moved = move |values: Vec<f32>| {
            let shape = shape.clone();
            let mut array = Array { shape, values };
            array.move_rows(from, to);
            array
        };
        if let Some(rows) = parameter.shape.first_mut() {
            *rows = rows.saturating_sub(from) + to;
        }
        for term in &mut parameter.values {
            let (before, moved) = (Rc::clone(term), moved.clone());
            *term = Rc::new(move || moved(before()).values);
        }
    }

    /// Returns the shape of every parameter.
    pub fn shapes(&self) -> BTreeMap<&String, &[usize]> {
        let found = self.found.iter();
        found
            .map(|(path, parameter)| (path, parameter.shape.as_slice()))
            .collect()
    }

    /// Reads the values of one parameter.
    pub fn read(&self, path: &str) -> Option<Array> {
        self.found.get(path).map(Parameter::array)
    }
}

impl Parameter {
    fn array(&self) -> Array {
        let mut terms = self.values.iter().map(|values| values());
        let mut values = terms.next().unwrap_or_default();
        for term in terms {
            let pairs = values.iter_mut().zip(term);
            pairs.for_each(|(sum, term)| *sum += term);
        }
        Array {
            shape: self.shape.clone(),
            values,
        }
    }
}

/// Returns the shape of every parameter, by dotted path, without initialising any.
pub fn shapes<M: Module>(module: &M) -> BTreeMap<String, Vec<usize>> {
    struct Shapes {
        path: Path,
        found: BTreeMap<String, Vec<usize>>,
    }
    impl ModuleVisitor for Shapes {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.found
                .insert(self.path.joined(), param.lazy_shape().to_vec());
        }
    }
    let mut visitor = Shapes {
        path: Path::default(),
        found: BTreeMap::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}
