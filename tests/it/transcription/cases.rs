//! All kinds of audio encoder, and a batch of transcripts for them.

use crate::batches;
use crate::captioning::captions;
use burn::tensor::Device;
use formwork::data::batch::{Batch, Content, SpeechBatch, SpokenBatch};
use formwork::data::{Shape, SpeechShape};
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::{Objective, TaskConfig};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

pub const SPEECH: SpeechShape = SpeechShape {
    n_mels: 6,
    n_frames: 11,
    normalized: false,
};
pub const VOCAB: usize = 23;
pub const COLS: usize = 7;
pub const LENGTHS: [usize; 4] = [7, 5, 7, 3];

pub struct Case {
    pub name: &'static str,
    pub model: Value,
}

pub fn cases() -> Vec<Case> {
    let of = |name, more: Value| {
        let mut model = json!({
            "kind": "speech_encoder_decoder", "n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 16,
            "position": { "kind": "learned" },
            "encoder_position": { "kind": "sinusoidal", "layout": "halves", "endpoint": true },
            "attention": { "kind": "multi_head", "n_heads": 2, "key_bias": false },
        });
        for (key, value) in more.as_object().unwrap() {
            match value {
                Value::Null => model.as_object_mut().unwrap().remove(key),
                value => model
                    .as_object_mut()
                    .unwrap()
                    .insert(key.clone(), value.clone()),
            };
        }
        Case { name, model }
    };
    vec![
        of("whisper", json!({})),
        of(
            "post-norm, positions in common",
            json!({ "norm_placement": "post", "encoder_position": null, "embedding_norm": true, "embedding_scale": true }),
        ),
        of(
            "rotary",
            json!({ "position": { "kind": "rotary" }, "encoder_position": null, "norm": { "kind": "rms" },
                "feed_forward": { "kind": "gated", "d_ff": 24 }, "tie_embeddings": false, "head_bias": true }),
        ),
        of(
            "one wide convolution",
            json!({ "stem": { "size": 5, "strides": [3], "activation": "relu" }, "encoder_position": { "kind": "learned" } }),
        ),
        of(
            "sides that differ",
            json!({ "n_encoder_layers": 1, "n_decoder_layers": 3, "share_layers": { "kind": "all" },
                "cross": { "kind": "multi_head", "n_heads": 4 }, "head_bias": true }),
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
        let task: TaskConfig = serde_json::from_value(json!({ "kind": "transcription" })).unwrap();
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
        speech: Some(SPEECH),
        ..Shape::of_text(COLS, VOCAB)
    }
}

/// Four recordings with transcripts of different lengths.
pub fn batch() -> Batch {
    let each = SPEECH.n_mels * SPEECH.n_frames;
    let ids = (0..4 * COLS).map(|n| (3 + (7 * n + n / COLS) % (VOCAB - 3)) as i32);
    let spoken = SpokenBatch {
        speech: SpeechBatch {
            features: (0..4 * each)
                .map(|n| (0.37 * n as f32).sin() + 0.2 * (n / each) as f32)
                .collect(),
            rows: 4,
            n_mels: SPEECH.n_mels,
            n_frames: SPEECH.n_frames,
            ..SpeechBatch::default()
        },
        transcripts: captions(ids.collect(), COLS, &LENGTHS),
    };
    batches::of(Content::Spoken(spoken), 4)
}

pub fn content(batch: &Batch) -> &SpokenBatch {
    match &batch.content {
        Content::Spoken(content) => content,
        _ => panic!("transcripts"),
    }
}
