//! Kinds of encoders of audio samples, and a batch of recordings with transcripts for all of them.

use crate::batches;
use burn::tensor::Device;
use formwork::data::batch::{Batch, Content, SpeechBatch, SpokenBatch, TextBatch};
use formwork::data::{Shape, SpeechShape};
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::{Objective, TaskConfig};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

pub const VOCAB: usize = 11;
pub const WIDTH: usize = 150;
pub const LENGTHS: [usize; 4] = [150, 90, 150, 41];
const COLS: usize = 4;
const TARGETS: [i32; 4 * COLS] = [
    3, 4, 4, 5, 7, 2, -100, -100, 9, 10, 1, 9, 6, -100, -100, -100,
];

pub struct Case {
    pub name: &'static str,
    model: Value,
    task: Value,
}

pub fn cases() -> Vec<Case> {
    let of = |name, more: Value, task: Value| {
        let mut model = json!({
            "kind": "speech_encoder", "n_layers": 2, "d_model": 16, "norm_placement": "post", "embedding_norm": true,
            "position": { "kind": "none" }, "attention": { "kind": "multi_head", "n_heads": 2 },
            "features": { "widths": [6, 8], "sizes": [6, 3], "strides": [4, 2] },
            "convolutional_positions": { "size": 4, "groups": 2 },
        });
        let keys = model.as_object_mut().unwrap();
        keys.extend(more.as_object().unwrap().clone());
        keys.retain(|_, value| !value.is_null());
        Case { name, model, task }
    };
    let every = json!({ "widths": [6, 8], "sizes": [6, 3], "strides": [4, 2], "norm": "every", "bias": true });
    vec![
        of("base", json!({}), json!({ "kind": "ctc" })),
        of(
            "large",
            json!({ "norm_placement": "pre", "embedding_norm": false, "features": every,
                "convolutional_positions": { "size": 5, "groups": 4, "activation": "relu" } }),
            json!({ "kind": "ctc", "reduction": "sum" }),
        ),
        of(
            "rotary",
            json!({ "norm_placement": "pre", "embedding_norm": false, "position": { "kind": "rotary" }, "features": every,
                "projection_norm": false, "convolutional_positions": null }),
            json!({ "kind": "ctc", "zero_infinity": true }),
        ),
        of(
            "masked",
            json!({ "masks": { "time_share": 0.4, "time_width": 2, "channel_share": 0.2, "channel_width": 2, "channel_least": 1 } }),
            json!({ "kind": "ctc" }),
        ),
    ]
}

impl Case {
    fn model(&self, dropout: f64) -> ModelConfig {
        let mut model = self.model.clone();
        model["dropout"] = json!(dropout);
        serde_json::from_value(model).unwrap()
    }

    pub fn build(&self, seed: u64, dropout: f64) -> Objective {
        let task: TaskConfig = serde_json::from_value(self.task.clone()).unwrap();
        let inputs = BuildContext {
            shape: &shape(),
            seed,
            device: &Device::flex().autodiff(),
        };
        let task = task.init(&self.model(dropout), &inputs, false).unwrap();
        materialize(name_parameters(task))
    }
}

pub fn shape() -> Shape {
    Shape {
        speech: Some(SpeechShape {
            n_mels: 0,
            n_frames: 1,
            normalized: true,
        }),
        blank: Some(0),
        ..Shape::of_text(COLS, VOCAB)
    }
}

/// Four recordings and transcripts of different lengths; the padding of samples is `behind`.
pub fn batch_with(behind: f32) -> Batch {
    let mut features: Vec<f32> = (0..4 * WIDTH)
        .map(|n| (0.37 * n as f32).sin() + 0.3 * (0.11 * n as f32).cos())
        .collect();
    for (row, length) in LENGTHS.iter().enumerate() {
        features[row * WIDTH + length..(row + 1) * WIDTH].fill(behind);
    }
    let spoken = SpokenBatch {
        speech: SpeechBatch {
            features,
            rows: 4,
            lengths: LENGTHS.to_vec(),
            width: WIDTH,
            ..SpeechBatch::default()
        },
        transcripts: TextBatch {
            inputs: TARGETS.to_vec(),
            targets: TARGETS.to_vec(),
            lengths: Some(vec![4, 2, 4, 1]),
            cols: COLS,
            ..TextBatch::default()
        },
    };
    batches::of(Content::Spoken(spoken), 4)
}

pub fn batch() -> Batch {
    batch_with(0.0)
}

pub fn content(batch: &Batch) -> &SpokenBatch {
    match &batch.content {
        Content::Spoken(content) => content,
        _ => panic!("transcripts"),
    }
}
