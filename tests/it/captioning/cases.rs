//! Models for all kinds of image reader, and one batch of captions for them.

use super::captions;
use crate::batches;
use crate::transfer::{put, values_of};
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::data::batch::{Batch, CaptionedBatch, Content, ImageBatch};
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::{Objective, TaskConfig};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

pub const IMAGE: [usize; 3] = [3, 8, 8];
pub const VOCAB: usize = 23;
pub const COLS: usize = 7;
pub const LENGTHS: [usize; 4] = [7, 5, 7, 3];

pub struct Case {
    pub name: &'static str,
    pub model: Value,
}

pub fn cases() -> [Case; 6] {
    let vision = json!({ "kind": "vision", "n_layers": 2, "d_model": 16, "stem": { "kind": "patches", "size": 4 },
        "attention": { "kind": "multi_head", "n_heads": 2 } });
    let resnet = json!({ "kind": "resnet", "stages": [1, 1], "width": 4, "norm": { "kind": "group", "groups": 2 } });
    let swin = json!({ "kind": "swin", "patch_size": 2, "window": 2, "stages": [2, 1], "d_model": 4, "n_heads": [1, 2] });
    let llama = json!({ "kind": "decoder", "n_layers": 4, "d_model": 24, "norm": { "kind": "rms" }, "tie_embeddings": false,
        "position": { "kind": "rotary" }, "attention": { "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2, "bias": false },
        "feed_forward": { "kind": "gated", "d_ff": 32 } });
    let gpt2 = json!({ "kind": "decoder", "n_layers": 2, "d_model": 16, "position": { "kind": "learned" },
        "attention": { "kind": "multi_head", "n_heads": 2 } });
    let of = |name, image: &Value, text: &Value, more: Value| {
        let mut model = json!({ "kind": "vision_language", "image": image, "text": text });
        let model = match more {
            Value::Object(keys) => {
                let own = model.as_object_mut().unwrap();
                own.extend(keys);
                model
            }
            _ => model,
        };
        Case { name, model }
    };
    let dense = json!({ "kind": "dense", "d_ff": 24 });
    [
        of(
            "flamingo",
            &vision,
            &llama,
            json!({ "cross_attention": { "every": 2, "feed_forward": dense },
                "resampler": { "n_latents": 3, "n_layers": 2, "attention": { "kind": "multi_head", "n_heads": 2, "bias": false } } }),
        ),
        of(
            "an odd number of blocks",
            &vision,
            &json!({ "kind": "decoder", "n_layers": 3, "d_model": 16, "norm_placement": "post", "share_layers": { "kind": "all" },
                "attention": { "kind": "multi_head", "n_heads": 2 } }),
            json!({ "cross_attention": { "every": 2, "feed_forward": dense } }),
        ),
        of(
            "encoder and decoder",
            &vision,
            &gpt2,
            json!({ "cross_attention": { "gate": "none" } }),
        ),
        of("resnet", &resnet, &gpt2, json!({})),
        of("swin", &swin, &gpt2, json!({})),
        of(
            "other heads",
            &vision,
            &gpt2,
            json!({ "cross_attention": { "attention": { "kind": "multi_head", "n_heads": 4, "d_head": 6,
                "qk_norm": { "kind": "rms" } } } }),
        ),
    ]
}

impl Case {
    fn model(&self, dropout: f64) -> ModelConfig {
        let mut model = self.model.clone();
        for part in ["image", "text"] {
            if model[part]["kind"] != "resnet" {
                model[part]["dropout"] = json!(dropout);
            }
        }
        serde_json::from_value(model).unwrap()
    }

    pub fn build(&self, seed: u64, dropout: f64) -> Objective {
        let task: TaskConfig = serde_json::from_value(json!({ "kind": "captioning" })).unwrap();
        let inputs = BuildContext {
            shape: &shape(),
            seed,
            device: &Device::flex().autodiff(),
        };
        let task = task.init(&self.model(dropout), &inputs, false).unwrap();
        materialize(name_parameters(task))
    }

    /// The same with gates partly open, so that images matter.
    pub fn open(&self, seed: u64, dropout: f64) -> Objective {
        let task = self.build(seed, dropout);
        let mut values = values_of(&task);
        for (path, array) in &mut values {
            if path.ends_with("_gate") {
                array.values = vec![0.7];
            }
        }
        put(task, &values)
    }
}

pub fn shape() -> Shape {
    Shape {
        image: Some(IMAGE),
        ..Shape::of_text(COLS, VOCAB)
    }
}

/// Four images with captions of different lengths.
pub fn batch() -> Batch {
    let each: usize = IMAGE.iter().product();
    let ids = (0..4 * COLS).map(|n| (3 + (7 * n + n / COLS) % (VOCAB - 3)) as i32);
    let captioned = CaptionedBatch {
        images: ImageBatch {
            pixels: (0..4 * each)
                .map(|n| (0.37 * n as f32).sin() + 0.2 * (n / each) as f32)
                .collect(),
            shape: IMAGE,
            labels: vec![0; 4],
            mixed: None,
            views: None,
        },
        captions: captions(ids.collect(), COLS, &LENGTHS),
        texts: (0..4).collect(),
    };
    batches::of(Content::Captioned(captioned), 4)
}

pub fn content(batch: &Batch) -> &CaptionedBatch {
    match &batch.content {
        Content::Captioned(content) => content,
        _ => panic!("captions"),
    }
}
