//! Vectors of float32 whose width is chosen at run time: AVX-512, AVX2 with FMA, or portable code.
//!
//! A kernel is a [`pulp::WithSimd`]; [`run`] calls it compiled for the best instruction set of the machine.
//! [`Vector`] gives arithmetic its usual operators. A multiply-add is fused if the machine supports it, so results
//! may differ in the last bit between machines, but never on one machine.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::OnceLock;

use pulp::{Arch, Simd, WithSimd};

pub use super::maps::{Elementwise, map, map_in_place, map_new};

/// Environment variable that restricts the vector instructions of the CPU kernels: `portable` disables them, `avx2`
/// disables AVX-512.
pub const SWITCH: &str = "FORMWORK_SIMD";

/// Values of the environment variable; empty counts as unset.
pub const SWITCHES: &[&str] = &["portable", "avx2"];

/// Returns the instruction set that the environment variable asks for, or the best one.
fn detect_arch() -> Arch {
    match std::env::var(SWITCH).as_deref() {
        Ok("portable") => Arch::Scalar,
        #[cfg(target_arch = "x86_64")]
        Ok("avx2") => pulp::x86::V3::try_new().map_or(Arch::Scalar, Arch::V3),
        _ => Arch::new(),
    }
}

/// Runs a kernel with the best instruction set.
#[inline]
pub fn run<K: WithSimd>(kernel: K) -> K::Output {
    static ARCH: OnceLock<Arch> = OnceLock::new();
    ARCH.get_or_init(detect_arch).dispatch(kernel)
}

/// Prefetches the cache line of `numbers[at]`, if it exists; does nothing on machines without prefetching.
#[inline(always)]
pub fn fetch(numbers: &[f32], at: usize) {
    if at < numbers.len() {
        fetch_from(numbers.as_ptr().wrapping_add(at));
    }
}

/// Prefetches the cache line of any address, which need not be readable.
#[inline(always)]
pub fn fetch_from(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has the instruction, and it reads nothing that the program could see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Returns the same number but hides it from the optimizer, so that values derived from it are recomputed.
#[inline(always)]
pub fn hidden(number: usize) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut number = number;
        // SAFETY: the assembly contains no instruction.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags));
        }
        number
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    number
}

/// A vector register of float32 lanes.
#[derive(Clone, Copy)]
pub struct Vector<S: Simd> {
    simd: S,
    lanes: S::f32s,
}

impl<S: Simd> Vector<S> {
    /// Wraps the register's lanes as the SIMD library represents them.
    #[inline(always)]
    pub fn new(simd: S, lanes: S::f32s) -> Self {
        Self { simd, lanes }
    }

    /// Returns a register with one value in every lane.
    #[inline(always)]
    pub fn splat(simd: S, value: f32) -> Self {
        Self::new(simd, simd.splat_f32s(value))
    }

    /// Returns a register with one value in every lane, for the same instruction set as `self`.
    #[inline(always)]
    pub fn splat_like(self, value: f32) -> Self {
        Self::splat(self.simd, value)
    }

    /// Returns the lanes.
    #[inline(always)]
    pub fn lanes(self) -> S::f32s {
        self.lanes
    }

    /// Returns `self·factor + term`.
    #[inline(always)]
    pub fn mul_add(self, factor: Self, term: Self) -> Self {
        let lanes = self
            .simd
            .mul_add_e_f32s(self.lanes, factor.lanes, term.lanes);
        Self::new(self.simd, lanes)
    }

    /// Returns `self·factor + term` with constants.
    #[inline(always)]
    pub fn affine(self, factor: f32, term: f32) -> Self {
        self.mul_add(self.splat_like(factor), self.splat_like(term))
    }

    /// Evaluates the polynomial with these coefficients, highest power first.
    #[inline(always)]
    pub fn polynomial<const N: usize>(self, coefficients: [f32; N]) -> Self {
        let mut sum = self.splat_like(coefficients[0]);
        for &c in &coefficients[1..] {
            sum = sum.mul_add(self, self.splat_like(c));
        }
        sum
    }

    /// Returns the larger of the two; unspecified if either is NaN.
    #[inline(always)]
    pub fn max(self, other: Self) -> Self {
        Self::new(self.simd, self.simd.max_f32s(self.lanes, other.lanes))
    }

