//! Attention by features as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use super::{Features, QueryRuns};
use crate::kernel::extension::Maybe;

/// Settings other than the tensors.
#[derive(Clone, Debug)]
pub struct FeatureSettings {
    /// Kind of the features.
    pub features: Features,
    /// Whether later keys are masked.
    pub causal: bool,
    /// Queries and the keys that they see.
    pub runs: QueryRuns,
}

/// Values of the forward pass that the backward pass needs.
#[derive(Clone, Debug)]
pub struct FeaturesSaved<B: Backend> {
    /// Queries, keys and values.
    pub inputs: [FloatTensor<B>; 3],
    /// Random vectors of the projection.
    pub projection: Maybe<B>,
    /// The output.
    pub out: FloatTensor<B>,
    /// Sum of each query's weights, `[B, H, Q]`.
    pub totals: FloatTensor<B>,
    /// c of each query, `[B, H_kv, Q]`.
    pub bounds: FloatTensor<B>,
}

/// The backward half of the operation, which is never dispatched.
pub trait PrefixSumsBackwardOps: Backend {
    /// Runs the operation and keeps what its backward pass needs.
    fn weighed_by_features_saving(
        inputs: [FloatTensor<Self>; 3],
        projection: Maybe<Self>,
        settings: &FeatureSettings,
    ) -> FeaturesSaved<Self>;
    /// Returns the gradients of queries, keys and values.
    fn weighed_by_features_backward(
        saved: FeaturesSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &FeatureSettings,
    ) -> [FloatTensor<Self>; 3];
}

/// The forward half of the operation.
#[backend_extension(Flex, Autodiff)]
pub trait PrefixSumsOps: Backend {
    /// Attention with weights that are products of features.
    fn weighed_by_features(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] projection: Maybe<Self>,
        settings: FeatureSettings,
    ) -> FloatTensor<Self>;
}
