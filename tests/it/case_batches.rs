//! A batch of rows of different lengths for each kind of task.

use formwork::data::NOT_SCORED;
use formwork::data::batch::{ContextWindow, PairBatch, QuestionAnswer, TextBatch};
use std::sync::Arc;

pub const VOCAB: i32 = 17;
pub const COLS: usize = 9;
pub const LENGTHS: [usize; 4] = [5, 9, 3, 7];
pub const TARGET_COLS: usize = 7;
pub const TARGETS: [usize; 4] = [7, 2, 4, 6];

/// Builds rows of different lengths, padded with `filling`.
fn rows(
    lengths: &[usize],
    cols: usize,
    filling: i32,
    token: impl Fn(usize, usize) -> i32,
) -> Vec<i32> {
    let places = (0..lengths.len()).flat_map(|row| (0..cols).map(move |col| (row, col)));
    let value = |(row, col): (usize, usize)| match col < lengths[row] {
        true => token(row, col),
        false => filling,
    };
    places.map(value).collect()
}

fn some(row: usize, col: usize) -> i32 {
    ((row * 11 + col * 7 + col * col) % VOCAB as usize) as i32
}

/// Texts of two segments; the third row has no targets.
pub fn texts(labels: &[i32; 4]) -> TextBatch {
    let target = |row: usize, col: usize| match row != 2 && (row + col).is_multiple_of(3) {
        true => (some(row, col) * 5 + 1) % VOCAB,
        false => NOT_SCORED,
    };
    TextBatch {
        inputs: rows(&LENGTHS, COLS, 0, some),
        targets: rows(&LENGTHS, COLS, NOT_SCORED, target),
        segments: Some(rows(&LENGTHS, COLS, 0, |row, col| {
            i32::from(col > 1 + row % 2)
        })),
        labels: Some(labels.to_vec()),
        classes: None,
        neighbours: None,
        numbers: None,
        asked: None,
        lengths: Some(LENGTHS.to_vec()),
        documents: None,
        second: None,
        cols: COLS,
        segment_lengths: [3, COLS - 2],
    }
}

/// A span for each row except the third, which has none.
pub fn asked() -> Vec<QuestionAnswer> {
    let window = |row: usize| ContextWindow {
        question: row as u64,
        id: row.to_string().into(),
        context: "abcdefghi".into(),
        byte_ranges: (0..LENGTHS[row]).map(|col| [col, col + 1]).collect(),
        first: 0,
        no_answer_position: 0,
        accepted_answers: match row {
            2 => [].into(),
            _ => ["ab".to_string()].into(),
        },
        may_have_no_answer: true,
    };
    let answers = [[1, 3], [4, 4], [0, 0], [2, 6]];
    let rows = answers.into_iter().enumerate();
    rows.map(|(row, answer)| QuestionAnswer {
        answer,
        window: Arc::new(window(row)),
    })
    .collect()
}

/// Tags of three classes at the target positions.
pub fn tags() -> Vec<i32> {
    let targets = texts(&[0; 4]).targets.into_iter();
    let tag = |target| match target {
        NOT_SCORED => NOT_SCORED,
        target => target % 3,
    };
    targets.map(tag).collect()
}

pub fn pairs() -> PairBatch {
    let written = |row: usize, col: usize| some(row + 5, col + 2);
    PairBatch {
        source: rows(&LENGTHS, COLS, 0, some),
        source_lengths: LENGTHS.to_vec(),
        source_cols: COLS,
        inputs: rows(&TARGETS, TARGET_COLS, 0, written),
        targets: rows(&TARGETS, TARGET_COLS, NOT_SCORED, |row, col| {
            written(row, col + 1)
        }),
        target_lengths: TARGETS.to_vec(),
        target_cols: TARGET_COLS,
    }
}
