//! Attention with vectors by distance (Shaw et al. 2018; Transformer-XL, Dai et al. 2019; DeBERTa, He et al. 2021),
//! as defined in [`crate::kernel::relative`]. A block's queries and keys are multiplied with those rows of a table
//! that the block reaches; apart from the block's scores, nothing is computed per query-key pair.

mod diagonals;
mod table;

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::attention;
use super::blocks::Block;
use super::columns;
use super::launch::{SpacedRows, zeros};
use super::parts::{PartSum, concat, part};
use crate::kernel::DistanceRows;
use crate::kernel::extension::Maybe;
use crate::kernel::relative::extension::{
    DistanceParts, DistanceTensors, RelativeBackwardOps, RelativeGradients, RelativeOps,
    RelativeSaved, RelativeSettings, WantedGradients,
};
use diagonals::Side;
use table::Table;

/// The tensors by distance of an attention pass.
pub struct Distances {
    /// The query shifts u and v, `[H, D]`.
    shifts: [Option<CubeTensor>; 2],
    /// Tables of queries, keys and values.
    tables: [Option<Table>; 3],
}

impl Distances {
    fn new(
        tensors: DistanceTensors<CubeBackend>,
        rows: &[Option<DistanceRows>; 3],
        queries: usize,
    ) -> Self {
        let DistanceParts { shifts, tables } =
            tensors.into_parts(rows, |x, rows| Table::new(x, rows.clone(), queries));
        Self { shifts, tables }
    }

    /// Returns the queries in the form in which they are multiplied with keys.
    pub fn content_queries(&self, q: &CubeTensor) -> CubeTensor {
        shifted(q, self.shifts[0].as_ref())
    }

    /// Returns a block's queries in the form in which they are multiplied with vectors by distance.
    fn distance_queries(&self, q: &CubeTensor, block: &Block) -> CubeTensor {
        let q = part(q, block.queries.clone());
        shifted(&q, self.shifts[1].as_ref())
    }

    /// Adds the distance terms to the raw scores of a block.
    pub fn add_to_scores(&self, block: &Block, [q, k]: [&CubeTensor; 2], scores: &SpacedRows) {
        let [queries, keys, _] = &self.tables;
        if let Some(table) = queries {
            let q = self.distance_queries(q, block);
            add(table, block, &q, scores, Side::Queries);
        }
        if let Some(table) = keys {
            let k = keys_by_head(k, block, q.shape()[1]);
            add(table, block, &k, scores, Side::Keys);
        }
    }

    /// Adds the contribution of the value vectors by distance to the gradients of a block's weights; `grad` is the
    /// output gradient.
    pub fn add_to_weights(&self, block: &Block, grad: &CubeTensor, d_weights: &SpacedRows) {
        if let [_, _, Some(table)] = &self.tables {
            let grad = part(grad, block.queries.clone());
            add(table, block, &grad, d_weights, Side::Queries);
        }
    }

    /// Returns what the value vectors by distance add to a block's output, `[B, H, queries, D]`, given its weights.
    pub fn weighted_values(
        &self,
        block: &Block,
        weights: &SpacedRows,
        [batch, heads, ..]: [usize; 4],
    ) -> Option<CubeTensor> {
        let table = self.tables[2].as_ref()?;
        let (rows, each) = (table.reached(block), [batch, heads]);
        let sums = table
            .numbers
            .gathered(block, &rows, weights, each, Side::Queries);
        Some(table.spread(&sums, &rows))
    }

    /// Starts the gradients of those shifts and tables that are wanted.
    pub fn gradients(&self, wanted: [bool; 5], dims: [usize; 4]) -> Gradients<'_> {
        let sums = self.tables.each_ref();
        let sums = sums.map(|table| table.as_ref().map(|table| PartSum::new(table.dims())));
        Gradients {
            distances: self,
            wanted,
            dims,
            queries: Vec::new(),
            tables: sums,
        }
    }
}

/// Adds the products of queries, keys or output gradients with a table's rows to scores.
fn add(table: &Table, block: &Block, x: &CubeTensor, scores: &SpacedRows, side: Side) {
    let rows = table.reached(block);
    let products = table.products(x, &rows);
    table.numbers.spread(block, &rows, products, scores, side);
}

