//! 2-D convolution without bias (LeCun et al. 1989), for residual networks and the stems of hybrid models.

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "kernels")]
use super::{extension::KernelOps, has_kernels};

/// A convolution's step and border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionSettings {
    /// Distance between windows, at least 1, down and across.
    pub stride: usize,
    /// Zeros around the image.
    pub padding: usize,
}

impl ConvolutionSettings {
    /// Height and width of the result, for those of an image and of the window; 0 where the window does not fit.
    pub fn sides(&self, image: [usize; 2], window: [usize; 2]) -> [usize; 2] {
        std::array::from_fn(|i| {
            let room = (image[i] + 2 * self.padding).checked_sub(window[i]);
            room.map_or(0, |room| room / self.stride + 1)
        })
    }
}

/// x `[B, planes, height, width]` and weight `[outputs, planes, rows, columns]` to
/// `[B, outputs, height', width']`, with zeros outside the image.
pub fn convolution(x: Tensor<4>, weight: Tensor<4>, settings: ConvolutionSettings) -> Tensor<4> {
    assert_eq!(x.dims()[1], weight.dims()[1], "planes of image and weights");
    #[cfg(feature = "kernels")]
    if has_kernels(&x) {
        let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
        return Tensor::from_dispatch(Dispatch::convolved(x, weight, settings));
    }
    composed::convolution(x, weight, settings)
}
