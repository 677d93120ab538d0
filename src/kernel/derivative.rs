//! The derivative of every fused operation: the values it saves, and how it computes gradients through
//! [`BackwardOps`].

use std::fmt::Debug;

use burn::backend::autodiff::{
    checkpoint::base::Checkpointer,
    grads::Gradients,
    ops::{Backward, Ops},
};
use burn::backend::{
    Backend, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};

use super::extension::{
    ActivatedSaved, AttentionSaved, AttentionSettings, BackwardOps, HeadLossSaved, KernelOps,
    Maybe, NormSettings,
};
use super::{Activation, ConvolutionSettings, DropKey};

/// The derivative of an operation with `N` float inputs.
pub(super) trait Derivative<B: Backend, const N: usize>:
    Clone + Send + Debug + 'static
{
    /// Returns the inputs' gradients given the output's; `wanted` tells which ones are used.
    fn gradients(self, grad: FloatTensor<B>, wanted: [bool; N]) -> [Option<FloatTensor<B>>; N];
}

/// A derivative as a step of Burn's graph. The derivative itself is the step's state.
#[derive(Debug)]
pub(super) struct Step<D>(pub(super) std::marker::PhantomData<fn() -> D>);

impl<B: Backend, const N: usize, D: Derivative<B, N>> Backward<B, N> for Step<D> {
    type State = D;

    fn backward(self, ops: Ops<D, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let wanted = std::array::from_fn(|i| ops.parents[i].is_some());
        let gradients = ops.state.gradients(grad, wanted);
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let (Some(node), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

/// Takes the first `N` gradients.
pub(super) fn first_gradients<T, const N: usize>(
    all: impl IntoIterator<Item = Option<T>>,
) -> [Option<T>; N] {
    let mut all = all.into_iter();
    std::array::from_fn(|_| all.next().flatten())
}

#[derive(Clone, Debug)]
pub(super) struct Linear<B: Backend> {
    /// The map's input, in bfloat16 if products round their operands.
    pub(super) x: FloatTensor<B>,
    pub(super) weight: FloatTensor<B>,
}

impl<B: KernelOps + BackwardOps, const N: usize> Derivative<B, N> for Linear<B> {
    fn gradients(self, grad: FloatTensor<B>, wanted: [bool; N]) -> [Option<FloatTensor<B>>; N] {
        let wanted = [wanted[0], wanted[1], N > 2 && wanted[N - 1]];
        first_gradients(B::affine_backward([self.x, self.weight], grad, wanted))
    }
}

#[derive(Clone, Debug)]
pub(super) struct ActivatedLinear<B: Backend>(pub(super) ActivatedSaved<B>, pub(super) Activation);

impl<B: BackwardOps, const N: usize> Derivative<B, N> for ActivatedLinear<B> {
    fn gradients(self, grad: FloatTensor<B>, wanted: [bool; N]) -> [Option<FloatTensor<B>>; N] {
        let wanted = [wanted[0], wanted[1], N > 2 && wanted[N - 1]];
        first_gradients(B::activated_affine_backward(self.0, grad, self.1, wanted))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Add;

impl<B: Backend> Derivative<B, 2> for Add {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 2]) -> [Option<FloatTensor<B>>; 2] {
        [Some(grad.clone()), Some(grad)]
    }
}

/// Derivative of `x` plus the dropped `y`.
#[derive(Clone, Debug)]
pub(super) struct DroppedOnto(pub(super) DropKey);

impl<B: KernelOps> Derivative<B, 2> for DroppedOnto {
    fn gradients(self, grad: FloatTensor<B>, wanted: [bool; 2]) -> [Option<FloatTensor<B>>; 2] {
        let y = wanted[1].then(|| B::dropped(grad.clone(), self.0, false));
        [Some(grad), y]
    }
}

#[derive(Clone, Debug)]
pub(super) struct Norm<B: Backend> {
    pub(super) x: FloatTensor<B>,
    pub(super) gamma: Maybe<B>,
    pub(super) settings: NormSettings,
}

impl<B: BackwardOps, const N: usize> Derivative<B, N> for Norm<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; N]) -> [Option<FloatTensor<B>>; N] {
        first_gradients(B::norm_backward(self.x, self.gamma, grad, self.settings).map(Some))
    }
}

/// Derivative of the norm of `factor·x + y`: the norm's gradient at the sum goes to both terms.
#[derive(Clone, Debug)]
pub(super) struct NormOfSum<B: Backend>(pub(super) Norm<B>, pub(super) f64);

