//! NAdam and RAdam: `m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g²`, then a step along m and g divided by the root of v,
//! with coefficients that each of the two computes for its step.

use cubecl::prelude::*;

use super::{Formula, Launched, Numbers, Weights};
use crate::kernel::AdaptiveArgs;

/// The formula of NAdam and RAdam: `θ ← keep·θ − lr·(first·m + other·g)/(root·√v + eps)`.
pub struct Rooted;

impl Launched<2> for AdaptiveArgs {
    type Formula = Rooted;

    fn numbers(&self) -> Numbers {
        let [beta_1, beta_2] = self.betas;
        Numbers {
            now: self.of_step(),
            always: vec![beta_1, 1.0 - beta_1, beta_2, 1.0 - beta_2],
        }
    }
}

impl AdaptiveArgs {
    /// Returns the coefficients of this step in the order in which [`along`] reads them: keep, first, other, root,
    /// eps and lr.
    pub(super) fn of_step(&self) -> Vec<f64> {
        vec![
            self.keep, self.first, self.other, self.root, self.eps, self.lr,
        ]
    }
}

/// Returns the parameter after one step: `keep·θ − lr·(first·m + other·x)/(root·√v + eps)`.
#[cube]
pub fn adaptive_update(param: f32, m: f32, other: f32, v: f32, now: &Sequence<f32>) -> f32 {
    let along = m * now[1] + other * now[2];
    let scale = v.sqrt() * now[3] + now[4];
    param * now[0] - along / scale * now[5]
}

#[cube]
impl Formula for Rooted {
    fn step(weights: &mut Weights, at: usize, factor: f32, now: &Sequence<f32>) {
        let g = weights.grad[at] * factor;
        let first = weights.moments.index_mut(0usize);
        let m = first.values[at] * weights.always[0] + g * weights.always[1];
        first.values[at] = m;
        let second = weights.moments.index_mut(1usize);
        let v = second.values[at] * weights.always[2] + g * g * weights.always[3];
        second.values[at] = v;
        weights.param[at] = adaptive_update(weights.param[at], m, g, v, now);
    }
}
