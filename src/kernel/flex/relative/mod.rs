//! Attention with vectors by distance, tile by tile: Shaw et al. 2018, Transformer-XL (Dai et al. 2019), DeBERTa (He
//! et al. 2021). The formula is given in [`crate::kernel::relative`].
//!
//! The diagonals of a tile of queries and a chunk of keys read one range of a table's rows. The tile is multiplied
//! with these rows once, and every score takes the product of its diagonal (`diagonals`). For values it is the other
//! way round: the weights on each diagonal are summed, and the sums are multiplied with the rows. So memory grows
//! with the length, and apart from the tile itself nothing is computed per query-key pair.

pub mod backward;
mod diagonals;
mod table;

use burn_flex::{Flex, FlexTensor};

use super::attention::{self, Place, Problem};
use super::buffer::{ScratchBuffer, contiguous, dims, scratch_buffer, slice};
use super::linear::Sum;
use super::product::{Matrix, Packed, WriteMode, product};
use super::simd::map_in_place;
use crate::kernel::DistanceRows;
use crate::kernel::extension::{AttentionSaved, Maybe};
use crate::kernel::profile::timed;
use crate::kernel::relative::extension::{
    DistanceParts, DistanceTensors, RelativeBackwardOps, RelativeGradients, RelativeOps,
    RelativeSaved, RelativeSettings, WantedGradients,
};
use table::Table;

/// Number of queries from which a table is packed for the products of all tiles.
const COPIED_FROM: usize = 25;

/// Maximum and minimum number of keys multiplied with rows of a table at a time. For K·Q scores, K keys and Q
/// queries take K·(K + Q − 1) products: with as many keys as queries half of the products are used, with more keys a
/// smaller fraction.
const KEYS: usize = 64;
const FEWEST: usize = 16;

/// Indices of the shift of queries multiplied with keys, and of queries multiplied with vectors by distance.
const CONTENT: usize = 0;
const DISTANCE: usize = 1;

/// The tensors by distance of a problem.
pub struct Relative {
    /// The query shifts u and v, `[H, D]`.
    shifts: [Option<FlexTensor>; 2],
    /// Tables of queries, keys and values.
    tables: [Option<Table>; 3],
}

impl Relative {
    /// Collects the tensors; `queries` is the number of queries of a head.
    fn new(
        tensors: DistanceTensors<Flex>,
        rows: &[Option<DistanceRows>; 3],
        queries: usize,
    ) -> Self {
        let DistanceParts { shifts, tables } =
            tensors.into_parts(rows, |x, rows| Table::new(x, rows, queries >= COPIED_FROM));
        Self {
            shifts: shifts.map(|shift| shift.map(contiguous)),
            tables,
        }
    }

    /// Allocates a tile of one head; `[len, n]` are the maximum numbers of queries and keys of a tile.
    pub fn tile(&self, head: usize, [len, n]: [usize; 2]) -> Tile<'_> {
        let [queries, keys, values] = &self.tables;
        let few = KEYS.min(n);
        let sizes = [(queries, len, n), (keys, few, few), (values, len, n)];
        let sizes = sizes.map(|(table, vectors, n)| {
            let width = |table: &Table| {
                let reached = table.diagonals.most_rows(len + n - 1);
                table.sizes()[1].min(reached.saturating_add(Packed::BACK))
            };
            vectors * table.as_ref().map_or(0, width)
        });
        Tile {
            relative: self,
            head,
            queries: Queries {
                relative: self,
                head,
                plain: Matrix::rows(&[], [0, 0]),
                shifted: [Vec::new(), Vec::new()],
            },
            products: scratch_buffer(sizes.into_iter().max().unwrap_or(0)),
        }
    }
}

/// Divides a place into pieces of about as many keys as it has queries; each comes with the index of its first key.
fn by_keys(place: Place) -> impl Iterator<Item = (usize, Place)> {
    let [from, n] = place.keys;
    let most = place.queries[1].clamp(FEWEST, KEYS);
    (0..n).step_by(most).map(move |first| {
        let keys = [from + first, most.min(n - first)];
        (first, Place { keys, ..place })
    })
}

/// The queries of a tile.
struct Queries<'a> {
    relative: &'a Relative,
    head: usize,
    plain: Matrix<'a>,
    /// Queries with the shift added, for products with keys and with vectors by distance; empty for a shift that does
    /// not exist.
    shifted: [Vec<f32>; 2],
}

impl<'a> Queries<'a> {
    fn begin(&mut self, q: Matrix<'a>) {
        self.plain = q;
        let [len, width] = q.shape;
        for (shift, to) in self.relative.shifts.iter().zip(&mut self.shifted) {
            let Some(shift) = shift else { continue };
            let shift = &slice(shift)[self.head * width..][..width];
            to.clear();
            for row in (0..len).map(|i| &q.data[i * q.strides[0]..][..width]) {
                let first = to.len();
                to.extend_from_slice(row);
                map_in_place(Sum, &mut to[first..], [shift]);
            }
        }
    }

