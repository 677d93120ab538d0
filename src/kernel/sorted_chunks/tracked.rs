//! Sorted chunks under autodiff, with their derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::SortedSettings;
use super::extension::{SortedBackwardOps, SortedOps, SortedSaved};
use crate::kernel::derivative::Derivative;
use crate::kernel::tracked::track;

#[derive(Clone, Debug)]
struct SortedAttention<B: Backend>(SortedSaved<B>, SortedSettings);

impl<B: SortedBackwardOps> Derivative<B, 3> for SortedAttention<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 3]) -> [Option<FloatTensor<B>>; 3] {
        B::sorted_attention_backward(self.0, grad, &self.1).map(Some)
    }
}

impl<B: SortedOps + SortedBackwardOps, S: CheckpointStrategy> SortedOps for Autodiff<B, S> {
    fn sorted_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: SortedSettings,
    ) -> FloatTensor<Self> {
        let nodes = [q.node(), k.node(), v.node()];
        let inputs = [q, k, v].map(|x| x.into_primitive());
        track::<B, S, _, _>(nodes, |on| {
            if on {
                let saved = B::sorted_attention_saving(inputs, &settings);
                (saved.out.clone(), Some(SortedAttention(saved, settings)))
            } else {
                let [q, k, v] = inputs;
                (B::sorted_attention(q, k, v, settings), None)
            }
        })
    }
}
