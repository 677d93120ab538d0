//! Spreads products with the rows of a table to scores, and gathers scores back. The score of a query and a key takes
//! the product with the row of its diagonal; a row's sum takes the scores on its diagonals.
//!
//! Along the diagonals, a table's rows either increase or decrease, so a tile of scores reads one contiguous range of
//! rows. Increasing rows (for many queries a decreasing table is copied in reverse order) are divided into runs of
//! diagonals: within a run, all have the same row, or each has the row after the previous one's. So a row of scores
//! reads whole ranges of its products. For a few queries each score looks up its row.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::super::attention::Place;
use super::super::simd::{Vector, row_sum, run};

/// Number of queries and keys of a block whose elements are read column by column.
const SIDE: usize = 16;

/// The row of each diagonal.
pub struct Diagonals {
    rows: Vec<u32>,
    /// Largest difference between the rows of adjacent diagonals.
    widest_step: usize,
    /// Runs of diagonals; empty if scores look up their rows.
    runs: Vec<Run>,
}

/// A run of adjacent diagonals.
#[derive(Clone, Copy)]
struct Run {
    /// The first diagonal, and the one after the last.
    diagonals: [usize; 2],
    /// Row of the first diagonal.
    row: usize,
    /// Difference between the rows of adjacent diagonals: 0 or 1.
    step: usize,
}

/// The part of a table that a tile of scores reads.
pub struct Band {
    /// Diagonal of the first key and the last query.
    first: usize,
    /// Numbers of queries and keys.
    sizes: [usize; 2],
    /// Range of rows of the table.
    pub rows: Range<usize>,
}

impl Diagonals {
    /// Creates the mapping, with runs for rows that increase, or without for rows in any order.
    pub fn new(rows: Vec<u32>, in_runs: bool) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        let steps = rows.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        let widest_step = steps.max().unwrap_or(0) as usize;
        if !in_runs {
            return Self {
                rows,
                widest_step,
                runs,
            };
        }
        let mut first = 0;
        for same in rows.chunk_by(|a, b| a == b) {
            let (diagonals, row) = ([first, first + same.len()], same[0] as usize);
            first = diagonals[1];
            match runs.last_mut() {
                // Consecutive rows of one diagonal each.
                Some(last) if same.len() == 1 && last.follows(row) => {
                    last.diagonals[1] = first;
                    last.step = 1;
                }
                _ => runs.push(Run {
                    diagonals,
                    row,
                    step: usize::from(same.len() == 1),
                }),
            }
        }
        Self {
            rows,
            widest_step,
            runs,
        }
    }

    /// Returns the maximum number of table rows spanned by this many adjacent diagonals. It exceeds the number of
    /// diagonals if rows in between belong to no distance.
    pub fn most_rows(&self, diagonals: usize) -> usize {
        diagonals.saturating_sub(1).saturating_mul(self.widest_step) + 1
    }

    /// Returns the part that a place reads, in a pass of `n_q` queries; `start` maps its first row to the row to
    /// start from.
    pub fn band(&self, place: Place, n_q: usize, start: impl Fn(usize) -> usize) -> Band {
        let ([from, n], [query, len]) = (place.keys, place.queries);
        let first = from + n_q - query - len;
        let ends = [first, first + len + n - 2].map(|diagonal| self.rows[diagonal] as usize);
        Band {
            first,
            sizes: [len, n],
            rows: start(ends[0].min(ends[1]))..ends[0].max(ends[1]) + 1,
        }
    }

    /// Adds `products[query][row]` to the scores.
    pub fn add(&self, band: &Band, products: &[f32], scores: &mut [f32]) {
        if self.runs.is_empty() {
            return self.each(band, |score, at| scores[score] += products[at]);
        }
        run(Adding {
            walk: RowRuns(self, band),
            products,
            scores,
        });
    }

    /// Sets `sums[query][row]` to the sums of the scores on the row's diagonals.
    pub fn sum(&self, band: &Band, scores: &[f32], sums: &mut [f32]) {
        if self.runs.is_empty() {
            sums.fill(0.0);
            return self.each(band, |score, at| sums[at] += scores[score]);
        }
        run(Summing {
            walk: RowRuns(self, band),
            scores,
            sums,
        });
    }

    /// Adds `products[key][row]` to the scores, whose rows are `stride` apart.
    pub fn add_by_key(&self, band: &Band, products: &[f32], scores: &mut [f32], stride: usize) {
        self.blocks(band, stride, |pair, at| scores[pair] += products[at]);
    }

    /// Sets `sums[key][row]` to the sums of the scores on the row's diagonals.
    pub fn sum_by_key(&self, band: &Band, scores: &[f32], sums: &mut [f32], stride: usize) {
        sums.fill(0.0);
        self.blocks(band, stride, |pair, at| sums[at] += scores[pair]);
    }

    /// Calls `each` for every score, with the index of its row's element among those of its query.
    fn each(&self, band: &Band, mut each: impl FnMut(usize, usize)) {
        let ([len, n], width) = (band.sizes, band.rows.len());
        for query in 0..len {
            let rows = &self.rows[band.first + len - 1 - query..][..n];
            for (key, row) in rows.iter().enumerate() {
                let row = *row as usize - band.rows.start;
                each(query * n + key, query * width + row);
            }
        }
    }

    /// Calls `each` for every score, with the index of its row's element among those of its key; block by block, so
    /// that both stay in cache.
    #[inline(always)]
    fn blocks(&self, band: &Band, stride: usize, mut each: impl FnMut(usize, usize)) {
        let ([len, n], width) = (band.sizes, band.rows.len());
        for (keys, queries) in sides(n).flat_map(|keys| sides(len).map(move |x| (keys.clone(), x)))
        {
            for query in queries {
                let first = band.first + len - 1 - query + keys.start;
                let rows = &self.rows[first..first + keys.len()];
                for (key, row) in keys.clone().zip(rows) {
                    let row = *row as usize - band.rows.start;
                    each(query * stride + key, key * width + row);
                }
            }
        }
    }
}

