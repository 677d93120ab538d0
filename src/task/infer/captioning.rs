//! Captioning: `logits` at every position of `input_ids`, given each row's image in `pixel_values`. Labels are the
//! inputs themselves, as in Hugging Face's models, and are shifted here.

use super::causal_lm::{hidden, shift_labels};
use super::{
    ArrayContent, INPUT_IDS, InferenceOutputs, InferenceTask, Input, InputArrays, PIXEL_VALUES,
    Requirement, Scores,
};
use crate::data::Shape;
use crate::model::LanguageModel;
use crate::nn::pass::Pass;
use crate::task::Captioning;
use burn::tensor::{Tensor, TensorData};

impl Captioning {
    /// Returns the image network's outputs for the rows' images.
    fn image_memory(&self, given: &InputArrays, pass: &Pass) -> Tensor<3> {
        let [channels, height, width] = given.image;
        let shape = [given.rows, channels, height, width];
        let pixels = TensorData::new(given.pixels.clone(), shape);
        let pixels = Tensor::from_data(pixels, &self.device());
        self.model.image_memory(pixels, pass)
    }
}

impl InferenceTask for Captioning {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let [channels, height, width] = shape.image.unwrap_or_default();
        let pixels = ArrayContent::Pixels {
            channels,
            size: Some([height, width]),
        };
        let below = shape.vocab_size;
        let targets = ArrayContent::Targets {
            of: INPUT_IDS,
            below,
        };
        let mut all = Input::tokens(below, self.model.text.max_len()).to_vec();
        all.push(Input::new(PIXEL_VALUES, pixels, Requirement::Always));
        all.push(Input::labels(targets));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let network = self.model.with_images(self.image_memory(given, pass));
        let hidden = hidden(&network, given, pass);
        InferenceOutputs::of(Scores::for_tokens(network.logits(hidden)))
    }

    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        hidden(
            &self.model.with_images(self.image_memory(given, pass)),
            given,
            pass,
        );
    }

    fn targets(&self, given: &InputArrays, labels: &str) -> Option<Vec<i32>> {
        shift_labels(given, labels)
    }
}
