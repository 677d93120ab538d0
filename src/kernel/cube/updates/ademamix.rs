//! AdEMAMix: a slow mean `s ← β₃s + (1 − β₃)g` in addition to Adam's means, and a step along both means of gradients.

use cubecl::prelude::*;

use super::adaptive::adaptive_update;
use super::{Formula, Launched, Numbers, Weights};
use crate::kernel::AdemamixArgs;

/// AdEMAMix's formula: `θ ← keep·θ − lr·(first·m + other·s)/(root·√v + eps)`.
pub struct Ademamix;

impl Launched<3> for AdemamixArgs {
    type Formula = Ademamix;

    fn numbers(&self) -> Numbers {
        let [beta_1, beta_2] = self.fast.betas;
        let mut now = self.fast.of_step();
        now.extend([self.slow, 1.0 - self.slow]);
        Numbers {
            now,
            always: vec![beta_1, 1.0 - beta_1, beta_2, 1.0 - beta_2],
        }
    }
}

#[cube]
impl Formula for Ademamix {
    fn step(weights: &mut Weights, at: usize, factor: f32, now: &Sequence<f32>) {
        let g = weights.grad[at] * factor;
        let first = weights.moments.index_mut(0usize);
        let m = first.values[at] * weights.always[0] + g * weights.always[1];
        first.values[at] = m;
        let second = weights.moments.index_mut(1usize);
        let v = second.values[at] * weights.always[2] + g * g * weights.always[3];
        second.values[at] = v;
        let third = weights.moments.index_mut(2usize);
        let slow = third.values[at] * now[6] + g * now[7];
        third.values[at] = slow;
        weights.param[at] = adaptive_update(weights.param[at], m, slow, v, now);
    }
}
