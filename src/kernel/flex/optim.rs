//! An optimizer's operations on whole tensors: one pass over memory, in place, on all threads.

use burn_flex::FlexTensor;
use pulp::{Simd, WithSimd};

use super::activation::elementwise;
use super::buffer::{
    PIECE_LEN, ZEROED_PIECE_LEN, build_zeroed, contiguous, slice, slice_mut, tensor,
};
use super::simd::{Elementwise, Vector, map, map_in_place, row_sum, run};
use super::threads;
use crate::kernel::AdamwArgs;

/// `x·factor`; the field is the factor.
#[derive(Clone, Copy)]
pub struct Scale(pub f32);

impl Elementwise<1> for Scale {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
        x * self.0
    }
}

/// Returns `x·factor`, in place if possible.
pub fn scale(x: FlexTensor, factor: f32) -> FlexTensor {
    elementwise(Scale(factor), x, [])
}

struct Squares<'a>(&'a [f32]);

impl WithSimd for Squares<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        row_sum(simd, [self.0], |[x]| x * x)
    }
}

/// Returns the sum of squares. Each piece is summed in float32 lanes, the pieces in float64 in their order.
pub fn sum_of_squares(x: FlexTensor) -> f64 {
    let x = contiguous(x);
    let piece = |part: &[f32]| f64::from(run(Squares(part)));
    let elements = slice(&x);
    threads::map(elements.chunks(PIECE_LEN), piece).iter().sum()
}

struct SquaredDifferences<'a>([&'a [f32]; 2]);

impl WithSimd for SquaredDifferences<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        row_sum(simd, self.0, |[x, y]| (x - y) * (x - y))
    }
}

/// Returns the sum of squared differences of tensors of one shape, summed like [`sum_of_squares`].
pub fn squared_distance(x: FlexTensor, y: FlexTensor) -> f64 {
    let (x, y) = (contiguous(x), contiguous(y));
    let piece = |(x, y): (&[f32], &[f32])| f64::from(run(SquaredDifferences([x, y])));
    let (x, y) = (slice(&x), slice(&y));
    let pieces = x.chunks(PIECE_LEN).zip(y.chunks(PIECE_LEN));
    threads::map(pieces, piece).iter().sum()
}

/// A running mean: the factors of the old mean and of the gradient.
#[derive(Clone, Copy)]
pub(super) struct Mean(f32, f32);

impl Mean {
    /// Creates a running mean with this decay.
    pub(super) fn of(decay: f64) -> Self {
        Self(decay as f32, (1.0 - decay) as f32)
    }
}

impl Elementwise<2> for Mean {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [mean, grad]: [Vector<S>; 2]) -> Vector<S> {
        mean.mul_add(mean.splat_like(self.0), grad * self.1)
    }
}

/// A running mean of squares: the factors of the old mean and of the squared gradient.
#[derive(Clone, Copy)]
pub(super) struct MeanSquare(f32, f32);

impl MeanSquare {
    /// Creates a running mean of squares with this decay.
    pub(super) fn of(decay: f64) -> Self {
        Self(decay as f32, (1.0 - decay) as f32)
    }
}

impl Elementwise<2> for MeanSquare {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [mean, grad]: [Vector<S>; 2]) -> Vector<S> {
        mean.mul_add(mean.splat_like(self.0), grad * grad * self.1)
    }
}

/// The update of the parameter.
#[derive(Clone, Copy)]
struct Update {
    decay: f32,
    step_size: f32,
    second_scale: f32,
    eps: f32,
}

impl Elementwise<3> for Update {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [param, m, v]: [Vector<S>; 3]) -> Vector<S> {
        let scale = v.sqrt().affine(self.second_scale, self.eps);
        param * self.decay - m / scale * self.step_size
    }
}

/// All that one AdamW step does to a range of a parameter.
#[derive(Clone, Copy)]
struct Rule {
    first: Mean,
    second: MeanSquare,
    update: Update,
}

impl Rule {
    fn new(args: AdamwArgs) -> Self {
        let factors = args.factors();
        Self {
            first: Mean::of(args.beta_1),
            second: MeanSquare::of(args.beta_2),
            update: Update {
                decay: factors.decay as f32,
                step_size: factors.step_size as f32,
                second_scale: factors.second_scale as f32,
                eps: args.eps as f32,
            },
        }
    }

    /// Applies the step block by block, so that the second and third pass find the moments in cache.
    fn apply(self, param: &mut [f32], m: &mut [f32], v: &mut [f32], grad: &[f32]) {
        const BLOCK: usize = 2048;
        for start in (0..param.len()).step_by(BLOCK) {
            let range = start..(start + BLOCK).min(param.len());
            let (m, v) = (&mut m[range.clone()], &mut v[range.clone()]);
            map_in_place(self.first, m, [&grad[range.clone()]]);
            map_in_place(self.second, v, [&grad[range.clone()]]);
            map_in_place(self.update, &mut param[range], [m, v]);
        }
    }
}

/// Takes one AdamW step on parameter and moments; buffers that something else refers to are copied first.
pub fn adamw_step(
    param: FlexTensor,
    grad: FlexTensor,
    moments: [FlexTensor; 2],
    args: AdamwArgs,
) -> [FlexTensor; 3] {
    let rule = Rule::new(args);
    let grad = contiguous(grad);
    let [m, v] = moments;
    let (mut param, mut m, mut v) = (into_owned(param), into_owned(m), into_owned(v));
    let exclusive = "a tensor that was just copied if anything else held it";
    let p = slice_mut(&mut param).expect(exclusive);
    let (first, second) = (
        slice_mut(&mut m).expect(exclusive),
        slice_mut(&mut v).expect(exclusive),
    );
    let g = slice(&grad);
    let moments = first
        .chunks_mut(PIECE_LEN)
        .zip(second.chunks_mut(PIECE_LEN));
    let pieces = p
        .chunks_mut(PIECE_LEN)
        .zip(moments)
        .zip(g.chunks(PIECE_LEN));
    threads::for_each(pieces, |((p, (m, v)), g)| rule.apply(p, m, v, g));
    [param, m, v]
}

/// Returns the tensor as the only owner of its buffer, copying it if necessary.
pub(super) fn into_owned(x: FlexTensor) -> FlexTensor {
    let x = contiguous(x);
    if x.is_unique() {
        return x;
    }
    let copy = build_zeroed(slice(&x).len(), ZEROED_PIECE_LEN, |first, piece| {
        map(Scale(1.0), [&slice(&x)[first..first + piece.len()]], piece);
    });
    tensor(copy, x.layout().shape().clone())
}
