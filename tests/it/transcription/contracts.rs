//! Contracts of network and task, over all kinds of audio encoder: every parameter learns, the same seed gives the same bits,
//! logits change with the recording of their own row, decoding from caches equals the full pass, padding changes nothing,
//! micro-batches make one batch, dropout draws by step, one batch is learned by heart.

use super::cases::{COLS, LENGTHS, SPEECH, VOCAB, batch, cases, content};
use crate::batches::cut;
use crate::oracle::{difference, values};
use crate::task_contracts;
use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use burn::train::InferenceStep;
use formwork::data::batch::{Batch, Content};
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use formwork::task::{Objective, Transcription};

fn ids(task: &Transcription, values: &[i32], rows: usize) -> Tensor<2, Int> {
    let data = TensorData::new(values.to_vec(), [rows, values.len() / rows]);
    Tensor::from_data(data, &task.device())
}

/// Returns the logits of all positions of a batch, with its recordings rotated by `turn` rows.
fn logits(task: &Objective, batch: &Batch, turn: usize) -> Vec<f32> {
    let network = task.networks().transcription.unwrap();
    let mut speech = content(batch).speech.clone();
    speech
        .features
        .rotate_left(turn * SPEECH.n_mels * SPEECH.n_frames);
    let pass = Pass::evaluation();
    let source = network.model.encode(network.features(&speech), &pass);
    let read = ids(network, &content(batch).transcripts.inputs, batch.rows);
    let hidden = network.model.decode(read, &source, None, &pass);
    values(network.model.vocabulary_head().logits(hidden))
}

#[test]
fn every_parameter_learns_and_alike_each_time() {
    for case in cases() {
        task_contracts::every_parameter_learns(case.name, &batch(), || case.build(5, 0.0));
    }
}

#[test]
fn scores_change_with_the_recording_of_their_own_row() {
    for case in cases() {
        let task = case.build(5, 0.0);
        let (own, others) = (logits(&task, &batch(), 0), logits(&task, &batch(), 1));
        let rows = own.chunks(COLS * VOCAB).zip(others.chunks(COLS * VOCAB));
        for (row, (a, b)) in rows.enumerate() {
            assert!(difference(a, b) > 1e-5, "{}: row {row}", case.name);
        }
        // A row has the same logits alone as in a batch.
        let alone = logits(&task, &cut(&batch(), 2..3, false), 0);
        let among = &own[2 * COLS * VOCAB..3 * COLS * VOCAB];
        assert!(difference(&alone, among) < 1e-5, "{}", case.name);
    }
}

/// Token by token, and in two pieces; rows change places on the way, as in beam search.
#[test]
fn decoding_from_caches_equals_the_full_pass() {
    for case in cases() {
        let task = case.build(5, 0.0).valid();
        let network = task.networks().transcription.unwrap();
        let (batch, pass) = (batch(), Pass::evaluation());
        let (given, full) = (content(&batch), logits(&task, &batch, 0));
        let rows = given.transcripts.inputs.chunks(COLS);
        for pieces in [vec![1; COLS], vec![4, 1, 2]] {
            let mut source = network.model.encode(network.features(&given.speech), &pass);
            let mut state = network.model.empty_state(StateUse::Decoding);
            let (mut from, mut order) = (0, [0usize, 1, 2, 3]);
            for piece in pieces {
                let rows: Vec<&[i32]> = rows.clone().collect();
                let turned = order
                    .iter()
                    .flat_map(|row| rows[*row][from..from + piece].to_vec());
                let read = ids(network, &turned.collect::<Vec<i32>>(), 4);
                let hidden = network.model.decode(read, &source, Some(&mut state), &pass);
                let found = values(network.model.vocabulary_head().logits(hidden));
                for (place, row) in order.iter().enumerate() {
                    let found = &found[place * piece * VOCAB..(place + 1) * piece * VOCAB];
                    let wanted = &full[(row * COLS + from) * VOCAB..][..piece * VOCAB];
                    let off = difference(found, wanted);
                    assert!(off < 1e-4, "{}: {from} is off by {off:e}", case.name);
                }
                from += piece;
                source = source.select(&[1, 2, 3, 0]);
                state.select(&Tensor::<1, Int>::from_ints(
                    [1, 2, 3, 0],
                    &network.device(),
                ));
                order.rotate_left(1);
            }
        }
    }
}

#[test]
fn filling_changes_nothing() {
    for case in cases() {
        let mut filled = batch();
        if let Content::Spoken(content) = &mut filled.content {
            for (row, length) in LENGTHS.iter().enumerate() {
                content.transcripts.inputs[row * COLS + length..(row + 1) * COLS].fill(9);
            }
        }
        let both = [batch(), filled];
        let task = case.build(5, 0.0);
        let one = task_contracts::filling_changes_nothing(case.name, both, &task);
        let scored: usize = LENGTHS.iter().map(|length| length - 1).sum();
        assert_eq!(one.loss.weight, scored as f64, "{}", case.name);
    }
}

#[test]
fn micro_batches_equal_one_batch() {
    for case in cases() {
        let task = case.build(5, 0.2);
        task_contracts::micro_batches_equal_one_batch(case.name, &batch(), &task);
    }
}

#[test]
fn gradients_of_blocks_computed_anew_are_the_same() {
    for case in cases() {
        task_contracts::blocks_computed_anew(case.name, &batch(), &case.build(5, 0.2), 1e-6);
    }
}

#[test]
fn dropout_draws_by_step_and_rests_in_evaluation() {
    for case in cases() {
        let both = [0.5, 0.0].map(|dropout| case.build(5, dropout));
        task_contracts::dropout_draws_by_step(case.name, &batch(), both);
    }
}

/// After the first token, only the recording tells the rows apart.
#[test]
fn one_batch_is_learnt_by_heart() {
    let case = &cases()[0];
    let mut same = batch();
    if let Content::Spoken(content) = &mut same.content {
        for row in 0..4 {
            content.transcripts.inputs[row * COLS] = 1;
        }
    }
    let task = task_contracts::trained(case.build(5, 0.0), &same, 5e-3, 300);
    let found = InferenceStep::step(&task.valid(), same.into());
    // Without recordings, the first target costs ln 4 of the loss of 18 tokens, so the mean would be at least 0.3.
    assert!(found.loss.mean() < 0.1, "{}", found.loss.mean());
}
