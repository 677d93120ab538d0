//! Attention by features under autodiff, with its derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::{FeatureSettings, FeaturesSaved, PrefixSumsBackwardOps, PrefixSumsOps};
use crate::kernel::derivative::Derivative;
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::{inner, track};

#[derive(Clone, Debug)]
struct Weighed<B: Backend>(FeaturesSaved<B>, FeatureSettings);

impl<B: PrefixSumsBackwardOps> Derivative<B, 3> for Weighed<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 3]) -> [Option<FloatTensor<B>>; 3] {
        B::weighed_by_features_backward(self.0, grad, &self.1).map(Some)
    }
}

impl<B: PrefixSumsOps + PrefixSumsBackwardOps, S: CheckpointStrategy> PrefixSumsOps
    for Autodiff<B, S>
{
    fn weighed_by_features(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        projection: Maybe<Self>,
        settings: FeatureSettings,
    ) -> FloatTensor<Self> {
        let nodes = [q.node(), k.node(), v.node()];
        let [q, k, v] = [q, k, v].map(|x| x.into_primitive());
        let projection = inner(projection);
        track::<B, S, _, 3>(nodes, |on| {
            if on {
                let saved = B::weighed_by_features_saving([q, k, v], projection, &settings);
                (saved.out.clone(), Some(Weighed(saved, settings)))
            } else {
                let out = B::weighed_by_features(q, k, v, projection, settings);
                (out, None)
            }
        })
    }
}
