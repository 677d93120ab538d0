//! The state space by heads under autodiff, with its derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::{SsdBackwardOps, SsdInputs, SsdOps, SsdSaved, SsdSettings};
use crate::kernel::derivative::Derivative;
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::{inner, track};

#[derive(Clone, Debug)]
struct OfSsd<B: Backend>(SsdSaved<B>, SsdSettings);

impl<B: SsdBackwardOps> Derivative<B, 4> for OfSsd<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 4]) -> [Option<FloatTensor<B>>; 4] {
        let d = B::ssd_backward(self.0, grad, &self.1);
        [d.mixed, d.raw, d.decay, d.skip].map(Some)
    }
}

impl<B: SsdOps + SsdBackwardOps, S: CheckpointStrategy> SsdOps for Autodiff<B, S> {
    fn ssd(
        mixed: FloatTensor<Self>,
        raw: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        skip: FloatTensor<Self>,
        state: Maybe<Self>,
        settings: SsdSettings,
    ) -> FloatTensor<Self> {
        let all = [mixed, raw, decay, skip];
        let nodes = all.each_ref().map(|x| x.node());
        let [mixed, raw, decay, skip] = all.map(|x| x.into_primitive());
        let state = inner(state);
        track::<B, S, _, 4>(nodes, |on| {
            if on {
                let inputs = SsdInputs {
                    mixed,
                    raw,
                    decay,
                    skip,
                };
                let saved = B::ssd_saving(inputs, state, &settings);
                (saved.out.clone(), Some(OfSsd(saved, settings)))
            } else {
                (B::ssd(mixed, raw, decay, skip, state, settings), None)
            }
        })
    }
}
