//! Activations and gated products, each in one pass over memory, forward and backward.

use std::mem::MaybeUninit;

use burn_flex::FlexTensor;
use pulp::Simd;

use super::buffer::{PIECE_LEN, build_uninit, contiguous, in_pieces, slice, slice_mut, tensor};
use super::math::{erf, exp, sigmoid, tanh};
use super::simd::{Elementwise, Vector, map_in_place, map_new};
use crate::kernel::Activation;
use crate::kernel::activation::QUICK_GELU;

/// An activation as a type, so that each gets a separate loop.
trait Function: Copy + Send + Sync {
    /// Returns the value and the slope at x.
    fn both<S: Simd>(self, x: Vector<S>) -> (Vector<S>, Vector<S>);
}

#[derive(Clone, Copy)]
struct Relu;
#[derive(Clone, Copy)]
struct ReluSquared;
#[derive(Clone, Copy)]
struct Gelu;
#[derive(Clone, Copy)]
struct GeluTanh;
#[derive(Clone, Copy)]
struct Silu;
#[derive(Clone, Copy)]
struct QuickGelu;
#[derive(Clone, Copy)]
struct Sigmoid;

impl Function for Relu {
    #[inline(always)]
    fn both<S: Simd>(self, x: Vector<S>) -> (Vector<S>, Vector<S>) {
        let zero = x.splat_like(0.0);
        (
            zero.select_less(x, x, zero).unless_nan(x),
            zero.select_less(x, x.splat_like(1.0), zero),
        )
    }
}

impl Function for ReluSquared {
    #[inline(always)]
    fn both<S: Simd>(self, x: Vector<S>) -> (Vector<S>, Vector<S>) {
        let (y, _) = Relu.both(x);
        (y * y, y + y)
    }
}

impl Function for Gelu {
    #[inline(always)]
    fn both<S: Simd>(self, x: Vector<S>) -> (Vector<S>, Vector<S>) {
        /// 1/√(2π)
        const DENSITY: f32 = 0.398_942_3;
        let below = erf(x * std::f32::consts::FRAC_1_SQRT_2).affine(0.5, 0.5);
        let density = exp(x * x * -0.5) * DENSITY;
        (x * below, x.mul_add(density, below))
    }
}

impl Function for GeluTanh {
    #[inline(always)]
    fn both<S: Simd>(self, x: Vector<S>) -> (Vector<S>, Vector<S>) {
        /// √(2/π)
        const SCALE: f32 = 0.797_884_6;
        const CUBE: f32 = 0.044_715;
        let square = x * x;
        let t = tanh(square.affine(SCALE * CUBE, SCALE) * x);
        let below = t.affine(0.5, 0.5);
        let slope = square.affine(3.0 * SCALE * CUBE, SCALE);
        let rest = (x.splat_like(1.0) - t * t) * slope * x * 0.5;
        (x * below, below + rest)
    }
}

impl Function for Silu {
    #[inline(always)]
    fn both<S: Simd>(self, x: Vector<S>) -> (Vector<S>, Vector<S>) {
        let s = sigmoid(x);
        let one = x.splat_like(1.0);
        (x * s, s * x.mul_add(one - s, one))
    }
}

impl Function for QuickGelu {
    #[inline(always)]
    fn both<S: Simd>(self, x: Vector<S>) -> (Vector<S>, Vector<S>) {
        let steep = x * QUICK_GELU;
        let s = sigmoid(steep);
        let one = x.splat_like(1.0);
        (x * s, s * steep.mul_add(one - s, one))
    }
}

impl Function for Sigmoid {
    #[inline(always)]
    fn both<S: Simd>(self, x: Vector<S>) -> (Vector<S>, Vector<S>) {
        let s = sigmoid(x);
        (s, s * (x.splat_like(1.0) - s))
    }
}

/// `f(x)`, times a factor if there is one.
#[derive(Clone, Copy)]
struct Value<F>(F);

/// `f'(x)` times the gradient, and times the other side of a gated product if there is one.
#[derive(Clone, Copy)]
struct Slope<F>(F);

