//! Fifty steps of a ViT against PyTorch (`tests/goldens/make_trajectories.py`): two micro-batches per step, label smoothing,
//! clipping, AdamW with parameter groups, warmup and cosine.

use super::{classifier, collect, images, tiny_vit, vit, with_weights};
use crate::oracle::{Oracle, difference};
use formwork::data::Batch;
use formwork::interop::weights::Array;
use formwork::task::ImageClassificationConfig;
use formwork::train::gradients::accumulate;
use formwork::train::optim::{self, AdamwConfig, GroupConfig, OptimizerConfig};
use formwork::train::schedule::{DecayConfig, ScheduleConfig};
use std::collections::BTreeMap;

const IMAGE: [usize; 3] = [3, 8, 8];

fn ours(oracle: &Oracle, prefix: &str) -> BTreeMap<String, Array> {
    let theirs = oracle.arrays(|name| name.strip_prefix(prefix));
    theirs.into_iter().map(|(name, a)| vit(&name, a)).collect()
}

/// Returns the micro-batches of a step.
fn micros(pixels: &[i32], labels: &[i32], rows: usize, step: usize) -> Vec<Batch> {
    let size: usize = IMAGE.iter().product();
    let both = 2 * rows * step..2 * rows * (step + 1);
    let pixels: Vec<f32> = pixels[both.start * size..both.end * size]
        .iter()
        .map(|&x| x as f32 / 64.0)
        .collect();
    let parts = pixels.chunks(rows * size).zip(labels[both].chunks(rows));
    let batch = |(micro, (pixels, labels)): (usize, (&[f32], &[i32]))| Batch {
        first_row: micro * rows,
        step_scored: 2 * rows,
        step_rows: 2 * rows,
        step: step as u64,
        ..images(pixels, IMAGE, labels)
    };
    parts.enumerate().map(batch).collect()
}

#[test]
fn fifty_steps_are_pytorch_s() {
    let oracle = Oracle::open("trajectory_vit");
    let task = ImageClassificationConfig {
        label_smoothing: 0.1,
        ..ImageClassificationConfig::default()
    };
    let model = classifier(&tiny_vit(2), &task, IMAGE, 4);
    let mut model = with_weights(model, &ours(&oracle, "start."));
    let config = OptimizerConfig::Adamw(AdamwConfig {
        lr: 1e-2,
        betas: [0.9, 0.99],
        eps: 1e-6,
        weight_decay: 0.1,
        groups: vec![GroupConfig {
            pattern: "position".into(),
            weight_decay: Some(0.0),
            ..GroupConfig::default()
        }],
        ..AdamwConfig::default()
    });
    let schedule = ScheduleConfig::Cosine(DecayConfig {
        warmup_steps: 10,
        min_lr: Some(0.0),
        ..DecayConfig::default()
    });
    let mut optimizer = optim::build(&config, &model).unwrap();
    let (losses, norms) = (oracle.doubles("losses"), oracle.doubles("norms"));
    let rates = oracle.doubles("rates");
    let (_, pixels) = oracle.integers("pixels");
    let (shape, labels) = oracle.integers("labels");
    let (steps, rows) = (shape[0], shape[2]);
    let mut worst = (0.0f64, 0.0f64);
    for step in 0..steps {
        let mut gradient = accumulate(&model, micros(&pixels, &labels, rows, step));
        gradient.clip(&model, 1.0);
        let lr = schedule.lr(config.lr(), step as u64, steps as u64);
        model = optimizer.step(lr, model, gradient.gradients);
        let off = (gradient.output.loss.mean() - losses[step]).abs();
        let norm_off = (gradient.norm / norms[step] - 1.0).abs();
        assert!(
            off < 1e-3 && norm_off < 1e-3,
            "step {step}: {off} {norm_off}"
        );
        assert!((lr - rates[step]).abs() < 1e-12, "rate of step {step}");
        worst = (worst.0.max(off), worst.1.max(norm_off));
    }
    println!(
        "losses within {:.1e}, norms within {:.1e}",
        worst.0, worst.1
    );
    let found = collect(&model, None);
    for (path, theirs) in ours(&oracle, "end.") {
        // Key biases shift all scores of a query alike, so their updates are rounding noise.
        if !path.ends_with("key.bias") {
            let off = difference(&found[&path].values, &theirs.values);
            assert!(off < 1e-3, "{path} ends {off:e} away");
        }
    }
}
