//! Softmax cross-entropy, one cube per row. It computes the loss, whether the target has the highest logit, and the
//! gradient of the logits, written over them or, if products round it, separately in bfloat16.

use burn::tensor::bf16;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::embedding::integers;
use super::launch::{
    contiguous, cube_sum, cubes, empty, empty_operand, or_placeholder, spaced_rows,
};
use crate::kernel::IGNORE_INDEX;
use crate::kernel::extension::Maybe;

/// Compile-time parameters of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    bias: bool,
    smooth: bool,
    /// Whether the gradient of the logits is computed.
    gradient: bool,
    /// Whether the gradient is written to a separate tensor.
    apart: bool,
    /// Whether the highest logit is searched.
    hits: bool,
    units: u32,
}

/// The largest logit of a row and its first index.
#[derive(CubeType, Clone, Copy)]
struct Top {
    value: f32,
    at: u32,
}

/// Returns the maximum over all units of a cube, at its lowest index.
#[cube]
fn highest(
    value: f32,
    at: u32,
    values: &mut Shared<[f32]>,
    places: &mut Shared<[u32]>,
    #[comptime] units: u32,
) -> Top {
    let unit = UNIT_POS;
    values[unit as usize] = value;
    places[unit as usize] = at;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(units.ilog2()) {
        let half = comptime!(units >> (level + 1));
        if unit < half {
            let other = values[(unit + half) as usize];
            let place = places[(unit + half) as usize];
            let own = values[unit as usize];
            if other > own || (other == own && place < places[unit as usize]) {
                values[unit as usize] = other;
                places[unit as usize] = place;
            }
        }
        sync_cube();
    }
    let top = Top {
        value: values[0],
        at: places[0],
    };
    sync_cube();
    top
}

#[cube]
fn biased(raw: f32, bias: &[f32], i: u32, #[comptime] form: Form) -> f32 {
    let mut score = raw;
    if comptime!(form.bias) {
        score += bias[i as usize];
    }
    score
}

/// Scores the rows of `scores`; row n has index `first + n` among all rows. The logits are overwritten by their
/// gradient, or the gradient goes to `slopes` in its format.
#[cube(launch)]
fn scored<S: Float>(
    scores: &mut Tensor<f32>,
    slopes: &mut Tensor<S>,
    bias: &[f32],
    targets: &[i32],
    losses: &mut [f32],
    hits: &mut [f32],
    rows: u32,
    first: u32,
    width: u32,
    distance: u32,
    slope_distance: u32,
    smoothing: f32,
    #[comptime] form: Form,
) {
    let row = CUBE_POS as u32;
    if row >= rows {
        terminate!();
    }
    let units = comptime!(form.units);
    let mut shared = Shared::<[f32]>::new_slice(comptime!(form.units as usize));
    let mut places = Shared::<[u32]>::new_slice(comptime!(form.units as usize));
    let start = row * distance;
    let target = targets[(first + row) as usize];
    let mut largest = f32::new(-3.0e38);
    let mut at = width;
    let mut total = 0.0f32;
    let mut plain = 0.0f32;
    let mut i = UNIT_POS;
    while i < width {
        let score = biased(scores[(start + i) as usize], bias, i, form);
        if score > largest {
            total = total * (largest - score).exp() + 1.0f32;
            largest = score;
            at = i;
        } else {
            total += (score - largest).exp();
        }
        if comptime!(form.smooth) {
            plain += score;
        }
        i += units;
    }
    let top = highest(largest, at, &mut shared, &mut places, units);
    let all = cube_sum(total * (largest - top.value).exp(), &mut shared, units);
    let lse = top.value + all.ln();
    let spread = smoothing / f32::cast_from(width);
    let is_scored = target >= 0;
    if comptime!(form.smooth) {
        plain = cube_sum(plain, &mut shared, units);
    }
    if UNIT_POS == 0 {
        let mut loss = 0.0f32;
        let mut hit = 0.0f32;
        if is_scored {
            let raw = scores[(start + target as u32) as usize];
            let picked = biased(raw, bias, target as u32, form);
            loss = lse - (1.0f32 - smoothing) * picked - spread * plain;
            hit = select(top.at == target as u32, 1.0f32, 0.0f32);
        }
        losses[(first + row) as usize] = loss;
        if comptime!(form.hits) {
            hits[(first + row + 1) as usize] = hit;
        }
    }
    // The target's logit is read above and may be overwritten below.
    sync_cube();
    if comptime!(form.gradient) {
        let mut i = UNIT_POS;
        while i < width {
            let mut slope = 0.0f32;
            if is_scored {
                let score = biased(scores[(start + i) as usize], bias, i, form);
                slope = (score - lse).exp() - spread;
                if i == target as u32 {
                    slope -= 1.0f32 - smoothing;
                }
            }
            if comptime!(form.apart) {
                slopes[(row * slope_distance + i) as usize] = S::cast_from(slope);
            } else {
                scores[(start + i) as usize] = slope;
            }
            i += units;
        }
    }
}

