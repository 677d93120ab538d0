//! The selective scan under autodiff, with its derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::{
    ScanInputs, ScanSaved, ScanSettings, SelectiveScanBackwardOps, SelectiveScanOps,
};
use crate::kernel::derivative::Derivative;
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::{inner, track};

#[derive(Clone, Debug)]
struct OfScan<B: Backend>(ScanSaved<B>, ScanSettings);

impl<B: SelectiveScanBackwardOps> Derivative<B, 6> for OfScan<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 6]) -> [Option<FloatTensor<B>>; 6] {
        let d = B::selective_scan_backward(self.0, grad, &self.1);
        [d.u, d.raw, d.gate, d.decay, d.directions, d.skip].map(Some)
    }
}

impl<B: SelectiveScanOps + SelectiveScanBackwardOps, S: CheckpointStrategy> SelectiveScanOps
    for Autodiff<B, S>
{
    fn selective_scan(
        u: FloatTensor<Self>,
        raw: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        directions: FloatTensor<Self>,
        skip: FloatTensor<Self>,
        state: Maybe<Self>,
        settings: ScanSettings,
    ) -> FloatTensor<Self> {
        let all = [u, raw, gate, decay, directions, skip];
        let nodes = all.each_ref().map(|x| x.node());
        let [u, raw, gate, decay, directions, skip] = all.map(|x| x.into_primitive());
        let state = inner(state);
        track::<B, S, _, 6>(nodes, |on| {
            if on {
                let inputs = ScanInputs {
                    u,
                    raw,
                    gate,
                    decay,
                    directions,
                    skip,
                };
                let (out, saved) = B::selective_scan_saving(inputs, state, &settings);
                (out, Some(OfScan(saved, settings)))
            } else {
                let out = B::selective_scan(u, raw, gate, decay, directions, skip, state, settings);
                (out, None)
            }
        })
    }
}
