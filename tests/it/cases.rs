//! Tasks on texts and pairs with models of every kind and family, and a batch of rows of different lengths for each: the cases
//! of the contract tests.

pub use crate::case_base::base;
pub use crate::case_batches::{COLS, LENGTHS, TARGET_COLS, TARGETS, VOCAB, pairs, texts};
use crate::case_batches::{asked, tags};
use crate::case_tasks::{
    answering, classification, embedding, masked_lm, regression, replaced_token, rewards, several,
    smoothing, tagging, towers, translation,
};
use crate::{batches, kinds};
use burn::tensor::Device;
use formwork::data::batch::{Content, TextBatch};
use formwork::data::corrupted::denoising::NoiseConfig;
use formwork::data::masked::masking::Pairs;
use formwork::data::{Batch, Shape};
use formwork::model::{
    BuildContext, ConvolutionalConfig, GlobalTokens, ModelConfig, RecurrentModelConfig,
};
use formwork::nn::recurrent;
use formwork::task::text_embedding::EmbeddingLoss;
use formwork::task::whole_text::Pooling;
use formwork::task::{Objective, PermutedLmConfig, SpanCorruptionConfig, TaskConfig};
use formwork::train::parameters::{materialize, name_parameters};

/// A task with a model that can learn it.
pub struct Case {
    pub name: String,
    task: TaskConfig,
    model: ModelConfig,
}

impl Case {
    pub fn new(name: &str, task: TaskConfig, model: ModelConfig) -> Self {
        let name = format!("{} on {} with {name}", task.kind(), model.kind());
        Self { name, task, model }
    }

    /// Whether a layer makes the rows of a batch depend on each other in training: experts with a capacity, or balanced
    /// experts.
    pub fn couples_rows(&self) -> bool {
        let transformer = self.model.transformer();
        let mut blocks = transformer.iter().flat_map(|model| model.blocks());
        let coupled = blocks.any(|block| {
            block
                .feed_forward
                .is_some_and(|layer| layer.couples_micro_batches())
        });
        coupled || self.task.facts().compared_rows().is_some()
    }

    /// Whether recomputation adds gradients in another order: for parameters that one block reads more than once, such as those
    /// of a mask decoder or of two streams, and for scaled residuals.
    pub fn reads_a_table_again(&self) -> bool {
        let has = |part: &str| self.name.contains(part);
        // A network that encodes two texts reads all of its tables twice.
        let twice = ["text_embedding", "reward"].map(|task| self.name.starts_with(task));
        let again = has("mask decoder of");
        // Blocks that share parameters while the first block's values reach the others.
        let first_values = has("rwkv7") && has("share_layers");
        again
            || has("two streams")
            || twice.contains(&true)
            || first_values
            || has("layerwise")
            || has("\"admin\"")
            || has("\"global\":\"own\"") && (has("relative_bias") || has("dynamic_bias"))
    }

    /// The same model for another task.
    pub fn learning(self, task: TaskConfig) -> Self {
        Self { task, ..self }
    }

    pub fn with_seed(&self, seed: u64) -> Objective {
        self.on(seed, &Device::flex())
    }

    /// Builds the model with the weights of this seed, for training on a device.
    pub fn on(&self, seed: u64, device: &Device) -> Objective {
        let shape = Shape {
            classes: ["a", "b", "c"].map(Into::into).to_vec(),
            ..Shape::of_text(COLS, VOCAB as usize)
        };
        let inputs = BuildContext {
            shape: &shape,
            seed,
            device: &device.clone().autodiff(),
        };
        let task = self.task.init(&self.model, &inputs, false).unwrap();
        materialize(name_parameters(task))
    }

    pub fn build(&self) -> Objective {
        self.with_seed(5)
    }

    /// The same with dropout and drop path at these rates.
    pub fn dropping(mut self, dropout: f64, drop_path: f64) -> Self {
        let both = (dropout, drop_path);
        match &mut self.model {
            ModelConfig::Decoder(c) => (c.stack.dropout, c.stack.drop_path) = both,
            ModelConfig::Encoder(c) => (c.stack.dropout, c.stack.drop_path) = both,
            ModelConfig::EncoderDecoder(c) => (c.stack.dropout, c.stack.drop_path) = both,
            ModelConfig::Vision(c) => (c.stack.dropout, c.stack.drop_path) = both,
            ModelConfig::Recurrent(c) => c.dropout = dropout,
            ModelConfig::Convolutional(c) => c.dropout = dropout,
            ModelConfig::Swin(c) => (c.dropout, c.drop_path) = both,
            ModelConfig::SpeechEncoderDecoder(c) => (c.stack.dropout, c.stack.drop_path) = both,
            ModelConfig::SpeechEncoder(c) => (c.stack.dropout, c.stack.drop_path) = both,
            ModelConfig::Resnet(_) | ModelConfig::TwoTowers(_) | ModelConfig::VisionLanguage(_) => {
            }
        }
        match &mut self.task {
            TaskConfig::TextClassification(c) => c.dropout = dropout,
            TaskConfig::MultiLabel(c) => c.dropout = dropout,
            TaskConfig::TokenClassification(c) => c.dropout = dropout,
            TaskConfig::Regression(c) => c.dropout = dropout,
            TaskConfig::Reward(c) => c.dropout = dropout,
            TaskConfig::QuestionAnswering(c) => c.dropout = dropout,
            _ => {}
        }
        self
    }

