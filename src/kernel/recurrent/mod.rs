//! Recurrent cells over whole sequences: Elman 1990, GRU (Cho et al. 2014, arXiv:1406.1078, in the form that PyTorch
//! and cuDNN compute), LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).
//!
//! The caller computes the products with the inputs of all positions at once, including biases; `a` is their part of
//! a gate:
//!
//! | cell | step |
//! |---|---|
//! | Elman | h' = tanh(a + W h) |
//! | GRU | r = σ(a_r + W_r h), z = σ(a_z + W_z h), n = tanh(a_n + r⊙(W_n h + b)), h' = (1 − z)⊙n + z⊙h |
//! | LSTM | i, f, o = σ(a + W h), g = tanh(a_g + W_g h), c' = f⊙c + i⊙g, h' = o⊙tanh(c') |
//!
//! Gates are adjacent, in PyTorch's order: r z n, and i f g o.

#[cfg(feature = "flex")]
pub mod extension;
#[cfg(feature = "flex")]
mod tracked;

use std::sync::Arc;

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor};

use super::composed;
use super::visibility::{Span, Visibility};
#[cfg(feature = "flex")]
use super::{extension::maybe, has_flex_kernels};

/// The type of recurrent cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Elman cell: one tanh.
    Elman,
    /// Gated recurrent unit.
    Gru,
    /// Long short-term memory.
    Lstm,
}

impl Cell {
    /// Returns the number of gates: how many times wider than the state the products are.
    pub fn gates(self) -> usize {
        match self {
            Self::Elman => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// Returns the number of vectors of the state: h, and c for an LSTM.
    pub fn states(self) -> usize {
        match self {
            Self::Elman | Self::Gru => 1,
            Self::Lstm => 2,
        }
    }
}

/// Where sequences begin and end within the rows of a batch.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    /// `[batch·seq]`, true where a sequence begins: the state before it is zero, and nothing earlier in the row is
    /// seen.
    pub begins: Option<Arc<[bool]>>,
    /// Number of positions of each row; past it the state does not change.
    pub lengths: Option<Arc<[usize]>>,
}

/// The step at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The state is carried on.
    Next,
    /// The state starts again from zero.
    Begin,
    /// The state does not change.
    Hold,
}

impl Sequences {
    /// Document number of the first position of a row if it may continue the document read before the row.
    pub const CONTINUED: i32 = 0;

    /// Derives the sequences from attention's visibility: a document starts from a zero state, and a row ends after
    /// its tokens. The document at the start of a row continues from the kept state if its number is
    /// [`Sequences::CONTINUED`].
    pub fn from_visibility(visible: &Visibility, span: Span) -> Self {
        let begins = visible.documents.as_ref().map(|documents| {
            let [rows, _] = documents.dims();
            let each = |row| {
                let numbers = documents.row(row);
                let positions = span.offset..span.offset + span.queries;
                positions.map(move |at| match at.checked_sub(1) {
                    Some(before) => numbers[at] != numbers[before],
                    None => numbers[at] != Self::CONTINUED,
                })
            };
            (0..rows).flat_map(each).collect()
        });
        let left = |lengths: &Arc<[usize]>| {
            let each = lengths.iter().map(|n| n.saturating_sub(span.offset));
            each.collect()
        };
        Self {
            begins,
            lengths: visible.lengths.as_ref().map(left),
        }
    }

    /// Returns the step at a position.
    #[inline]
    pub fn step(&self, row: usize, seq: usize, at: usize) -> Step {
        if self.lengths.as_ref().is_some_and(|len| at >= len[row]) {
            Step::Hold
        } else if self.begins.as_ref().is_some_and(|b| b[row * seq + at]) {
            Step::Begin
        } else {
            Step::Next
        }
    }

    /// # Panics
    /// If the flags or lengths do not match this number of rows and positions.
    pub(super) fn require(&self, batch: usize, seq: usize) {
        if let Some(begins) = &self.begins {
            assert_eq!(begins.len(), batch * seq, "one flag a position");
        }
        if let Some(lengths) = &self.lengths {
            assert_eq!(lengths.len(), batch, "one length a row");
        }
    }
}

/// Settings of a recurrence other than its tensors.
#[derive(Clone, Debug)]
pub struct RecurrenceSettings {
    /// Type of the cell.
    pub cell: Cell,
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether an LSTM's last c follows the outputs.
    pub last: bool,
}

