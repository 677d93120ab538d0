//! The sums of attention by features as a value: the state that decoding keeps of all tokens read so far.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use super::composed::{by_group, key_features, largest_seen, normalise, query_features, with_ones};
use super::{FeatureMap, MIN_SHIFT};
use crate::kernel::recurrent::Step;
use crate::kernel::{Sequences, replay};

/// Number of positions that are read together.
const PIECE_LEN: usize = 64;

/// Sums over the keys of each head, whose size does not grow with the number of keys.
#[derive(Clone, Debug)]
pub struct RunningSums {
    /// Σ (v, 1)ᵀ φ(k), `[B, H_kv, E + 1, features]`; exponential features without their eps.
    sums: Tensor<4>,
    /// For exponential features: Σ (v, 1), `[B, H_kv, 1, E + 1]`, and the largest product minus its minimum
    /// [`LEAST`], `[B, H_kv, 1, 1]`.
    plain: Option<[Tensor<4>; 2]>,
}

impl RunningSums {
    /// Restores the sums from vectors, each `[B, ..]`, for `heads` heads and values of width `d`; `None` if there are
    /// no vectors.
    pub fn from_vectors(vectors: Vec<Tensor<2>>, heads: usize, d: usize) -> Option<Self> {
        let mut vectors = vectors.into_iter();
        let sums = vectors.next()?;
        let [batch, numbers] = sums.dims();
        let features = numbers / (heads * (d + 1));
        let plain = vectors.next().zip(vectors.next()).map(|(values, largest)| {
            let values = values.reshape([batch, heads, 1, d + 1]);
            [values, largest.reshape([batch, heads, 1, 1])]
        });
        Some(Self {
            sums: sums.reshape([batch, heads, d + 1, features]),
            plain,
        })
    }

    /// Returns the sums as vectors without gradients, each `[B, ..]`; before the first key all are zeros.
    pub fn into_vectors(self) -> Vec<Tensor<2>> {
        let flat = |x: Tensor<4>| {
            let [batch, a, b, c] = x.dims();
            x.reshape([batch, a * b * c]).detach()
        };
        let plain = self.plain.into_iter().flatten();
        [self.sums].into_iter().chain(plain).map(flat).collect()
    }

    /// Computes the sums of keys and values `[B, H_kv, K, ..]`, of the first `lengths` of each row if given.
    pub fn from_keys(
        k: Tensor<4>,
        v: Tensor<4>,
        map: &FeatureMap,
        lengths: Option<&[usize]>,
    ) -> Self {
        let [batch, _, keys, _] = k.dims();
        let counts = lengths.map(|lengths| {
            let each = |row: usize| (0..keys).map(move |key| key < lengths[row]);
            (0..batch).flat_map(each).collect()
        });
        let (f, largest) = key_features(k, map);
        let none = Self::zeros([&f, &v], largest.is_some());
        none.add_keys(&PieceKeys::new(f, largest, v), counts, None)
    }

    fn zeros([f, v]: [&Tensor<4>; 2], exponential: bool) -> Self {
        let ([batch, heads, _, features], d) = (f.dims(), v.dims()[3]);
        let zeros = |dims: [usize; 4]| Tensor::zeros(dims, (&f.device(), f.dtype()));
        Self {
            sums: zeros([batch, heads, d + 1, features]),
            plain: exponential
                .then(|| [zeros([batch, heads, 1, d + 1]), zeros([batch, heads, 1, 1])]),
        }
    }

    /// Adds more keys to the sums, only those that `counts` marks. Rows that `begins` marks are reset to zero first.
    fn add_keys(
        self,
        keys: &PieceKeys,
        counts: Option<Vec<bool>>,
        begins: Option<&[bool]>,
    ) -> Self {
        let [batch, _, number, _] = keys.f.dims();
        let device = keys.f.device();
        let (mut f, mut values) = (keys.f.clone(), keys.values.clone());
        let mut largest = keys.largest.clone();
        if let Some(counts) = counts {
            let counts = to_floats(&counts, [batch, 1, number, 1], &device);
            f = f * counts.clone();
            largest =
                largest.map(|x| (x - f64::from(MIN_SHIFT)) * counts.clone() + f64::from(MIN_SHIFT));
            values = values * counts;
        }
        let mut before = self;
        if let Some(begins) = begins {
            let kept: Vec<bool> = begins.iter().map(|begins| !begins).collect();
            let kept = to_floats(&kept, [batch, 1, 1, 1], &device);
            before.sums = before.sums * kept.clone();
            before.plain = before.plain.map(|all| all.map(|x| x * kept.clone()));
        }
        let plain = before.plain.zip(largest).map(|([sum, most], largest)| {
            let largest = largest.max_dim(2) - f64::from(MIN_SHIFT);
            [sum + values.clone().sum_dim(2), most.max_pair(largest)]
        });
        Self {
            sums: before.sums + values.swap_dims(2, 3).matmul(f),
            plain,
        }
    }

