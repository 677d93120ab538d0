//! The delta rule under autodiff, with its derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::{
    DeltaRuleBackwardOps, DeltaRuleInputs, DeltaRuleOps, DeltaRuleSaved, DeltaRuleSettings,
};
use crate::kernel::derivative::Derivative;
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::{inner, track};

#[derive(Clone, Debug)]
struct OfDeltaRule<B: Backend>(DeltaRuleSaved<B>, DeltaRuleSettings);

impl<B: DeltaRuleBackwardOps> Derivative<B, 3> for OfDeltaRule<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 3]) -> [Option<FloatTensor<B>>; 3] {
        let d = B::delta_rule_backward(self.0, grad, &self.1);
        [d.mixed, d.beta, d.decay].map(Some)
    }
}

impl<B: DeltaRuleOps + DeltaRuleBackwardOps, S: CheckpointStrategy> DeltaRuleOps
    for Autodiff<B, S>
{
    fn delta_rule(
        mixed: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        state: Maybe<Self>,
        settings: DeltaRuleSettings,
    ) -> FloatTensor<Self> {
        let nodes = [mixed.node(), beta.node(), decay.node()];
        let [mixed, beta, decay] = [mixed, beta, decay].map(|x| x.into_primitive());
        let state = inner(state);
        track::<B, S, _, 3>(nodes, |on| {
            if on {
                let inputs = DeltaRuleInputs { mixed, beta, decay };
                let saved = B::delta_rule_saving(inputs, state, &settings);
                (saved.out.clone(), Some(OfDeltaRule(saved, settings)))
            } else {
                (B::delta_rule(mixed, beta, decay, state, settings), None)
            }
        })
    }
}
