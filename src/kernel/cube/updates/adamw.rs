//! AdamW: `m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², θ ← keep·θ − size·m/(scale·√v + ε)`.

use cubecl::prelude::*;

use super::{Formula, Launched, Numbers, Weights};
use crate::kernel::AdamwArgs;

/// AdamW's formula: a step along the mean of gradients, divided by the root of the mean of their squares.
pub struct Adamw;

impl Launched<2> for AdamwArgs {
    type Formula = Adamw;

    fn numbers(&self) -> Numbers {
        let factors = self.factors();
        Numbers {
            now: vec![factors.decay, factors.step_size, factors.second_scale],
            always: vec![
                self.beta_1,
                1.0 - self.beta_1,
                self.beta_2,
                1.0 - self.beta_2,
                self.eps,
            ],
        }
    }
}

#[cube]
impl Formula for Adamw {
    fn step(weights: &mut Weights, at: usize, factor: f32, now: &Sequence<f32>) {
        let g = weights.grad[at] * factor;
        let first = weights.moments.index_mut(0usize);
        let m = first.values[at] * weights.always[0] + g * weights.always[1];
        first.values[at] = m;
        let second = weights.moments.index_mut(1usize);
        let v = second.values[at] * weights.always[2] + g * g * weights.always[3];
        second.values[at] = v;
        let scale = v.sqrt() * now[2] + weights.always[4];
        weights.param[at] = weights.param[at] * now[0] - m / scale * now[1];
    }
}