    /// Returns the outputs `[B, H, Q, E]` of queries `[B, H, Q, D]` that see all of these keys.
    pub fn attend(&self, q: Tensor<4>, map: &FeatureMap) -> Tensor<4> {
        let ([batch, heads, queries, _], [_, kv_heads, width, _]) = (q.dims(), self.sums.dims());
        let (f, share) = query_features(by_group(q, kv_heads), map);
        let mut sums = f.matmul(self.sums.clone().swap_dims(2, 3));
        if let (Some(share), Some([values, largest])) = (share, &self.plain) {
            let c = largest.clone() + f64::from(MIN_SHIFT);
            sums = sums * c.neg().exp() + share * values.clone();
        }
        normalise(sums).reshape([batch, heads, queries, width - 1])
    }

    /// Continues causally. Returns the outputs `[B, H, T, E]` of q `[B, H, T, D]`, which see the earlier keys and
    /// those of k `[B, H_kv, T, D]` and v `[B, H_kv, T, E]` up to their own position, and the sums after them.
    /// Documents start from zero; a position past its row's length adds nothing.
    pub fn advance(
        before: Option<Self>,
        [q, k, v]: [Tensor<4>; 3],
        map: &FeatureMap,
        sequences: &Sequences,
    ) -> (Tensor<4>, Self) {
        let [_, _, positions, _] = q.dims();
        let mut sums = before;
        let mut outputs = Vec::new();
        for first in (0..positions).step_by(PIECE_LEN) {
            let len = PIECE_LEN.min(positions - first);
            let [q, k, v] = [&q, &k, &v].map(|x| x.clone().narrow(2, first, len));
            let (f, largest) = key_features(k, map);
            let before = sums.take();
            let before = before.unwrap_or_else(|| Self::zeros([&f, &v], largest.is_some()));
            let places = PieceMask::new(sequences, q.dims()[0], positions, first..first + len);
            let keys = PieceKeys::new(f, largest, v);
            outputs.push(before.attend_piece(q, &keys, map, &places));
            let begun = places.begun.as_deref();
            sums = Some(before.add_keys(&keys, places.counts, begun));
        }
        match sums {
            Some(sums) => (Tensor::cat(outputs, 2), sums),
            None => {
                let (f, largest) = key_features(k, map);
                let none = Self::zeros([&f, &v], largest.is_some());
                (v.clone(), none)
            }
        }
    }

    /// Returns the outputs of queries that see these sums and those keys of their piece that are not later.
    fn attend_piece(
        &self,
        q: Tensor<4>,
        keys: &PieceKeys,
        map: &FeatureMap,
        places: &PieceMask,
    ) -> Tensor<4> {
        let ([batch, heads, len, _], kv_heads) = (q.dims(), keys.f.dims()[1]);
        let rows = heads / kv_heads * len;
        let device = q.device();
        let (f, share) = query_features(by_group(q, kv_heads), map);
        let group = heads / kv_heads;
        let hidden = places.hidden(group, &device);
        let open = places.open(group, &device);
        let mut old = f.clone().matmul(self.sums.clone().swap_dims(2, 3));
        let mut weights = f.matmul(keys.f.clone().swap_dims(2, 3));
        if let (Some(share), Some([values, most]), Some(largest)) =
            (share, &self.plain, &keys.largest)
        {
            let of_piece = largest_seen(largest.clone().swap_dims(2, 3), rows, hidden.as_ref());
            let most = most.clone().expand([batch, kv_heads, rows, 1]);
            let most = match &open {
                Some(open) => most * open.clone(),
                None => most,
            };
            let factor = of_piece.max_pair(most + f64::from(MIN_SHIFT)).neg().exp();
            old = old * factor.clone() + share.clone() * values.clone();
            weights = weights * factor + share;
        }
        if let Some(open) = open {
            old = old * open;
        }
        if let Some(hidden) = hidden {
            weights = weights.mask_fill(hidden.expand([batch, kv_heads, rows, len]), 0.0);
        }
        let y = normalise(old + weights.matmul(keys.values.clone()));
        let width = keys.values.dims()[3] - 1;
        y.reshape([batch, heads, len, width])
    }
}

