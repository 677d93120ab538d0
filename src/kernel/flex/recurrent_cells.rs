//! The gates of recurrent cells, forward and backward, for some units of one row at one position.
//!
//! Forward, the products with the inputs are overwritten by the gates computed from them; backward, the gates are
//! overwritten by their gradients. So a recurrence needs no memory besides what it saves.

use pulp::Simd;

use super::math::{sigmoid, tanh};
use super::simd::Vector;

/// The inputs and outputs of a cell's step, as slices of equal length: the units of one row.
pub struct Units<'a, const I: usize, const M: usize, const O: usize> {
    /// Slices that are read.
    pub inputs: [&'a [f32]; I],
    /// Slices that are read and replaced.
    pub changed: [&'a mut [f32]; M],
    /// Slices that are written.
    pub outputs: [&'a mut [f32]; O],
}

/// A cell's step, or its derivative, on one register of each slice.
pub trait Formula<const I: usize, const M: usize, const O: usize> {
    /// Returns the new values of the changed slices, and the outputs.
    fn at<S: Simd>(
        inputs: [Vector<S>; I],
        changed: [Vector<S>; M],
    ) -> ([Vector<S>; M], [Vector<S>; O]);
}

impl<const I: usize, const M: usize, const O: usize> Units<'_, I, M, O> {
    /// Computes `changed, outputs = formula(inputs, changed)`, register by register.
    #[inline(always)]
    pub fn update<S: Simd, F: Formula<I, M, O>>(self, simd: S, _: F) {
        let inputs = self.inputs.map(S::as_simd_f32s);
        let mut changed = self.changed.map(S::as_mut_simd_f32s);
        let mut outputs = self.outputs.map(S::as_mut_simd_f32s);
        let count = match (changed.first(), outputs.first()) {
            (Some((body, _)), _) | (None, Some((body, _))) => body.len(),
            (None, None) => return,
        };
        for i in 0..count {
            let x = std::array::from_fn(|n| Vector::new(simd, inputs[n].0[i]));
            let old = std::array::from_fn(|n| Vector::new(simd, changed[n].0[i]));
            let (new, out) = F::at(x, old);
            for (slot, value) in changed.iter_mut().zip(new) {
                slot.0[i] = value.lanes();
            }
            for (slot, value) in outputs.iter_mut().zip(out) {
                slot.0[i] = value.lanes();
            }
        }
        let rest = match (changed.first(), outputs.first()) {
            (Some((_, tail)), _) | (None, Some((_, tail))) => tail.len(),
            (None, None) => 0,
        };
        if rest == 0 {
            return;
        }
        let load = |tail: &[f32]| Vector::new(simd, simd.partial_load_f32s(tail));
        let x = std::array::from_fn(|n| load(inputs[n].1));
        let old = std::array::from_fn(|n| load(changed[n].1));
        let (new, out) = F::at(x, old);
        for (slot, value) in changed.iter_mut().zip(new) {
            simd.partial_store_f32s(slot.1, value.lanes());
        }
        for (slot, value) in outputs.iter_mut().zip(out) {
            simd.partial_store_f32s(slot.1, value.lanes());
        }
    }
}

/// Elman step. Inputs: a, W h. Output: h'.
pub struct Elman;

impl Formula<2, 0, 1> for Elman {
    #[inline(always)]
    fn at<S: Simd>(
        [a, hidden]: [Vector<S>; 2],
        _: [Vector<S>; 0],
    ) -> ([Vector<S>; 0], [Vector<S>; 1]) {
        ([], [tanh(a + hidden)])
    }
}

/// GRU step. Inputs: the three products with h, b and h. Changed: a becomes r, z, n. Outputs: W_n h + b, h'.
pub struct Gru;

impl Formula<5, 3, 2> for Gru {
    #[inline(always)]
    fn at<S: Simd>(
        [hr, hz, hn, bias, h]: [Vector<S>; 5],
        [ar, az, an]: [Vector<S>; 3],
    ) -> ([Vector<S>; 3], [Vector<S>; 2]) {
        let r = sigmoid(ar + hr);
        let z = sigmoid(az + hz);
        let inner = hn + bias;
        let n = tanh(r.mul_add(inner, an));
        ([r, z, n], [inner, z.mul_add(h - n, n)])
    }
}

/// LSTM step. Inputs: the four products with h, and c. Changed: a becomes i, f, g, o. Outputs: c', h'.
pub struct Lstm;

impl Formula<5, 4, 2> for Lstm {
    #[inline(always)]
    fn at<S: Simd>(
        [hi, hf, hg, ho, c]: [Vector<S>; 5],
        [ai, af, ag, ao]: [Vector<S>; 4],
    ) -> ([Vector<S>; 4], [Vector<S>; 2]) {
        let (i, f, o) = (sigmoid(ai + hi), sigmoid(af + hf), sigmoid(ao + ho));
        let g = tanh(ag + hg);
        let c = f.mul_add(c, i * g);
        ([i, f, g, o], [c, o * tanh(c)])
    }
}

/// Elman derivative. Inputs: the gradient of h' in two parts, and h'. The gradient of a is written. `carried` is the
/// third part of the gradient of h' and becomes the part of the gradient of h that does not come through W.
pub struct ElmanBackward;

impl Formula<3, 2, 0> for ElmanBackward {
    #[inline(always)]
    fn at<S: Simd>(
        [grad, rest, h]: [Vector<S>; 3],
        [_, carried]: [Vector<S>; 2],
    ) -> ([Vector<S>; 2], [Vector<S>; 0]) {
        let d = grad + rest + carried;
        let slope = (-h).mul_add(h, h.splat_like(1.0));
        ([d * slope, h.splat_like(0.0)], [])
    }
}

/// GRU derivative. Inputs: the gradient of h' in two parts, and h. r, z, n and W_n h + b become their gradients;
/// `carried` as in [`ElmanBackward`].
pub struct GruBackward;

impl Formula<3, 5, 0> for GruBackward {
    #[inline(always)]
    fn at<S: Simd>(
        [grad, rest, h]: [Vector<S>; 3],
        [r, z, n, inner, carried]: [Vector<S>; 5],
    ) -> ([Vector<S>; 5], [Vector<S>; 0]) {
        let one = r.splat_like(1.0);
        let d = grad + rest + carried;
        let dn = d * (one - z) * (-n).mul_add(n, one);
        let dz = d * (h - n) * z * (one - z);
        let dr = dn * inner * r * (one - r);
        ([dr, dz, dn, dn * r, d * z], [])
    }
}

/// LSTM derivative. Inputs: the gradient of h' in two parts, c' and c. i, f, g, o become their gradients, `carried`
/// is as in [`ElmanBackward`], and the gradient of c' becomes that of c.
pub struct LstmBackward;

impl Formula<4, 6, 0> for LstmBackward {
    #[inline(always)]
    fn at<S: Simd>(
        [grad, rest, new, old]: [Vector<S>; 4],
        [i, f, g, o, carried, d_c]: [Vector<S>; 6],
    ) -> ([Vector<S>; 6], [Vector<S>; 0]) {
        let one = i.splat_like(1.0);
        let d = grad + rest + carried;
        let t = tanh(new);
        let d_o = d * t * o * (one - o);
        let d_c = (d * o).mul_add((-t).mul_add(t, one), d_c);
        let d_i = d_c * g * i * (one - i);
        let d_f = d_c * old * f * (one - f);
        let d_g = d_c * i * (-g).mul_add(g, one);
        ([d_i, d_f, d_g, d_o, i.splat_like(0.0), d_c * f], [])
    }
}