    /// The same with other values for some keys of the model.
    pub fn with(mut self, keys: &serde_json::Value) -> Self {
        let mut model = serde_json::to_value(&self.model).unwrap();
        for (key, value) in keys.as_object().unwrap() {
            model[key] = value.clone();
        }
        self.model = serde_json::from_value(model).unwrap();
        self
    }

    pub fn batch(&self) -> Batch {
        let content = match &self.task {
            TaskConfig::TextEmbedding(c) if c.loss == EmbeddingLoss::InBatch => {
                Content::Pairs(pairs())
            }
            TaskConfig::Translation(_)
            | TaskConfig::SpanCorruption(_)
            | TaskConfig::Denoising(_) => Content::Pairs(pairs()),
            TaskConfig::MaskedLm(_) | TaskConfig::ReplacedToken(_) | TaskConfig::PermutedLm(_) => {
                Content::Text(texts(&[0, 1, 1, 0]))
            }
            TaskConfig::TokenClassification(_) => Content::Text(TextBatch {
                targets: tags(),
                labels: None,
                ..texts(&[0; 4])
            }),
            TaskConfig::QuestionAnswering(_) => Content::Text(TextBatch {
                targets: Vec::new(),
                labels: None,
                asked: Some(asked()),
                ..texts(&[0; 4])
            }),
            TaskConfig::MultiLabel(_) => Content::Text(TextBatch {
                targets: Vec::new(),
                labels: None,
                classes: Some(vec![vec![0, 2], vec![], vec![1], vec![0, 1, 2]]),
                ..texts(&[0; 4])
            }),
            TaskConfig::Regression(_) | TaskConfig::TextEmbedding(_) | TaskConfig::Reward(_) => {
                Content::Text(TextBatch {
                    targets: Vec::new(),
                    labels: None,
                    numbers: Some(vec![0.5, 4.0, -1.25, 2.0]),
                    ..texts(&[0; 4])
                })
            }
            _ => Content::Text(TextBatch {
                targets: Vec::new(),
                ..texts(&[0, 2, 1, 0])
            }),
        };
        batches::of(content, LENGTHS.len())
    }
}

