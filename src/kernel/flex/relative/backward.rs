//! Gradients of the vectors by distance.
//!
//! The gradients of a tile's scores are summed by diagonal, as the weights are for the values: `dP`. Then
//! `dq = dP·table` and `dtable = dPᵀ·(q + v)`. A piece of work, one head of one batch row, adds to separate sums.
//! Batch rows are added in their order at the end, and so are heads if they share a table.

use burn_flex::{Flex, FlexTensor};

use super::super::attention::{Place, Problem};
use super::super::attention_backward;
use super::super::buffer::{SharedBuffer, build_zeroed, tensor, zeros};
use super::super::linear::Sum;
use super::super::product::{Matrix, WriteMode, product};
use super::super::simd::map_in_place;
use super::diagonals::Band;
use super::table::ROWS;
use super::{DISTANCE, Relative, Tile, by_keys};
use crate::kernel::extension::AttentionSaved;
use crate::kernel::relative::extension::{RelativeGradients, WantedGradients};

/// Returns the gradients of all float arguments.
pub fn backward(
    problem: &Problem,
    saved: AttentionSaved<Flex>,
    grad: FlexTensor,
    wanted: WantedGradients,
) -> RelativeGradients<Flex> {
    let AttentionSaved { out, lse, .. } = saved;
    let [batch, heads, _, _] = problem.q.dims;
    let relative = problem.relative.as_ref();
    let mut sums = relative.map(|x| Sums::new(x, [batch, heads], wanted.tensors));
    let pieces = sums.as_mut().map(Sums::pieces);
    let attention =
        attention_backward::backward(problem, out, lse, grad, wanted.bias, pieces.as_ref());
    let tensors = relative.zip(sums).map(|(x, sums)| sums.totals(x));
    RelativeGradients {
        attention,
        tensors: tensors.unwrap_or_default(),
    }
}

/// Sums of the gradients of shifts and tables, `[B, H, rows, D]`, with one row for a shift; empty if they are not
/// wanted.
struct Sums {
    numbers: [Vec<f32>; 5],
    /// Numbers of batch rows and heads.
    pieces: [usize; 2],
}

/// [`Sums`], shared while pieces of work write their parts.
pub struct Pieces {
    numbers: [SharedBuffer; 5],
    /// Number of elements of a piece.
    lens: [usize; 5],
    heads: usize,
}

/// Returns heads, rows and width of shifts and tables, and whether the rows are in reverse order.
fn sizes(relative: &Relative) -> [Option<([usize; 3], bool)>; 5] {
    let [u, v] = relative.shifts.each_ref().map(|shift| {
        let shape = shift.as_ref()?.layout().shape();
        Some(([shape[0], 1, shape[1]], false))
    });
    let tables = relative.tables.each_ref();
    let [queries, keys, values] = tables.map(|table| {
        let table = table.as_ref()?;
        Some((table.sizes(), table.reversed))
    });
    [u, v, queries, keys, values]
}

impl Sums {
    fn new(relative: &Relative, pieces: [usize; 2], wanted: [bool; 5]) -> Self {
        let mut wanted = wanted.into_iter();
        let numbers = sizes(relative).map(|size| match (size, wanted.next()) {
            (Some(([_, rows, width], _)), Some(true)) => {
                zeros(pieces[0] * pieces[1] * rows * width)
            }
            _ => Vec::new(),
        });
        Self { numbers, pieces }
    }

    fn pieces(&mut self) -> Pieces {
        let [batch, heads] = self.pieces;
        let count = (batch * heads).max(1);
        Pieces {
            lens: self.numbers.each_ref().map(|x| x.len() / count),
            numbers: self.numbers.each_mut().map(|x| SharedBuffer::new(x)),
            heads,
        }
    }

    /// Returns the gradients that are wanted.
    fn totals(self, relative: &Relative) -> [Option<FlexTensor>; 5] {
        let mut sums = self
            .numbers
            .into_iter()
            .zip([true, true, false, false, false]);
        sizes(relative).map(|size| {
            let ((sums, shift), (size, turned)) = (sums.next()?, size?);
            if sums.is_empty() {
                return None;
            }
            let [heads, rows, width] = size;
            let total = total(&sums, self.pieces, size, turned);
            Some(match shift {
                true => tensor(total, [heads, width]),
                false => tensor(total, [heads, rows, width]),
            })
        })
    }
}

/// Sums `[B, H, rows, D]` over the batch rows, and over the heads if they share one table.
fn total(
    sums: &[f32],
    [batch, heads]: [usize; 2],
    [own, rows, width]: [usize; 3],
    turned: bool,
) -> Vec<f32> {
    build_zeroed(own * rows * width, ROWS * width.max(1), |first, out| {
        for (i, to) in out.chunks_exact_mut(width).enumerate() {
            let (head, row) = ((first / width + i) / rows, (first / width + i) % rows);
            let row = if turned { rows - 1 - row } else { row };
            let of = if own == heads {
                head..head + 1
            } else {
                0..heads
            };
            for (batch, head) in (0..batch).flat_map(|b| of.clone().map(move |head| (b, head))) {
                let at = ((batch * heads + head) * rows + row) * width;
                map_in_place(Sum, to, [&sums[at..at + width]]);
            }
        }
    })
}

