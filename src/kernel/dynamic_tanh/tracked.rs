//! Dynamic tanh under autodiff, with its derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::{DynamicTanhBackwardOps, DynamicTanhOps, DynamicTanhSaved};
use crate::kernel::derivative::Derivative;
use crate::kernel::tracked::track;

#[derive(Clone, Debug)]
struct OfSquashed<B: Backend>(DynamicTanhSaved<B>);

impl<B: DynamicTanhBackwardOps> Derivative<B, 4> for OfSquashed<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 4]) -> [Option<FloatTensor<B>>; 4] {
        B::dynamic_tanh_backward(self.0, grad).map(Some)
    }
}

impl<B: DynamicTanhOps + DynamicTanhBackwardOps, S: CheckpointStrategy> DynamicTanhOps
    for Autodiff<B, S>
{
    fn dynamic_tanh(
        x: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let all = [x, alpha, gamma, beta];
        let nodes = all.each_ref().map(|x| x.node());
        let [x, alpha, gamma, beta] = all.map(|x| x.into_primitive());
        track::<B, S, _, 4>(nodes, |on| {
            let saved = on.then(|| DynamicTanhSaved {
                x: x.clone(),
                alpha: alpha.clone(),
                gamma: gamma.clone(),
            });
            let saved = saved.map(OfSquashed);
            (B::dynamic_tanh(x, alpha, gamma, beta), saved)
        })
    }
}
