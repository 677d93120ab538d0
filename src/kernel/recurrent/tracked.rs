//! Recurrences under autodiff, with their derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::RecurrenceSettings;
use super::extension::{RecurrenceBackwardOps, RecurrenceOps, RecurrenceSaved};
use crate::kernel::derivative::{Derivative, first_gradients};
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::track;

#[derive(Clone, Debug)]
struct Recurrence<B: Backend>(RecurrenceSaved<B>, RecurrenceSettings);

impl<B: RecurrenceBackwardOps, const N: usize> Derivative<B, N> for Recurrence<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; N]) -> [Option<FloatTensor<B>>; N] {
        let d = B::recurrence_backward(self.0, grad, &self.1);
        first_gradients([Some(d.inputs), Some(d.weight), Some(d.h), d.extra])
    }
}

impl<B: RecurrenceOps + RecurrenceBackwardOps, S: CheckpointStrategy> RecurrenceOps
    for Autodiff<B, S>
{
    fn recurrence(
        inputs: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        h: FloatTensor<Self>,
        extra: Maybe<Self>,
        settings: RecurrenceSettings,
    ) -> FloatTensor<Self> {
        let nodes = [inputs.node(), weight.node(), h.node()];
        let [inputs, weight, h] = [inputs, weight, h].map(|x| x.into_primitive());
        let run = |extra: Maybe<B>, on: bool| {
            if on {
                let saved = B::recurrence_saving(inputs, weight, h, extra, &settings);
                (saved.out.clone(), Some(Recurrence(saved, settings)))
            } else {
                (B::recurrence(inputs, weight, h, extra, settings), None)
            }
        };
        match extra {
            Maybe::None => track::<B, S, _, _>(nodes, |on| run(Maybe::None, on)),
            Maybe::Some(extra) => {
                let [inputs, weight, h] = nodes;
                let nodes = [inputs, weight, h, extra.node()];
                track::<B, S, _, _>(nodes, |on| run(Maybe::Some(extra.into_primitive()), on))
            }
        }
    }
}
