//! Queries of global tokens as a separate tensor: gathered from their rows and written back into them.

use crate::kernel::{self, Globals, KeyPattern, Pattern, Query, ScoreBias, Visibility, replay};
use crate::nn::position::Rotation;
use burn::tensor::{Device, Int, Tensor, TensorData};
use std::ops::Range;

/// The keys that gathered queries see, by row and index of the query.
#[derive(Debug)]
struct GatheredPattern(Vec<Vec<Vec<Range<usize>>>>);

impl KeyPattern for GatheredPattern {
    fn keys_of_query(&self, query: Query, _keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        let ranges = self.0[query.row].get(query.position);
        ranges.into_iter().flatten().cloned().for_each(see);
    }

    fn by_row(&self) -> bool {
        true
    }
}

/// The global tokens of a pass.
pub(super) struct GlobalQueries {
    globals: Globals,
    /// Number of positions of a row.
    cols: usize,
    /// Maximum number of global tokens in a row.
    pub most: usize,
}

impl GlobalQueries {
    /// Collects the global tokens of a pass; `None` if no row has any.
    pub fn from_visibility(visible: &Visibility, cols: usize) -> Option<Self> {
        let globals = visible.globals.clone()?;
        let most = globals.iter().map(Vec::len).max()?;
        (most > 0).then_some(Self {
            globals,
            cols,
            most,
        })
    }

    /// Returns the (row, position) of each gathered query; rows with fewer than `most` are padded with position 0.
    fn positions(&self) -> impl Iterator<Item = (usize, usize)> {
        let rows = self.globals.iter().enumerate();
        rows.flat_map(|(row, globals)| {
            (0..self.most).map(move |i| (row, globals.get(i).copied().unwrap_or(0)))
        })
    }

    /// Returns the keys that the gathered queries see: all keys that the rules other than the window allow.
    pub fn pattern(&self, visible: &Visibility) -> Pattern {
        let rules = Visibility {
            window: None,
            pattern: None,
            globals: None,
            ..visible.clone()
        };
        let of_query = |row: usize, position: usize| {
            let query = Query {
                row,
                head: 0,
                position,
            };
            let mut hidden = vec![false; self.cols];
            rules.mask_scores(query, self.cols, 0, &mut hidden, true);
            let mut ranges: Vec<Range<usize>> = Vec::new();
            for key in (0..self.cols).filter(|key| !hidden[*key]) {
                match ranges.last_mut() {
                    Some(last) if last.end == key => last.end += 1,
                    _ => ranges.push(key..key + 1),
                }
            }
            ranges
        };
        let rows = self.globals.iter().enumerate();
        let rows = rows.map(|(row, globals)| globals.iter().map(|at| of_query(row, *at)).collect());
        Pattern::new(GatheredPattern(rows.collect()))
    }

    /// Returns the indices of the gathered queries among the batch's rows laid end to end.
    pub fn flat_indices(&self, device: &Device) -> Tensor<1, Int> {
        to_indices(
            self.positions().map(|(row, at)| row * self.cols + at),
            device,
        )
    }

    /// Returns `x` `[batch, heads, cols, n]` with the entries of the global tokens, `[batch, heads, most, n]`, written into their
    /// positions.
    pub fn scatter(&self, x: Tensor<4>, of_globals: Tensor<4>) -> Tensor<4> {
        let [batch, heads, cols, n] = x.dims();
        let device = x.device();
        let flat = |x: Tensor<4>, rows: usize| x.swap_dims(1, 2).reshape([batch * rows, heads * n]);
        let all = Tensor::cat(vec![flat(x, cols), flat(of_globals, self.most)], 0);
        let mut rows: Vec<usize> = (0..batch * cols).collect();
        for (row, globals) in self.globals.iter().enumerate() {
            for (i, at) in globals.iter().enumerate() {
                rows[row * cols + at] = batch * cols + row * self.most + i;
            }
        }
        let all = all.select(0, to_indices(rows.into_iter(), &device));
        all.reshape([batch, cols, heads, n]).swap_dims(1, 2)
    }

    /// Returns the biases by distance for the scores of the gathered queries, `[batch, heads, most, cols]`.
    pub fn bias(&self, bias: &ScoreBias) -> ScoreBias {
        match bias {
            ScoreBias::None => ScoreBias::None,
            ScoreBias::ByDistance(bias) => {
                let [heads, _] = bias.dims();
                let (batch, cols) = (self.globals.len(), self.cols);
                // The key at position j is on diagonal j + cols − 1 − i of the query at position i.
                let first = self.positions().map(|(_, at)| cols - 1 - at);
                let each = first.flat_map(|first| first..first + cols);
                let rows = bias.clone().select(1, to_indices(each, &bias.device()));
                let rows = rows.reshape([heads, batch, self.most, cols]);
                ScoreBias::Dense(rows.swap_dims(0, 1))
            }
            ScoreBias::Dense(_) => {
                unreachable!("positions with a number for each pair are refused")
            }
        }
    }

    /// Rotates gathered queries `[batch, heads, most, d_head]` by their positions.
    pub fn rotate(&self, q: Tensor<4>, r: &Rotation) -> Tensor<4> {
        let [batch, heads, most, d_head] = q.dims();
        let places = to_indices(self.positions().map(|(_, at)| at), &q.device());
        let q = q.swap_dims(0, 1).reshape([1, heads, batch * most, d_head]);
        let at = |table: &Tensor<2>| table.clone().select(0, places.clone());
        let q = kernel::rotary(q, at(&r.cos), at(&r.sin), r.interleaved);
        q.reshape([heads, batch, most, d_head]).swap_dims(0, 1)
    }
}

fn to_indices(values: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let values: Vec<i32> = values.map(|value| value as i32).collect();
    let number = values.len();
    replay::integers(TensorData::new(values, [number]), device)
}
