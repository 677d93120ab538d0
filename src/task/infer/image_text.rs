//! Image-text matching: `image_embeds` and `text_embeds` `[rows, d_joint]`, normalised embeddings named as in
//! transformers' CLIP, from `pixel_values` and `input_ids`. Row n of both is a pair.

use super::{
    ArrayContent, INPUT_IDS, InferenceOutputs, InferenceTask, Input, InputArrays, PIXEL_VALUES,
    Requirement, Scores, masked_lm,
};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::ImageText;
use burn::tensor::{Tensor, TensorData};

/// Name of the image embeddings.
pub const IMAGE_EMBEDS: &str = "image_embeds";
/// Name of the text embeddings.
pub const TEXT_EMBEDS: &str = "text_embeds";

impl InferenceTask for ImageText {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let [channels, height, width] = shape.image.unwrap_or_default();
        let pixels = ArrayContent::Pixels {
            channels,
            size: Some([height, width]),
        };
        let mut all = masked_lm::text_inputs(&self.model.text, shape);
        all.push(Input::new(PIXEL_VALUES, pixels, Requirement::Always));
        all
    }

    /// Embeds only the texts if the rows have no images, and the other way round.
    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let mut scores = Vec::new();
        if !given.pixels.is_empty() {
            let [channels, height, width] = given.image;
            let shape = [given.rows, channels, height, width];
            let pixels = TensorData::new(given.pixels.clone(), shape);
            let pixels = Tensor::from_data(pixels, &self.device());
            scores.push(embedding_scores(
                IMAGE_EMBEDS,
                self.pixel_embeddings(pixels, pass),
            ));
        }
        if given.values(INPUT_IDS).is_some() {
            let texts = self.texts(&masked_lm::texts(given), pass);
            scores.push(embedding_scores(TEXT_EMBEDS, texts));
        }
        InferenceOutputs {
            scores,
            pooled: None,
        }
    }

    fn last_hidden_is_normed(&self) -> bool {
        false
    }
}

/// Returns embeddings as scores, which have no labels.
fn embedding_scores(name: &'static str, directions: Tensor<2>) -> Scores {
    Scores::for_rows(name, directions, name)
}
