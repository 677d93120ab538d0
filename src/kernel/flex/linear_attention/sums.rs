//! Sums over positions: of keys with values in the forward pass, of queries with gradients in the backward pass.

use std::ops::Range;
use std::sync::Arc;

use super::features::row_of;
use super::{CHUNK, Problem, piece};
use crate::kernel::flex::product::{Matrix, WriteMode, product};
use crate::kernel::flex::simd::{Elementwise, Vector, map_in_place};
use crate::kernel::flex::threads;
use crate::kernel::linear_attention::MIN_SHIFT;
use pulp::Simd;

/// Sums over some positions.
#[derive(Clone)]
pub struct Sums {
    /// Sum of v' φ(k)ᵀ, or of α g' φ(q)ᵀ: `[E + 1, features]`.
    pub products: Vec<f32>,
    /// Sum of v', or of u g'.
    pub plain: Vec<f32>,
    /// Largest product of any key.
    pub largest: f32,
}

impl Sums {
    fn none(problem: &Problem) -> Self {
        Self {
            products: vec![0.0; problem.width() * problem.map.width],
            plain: vec![0.0; problem.width()],
            largest: MIN_SHIFT,
        }
    }

    /// Adds the sums of other positions.
    pub fn add(&mut self, other: &Self) {
        map_in_place(Sum, &mut self.products, [&other.products]);
        map_in_place(Sum, &mut self.plain, [&other.plain]);
        self.largest = self.largest.max(other.largest);
    }

    /// Adds positions, given vectors `[rows, E + 1]` with their features `[rows, features]`.
    pub fn add_rows(&mut self, vectors: &[f32], features: &[f32], rows: usize) {
        let [width, wide] = [vectors.len(), features.len()].map(|len| len / rows.max(1));
        if rows > 0 {
            let vectors = Matrix::rows(vectors, [rows, width]).transposed();
            let features = Matrix::rows(features, [rows, wide]);
            product(&mut self.products, vectors, features, WriteMode::ADD_TILE);
        }
    }

    /// Returns the sums as a matrix `[E + 1, features]`.
    pub fn matrix(&self) -> Matrix<'_> {
        let width = self.plain.len();
        Matrix::rows(&self.products, [width, self.products.len() / width])
    }
}

/// `x + y`.
#[derive(Clone, Copy)]
pub struct Sum;

impl Elementwise<2> for Sum {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x, y]: [Vector<S>; 2]) -> Vector<S> {
        x + y
    }
}

/// `x + factor·y`; the field is the factor.
#[derive(Clone, Copy)]
pub struct PlusTimes(pub f32);

impl Elementwise<2> for PlusTimes {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x, y]: [Vector<S>; 2]) -> Vector<S> {
        y.mul_add(x.splat_like(self.0), x)
    }
}

/// `x·factor + term`; the fields are factor and term.
#[derive(Clone, Copy)]
pub struct Affine(pub f32, pub f32);

impl Elementwise<1> for Affine {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, [x]: [Vector<S>; 1]) -> Vector<S> {
        x.affine(self.0, self.1)
    }
}

/// The parts of a run whose sums a part starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherParts {
    /// The parts before it.
    Before,
    /// The parts after it.
    After,
    /// All parts, including itself.
    All,
}

impl Problem {
    /// Returns for each piece of work the sums that it starts with: those that `of` computes over the other parts of
    /// its run. For a run of one part nothing is computed: it has no other parts, and its own sums are all of them.
    pub fn initial_sums(
        &self,
        others: OtherParts,
        of: impl Fn(usize) -> Sums + Sync,
    ) -> Vec<Option<Arc<Sums>>> {
        let heads = self.kv_heads();
        let several = |item: &usize| {
            let [part, parts] = self.item(*item).0.part;
            match others {
                OtherParts::Before => part + 1 < parts,
                OtherParts::After => part > 0,
                OtherParts::All => parts > 1,
            }
        };
        let items: Vec<usize> = (0..self.items()).filter(several).collect();
        let mut made: Vec<Option<Arc<Sums>>> = vec![None; self.items()];
        let sums = threads::map(items.iter(), |item| of(*item));
        for (item, sums) in items.into_iter().zip(sums) {
            made[item] = Some(Arc::new(sums));
        }
        let mut begins = vec![None; self.items()];
        let firsts = self.places.iter().enumerate();
        for (first, place) in firsts.filter(|(_, place)| place.part == [0, place.part[1]]) {
            let parts = place.part[1];
            for head in 0..heads {
                let item = |part: usize| (first + part) * heads + head;
                let mut so_far: Option<Sums> = None;
                let mut take = |part: usize| {
                    let own = made[item(part)].take();
                    if let Some(own) = own {
                        match &mut so_far {
                            Some(sums) => sums.add(&own),
                            None => so_far = Some(Sums::clone(&own)),
                        }
                    }
                    so_far.clone().map(Arc::new)
                };
                match others {
                    OtherParts::Before => {
                        (1..parts).for_each(|part| begins[item(part)] = take(part - 1));
                    }
                    OtherParts::After => {
                        let each = (0..parts.max(1) - 1).rev();
                        each.for_each(|part| begins[item(part)] = take(part + 1));
                    }
                    OtherParts::All if parts > 1 => {
                        let mut all = None;
                        (0..parts).for_each(|part| all = take(part));
                        (0..parts).for_each(|part| begins[item(part)] = all.clone());
                    }
                    OtherParts::All => {}
                }
            }
        }
        begins
    }

