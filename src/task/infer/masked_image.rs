//! States of images that are seen whole, from `pixel_values`: what `encode` makes vectors of. It gives no scores.

use super::{Given, Holds, Inferred, Infers, Input, Needed, PIXEL_VALUES};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::MaskedImage;
use burn::tensor::{Tensor, TensorData};

impl Infers for MaskedImage {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let [channels, height, width] = shape.image.unwrap_or_default();
        let pixels = Holds::Pixels {
            channels,
            size: Some([height, width]),
        };
        vec![Input::new(PIXEL_VALUES, pixels, Needed::Always)]
    }

    fn infer(&self, given: &Given, pass: &Pass) -> Inferred {
        let [channels, height, width] = given.image;
        let shape = [given.rows, channels, height, width];
        let pixels = TensorData::new(given.pixels.clone(), shape);
        let pixels = Tensor::from_data(pixels, &self.device());
        self.model.forward(pixels, pass);
        Inferred::default()
    }

    fn ends_normed(&self) -> bool {
        false
    }
}
