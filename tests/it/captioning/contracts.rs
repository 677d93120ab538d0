//! Contracts of network and task, over all kinds of image reader: every parameter learns, the same seed gives the same bits,
//! gates at zero leave a plain decoder, logits change with the picture, decoding from caches equals the full pass, padding
//! changes nothing, micro-batches make one batch, dropout draws by step, one batch is learned by heart.

use super::cases::{COLS, IMAGE, LENGTHS, VOCAB, batch, cases, content, shape};
use crate::batches::cut;
use crate::oracle::{difference, values};
use crate::task_contracts;
use crate::transfer::gradients_of;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::InferenceStep;
use formwork::data::batch::Content;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, LanguageModel, ModelConfig};
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use formwork::rng;
use formwork::task::{Objective, TaskConfig};
use formwork::train::gradients::accumulate;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::json;

/// Returns the logits of all positions of the batch, with its images rotated by `turn` rows.
fn logits(task: &Objective, turn: usize) -> Vec<f32> {
    let (batch, network) = (batch(), task.networks().captioning.unwrap());
    let mut images = content(&batch).images.clone();
    let each: usize = IMAGE.iter().product();
    images.pixels.rotate_left(turn * each);
    let pass = Pass::evaluation();
    let memory = network.model.image_memory(network.pixels(&images), &pass);
    let seeing = network.model.with_images(memory);
    let input = DecoderInput::new(ids(&content(&batch).captions.inputs, 4, network.device()));
    values(seeing.logits(seeing.forward(input, None, &pass)))
}

fn ids(values: &[i32], rows: usize, device: Device) -> Tensor<2, Int> {
    let data = TensorData::new(values.to_vec(), [rows, values.len() / rows]);
    Tensor::from_data(data, &device)
}

#[test]
fn every_parameter_learns_and_alike_each_time() {
    for case in cases() {
        task_contracts::every_parameter_learns(case.name, &batch(), || case.open(5, 0.0));
    }
}

/// Before the first step, a decoder with gates gives the outputs of the plain decoder (Alayrac et al. 2022, section 2.2) for
/// every picture; it learns to use pictures nevertheless.
#[test]
fn gates_at_zero_leave_the_decoder_as_it_is() {
    for case in cases() {
        let (task, seed) = (case.build(5, 0.0), rng::part_coordinate(5, "text"));
        let alone: TaskConfig = serde_json::from_value(json!({ "kind": "causal_lm" })).unwrap();
        let text: ModelConfig = serde_json::from_value(case.model["text"].clone()).unwrap();
        let device = Device::flex().autodiff();
        let inputs = BuildContext {
            shape: &shape(),
            seed,
            device: &device,
        };
        let alone = materialize(name_parameters(alone.init(&text, &inputs, false).unwrap()));
        let network = alone.networks().language_model.unwrap();
        let input = DecoderInput::new(ids(&content(&batch()).captions.inputs, 4, device.clone()));
        let plain = values(network.logits(network.forward(input, None, &Pass::evaluation())));
        let gated = case.model["cross_attention"]["gate"] != "none";
        assert_eq!(logits(&task, 0) == plain, gated, "{}", case.name);
        assert_eq!(logits(&task, 0) == logits(&task, 1), gated, "{}", case.name);
        let gradient = accumulate(&task, vec![batch()]);
        for (path, array) in gradients_of(&task, &gradient.gradients) {
            if path.ends_with("_gate") {
                assert!(array.values[0] != 0.0, "{}: {path}", case.name);
            }
        }
    }
}

#[test]
fn scores_change_with_the_picture_of_their_own_row() {
    for case in cases() {
        let task = case.open(5, 0.0);
        let (own, others) = (logits(&task, 0), logits(&task, 1));
        for (row, (a, b)) in own
            .chunks(COLS * VOCAB)
            .zip(others.chunks(COLS * VOCAB))
            .enumerate()
        {
            assert!(difference(a, b) > 1e-4, "{}: row {row}", case.name);
        }
        // A row has the same logits alone as in a batch.
        let network = task.networks().captioning.unwrap();
        let one = cut(&batch(), 2..3, false);
        let memory = network
            .model
            .image_memory(network.pixels(&content(&one).images), &Pass::evaluation());
        let seeing = network.model.with_images(memory);
        let input = DecoderInput::new(ids(&content(&one).captions.inputs, 1, network.device()));
        let alone = values(seeing.logits(seeing.forward(input, None, &Pass::evaluation())));
        let among = &own[2 * COLS * VOCAB..3 * COLS * VOCAB];
        assert!(difference(&alone, among) < 1e-5, "{}", case.name);
    }
}