impl Pieces {
    /// Returns the piece of one head of a batch row; `sizes` are the maximum numbers of queries and keys of a tile.
    ///
    /// # Safety
    /// Only one piece of a batch row and head may be alive at a time.
    pub unsafe fn piece<'a>(
        &'a self,
        relative: &'a Relative,
        [batch, head]: [usize; 2],
        sizes: [usize; 2],
    ) -> Piece<'a> {
        let piece = batch * self.heads + head;
        let mut lens = self.lens.iter();
        let numbers = self.numbers.each_ref().map(|numbers| {
            let len = lens.next().copied().unwrap_or_default();
            // SAFETY: these elements belong to this piece, which is the only one of its batch row and head.
            unsafe { numbers.row(piece * len, len) }
        });
        Piece {
            tile: relative.tile(head, sizes),
            sums: numbers,
            d_distance: Vec::new(),
        }
    }
}

/// The sums of one head of one batch row.
pub struct Piece<'a> {
    /// The current tile of queries.
    pub tile: Tile<'a>,
    sums: [&'a mut [f32]; 5],
    /// Gradient of the queries as multiplied with vectors by distance, if a shift needs it separately.
    d_distance: Vec<f32>,
}

impl<'a> Piece<'a> {
    /// Moves the piece to these queries.
    pub fn begin(&mut self, q: Matrix<'a>) {
        self.tile.begin(q);
        let shifted = self.sums[..2].iter().any(|sum| !sum.is_empty());
        self.d_distance.clear();
        if shifted && self.tile.relative.tables[0].is_some() {
            self.d_distance.resize(q.shape[0] * q.shape[1], 0.0);
        }
    }

    /// Adds the gradients `d` of a tile of scores, whose dropped weights are `p`, to the gradients of its queries and
    /// keys and to the sums; `grad` is the output gradient.
    pub fn add(
        &mut self,
        problem: &Problem,
        place: Place,
        [p, d]: [&[f32]; 2],
        grad: Matrix,
        [d_q, d_k]: [&mut [f32]; 2],
    ) {
        let ([len, n], n_q) = ([place.queries[1], place.keys[1]], problem.q.dims[2]);
        let Tile {
            relative,
            head,
            queries,
            products,
        } = &mut self.tile;
        let [_, _, of_queries, of_keys, of_values] = &mut self.sums;
        let scaled = WriteMode::ADD_TILE.times(problem.settings.scale as f32);
        let tables = relative.tables.each_ref().map(Option::as_ref);
        if let Some(table) = tables[0] {
            let band = table.band(place, n_q);
            let by_row = &mut products[..len * band.rows.len()];
            table.diagonals.sum(&band, d, by_row);
            let by_row = Matrix::rows(by_row, [len, band.rows.len()]);
            let to = match self.d_distance.is_empty() {
                true => d_q,
                false => &mut self.d_distance[..],
            };
            product(to, by_row, table.rows(*head, &band.rows), scaled);
            let queries = queries.with(DISTANCE);
            add_rows(of_queries, &band, by_row, queries, scaled);
        }
        if let Some(table) = tables[1] {
            let width = problem.k.dims[3];
            for (first, place) in by_keys(place) {
                let (band, count) = (table.band(place, n_q), place.keys[1]);
                let d_k = &mut d_k[first * width..][..count * width];
                let by_row = &mut products[..count * band.rows.len()];
                table.diagonals.sum_by_key(&band, &d[first..], by_row, n);
                let by_row = Matrix::rows(by_row, [count, band.rows.len()]);
                product(d_k, by_row, table.rows(*head, &band.rows), scaled);
                add_rows(of_keys, &band, by_row, problem.keys(place), scaled);
            }
        }
        if let Some(table) = tables[2] {
            if of_values.is_empty() {
                return;
            }
            let band = table.band(place, n_q);
            let by_row = &mut products[..len * band.rows.len()];
            table.diagonals.sum(&band, p, by_row);
            let by_row = Matrix::rows(by_row, [len, band.rows.len()]);
            add_rows(of_values, &band, by_row, grad, WriteMode::ADD_TILE);
        }
    }

    /// Adds the gradients of a tile's queries to those of the shifts. `d_q` holds the gradient of the queries as
    /// multiplied with keys; the gradient of the queries as multiplied with vectors by distance is added to it.
    pub fn settle(&mut self, d_q: &mut [f32]) {
        let [content, distance, ..] = &mut self.sums;
        for (sum, rows) in [(content, &*d_q), (distance, &self.d_distance)] {
            for row in rows.chunks_exact(sum.len().max(1)) {
                if !sum.is_empty() {
                    map_in_place(Sum, sum, [row]);
                }
            }
        }
        if !self.d_distance.is_empty() {
            map_in_place(Sum, d_q, [&self.d_distance[..]]);
        }
    }
}

/// Adds `by_rowᵀ·vectors` to the rows of a band, if their sums are wanted.
fn add_rows(sums: &mut [f32], band: &Band, by_row: Matrix, vectors: Matrix, into: WriteMode) {
    if sums.is_empty() {
        return;
    }
    let width = vectors.shape[1];
    let rows = &mut sums[band.rows.start * width..band.rows.end * width];
    product(rows, by_row.transposed(), vectors, into);
}
