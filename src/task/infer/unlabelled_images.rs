//! States of images that are seen whole, from `pixel_values`, of tasks that learn without classes: what `encode` makes vectors of.
//! They give no scores.

use super::{Given, Holds, Inferred, Infers, Input, Needed, PIXEL_VALUES};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::{MaskedImage, SelfDistillation};
use burn::tensor::{Device, Tensor, TensorData};

/// Images of the run's shape.
fn inputs(shape: &Shape) -> Vec<Input> {
    let [channels, height, width] = shape.image.unwrap_or_default();
    let pixels = Holds::Pixels {
        channels,
        size: Some([height, width]),
    };
    vec![Input::new(PIXEL_VALUES, pixels, Needed::Always)]
}

/// The images that are given.
fn pixels(given: &Given, device: &Device) -> Tensor<4> {
    let [channels, height, width] = given.image;
    let shape = [given.rows, channels, height, width];
    Tensor::from_data(TensorData::new(given.pixels.clone(), shape), device)
}

/// Tasks whose network answers without scores: its hidden states are read on the way.
macro_rules! infers {
    ($($task:ty),*) => {$(
        impl Infers for $task {
            fn inputs(&self, shape: &Shape) -> Vec<Input> {
                inputs(shape)
            }

            fn infer(&self, given: &Given, pass: &Pass) -> Inferred {
                self.model.forward(pixels(given, &self.device()), pass);
                Inferred::default()
            }

            fn ends_normed(&self) -> bool {
                false
            }
        }
    )*};
}

infers!(MaskedImage, SelfDistillation);