impl<F: Function> Elementwise<1> for Value<F> {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
        self.0.both(x).0
    }
}

impl<F: Function> Elementwise<2> for Value<F> {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x, factor]: [Vector<S>; 2]) -> Vector<S> {
        self.0.both(x).0 * factor
    }
}

impl<F: Function> Elementwise<2> for Slope<F> {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x, grad]: [Vector<S>; 2]) -> Vector<S> {
        self.0.both(x).1 * grad
    }
}

impl<F: Function> Elementwise<3> for Slope<F> {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x, up, grad]: [Vector<S>; 3]) -> Vector<S> {
        self.0.both(x).1 * (up * grad)
    }
}

/// Calls `$body` with `$f` bound to the activation's type.
macro_rules! with_function {
    ($activation:expr, $f:ident => $body:expr) => {
        match $activation {
            Activation::Relu => {
                let $f = Relu;
                $body
            }
            Activation::Gelu => {
                let $f = Gelu;
                $body
            }
            Activation::GeluTanh => {
                let $f = GeluTanh;
                $body
            }
            Activation::Silu => {
                let $f = Silu;
                $body
            }
            Activation::ReluSquared => {
                let $f = ReluSquared;
                $body
            }
            Activation::QuickGelu => {
                let $f = QuickGelu;
                $body
            }
            Activation::Sigmoid => {
                let $f = Sigmoid;
                $body
            }
        }
    };
}

/// Returns `f(x)`, in place if possible.
pub fn forward(x: FlexTensor, activation: Activation) -> FlexTensor {
    with_function!(activation, f => elementwise::<1, 0, _>(Value(f), x, []))
}

/// Returns `f'(x)·grad`.
pub fn backward(x: FlexTensor, grad: FlexTensor, activation: Activation) -> FlexTensor {
    with_function!(activation, f => elementwise::<2, 1, _>(Slope(f), x, [grad]))
}

/// Returns `f(gate)·up`.
pub fn gated(gate: FlexTensor, up: FlexTensor, activation: Activation) -> FlexTensor {
    with_function!(activation, f => elementwise::<2, 1, _>(Value(f), gate, [up]))
}

/// Returns the gradients of gate and up.
pub fn gated_backward(
    gate: FlexTensor,
    up: FlexTensor,
    grad: FlexTensor,
    activation: Activation,
) -> [FlexTensor; 2] {
    with_function!(activation, f => {
        let (gate, grad) = (contiguous(gate), contiguous(grad));
        let d_up = elementwise::<2, 1, _>(Value(f), gate.clone(), [grad.clone()]);
        [elementwise::<3, 2, _>(Slope(f), gate, [up, grad]), d_up]
    })
}

/// Returns `f(x, others…)` of tensors of one shape; overwrites x if nothing else refers to its buffer.
pub fn elementwise<const N: usize, const M: usize, F: Elementwise<N>>(
    f: F,
    x: FlexTensor,
    others: [FlexTensor; M],
) -> FlexTensor {
    const { assert!(N == M + 1) };
    let mut x = contiguous(x);
    let others = others.map(contiguous);
    if let Some(io) = slice_mut(&mut x) {
        in_pieces(io, PIECE_LEN, |first, piece| {
            let range = first..first + piece.len();
            let others = std::array::from_fn::<_, M, _>(|i| &slice(&others[i])[range.clone()]);
            map_in_place(f, piece, others);
        });
        return x;
    }
    let work = |first: usize, piece: &mut [MaybeUninit<f32>]| {
        let range = first..first + piece.len();
        let inputs = std::array::from_fn::<_, N, _>(|i| {
            let input = if i == 0 { &x } else { &others[i - 1] };
            &slice(input)[range.clone()]
        });
        map_new(f, inputs, piece);
    };
    // SAFETY: `map_new` writes all of a piece.
    let out = unsafe { build_uninit(slice(&x).len(), PIECE_LEN, work) };
    tensor(out, x.layout().shape().clone())
}
