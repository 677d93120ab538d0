//! Connectionist temporal classification: its loss against PyTorch's (`tests/goldens/make_ctc.py`), wav2vec 2.0 and HuBERT
//! against transformers' (`tests/goldens/make_wav2vec2.py`), contracts of network and task over kinds of encoders, and runs
//! from training to transcripts and exported folders.

pub mod cases;
mod contracts;
mod faults;
pub mod folders;
mod runs;

use crate::batches;
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, hf_folder, values};
use crate::transfer::{Against, at_tokens, gradients_of, lengths, opened};
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::TrainStep;
use formwork::data::batch::{Content, SpeechBatch, SpokenBatch, TextBatch};
use formwork::interop::read_hf;
use formwork::kernel::ctc::{CtcTargets, composed, losses};
use formwork::nn::pass::Pass;

/// Scores that require gradients, and their target texts.
fn scored(oracle: &Oracle) -> (Tensor<3>, CtcTargets) {
    let scores = oracle.array("scores");
    let shape: [usize; 3] = scores.shape.clone().try_into().unwrap();
    let device = Device::flex().autodiff();
    let scores = Tensor::<3>::from_data(TensorData::new(scores.values, shape), &device);
    let (shape, labels) = oracle.integers("labels");
    let rows = labels.chunks(shape[1]);
    let targets = CtcTargets {
        labels: rows
            .map(|row| row.iter().copied().filter(|id| *id >= 0).collect())
            .collect(),
        frames: oracle
            .integers("frames")
            .1
            .iter()
            .map(|n| *n as usize)
            .collect(),
        blank: 2,
    };
    (scores.require_grad(), targets)
}

#[test]
fn losses_and_their_gradients_are_those_of_pytorch() {
    let oracle = Oracle::open("ctc");
    let (scores, targets) = scored(&oracle);
    let theirs = oracle.array("losses").values;
    let plain = values(losses(scores.clone(), &targets, false));
    let without = values(losses(scores.clone(), &targets, true));
    for (row, (ours, theirs)) in plain.iter().zip(&theirs).enumerate() {
        let same = ours == theirs || (ours - theirs).abs() < 1e-4 * theirs.abs();
        assert!(same, "row {row}: {ours} and {theirs}");
        let finite = if theirs.is_finite() { *theirs } else { 0.0 };
        assert!((without[row] - finite).abs() < 1e-4 * finite.max(1.0));
    }
    let weights = Tensor::<1>::from_data([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &scores.device());
    let sum = (losses(scores.clone(), &targets, true) * weights).sum();
    let ours = values(scores.grad(&sum.backward()).unwrap());
    let off = difference(&ours, &oracle.array("grad").values);
    assert!(off < 1e-5, "{off:e}");
}

/// The loss kernel equals the form for other devices, made of Burn's operations, for the rows that have an alignment.
#[test]
fn the_kernel_is_burn_s_operation() {
    let (scores, mut targets) = scored(&Oracle::open("ctc"));
    targets.labels.truncate(4);
    targets.frames.truncate(4);
    let scores = scores.inner().narrow(0, 0, 4);
    let ours = values(losses(scores.clone(), &targets, false));
    let theirs = values(composed(scores, &targets, false));
    assert!(difference(&ours, &theirs) < 1e-5, "{ours:?} {theirs:?}");
}

fn batch(oracle: &Oracle) -> SpokenBatch {
    let samples = oracle.array("input_values");
    let (shape, targets) = oracle.integers("labels");
    SpokenBatch {
        speech: SpeechBatch {
            features: samples.values,
            rows: shape[0],
            lengths: lengths(oracle, "attention_mask"),
            width: samples.shape[1],
            ..SpeechBatch::default()
        },
        transcripts: TextBatch {
            inputs: targets.clone(),
            targets,
            cols: shape[1],
            ..TextBatch::default()
        },
    }
}

#[test]
fn scores_loss_and_gradients_are_those_of_transformers() {
    for name in ["wav2vec2", "wav2vec2_stable", "hubert"] {
        let oracle = Oracle::open(name);
        let weights = oracle.arrays(|name| name.strip_prefix("weight."));
        let folder = hf_folder(&oracle.config(), &weights);
        let hf = read_hf(folder.path(), &[]).unwrap();
        let task = opened(&hf);
        let mut against = Against::new(name, &oracle, TOLERANCE);
        let network = task.networks().ctc.unwrap();
        let given = batch(&oracle);
        let frames = network.frames(&given.speech, &Pass::evaluation());
        let scores = network.model.scores(frames.states);
        let longest = scores.dims()[1];
        let scores = at_tokens(values(scores), &frames.lengths, longest);
        against.check("logits", &scores);
        let rows = given.speech.rows;
        let stepped = TrainStep::step(&task, batches::of(Content::Spoken(given), rows).into());
        let summed = oracle.config().contains("\"ctc_loss_reduction\": \"sum\"");
        let ours = stepped.item.loss.mean() as f32 * if summed { rows as f32 } else { 1.0 };
        let theirs = oracle.array("loss").values[0];
        assert!((ours - theirs).abs() < 1e-4 * theirs, "{ours} and {theirs}");
        against.check_gradients(&gradients_of(&task, &stepped.grads), &hf.table());
    }
}
