//! 2-D convolution without bias (LeCun et al. 1989), for residual networks and the stems of hybrid models.

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::composed;
#[cfg(feature = "kernels")]
use super::{extension::KernelOps, has_kernels};

/// Stride and padding of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionSettings {
    /// Distance between windows, at least 1, in both directions.
    pub stride: usize,
    /// Number of zeros added on every side of the image.
    pub padding: usize,
}

impl ConvolutionSettings {
    /// Returns height and width of the output for those of an image and a window; 0 if the window does not fit.
    pub fn sides(&self, image: [usize; 2], window: [usize; 2]) -> [usize; 2] {
        std::array::from_fn(|i| {
            let room = (image[i] + 2 * self.padding).checked_sub(window[i]);
            room.map_or(0, |room| room / self.stride + 1)
        })
    }
}

/// Convolves x `[B, channels, height, width]` with weight `[outputs, channels, rows, columns]` into
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
