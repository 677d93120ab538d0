//! Maps from distances to rows of a table.

use formwork::kernel::{DistanceRows, Span};
use formwork::rng::Stream;

/// How distances are mapped to rows of a table.
#[derive(Clone, Copy, Debug)]
pub enum Map {
    /// Shaw et al. 2018: distances clipped on both sides.
    Clipped(usize),
    /// Dai et al. 2019: the distance of a key before its query, up to a maximum.
    Before(usize),
    /// One row for each diagonal, counted from the first key or from the last.
    Each { falling: bool },
    /// He et al. 2021: one row for each small distance, growing buckets for large ones.
    Classes(usize),
    /// Neighbouring distances are this many rows apart, as with the buckets of He et al. 2021 if there are more of them than
    /// distances.
    Apart(usize),
    /// One row for all distances.
    One,
}

impl Map {
    /// Draws one of the maps, or none.
    pub fn drawn(stream: &mut Stream) -> Option<Self> {
        let mut below = |n| stream.below(n) as usize;
        Some(match below(8) {
            0 => Self::Clipped([0, 2, 16][below(3)]),
            1 => Self::Before([0, 40, 1000][below(3)]),
            2 => Self::Each { falling: false },
            3 => Self::Each { falling: true },
            4 => Self::Classes([2, 8][below(2)]),
            5 => Self::One,
            _ => return None,
        })
    }

    /// Returns the number of rows of the table, and the row of each diagonal.
    pub fn rows(self, span: Span) -> (usize, DistanceRows) {
        let clip = |distance: i64, most: usize| distance.clamp(-(most as i64), most as i64);
        let last = span.distances() as i64 - 1;
        let diagonal = |distance: i64| distance + (span.queries + span.offset) as i64 - 1;
        let class = |distance: i64, near: usize| {
            let (size, near) = (distance.unsigned_abs(), near as u64);
            let class = size.min(near) + (size / near.max(1)).max(1).ilog2() as u64;
            distance.signum() * class as i64
        };
        let (rows, row): (usize, Box<dyn Fn(i64) -> i64>) = match self {
            Self::Clipped(most) => (
                2 * most + 1,
                Box::new(move |distance| clip(distance, most) + most as i64),
            ),
            Self::Before(most) => (
                most + 1,
                Box::new(move |distance| (-distance).clamp(0, most as i64)),
            ),
            Self::Each { falling: false } => (span.distances(), Box::new(diagonal)),
            Self::Each { falling: true } => (
                span.distances() + 3,
                Box::new(move |distance| last - diagonal(distance) + 2),
            ),
            Self::Classes(near) => (
                2 * near + 50,
                Box::new(move |distance| class(distance, near) + near as i64 + 25),
            ),
            Self::Apart(rows) => (
                span.distances() * rows,
                Box::new(move |distance| diagonal(distance) * rows as i64),
            ),
            Self::One => (3, Box::new(|_| 1)),
        };
        (
            rows,
            DistanceRows::new(span, |distance| row(distance) as usize),
        )
    }
}
