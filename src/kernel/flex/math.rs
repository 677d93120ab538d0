//! exp, tanh, erf and related functions on registers, each within a few units in the last place of the true value.
//!
//! Polynomials: exp and tanh are Cody and Waite reductions with the classic Cephes coefficients (Moshier); erf
//! is fitted for this file (relative minimax of `erf(x)/x − 1` in x² below 0.93, of `ln(1 − erf(x))/x`
//! above). NaN gives NaN, infinities their limits.

use pulp::Simd;

use super::simd::Vector;

/// `eˣ`, within 1 ulp; 0 below −86.6 and infinite above 88.72.
#[inline(always)]
pub fn exp<S: Simd>(x: Vector<S>) -> Vector<S> {
    exp_below(x.min(x.splat_like(MAX_EXPONENT))).unless_nan(x)
}

/// Slightly more than the exponent from which `exp` is infinite.
const MAX_EXPONENT: f32 = 88.8;

/// `eˣ` of numbers up to 88.8, and of NaN; enough for softmax, whose exponents are never positive.
#[inline(always)]
pub fn exp_below<S: Simd>(x: Vector<S>) -> Vector<S> {
    /// Adding this number, 1.5·2²³, rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    const LOWEST: f32 = -86.6;
    let rounded = x.affine(std::f32::consts::LOG2_E, ROUND);
    let n = rounded - x.splat_like(ROUND);
    // ln 2 in two parts: the first has few bits, so that its product with n is exact, fused or not.
    let r = n.mul_add(x.splat_like(-0.693_359_4), x);
    let r = n.mul_add(x.splat_like(2.121_944_4e-4), r);
    let p = r.polynomial([
        1.987_569_1e-4,
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_6e-1,
        5e-1,
    ]);
    let p = p.mul_add(r * r, r) + x.splat_like(1.0);
    // Twice half the power, since 2¹²⁸ itself would overflow.
    let y = p * rounded.half_power_of_two();
    let y = y + y;
    // For −∞ and numbers far below zero, the result above is meaningless.
    x.select_less(x.splat_like(LOWEST), x.splat_like(0.0), y)
}

/// `tanh x`.
#[inline(always)]
pub fn tanh<S: Simd>(x: Vector<S>) -> Vector<S> {
    let size = x.abs();
    let z = x * x;
    let small = z.polynomial([
        -5.704_988_7e-3,
        2.063_909e-2,
        -5.373_971_6e-2,
        1.333_144_2e-1,
        -3.333_328e-1,
    ]);
    let small = (small * z).mul_add(x, x);
    // Beyond 9.1, tanh is 1 in float32; the bound keeps exp finite.
    let e = exp((size + size).min(x.splat_like(20.0)));
    let large = (x.splat_like(1.0) - x.splat_like(2.0) / (e + x.splat_like(1.0))).copy_sign(x);
    size.select_less(x.splat_like(0.625), small, large)
        .unless_nan(x)
}

/// The error function.
#[inline(always)]
pub fn erf<S: Simd>(x: Vector<S>) -> Vector<S> {
    let size = x.abs();
    let small = (x * x).polynomial([
        -5.976_896e-4,
        4.990_981e-3,
        -2.676_556_8e-2,
        1.128_180_25e-1,
        -3.761_249_5e-1,
        1.283_791_5e-1,
    ]);
    let small = small.mul_add(x, x);
    // Beyond 3.93, erf is 1 in float32.
    let bounded = size.min(x.splat_like(4.0));
    let log = bounded.polynomial([
        -1.076_316_3e-5,
        3.180_595_8e-4,
        -3.622_918_4e-3,
        2.372_018_6e-2,
        -1.061_876_1e-1,
        -6.351_815e-1,
        -1.128_641,
    ]);
    let large = (x.splat_like(1.0) - exp(log * bounded)).copy_sign(x);
    size.select_less(x.splat_like(0.93), small, large)
        .unless_nan(x)
}

/// The logistic function `1/(1 + e⁻ˣ)`.
#[inline(always)]
pub fn sigmoid<S: Simd>(x: Vector<S>) -> Vector<S> {
    let one = x.splat_like(1.0);
    one / (one + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::super::simd::{Elementwise, map};
    use super::*;

    #[derive(Clone, Copy)]
    enum Function {
        Exp,
        Tanh,
        Erf,
    }

    impl Elementwise<1> for Function {
        #[inline(always)]
        fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
            match self {
                Function::Exp => exp(x),
                Function::Tanh => tanh(x),
                Function::Erf => erf(x),
            }
        }
    }

    /// Returns the largest error over a fine grid, in units in the last place of the float32 nearest to the true
    /// value.
    fn worst(function: Function, truth: impl Fn(f64) -> f64, low: f32, high: f32) -> f64 {
        let n = 200_003;
        let x: Vec<f32> = (0..n)
            .map(|i| low + (high - low) * i as f32 / (n - 1) as f32)
            .collect();
        let mut y = vec![0.0; n];
        map(function, [&x], &mut y);
        let error = |(x, y): (&f32, &f32)| {
            let exact = truth(f64::from(*x));
            let near = (exact as f32).abs().max(f32::MIN_POSITIVE);
            let ulp = f64::from(f32::from_bits(near.to_bits() + 1)) - f64::from(near);
            (f64::from(*y) - exact).abs() / ulp
        };
        x.iter().zip(&y).map(error).fold(0.0, f64::max)
    }

    #[test]
    fn few_units_in_the_last_place() {
        assert!(worst(Function::Exp, f64::exp, -86.0, 88.7) < 2.0);
        assert!(worst(Function::Exp, f64::exp, -1.0, 1.0) < 2.0);
        assert!(worst(Function::Tanh, f64::tanh, -12.0, 12.0) < 3.0);
        assert!(worst(Function::Tanh, f64::tanh, -1e-3, 1e-3) < 2.0);
        assert!(worst(Function::Erf, series_erf, -4.5, 4.5) < 3.0);
    }

    /// The Taylor series in float64, with enough terms for |x| < 4.5.
    fn series_erf(x: f64) -> f64 {
        if x.abs() > 4.2 {
            return x.signum() * (1.0 - 2.0e-9);
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn limits() {
        let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
        let at = |function| {
            let mut y = [0.0; 5];
            map(function, [&x], &mut y);
            y
        };
        let e = at(Function::Exp);
        assert!(e[0].is_nan());
        assert_eq!(e[1..], [f32::INFINITY, 0.0, 1.0, 1.0]);
        for function in [Function::Tanh, Function::Erf] {
            let y = at(function);
            assert!(y[0].is_nan());
            assert_eq!(y[1..], [1.0, -1.0, 0.0, 0.0]);
        }
    }
}
