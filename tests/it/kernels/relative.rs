//! Attention with vectors of distances against its composed body: values and every gradient, over maps of distances to
//! rows, visibilities, biases and options; the same bits for any number of threads.

use burn::tensor::Tensor;
use formwork::kernel::{
    self, AttentionOptions, DistanceRows, DistanceTable, Relations, Relative, ScoreBias, Span,
    Visibility, composed,
};
use formwork::rng::{Purpose, Stream};

use super::visibility::drawn;
use super::{bits, close, drop_key, random, values};

/// How distances become rows of a table.
#[derive(Clone, Copy, Debug)]
pub enum Map {
    /// Shaw et al. 2018: clipped on both sides.
    Clipped(usize),
    /// Dai et al. 2019: how far a key stands before its query, at most so far.
    Before(usize),
    /// A row for each diagonal, from the first key on or from the last.
    Each { falling: bool },
    /// He et al. 2021: near distances by themselves, far ones in classes that grow.
    Classes(usize),
    /// Neighbouring distances so many rows apart: classes of He et al. 2021 of which there are more than distances.
    Apart(usize),
    /// One row for all.
    One,
}

impl Map {
    fn drawn(stream: &mut Stream) -> Option<Self> {
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

    /// Rows of the table, and the row of each diagonal.
    fn rows(self, span: Span) -> (usize, DistanceRows) {
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

/// One problem; leaves are made from the seed.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub batch: usize,
    /// Query heads and key-value heads.
    pub heads: [usize; 2],
    pub span: Span,
    pub d_head: usize,
    pub visible: Visibility,
    pub options: AttentionOptions,
    /// 0: none, 1: by distance, 2 and 3: for each score, of all rows and of each.
    pub bias: usize,
    /// Whether there are u and v.
    pub shifts: [bool; 2],
    /// Of queries, keys and values, and whether all heads share the table.
    pub maps: [Option<(Map, bool)>; 3],
    pub factor: Option<f64>,
}

impl Case {
    fn drawn(stream: &mut Stream, seed: u64) -> Self {
        let mut pick = |choices: &[usize]| choices[stream.below(choices.len() as u64) as usize];
        let kv_heads = pick(&[1, 2]);
        let heads = kv_heads * pick(&[1, 1, 3]);
        let (batch, d_head) = (pick(&[1, 2, 3]), pick(&[1, 8, 20]));
        let (queries, keys) = (pick(&[1, 5, 64, 65, 130]), pick(&[1, 7, 64, 67, 300, 530]));
        let (bias, shifts) = (pick(&[0, 0, 1, 2, 3]), [pick(&[0, 1]), pick(&[0, 1])]);
        let span = Span {
            queries,
            keys,
            offset: keys.saturating_sub(queries),
        };
        let mut maps = [(); 3].map(|_| Map::drawn(stream).map(|map| (map, stream.below(2) == 0)));
        // One row for all keys of a query changes no weight: its gradient is nothing but rounding.
        let constant = matches!(
            maps[0],
            Some((Map::One | Map::Clipped(0) | Map::Before(0), _))
        );
        maps[0] = maps[0].filter(|_| !constant);
        Self {
            seed,
            batch,
            heads: [heads, kv_heads],
            span,
            d_head,
            visible: drawn(stream, [batch, heads], span),
            options: AttentionOptions {
                scale: 1.0 / (d_head as f64).sqrt(),
                softcap: (stream.below(3) == 0).then_some(2.0),
                dropout: (stream.below(3) == 0).then_some(drop_key(0.3)),
            },
            bias,
            shifts: shifts.map(|on| on == 1),
            maps,
            factor: (stream.below(2) == 0).then_some(0.577),
        }
    }

    /// Queries, keys, values, the bias, shifts and tables.
    fn leaves(&self) -> Vec<Tensor<4>> {
        let ([h, h_kv], d) = (self.heads, self.d_head);
        let Span { queries, keys, .. } = self.span;
        let bias = match self.bias {
            0 => [1, 1, 1, 1],
            1 => [1, 1, h, self.span.distances()],
            2 => [1, h, queries, keys],
            _ => [self.batch, h, queries, keys],
        };
        let table = |map: Option<(Map, bool)>| match map {
            Some((map, shared)) => [map.rows(self.span).0, if shared { 1 } else { h }, d],
            None => [1, 1, 1],
        };
        let [a, b, c] = self.maps.map(table).map(|[rows, h, d]| [1, rows, h, d]);
        let dims = [
            [self.batch, h, queries, d],
            [self.batch, h_kv, keys, d],
            [self.batch, h_kv, keys, d],
            bias,
            [1, 1, h, d],
            [1, 1, h, d],
            a,
            b,
            c,
        ];
        let each = dims.into_iter().zip(self.seed * 10..);
        each.map(|(dims, seed)| random(dims, seed).require_grad())
            .collect()
    }

    fn relations(&self, leaves: &[Tensor<4>]) -> Relations {
        let [h, _] = self.heads;
        let bias = leaves[3].clone();
        let shift = |i: usize| {
            let shift = leaves[4 + i].clone().reshape([h, self.d_head]);
            self.shifts[i].then_some(shift)
        };
        let table = |i: usize| {
            let (map, _) = self.maps[i]?;
            let (_, rows) = map.rows(self.span);
            // As a projection gives it: heads beside each other.
            let table = leaves[6 + i].clone().squeeze_dim::<3>(0).swap_dims(0, 1);
            Some(DistanceTable { table, rows })
        };
        Relations {
            visible: self.visible.clone(),
            offset: self.span.offset,
            bias: match self.bias {
                0 => ScoreBias::None,
                1 => ScoreBias::ByDistance(bias.reshape([h, self.span.distances()])),
                _ => ScoreBias::Dense(bias),
            },
            relative: Some(Relative {
                factor: self.factor,
                content_shift: shift(0),
                distance_shift: shift(1),
                queries: table(0),
                keys: table(1),
                values: table(2),
            }),
        }
    }

    /// The result and the gradients of all leaves.
    pub fn run(&self, fused: bool) -> Vec<Option<Tensor<4>>> {
        let leaves = self.leaves();
        let [q, k, v] = [0, 1, 2].map(|i| leaves[i].clone());
        let (relations, options) = (self.relations(&leaves), self.options);
        let y = match fused {
            true => kernel::attention(q, k, v, relations, options),
            false => composed::attention(q, k, v, relations, options),
        };
        let grads = (y.clone() * random(y.dims(), 99)).sum().backward();
        let plain = |x: Tensor<4>| Some(x.inner());
        let gradients = leaves.iter().map(|x| x.grad(&grads));
        [plain(y)].into_iter().chain(gradients).collect()
    }

    fn check(&self) {
        let names = "result,q,k,v,bias,content shift,distance shift,table of queries,table of keys,table of values".split(',');
        let both = self.run(true).into_iter().zip(self.run(false));
        for (name, (fused, wanted)) in names.zip(both) {
            let what = format!("{name} of {self:?}");
            match (fused, wanted) {
                // What all pairs of a row add to a table cancels.
                (Some(fused), Some(wanted)) if what.starts_with("table") => {
                    close(&what, &values(&(fused * 0.1)), &values(&(wanted * 0.1)));
                }
                (Some(fused), Some(wanted)) => close(&what, &values(&fused), &values(&wanted)),
                // A shift that meets no table.
                (Some(fused), None) => assert!(values(&fused).iter().all(|x| *x == 0.0), "{what}"),
                (fused, wanted) => assert!(fused.is_none() && wanted.is_none(), "{what}"),
            }
        }
    }
}

/// All that attention knows at once.
#[test]
fn relative_attentions() {
    let mut stream = Stream::new(6, Purpose::Split, (0, 0, 0));
    for seed in 0..100 {
        Case::drawn(&mut stream, seed).check();
    }
}

/// A case of two rows and four heads over several tiles and chunks.
pub fn several_tiles(maps: [Option<(Map, bool)>; 3]) -> Case {
    Case {
        seed: 1,
        batch: 2,
        heads: [4, 4],
        span: Span {
            queries: 130,
            keys: 530,
            offset: 400,
        },
        d_head: 16,
        visible: Visibility::causal(),
        options: AttentionOptions {
            scale: 0.25,
            softcap: None,
            dropout: Some(drop_key(0.1)),
        },
        bias: 0,
        shifts: [true, true],
        maps,
        factor: None,
    }
}

/// The three papers' own forms.
#[test]
fn forms_of_the_papers() {
    let shaw = |clip| Some((Map::Clipped(clip), true));
    let plain = |maps| Case {
        shifts: [false, false],
        ..several_tiles(maps)
    };
    for clip in [2, 16] {
        plain([shaw(clip), None, shaw(clip)]).check();
    }
    for most in [529, 300] {
        several_tiles([Some((Map::Before(most), false)), None, None]).check();
    }
    let classes = Some((Map::Classes(8), false));
    Case {
        factor: Some(1.0 / 3.0_f64.sqrt()),
        visible: Visibility::of_lengths(&[530, 411]),
        ..plain([classes, classes, None])
    }
    .check();
}

/// Diagonals of a tile may reach over more rows than there are diagonals.
#[test]
fn rows_without_a_distance() {
    let apart = |rows, shared| Some((Map::Apart(rows), shared));
    let mut case = several_tiles([apart(3, true), apart(2, false), apart(5, true)]);
    case.check();
    (case.span.queries, case.span.offset) = (3, 527);
    case.check();
}

#[test]
fn same_bits_for_any_number_of_threads() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let all = Some((Map::Each { falling: true }, true));
        let case = several_tiles([all, all, Some((Map::Clipped(7), false))]);
        pool.build().unwrap().install(|| {
            let all = case.run(true);
            all.iter().flatten().map(bits).collect::<Vec<_>>()
        })
    };
    let once = on(2);
    assert_eq!(once, on(1));
    assert_eq!(once, on(5));
}

/// Gradients that are not asked for change nothing about the others.
#[test]
fn tables_may_be_constants() {
    let case = several_tiles([
        Some((Map::Before(529), false)),
        None,
        Some((Map::One, true)),
    ]);
    let mut leaves = case.leaves();
    let gradient = |leaves: &[Tensor<4>]| {
        let [q, k, v] = [0, 1, 2].map(|i| leaves[i].clone());
        let y = kernel::attention(q, k, v, case.relations(leaves), case.options);
        let grads = y.powi_scalar(2).sum().backward();
        bits(&leaves[0].grad(&grads).unwrap())
    };
    let all = gradient(&leaves);
    for constant in [4, 6, 8, 5] {
        leaves[constant] = leaves[constant].clone().detach();
        assert_eq!(gradient(&leaves), all, "leaf {constant}");
    }
}
