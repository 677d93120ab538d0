//! The grouped operations under autodiff, with their derivatives.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::Groups;
use super::extension::{GroupedBackwardOps, GroupedOps};
use crate::kernel::derivative::{Derivative, first_gradients};
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::track;

/// Derivative of gathering: a token's gradient is the sum of its rows' gradients.
#[derive(Clone, Debug)]
struct Gathered(Groups);

impl<B: GroupedOps> Derivative<B, 1> for Gathered {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 1]) -> [Option<FloatTensor<B>>; 1] {
        [Some(B::combined(grad, Maybe::None, self.0))]
    }
}

#[derive(Clone, Debug)]
struct GroupedAffine<B: Backend> {
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    groups: Groups,
}

impl<B: GroupedBackwardOps, const N: usize> Derivative<B, N> for GroupedAffine<B> {
    fn gradients(self, grad: FloatTensor<B>, wanted: [bool; N]) -> [Option<FloatTensor<B>>; N] {
        let Self { x, weight, groups } = self;
        let bias =
            (N > 2 && wanted[N - 1]).then(|| B::grouped_bias_gradient(grad.clone(), &groups));
        let of_weight = wanted[1].then(|| B::grouped_weight_gradient(x, grad.clone(), &groups));
        let of_x = wanted[0].then(|| B::grouped_input_gradient(grad, weight, &groups));
        first_gradients([of_x, of_weight, bias])
    }
}

/// Derivative of the weighted sums.
#[derive(Clone, Debug)]
struct Combined<B: Backend> {
    y: FloatTensor<B>,
    weights: FloatTensor<B>,
    groups: Groups,
}

impl<B: GroupedBackwardOps> Derivative<B, 2> for Combined<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 2]) -> [Option<FloatTensor<B>>; 2] {
        B::combined_backward(self.y, self.weights, grad, &self.groups).map(Some)
    }
}

/// Derivative of the unweighted sums: a row's gradient is its token's.
#[derive(Clone, Debug)]
struct Added(Groups);

impl<B: GroupedOps> Derivative<B, 1> for Added {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 1]) -> [Option<FloatTensor<B>>; 1] {
        [Some(B::gathered(grad, self.0))]
    }
}

impl<B: GroupedOps + GroupedBackwardOps, S: CheckpointStrategy> GroupedOps for Autodiff<B, S> {
    fn gathered(x: FloatTensor<Self>, groups: Groups) -> FloatTensor<Self> {
        track::<B, S, _, _>([x.node()], |_| {
            let out = B::gathered(x.into_primitive(), groups.clone());
            (out, Some(Gathered(groups)))
        })
    }

    fn grouped_affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Maybe<Self>,
        groups: Groups,
    ) -> FloatTensor<Self> {
        let (x_node, weight_node) = (x.node(), weight.node());
        let (x, weight) = (x.into_primitive(), weight.into_primitive());
        let run = |bias: Maybe<B>, on: bool| {
            let saved = on.then(|| GroupedAffine::<B> {
                x: x.clone(),
                weight: weight.clone(),
                groups: groups.clone(),
            });
            (B::grouped_affine(x, weight, bias, groups), saved)
        };
        match bias {
            Maybe::None => track::<B, S, _, _>([x_node, weight_node], |on| run(Maybe::None, on)),
            Maybe::Some(bias) => {
                let nodes = [x_node, weight_node, bias.node()];
                track::<B, S, _, _>(nodes, |on| run(Maybe::Some(bias.into_primitive()), on))
            }
        }
    }

    fn combined(y: FloatTensor<Self>, weights: Maybe<Self>, groups: Groups) -> FloatTensor<Self> {
        match weights {
            Maybe::None => track::<B, S, _, _>([y.node()], |_| {
                let out = B::combined(y.into_primitive(), Maybe::None, groups.clone());
                (out, Some(Added(groups)))
            }),
            Maybe::Some(weights) => track::<B, S, _, _>([y.node(), weights.node()], |on| {
                let (y, weights) = (y.into_primitive(), weights.into_primitive());
                let saved = on.then(|| Combined::<B> {
                    y: y.clone(),
                    weights: weights.clone(),
                    groups: groups.clone(),
                });
                (B::combined(y, Maybe::Some(weights), groups), saved)
            }),
        }
    }
}
