//! A short convolution under autodiff, with its derivative.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, tensor::FloatTensor};

use super::extension::{
    ConvolutionSaved, ShortConvolutionBackwardOps, ShortConvolutionOps, ShortConvolutionSettings,
};
use crate::kernel::derivative::Derivative;
use crate::kernel::extension::Maybe;
use crate::kernel::tracked::{inner, track};

#[derive(Clone, Debug)]
struct OfConvolution<B: Backend>(ConvolutionSaved<B>, ShortConvolutionSettings);

impl<B: ShortConvolutionBackwardOps> Derivative<B, 3> for OfConvolution<B> {
    fn gradients(self, grad: FloatTensor<B>, _: [bool; 3]) -> [Option<FloatTensor<B>>; 3] {
        B::short_convolution_backward(self.0, grad, &self.1).map(Some)
    }
}

impl<B: ShortConvolutionOps + ShortConvolutionBackwardOps, S: CheckpointStrategy>
    ShortConvolutionOps for Autodiff<B, S>
{
    fn short_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        before: Maybe<Self>,
        settings: ShortConvolutionSettings,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), weight.node(), bias.node()];
        let [x, weight, bias] = [x, weight, bias].map(|x| x.into_primitive());
        let before = inner(before);
        track::<B, S, _, 3>(nodes, |on| {
            let saved = on.then(|| ConvolutionSaved {
                x: x.clone(),
                weight: weight.clone(),
                bias: bias.clone(),
                before: before.clone(),
            });
            let saved = saved.map(|saved| OfConvolution(saved, settings.clone()));
            (
                B::short_convolution(x, weight, bias, before, settings),
                saved,
            )
        })
    }
}
