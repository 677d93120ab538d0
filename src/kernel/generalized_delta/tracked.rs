//! The generalised delta rule under autodiff, with its derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::{
    GeneralizedDeltaBackwardOps, GeneralizedDeltaInputs, GeneralizedDeltaOps,
    GeneralizedDeltaSaved, GeneralizedDeltaSettings,
};
use crate::kernel::derivative::Derivative;
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::{inner, track};

#[derive(Clone, Debug)]
struct OfGeneralizedDelta<B: Backend>(GeneralizedDeltaSaved<B>, GeneralizedDeltaSettings);

impl<B: GeneralizedDeltaBackwardOps> Derivative<B, 6> for OfGeneralizedDelta<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 6]) -> [Option<FloatTensor<B>>; 6] {
        let d = B::generalized_delta_backward(self.0, grad, &self.1);
        [d.r, d.decay, d.k, d.v, d.a, d.b].map(Some)
    }
}

impl<B: GeneralizedDeltaOps + GeneralizedDeltaBackwardOps, S: CheckpointStrategy>
    GeneralizedDeltaOps for Autodiff<B, S>
{
    fn generalized_delta(
        r: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        state: Maybe<Self>,
        settings: GeneralizedDeltaSettings,
    ) -> FloatTensor<Self> {
        let all = [r, decay, k, v, a, b];
        let nodes = all.each_ref().map(|x| x.node());
        let [r, decay, k, v, a, b] = all.map(|x| x.into_primitive());
        let state = inner(state);
        track::<B, S, _, 6>(nodes, |on| {
            if on {
                let inputs = GeneralizedDeltaInputs {
                    r,
                    decay,
                    k,
                    v,
                    a,
                    b,
                };
                let (out, saved) = B::generalized_delta_saving(inputs, state, &settings);
                (out, Some(OfGeneralizedDelta(saved, settings)))
            } else {
                let out = B::generalized_delta(r, decay, k, v, a, b, state, settings);
                (out, None)
            }
        })
    }
}
