//! The networks that read images: against PyTorch, and what each of them keeps.

pub mod contracts;
mod goldens;
mod positions;
mod resnet;
mod statistics;
mod trajectory;

use crate::batches;
use crate::oracle::{values, write_safetensors};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use formwork::data::Shape;
use formwork::data::batch::{Batch, Content, ImageBatch};
use formwork::interop::weights::Array;
use formwork::model::{ModelConfig, ModelInputs, VisionConfig};
use formwork::nn::channel_norm::is_state;
use formwork::task::{ImageClassification, ImageClassificationConfig, Objective};
use formwork::train::checkpoint::load_weights;
use formwork::train::parameters::{materialised, name_parameters};
use std::collections::BTreeMap;

/// A classifier of images of this shape.
fn classifier(
    model: &ModelConfig,
    config: &ImageClassificationConfig,
    image: [usize; 3],
    classes: usize,
) -> Objective<ImageClassification> {
    let shape = Shape {
        image: Some(image),
        classes: (0..classes).map(|c| c.to_string()).collect(),
        ..Shape::default()
    };
    let inputs = ModelInputs {
        shape: &shape,
        seed: 5,
        device: &Device::flex().autodiff(),
    };
    let task = Objective(ImageClassification::new(model, config, &inputs).unwrap());
    materialised(name_parameters(task))
}

/// HF's tiny ViT of the oracles.
fn tiny_vit(size: usize) -> ModelConfig {
    let config = serde_json::json!({
        "n_layers": 2,
        "d_model": 24,
        "stem": { "kind": "patches", "size": size },
        "norm": { "kind": "layer", "eps": 1e-12 },
        "attention": { "kind": "multi_head", "n_heads": 4 },
        "feed_forward": { "kind": "dense", "activation": "gelu", "d_ff": 40 },
    });
    let config: VisionConfig = serde_json::from_value(config).unwrap();
    ModelConfig::Vision(config)
}

/// A step of its own.
fn images(pixels: &[f32], shape: [usize; 3], labels: &[i32]) -> Batch {
    let content = ImageBatch {
        pixels: pixels.to_vec(),
        shape,
        labels: labels.to_vec(),
        mixed: None,
    };
    batches::of(Content::Images(content), labels.len())
}

fn tensor<const D: usize>(array: &Array, device: &Device) -> Tensor<D> {
    let shape: [usize; D] = array.shape.clone().try_into().unwrap();
    Tensor::from_data(TensorData::new(array.values.clone(), shape), device)
}

/// The module with these weights, all of them.
fn with_weights<M: Module>(module: M, weights: &BTreeMap<String, Array>) -> M {
    let file = tempfile::NamedTempFile::new().unwrap();
    write_safetensors(file.path(), weights);
    load_weights(module, file.path()).unwrap()
}

/// Values by dotted path; gradients in their place when there are any, without what has none by right.
struct Collect<'a> {
    path: Vec<String>,
    gradients: Option<&'a Gradients>,
    found: BTreeMap<String, Array>,
}

impl ModuleVisitor for Collect<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }
    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.join(".");
        let value = match self.gradients {
            None => param.val(),
            Some(_) if self.path.last().is_some_and(|name| is_state(name)) => return,
            Some(gradients) => param
                .val()
                .grad(gradients)
                .unwrap_or_else(|| panic!("{path} has no gradient")),
        };
        let shape = value.dims().to_vec();
        let values = values(value);
        self.found.insert(path, Array { shape, values });
    }
}

fn collect<M: Module>(module: &M, gradients: Option<&Gradients>) -> BTreeMap<String, Array> {
    let mut visitor = Collect {
        path: Vec::new(),
        gradients,
        found: BTreeMap::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}

/// The transpose of a matrix, or of a kernel seen as one.
fn transposed(array: Array) -> Array {
    let outputs = array.shape[0];
    let inputs = array.values.len() / outputs;
    let values = (0..inputs * outputs)
        .map(|at| array.values[at % outputs * inputs + at / outputs])
        .collect();
    Array {
        shape: vec![inputs, outputs],
        values,
    }
}

/// A tensor of HF's ViT by our path and in our layout.
fn vit(name: &str, array: Array) -> (String, Array) {
    let (module, kind) = name.rsplit_once('.').unwrap();
    let flat = |shape: &[usize]| Array {
        shape: shape.to_vec(),
        values: array.values.clone(),
    };
    match kind {
        "cls_token" => return ("model.Vision.class_token".into(), flat(&array.shape[2..])),
        "position_embeddings" => {
            let path = "model.Vision.position.Learned.table";
            return (path.into(), flat(&array.shape[1..]));
        }
        _ => {}
    }
    let norm = module.contains("layernorm");
    let module = match module {
        "classifier" => "head".to_string(),
        "vit.layernorm" => "model.Vision.stack.final_norm.Layer".into(),
        "vit.embeddings.patch_embeddings.projection" => {
            "model.Vision.stem.Patches.projection".into()
        }
        _ => {
            let layer = module.strip_prefix("vit.encoder.layer.").unwrap();
            let (number, part) = layer.split_once('.').unwrap();
            let part = match part {
                "attention.output.dense" => "attention.MultiHead.output".into(),
                "intermediate.dense" => "feed_forward.Dense.up".into(),
                "output.dense" => "feed_forward.Dense.down".into(),
                "layernorm_before" => "attention_residual.norm.Layer".into(),
                "layernorm_after" => "feed_forward_residual.norm.Layer".into(),
                _ => part.replace("attention.attention", "attention.MultiHead"),
            };
            format!("model.Vision.stack.blocks.{number}.{part}")
        }
    };
    let kind = match (norm, kind) {
        (true, "weight") => "gamma",
        (true, _) => "beta",
        (false, kind) => kind,
    };
    let matrix = array.shape.len() > 1;
    let array = if matrix { transposed(array) } else { array };
    (format!("{module}.{kind}"), array)
}
