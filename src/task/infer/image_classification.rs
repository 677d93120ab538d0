//! Image classification: `logits` of every row, from `pixel_values`.

use super::{
    ArrayContent, InferenceOutputs, InferenceTask, Input, InputArrays, LABELS, LOGITS,
    PIXEL_VALUES, Requirement, Scores, floats,
};
use crate::data::Shape;
use crate::model::ImageModel;
use crate::nn::pass::Pass;
use crate::task::ImageClassification;
use burn::tensor::{Tensor, TensorData};

impl InferenceTask for ImageClassification {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let [channels, height, width] = shape.image.unwrap_or_default();
        let pixels = ArrayContent::Pixels {
            channels,
            size: match &self.model {
                ImageModel::Vision(_) | ImageModel::Swin(_) => Some([height, width]),
                ImageModel::Resnet(_) => None,
            },
        };
        let below = shape.classes.len();
        vec![
            Input::new(PIXEL_VALUES, pixels, Requirement::Always),
            Input::labels(ArrayContent::Classes { below }),
        ]
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let device = self.head.weight.val().device();
        let [channels, height, width] = given.image;
        let shape = [given.rows, channels, height, width];
        let pixels = TensorData::new(given.pixels.clone(), shape);
        let seen = self.outputs(Tensor::from_data(pixels, &device), pass);
        let pooled = match &self.model {
            // The mean over the last feature map, in the shape that it has in Hugging Face's models.
            ImageModel::Resnet(_) => {
                let [rows, planes] = seen.features.dims();
                Some(floats(seen.features.clone().reshape([rows, planes, 1, 1])))
            }
            ImageModel::Swin(_) => Some(floats(seen.features.clone())),
            ImageModel::Vision(_) => None,
        };
        InferenceOutputs {
            scores: vec![Scores::for_rows(LOGITS, seen.logits(), LABELS)],
            pooled,
        }
    }

    fn last_hidden_is_normed(&self) -> bool {
        false
    }
}
