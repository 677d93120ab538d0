//! Attention with vectors by distance under autodiff, with its derivative.

use burn::backend::autodiff::{checkpoint::strategy::CheckpointStrategy, ops::NodeGuard};
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::{
    DistanceTensors, RelativeBackwardOps, RelativeOps, RelativeSaved, RelativeSettings,
    WantedGradients,
};
use crate::kernel::derivative::{Derivative, first_gradients};
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::{inner, track};

/// Number of inputs of the graph's operation: queries, keys, values, the bias, two shifts and three tables.
const INPUTS: usize = 9;

#[derive(Clone, Debug)]
struct RelativeAttention<B: Backend>(RelativeSaved<B>, RelativeSettings);

impl<B: RelativeBackwardOps> Derivative<B, INPUTS> for RelativeAttention<B> {
    fn gradients(
        self,
        grad: FloatTensor<B>,
        wanted: [bool; INPUTS],
    ) -> [Option<FloatTensor<B>>; INPUTS] {
        let Self(saved, settings) = self;
        let [_, _, _, bias, tensors @ ..] = wanted;
        let d = B::relative_attention_backward(
            saved,
            grad,
            settings,
            WantedGradients { bias, tensors },
        );
        let own = [
            Some(d.attention.q),
            Some(d.attention.k),
            Some(d.attention.v),
        ];
        first_gradients(own.into_iter().chain([d.attention.bias]).chain(d.tensors))
    }
}

impl<B: RelativeOps + RelativeBackwardOps, S: CheckpointStrategy> RelativeOps for Autodiff<B, S> {
    fn relative_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: Maybe<Self>,
        tensors: DistanceTensors<Self>,
        settings: RelativeSettings,
    ) -> FloatTensor<Self> {
        // An absent input is a constant in the graph.
        let node = |x: &Maybe<Self>| -> NodeGuard {
            match x {
                Maybe::Some(x) => x.node(),
                Maybe::None => FloatTensor::<Self>::new(q.primitive().clone()).node(),
            }
        };
        let tensors = tensors.into_array();
        let [u, v_shift, queries, keys, values] = tensors.each_ref().map(node);
        let nodes = [
            q.node(),
            k.node(),
            v.node(),
            node(&bias),
            u,
            v_shift,
            queries,
            keys,
            values,
        ];
        let [q, k, v] = [q, k, v].map(|x| x.into_primitive());
        let (bias, tensors) = (inner(bias), DistanceTensors::from_array(tensors.map(inner)));
        track::<B, S, _, INPUTS>(nodes, |on| {
            if on {
                let saved =
                    B::relative_attention_saving([q, k, v], bias, tensors, settings.clone());
                let out = saved.attention.out.clone();
                (out, Some(RelativeAttention(saved, settings)))
            } else {
                let out = B::relative_attention(q, k, v, bias, tensors, settings);
                (out, None)
            }
        })
    }
}
