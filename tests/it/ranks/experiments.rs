//! Experiments that take a second, one for each way in which ranks could diverge.

use crate::data::images::idx;
use std::path::PathBuf;

/// A folder with an experiment file, `x.toml`, and its data.
pub struct Files(tempfile::TempDir);

impl Files {
    pub fn with(toml: &str, data: &[(&str, Vec<u8>)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.toml"), toml).unwrap();
        for (name, bytes) in data {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Dropout, four micro-batches, averaged weights, diagnostics, evaluations on a part of the split.
    pub fn language_model() -> Self {
        Self::with(
            r#"name = "lm"
seed = 3
[model]
kind = "decoder"
n_layers = 2
d_model = 32
position = { kind = "rotary" }
attention = { kind = "multi_head", n_heads = 4 }
feed_forward = { kind = "gated" }
dropout = 0.1
[data]
kind = "reverse"
length = 6
symbols = 8
valid_items = 50
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 9
batch_size = 8
micro_batch_size = 2
eval_batch_size = 6
eval_every = 3
eval_batches = 3
checkpoint_every = 2
keep_last = 20
log_every = 2
ema = 0.9
[diagnostics]
every = 3
"#,
            &[],
        )
    }

    /// Steps with varying numbers of rows and micro-batches; texts that are generated at evaluations.
    pub fn translation() -> Self {
        Self::with(
            r#"name = "translation"
seed = 1
[model]
kind = "encoder_decoder"
n_encoder_layers = 1
n_decoder_layers = 1
d_model = 32
dropout = 0.1
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 4 }
feed_forward = { kind = "dense", activation = "relu" }
[data]
kind = "dates"
valid_items = 30
[task]
kind = "translation"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 6
batch_tokens = 300
micro_batch_size = 3
batch_size = 7
eval_every = 3
log_every = 1
best_by = "exact_match"
[decode]
metrics = ["exact_match"]
"#,
            &[],
        )
    }

    pub fn images() -> Self {
        let pixels: Vec<u8> = (0..60 * 64_u32).map(|i| (i * i % 251) as u8).collect();
        let labels: Vec<u8> = (0..60).map(|i| i % 3).collect();
        Self::with(
            r#"name = "vit"
seed = 2
[model]
kind = "vision"
n_layers = 2
d_model = 32
stem = { kind = "patches", size = 4 }
pooling = "class"
dropout = 0.1
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 4 }
feed_forward = { kind = "dense", activation = "gelu" }
[data]
kind = "images"
path = "images"
labels = "labels"
valid_fraction = 0.3
augment = { flip = true, mixup = 0.4 }
[task]
kind = "image_classification"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 5
batch_size = 12
micro_batch_size = 3
eval_batch_size = 5
eval_every = 5
log_every = 1
"#,
            &[
                ("images", idx(&pixels, 8, 8)),
                ("labels", idx(&labels, 0, 0)),
            ],
        )
    }

    /// Rows that continue from step to step, with a memory.
    pub fn segments() -> Self {
        let text: Vec<u8> = (0..4000_u32)
            .map(|i| b'a' + (i * i / 7 % 20) as u8)
            .collect();
        Self::with(
            r#"name = "xl"
seed = 4
[model]
kind = "decoder"
n_layers = 2
d_model = 32
dropout = 0.1
position = { kind = "transformer_xl" }
attention = { kind = "multi_head", n_heads = 4, memory = 16 }
[tokenizer]
kind = "byte"
[data]
kind = "text"
path = "text.txt"
context = 16
windows = "contiguous"
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 8
batch_size = 8
micro_batch_size = 2
carry_state = true
eval_every = 4
checkpoint_every = 2
keep_last = 20
log_every = 1
"#,
            &[("text.txt", text)],
        )
    }
}