/// Returns `q + shift`, for `[B, H, n, D]` and `[H, D]`.
fn shifted(q: &CubeTensor, shift: Option<&CubeTensor>) -> CubeTensor {
    let Some(shift) = shift else { return q.clone() };
    let [heads, width] = shift.shape().dims();
    let shift = CubeBackend::float_reshape(shift.clone(), Shape::from([1, heads, 1, width]));
    CubeBackend::float_add(q.clone(), shift)
}

/// Repeats the keys of a block for every query head that reads them.
fn keys_by_head(k: &CubeTensor, block: &Block, heads: usize) -> CubeTensor {
    let k = part(k, block.keys.clone());
    let [batch, kv_heads, keys, width] = k.shape().dims();
    if kv_heads == heads {
        return k;
    }
    let group = heads / kv_heads;
    let one = CubeBackend::float_reshape(k, Shape::from([batch, kv_heads, 1, keys * width]));
    let all = Shape::from([batch, kv_heads, group, keys * width]);
    let all = CubeBackend::float_expand(one, all);
    CubeBackend::float_reshape(all, Shape::from([batch, heads, keys, width]))
}

/// The gradients of shifts and tables, accumulated block by block.
pub struct Gradients<'a> {
    distances: &'a Distances,
    /// Which gradients of shifts and tables are wanted.
    wanted: [bool; 5],
    /// Numbers of rows, heads, queries and keys.
    dims: [usize; 4],
    /// Gradients of the queries that are multiplied with vectors by distance, by block.
    queries: Vec<CubeTensor>,
    /// Gradients of the tables.
    tables: [Option<PartSum>; 3],
}

impl Gradients<'_> {
    /// Adds a block: its queries, keys and output gradient, its dropped weights, and the gradient of its raw scores.
    /// `d_k` receives the contribution to the keys' gradient.
    pub fn add_block(
        &mut self,
        block: &Block,
        [q, k, grad]: [&CubeTensor; 3],
        [weights, d_scores]: [&SpacedRows; 2],
        d_k: &mut PartSum,
    ) {
        let distances = self.distances;
        let [queries, keys, values] = distances.tables.each_ref().map(Option::as_ref);
        if let Some(table) = queries {
            let q = distances.distance_queries(q, block);
            let d = self.of_table(0, table, block, d_scores, &q);
            self.queries.push(d);
        }
        if let Some(table) = keys {
            let (heads, kv_heads) = (self.dims[1], k.shape()[1]);
            let own = keys_by_head(k, block, heads);
            let d = self.of_table(1, table, block, d_scores, &own);
            d_k.add(block.keys.clone(), over_groups(d, kv_heads));
        }
        if let Some(table) = values {
            if self.wanted[4] {
                let grad = part(grad, block.queries.clone());
                self.of_rows(2, table, block, weights, &grad);
            }
        }
    }

    /// Adds to the gradient of table `number` from the scores, or weights, that it contributed to. Returns their sums
    /// by table row.
    fn of_rows(
        &mut self,
        number: usize,
        table: &Table,
        block: &Block,
        scores: &SpacedRows,
        x: &CubeTensor,
    ) -> CubeTensor {
        let side = if number == 1 {
            Side::Keys
        } else {
            Side::Queries
        };
        let (rows, [batch, heads, ..]) = (table.reached(block), self.dims);
        let sums = table
            .numbers
            .gathered(block, &rows, scores, [batch, heads], side);
        if let (true, Some(sum)) = (self.wanted[2 + number], &mut self.tables[number]) {
            sum.add(rows, table.gradient(&sums, x));
        }
        sums
    }

    /// Like [`Self::of_rows`], but returns the gradient of the queries or keys that were multiplied with the table.
    fn of_table(
        &mut self,
        number: usize,
        table: &Table,
        block: &Block,
        d_scores: &SpacedRows,
        x: &CubeTensor,
    ) -> CubeTensor {
        let sums = self.of_rows(number, table, block, d_scores, x);
        table.spread(&sums, &table.reached(block))
    }

    /// Returns the gradient of all queries, given that of the queries multiplied with keys, and the gradients of
    /// shifts and tables.
    pub fn total(self, d_content: CubeTensor) -> (CubeTensor, [Option<CubeTensor>; 5]) {
        let d_distance = (!self.queries.is_empty()).then(|| concat(self.queries));
        let [content, distance, tables @ ..] = self.wanted;
        let shifts = &self.distances.shifts;
        let u = (content && shifts[0].is_some()).then(|| over_queries(&d_content));
        let v = (distance && shifts[1].is_some()).then(|| match &d_distance {
            Some(d) => over_queries(d),
            None => zeros(&d_content, [self.dims[1], d_content.shape()[3]]),
        });
        let mut wanted = tables.into_iter();
        let [queries, keys, values] = self.tables.map(|sum| {
            let is_wanted = wanted.next().unwrap_or(false);
            is_wanted.then(|| sum.map(|sum| drop_batch_dim(sum.total(&d_content))))?
        });
        let d_q = match d_distance {
            Some(d) => CubeBackend::float_add(d_content, d),
            None => d_content,
        };
        (d_q, [u, v, queries, keys, values])
    }
}

