//! Attention by features (linear attention): chunks of [`CHUNK`] positions, between which the sums Σ φ(k) (v, 1)ᵀ are
//! carried.
//!
//! A piece of work is a part of a run of one key-value head, with all of its query heads; [`part_len`] sets the size
//! of parts. If a run has several parts, their sums are computed first, in parallel. Every part then starts with the
//! sums of the parts before it, or, in bidirectional attention, with the sums of all parts. Parts depend only on the
//! positions and the number of heads and write separate rows, so no result depends on the number of threads, nor on
//! the other rows of a batch.
//!
//! With v' = (v, 1), let S be the sums of φ(k) v'ᵀ and V those of v' over the keys that query i sees. Outputs are α_i
//! Sᵀφ(q_i) + u_i V, divided by their last element. For exponential features, α_i = exp(−c_i) and u_i = eps·Σ φ(q_i);
//! otherwise they are 1 and 0. Sums are stored transposed, `[E + 1, features]`, so that products write whole panels.

mod backward;
mod features;
mod forward;
mod queries;
mod sums;

use std::ops::Range;

use burn_flex::{Flex, FlexTensor};

use super::attention_heads::Heads;
use super::buffer::{contiguous, slice};
use super::threads;
use crate::kernel::extension::Maybe;
use crate::kernel::linear_attention::extension::{
    FeatureSettings, FeaturesSaved, PrefixSumsBackwardOps, PrefixSumsOps,
};
use crate::kernel::profile::timed;
use features::Map;

/// Number of positions of a chunk.
const CHUNK: usize = 64;

/// Returns the number of positions of a part, a multiple of a chunk. The sums of parts are computed twice, so with
/// more heads to share out parts are larger and fewer.
fn part_len(kv_heads: usize) -> usize {
    match kv_heads {
        0..4 => 1024,
        4..8 => 2048,
        _ => 4096,
    }
}

/// Number of feature elements up to which a single thread does all the work.
const SINGLE_THREAD_LEN: usize = 8 * 1024;

impl PrefixSumsOps for Flex {
    fn weighed_by_features(
        q: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        projection: Maybe<Self>,
        settings: FeatureSettings,
    ) -> FlexTensor {
        timed("attention by features", || {
            let [out, ..] = forward::forward(&Problem::new([q, k, v], projection, &settings));
            out
        })
    }
}

impl PrefixSumsBackwardOps for Flex {
    fn weighed_by_features_saving(
        inputs: [FlexTensor; 3],
        projection: Maybe<Self>,
        settings: &FeatureSettings,
    ) -> FeaturesSaved<Self> {
        timed("attention by features", || {
            let problem = Problem::new(inputs.clone(), projection.clone(), settings);
            let [out, totals, bounds] = forward::forward(&problem);
            FeaturesSaved {
                inputs,
                projection,
                out,
                totals,
                bounds,
            }
        })
    }

    fn weighed_by_features_backward(
        saved: FeaturesSaved<Self>,
        grad: FlexTensor,
        settings: &FeatureSettings,
    ) -> [FlexTensor; 3] {
        timed("attention by features, backward", || {
            let problem = Problem::new(saved.inputs, saved.projection, settings);
            backward::backward(&problem, saved.out, grad, [saved.totals, saved.bounds])
        })
    }
}

/// The inputs of the passes.
struct Problem {
    q: Heads,
    k: Heads,
    v: Heads,
    map: Map,
    causal: bool,
    places: Vec<Place>,
}

/// A part of a run of a row.
#[derive(Clone, Debug)]
struct Place {
    row: usize,
    queries: Range<usize>,
    keys: Range<usize>,
    /// Index of the part in its run, and the number of parts of the run.
    part: [usize; 2],
}

/// Some queries of a place, and in causal attention the keys at the same positions.
#[derive(Clone, Debug)]
struct Chunk {
    queries: Range<usize>,
    keys: Range<usize>,
}

impl Problem {
    fn new(
        [q, k, v]: [FlexTensor; 3],
        projection: Maybe<Flex>,
        settings: &FeatureSettings,
    ) -> Self {
        let projection = projection.into_option().map(contiguous);
        let q = Heads::new(q);
        let map = Map::new(settings.features, projection.as_ref().map(slice), q.dims[3]);
        let runs = &settings.runs;
        let k = Heads::new(k);
        let size = part_len(k.dims[1]);
        let of_row = |row: usize| {
            let each = runs.row(row).iter();
            each.flat_map(move |run| {
                let parts = run.queries.len().max(run.keys.len()).div_ceil(size);
                (0..parts).map(move |part| Place {
                    row,
                    queries: piece(&run.queries, part * size, size),
                    keys: piece(&run.keys, part * size, size),
                    part: [part, parts],
                })
            })
        };
        Self {
            places: (0..runs.rows()).flat_map(of_row).collect(),
            k,
            v: Heads::new(v),
            causal: settings.causal,
            q,
            map,
        }
    }

    /// Returns the number of key-value heads.
    fn kv_heads(&self) -> usize {
        self.k.dims[1]
    }

    /// Returns the query heads of a key-value head.
    fn group(&self, head: usize) -> Range<usize> {
        let group = self.q.dims[1] / self.kv_heads();
        head * group..(head + 1) * group
    }

    /// Returns the size of a value with a one appended.
    fn width(&self) -> usize {
        self.v.dims[3] + 1
    }

    /// Returns the number of pieces of work: every place of every key-value head.
    fn items(&self) -> usize {
        self.places.len() * self.kv_heads()
    }

    /// Returns the place and the key-value head of a piece of work.
    fn item(&self, number: usize) -> (&Place, usize) {
        let heads = self.kv_heads();
        (&self.places[number / heads], number % heads)
    }

    /// Calls `work` for each of `count` pieces, on all threads if they are large.
    fn for_each_item(&self, count: usize, work: impl Fn(usize) + Sync) {
        let [batch, heads, queries, _] = self.q.dims;
        let keys = self.k.dims[2];
        if batch * heads * queries.max(keys) * self.map.width <= SINGLE_THREAD_LEN {
            (0..count).for_each(work);
        } else {
            threads::for_each(0..count, work);
        }
    }

    /// Returns the chunks of a place in which queries read sums and, in causal attention, the keys of the chunk.
    fn chunks(&self, place: &Place) -> impl DoubleEndedIterator<Item = Chunk> + use<> {
        let (queries, keys) = (place.queries.clone(), place.keys.clone());
        let causal = self.causal;
        (0..queries.len().div_ceil(CHUNK)).map(move |i| Chunk {
            queries: piece(&queries, i * CHUNK, CHUNK),
            keys: match causal {
                true => piece(&keys, i * CHUNK, CHUNK),
                false => 0..0,
            },
        })
    }
}

/// Returns up to `len` positions of a range, starting at offset `first`.
fn piece(range: &Range<usize>, first: usize, len: usize) -> Range<usize> {
    let start = (range.start + first).min(range.end);
    start..(start + len).min(range.end)
}
