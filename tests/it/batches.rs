//! Batches made by hand.

use formwork::data::Split;
use formwork::data::batch::{Batch, Content, TextBatch};

/// A batch, a step of its own.
pub fn of(content: Content, rows: usize) -> Batch {
    let scored = content.scored();
    Batch {
        content,
        samples: (0..rows as u64).collect(),
        rows,
        first_row: 0,
        scored,
        step_scored: scored,
        step_rows: rows,
        step: 0,
        last: true,
        split: Split::Train,
    }
}

/// Texts of one length, scored token by token.
pub fn of_texts(inputs: &[i32], targets: &[i32], rows: usize) -> Batch {
    let texts = TextBatch {
        inputs: inputs.to_vec(),
        targets: targets.to_vec(),
        cols: inputs.len() / rows,
        ..TextBatch::default()
    };
    of(Content::Text(texts), rows)
}