/// Reshapes `[1, H, rows, D]` to `[H, rows, D]`.
fn drop_batch_dim(x: CubeTensor) -> CubeTensor {
    let [_, heads, rows, width] = x.shape().dims();
    CubeBackend::float_reshape(x, Shape::from([heads, rows, width]))
}

/// Sums over rows and queries: `[B, H, Q, D]` to `[H, D]`.
fn over_queries(d: &CubeTensor) -> CubeTensor {
    let [batch, heads, queries, width] = d.shape().dims();
    let by_query = CubeBackend::float_swap_dims(d.clone(), 1, 2);
    let flat = Shape::from([batch * queries, heads * width]);
    let sum = columns::sum(CubeBackend::float_reshape(by_query, flat));
    CubeBackend::float_reshape(sum, Shape::from([heads, width]))
}

/// Sums over the query heads that share a key-value head.
fn over_groups(d: CubeTensor, kv_heads: usize) -> CubeTensor {
    let [batch, heads, keys, width] = d.shape().dims();
    if heads == kv_heads {
        return d;
    }
    let by_group = Shape::from([batch, kv_heads, heads / kv_heads, keys * width]);
    let sum = CubeBackend::float_sum_dim(CubeBackend::float_reshape(d, by_group), 2);
    CubeBackend::float_reshape(sum, Shape::from([batch, kv_heads, keys, width]))
}

impl RelativeOps for CubeBackend {
    fn relative_attention(
        q: CubeTensor,
        k: CubeTensor,
        v: CubeTensor,
        bias: Maybe<Self>,
        tensors: DistanceTensors<Self>,
        settings: RelativeSettings,
    ) -> CubeTensor {
        let distances = Distances::new(tensors, &settings.rows, q.shape()[2]);
        attention::saving([q, k, v], bias, settings.attention, Some(&distances)).out
    }
}

impl RelativeBackwardOps for CubeBackend {
    fn relative_attention_saving(
        inputs: [CubeTensor; 3],
        bias: Maybe<Self>,
        tensors: DistanceTensors<Self>,
        settings: RelativeSettings,
    ) -> RelativeSaved<Self> {
        let distances = Distances::new(tensors.clone(), &settings.rows, inputs[0].shape()[2]);
        let attention = attention::saving(inputs, bias, settings.attention, Some(&distances));
        RelativeSaved { attention, tensors }
    }

    fn relative_attention_backward(
        saved: RelativeSaved<Self>,
        grad: CubeTensor,
        settings: RelativeSettings,
        wanted: WantedGradients,
    ) -> RelativeGradients<Self> {
        let RelativeSaved { attention, tensors } = saved;
        let distances = Distances::new(tensors, &settings.rows, attention.q.shape()[2]);
        attention::backward(
            attention,
            grad,
            settings.attention,
            Some(&distances),
            wanted,
        )
    }
}
