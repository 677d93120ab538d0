//! The features of some positions of a head, and the gradients of the vectors they are computed from.

use pulp::{Simd, WithSimd};

use crate::kernel::flex::attention_rows::dot;
use crate::kernel::flex::math::exp;
use crate::kernel::flex::product::{Matrix, Packed, WriteMode};
use crate::kernel::flex::simd::{Elementwise, Vector, map, map_in_place, run};
use crate::kernel::linear_attention::{Features, MAX_EXPONENT};

/// A feature map, with its projection packed for products.
pub struct Map {
    features: Features,
    projection: Option<Projection>,
    /// Number of features of a vector.
    pub width: usize,
}

struct Projection {
    /// Projection of vectors to features: `[d, features]`.
    onto: Packed,
    /// Projection of features to vectors: `[features, d]`.
    back: Packed,
}

impl Map {
    /// Creates the map for vectors of `d` elements, with the rows of a projection.
    pub fn new(features: Features, projection: Option<&[f32]>, d: usize) -> Self {
        let width = projection.map_or(d, |w| w.len() / d.max(1));
        let projection = projection.map(|w| {
            let w = Matrix::rows(w, [width, d]);
            Projection {
                onto: Packed::new(w.transposed()),
                back: Packed::new(w),
            }
        });
        Self {
            features,
            projection,
            width,
        }
    }

    /// Returns the eps of exponential features; `None` for others.
    pub fn exponential(&self) -> Option<f32> {
        match self.features {
            Features::Exponential { eps, .. } => Some(eps as f32),
            Features::Identity | Features::Elu | Features::Rectified { .. } => None,
        }
    }

    /// Computes the products of vectors with the projection's rows.
    fn project(&self, x: Matrix, scale: f64, out: &mut [f32]) {
        if let Some(w) = &self.projection {
            let into = WriteMode::TILE.times(scale.sqrt() as f32);
            w.onto.product(out, x, 0..self.width, into);
        }
    }

    /// Computes the features of queries and, for exponential ones, also the share of every key.
    pub fn of_queries(&self, x: Matrix, out: &mut [f32], shares: &mut [f32]) {
        match self.features {
            Features::Exponential { scale, eps } => {
                self.project(x, scale, out);
                let (half, eps) = (0.5 * scale as f32, eps as f32);
                let rows = out.chunks_exact_mut(self.width).zip(shares).enumerate();
                for (i, (row, share)) in rows {
                    let shift = half * square(row_of(x, i)) + run(Largest(row));
                    let add = eps;
                    *share = eps * run(Exponentials { row, shift, add });
                }
            }
            Features::Identity | Features::Elu | Features::Rectified { .. } => self.of_both(x, out),
        }
    }

    /// Computes the features of keys; exponential ones without c and eps, together with each key's largest product.
    pub fn of_keys(&self, x: Matrix, out: &mut [f32], largest: &mut [f32]) {
        match self.features {
            Features::Exponential { scale, .. } => {
                self.project(x, scale, out);
                let half = 0.5 * scale as f32;
                let rows = out.chunks_exact_mut(self.width).zip(largest).enumerate();
                for (i, (row, largest)) in rows {
                    *largest = run(Largest(row));
                    let shift = half * square(row_of(x, i));
                    let add = 0.0;
                    run(Exponentials { row, shift, add });
                }
            }
            Features::Identity | Features::Elu | Features::Rectified { .. } => self.of_both(x, out),
        }
    }

    /// Computes features that queries and keys have in common.
    fn of_both(&self, x: Matrix, out: &mut [f32]) {
        if let Features::Rectified { scale, eps } = self.features {
            self.project(x, scale, out);
            return map_in_place(Rectified(eps as f32), out, []);
        }
        for (i, out) in out.chunks_exact_mut(self.width.max(1)).enumerate() {
            match self.features {
                Features::Elu => map(EluPlusOne, [row_of(x, i)], out),
                _ => out.copy_from_slice(row_of(x, i)),
            }
        }
    }

    /// Computes the gradient of vectors given that of their features, which is overwritten; `added` is the constant
    /// that exponential features contain in addition to the exponential.
    pub fn backward(
        &self,
        x: Matrix,
        (features, added): (&[f32], f32),
        grad: &mut [f32],
        out: &mut [f32],
    ) {
        let d = x.shape[1];
        match self.features {
            Features::Identity => out.copy_from_slice(grad),
            Features::Elu => map(EluSlope, [grad, features], out),
            Features::Rectified { scale, eps } => {
                map_in_place(RectifiedSlope(eps as f32), grad, [features]);
                self.unproject(grad, scale, out, x.shape[0]);
            }
            Features::Exponential { scale, .. } => {
                let width = self.width;
                let rows = grad.chunks_exact_mut(width);
                let mut sums = Vec::with_capacity(x.shape[0]);
                for (grad, features) in rows.zip(features.chunks_exact(width)) {
                    sums.push(run(Slopes {
                        grad,
                        features,
                        added,
                    }));
                }
                self.unproject(grad, scale, out, x.shape[0]);
                for (i, (out, sum)) in out.chunks_exact_mut(d.max(1)).zip(sums).enumerate() {
                    map_in_place(MinusTimes(scale as f32 * sum), out, [row_of(x, i)]);
                }
            }
        }
    }