    /// Returns the smaller of the two; unspecified if either is NaN.
    #[inline(always)]
    pub fn min(self, other: Self) -> Self {
        Self::new(self.simd, self.simd.min_f32s(self.lanes, other.lanes))
    }

    /// Returns the absolute value.
    #[inline(always)]
    pub fn abs(self) -> Self {
        Self::new(self.simd, self.simd.abs_f32s(self.lanes))
    }

    /// Returns the square root.
    #[inline(always)]
    pub fn sqrt(self) -> Self {
        Self::new(self.simd, self.simd.sqrt_f32s(self.lanes))
    }

    /// Returns the absolute value of `self` with the sign of `sign`.
    #[inline(always)]
    pub fn copy_sign(self, sign: Self) -> Self {
        let s = self.simd;
        let bit = s.and_f32s(sign.lanes, s.splat_f32s(-0.0));
        Self::new(s, s.or_f32s(self.abs().lanes, bit))
    }

    /// Lane by lane: `when` if `self < bound`, else `otherwise` (NaN is not less).
    #[inline(always)]
    pub fn select_less(self, bound: Self, when: Self, otherwise: Self) -> Self {
        let s = self.simd;
        let mask = s.less_than_f32s(self.lanes, bound.lanes);
        Self::new(s, s.select_f32s(mask, when.lanes, otherwise.lanes))
    }

    /// Lane by lane: `source` if it is NaN, else `self`; so NaN propagates.
    #[inline(always)]
    pub fn unless_nan(self, source: Self) -> Self {
        let s = self.simd;
        let mask = s.equal_f32s(source.lanes, source.lanes);
        Self::new(s, s.select_f32s(mask, self.lanes, source.lanes))
    }

    /// Returns `2^(n − 1)`, where `self` is `n + 1.5·2²³`, which holds the integer n in the low bits of its fraction.
    #[inline(always)]
    pub fn half_power_of_two(self) -> Self {
        let s = self.simd;
        let bits = s.transmute_u32s_f32s(self.lanes);
        let exponent = s.wrapping_dyn_shl_u32s(bits, s.splat_u32s(23));
        let bits = s.add_u32s(exponent, s.splat_u32s(126 << 23));
        Self::new(s, s.transmute_f32s_u32s(bits))
    }

    /// Returns the sum of the lanes.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        self.simd.reduce_sum_f32s(self.lanes)
    }

    /// Returns the largest lane.
    #[inline(always)]
    pub fn max_lane(self) -> f32 {
        self.simd.reduce_max_f32s(self.lanes)
    }
}

macro_rules! arithmetic {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl<S: Simd> $trait for Vector<S> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self::new(self.simd, self.simd.$op(self.lanes, other.lanes))
            }
        }
    )*};
}
arithmetic!(Add add add_f32s, Sub sub sub_f32s, Mul mul mul_f32s, Div div div_f32s);

impl<S: Simd> Mul<f32> for Vector<S> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, factor: f32) -> Self {
        self * self.splat_like(factor)
    }
}

impl<S: Simd> Neg for Vector<S> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::new(self.simd, self.simd.neg_f32s(self.lanes))
    }
}

/// Sums `f` over the registers of `N` slices of one length, in four running sums.
#[inline(always)]
pub fn row_sum<S: Simd, const N: usize>(
    simd: S,
    rows: [&[f32]; N],
    f: impl Fn([Vector<S>; N]) -> Vector<S>,
) -> f32 {
    let heads = rows.map(|row| S::as_simd_f32s(row).0);
    let tails = rows.map(|row| S::as_simd_f32s(row).1);
    let mut sums = [Vector::splat(simd, 0.0); 4];
    let count = heads[0].len();
    let at = |i: usize| heads.map(|head| Vector::new(simd, head[i]));
    let mut i = 0;
    while i + 4 <= count {
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = *sum + f(at(i + j));
        }
        i += 4;
    }
    while i < count {
        sums[0] = sums[0] + f(at(i));
        i += 1;
    }
    let mut total = ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
    let used = count * S::F32_LANES;
    if !tails[0].is_empty() {
        let last = f(tails.map(|tail| Vector::new(simd, simd.partial_load_f32s(tail))));
        let mut lanes = [0.0; 64];
        let len = rows[0].len() - used;
        simd.partial_store_f32s(&mut lanes[..len], last.lanes());
        total += lanes[..len].iter().sum::<f32>();
    }
    total
}
