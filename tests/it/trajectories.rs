//! Fifty steps of masked language modelling with next-sentence prediction, of label-smoothed translation, and of span
//! corruption, against PyTorch (`tests/goldens/make_trajectories.py` is the oracle).

use crate::batches;
use crate::goldens_encoder_decoder as encoder_decoder;
use crate::goldens_encoders as encoders;
use crate::names;
use crate::oracle::Oracle;
use crate::trajectory::{Recipe, Steps, compare_ends, follow, uneven};
use crate::transfer::{import, values_of};
use burn::tensor::Device;
use formwork::data::batch::{Content, PairBatch, TextBatch};
use formwork::data::masked::masking::Pairs;
use formwork::data::{Batch, Shape};
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::position::learned::LearnedConfig;
use formwork::stack::NormPlacement;
use formwork::task::{Objective, SpanCorruptionConfig, TaskConfig, Translation, TranslationConfig};
use formwork::train::optim::{AdamwConfig, OptimizerConfig};
use formwork::train::schedule::{DecayConfig, NoamConfig, ScheduleConfig};

fn adamw(lr: f64, weight_decay: f64, eps: f64) -> OptimizerConfig {
    OptimizerConfig::Adamw(AdamwConfig {
        lr,
        betas: [0.9, 0.98],
        eps,
        weight_decay,
        ..AdamwConfig::default()
    })
}

/// Returns the number of tokens in each row of a mask.
fn lengths(mask: &[i32], rows: usize) -> Vec<usize> {
    let rows = mask.chunks(mask.len() / rows);
    rows.map(|row| row.iter().map(|m| *m as usize).sum())
        .collect()
}

#[test]
fn masked_lm_with_next_sentences() {
    let oracle = Oracle::open("trajectory_mlm");
    let device = Device::flex().autodiff();
    let config = encoders::config(LearnedConfig::default(), 2, 1e-12, true);
    let table = names::bert(2);
    let start = oracle.arrays(|name| name.strip_prefix("start."));
    let task = encoders::task(&config, Pairs::NextSentence, 16, &device);
    let task = import(task, &table, &start);
    let read = |name: &str| Steps::of(&oracle, name);
    let (inputs, mask) = (read("input_ids"), read("attention_mask"));
    let (segments, targets) = (read("token_type_ids"), read("labels"));
    let follows = read("next_sentence_label");
    let (rows, cols) = (inputs.shape[2], inputs.shape[3]);
    let batch = |step: usize, micro: usize| {
        let texts = TextBatch {
            inputs: inputs.micro(step, micro),
            targets: targets.micro(step, micro),
            segments: Some(segments.micro(step, micro)),
            labels: Some(follows.micro(step, micro)),
            classes: None,
            neighbours: None,
            numbers: None,
            asked: None,
            lengths: Some(lengths(&mask.micro(step, micro), rows)),
            documents: None,
            second: None,
            segment_lengths: [0; 2],
            cols,
        };
        batches::of(Content::Text(texts), rows)
    };
    let recipe = Recipe::usual([0.9, 0.98]);
    let batches = |step| uneven(step, batch);
    let task = follow(
        task,
        &oracle,
        &recipe,
        batches,
        &[
            ("losses_mlm", |output| output.loss.mean()),
            ("losses_nsp", |output| output.metrics["nsp_loss"].mean()),
            ("losses", |output| {
                output.loss.mean() + output.metrics["nsp_loss"].mean()
            }),
        ],
    );
    compare_ends(&oracle, &table.export(&values_of(&task)), 1e-3);
}

/// Sentence pairs of an oracle, for each step and micro-batch.
struct PairSteps {
    source: Steps,
    mask: Steps,
    inputs: Steps,
    targets: Steps,
}

impl PairSteps {
    fn of(oracle: &Oracle) -> Self {
        let read = |name: &str| Steps::of(oracle, name);
        Self {
            source: read("input_ids"),
            mask: read("attention_mask"),
            inputs: read("decoder_input_ids"),
            targets: read("labels"),
        }
    }

    fn batch(&self, step: usize, micro: usize) -> Batch {
        let rows = self.source.shape[2];
        let targets = self.targets.micro(step, micro);
        let scored: Vec<i32> = targets.iter().map(|t| i32::from(*t >= 0)).collect();
        let pairs = PairBatch {
            source: self.source.micro(step, micro),
            source_lengths: lengths(&self.mask.micro(step, micro), rows),
            source_cols: self.source.shape[3],
            inputs: self.inputs.micro(step, micro),
            target_lengths: lengths(&scored, rows),
            target_cols: self.inputs.shape[3],
            targets,
        };
        batches::of(Content::Pairs(pairs), rows)
    }

    /// Returns a step of two micro-batches of unequal weight.
    fn step(&self, step: usize) -> Vec<Batch> {
        let micros = vec![self.batch(step, 0), self.batch(step, 1)];
        assert_ne!(micros[0].scored, micros[1].scored);
        batches::in_one_step(micros, step)
    }
}

#[test]
fn label_smoothed_translation() {
    let oracle = Oracle::open("trajectory_translation");
    let device = Device::flex().autodiff();
    let config = encoder_decoder::torch(NormPlacement::Post);
    let table = names::transformer("model.", 2, 4, 24);
    let start = oracle.arrays(|name| name.strip_prefix("start."));
    let smoothed = TranslationConfig {
        label_smoothing: 0.1,
        ..TranslationConfig::default()
    };
    let model = encoder_decoder::model(&config, 24, &device);
    let task = import(
        Objective(Translation::new(model, &smoothed, 0)),
        &table,
        &start,
    );
    let pairs = PairSteps::of(&oracle);
    let recipe = Recipe {
        optimizer: adamw(0.2, 0.0, 1e-9),
        schedule: ScheduleConfig::Noam(NoamConfig {
            warmup_steps: 20,
            d_model: Some(24),
        }),
    };
    let task = follow(
        task,
        &oracle,
        &recipe,
        |step| pairs.step(step),
        &[("losses", |output| output.loss.mean())],
    );
    compare_ends(&oracle, &table.export(&values_of(&task)), 1e-3);
}

/// The corrupted texts come from the oracle, and the task is built as for an experiment.
#[test]
fn span_corruption() {
    let oracle = Oracle::open("trajectory_spans");
    let device = Device::flex().autodiff();
    let table = names::t5(2).within("model.");
    let start = oracle.arrays(|name| name.strip_prefix("start."));
    let model = ModelConfig::EncoderDecoder(encoder_decoder::t5(8, 16, Some(1.0)));
    let inputs = BuildContext {
        shape: &Shape::of_text(22, 32),
        seed: 0,
        device: &device,
    };
    let task = TaskConfig::SpanCorruption(SpanCorruptionConfig::default());
    let task = import(task.init(&model, &inputs, false).unwrap(), &table, &start);
    let pairs = PairSteps::of(&oracle);
    let recipe = Recipe {
        optimizer: adamw(3e-3, 0.0, 1e-6),
        schedule: ScheduleConfig::Cosine(DecayConfig {
            warmup_steps: 10,
            ..DecayConfig::default()
        }),
    };
    let task = follow(
        task,
        &oracle,
        &recipe,
        |step| pairs.step(step),
        &[("losses", |output| output.loss.mean())],
    );
    compare_ends(&oracle, &table.export(&values_of(&task)), 1e-3);
}
