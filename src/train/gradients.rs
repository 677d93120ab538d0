//! Gradients of a whole model: summed over micro-batches, measured, clipped.

use crate::data::loader::Batch;
use crate::kernel;
use crate::task::{StepOutput, Trained};
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::Tensor;
use burn::train::TrainStep;

/// The gradient of one optimizer step and what it was made from.
pub struct Gradient {
    /// By parameter.
    pub gradients: GradientsParams,
    /// Sums over the step.
    pub output: StepOutput,
    /// Global norm before clipping.
    pub norm: f64,
}

/// Runs all micro-batches of a step and adds their gradients. Each loss is divided by the scored positions
/// of the whole step, so the sum is the gradient of the one big batch.
pub fn accumulate<M: Trained>(model: &M, batches: Vec<Batch>) -> Gradient {
    let mut output = StepOutput::default();
    let mut sum = GradientsAccumulator::new();
    let mut only = None;
    let several = batches.len() > 1;
    for batch in batches {
        let step = TrainStep::step(model, batch.into());
        output.add(&step.item);
        if several {
            sum.accumulate(model, step.grads);
        } else {
            only = Some(step.grads);
        }
    }
    let gradients = only.unwrap_or_else(|| sum.grads());
    Gradient {
        norm: global_norm(model, &gradients),
        gradients,
        output,
    }
}

impl Gradient {
    /// Scales the gradient down to a global norm of `limit`; 0 switches clipping off.
    pub fn clip<M: Module>(&mut self, model: &M, limit: f64) {
        if limit > 0.0 && self.norm > limit {
            // PyTorch's clip_grad_norm_ adds the same 1e-6.
            scale(model, &mut self.gradients, limit / (self.norm + 1e-6));
        }
    }
}

/// The Euclidean norm over all gradients, summed in the order of the parameters.
pub fn global_norm<M: Module>(model: &M, gradients: &GradientsParams) -> f64 {
    let mut visitor = Norm {
        gradients,
        squares: 0.0,
    };
    model.visit(&mut visitor);
    visitor.squares.sqrt()
}

/// Multiplies every gradient by `factor`.
pub fn scale<M: Module>(model: &M, gradients: &mut GradientsParams, factor: f64) {
    model.visit(&mut Scale { gradients, factor });
}

struct Norm<'a> {
    gradients: &'a GradientsParams,
    squares: f64,
}

impl ModuleVisitor for Norm<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            self.squares += kernel::sum_of_squares(&gradient);
        }
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients
                .register::<D>(param.id, kernel::scale(gradient, self.factor));
        }
    }
}
