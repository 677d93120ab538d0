//! Steps of lanes with a memory: micro-batches, rows that start again, and independent rows.

use super::{VOCAB, built_on, config, remembering, tokens};
use crate::lanes::steps;
use crate::oracle::{difference, values};
use crate::transfer::gradients_of;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Split;
use formwork::data::text::ids::InMemoryIds;
use formwork::data::text::windows::{Layout, TextSource};
use formwork::kernel::Visibility;
use formwork::model::LanguageModel;
use formwork::model::decoder::DecoderInput;
use formwork::nn::pass::Pass;
use formwork::nn::state::{LayerState, StateUse};
use formwork::stack::ModelState;
use formwork::task::{CausalLm, CausalLmConfig, Objective};
use std::sync::Arc;

const CONTEXT: usize = 5;

fn task(memory: usize) -> Objective<CausalLm> {
    let keys = format!(
        "{}\nposition = {{ kind = \"alibi\" }}",
        remembering(&format!("memory = {memory}"))
    );
    let model = built_on(&config(&keys), &Device::flex().autodiff());
    Objective(CausalLm::new(model, &CausalLmConfig::default(), 1, false))
}

/// Windows of a text in which a document begins at each of these tokens.
fn source(windows: usize, starts: &[usize]) -> TextSource {
    let tokens = Arc::new(InMemoryIds {
        ids: tokens(windows * CONTEXT + 1),
        starts: starts.to_vec(),
    });
    TextSource::new(
        tokens,
        CONTEXT,
        Layout::Whole,
        starts.len() > 1,
        Split::Train,
    )
}

fn open(state: &Option<ModelState>) -> Vec<usize> {
    let state = state.as_ref().unwrap();
    let LayerState::Segment(earlier) = &state.layers[1].own else {
        panic!("it remembers")
    };
    earlier.current_text_lengths.clone()
}

#[test]
fn micro_batches_remember_their_rows() {
    for starts in [&[0][..], &[0, 4, 12, 22, 24, 25, 41]] {
        let (task, source) = (task(8), source(13, starts));
        let whole = steps(&task, &source, [3, 3], 9);
        for micro in [1, 2] {
            let parts = steps(&task, &source, [3, micro], 9);
            for (one, two) in whole.iter().zip(&parts) {
                assert!((one.output.loss.sum / two.output.loss.sum - 1.0).abs() < 1e-6);
                assert_eq!(open(&one.output.state), open(&two.output.state));
                let [ours, theirs] = [one, two].map(|g| gradients_of(&task, &g.gradients));
                for (path, array) in ours {
                    let off = difference(&array.values, &theirs[&path].values);
                    assert!(off < 1e-5, "{path} is off by {off:e}");
                }
            }
        }
    }
}

#[test]
fn a_lane_that_begins_anew_remembers_nothing() {
    // Lanes of 4 and 5 windows: after four steps the first starts again and the second continues.
    let (task, source) = (task(8), source(9, &[0]));
    let all = steps(&task, &source, [2, 2], 6);
    let found: Vec<Vec<usize>> = all.iter().map(|step| open(&step.output.state)).collect();
    assert_eq!(found, [[5, 5], [8, 8], [8, 8], [8, 8], [5, 8], [8, 5]]);
    // The first lane's first window has the same result again, whatever the other row is.
    let alone = |step: usize| {
        let LayerState::Segment(earlier) = &all[step].output.state.as_ref().unwrap().layers[1].own
        else {
            unreachable!()
        };
        let states = earlier.states.clone().unwrap();
        let [_, kept, _] = states.dims();
        values(states.slice([0..1, kept - CONTEXT..kept]))
    };
    // The hidden keys of the earlier text change how sums are rounded.
    assert!(difference(&alone(0), &alone(4)) < 1e-6);
    assert!(difference(&alone(1), &alone(4)) > 1e-2);
}

#[test]
fn rows_and_their_order_are_independent() {
    let model = built_on(&config(&remembering("memory = 6")), &Device::flex());
    let rows: Vec<Vec<i32>> = (0..3)
        .map(|row| tokens(40)[row * 8..row * 8 + 16].to_vec())
        .collect();
    let read = |chosen: &[usize], state: &mut ModelState, from: usize| {
        let part: Vec<i32> = chosen
            .iter()
            .flat_map(|row| rows[*row][from..from + 4].to_vec())
            .collect();
        let input = DecoderInput::new(crate::contracts::ids(&part, chosen.len()));
        let hidden = model.forward(input, Some(state), &Pass::evaluation());
        state.seen = 0;
        values(model.logits(hidden))
    };
    let mut together = model.empty_state(StateUse::Segments);
    let mut alone: Vec<ModelState> = (0..3)
        .map(|_| model.empty_state(StateUse::Segments))
        .collect();
    for from in [0, 4, 8] {
        if from == 8 {
            together.reset(&[true, false, true]);
            alone[1] = model.empty_state(StateUse::Segments);
        }
        let all = read(&[0, 1, 2], &mut together, from);
        for (row, own) in all.chunks(4 * VOCAB).enumerate() {
            let wanted = read(&[row], &mut alone[row], from);
            crate::contracts::near(own, &wanted, &format!("row {row} from {from}"));
        }
    }
    // Rows in another order, and a selection of them.
    let numbers = Tensor::<1, Int>::from_data(TensorData::new(vec![2, 1], [2]), &Device::flex());
    let mut turned = together.clone();
    turned.select(&numbers);
    let joined = ModelState::concat(vec![together.rows(2..3), together.rows(1..2)]).unwrap();
    let found = read(&[2, 1], &mut turned, 12);
    for (row, own) in [2, 1].into_iter().zip(found.chunks(4 * VOCAB)) {
        let wanted = read(&[row], &mut alone[row], 12);
        crate::contracts::near(own, &wanted, "a row of others");
    }
    assert_eq!(found, read(&[2, 1], &mut joined.clone(), 12));
}

/// The memory of shorter rows ends where they end.
#[test]
fn padding_is_not_remembered() {
    let model = built_on(&config(&remembering("memory = 5")), &Device::flex());
    let text = tokens(14);
    let mut state = model.empty_state(StateUse::Segments);
    let mut padded = model.empty_state(StateUse::Segments);
    let (mut from, mut at) = (0, 0);
    for length in [3, 1, 4, 2, 4] {
        let part = &text[from..from + length];
        let hidden = model.forward(
            DecoderInput::new(crate::contracts::ids(part, 1)),
            Some(&mut state),
            &Pass::evaluation(),
        );
        let wanted = values(model.logits(hidden));
        let mut rows = part.to_vec();
        rows.resize(4, 0);
        rows.extend_from_slice(&text[at..at + 4]);
        let input = DecoderInput {
            neighbours: None,
            ids: crate::contracts::ids(&rows, 2),
            positions: None,
            visible: Visibility {
                lengths: Some([length, 4].into()),
                ..Visibility::causal()
            },
        };
        let hidden = model.forward(input, Some(&mut padded), &Pass::evaluation());
        let found = values(model.logits(hidden));
        crate::contracts::near(&found[..length * VOCAB], &wanted, "a row with padding");
        (state.seen, padded.seen) = (0, 0);
        from += length;
        at = (at + 4) % 8;
    }
}