/// Keys to be added to sums.
struct PieceKeys {
    /// Features of the keys.
    f: Tensor<4>,
    /// Largest product of each key, for exponential features.
    largest: Option<Tensor<4>>,
    /// Values with ones appended.
    values: Tensor<4>,
}

impl PieceKeys {
    fn new(f: Tensor<4>, largest: Option<Tensor<4>>, v: Tensor<4>) -> Self {
        Self {
            f,
            largest,
            values: with_ones(v),
        }
    }
}

/// Which keys the queries of a piece see.
struct PieceMask {
    batch: usize,
    len: usize,
    /// For each row and query, the first key of the piece that it sees, and whether it sees those before the piece.
    /// `None` if no row begins or ends.
    since: Option<Vec<(usize, bool)>>,
    /// For each row and key, whether the key counts for later pieces.
    counts: Option<Vec<bool>>,
    /// Whether a sequence began in the piece, for each row.
    begun: Option<Vec<bool>>,
}

impl PieceMask {
    fn new(
        sequences: &Sequences,
        batch: usize,
        positions: usize,
        piece: std::ops::Range<usize>,
    ) -> Self {
        let len = piece.len();
        if sequences.begins.is_none() && sequences.lengths.is_none() {
            return Self {
                batch,
                len,
                since: None,
                counts: None,
                begun: None,
            };
        }
        let (mut since, mut counts) = (Vec::new(), Vec::new());
        let mut begun = Vec::new();
        for row in 0..batch {
            let mut begin = None;
            for (i, at) in piece.clone().enumerate() {
                let step = sequences.step(row, positions, at);
                begin = if step == Step::Begin { Some(i) } else { begin };
                since.push((begin.unwrap_or(0), begin.is_none()));
                counts.push(step != Step::Hold);
            }
            let last = begin.unwrap_or(0);
            let of_row = counts[row * len..].iter_mut();
            of_row.take(last).for_each(|counts| *counts = false);
            begun.push(begin.is_some());
        }
        Self {
            batch,
            len,
            since: Some(since),
            counts: Some(counts),
            begun: Some(begun),
        }
    }

    /// Returns true where a query of a group of heads does not see a key of the piece, `[B or 1, 1, group·len, len]`.
    fn hidden(&self, group: usize, device: &Device) -> Option<Tensor<4, Bool>> {
        let len = self.len;
        if len == 1 && self.since.is_none() {
            return None;
        }
        let rows = self.since.as_ref().map_or(1, |_| self.batch);
        let mut hidden = Vec::with_capacity(rows * group * len * len);
        for row in 0..rows {
            for query in (0..group).flat_map(|_| 0..len) {
                let since = match &self.since {
                    Some(all) => all[row * len + query].0,
                    None => 0,
                };
                // Keys past the length are later than every token, and outputs past it are never used.
                hidden.extend((0..len).map(|key| key > query || key < since));
            }
        }
        Some(replay::flags(hidden, [rows, 1, group * len, len], device))
    }

    /// Returns 1 where a query of a group of heads sees the keys before the piece, `[B, 1, group·len, 1]`.
    fn open(&self, group: usize, device: &Device) -> Option<Tensor<4>> {
        let since = self.since.as_ref()?;
        let mut open = Vec::with_capacity(self.batch * group * self.len);
        for row in since.chunks(self.len) {
            (0..group).for_each(|_| open.extend(row.iter().map(|(_, open)| *open)));
        }
        Some(to_floats(
            &open,
            [self.batch, 1, group * self.len, 1],
            device,
        ))
    }
}

/// Converts booleans to 1 and 0.
fn to_floats(all: &[bool], dims: [usize; 4], device: &Device) -> Tensor<4> {
    let numbers: Vec<f32> = all.iter().map(|x| f32::from(u8::from(*x))).collect();
    Tensor::from_data(TensorData::new(numbers, dims), device)
}
