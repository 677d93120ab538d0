//! Hidden states of whole images, from `pixel_values`, for tasks that learn without classes: `encode` computes
//! embeddings from them. There are no scores.

use super::{
    ArrayContent, InferenceOutputs, InferenceTask, Input, InputArrays, PIXEL_VALUES, Requirement,
};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::{MaskedImage, SelfDistillation};
use burn::tensor::{Device, Tensor, TensorData};

/// Returns the input array: images of the run's shape.
fn inputs(shape: &Shape) -> Vec<Input> {
    let [channels, height, width] = shape.image.unwrap_or_default();
    let pixels = ArrayContent::Pixels {
        channels,
        size: Some([height, width]),
    };
    vec![Input::new(PIXEL_VALUES, pixels, Requirement::Always)]
}

/// Returns the given images as a tensor.
fn pixels(given: &InputArrays, device: &Device) -> Tensor<4> {
    let [channels, height, width] = given.image;
    let shape = [given.rows, channels, height, width];
    Tensor::from_data(TensorData::new(given.pixels.clone(), shape), device)
}

/// Implements `InferenceTask` for tasks without scores; their hidden states are recorded in the pass.
macro_rules! infers {
    ($($task:ty),*) => {$(
        impl InferenceTask for $task {
            fn inputs(&self, shape: &Shape) -> Vec<Input> {
                inputs(shape)
            }

            fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
                self.model.forward(pixels(given, &self.device()), pass);
                InferenceOutputs::default()
            }

            fn last_hidden_is_normed(&self) -> bool {
                false
            }
        }
    )*};
}

infers!(MaskedImage, SelfDistillation);
