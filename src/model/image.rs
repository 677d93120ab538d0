//! The networks that read images, in one enum.

use super::{BuildContext, ModelConfig, Resnet, Swin, Vision};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;

/// A network that reads images. The variants' names are part of checkpoints.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it holds its tensors elsewhere"
)]
pub enum ImageModel {
    /// A vision transformer.
    Vision(Vision),
    /// A residual convolutional network.
    Resnet(Resnet),
    /// A vision transformer with shifted windows.
    Swin(Swin),
}

impl ImageModel {
    /// Builds the network of a config; `None` if the config is of another kind or the inputs have no image.
    pub fn new(model: &ModelConfig, inputs: &BuildContext) -> Option<Self> {
        let image = inputs.shape.image?;
        match model {
            ModelConfig::Vision(c) => Some(Self::Vision(c.init(image, inputs))),
            ModelConfig::Resnet(c) => Some(Self::Resnet(c.init(image, inputs))),
            ModelConfig::Swin(c) => Some(Self::Swin(c.init(image, inputs))),
            _ => None,
        }
    }

    /// Returns the pooled vector of each image: `[batch, channels, height, width]` → `[batch, features]`.
    pub fn pooled(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<2> {
        self.pooled_and_distilled(pixels, pass).0
    }

    /// Returns all vectors of each image: `[batch, channels, height, width]` → `[batch, vectors, features]`. There is one for each
    /// patch and each token before them, or for each position of the last feature map, row by row.
    pub fn sequence(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        match self {
            Self::Vision(network) => network.forward(pixels, pass),
            Self::Resnet(network) => {
                let map = network.feature_map(pixels, pass);
                let [batch, features, rows, columns] = map.dims();
                map.reshape([batch, features, rows * columns])
                    .swap_dims(1, 2)
            }
            Self::Swin(network) => network.forward(pixels, pass),
        }
    }

    /// Returns the vectors of [`Self::sequence`] that another network reads: all except those of registers.
    pub fn memory_vectors(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        let all = self.sequence(pixels, pass);
        match self {
            Self::Vision(network) => network.without_registers(all),
            Self::Resnet(_) | Self::Swin(_) => all,
        }
    }

    /// Returns each image's pooled vector, and the input of the distillation head if there is a distillation token.
    pub fn pooled_and_distilled(
        &self,
        pixels: Tensor<4>,
        pass: &Pass,
    ) -> (Tensor<2>, Option<Tensor<2>>) {
        match self {
            Self::Vision(network) => {
                let hidden = network.forward(pixels, pass);
                let distilled = network.distillation_state(&hidden);
                (network.pooled(hidden, pass), distilled)
            }
            Self::Resnet(network) => (network.pooled(pixels, pass), None),
            Self::Swin(network) => (network.pooled(pixels, pass), None),
        }
    }
}
