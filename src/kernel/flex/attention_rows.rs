//! Operations of attention on one row of scores.

use pulp::{Simd, WithSimd};

use super::math::{exp, exp_below, tanh};
use super::simd::{Elementwise, Vector, map_in_place, row_sum, run};

/// Turns one row of scores into exponentials relative to the running maximum and updates the running maximum and sum.
/// Returns the factor by which earlier sums must be multiplied.
pub struct SoftmaxRow<'a> {
    /// Scores; masked ones are −∞.
    pub row: &'a mut [f32],
    /// Running maximum and sum.
    pub state: &'a mut (f32, f32),
}

impl WithSimd for SoftmaxRow<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (before, total) = *self.state;
        let (body, tail) = S::as_mut_simd_f32s(self.row);
        let mut largest = Vector::splat(simd, before);
        for x in body.iter() {
            largest = largest.max(Vector::new(simd, *x));
        }
        let largest = tail.iter().fold(largest.max_lane(), |m, &x| m.max(x));
        if largest == f32::NEG_INFINITY {
            // No key seen so far: weights are zero (a NaN among the scores stays one).
            let each = body.iter_mut();
            each.for_each(|x| *x = exp(Vector::new(simd, *x)).lanes());
            tail.iter_mut().for_each(|x| *x = x.exp());
            let nan = body
                .iter()
                .map(|x| Vector::new(simd, *x).sum())
                .sum::<f32>();
            self.state.1 = total + nan + tail.iter().sum::<f32>();
            return 1.0;
        }
        let offset = Vector::splat(simd, largest);
        let mut sum = Vector::splat(simd, 0.0);
        for slot in body.iter_mut() {
            let e = exp_below(Vector::new(simd, *slot) - offset);
            sum = sum + e;
            *slot = e.lanes();
        }
        let mut sum = sum.sum();
        if !tail.is_empty() {
            let e = exp_below(Vector::new(simd, simd.partial_load_f32s(tail)) - offset);
            simd.partial_store_f32s(tail, e.lanes());
            sum += tail.iter().sum::<f32>();
        }
        let shrink = if before == largest {
            1.0
        } else {
            (before - largest).exp()
        };
        *self.state = (largest, total * shrink + sum);
        shrink
    }
}

/// Turns a row of scores into probabilities `exp(score − lse)`; no score exceeds the log-sum-exp.
pub fn probabilities(row: &mut [f32], lse: f32) {
    #[derive(Clone, Copy)]
    struct Shifted(f32);
    impl Elementwise<1> for Shifted {
        #[inline(always)]
        fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
            exp_below(x - x.splat_like(self.0))
        }
    }
    map_in_place(Shifted(lse), row, []);
}

/// Returns the dot product of two rows of one length.
pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    struct Kernel<'a>([&'a [f32]; 2]);
    impl WithSimd for Kernel<'_> {
        type Output = f32;
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> f32 {
            row_sum(simd, self.0, |[x, y]| x * y)
        }
    }
    run(Kernel([left, right]))
}

/// Computes `cap·tanh(x/cap)` in place; `slope` receives its derivative.
pub fn soft_cap(row: &mut [f32], cap: f32, slope: Option<&mut [f32]>) {
    struct Kernel<'a>(&'a mut [f32], f32, Option<&'a mut [f32]>);
    impl WithSimd for Kernel<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Self(row, cap, slope) = self;
            let lanes = S::F32_LANES;
            for part in row.chunks_mut(lanes) {
                let x = Vector::new(simd, simd.partial_load_f32s(part));
                simd.partial_store_f32s(part, tanh(x * (1.0 / cap)).lanes());
            }
            if let Some(slope) = slope {
                let each = slope.iter_mut().zip(row.iter());
                each.for_each(|(s, t)| *s = 1.0 - t * t);
            }
            row.iter_mut().for_each(|t| *t *= cap);
        }
    }
    run(Kernel(row, cap, slope));
}

/// Computes a row of the scores' gradient: writes `p·(d·f − delta)` over `d`, where `f` are the dropout factors, and
/// the dropped weights `p·f` over `p`.
pub struct GradientRow<'a> {
    /// Gradient of the dropped weights in, gradient of the scores out.
    pub d: &'a mut [f32],
    /// Probabilities in, dropped weights out.
    pub p: &'a mut [f32],
    /// Dropout factors, if weights are dropped.
    pub factors: Option<&'a [f32]>,
    /// Dot product of the row's output and its gradient.
    pub delta: f32,
}

impl WithSimd for GradientRow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self {
            d,
            p,
            factors,
            delta,
        } = self;
        match factors {
            None => {
                let each = d.iter_mut().zip(p.iter());
                each.for_each(|(d, p)| *d = p * (*d - delta));
            }
            Some(factors) => {
                for ((d, p), f) in d.iter_mut().zip(p.iter_mut()).zip(factors) {
                    *d = *p * (*d * f - delta);
                    *p *= f;
                }
            }
        }
    }
}
