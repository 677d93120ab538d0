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
        host_sum: 0.0,
        there: Vec::new(),
        sums_on_host: true,
    };
    model.visit(&mut visitor);
    visitor.read().sqrt()
}

/// Computes the sum of the squares of all weights; a single read if they are on a separate device.
pub fn weight_squares<M: Module>(model: &M) -> f64 {
    let mut visitor = Norm {
        gradients: &parameters::values(model),
        host_sum: 0.0,
        there: Vec::new(),
        sums_on_host: true,
    };
    model.visit(&mut visitor);
    visitor.read()
}

/// Lists the parameters that have a gradient.
pub fn with_gradient<M: Module>(model: &M, gradients: &GradientsParams) -> Vec<ParamId> {
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
pub fn gradient_squares<M: Module>(model: &M, gradients: &GradientsParams) -> Option<Tensor<1>> {
    let mut visitor = Norm {
        gradients,
        host_sum: 0.0,
        there: Vec::new(),
        sums_on_host: false,
    };
    model.visit(&mut visitor);
    visitor.device_sum()
}

/// Visitor that sums squares.
struct Norm<'a> {
    gradients: &'a GradientsParams,
    /// Sum over gradients in the host's memory, in double precision.
    host_sum: f64,
    /// The other gradients, each flattened.
    there: Vec<Tensor<1>>,
    /// Whether gradients in the host's memory are summed separately in `here`.
    sums_on_host: bool,
}

impl Norm<'_> {
    /// Returns the sum over the gradients in `there`, on their device.
    fn device_sum(&mut self) -> Option<Tensor<1>> {
        let there = std::mem::take(&mut self.there);
        (!there.is_empty()).then(|| kernel::sum_of_squares_on_device(there))
    }

    fn read(mut self) -> f64 {
        let there = kernel::read_scalars(self.device_sum().into_iter().collect());
        there
            .into_iter()
            .fold(self.host_sum, |sum, x| sum + f64::from(x))
    }
}

impl ModuleVisitor for Norm<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.get::<D>(param.id) else {
            return;
        };
        if self.sums_on_host && kernel::is_on_host(&gradient) {
            self.host_sum += kernel::sum_of_squares(&gradient);
            return;
        }
        let elements = gradient.dims().iter().product::<usize>();
        self.there.push(gradient.reshape([elements]));
    }
}
