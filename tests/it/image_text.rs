//! Images and their texts: CLIP and SigLIP against transformers (`tests/goldens/make_clip.py`, `make_siglip.py`), contracts of
//! the task over kinds of towers, data of both kinds, and runs from training to classes named by texts.

mod contracts;
mod data;
mod names;
pub mod runs;
mod sigmoid;
mod told;

use crate::batches;
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, hf_folder, values};
use crate::transfer::{Against, gradients_of, opened};
use burn::train::TrainStep;
use formwork::data::batch::{CaptionedBatch, Content, ImageBatch, TextBatch};
use formwork::interop::read_hf;
use formwork::nn::pass::Pass;

/// Returns the golden's batch, with the texts' lengths or padded without them.
fn batch(oracle: &Oracle, with_lengths: bool) -> CaptionedBatch {
    let pixels = oracle.array("pixel_values");
    let (shape, inputs) = oracle.integers("input_ids");
    let lengths = crate::transfer::lengths(oracle, "attention_mask");
    CaptionedBatch {
        images: ImageBatch {
            pixels: pixels.values,
            shape: [pixels.shape[1], pixels.shape[2], pixels.shape[3]],
            labels: vec![0; shape[0]],
            mixed: None,
            views: None,
        },
        captions: TextBatch {
            inputs,
            lengths: with_lengths.then_some(lengths),
            cols: shape[1],
            ..TextBatch::default()
        },
        texts: (0..shape[0] as u64).collect(),
    }
}

#[test]
fn scores_loss_and_gradients_are_those_of_transformers() {
    for name in ["clip", "siglip"] {
        check(name);
    }
}

/// Checks a model of transformers with padded texts, whose ends are given by lengths or found by the model itself.
fn check(model: &str) {
    let oracle = Oracle::open(model);
    let weights = oracle.arrays(|name| name.strip_prefix("weight."));
    let folder = hf_folder(&oracle.config(), &weights);
    let hf = read_hf(folder.path(), &[]).unwrap();
    let task = opened(&hf);
    let mut against = Against::new(model, &oracle, TOLERANCE);
    let network = task.networks().image_text.unwrap();
    for with_lengths in [true, false] {
        let CaptionedBatch {
            images, captions, ..
        } = batch(&oracle, with_lengths);
        let pass = Pass::evaluation();
        let (images, texts) = (
            network.images(&images, &pass),
            network.texts(&captions, &pass),
        );
        let scores = network.scores(&images, &texts);
        for (name, found) in [
            ("image_embeds", images),
            ("text_embeds", texts),
            ("logits_per_image", scores),
        ] {
            let ours = values(found);
            against.check(name, &ours);
            let theirs = oracle.array(name).values;
            let far = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs());
            assert!(far.fold(0.0, f32::max) < 1e-4, "{model}: {name}");
        }
    }
    let batch = batches::of(Content::Captioned(batch(&oracle, true)), 3);
    let stepped = TrainStep::step(&task, batch.into());
    let (ours, theirs) = (
        stepped.item.loss.mean() as f32,
        oracle.array("loss").values[0],
    );
    assert!((ours - theirs).abs() < 1e-5, "{model}: {ours} and {theirs}");
    against.check_gradients(&gradients_of(&task, &stepped.grads), &hf.table());
}
