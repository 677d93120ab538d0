//! ADOPT: `m ← β₁m + (1 − β₁)·clip(g/max(√v, eps), ±limit), θ ← keep·θ − lr·m, v ← β₂v + (1 − β₂)g²`.

use cubecl::prelude::*;

use super::{Formula, Launched, Numbers, Weights};
use crate::kernel::AdoptArgs;

/// ADOPT's formula: a step along the mean of gradients, each divided by the root of the mean of the earlier squares.
pub struct Adopt;

impl Launched<2> for AdoptArgs {
    type Formula = Adopt;

    fn numbers(&self) -> Numbers {
        let [beta_1, beta_2] = self.betas;
        // β₂ differs at the first step.
        Numbers {
            now: vec![self.keep, self.lr, self.limit, beta_2, 1.0 - beta_2],
            always: vec![beta_1, 1.0 - beta_1, self.eps],
        }
    }
}

#[cube]
impl Formula for Adopt {
    fn step(weights: &mut Weights, at: usize, factor: f32, now: &Sequence<f32>) {
        let g = weights.grad[at] * factor;
        let second = weights.moments.index_mut(1usize);
        let v = second.values[at];
        second.values[at] = v * now[3] + g * g * now[4];
        // NaN stays NaN.
        let mut root = v.sqrt();
        if root < weights.always[2] {
            root = weights.always[2];
        }
        let mut normed = g / root;
        if normed > now[2] {
            normed = now[2];
        }
        if normed < -now[2] {
            normed = -now[2];
        }
        let first = weights.moments.index_mut(0usize);
        let m = first.values[at] * weights.always[0] + normed * weights.always[1];
        first.values[at] = m;
        weights.param[at] = weights.param[at] * now[0] - m * now[1];
    }
}
