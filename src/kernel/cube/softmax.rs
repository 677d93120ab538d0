//! Attention scores become weights in one kernel: scale, soft cap, bias, visibility, softmax and dropout, one cube
//! per query. Visibility is evaluated from its structure and dropout from its coordinates, so neither is ever a
//! tensor. Keys that no rule lets the query see are not read. The backward kernel recomputes the weights from the
//! log-sum-exp. The term it subtracts, the dot product of weights and their gradients, equals that of output and
//! gradient (Dao et al. 2022, appendix B.4).

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::blocks::Block;
use super::launch::{cube_max, cube_sum, cubes};
use super::philox::{Drop, DropLaunch, block_of, counter_of, drop_args, factor_of, keyed, no_drop};
use super::scores::{Added, Factors, FactorsLaunch, Form, key_of, line_of, score_of};
use super::structure::{Place, Sizes, line_number, place_of, sees};
use super::visibility_data::Structure;
use crate::kernel::DropKey;
use crate::rng::Purpose;

/// Lower than every score; its negative as log-sum-exp makes every weight zero.
pub(super) const LOWEST: f32 = -3.0e38;

/// Returns the log-sum-exp of a query's scores.
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
            let raw = scores[(start + key - sizes.first_key) as usize];
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
    // A query that sees no key gets zero weights; a NaN stays one.
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
    table: &[u32],
    lse: &mut [f32],
    sizes: Sizes,
    factors: Factors,
    drop: Drop,
    #[comptime] form: Form,
) {
    let number = CUBE_POS as u32;
    if number >= sizes.lines {
        terminate!();
    }
    let place = place_of(number, structure, &sizes, form.rules);
    let start = number * factors.distance;
    let sum = log_sum(
        scores, start, &place, bias, structure, &sizes, &factors, form,
    );
    if UNIT_POS == 0 {
        lse[line_number(&place, &sizes) as usize] = sum;
    }
    // Below, units write what other units read above.
    sync_cube();
    // Without dropout nothing reads these, and compilers remove them.
    let drop = keyed(&drop, table, form.replayed);
    let counter = counter_of(&drop, place.row);
    let line = line_of(&place, sizes.first_key, sizes.last_key, &sizes);
    let mut block = line.first + UNIT_POS;
    while block < line.last {
        let words = block_of(&drop, &counter, block);
        #[unroll]
        for i in 0..4u32 {
            let key = key_of(&line, block, i, &sizes);
            if key < sizes.last_key {
                let at = (start + key - sizes.first_key) as usize;
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

/// Turns scores into dropped weights, and the gradients of these weights into those of the raw scores. Also writes
/// the bias gradient if it is wanted.
#[cube(launch)]
fn gradients(
    scores: &mut Tensor<f32>,
    grad: &mut Tensor<f32>,
    bias: &[f32],
    structure: &[i32],
    table: &[u32],
    lse: &[f32],
    products: &[f32],
    d_added: &mut [f32],
    sizes: Sizes,
    factors: Factors,
    drop: Drop,
    #[comptime] form: Form,
) {
    let number = CUBE_POS as u32;
    if number >= sizes.lines {
        terminate!();
    }
    let place = place_of(number, structure, &sizes, form.rules);
    let start = number * factors.distance;
    let grad_start = number * factors.gradient_distance;
    let at = line_number(&place, &sizes) as usize;
    let sum = lse[at];
    let product = products[at];
    // Without dropout nothing reads these, and compilers remove them.
    let drop = keyed(&drop, table, form.replayed);
    let counter = counter_of(&drop, place.row);
    let line = line_of(&place, sizes.first_key, sizes.last_key, &sizes);
    let mut block = line.first + UNIT_POS;
    while block < line.last {
        let words = block_of(&drop, &counter, block);
        #[unroll]
        for i in 0..4u32 {
            let key = key_of(&line, block, i, &sizes);
            if key < sizes.last_key {
                let at = (start + key - sizes.first_key) as usize;
                let grad_at = (grad_start + key - sizes.first_key) as usize;
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
                    slope = weight * (grad[grad_at] * factor - product);
                    rise = score.slope;
                }
                scores[at] = dropped;
                grad[grad_at] = slope * rise;
                if comptime!(form.wants_added) {
                    let keys = sizes.last_key - sizes.first_key;
                    d_added[(number * keys + key - sizes.first_key) as usize] = slope;
                }
            }
        }
        block += comptime!(form.units);
    }
}

/// The steps of attention between its matrix products.
#[derive(Clone)]
pub struct Softmax {
    /// Which keys each query sees.
    pub structure: Structure,
    /// Factor of the raw scores.
    pub scale: f32,
    /// Soft cap of the scores.
    pub cap: Option<f32>,
    /// Dropout of the weights.
    pub dropout: Option<DropKey>,
    /// Bias added to the scores.
    pub bias: Option<CubeTensor>,
    /// Kind of the bias.
    pub added: Added,
}

impl Softmax {
    /// Returns the compile-time parameters of a kernel.
    pub(super) fn form(&self, units: u32, wants_added: bool, replayed: bool) -> Form {
        Form {
            replayed,
            rules: self.structure.rules,
            added: self.added,
            capped: self.cap.is_some(),
            drops: self.dropout.is_some(),
            wants_added,
            units,
        }
    }

    /// Returns the dropout arguments, the table with its key or a stand-in, and whether there is a table.
    pub(super) fn drop(&self) -> (DropLaunch, CubeTensor, bool) {
        let (args, table) = match &self.dropout {
            Some(key) => drop_args(key, Purpose::Dropout),
            None => (no_drop(), None),
        };
        let replayed = table.is_some();
        let numbers = || self.structure.numbers.clone();
        (args, table.unwrap_or_else(numbers), replayed)
    }

    /// Returns the numeric parameters of the formula; `distances` are those between rows of scores and of their
    /// gradients.
    pub(super) fn factors(&self, distances: [usize; 2]) -> FactorsLaunch {
        let [distance, gradient_distance] = distances.map(|x| x as u32);
        FactorsLaunch::new(
            self.scale,
            self.cap.unwrap_or(1.0),
            distance,
            gradient_distance,
        )
    }

    /// Turns a block's raw scores, whose rows are `distance` apart, into weights; `lse` receives its queries'
    /// log-sum-exps.
    pub fn forward(&self, block: &Block, scores: &CubeTensor, distance: usize, lse: &CubeTensor) {
        let lines = self.structure.lines(block);
        let (count, dim, units) = cubes(scores, lines, block.keys.len());
        let bias = self.bias.clone().unwrap_or_else(|| lse.clone());
        let (drop, table, replayed) = self.drop();
        weights::launch(
            &scores.client,
            count,
            dim,
            scores.clone().into_tensor_arg(),
            bias.into_buffer_arg(),
            self.structure.numbers.clone().into_buffer_arg(),
            table.into_buffer_arg(),
            lse.clone().into_buffer_arg(),
            self.structure.sizes(block),
            self.factors([distance, distance]),
            drop,
            self.form(units, false, replayed),
        );
    }

    /// Turns a block's raw scores into weights, and the weights' gradients into those of the raw scores; `d_added`
    /// receives the gradient of the biased scores.
    pub fn backward(
        &self,
        block: &Block,
        [scores, grad]: [&CubeTensor; 2],
        distances: [usize; 2],
        [lse, products]: [&CubeTensor; 2],
        d_added: Option<&CubeTensor>,
    ) {
        let lines = self.structure.lines(block);
        let (count, dim, units) = cubes(scores, lines, block.keys.len());
        let bias = self.bias.clone().unwrap_or_else(|| lse.clone());
        let (drop, table, replayed) = self.drop();
        gradients::launch(
            &scores.client,
            count,
            dim,
            scores.clone().into_tensor_arg(),
            grad.clone().into_tensor_arg(),
            bias.into_buffer_arg(),
            self.structure.numbers.clone().into_buffer_arg(),
            table.into_buffer_arg(),
            lse.clone().into_buffer_arg(),
            products.clone().into_buffer_arg(),
            d_added.unwrap_or(lse).clone().into_buffer_arg(),
            self.structure.sizes(block),
            self.factors(distances),
            drop,
            self.form(units, d_added.is_some(), replayed),
        );
    }
}
