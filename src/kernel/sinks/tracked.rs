//! Attention with sinks under autodiff, with its derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::SinkOps;
use super::{gradient, saving};
use crate::kernel::derivative::{Derivative, first_gradients};
use crate::kernel::extension::{AttentionSaved, AttentionSettings, BackwardOps, Maybe};
use crate::kernel::tracked::track;

#[derive(Clone, Debug)]
struct BesideSinks<B: Backend> {
    saved: AttentionSaved<B>,
    sinks: FloatTensor<B>,
    settings: AttentionSettings,
}

impl<B: BackwardOps, const N: usize> Derivative<B, N> for BesideSinks<B> {
    fn gradients(self, grad: FloatTensor<B>, wanted: [bool; N]) -> [Option<FloatTensor<B>>; N] {
        let Self {
            saved,
            sinks,
            settings,
        } = self;
        let wants = |input: usize| wanted.get(input).copied().unwrap_or_default();
        let d_sinks = wants(3).then(|| gradient::<B>(&saved, sinks, grad.clone()));
        let d = B::attention_backward(saved, grad, settings, wants(4));
        first_gradients([Some(d.q), Some(d.k), Some(d.v), d_sinks, d.bias])
    }
}

impl<B: SinkOps + BackwardOps, S: CheckpointStrategy> SinkOps for Autodiff<B, S> {
    fn attention_beside_sinks(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: Maybe<Self>,
        sinks: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        let [q_node, k_node, v_node, sinks_node] = [&q, &k, &v, &sinks].map(|x| x.node());
        let [q, k, v, sinks] = [q, k, v, sinks].map(|x| x.into_primitive());
        let run = |bias: Maybe<B>, on: bool| {
            if !on {
                let out = B::attention_beside_sinks(q, k, v, bias, sinks, settings);
                return (out, None);
            }
            let saved = saving::<B>([q, k, v], bias, sinks.clone(), settings.clone());
            let out = saved.out.clone();
            let saved = BesideSinks {
                saved,
                sinks,
                settings,
            };
            (out, Some(saved))
        };
        match bias {
            Maybe::None => {
                let nodes = [q_node, k_node, v_node, sinks_node];
                track::<B, S, _, _>(nodes, |on| run(Maybe::None, on))
            }
            Maybe::Some(bias) => {
                let nodes = [q_node, k_node, v_node, sinks_node, bias.node()];
                track::<B, S, _, _>(nodes, |on| run(Maybe::Some(bias.into_primitive()), on))
            }
        }
    }
}