/// Token by token, and in two pieces; rows change places on the way, as in beam search.
#[test]
fn decoding_from_caches_equals_the_full_pass() {
    for case in cases() {
        let task = case.open(5, 0.0).valid();
        let network = task.networks().captioning.unwrap();
        let (batch, pass) = (batch(), Pass::evaluation());
        let (given, full) = (content(&batch), logits(&task, 0));
        let rows = given.captions.inputs.chunks(COLS);
        let column = |from: usize, to: usize| -> Vec<i32> {
            rows.clone()
                .flat_map(|row| row[from..to].to_vec())
                .collect()
        };
        for pieces in [vec![1; COLS], vec![4, 1, 2]] {
            let memory = network
                .model
                .image_memory(network.pixels(&given.images), &pass);
            let mut seeing = network.model.with_images(memory);
            let mut state = seeing.empty_state(StateUse::Decoding);
            let (mut from, mut order) = (0, [0usize, 1, 2, 3]);
            for piece in pieces {
                let flat = column(from, from + piece);
                let turned: Vec<i32> = order
                    .iter()
                    .flat_map(|row| flat[row * piece..(row + 1) * piece].to_vec())
                    .collect();
                let input = DecoderInput::new(ids(&turned, 4, network.device()));
                let hidden = seeing.forward(input, Some(&mut state), &pass);
                let found = values(seeing.logits(hidden));
                for (place, row) in order.iter().enumerate() {
                    let found = &found[place * piece * VOCAB..(place + 1) * piece * VOCAB];
                    let wanted = &full[(row * COLS + from) * VOCAB..][..piece * VOCAB];
                    let off = difference(found, wanted);
                    assert!(off < 1e-4, "{}: {from} is off by {off:e}", case.name);
                }
                from += piece;
                let turn = Tensor::<1, Int>::from_ints([1, 2, 3, 0], &network.device());
                seeing.select(&turn);
                state.select(&turn);
                order.rotate_left(1);
            }
        }
    }
}

#[test]
fn filling_changes_nothing() {
    for case in cases() {
        let mut filled = batch();
        if let Content::Captioned(content) = &mut filled.content {
            for (row, length) in LENGTHS.iter().enumerate() {
                content.captions.inputs[row * COLS + length..(row + 1) * COLS].fill(9);
            }
        }
        let both = [batch(), filled];
        let task = case.open(5, 0.0);
        let one = task_contracts::filling_changes_nothing(case.name, both, &task);
        let scored: usize = LENGTHS.iter().map(|length| length - 1).sum();
        assert_eq!(one.loss.weight, scored as f64, "{}", case.name);
    }
}

#[test]
fn micro_batches_equal_one_batch() {
    for case in cases() {
        let task = case.open(5, 0.2);
        task_contracts::micro_batches_equal_one_batch(case.name, &batch(), &task);
    }
}

/// Recomputed blocks of the decoder and of stages, whose states all cross-attention layers read.
#[test]
fn gradients_of_blocks_computed_anew_are_the_same() {
    let [.., case, _] = cases();
    task_contracts::blocks_computed_anew(case.name, &batch(), &case.open(5, 0.2), 1e-6);
}

#[test]
fn dropout_draws_by_step_and_rests_in_evaluation() {
    for case in cases() {
        let both = [0.5, 0.0].map(|dropout| case.open(5, dropout));
        task_contracts::dropout_draws_by_step(case.name, &batch(), both);
    }
}

/// From closed gates on: after the first token, only the picture tells the rows apart.
#[test]
fn one_batch_is_learnt_by_heart() {
    for case in cases() {
        let mut same = batch();
        if let Content::Captioned(content) = &mut same.content {
            for row in 0..4 {
                content.captions.inputs[row * COLS] = 1;
            }
        }
        let task = task_contracts::trained(case.build(5, 0.0), &same, 5e-3, 300);
        let found = InferenceStep::step(&task.valid(), same.into());
        println!("{}: {:.4}", case.name, found.loss.mean());
        // Without pictures, the first target costs ln 4 of the loss of 18 tokens, so the mean would be at least 0.3.
        assert!(
            found.loss.mean() < 0.1,
            "{}: {}",
            case.name,
            found.loss.mean()
        );
    }
}
