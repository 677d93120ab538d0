//! Scores become weights in one kernel: scale, soft cap, bias, visibility, softmax and dropout, a cube a query. The
//! visibility is evaluated from its structure and the dropout from its coordinates, so neither is ever a tensor; keys that
//! no rule lets the query see are not read. The backward kernel makes the weights again from the log-sum-exp.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{cube_max, cube_sum, cubes};
use super::philox::{Drop, block_of, counter_of, drop_args, factor_of, no_drop};
use super::scores::{Added, Factors, FactorsLaunch, Form, key_of, line_of, score_of};
use super::structure::{Place, Sizes, Structure, place_of, sees};
use crate::kernel::DropKey;
use crate::rng::Purpose;

/// Below every score, and a log-sum-exp that makes every weight zero.
const LOWEST: f32 = -3.0e38;

/// The log-sum-exp of a query's scores.
#[cube]
fn log_sum(
    scores: &mut Tensor<f32>,
    start: u32,
    place: &Place,
    bias: &[f32],
    structure: &[i32],
    sizes: &Sizes,
    factors: &Factors,
    #[comptime] form: Form,
) -> f32 {
    let mut shared = Shared::<[f32]>::new_slice(comptime!(form.units as usize));
    let mut largest = f32::new(LOWEST);
    let mut total = 0.0f32;
    let mut key = place.start + UNIT_POS;
    while key < place.end {
        if sees(place, key, structure, form.rules) {
            let raw = scores[(start + key) as usize];
            let score = score_of(raw, place, key, bias, sizes, factors, form);
            if score.value > largest {
                total = total * (largest - score.value).exp() + 1.0f32;
                largest = score.value;
            } else {
                total += (score.value - largest).exp();
            }
        }
        key += comptime!(form.units);
    }
    let top = cube_max(largest, &mut shared, form.units);
    let all = cube_sum(total * (largest - top).exp(), &mut shared, form.units);
    let mut lse = -f32::new(LOWEST);
    // A query that sees nothing has weights of zero; a NaN stays one.
    if all != 0.0f32 {
        lse = top + all.ln();
    }
    lse
}

#[cube(launch)]
fn weights(
    scores: &mut Tensor<f32>,
    bias: &[f32],
    structure: &[i32],
    lse: &mut [f32],
    sizes: Sizes,
    factors: Factors,
    drop: Drop,
    #[comptime] form: Form,
) {
    let number = CUBE_POS as u32;
    if number >= lse.len() as u32 {
        terminate!();
    }
    let place = place_of(number, structure, &sizes, form.rules);
    let start = number * factors.distance;
    let sum = log_sum(
        scores, start, &place, bias, structure, &sizes, &factors, form,
    );
    if UNIT_POS == 0 {
        lse[number as usize] = sum;
    }
    // Units read above what other units write below.
    sync_cube();
    // Nothing reads these where nothing is dropped, and compilers leave them out.
    let counter = counter_of(&drop, place.row);
    let line = line_of(&place, 0u32, sizes.keys, &sizes);
    let mut block = line.first + UNIT_POS;
    while block < line.last {
        let words = block_of(&drop, &counter, block);
        #[unroll]
        for i in 0..4u32 {
            let key = key_of(&line, block, i, &sizes);
            if key < sizes.keys {
                let at = (start + key) as usize;
                let mut weight = 0.0f32;
                if sees(&place, key, structure, form.rules) {
                    let score = score_of(scores[at], &place, key, bias, &sizes, &factors, form);
                    weight = (score.value - sum).exp();
                    if comptime!(form.drops) {
                        weight *= factor_of(&drop, &words, i);
                    }
                }
                scores[at] = weight;
            }
        }
        block += comptime!(form.units);
    }
}

