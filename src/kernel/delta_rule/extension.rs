//! The delta rule as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// The parts of a delta rule beside its tensors.
#[derive(Clone, Debug)]
pub struct DeltaRuleSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
    /// Heads of queries and keys.
    pub groups: usize,
    /// Numbers of a query and of a key.
    pub n: usize,
}

/// The tensors of a delta rule that gradients go to.
#[derive(Clone, Debug)]
pub struct DeltaRuleInputs<T> {
    /// Queries, keys and values.
    pub mixed: T,
    /// β.
    pub beta: T,
    /// ln α.
    pub decay: T,
}

/// The values that the backward pass needs of the forward pass.
#[derive(Clone, Debug)]
pub struct DeltaRuleSaved<B: Backend> {
    /// The tensors that gradients go to.
    pub inputs: DeltaRuleInputs<FloatTensor<B>>,
    /// The result.
    pub out: FloatTensor<B>,
    /// States before chunks of positions: `[chunks, n·channels]` of those that have one on the CPU, `[batch·chunks, n, channels]` on a GPU.
    pub states: FloatTensor<B>,
    /// Whether there was a state before the first position.
    pub carried: bool,
    /// On a GPU the corrections, keys and queries of length 1, `[batch, seq, mixed]`; made once more elsewhere.
    pub corrections: Option<FloatTensor<B>>,
}

/// The backward half, which is never dispatched.
pub trait DeltaRuleBackwardOps: Backend {
    /// [`DeltaRuleOps::delta_rule`] that also gives what its backward pass needs.
    fn delta_rule_saving(
        inputs: DeltaRuleInputs<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &DeltaRuleSettings,
    ) -> DeltaRuleSaved<Self>;
    /// Gradients of a delta rule.
    fn delta_rule_backward(
        saved: DeltaRuleSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &DeltaRuleSettings,
    ) -> DeltaRuleInputs<FloatTensor<Self>>;
}

/// The operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait DeltaRuleOps: Backend {
    /// Outputs `[batch·seq, channels]`, then `[batch·n, channels]` of the last states when the settings ask for them.
    fn delta_rule(
        mixed: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        #[extension_type] state: Maybe<Self>,
        settings: DeltaRuleSettings,
    ) -> FloatTensor<Self>;
}