/// Divides a range into blocks.
fn sides(len: usize) -> impl Iterator<Item = Range<usize>> {
    let firsts = (0..len).step_by(SIDE);
    firsts.map(move |first| first..(first + SIDE).min(len))
}

impl Run {
    /// Returns whether a row with a single diagonal continues the run.
    fn follows(&self, row: usize) -> bool {
        let len = self.diagonals[1] - self.diagonals[0];
        self.step == 1 && self.row + len == row
    }
}

/// The runs of a tile's rows of scores.
struct RowRuns<'a>(&'a Diagonals, &'a Band);

/// A contiguous range of one row of scores.
struct KeyRange {
    keys: Range<usize>,
    /// The first table row, counted from the band's first, and whether the rows of the other keys follow it.
    row: usize,
    steps: bool,
}

impl RowRuns<'_> {
    /// Returns the index of the run of a query's first key.
    #[inline(always)]
    fn start(&self, query: usize) -> usize {
        let Self(diagonals, band) = self;
        let first = band.first + band.sizes[0] - 1 - query;
        diagonals
            .runs
            .partition_point(|run| run.diagonals[1] <= first)
    }

    /// Returns the keys of a query that belong to a run.
    #[inline(always)]
    fn stretch(&self, query: usize, run: usize, key: usize) -> KeyRange {
        let Self(diagonals, band) = self;
        let (run, first) = (&diagonals.runs[run], band.first + band.sizes[0] - 1 - query);
        let end = (run.diagonals[1] - first).min(band.sizes[1]);
        let row = run.row + run.step * (first + key - run.diagonals[0]);
        KeyRange {
            keys: key..end,
            row: row - band.rows.start,
            steps: run.step == 1,
        }
    }
}

struct Adding<'a> {
    walk: RowRuns<'a>,
    products: &'a [f32],
    scores: &'a mut [f32],
}

impl WithSimd for Adding<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let band = self.walk.1;
        let ([_, n], width) = (band.sizes, band.rows.len());
        for (query, scores) in self.scores.chunks_exact_mut(n).enumerate() {
            let products = &self.products[query * width..][..width];
            let (mut run, mut key) = (self.walk.start(query), 0);
            while key < n {
                let KeyRange { keys, row, steps } = self.walk.stretch(query, run, key);
                (run, key) = (run + 1, keys.end);
                let scores = &mut scores[keys];
                if steps {
                    plus(simd, scores, &products[row..]);
                } else {
                    let product = products[row];
                    scores.iter_mut().for_each(|score| *score += product);
                }
            }
        }
    }
}

/// Computes `to += from`; `from` may be longer.
#[inline(always)]
fn plus<S: Simd>(s: S, to: &mut [f32], from: &[f32]) {
    let from = &from[..to.len()];
    let ((to, to_end), (from, from_end)) = (S::as_mut_simd_f32s(to), S::as_simd_f32s(from));
    for (to, from) in to.iter_mut().zip(from) {
        *to = s.add_f32s(*to, *from);
    }
    for (to, from) in to_end.iter_mut().zip(from_end) {
        *to += from;
    }
}

struct Summing<'a> {
    walk: RowRuns<'a>,
    scores: &'a [f32],
    sums: &'a mut [f32],
}

impl WithSimd for Summing<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let band = self.walk.1;
        let ([_, n], width) = (band.sizes, band.rows.len());
        for (query, scores) in self.scores.chunks_exact(n).enumerate() {
            let sums = &mut self.sums[query * width..][..width];
            sums.fill(0.0);
            let (mut run, mut key) = (self.walk.start(query), 0);
            while key < n {
                let KeyRange { keys, row, steps } = self.walk.stretch(query, run, key);
                (run, key) = (run + 1, keys.end);
                let scores = &scores[keys];
                // A row belongs to one run, so nothing was stored here before.
                if steps {
                    sums[row..][..scores.len()].copy_from_slice(scores);
                } else {
                    sums[row] = row_sum(simd, [scores], |[x]: [Vector<S>; 1]| x);
                }
            }
        }
    }
}
