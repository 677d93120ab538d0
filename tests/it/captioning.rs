//! Captions of images: Flamingo against transformers' Idefics (`tests/goldens/make_flamingo.py`), the contracts of network and
//! task over all kinds of image reader, and runs from training to captions.

mod cases;
mod contracts;
mod faults;
mod folders;
mod parts;
mod runs;

use crate::batches;
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, hf_folder, values};
use crate::transfer::{Against, Arrays, gradients_of, lengths, opened};
use burn::tensor::TensorData;
use burn::train::TrainStep;
use formwork::data::NOT_SCORED;
use formwork::data::batch::{CaptionedBatch, Content, ImageBatch, TextBatch};
use formwork::interop::read_hf;
use formwork::interop::weights::Array;
use formwork::model::LanguageModel;
use formwork::model::decoder::DecoderInput;
use formwork::nn::pass::Pass;

/// Builds captions whose targets are the tokens that follow.
pub fn captions(inputs: Vec<i32>, cols: usize, lengths: &[usize]) -> TextBatch {
    let mut targets = vec![NOT_SCORED; inputs.len()];
    for (row, length) in lengths.iter().enumerate() {
        let (begin, end) = (row * cols, row * cols + length - 1);
        targets[begin..end].copy_from_slice(&inputs[begin + 1..=end]);
    }
    let uneven = lengths.iter().any(|length| *length < cols);
    TextBatch {
        inputs,
        targets,
        lengths: uneven.then(|| lengths.to_vec()),
        cols,
        ..TextBatch::default()
    }
}

/// The oracle's weights under the parameter names of the HF class.
fn weights(oracle: &Oracle) -> Arrays {
    let mut weights = oracle.arrays(|name| name.strip_prefix("weight."));
    // The HF class has this norm but never uses it.
    for (kind, value) in [("weight", 1.0), ("bias", 0.0)] {
        let path = format!("model.vision_model.post_layernorm.{kind}");
        let norm = Array {
            shape: vec![20],
            values: vec![value; 20],
        };
        weights.insert(path, norm);
    }
    weights
}

fn batch(oracle: &Oracle) -> CaptionedBatch {
    let pixels = oracle.array("pixel_values");
    let (shape, inputs) = oracle.integers("input_ids");
    CaptionedBatch {
        images: ImageBatch {
            pixels: pixels.values,
            shape: [pixels.shape[1], pixels.shape[2], pixels.shape[3]],
            labels: vec![0; shape[0]],
            mixed: None,
            views: None,
        },
        captions: captions(inputs, shape[1], &lengths(oracle, "attention_mask")),
        texts: (0..shape[0] as u64).collect(),
    }
}

#[test]
fn logits_loss_and_gradients_are_those_of_transformers() {
    for name in ["flamingo_resampled", "flamingo_patches"] {
        let oracle = Oracle::open(name);
        let folder = hf_folder(&oracle.config(), &weights(&oracle));
        let hf = read_hf(folder.path(), &[]).unwrap();
        let task = opened(&hf);
        let mut against = Against::new(name, &oracle, TOLERANCE);
        let network = task.networks().captioning.unwrap();
        let given = batch(&oracle);
        let pass = Pass::evaluation();
        let memory = network
            .model
            .image_memory(network.pixels(&given.images), &pass);
        let looked_at = values(memory.clone());
        against.check("looked_at", &looked_at);
        let ids = TensorData::new(given.captions.inputs.clone(), [3, 7]);
        let seeing = network.model.with_images(memory);
        let ids = burn::tensor::Tensor::from_data(ids, &network.device());
        let hidden = seeing.forward(DecoderInput::new(ids), None, &pass);
        let mut logits = values(seeing.logits(hidden));
        for (row, length) in lengths(&oracle, "attention_mask").into_iter().enumerate() {
            logits[(row * 7 + length) * 37..(row + 1) * 7 * 37].fill(0.0);
        }
        against.check("logits", &logits);
        let stepped = TrainStep::step(&task, batches::of(Content::Captioned(given), 3).into());
        let (ours, theirs) = (
            stepped.item.loss.mean() as f32,
            oracle.array("loss").values[0],
        );
        assert!((ours - theirs).abs() < 1e-4 * theirs, "{ours} and {theirs}");
        let mut table = hf.table();
        table.constants.clear();
        against.check_gradients(&gradients_of(&task, &stepped.grads), &table);
    }
}
