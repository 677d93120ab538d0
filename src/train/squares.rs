//! Sums of squares over a whole model: the norm of its gradients, and a check that its weights are finite.
//!
//! Tensors in the host's memory are summed in double precision, parameter by parameter. Tensors on a separate device
//! are summed there, since reading each one would mean waiting for each.

use super::parameters;
use crate::kernel;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// Computes the Euclidean norm over all gradients, summed in the order of the parameters; a single read if they are on
/// a separate device.
pub fn global_norm<M: Module>(model: &M, gradients: &GradientsParams) -> f64 {
    let mut visitor = Norm {
        gradients,
        here: 0.0,
        there: Vec::new(),
        adds_here: true,
    };
    model.visit(&mut visitor);
    visitor.read().sqrt()
}

/// Computes the sum of the squares of all weights; a single read if they are on a separate device.
pub fn squares_of<M: Module>(model: &M) -> f64 {
    let mut visitor = Norm {
        gradients: &parameters::values(model),
        here: 0.0,
        there: Vec::new(),
        adds_here: true,
    };
    model.visit(&mut visitor);
    visitor.read()
}

/// Lists the parameters that have a gradient.
pub fn present<M: Module>(model: &M, gradients: &GradientsParams) -> Vec<ParamId> {
    let mut visitor = Present {
        gradients,
        found: Vec::new(),
    };
    model.visit(&mut visitor);
    visitor.found
}

struct Present<'a> {
    gradients: &'a GradientsParams,
    found: Vec<ParamId>,
}

impl ModuleVisitor for Present<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.gradients.get::<D>(param.id).is_some() {
            self.found.push(param.id);
        }
    }
}

/// Computes the sum of the squares of all gradients on their device, `[1]`; `None` if there are no gradients.
pub fn squares<M: Module>(model: &M, gradients: &GradientsParams) -> Option<Tensor<1>> {
    let mut visitor = Norm {
        gradients,
        here: 0.0,
        there: Vec::new(),
        adds_here: false,
    };
    model.visit(&mut visitor);
    visitor.there()
}

/// Visitor that sums squares.
struct Norm<'a> {
    gradients: &'a GradientsParams,
    /// Sum over gradients in the host's memory, in double precision.
    here: f64,
    /// The other gradients, each flattened.
    there: Vec<Tensor<1>>,
    /// Whether gradients in the host's memory are summed separately in `here`.
    adds_here: bool,
}

impl Norm<'_> {
    /// Returns the sum over the gradients in `there`, on their device.
    fn there(&mut self) -> Option<Tensor<1>> {
        let there = std::mem::take(&mut self.there);
        (!there.is_empty()).then(|| kernel::squares(there))
    }

    fn read(mut self) -> f64 {
        let there = kernel::numbers(self.there().into_iter().collect());
        there
            .into_iter()
            .fold(self.here, |sum, x| sum + f64::from(x))
    }
}

impl ModuleVisitor for Norm<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.get::<D>(param.id) else {
            return;
        };
        if self.adds_here && kernel::is_on_host(&gradient) {
            self.here += kernel::sum_of_squares(&gradient);
            return;
        }
        let elements = gradient.dims().iter().product::<usize>();
        self.there.push(gradient.reshape([elements]));
    }
}
