//! Gradients of all parameters, including frozen ones, summed over batches on the host.

use super::parameters;
use crate::nn::path::Path;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use std::collections::{BTreeMap, BTreeSet};

/// Adds the gradients of some rows to the sums of earlier rows: one tensor per parameter, by path; zeros if it has no gradient.
pub fn add<M: Module>(
    model: &M,
    gradients: GradientsParams,
    sums: &mut BTreeMap<String, TensorData>,
) {
    let trained = parameters::list(model).into_iter().map(|p| p.path);
    let mut adder = Adder {
        path: Path::default(),
        trained: trained.collect(),
        gradients,
        sums,
    };
    model.visit(&mut adder);
}

struct Adder<'a> {
    path: Path,
    /// Paths of the parameters; norms keep other values besides them.
    trained: BTreeSet<String>,
    gradients: GradientsParams,
    sums: &'a mut BTreeMap<String, TensorData>,
}

impl ModuleVisitor for Adder<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.joined();
        if !self.trained.contains(&path) {
            return;
        }
        let shape = param.lazy_shape().to_vec();
        let count = shape.iter().product();
        let more: Vec<f32> = match self.gradients.remove::<D>(param.id) {
            Some(gradient) => gradient.into_data().convert::<f32>().iter().collect(),
            None => vec![0.0; count],
        };
        let sum = match self.sums.remove(&path) {
            Some(sum) => sum.iter::<f32>().zip(more).map(|(a, b)| a + b).collect(),
            None => more,
        };
        self.sums.insert(path, TensorData::new(sum, shape));
    }
}