    /// Returns the queries with a shift, or unchanged if it does not exist.
    fn with(&self, shift: usize) -> Matrix<'_> {
        match self.relative.shifts[shift] {
            Some(_) => Matrix::rows(&self.shifted[shift], self.plain.shape),
            None => self.plain,
        }
    }
}

/// A tile of queries of one head, with the tensors by distance.
pub struct Tile<'a> {
    relative: &'a Relative,
    head: usize,
    queries: Queries<'a>,
    products: ScratchBuffer,
}

impl<'a> Tile<'a> {
    /// Moves the tile to these queries.
    pub fn begin(&mut self, q: Matrix<'a>) {
        self.queries.begin(q);
    }

    /// Returns the queries as they are multiplied with keys.
    pub fn content(&self) -> Matrix<'_> {
        self.queries.with(CONTENT)
    }

    /// Adds the distance terms to scores.
    pub fn add_scores(&mut self, problem: &Problem, place: Place, scores: &mut [f32]) {
        let ([len, n], n_q) = ([place.queries[1], place.keys[1]], problem.q.dims[2]);
        let into = WriteMode::TILE.times(problem.settings.scale as f32);
        let [of_queries, of_keys, _] = &self.relative.tables;
        if let Some(table) = of_queries {
            let band = table.band(place, n_q);
            let products = &mut self.products[..len * band.rows.len()];
            let queries = self.queries.with(DISTANCE);
            table.products(products, queries, self.head, &band, into);
            table.diagonals.add(&band, products, scores);
        }
        if let Some(table) = of_keys {
            for (first, place) in by_keys(place) {
                let band = table.band(place, n_q);
                let products = &mut self.products[..place.keys[1] * band.rows.len()];
                table.products(products, problem.keys(place), self.head, &band, into);
                let scores = &mut scores[first..];
                table.diagonals.add_by_key(&band, products, scores, n);
            }
        }
    }

    /// Adds the products of vectors `[queries, D]` with the value vectors by distance.
    pub fn add_value_products(&mut self, n_q: usize, place: Place, left: Matrix, to: &mut [f32]) {
        let (Some(table), len) = (&self.relative.tables[2], place.queries[1]) else {
            return;
        };
        let band = table.band(place, n_q);
        let products = &mut self.products[..len * band.rows.len()];
        table.products(products, left, self.head, &band, WriteMode::TILE);
        table.diagonals.add(&band, products, to);
    }

    /// Adds the value vectors by distance, `weights·values[r]`, to the sums of a tile.
    pub fn add_values(&mut self, n_q: usize, place: Place, weights: &[f32], sums: &mut [f32]) {
        let (Some(table), len) = (&self.relative.tables[2], place.queries[1]) else {
            return;
        };
        let band = table.band(place, n_q);
        let by_row = &mut self.products[..len * band.rows.len()];
        table.diagonals.sum(&band, weights, by_row);
        let by_row = Matrix::rows(by_row, [len, band.rows.len()]);
        product(
            sums,
            by_row,
            table.rows(self.head, &band.rows),
            WriteMode::ADD_TILE,
        );
    }
}

impl RelativeOps for Flex {
    fn relative_attention(
        q: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        bias: Maybe<Self>,
        tensors: DistanceTensors<Self>,
        settings: RelativeSettings,
    ) -> FlexTensor {
        timed("attention", || {
            let [out, _] = attention::forward(&problem([q, k, v], bias, tensors, settings));
            out
        })
    }
}

impl RelativeBackwardOps for Flex {
    fn relative_attention_saving(
        inputs: [FlexTensor; 3],
        bias: Maybe<Self>,
        tensors: DistanceTensors<Self>,
        settings: RelativeSettings,
    ) -> RelativeSaved<Self> {
        timed("attention", || {
            let problem = problem(inputs.clone(), bias.clone(), tensors.clone(), settings);
            let ([q, k, v], [out, lse]) = (inputs, attention::forward(&problem));
            let attention = AttentionSaved {
                q,
                k,
                v,
                bias,
                out,
                lse,
            };
            RelativeSaved { attention, tensors }
        })
    }

    fn relative_attention_backward(
        saved: RelativeSaved<Self>,
        grad: FlexTensor,
        settings: RelativeSettings,
        wanted: WantedGradients,
    ) -> RelativeGradients<Self> {
        timed("attention, backward", || {
            let RelativeSaved { attention, tensors } = saved;
            let inputs = [&attention.q, &attention.k, &attention.v].map(FlexTensor::clone);
            let problem = problem(inputs, attention.bias.clone(), tensors, settings);
            backward::backward(&problem, attention, grad, wanted)
        })
    }
}

/// Collects the inputs of the passes.
fn problem(
    inputs: [FlexTensor; 3],
    bias: Maybe<Flex>,
    tensors: DistanceTensors<Flex>,
    settings: RelativeSettings,
) -> Problem {
    let relative = Relative::new(tensors, &settings.rows, dims::<4>(&inputs[0])[2]);
    let mut problem = Problem::new(inputs, bias, settings.attention);
    problem.relative = Some(relative);
    problem
}
