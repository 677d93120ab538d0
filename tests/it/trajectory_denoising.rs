//! Fifty steps of denoising against PyTorch's BART (`tests/goldens/make_denoising_trajectory.py` is the oracle). Its decoder
//! begins with the end token, so that the frame's first token is scored too.

use crate::batches;
use crate::goldens_encoder_decoder as encoder_decoder;
use crate::names;
use crate::oracle::Oracle;
use crate::trajectory::{Recipe, Steps, compare_ends, follow, uneven};
use crate::transfer::{import, values_of};
use burn::tensor::Device;
use formwork::data::batch::{Content, PairBatch};
use formwork::data::corrupted::denoising::NoiseConfig;
use formwork::data::{Batch, Shape};
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::feed_forward::Activation;
use formwork::task::TaskConfig;

/// Returns the number of tokens in each row that are not padding.
fn lengths(values: &[i32], cols: usize, filling: i32) -> Vec<usize> {
    let rows = values.chunks(cols);
    rows.map(|row| row.iter().filter(|v| **v != filling).count())
        .collect()
}

#[test]
fn denoising() {
    let oracle = Oracle::open("trajectory_denoising");
    let device = Device::flex().autodiff();
    let table = names::marian_or_bart(2).within("model.");
    let start = oracle.arrays(|name| name.strip_prefix("start."));
    let model = ModelConfig::EncoderDecoder(encoder_decoder::bart(Activation::Gelu));
    let inputs = BuildContext {
        shape: &Shape::of_text(20, 32),
        seed: 0,
        device: &device,
    };
    let task = TaskConfig::Denoising(NoiseConfig::default());
    let task = task.init(&model, &inputs, false).unwrap();
    let task = import(task, &table, &start);
    let read = |name: &str| Steps::of(&oracle, name);
    let (source, mask) = (read("input_ids"), read("attention_mask"));
    let (inputs, targets) = (read("decoder_input_ids"), read("labels"));
    let (source_cols, target_cols) = (source.shape[3], inputs.shape[3]);
    let batch = |step: usize, micro: usize| -> Batch {
        let targets = targets.micro(step, micro);
        let pairs = PairBatch {
            source: source.micro(step, micro),
            source_lengths: lengths(&mask.micro(step, micro), source_cols, 0),
            source_cols,
            inputs: inputs.micro(step, micro),
            target_lengths: lengths(&targets, target_cols, -100),
            targets,
            target_cols,
        };
        batches::of(Content::Pairs(pairs), source.shape[2])
    };
    let recipe = Recipe::usual([0.9, 0.999]);
    let batches = |step| uneven(step, batch);
    let task = follow(
        task,
        &oracle,
        &recipe,
        batches,
        &[("losses", |output| output.loss.mean())],
    );
    compare_ends(&oracle, &table.export(&values_of(&task)), 1e-3);
}
