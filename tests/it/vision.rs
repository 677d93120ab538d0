//! Image networks: against PyTorch, and the contracts of each.

mod axial;
mod beit;
mod bit;
pub mod contracts;
mod dinov2;
mod dinov3;
mod goldens;
mod masked;
mod positions;
mod registers;
mod resnet;
mod self_distillation;
mod stages;
mod statistics;
mod swin;
mod swinv2;
mod trajectory;

use crate::batches;
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, values, write_weights};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use formwork::data::Shape;
use formwork::data::batch::{Batch, Content, ImageBatch};
use formwork::interop::weights::Array;
use formwork::kernel::cross_entropy_sum;
use formwork::model::{BuildContext, ModelConfig, VisionConfig};
use formwork::nn::channel_norm::is_state;
use formwork::nn::pass::Pass;
use formwork::nn::path::Path;
use formwork::task::{ImageClassification, ImageClassificationConfig, Objective};
use formwork::train::checkpoint::load_weights;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::Value;
use std::collections::BTreeMap;

/// A classifier for images of this shape.
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
    let inputs = BuildContext {
        shape: &shape,
        seed: 5,
        device: &Device::flex().autodiff(),
    };
    let task = Objective(ImageClassification::new(model, config, &inputs).unwrap());
    materialize(name_parameters(task))
}

/// The oracles' tiny ViT of HF.
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

/// A batch of images that is a whole step.
fn images(pixels: &[f32], shape: [usize; 3], labels: &[i32]) -> Batch {
    let content = ImageBatch {
        pixels: pixels.to_vec(),
        shape,
        labels: labels.to_vec(),
        mixed: None,
        views: None,
    };
    batches::of(Content::Images(content), labels.len())
}

fn tensor<const D: usize>(array: &Array, device: &Device) -> Tensor<D> {
    let shape: [usize; D] = array.shape.clone().try_into().unwrap();
    Tensor::from_data(TensorData::new(array.values.clone(), shape), device)
}

/// Returns the module with these weights, all of which must be used.
fn with_weights<M: Module>(module: M, weights: &BTreeMap<String, Array>) -> M {
    let file = tempfile::NamedTempFile::new().unwrap();
    write_weights(file.path(), weights);
    load_weights(module, file.path()).unwrap()
}

/// Collects values by dotted path, or gradients if given, without parameters that have none by design.
struct Collect<'a> {
    path: Path,
    gradients: Option<&'a Gradients>,
    found: BTreeMap<String, Array>,
}

impl ModuleVisitor for Collect<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }
    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.joined();
        let value = match self.gradients {
            None => param.val(),
            Some(_) if self.path.names().last().is_some_and(|name| is_state(name)) => return,
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
        path: Path::default(),
        gradients,
        found: BTreeMap::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}

/// Whether a parameter only adds a number to all scores of a query, which changes no weight.
fn is_idle(path: &str) -> bool {
    let of_position = path.contains("position.") && path.ends_with("head.bias");
    of_position || path.ends_with("key.bias")
}

/// Compares the network of an oracle's case, for images of this shape: last hidden states, logits, the loss, and the gradients
/// of all parameters and of the image.
fn held_against(oracle: &str, case: &str, image: [usize; 3], config: Value) {
    let oracle_has_cosines = oracle == "swinv2";
    let (oracle, device) = (Oracle::open(oracle), Device::flex().autodiff());
    let model: ModelConfig = serde_json::from_value(config).unwrap();
    let task = classifier(&model, &ImageClassificationConfig::default(), image, 5);
    let arrays = |kind: &str| {
        let prefix = format!("{case}.{kind}.");
        oracle.arrays(|name| name.strip_prefix(&prefix))
    };
    let task = with_weights(name_parameters(task), &arrays("weight"));
    let array = |name: &str| oracle.array(&format!("{case}.{name}"));
    let near = |what: &str, ours: &[f32], theirs: &[f32]| {
        let off = difference(ours, theirs);
        // Cosines divide by norms that may be small.
        let bound = if oracle_has_cosines {
            2.0 * TOLERANCE
        } else {
            TOLERANCE
        };
        assert!(off < bound, "{case}: {what} is off by {off:e}");
    };
    let pixels = tensor::<4>(&array("pixels"), &device).require_grad();
    let pass = Pass::evaluation();
    let hidden = task.model.sequence(pixels.clone(), &pass);
    near("the last vectors", &values(hidden), &array("hidden").values);
    let features = task.model.pooled(pixels.clone(), &pass);
    let logits = formwork::model::heads::class_scores(&task.head, features);
    near("logits", &values(logits.clone()), &array("logits").values);
    let (_, labels) = oracle.integers(&format!("{case}.labels"));
    let labels_there = Tensor::from_data(&labels[..], &logits.device());
    let loss = cross_entropy_sum(logits, labels_there, 0.0) / labels.len() as f64;
    near("loss", &values(loss.clone()), &array("loss").values);
    let gradients = loss.backward();
    let found = collect(&task, Some(&gradients));
    let wanted = arrays("grad");
    assert!(found.keys().eq(wanted.keys()), "{case}: other gradients");
    for (path, theirs) in &wanted {
        near(path, &found[path].values, &theirs.values);
    }
    let of_pixels = pixels.grad(&gradients).unwrap();
    let theirs = array("grad_pixels").values;
    near("gradient of the image", &values(of_pixels), &theirs);
}

/// Returns a convolution kernel as the matrix of a linear map on patches; a matrix unchanged.
fn matrix(array: Array) -> Array {
    let outputs = array.shape[0];
    let inputs = array.values.len() / outputs;
    Array {
        shape: vec![outputs, inputs],
        ..array
    }
}

/// Maps a tensor of HF's ViT to Formwork's path and layout.
fn vit(name: &str, array: Array) -> (String, Array) {
    let (module, kind) = name.rsplit_once('.').unwrap();
    let flat = |shape: &[usize]| Array {
        shape: shape.to_vec(),
        values: array.values.clone(),
    };
    match kind {
        "cls_token" => return ("model.class_token".into(), flat(&array.shape[2..])),
        "position_embeddings" => {
            let path = "model.position.table";
            return (path.into(), flat(&array.shape[1..]));
        }
        _ => {}
    }
    let norm = module.contains("layernorm");
    let module = match module {
        "classifier" => "head".to_string(),
        "vit.layernorm" => "model.stack.final_norm".into(),
        "vit.embeddings.patch_embeddings.projection" => "model.stem.projection".into(),
        _ => {
            let layer = module.strip_prefix("vit.encoder.layer.").unwrap();
            let (number, part) = layer.split_once('.').unwrap();
            let part = match part {
                "attention.output.dense" => "attention.output".into(),
                "intermediate.dense" => "feed_forward.up".into(),
                "output.dense" => "feed_forward.down".into(),
                "layernorm_before" => "attention_residual.norm".into(),
                "layernorm_after" => "feed_forward_residual.norm".into(),
                _ => part.replace("attention.attention", "attention"),
            };
            format!("model.stack.blocks.{number}.{part}")
        }
    };
    let kind = match (norm, kind) {
        (true, "weight") => "gamma",
        (true, _) => "beta",
        (false, kind) => kind,
    };
    let array = match array.shape.len() {
        1 => array,
        _ => matrix(array),
    };
    (format!("{module}.{kind}"), array)
}
