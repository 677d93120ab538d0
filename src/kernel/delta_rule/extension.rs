//! The delta rule as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// Settings of a delta rule other than its tensors.
#[derive(Clone, Debug)]
pub struct DeltaRuleSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
    /// Number of heads of queries and keys.
    pub groups: usize,
    /// Width of a query and a key.
    pub n: usize,
}

/// The tensors of a delta rule that receive gradients.
#[derive(Clone, Debug)]
pub struct DeltaRuleInputs<T> {
    /// Queries, keys and values.
    pub mixed: T,
    /// β.
    pub beta: T,
    /// ln α.
    pub decay: T,
}

/// Values of the forward pass that the backward pass needs.
#[derive(Clone, Debug)]
pub struct DeltaRuleSaved<B: Backend> {
    /// The tensors that receive gradients.
    pub inputs: DeltaRuleInputs<FloatTensor<B>>,
    /// The output, followed by the last states if they were requested.
    pub out: FloatTensor<B>,
    /// States before chunks of positions. On the CPU `[chunks, n·channels]`, only for chunks that have one; on a GPU
    /// `[batch·chunks, n, channels]`.
    pub states: FloatTensor<B>,
    /// Whether a state before the first position was given.
    pub carried: bool,
    /// On a GPU, the corrections and the normalised keys and queries, `[batch, seq, mixed]`; elsewhere they are
    /// recomputed.
    pub corrections: Option<FloatTensor<B>>,
}

/// The backward half of the operation, which is never dispatched.
pub trait DeltaRuleBackwardOps: Backend {
    /// Runs [`DeltaRuleOps::delta_rule`] and keeps what its backward pass needs.
    fn delta_rule_saving(
        inputs: DeltaRuleInputs<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &DeltaRuleSettings,
    ) -> DeltaRuleSaved<Self>;
    /// Returns the gradients of a delta rule.
    fn delta_rule_backward(
        saved: DeltaRuleSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &DeltaRuleSettings,
    ) -> DeltaRuleInputs<FloatTensor<Self>>;
}

/// The forward half of the operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait DeltaRuleOps: Backend {
    /// Returns the outputs `[batch·seq, channels]`, followed by the last states `[batch·n, channels]` if the settings
    /// request them.
    fn delta_rule(
        mixed: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        #[extension_type] state: Maybe<Self>,
        settings: DeltaRuleSettings,
    ) -> FloatTensor<Self>;
}
