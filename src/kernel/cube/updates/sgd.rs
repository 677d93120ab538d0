//! Gradient descent: `g ← g + λθ, b ← decay·b + fresh·g, θ ← θ − lr·(ahead·b + direct·g)`; without momentum `θ ← θ − lr·g`.

use cubecl::prelude::*;

use super::{Formula, Launched, Numbers, Weights};
use crate::kernel::{DescentArgs, MomentumArgs};

/// The formula of gradient descent.
pub struct Descent;

/// The formula of gradient descent with momentum, plain or Nesterov's.
pub struct Momentum;

impl Launched<0> for DescentArgs {
    type Formula = Descent;

    fn numbers(&self) -> Numbers {
        Numbers {
            now: vec![self.lr],
            always: vec![self.penalty],
        }
    }
}

impl Launched<1> for MomentumArgs {
    type Formula = Momentum;

    fn numbers(&self) -> Numbers {
        let [ahead, direct] = self.nesterov.map_or([1.0, 0.0], |ahead| [ahead, 1.0]);
        let [decay, fresh] = self.decay;
        Numbers {
            now: vec![self.descent.lr],
            always: vec![self.descent.penalty, decay, fresh, ahead, direct],
        }
    }
}

#[cube]
impl Formula for Descent {
    fn step(weights: &mut Weights, at: usize, factor: f32, now: &Sequence<f32>) {
        let x = weights.param[at];
        let g = weights.grad[at] * factor + x * weights.always[0];
        weights.param[at] = x - g * now[0];
    }
}

#[cube]
impl Formula for Momentum {
    fn step(weights: &mut Weights, at: usize, factor: f32, now: &Sequence<f32>) {
        let x = weights.param[at];
        let g = weights.grad[at] * factor + x * weights.always[0];
        let momentum = weights.moments.index_mut(0usize);
        let b = momentum.values[at] * weights.always[1] + g * weights.always[2];
        momentum.values[at] = b;
        let along = b * weights.always[3] + g * weights.always[4];
        weights.param[at] = x - along * now[0];
    }
}