/// The tensors of a recurrence over `[batch, seq]` positions with states of width d.
#[derive(Clone, Debug)]
pub struct Recurrence {
    /// The inputs' part of each gate, including all biases except `hidden_bias`, `[batch, seq, gates·d]`.
    pub inputs: Tensor<3>,
    /// Weight applied to the previous state, `[gates·d, d]`.
    pub weight: Tensor<2>,
    /// b of a GRU, inside the product with r, `[d]`.
    pub hidden_bias: Option<Tensor<1>>,
    /// Initial state, each `[batch, d]`: h, and c for an LSTM.
    pub state: Vec<Tensor<2>>,
}

/// Returns a state of zeros for `batch` rows.
pub fn zero_state(cell: Cell, batch: usize, d: usize, device: &Device) -> Vec<Tensor<2>> {
    let zero = || Tensor::zeros([batch, d], device);
    (0..cell.states()).map(|_| zero()).collect()
}

/// Computes the states h of all positions `[batch, seq, d]`, and, if `last` is set, the state after the last
/// position.
///
/// Past a row's length h is repeated, so the state after the last position is the one after the row's last token.
pub fn recurrent(
    recurrence: Recurrence,
    cell: Cell,
    sequences: &Sequences,
    last: bool,
) -> (Tensor<3>, Vec<Tensor<2>>) {
    let [batch, seq, width] = recurrence.inputs.dims();
    let [rows, d] = recurrence.weight.dims();
    assert_eq!(
        [width, rows],
        [cell.gates() * d; 2],
        "gates of a recurrence"
    );
    assert_eq!(
        recurrence.state.len(),
        cell.states(),
        "state of a recurrence"
    );
    for state in &recurrence.state {
        assert_eq!(state.dims(), [batch, d], "state of a recurrence");
    }
    assert!(
        recurrence.hidden_bias.is_none() || cell == Cell::Gru,
        "a bias inside a product is GRU's"
    );
    sequences.require(batch, seq);
    if seq == 0 {
        let none = Tensor::zeros([batch, 0, d], &recurrence.inputs.device());
        return (none, recurrence.state);
    }
    #[cfg(feature = "flex")]
    if has_flex_kernels(&recurrence.inputs) {
        return fused(recurrence, cell, sequences, last);
    }
    let (y, state) = composed::recurrent(recurrence, cell, sequences);
    (y, if last { state } else { Vec::new() })
}

#[cfg(feature = "flex")]
fn fused(
    recurrence: Recurrence,
    cell: Cell,
    sequences: &Sequences,
    last: bool,
) -> (Tensor<3>, Vec<Tensor<2>>) {
    let [batch, seq, _] = recurrence.inputs.dims();
    let d = recurrence.weight.dims()[1];
    let mut state = recurrence.state.into_iter();
    let (Some(h), c) = (state.next(), state.next()) else {
        unreachable!("a cell has a state");
    };
    let settings = RecurrenceSettings {
        cell,
        sequences: sequences.clone(),
        last: last && c.is_some(),
    };
    let packed = settings.last;
    let extra = match c {
        Some(c) => maybe(Some(c)),
        None => maybe(recurrence.hidden_bias),
    };
    let (inputs, weight) = (recurrence.inputs, recurrence.weight);
    let out = <Dispatch as extension::RecurrenceOps>::recurrence(
        inputs.into_dispatch(),
        weight.into_dispatch(),
        h.into_dispatch(),
        extra,
        settings,
    );
    let out = Tensor::<2>::from_dispatch(out);
    let positions = batch * seq;
    let y = match packed {
        true => out.clone().slice([0..positions, 0..d]),
        false => out.clone(),
    };
    let y = y.reshape([batch, seq, d]);
    if !last {
        return (y, Vec::new());
    }
    let last = [0..batch, seq - 1..seq, 0..d];
    let mut state = vec![y.clone().slice(last).reshape([batch, d])];
    if packed {
        state.push(out.slice([positions..positions + batch, 0..d]));
    }
    (y, state)
}

/// Splits outputs `[batch·seq, channels]` from the states that follow them if `last` is set, which are `rows` rows
/// per batch row. Returns the outputs, and the states `[batch, rows·channels]` without a gradient.
#[cfg(feature = "kernels")]
pub(super) fn split_states(
    out: Tensor<2>,
    [batch, seq, channels]: [usize; 3],
    rows: usize,
    last: bool,
) -> (Tensor<3>, Option<Tensor<2>>) {
    let positions = batch * seq;
    if !last {
        return (out.reshape([batch, seq, channels]), None);
    }
    let state = out.clone().detach();
    let state = state.slice([positions..positions + batch * rows, 0..channels]);
    let y = out.slice([0..positions, 0..channels]);
    let state = state.reshape([batch, rows * channels]);
    (y.reshape([batch, seq, channels]), Some(state))
}
