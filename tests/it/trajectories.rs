//! Fifty steps of masked language modelling with next-sentence prediction, and of label-smoothed translation,
//! against PyTorch (`tests/goldens/make_trajectories.py` is the oracle).

use crate::batches;
use crate::goldens_encoder_decoder as encoder_decoder;
use crate::goldens_encoders as encoders;
use crate::names;
use crate::oracle::Oracle;
use crate::trajectory::{Recipe, Steps, compare_ends, follow};
use crate::transfer::{import, values_of};
use burn::tensor::Device;
use formwork::data::Batch;
use formwork::data::batch::{Content, PairBatch, TextBatch};
use formwork::data::masked::masking::Pairs;
use formwork::nn::position::learned::LearnedConfig;
use formwork::stack::NormPlacement;
use formwork::task::{Objective, Translation, TranslationConfig};
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

/// Tokens of each row, from its mask.
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
            lengths: Some(lengths(&mask.micro(step, micro), rows)),
            documents: None,
            second: None,
            cols,
        };
        batches::of(Content::Text(texts), rows)
    };
    let recipe = Recipe {
        optimizer: adamw(1e-2, 0.1, 1e-6),
        schedule: ScheduleConfig::Cosine(DecayConfig {
            warmup_steps: 10,
            ..DecayConfig::default()
        }),
    };
    let batches = |step| {
        let micros = vec![batch(step, 0), batch(step, 1)];
        assert_ne!(micros[0].scored, micros[1].scored);
        batches::in_one_step(micros, step)
    };
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
    let read = |name: &str| Steps::of(&oracle, name);
    let (source, mask) = (read("input_ids"), read("attention_mask"));
    let (inputs, targets) = (read("decoder_input_ids"), read("labels"));
    let rows = source.shape[2];
    let batch = |step: usize, micro: usize| -> Batch {
        let targets = targets.micro(step, micro);
        let scored: Vec<i32> = targets.iter().map(|t| i32::from(*t >= 0)).collect();
        let pairs = PairBatch {
            source: source.micro(step, micro),
            source_lengths: lengths(&mask.micro(step, micro), rows),
            source_cols: source.shape[3],
            inputs: inputs.micro(step, micro),
            target_lengths: lengths(&scored, rows),
            target_cols: inputs.shape[3],
            targets,
        };
        batches::of(Content::Pairs(pairs), rows)
    };
    let recipe = Recipe {
        optimizer: adamw(0.2, 0.0, 1e-9),
        schedule: ScheduleConfig::Noam(NoamConfig {
            warmup_steps: 20,
            d_model: Some(24),
        }),
    };
    let batches = |step| {
        let micros = vec![batch(step, 0), batch(step, 1)];
        assert_ne!(micros[0].scored, micros[1].scored);
        batches::in_one_step(micros, step)
    };
    let task = follow(
        task,
        &oracle,
        &recipe,
        batches,
        &[("losses", |output| output.loss.mean())],
    );
    compare_ends(&oracle, &table.export(&values_of(&task)), 1e-3);
}
