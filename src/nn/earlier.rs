//! Hidden states of earlier segments: the memory of segment recurrence (Dai et al. 2019, section 3.2).
//!
//! A row that begins a new text has an empty memory: states left from another text stay in the tensor but are masked, because
//! zeroed states would still receive attention. The same holds after the end of a document.

use crate::kernel;
use crate::kernel::Visibility;
use burn::tensor::{Int, Tensor, TensorData};
use std::ops::Range;

/// The most recent hidden states that a layer read before the current segment.
#[derive(Clone, Debug, Default)]
pub struct EarlierStates {
    /// `[batch, positions, d_model]`, the most recent last; `None` before the first segment.
    pub states: Option<Tensor<3>>,
    /// For each row, how many of its most recent positions belong to the text that the row is reading; the others are masked.
    pub current_text_lengths: Vec<usize>,
}

impl EarlierStates {
    /// Returns the number of remembered positions per row.
    pub fn positions(&self) -> usize {
        self.states.as_ref().map_or(0, |states| states.dims()[1])
    }

    /// Appends a segment `[batch, seq, d_model]` whose positions see each other as `visible` says. The most recent `most`
    /// positions are kept, without gradients.
    pub fn append(&mut self, x: &Tensor<3>, visible: &Visibility, most: usize) {
        let [batch, seq, d_model] = x.dims();
        let before = self.positions();
        let open = match self.states {
            Some(_) => std::mem::take(&mut self.current_text_lengths),
            None => vec![0; batch],
        };
        let kept = most.min(before + seq);
        self.current_text_lengths = visible.visible_to_next_segment(&open, seq);
        for open in &mut self.current_text_lengths {
            *open = kept.min(*open);
        }
        let x = x.clone().detach();
        let lengths = visible.lengths.as_ref();
        let uneven = lengths.filter(|lengths| lengths.iter().any(|length| *length < seq));
        let states = self.states.take();
        self.states = match (uneven, states) {
            _ if kept == 0 => None,
            (None, _) if kept <= seq => Some(x.narrow(1, seq - kept, kept)),
            (None, Some(states)) => {
                let old = kept - seq;
                let states = states.narrow(1, before - old, old);
                Some(Tensor::cat(vec![states, x], 1))
            }
            (None, None) => unreachable!("no more than there is is kept"),
            (Some(lengths), states) => {
                let all = Tensor::cat(states.into_iter().chain([x]).collect(), 1);
                let total = before + seq;
                // A row with fewer positions repeats its first one in front; the repetitions are masked.
                let places = lengths.iter().enumerate().flat_map(|(row, length)| {
                    let end = before + length.min(&seq);
                    (0..kept).map(move |at| (row * total + (end + at).saturating_sub(kept)) as i32)
                });
                let places = TensorData::new(places.collect::<Vec<i32>>(), [batch * kept]);
                let places = Tensor::<1, Int>::from_data(places, &all.device());
                let rows = all.reshape([batch * total, d_model]).select(0, places);
                Some(rows.reshape([batch, kept, d_model]))
            }
        };
    }

    /// Reorders the rows: row i becomes the former row `rows[i]`.
    pub(super) fn select(&mut self, rows: &Tensor<1, Int>) {
        if let Some(states) = self.states.take() {
            let numbers = kernel::read(rows.clone());
            let open = numbers
                .iter::<i64>()
                .map(|row| self.current_text_lengths[row as usize]);
            self.current_text_lengths = open.collect();
            self.states = Some(states.select(0, rows.clone()));
        }
    }

    /// Returns the memory of some consecutive rows.
    pub(super) fn rows(&self, rows: Range<usize>) -> Self {
        match &self.states {
            None => Self::default(),
            Some(states) => Self {
                states: Some(states.clone().slice(rows.clone())),
                current_text_lengths: self.current_text_lengths[rows].to_vec(),
            },
        }
    }

    /// Concatenates the memories of several groups of rows.
    pub(super) fn concat<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let (mut states, mut open) = (Vec::new(), Vec::new());
        for part in parts {
            states.extend(part.states.clone());
            open.extend_from_slice(&part.current_text_lengths);
        }
        Self {
            states: (!states.is_empty()).then(|| Tensor::cat(states, 0)),
            current_text_lengths: open,
        }
    }

    /// Masks the whole memory of the rows for which `kept` is false.
    pub(super) fn reset(&mut self, kept: &[bool]) {
        for (open, kept) in self.current_text_lengths.iter_mut().zip(kept) {
            *open = if *kept { *open } else { 0 };
        }
    }
}