    fn unproject(&self, grad: &[f32], scale: f64, out: &mut [f32], rows: usize) {
        if let Some(w) = &self.projection {
            let grad = Matrix::rows(grad, [rows, self.width]);
            let d = out.len() / rows.max(1);
            let into = WriteMode::TILE.times(scale.sqrt() as f32);
            w.back.product(out, grad, 0..d, into);
        }
    }
}

/// Returns a row of a matrix whose rows are contiguous.
pub fn row_of(x: Matrix<'_>, row: usize) -> &[f32] {
    &x.data[row * x.strides[0]..][..x.shape[1]]
}

fn square(x: &[f32]) -> f32 {
    dot(x, x)
}

/// elu(x) + 1.
#[derive(Clone, Copy)]
struct EluPlusOne;

impl Elementwise<1> for EluPlusOne {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
        let (zero, one) = (x.splat_like(0.0), x.splat_like(1.0));
        let y = x.select_less(zero, exp(x.min(zero)), x + one);
        y.unless_nan(x)
    }
}

/// The slope of [`EluPlusOne`], which is the feature itself below 1, times the gradient.
#[derive(Clone, Copy)]
struct EluSlope;

impl Elementwise<2> for EluSlope {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [grad, feature]: [Vector<S>; 2]) -> Vector<S> {
        grad * feature.min(feature.splat_like(1.0)).unless_nan(feature)
    }
}

/// relu(x) + eps; the field is eps.
#[derive(Clone, Copy)]
struct Rectified(f32);

impl Elementwise<1> for Rectified {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
        x.max(x.splat_like(0.0)).unless_nan(x) + x.splat_like(self.0)
    }
}

/// The gradient where the feature is above eps, else 0; the field is eps.
#[derive(Clone, Copy)]
struct RectifiedSlope(f32);

impl Elementwise<2> for RectifiedSlope {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [grad, feature]: [Vector<S>; 2]) -> Vector<S> {
        feature
            .splat_like(self.0)
            .select_less(feature, grad, grad.splat_like(0.0))
    }
}

/// `out − x·factor`; the field is the factor.
#[derive(Clone, Copy)]
struct MinusTimes(f32);

impl Elementwise<2> for MinusTimes {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [out, x]: [Vector<S>; 2]) -> Vector<S> {
        x.mul_add(x.splat_like(-self.0), out)
    }
}

/// Returns the largest element of a row.
struct Largest<'a>(&'a [f32]);

impl WithSimd for Largest<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (body, tail) = S::as_simd_f32s(self.0);
        let mut largest = Vector::splat(simd, f32::NEG_INFINITY);
        for x in body {
            largest = largest.max(Vector::new(simd, *x));
        }
        tail.iter().fold(largest.max_lane(), |m, &x| m.max(x))
    }
}

/// `exp(x − shift) + add`; the fields are shift and add. This is a function that is always inlined, which a closure
/// is not: a call would lose the instruction set.
#[derive(Clone, Copy)]
struct ShiftedExponential(f32, f32);

impl Elementwise<1> for ShiftedExponential {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
        let shifted = x - x.splat_like(self.0);
        exp(shifted.min(x.splat_like(MAX_EXPONENT)).unless_nan(shifted)) + x.splat_like(self.1)
    }
}

/// Turns a row of products into `exp(x − shift) + add`; returns their sum.
struct Exponentials<'a> {
    row: &'a mut [f32],
    shift: f32,
    add: f32,
}

impl WithSimd for Exponentials<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (body, tail) = S::as_mut_simd_f32s(self.row);
        let feature = ShiftedExponential(self.shift, self.add);
        let mut sum = Vector::splat(simd, 0.0);
        for slot in body.iter_mut() {
            let y = feature.apply(simd, [Vector::new(simd, *slot)]);
            sum = sum + y;
            *slot = y.lanes();
        }
        let mut sum = sum.sum();
        if !tail.is_empty() {
            let y = feature.apply(simd, [Vector::new(simd, simd.partial_load_f32s(tail))]);
            simd.partial_store_f32s(tail, y.lanes());
            sum += tail.iter().sum::<f32>();
        }
        sum
    }
}

/// Writes `grad·(feature − added)` over `grad`; returns their sum.
struct Slopes<'a> {
    grad: &'a mut [f32],
    features: &'a [f32],
    added: f32,
}

impl WithSimd for Slopes<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (body, tail) = S::as_mut_simd_f32s(self.grad);
        let (heads, rest) = S::as_simd_f32s(self.features);
        let added = Vector::splat(simd, self.added);
        let mut sum = Vector::splat(simd, 0.0);
        for (slot, feature) in body.iter_mut().zip(heads) {
            let y = Vector::new(simd, *slot) * (Vector::new(simd, *feature) - added);
            sum = sum + y;
            *slot = y.lanes();
        }
        let mut sum = sum.sum();
        for (grad, feature) in tail.iter_mut().zip(rest) {
            *grad *= feature - self.added;
            sum += *grad;
        }
        sum
    }
}
