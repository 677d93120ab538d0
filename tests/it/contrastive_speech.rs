//! Contrastive pretraining on recordings against transformers' `Wav2Vec2ForPreTraining` (`tests/goldens/make_wav2vec2_pretraining.py`):
//! codes, losses and gradients; and runs of it.

mod contracts;
mod runs;

use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, hf_folder, values};
use crate::transfer::{Against, gradients_of, lengths};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use formwork::data::batch::SpeechBatch;
use formwork::interop::weights::Array;
use formwork::interop::{HfModel, read_hf};
use formwork::model::speech_encoder::FeatureMasks;
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::pass::Pass;
use formwork::task::contrastive_speech::{Comparison, Sampled};
use formwork::task::{ContrastiveSpeech, ContrastiveSpeechConfig, TaskConfig};
use formwork::train::parameters::{materialize, name_parameters};
use tempfile::TempDir;

/// Returns the oracle's folder, which is removed when it is dropped, and its model.
fn folder(oracle: &Oracle) -> (TempDir, HfModel) {
    let weights = oracle.arrays(|name| name.strip_prefix("weight."));
    let folder = hf_folder(&oracle.config(), &weights);
    let hf = read_hf(folder.path(), &[]).unwrap();
    (folder, hf)
}

fn configs(hf: &HfModel) -> (&ContrastiveSpeechConfig, ContrastiveSpeech) {
    let TaskConfig::ContrastiveSpeech(config) = &hf.shape.task else {
        panic!("the folder is of another task")
    };
    let ModelConfig::SpeechEncoder(model) = &hf.shape.model else {
        panic!("the folder is of another model")
    };
    let inputs = BuildContext {
        shape: &hf.shape.shape,
        seed: 5,
        device: &Device::flex().autodiff(),
    };
    let task = ContrastiveSpeech::new(model, config, &inputs).unwrap();
    (config, materialize(name_parameters(task)))
}

fn recordings(oracle: &Oracle) -> SpeechBatch {
    let samples = oracle.array("input_values");
    SpeechBatch {
        features: samples.values,
        rows: samples.shape[0],
        lengths: lengths(oracle, "attention_mask"),
        width: samples.shape[1],
        ..SpeechBatch::default()
    }
}

/// Returns the oracle's masks, comparisons and noise; theirs count frames through all rows, ours the masked frames of a row.
fn sampled(oracle: &Oracle, entries: usize) -> Sampled {
    let (shape, masked) = oracle.integers("mask_time_indices");
    let [rows, frames] = [shape[0], shape[1]];
    let masks = FeatureMasks::of_frames(rows, masked.iter().map(|m| *m != 0).collect());
    let (shape, indices) = oracle.integers("sampled_negative_indices");
    let count = shape[2];
    let noise = oracle.array("train.noise").values;
    let of_rows = masks.masked_frames();
    let numbered = of_rows.iter().enumerate();
    let negatives = numbered.map(|(row, own)| {
        let number = |index: &i32| {
            let frame = *index as usize - row * frames;
            own.iter().position(|masked| *masked == frame).unwrap()
        };
        let others = own.iter().map(|frame| {
            let others = &indices[(row * frames + frame) * count..][..count];
            others.iter().map(number).collect()
        });
        others.collect()
    });
    let negatives = negatives.collect();
    let numbered = of_rows.iter().enumerate();
    let noise = numbered.map(|(row, own)| {
        let of_frame = |frame: &usize| {
            let begin = (row * frames + frame) * entries;
            noise[begin..begin + entries].to_vec()
        };
        own.iter().flat_map(of_frame).collect()
    });
    Sampled {
        masks,
        negatives,
        noise: Some(noise.collect()),
    }
}

/// Returns the whole loss as transformers adds it up: sums over masked frames.
fn whole(found: &Comparison, config: &ContrastiveSpeechConfig) -> (Tensor<1>, Tensor<1>) {
    let entries = (config.codebooks * config.entries) as f64;
    let diversity = (found.perplexity.clone().neg() / entries + 1.0) * found.masked as f64;
    let whole = found.loss.clone() + diversity.clone() * config.diversity_weight;
    (whole, diversity)
}

fn near(ours: Tensor<1>, theirs: &Array, name: &str) {
    let off = difference(&values(ours), &theirs.values);
    assert!(off < 1e-4, "{name} is off by {off:e}");
}

#[test]
fn losses_and_gradients_are_those_of_transformers() {
    let oracle = Oracle::open("wav2vec2_pretraining");
    let (_folder, hf) = folder(&oracle);
    let (config, fresh) = configs(&hf);
    let task = hf.load(fresh, hf.table()).unwrap();
    let speech = recordings(&oracle);
    let sampled = sampled(&oracle, config.codebooks * config.entries);
    for (prefix, temperature) in [("eval", None), ("train", Some(2.0))] {
        let pass = Pass::evaluation();
        let found = task.compare_sampled(&speech, &sampled, temperature, &pass);
        let (loss, diversity) = whole(&found, config);
        let theirs = |name: &str| oracle.array(&format!("{prefix}.{name}"));
        near(found.loss.clone(), &theirs("contrastive_loss"), prefix);
        near(diversity, &theirs("diversity_loss"), prefix);
        near(found.perplexity, &theirs("codevector_perplexity"), prefix);
        near(loss.clone(), &theirs("loss"), prefix);
        if temperature.is_none() {
            near(
                found.chosen,
                &theirs("codevector_perplexity"),
                "chosen entries",
            );
            continue;
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &task);
        let mut against = Against::new("wav2vec2_pretraining", &oracle, TOLERANCE);
        against.check_gradients(&gradients_of(&task, &gradients), &hf.table());
    }
}

#[test]
fn codes_equal_to_a_frame_s_own_do_not_count_against_it() {
    let oracle = Oracle::open("wav2vec2_pretraining");
    let (_folder, hf) = folder(&oracle);
    let (config, fresh) = configs(&hf);
    let task = hf.load(fresh, hf.table()).unwrap();
    let speech = recordings(&oracle);
    let mut sampled = sampled(&oracle, config.codebooks * config.entries);
    // Compared with nothing but itself, a frame is always recognised, at no loss.
    for (row, frames) in sampled.negatives.iter_mut().enumerate() {
        for (own, others) in frames.iter_mut().enumerate() {
            assert!(!others.contains(&own), "row {row}");
            others.fill(own);
        }
    }
    let found = task.compare_sampled(&speech, &sampled, None, &Pass::evaluation());
    assert!(values(found.loss)[0].abs() < 1e-6);
    assert_eq!(values(found.right)[0], found.masked as f32);
}