    /// Returns a separate copy of the sums that a piece of work starts with: the given ones if there are any, else
    /// empty sums in causal attention, else those of its own keys, computed by `of`.
    pub fn owned_sums(&self, begin: Option<&Arc<Sums>>, of: impl FnOnce() -> Sums) -> Sums {
        match begin {
            Some(begin) => Sums::clone(begin),
            None if self.causal => Sums::none(self),
            None => of(),
        }
    }

    /// Returns the sums of the keys of a piece of work.
    pub fn sums_of_keys(&self, item: usize) -> Sums {
        let (place, head) = self.item(item);
        let mut sums = Sums::none(self);
        let mut keys = Keys::new(self);
        for first in (0..place.keys.len()).step_by(CHUNK) {
            keys.read(self, [place.row, head], piece(&place.keys, first, CHUNK));
            keys.add_to(&mut sums);
        }
        sums
    }

    /// Returns empty sums.
    pub fn no_sums(&self) -> Sums {
        Sums::none(self)
    }
}

/// Keys of a chunk with their features.
pub struct Keys {
    /// Number of keys.
    pub len: usize,
    features: Vec<f32>,
    values: Vec<f32>,
    largest: [f32; CHUNK],
    width: [usize; 2],
}

impl Keys {
    /// Allocates memory for a chunk.
    pub fn new(problem: &Problem) -> Self {
        let width = [problem.map.width, problem.width()];
        Self {
            len: 0,
            features: vec![0.0; CHUNK * width[0]],
            values: vec![0.0; CHUNK * width[1]],
            largest: [MIN_SHIFT; CHUNK],
            width,
        }
    }

    /// Reads the keys of a row and head.
    pub fn read(&mut self, problem: &Problem, [row, head]: [usize; 2], keys: Range<usize>) {
        self.len = keys.len();
        let [wide, width] = self.width;
        let k = problem.k.rows(row, head, keys.start, self.len);
        let v = problem.v.rows(row, head, keys.start, self.len);
        let features = &mut self.features[..self.len * wide];
        problem
            .map
            .of_keys(k, features, &mut self.largest[..self.len]);
        let values = self.values[..self.len * width].chunks_exact_mut(width);
        for (i, to) in values.enumerate() {
            to[..width - 1].copy_from_slice(row_of(v, i));
            to[width - 1] = 1.0;
        }
    }

    /// Returns the features, `[len, features]`.
    pub fn features(&self) -> &[f32] {
        &self.features[..self.len * self.width[0]]
    }

    /// Returns the features as a matrix.
    pub fn matrix(&self) -> Matrix<'_> {
        Matrix::rows(self.features(), [self.len, self.width[0]])
    }

    /// Returns the values with ones appended, `[len, E + 1]`.
    pub fn values(&self) -> Matrix<'_> {
        let [_, width] = self.width;
        Matrix::rows(&self.values[..self.len * width], [self.len, width])
    }

    /// Returns the largest product of a key.
    pub fn largest(&self, key: usize) -> f32 {
        self.largest[key]
    }

    /// Adds all keys to sums.
    pub fn add_to(&self, sums: &mut Sums) {
        let values = self.values();
        sums.add_rows(values.data, self.features(), self.len);
        for key in 0..self.len {
            map_in_place(Sum, &mut sums.plain, [row_of(values, key)]);
            sums.largest = sums.largest.max(self.largest[key]);
        }
    }
}