/// An encoder whose attention scores include distances and segments.
fn two_streams() -> ModelConfig {
    serde_json::from_value(serde_json::json!({
        "kind": "encoder", "n_layers": 2, "d_model": 16, "norm_placement": "post", "segments": 0, "head_transform": false,
        "position": { "kind": "transformer_xl", "untie_r": true, "segments": 3 },
        "attention": { "kind": "multi_head", "n_heads": 2, "bias": false },
    }))
    .unwrap()
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (pooling, pooler) in [(Pooling::First, true), (Pooling::Mean, false)] {
        let [_, classes, ..] = base(16);
        let case = Case::new("towers", towers(pooling), classes.model);
        cases.push(case.with(&serde_json::json!({ "pooler": pooler })));
        let [_, classes, ..] = base(16);
        let [_, vectors, ..] = base(16);
        let scored = embedding(EmbeddingLoss::Cosine, pooling, None, None);
        let case = Case::new("scores", scored, vectors.model);
        cases.push(case.with(&serde_json::json!({ "pooler": pooler })));
        let numbers = regression(Some(pooling), None, true);
        let case = Case::new("towers", numbers, classes.model);
        cases.push(case.with(&serde_json::json!({ "pooler": pooler })));
    }
    for (number, (name, model)) in kinds::encoders().into_iter().enumerate() {
        let pairs = match number % 2 {
            _ if model.pooler => Pairs::SentenceOrder,
            0 => Pairs::NextSentence,
            _ => Pairs::None,
        };
        let pooling = match model.pooler {
            true => Some(Pooling::First),
            false => Some(Pooling::Mean),
        };
        let sees = model.stack.attention.facts().sees_globals();
        let [special, first] =
            [GlobalTokens::Special, GlobalTokens::First].map(|g| sees.then_some(g));
        let replaced = replaced_token(number, &model);
        let model = ModelConfig::Encoder(model);
        cases.push(Case::new(&name, masked_lm(pairs, special), model.clone()));
        if !sees {
            cases.push(Case::new(&name, replaced, model.clone()));
        }
        if sees || number.is_multiple_of(4) {
            cases.push(Case::new(&name, tagging(special), model.clone()));
        }
        if sees || number % 8 == 2 {
            let classes = several(pooling, first);
            cases.push(Case::new(&name, classes, model.clone()));
        }
        if sees || number % 4 == 1 {
            cases.push(Case::new(&name, answering(special), model.clone()));
        }
        if sees || number % 4 == 2 {
            let numbers = regression(pooling, first, false);
            cases.push(Case::new(&name, numbers, model.clone()));
        }
        if sees || number % 8 == 6 {
            cases.push(Case::new(&name, rewards(pooling, first), model.clone()));
        }
        if sees || number % 4 == 3 {
            let pooling = pooling.unwrap_or_default();
            let pairs = embedding(EmbeddingLoss::InBatch, pooling, None, first);
            cases.push(Case::new(&name, pairs, model.clone()));
        }
        cases.push(Case::new(&name, classification(pooling, first), model));
    }
    let order = TaskConfig::PermutedLm(PermutedLmConfig::default());
    cases.push(Case::new("two streams", order, two_streams()));
    for task in [tagging(None), answering(None), classification(None, None)] {
        let model = ModelConfig::Encoder(kinds::with_transforms());
        cases.push(Case::new("transforms before heads", task, model));
    }
    for (number, (name, model)) in kinds::encoder_decoders().into_iter().enumerate() {
        let smoothing = smoothing(&model.vocabulary);
        let model = ModelConfig::EncoderDecoder(model);
        if number == 0 {
            let spans = TaskConfig::SpanCorruption(SpanCorruptionConfig::default());
            cases.push(Case::new(&name, spans, model.clone()));
        }
        cases.push(Case::new(&name, translation(smoothing, false), model));
    }
    let [.., both, _] = base(16);
    let denoising = TaskConfig::Denoising(NoiseConfig::default());
    cases.push(Case::new("its defaults", denoising, both.model));
    for (number, (name, model)) in kinds::all().into_iter().enumerate() {
        let smoothing = smoothing(&model.vocabulary);
        let can = kinds::shows_prefixes(&model);
        let model = ModelConfig::Decoder(model);
        let read = match number % 5 {
            0 => classification(None, None),
            1 => embedding(EmbeddingLoss::InBatch, Pooling::Mean, None, None),
            2 => tagging(None),
            3 => several(None, None),
            _ => regression(Some(Pooling::Last), None, false),
        };
        cases.push(Case::new(&name, read, model.clone()));
        if number % 5 == 2 {
            cases.push(Case::new(&name, rewards(None, None), model.clone()));
        }
        let task = translation(smoothing, can && number % 4 != 3);
        cases.push(Case::new(&name, task, model));
    }
    for kind in recurrent::KINDS {
        for (share, n_layers) in [(true, 1), (false, 2)] {
            let model = ModelConfig::Recurrent(RecurrentModelConfig {
                cell: toml::from_str(&format!("kind = \"{}\"", kind.kind)).unwrap(),
                n_layers,
                d_model: 12,
                share_embeddings: Some(share),
                tie_embeddings: Some(share),
                ..RecurrentModelConfig::default()
            });
            let name = format!("{n_layers} {}", kind.kind);
            let pooling = (!share).then_some(Pooling::Mean);
            cases.push(Case::new(
                &name,
                classification(pooling, None),
                model.clone(),
            ));
            let other = match share {
                true => tagging(None),
                false => regression(pooling, None, false),
            };
            cases.push(Case::new(&name, other, model.clone()));
            if !share {
                let pairs = embedding(EmbeddingLoss::InBatch, Pooling::Mean, None, None);
                cases.push(Case::new(&name, pairs, model.clone()));
                cases.push(Case::new(&name, rewards(None, None), model.clone()));
            }
            cases.push(Case::new(&name, translation(0.1, false), model));
        }
    }
    for (number, pooling) in [None, Some(Pooling::Mean), Some(Pooling::Max)]
        .into_iter()
        .enumerate()
    {
        let model = ModelConfig::Convolutional(ConvolutionalConfig {
            d_model: 12,
            widths: [vec![1, 2, 5], vec![4], vec![3, 9]][number].clone(),
            filters: 7,
            ..ConvolutionalConfig::default()
        });
        let own = match number {
            0 => tagging(None),
            1 => regression(pooling, None, false),
            _ => embedding(EmbeddingLoss::InBatch, Pooling::Max, None, None),
        };
        let name = format!("convolutions {number}");
        cases.push(Case::new(&name, own, model.clone()));
        cases.push(Case::new(&name, classification(pooling, None), model));
    }
    cases
}
