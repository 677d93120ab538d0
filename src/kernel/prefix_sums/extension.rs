//! Attention by features as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use super::{Features, Runs};
use crate::kernel::extension::Maybe;

/// The settings that are not tensors.
#[derive(Clone, Debug)]
pub struct FeatureSettings {
    /// How features are made.
    pub features: Features,
    /// Whether later keys are hidden.
    pub causal: bool,
    /// Queries and the keys that they see.
    pub runs: Runs,
}

/// The values that the backward pass needs of the forward pass.
#[derive(Clone, Debug)]
pub struct FeaturesSaved<B: Backend> {
    /// Queries, keys and values.
    pub inputs: [FloatTensor<B>; 3],
    /// Random vectors.
    pub projection: Maybe<B>,
    /// The result.
    pub out: FloatTensor<B>,
    /// The sum of each query's weights, `[B, H, Q]`.
    pub totals: FloatTensor<B>,
    /// The c of each query, `[B, H_kv, Q]`.
    pub bounds: FloatTensor<B>,
}

/// The backward half, which is never dispatched.
pub trait PrefixSumsBackwardOps: Backend {
    /// The operation that also gives what its backward pass needs.
    fn weighed_by_features_saving(
        inputs: [FloatTensor<Self>; 3],
        projection: Maybe<Self>,
        settings: &FeatureSettings,
    ) -> FeaturesSaved<Self>;
    /// Gradients of queries, keys and values.
    fn weighed_by_features_backward(
        saved: FeaturesSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &FeatureSettings,
    ) -> [FloatTensor<Self>; 3];
}

/// The operation.
#[backend_extension(Flex, Autodiff)]
pub trait PrefixSumsOps: Backend {
    /// Values weighed by products of features.
    fn weighed_by_features(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] projection: Maybe<Self>,
        settings: FeatureSettings,
    ) -> FloatTensor<Self>;
}