impl<B: BackwardOps, const N: usize> Derivative<B, N> for NormOfSum<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; N]) -> [Option<FloatTensor<B>>; N] {
        let Self(Norm { x, gamma, settings }, factor) = self;
        let [y, gamma, beta] = B::norm_backward(x, gamma, grad, settings);
        let x = match factor {
            1.0 => y.clone(),
            _ => B::float_mul_scalar(y.clone(), factor.into()),
        };
        first_gradients([x, y, gamma, beta].map(Some))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Activated<B: Backend>(pub(super) FloatTensor<B>, pub(super) Activation);

impl<B: BackwardOps> Derivative<B, 1> for Activated<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 1]) -> [Option<FloatTensor<B>>; 1] {
        [Some(B::activation_backward(self.0, grad, self.1))]
    }
}

#[derive(Clone, Debug)]
pub(super) struct Gated<B: Backend> {
    pub(super) gate: FloatTensor<B>,
    pub(super) up: FloatTensor<B>,
    pub(super) activation: Activation,
}

impl<B: BackwardOps> Derivative<B, 2> for Gated<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 2]) -> [Option<FloatTensor<B>>; 2] {
        B::gated_backward(self.gate, self.up, grad, self.activation).map(Some)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Attention<B: Backend>(pub(super) AttentionSaved<B>, pub(super) AttentionSettings);

impl<B: BackwardOps, const N: usize> Derivative<B, N> for Attention<B> {
    fn gradients(self, grad: FloatTensor<B>, wanted: [bool; N]) -> [Option<FloatTensor<B>>; N] {
        let bias = wanted.get(3).copied().unwrap_or_default();
        let d = B::attention_backward(self.0, grad, self.1, bias);
        first_gradients([Some(d.q), Some(d.k), Some(d.v), d.bias])
    }
}

#[derive(Clone, Debug)]
pub(super) struct Dropped(pub(super) DropKey, pub(super) bool);

impl<B: KernelOps> Derivative<B, 1> for Dropped {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 1]) -> [Option<FloatTensor<B>>; 1] {
        [Some(B::dropped(grad, self.0, self.1))]
    }
}

#[derive(Clone, Debug)]
pub(super) struct CrossEntropy<B: Backend>(pub(super) FloatTensor<B>);

impl<B: BackwardOps> Derivative<B, 1> for CrossEntropy<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 1]) -> [Option<FloatTensor<B>>; 1] {
        [Some(B::scaled(self.0, grad))]
    }
}

#[derive(Clone, Debug)]
pub(super) struct HeadLoss<B: Backend>(pub(super) HeadLossSaved<B>);

impl<B: BackwardOps, const N: usize> Derivative<B, N> for HeadLoss<B> {
    fn gradients(self, grad: FloatTensor<B>, wanted: [bool; N]) -> [Option<FloatTensor<B>>; N] {
        let Self(saved) = self;
        let all = [Some(saved.hidden), Some(saved.weight), saved.bias];
        let all = all.into_iter().zip(wanted);
        first_gradients(
            all.map(|(x, wanted)| x.filter(|_| wanted).map(|x| B::scaled(x, grad.clone()))),
        )
    }
}

#[derive(Clone, Debug)]
pub(super) struct Rotated<B: Backend> {
    pub(super) cos: FloatTensor<B>,
    pub(super) sin: FloatTensor<B>,
    pub(super) interleaved: bool,
    pub(super) opposite: bool,
}

impl<B: KernelOps> Derivative<B, 1> for Rotated<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 1]) -> [Option<FloatTensor<B>>; 1] {
        let Self {
            cos,
            sin,
            interleaved,
            opposite,
        } = self;
        [Some(B::rotate(grad, cos, sin, interleaved, !opposite))]
    }
}

#[derive(Clone, Debug)]
pub(super) struct Rows<B: Backend>(pub(super) IntTensor<B>, pub(super) usize);

impl<B: BackwardOps> Derivative<B, 1> for Rows<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 1]) -> [Option<FloatTensor<B>>; 1] {
        [Some(B::rows_backward(self.0, grad, self.1))]
    }
}

#[derive(Clone, Debug)]
pub(super) struct Convolved<B: Backend> {
    pub(super) x: FloatTensor<B>,
    pub(super) weight: FloatTensor<B>,
    pub(super) settings: ConvolutionSettings,
}

impl<B: BackwardOps> Derivative<B, 2> for Convolved<B> {
    fn gradients(self, grad: FloatTensor<B>, wanted: [bool; 2]) -> [Option<FloatTensor<B>>; 2] {
        let Self {
            x,
            weight,
            settings,
        } = self;
        let (input, window) = (x.shape().dims(), weight.shape().dims());
        let of_input =
            wanted[0].then(|| B::convolved_input_gradient(weight, grad.clone(), input, settings));
        let of_weight = wanted[1].then(|| B::convolved_weight_gradient(x, grad, window, settings));
        [of_input, of_weight]
    }
}