/// Scores become dropped weights, and the gradients of these those of the raw scores, with that of what was added beside
/// them where it is wanted.
#[cube(launch)]
fn gradients(
    scores: &mut Tensor<f32>,
    grad: &mut Tensor<f32>,
    bias: &[f32],
    structure: &[i32],
    lse: &[f32],
    d_added: &mut [f32],
    sizes: Sizes,
    factors: Factors,
    drop: Drop,
    #[comptime] form: Form,
) {
    let number = CUBE_POS as u32;
    if number >= lse.len() as u32 {
        terminate!();
    }
    let mut shared = Shared::<[f32]>::new_slice(comptime!(form.units as usize));
    let place = place_of(number, structure, &sizes, form.rules);
    let start = number * factors.distance;
    let grad_start = number * factors.gradient_distance;
    let sum = lse[number as usize];
    // Nothing reads these where nothing is dropped, and compilers leave them out.
    let counter = counter_of(&drop, place.row);
    let seen = line_of(&place, place.start, place.end, &sizes);
    let mut delta = 0.0f32;
    let mut block = seen.first + UNIT_POS;
    while block < seen.last {
        let words = block_of(&drop, &counter, block);
        #[unroll]
        for i in 0..4u32 {
            let key = key_of(&seen, block, i, &sizes);
            if key < sizes.keys {
                if sees(&place, key, structure, form.rules) {
                    let raw = scores[(start + key) as usize];
                    let score = score_of(raw, &place, key, bias, &sizes, &factors, form);
                    let mut weight = (score.value - sum).exp();
                    if comptime!(form.drops) {
                        weight *= factor_of(&drop, &words, i);
                    }
                    delta += weight * grad[(grad_start + key) as usize];
                }
            }
        }
        block += comptime!(form.units);
    }
    let delta = cube_sum(delta, &mut shared, form.units);
    let line = line_of(&place, 0u32, sizes.keys, &sizes);
    let mut block = line.first + UNIT_POS;
    while block < line.last {
        let words = block_of(&drop, &counter, block);
        #[unroll]
        for i in 0..4u32 {
            let key = key_of(&line, block, i, &sizes);
            if key < sizes.keys {
                let at = (start + key) as usize;
                let grad_at = (grad_start + key) as usize;
                let mut dropped = 0.0f32;
                let mut slope = 0.0f32;
                let mut rise = 0.0f32;
                if sees(&place, key, structure, form.rules) {
                    let score = score_of(scores[at], &place, key, bias, &sizes, &factors, form);
                    let weight = (score.value - sum).exp();
                    let mut factor = 1.0f32;
                    if comptime!(form.drops) {
                        factor = factor_of(&drop, &words, i);
                    }
                    dropped = weight * factor;
                    slope = weight * (grad[grad_at] * factor - delta);
                    rise = score.slope;
                }
                scores[at] = dropped;
                grad[grad_at] = slope * rise;
                if comptime!(form.wants_added) {
                    d_added[(number * sizes.keys + key) as usize] = slope;
                }
            }
        }
        block += comptime!(form.units);
    }
}

/// The parts of attention between its products.
pub struct Softmax {
    /// Which keys are seen.
    pub structure: Structure,
    /// Factor of the raw scores.
    pub scale: f32,
    /// Bound of the scores.
    pub cap: Option<f32>,
    /// Dropout of weights.
    pub dropout: Option<DropKey>,
    /// What is added.
    pub bias: Option<CubeTensor>,
    /// Of which kind.
    pub added: Added,
}

impl Softmax {
    fn form(&self, units: u32, wants_added: bool) -> Form {
        Form {
            rules: self.structure.rules,
            added: self.added,
            capped: self.cap.is_some(),
            drops: self.dropout.is_some(),
            wants_added,
            units,
        }
    }

    fn drop(&self) -> super::philox::DropLaunch {
        match &self.dropout {
            Some(key) => drop_args(key, Purpose::Dropout),
            None => no_drop(),
        }
    }

    fn factors(&self, distances: [usize; 2]) -> FactorsLaunch {
        let [distance, gradient_distance] = distances.map(|x| x as u32);
        FactorsLaunch::new(
            self.scale,
            self.cap.unwrap_or(1.0),
            distance,
            gradient_distance,
        )
    }

    /// Raw scores, whose rows lie at a distance, become weights; `lse` takes the log-sum-exps.
    pub fn forward(&self, scores: &CubeTensor, distance: usize, lse: &CubeTensor) {
        let rows = lse.meta.shape().num_elements();
        let (count, dim, units) = cubes(scores, rows, self.structure.sizes[2] as usize);
        let bias = self.bias.clone().unwrap_or_else(|| lse.clone());
        weights::launch(
            &scores.client,
            count,
            dim,
            scores.clone().into_tensor_arg(),
            bias.into_buffer_arg(),
            self.structure.numbers.clone().into_buffer_arg(),
            lse.clone().into_buffer_arg(),
            self.structure.sizes(),
            self.factors([distance, distance]),
            self.drop(),
            self.form(units, false),
        );
    }

    /// Raw scores become weights, their gradients those of raw scores; `d_added` takes that of what was added.
    pub fn backward(
        &self,
        [scores, grad]: [&CubeTensor; 2],
        distances: [usize; 2],
        lse: &CubeTensor,
        d_added: Option<&CubeTensor>,
    ) {
        let rows = lse.meta.shape().num_elements();
        let (count, dim, units) = cubes(scores, rows, self.structure.sizes[2] as usize);
        let bias = self.bias.clone().unwrap_or_else(|| lse.clone());
        gradients::launch(
            &scores.client,
            count,
            dim,
            scores.clone().into_tensor_arg(),
            grad.clone().into_tensor_arg(),
            bias.into_buffer_arg(),
            self.structure.numbers.clone().into_buffer_arg(),
            lse.clone().into_buffer_arg(),
            d_added.unwrap_or(lse).clone().into_buffer_arg(),
            self.structure.sizes(),
            self.factors(distances),
            self.drop(),
            self.form(units, d_added.is_some()),
        );
    }
}
