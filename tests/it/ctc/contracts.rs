//! Contracts of network and task, over kinds of encoders: every parameter learns, the same seed gives the same bits, a row has
//! the same scores alone as among longer ones, padding changes nothing, micro-batches make one batch, dropout and masks draw by
//! step, one batch is learned by heart.

use super::cases::{Case, LENGTHS, VOCAB, batch, batch_with, cases, content};
use crate::batches::cut;
use crate::oracle::{difference, values};
use crate::task_contracts;
use burn::module::Module;
use burn::train::InferenceStep;
use formwork::data::batch::SpeechBatch;
use formwork::nn::pass::Pass;
use formwork::task::Objective;

/// Cases without masks, which are drawn in training.
fn still() -> Vec<Case> {
    cases().into_iter().filter(|c| c.name != "masked").collect()
}

/// Returns the frame scores of each row.
fn scores(task: &Objective, speech: &SpeechBatch) -> Vec<Vec<f32>> {
    let network = task.networks().ctc.unwrap();
    let frames = network.frames(speech, &Pass::evaluation());
    let all = network.model.scores(frames.states);
    let longest = all.dims()[1];
    let all = values(all);
    let rows = all.chunks(longest * VOCAB).zip(frames.lengths);
    rows.map(|(row, own)| row[..own * VOCAB].to_vec()).collect()
}

#[test]
fn every_parameter_learns_and_alike_each_time() {
    for case in cases() {
        task_contracts::every_parameter_learns(case.name, &batch(), || case.build(5, 0.0));
    }
}

#[test]
fn a_row_alone_has_the_scores_that_it_has_among_longer_ones() {
    for case in cases() {
        let task = case.build(5, 0.0).valid();
        let given = batch();
        let speech = &content(&given).speech;
        let among = scores(&task, speech);
        for (row, length) in LENGTHS.iter().enumerate() {
            let alone = SpeechBatch {
                features: speech.features[row * speech.width..][..*length].to_vec(),
                rows: 1,
                lengths: vec![*length],
                width: *length,
                ..SpeechBatch::default()
            };
            let alone = scores(&task, &alone).remove(0);
            let off = difference(&alone, &among[row]);
            assert!(off < 1e-4, "{}: row {row} is off by {off:e}", case.name);
        }
        assert!(difference(&among[0], &among[2]) > 1e-4, "{}", case.name);
    }
}

#[test]
fn filling_changes_nothing() {
    for case in cases() {
        let both = [batch(), batch_with(3.0)];
        let task = case.build(5, 0.0);
        let one = task_contracts::filling_changes_nothing(case.name, both, &task);
        assert_eq!(one.loss.weight, 4.0, "{}", case.name);
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
fn dropout_and_masks_draw_by_step_and_rest_in_evaluation() {
    for case in still() {
        let both = [0.5, 0.0].map(|dropout| case.build(5, dropout));
        task_contracts::dropout_draws_by_step(case.name, &batch(), both);
    }
    let cases = cases();
    let [masked, base] = [3, 0].map(|place: usize| cases[place].build(5, 0.0));
    task_contracts::dropout_draws_by_step("masked", &batch(), [masked, base]);
}

#[test]
fn one_batch_is_learnt_by_heart() {
    let task = task_contracts::trained(cases()[0].build(5, 0.0), &batch(), 5e-3, 400);
    let found = InferenceStep::step(&task.valid(), batch().into());
    assert!(found.loss.mean() < 0.1, "{}", found.loss.mean());
    let alone = cut(&batch(), 1..2, false);
    let found = InferenceStep::step(&task.valid(), alone.into());
    assert!(found.loss.mean() < 0.2, "{}", found.loss.mean());
}
