//! Attention with relative position vectors against its composed implementation: values and every gradient, over maps from
//! distances to rows, visibilities, biases and options; the same bits for any number of threads.

use burn::tensor::{Device, Tensor};
use formwork::kernel::{
    self, AttentionOptions, DistanceTable, Positional, Relative, ScoreBias, Span, Visibility,
    composed,
};
use formwork::rng::{Purpose, Stream};

pub use super::distance_maps::Map;
use super::visibility::drawn;
use super::{bits, close, device, drop_key, random, values};

/// One problem; its leaves are drawn from the seed.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub batch: usize,
    /// Numbers of query heads and key-value heads.
    pub heads: [usize; 2],
    pub span: Span,
    pub d_head: usize,
    pub visible: Visibility,
    pub options: AttentionOptions,
    /// 0: no bias, 1: by distance, 2 and 3: for each score, shared by all rows or separate for each.
    pub bias: usize,
    /// Whether u and v exist.
    pub shifts: [bool; 2],
    /// Maps of queries, keys and values, and whether all heads share the table.
    pub maps: [Option<(Map, bool)>; 3],
    pub factor: Option<f64>,
}

impl Case {
    pub fn drawn(stream: &mut Stream, seed: u64) -> Self {
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
        // If all keys of a query share one row, it changes no weight, and its gradient is only rounding.
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
    fn leaves(&self, device: &Device) -> Vec<Tensor<4>> {
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
        let made = |(dims, seed)| random::<4>(dims, seed).to_device(device).detach();
        each.map(|x| made(x).require_grad()).collect()
    }

    fn relations(&self, leaves: &[Tensor<4>]) -> Positional {
        let [h, _] = self.heads;
        let bias = leaves[3].clone();
        let shift = |i: usize| {
            let shift = leaves[4 + i].clone().reshape([h, self.d_head]);
            self.shifts[i].then_some(shift)
        };
        let table = |i: usize| {
            let (map, _) = self.maps[i]?;
            let (_, rows) = map.rows(self.span);
            // In the layout of a projection's output: heads beside each other.
            let table = leaves[6 + i].clone().squeeze_dim::<3>(0).swap_dims(0, 1);
            Some(DistanceTable { table, rows })
        };
        Positional {
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
            sinks: None,
        }
    }

    /// Returns the output and the gradients of all leaves.
    pub fn run(&self, fused: bool) -> Vec<Option<Tensor<4>>> {
        self.run_on(&device(), fused)
    }

    /// The same on an autodiff device.
    pub fn run_on(&self, device: &Device, fused: bool) -> Vec<Option<Tensor<4>>> {
        let leaves = self.leaves(device);
        let [q, k, v] = [0, 1, 2].map(|i| leaves[i].clone());
        let (relations, options) = (self.relations(&leaves), self.options);
        let y = match fused {
            true => kernel::attention(q, k, v, relations, options),
            false => composed::attention(q, k, v, relations, options),
        };
        let weights = random(y.dims(), 99).to_device(device).detach();
        let grads = (y.clone() * weights).sum().backward();
        let plain = |x: Tensor<4>| Some(x.inner());
        let gradients = leaves.iter().map(|x| x.grad(&grads));
        [plain(y)].into_iter().chain(gradients).collect()
    }

    fn check(&self) {
        self.compare(self.run(true), self.run(false), close);
    }

    /// Compares two results of [`Self::run`].
    pub fn compare(
        &self,
        ours: Vec<Option<Tensor<4>>>,
        wanted: Vec<Option<Tensor<4>>>,
        close: fn(&str, &[f32], &[f32]),
    ) {
        let names = "result,q,k,v,bias,content shift,distance shift,table of queries,table of keys,table of values".split(',');
        for (name, (ours, wanted)) in names.zip(ours.into_iter().zip(wanted)) {
            let what = format!("{name} of {self:?}");
            match (ours, wanted) {
                // The contributions of a row's pairs to a table partly cancel.
                (Some(ours), Some(wanted)) if what.starts_with("table") => {
                    close(&what, &values(&(ours * 0.1)), &values(&(wanted * 0.1)));
                }
                (Some(ours), Some(wanted)) => close(&what, &values(&ours), &values(&wanted)),
                // A shift without a table has no effect.
                (Some(ours), None) => assert!(values(&ours).iter().all(|x| *x == 0.0), "{what}"),
                (ours, wanted) => assert!(ours.is_none() && wanted.is_none(), "{what}"),
            }
        }
    }
}

/// All features of attention at once.
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

/// The forms of the three papers.
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
        visible: Visibility::from_lengths(&[530, 411]),
        ..plain([classes, classes, None])
    }
    .check();
}

/// The diagonals of a tile may span more rows than there are diagonals.
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

/// If some gradients are not required, the others stay the same.
#[test]
fn tables_may_be_constants() {
    let case = several_tiles([
        Some((Map::Before(529), false)),
        None,
        Some((Map::One, true)),
    ]);
    let mut leaves = case.leaves(&device());
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
