//! Elementwise functions over whole slices, one register at a time.

use std::mem::MaybeUninit;

use pulp::{Simd, WithSimd};

use super::buffer::fill_zeros;
use super::simd::{Vector, run};

/// An elementwise function of `N` inputs.
pub trait Elementwise<const N: usize>: Copy + Send + Sync {
    /// Applies the function to one register of each input.
    fn apply<S: Simd>(self, simd: S, inputs: [Vector<S>; N]) -> Vector<S>;
}

/// Computes `out[i] = f(inputs[0][i], …)`; every slice has the length of `out`.
pub fn map<const N: usize, F: Elementwise<N>>(f: F, inputs: [&[f32]; N], out: &mut [f32]) {
    struct Kernel<'a, F, const N: usize>(F, [&'a [f32]; N], &'a mut [f32]);
    impl<F: Elementwise<N>, const N: usize> WithSimd for Kernel<'_, F, N> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Self(f, inputs, out) = self;
            let len = out.len();
            let inputs = inputs.map(|x| &x[..len]);
            let (body, tail) = S::as_mut_simd_f32s(out);
            let heads = inputs.map(|x| S::as_simd_f32s(x).0);
            let tails = inputs.map(|x| S::as_simd_f32s(x).1);
            for (i, slot) in body.iter_mut().enumerate() {
                let x = heads.map(|h| Vector::new(simd, h[i]));
                *slot = f.apply(simd, x).lanes();
            }
            if !tail.is_empty() {
                let x = tails.map(|t| Vector::new(simd, simd.partial_load_f32s(t)));
                simd.partial_store_f32s(tail, f.apply(simd, x).lanes());
            }
        }
    }
    run(Kernel(f, inputs, out));
}

/// Like [`map`], into uninitialised memory, all of which is written.
pub fn map_new<const N: usize, F: Elementwise<N>>(
    f: F,
    inputs: [&[f32]; N],
    out: &mut [MaybeUninit<f32>],
) {
    struct Kernel<'a, F, const N: usize>(F, [&'a [f32]; N], &'a mut [MaybeUninit<f32>]);
    impl<F: Elementwise<N>, const N: usize> WithSimd for Kernel<'_, F, N> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Self(f, inputs, out) = self;
            let inputs = inputs.map(|x| &x[..out.len()]);
            let heads = inputs.map(|x| S::as_simd_f32s(x).0);
            let tails = inputs.map(|x| S::as_simd_f32s(x).1);
            let count = out.len() / S::F32_LANES;
            let (body, tail) = out.split_at_mut(count * S::F32_LANES);
            let at = body.as_mut_ptr().cast::<S::f32s>();
            for i in 0..count {
                let x = heads.map(|h| Vector::new(simd, h[i]));
                // SAFETY: the body has `count` registers, and this is register i.
                unsafe { at.add(i).write_unaligned(f.apply(simd, x).lanes()) };
            }
            if !tail.is_empty() {
                let x = tails.map(|t| Vector::new(simd, simd.partial_load_f32s(t)));
                simd.partial_store_f32s(fill_zeros(tail), f.apply(simd, x).lanes());
            }
        }
    }
    run(Kernel(f, inputs, out));
}

/// Computes `io[i] = f(io[i], others[0][i], …)` for functions of one input more than `others` has.
pub fn map_in_place<const N: usize, const M: usize, F: Elementwise<N>>(
    f: F,
    io: &mut [f32],
    others: [&[f32]; M],
) {
    struct Kernel<'a, F, const N: usize, const M: usize>(F, &'a mut [f32], [&'a [f32]; M]);
    impl<F: Elementwise<N>, const N: usize, const M: usize> WithSimd for Kernel<'_, F, N, M> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            const { assert!(N == M + 1) };
            let Self(f, io, others) = self;
            let len = io.len();
            let others = others.map(|x| &x[..len]);
            let (body, tail) = S::as_mut_simd_f32s(io);
            let heads = others.map(|x| S::as_simd_f32s(x).0);
            let tails = others.map(|x| S::as_simd_f32s(x).1);
            for (i, slot) in body.iter_mut().enumerate() {
                let x = std::array::from_fn(|n| {
                    Vector::new(simd, if n == 0 { *slot } else { heads[n - 1][i] })
                });
                *slot = f.apply(simd, x).lanes();
            }
            if !tail.is_empty() {
                let x = std::array::from_fn(|n| {
                    let part: &[f32] = if n == 0 { tail } else { tails[n - 1] };
                    Vector::new(simd, simd.partial_load_f32s(part))
                });
                simd.partial_store_f32s(tail, f.apply(simd, x).lanes());
            }
        }
    }
    run(Kernel(f, io, others));
}
