//! RWKV's weighted average under autodiff, with its derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::{WkvBackwardOps, WkvInputs, WkvOps, WkvSaved, WkvSettings};
use crate::kernel::derivative::Derivative;
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::{inner, track};

#[derive(Clone, Debug)]
struct OfAverage<B: Backend>(WkvSaved<B>, WkvSettings);

impl<B: WkvBackwardOps> Derivative<B, 5> for OfAverage<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 5]) -> [Option<FloatTensor<B>>; 5] {
        let d = B::wkv_backward(self.0, grad, &self.1);
        [d.r, d.k, d.v, d.decay, d.bonus].map(Some)
    }
}

impl<B: WkvOps + WkvBackwardOps, S: CheckpointStrategy> WkvOps for Autodiff<B, S> {
    fn wkv(
        r: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        first: FloatTensor<Self>,
        state: Maybe<Self>,
        settings: WkvSettings,
    ) -> FloatTensor<Self> {
        let all = [r, k, v, decay, first];
        let nodes = all.each_ref().map(|x| x.node());
        let [r, k, v, decay, first] = all.map(|x| x.into_primitive());
        let state = inner(state);
        track::<B, S, _, 5>(nodes, |on| {
            if on {
                let inputs = WkvInputs {
                    r,
                    k,
                    v,
                    decay,
                    bonus: first,
                };
                let (out, saved) = B::wkv_saving(inputs, state, &settings);
                (out, Some(OfAverage(saved, settings)))
            } else {
                (B::wkv(r, k, v, decay, first, state, settings), None)
            }
        })
    }
}
