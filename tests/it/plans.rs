//! Costs of models before they are trained.

use burn::tensor::Device;
use formwork::data::Shape;
use formwork::model::ModelConfig;
use formwork::plan::{ModelCost, Question, plan};
use formwork::train::optim::Moments;

/// A network by itself, one item at a time, in float32 under an optimizer that keeps two values of each parameter.
pub fn question<'a>(model: &'a ModelConfig, shape: &'a Shape) -> Question<'a> {
    Question {
        model,
        task: None,
        shape,
        micro_batch_size: 1,
        moments: Moments {
            matrices: 2,
            others: 2,
        },
        matrices: None,
        ema: false,
        value_bytes: 4,
        lora: None,
        recompute: false,
    }
}

/// The cost of a model that can be trained so.
pub fn cost(question: &Question) -> ModelCost {
    plan(question, &Device::default()).unwrap()
}