/// Sums all numbers, in a fixed order, into `out[0]`.
#[cube(launch)]
fn added(x: &[f32], out: &mut [f32], #[comptime] units: u32) {
    let mut shared = Shared::<[f32]>::new_slice(comptime!(units as usize));
    let mut sum = 0.0f32;
    let mut i = UNIT_POS;
    while i < x.len() as u32 {
        sum += x[i as usize];
        i += units;
    }
    let sum = cube_sum(sum, &mut shared, units);
    if UNIT_POS == 0 {
        out[0] = sum;
    }
}

/// Rows of logits to be scored against their targets.
pub struct Rows<'a> {
    /// Bias added to each row.
    pub bias: Maybe<CubeBackend>,
    /// Targets of all rows, 32-bit integers.
    pub targets: &'a CubeTensor,
    /// Output: the loss of each row.
    pub losses: &'a CubeTensor,
    /// Output, from index 1 on: whether each row's target has the highest logit.
    pub hits: Option<&'a CubeTensor>,
    /// Label smoothing.
    pub smoothing: f64,
    /// What the logits are replaced by.
    pub slopes: Slopes,
}

/// What the kernel does with the logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slopes {
    /// The logits stay as they are.
    No,
    /// The logits are overwritten by the gradients of the losses.
    InPlace,
    /// The gradients of the losses are written separately, in bfloat16.
    Rounded,
}

impl Rows<'_> {
    /// Scores rows of logits, the first of which has index `first` among all rows. Returns the logits or their
    /// gradients.
    pub fn score(&self, scores: CubeTensor, first: usize) -> CubeTensor {
        let (scores, distance) = spaced_rows(scores);
        if self.slopes != Slopes::Rounded {
            self.launch::<f32>(&scores, distance, (self.losses, 0), first);
            return scores;
        }
        let sizes = super::launch::rows_of(&scores);
        let (slopes, to) = empty_operand(&scores, sizes);
        self.launch::<bf16>(&scores, distance, (&slopes, to), first);
        slopes
    }

    fn launch<S: Float + CubeElement>(
        &self,
        scores: &CubeTensor,
        distance: usize,
        (slopes, to): (&CubeTensor, usize),
        first: usize,
    ) {
        let [rows, width] = super::launch::rows_of(scores);
        let (bias, has_bias) = or_placeholder(self.bias.clone(), self.losses);
        let (count, dim, units) = cubes(scores, rows, width);
        let form = Form {
            bias: has_bias,
            smooth: self.smoothing > 0.0,
            gradient: self.slopes != Slopes::No,
            apart: self.slopes == Slopes::Rounded,
            hits: self.hits.is_some(),
            units,
        };
        scored::launch::<S>(
            &scores.client,
            count,
            dim,
            scores.clone().into_tensor_arg(),
            slopes.clone().into_tensor_arg(),
            bias.into_buffer_arg(),
            self.targets.clone().into_buffer_arg(),
            self.losses.clone().into_buffer_arg(),
            self.hits.unwrap_or(self.losses).clone().into_buffer_arg(),
            rows as u32,
            first as u32,
            width as u32,
            distance as u32,
            to as u32,
            self.smoothing as f32,
            form,
        );
    }
}

/// Sums all numbers into the first element of `out`.
pub fn add_up(x: &CubeTensor, out: &CubeTensor) {
    let units = 256;
    let (x_arg, out_arg) = (x.clone().into_buffer_arg(), out.clone().into_buffer_arg());
    let (count, dim) = (CubeCount::new_single(), CubeDim::new_1d(units));
    added::launch(&x.client, count, dim, x_arg, out_arg, units);
}

/// Returns the loss `[1]` and the logits; with `gradient`, their gradient instead, which overwrites them.
pub fn total(
    logits: CubeTensor,
    targets: CubeTensor,
    smoothing: f64,
    gradient: bool,
) -> [CubeTensor; 2] {
    const { assert!(IGNORE_INDEX < 0) };
    let logits = if gradient {
        super::launch::owned(logits)
    } else {
        contiguous(logits)
    };
    let [rows, _] = super::launch::rows_of(&logits);
    let (losses, out) = (empty(&logits, [rows]), empty(&logits, [1]));
    let targets = integers(targets);
    let all = Rows {
        bias: Maybe::None,
        targets: &targets,
        losses: &losses,
        hits: None,
        smoothing,
        slopes: match gradient {
            true => Slopes::InPlace,
            false => Slopes::No,
        },
    };
    let logits = all.score(logits, 0);
    add_up(&losses, &out);
    [out, logits]
}
