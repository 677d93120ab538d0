//! Lion: `θ ← keep·θ − lr·sign(β₁m + (1 − β₁)g), m ← β₂m + (1 − β₂)g`.

use cubecl::prelude::*;

use super::{Formula, Launched, Numbers, Weights};
use crate::kernel::LionArgs;

/// Lion's formula: a step by the sign of a mean of gradients that includes the new one.
pub struct Lion;

impl Launched<1> for LionArgs {
    type Formula = Lion;

    fn numbers(&self) -> Numbers {
        let [beta_1, beta_2] = self.betas;
        Numbers {
            now: vec![self.keep, self.lr],
            always: vec![beta_1, 1.0 - beta_1, beta_2, 1.0 - beta_2],
        }
    }
}

#[cube]
impl Formula for Lion {
    fn step(weights: &mut Weights, at: usize, factor: f32, now: &Sequence<f32>) {
        let g = weights.grad[at] * factor;
        let mean = weights.moments.index_mut(0usize);
        let m = mean.values[at];
        mean.values[at] = m * weights.always[2] + g * weights.always[3];
        let along = m * weights.always[0] + g * weights.always[1];
        let mut sign = 0.0f32;
        if along > 0.0f32 {
            sign = 1.0f32;
        }
        if along < 0.0f32 {
            sign = -1.0f32;
        }
        weights.param[at] = weights.param[at] * now[0] - sign * now[1];
    }
}
