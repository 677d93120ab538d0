//! Sums of squares over a whole model: the norm of its gradients, and what says that its weights are numbers.
//!
//! In the host's memory they are added in double precision, parameter by parameter. On a device of their own they are added
//! there: a read of each would be a wait for each.

use super::parameters;
use crate::kernel;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// The Euclidean norm over all gradients, summed in the order of the parameters; one read where they are on a device of
/// their own.
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

/// Σ of the squares of all weights; one read where they are on a device of their own.
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

/// The parameters that have a gradient.
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

/// The sum of the squares of all gradients, `[1]`; none of no gradients.
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

/// Sums of squares.
struct Norm<'a> {
    gradients: &'a GradientsParams,
    /// Of gradients in the host's memory, in double precision.
    here: f64,
    /// The others, each as one row.
    there: Vec<Tensor<1>>,
    /// Whether there is a difference between the two.
    adds_here: bool,
}

impl Norm<'_> {
    /// The sum over those that are on a device of their own.
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
        if self.adds_here && kernel::is_here(&gradient) {
            self.here += kernel::sum_of_squares(&gradient);
            return;
        }
        let elements = gradient.dims().iter().product::<usize>();
        self.there.push(gradient.reshape([elements]));
    }
}
