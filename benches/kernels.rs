//! Times the fused kernels and their composed reference implementations: forward, and forward with backward. Prints a
//! table in milliseconds.
//!
//! run: cargo bench --bench kernels

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use formwork::kernel::{
    self, Activation, AdamwArgs, AttentionOptions, DistanceRows, DistanceTable, DropKey,
    Positional, Relative, Span, Visibility, composed,
};
use formwork::rng::{Purpose, Stream};

/// The same allocator as in the binary, which keeps large buffers mapped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn device() -> Device {
    Device::flex().autodiff()
}

fn random<const D: usize>(dims: [usize; D]) -> Tensor<D> {
    Tensor::random(dims, Distribution::Normal(0.0, 1.0), &device())
}

/// Returns the median time in milliseconds.
fn median(mut f: impl FnMut()) -> f64 {
    f();
    let rounds = 15;
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

/// Times the fused and then the composed function, each first forward without gradients and then forward with backward.
fn row<const D: usize, const E: usize, const N: usize>(
    name: &str,
    leaves: [Tensor<D>; N],
    fused: impl Fn([Tensor<D>; N]) -> Tensor<E>,
    oracle: impl Fn([Tensor<D>; N]) -> Tensor<E>,
) {
    let plain = leaves.clone().map(|x| x.inner());
    let mut line = format!("{name:<28}");
    for f in [&fused as &dyn Fn(_) -> _, &oracle] {
        let forward = median(|| {
            let _ = f(plain.clone());
        });
        let both = median(|| {
            let leaves = leaves.clone().map(|x| x.detach().require_grad());
            let y = f(leaves);
            let seed = y.clone().detach();
            let _ = (y * seed).sum().backward();
        });
        line += &format!("{forward:>10.3}{both:>10.3}");
    }
    println!("{line}");
}

fn main() {
    println!(
        "{:<28}{:>20}{:>20}",
        "ms", "fused: fwd, +bwd", "composed: fwd, +bwd"
    );
    let big = || random([8, 256, 1536]);
    for kind in [Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
        row(
            &format!("{kind:?} [8,256,1536]"),
            [big()],
            |[x]| kernel::activate(x, kind),
            |[x]| composed::activate(x, kind),
        );
    }
    row(
        "gated silu [8,256,1536]",
        [big(), big()],
        |[x, y]| kernel::gated(x, y, Activation::Silu),
        |[x, y]| composed::gated(x, y, Activation::Silu),
    );
    row(
        "add [8,256,384]",
        [random([8, 256, 384]), random([8, 256, 384])],
        |[x, y]| kernel::add(x, y),
        |[x, y]| composed::add(x, y),
    );
    row(
        "linear 384->1536",
        [
            random([8, 256, 384]),
            random([1, 1536, 384]),
            random([1, 1, 1536]),
        ],
        |[x, w, b]| kernel::linear(x, w.squeeze_dim(0), Some(b.reshape([1536]))),
        |[x, w, b]| composed::linear(x, w.squeeze_dim(0), Some(b.reshape([1536]))),
    );
    row(
        "layer_norm [8,256,384]",
        [random([8, 256, 384]), random([1, 1, 384])],
        |[x, g]| {
            kernel::layer_norm(
                x,
                Some(g.clone().reshape([384])),
                Some(g.reshape([384])),
                1e-5,
            )
        },
        |[x, g]| {
            composed::layer_norm(
                x,
                Some(g.clone().reshape([384])),
                Some(g.reshape([384])),
                1e-5,
            )
        },
    );
    row(
        "norm of a sum [8,256,384]",
        [
            random([8, 256, 384]),
            random([8, 256, 384]),
            random([1, 1, 384]),
        ],
        |[x, y, g]| kernel::layer_norm_of_sum([x, y], 1.0, Some(g.reshape([384])), None, 1e-5),
        |[x, y, g]| composed::layer_norm(x + y, Some(g.reshape([384])), None, 1e-5),
    );
    row(
        "rms_norm [8,256,384]",
        [random([8, 256, 384]), random([1, 1, 384])],
        |[x, g]| kernel::rms_norm(x, Some(g.reshape([384])), 1e-5),
        |[x, g]| composed::rms_norm(x, Some(g.reshape([384])), 1e-5),
    );
    row(
        "dynamic_tanh [8,256,384]",
        [
            random([8, 256, 384]),
            random([1, 1, 1]),
            random([1, 1, 384]),
        ],
        |[x, a, g]| {
            let g = g.reshape([384]);
            kernel::dynamic_tanh(x, a.reshape([1]), g.clone(), g)
        },
        |[x, a, g]| {
            let g = g.reshape([384]);
            composed::dynamic_tanh(x, a.reshape([1]), g.clone(), g)
        },
    );
    let key = DropKey {
        p: 0.1,
        seed: 1,
        step: 2,
        first_row: 0,
        site: 3,
    };
    row(
        "dropout [8,256,384]",
        [random([8, 256, 384])],
        |[x]| kernel::dropout(x, key),
        |[x]| composed::dropout(x, key),
    );
    let mut stream = Stream::new(1, Purpose::Split, (0, 0, 0));
    let mut ints =
        |n: usize, below| -> Vec<i64> { (0..n).map(|_| stream.below(below) as i64).collect() };
    let targets = Tensor::<1, Int>::from_data(TensorData::new(ints(1024, 8000), [1024]), &device());
    row(
        "cross entropy [1024,8000]",
        [random([1024, 8000])],
        |[x]| kernel::cross_entropy_sum(x, targets.clone(), 0.0),
        |[x]| composed::cross_entropy_sum(x, targets.clone(), 0.0),
    );
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ints(1024, 8000), [4, 256]), &device());
    row(
        "embedding [8000,256]x1024",
        [random([8000, 256])],
        |[w]| kernel::embedding(w, ids.clone()),
        |[w]| composed::embedding(w, ids.clone()),
    );
    let angle = Tensor::<2>::random([256, 32], Distribution::Default, &device());
    let (cos, sin) = (angle.clone().cos(), angle.sin());
    row(
        "rotary [8,6,256,64]",
        [random([8, 256, 6, 64])],
        |[x]| kernel::rotary(x.swap_dims(1, 2), cos.clone(), sin.clone(), false),
        |[x]| composed::rotary(x.swap_dims(1, 2), cos.clone(), sin.clone(), false),
    );
    for (name, dims, causal, drop) in [
        ("attention 8x6x256x64 causal", [8, 256, 6, 64], true, None),
        ("attention, dropout", [8, 256, 6, 64], true, Some(key)),
        ("attention 12x4x64x32 causal", [12, 64, 4, 32], true, None),
        ("attention 1x4x2048x64", [1, 2048, 4, 64], false, None),
    ] {
        let relations = Positional {
            visible: Visibility {
                causal,
                ..Visibility::default()
            },
            ..Positional::default()
        };
        let options = AttentionOptions {
            scale: 0.125,
            softcap: None,
            dropout: drop,
        };
        let turn = |x: Tensor<4>| x.swap_dims(1, 2);
        row(
            name,
            [random(dims), random(dims), random(dims)],
            |[q, k, v]| kernel::attention(turn(q), turn(k), turn(v), relations.clone(), options),
            |[q, k, v]| composed::attention(turn(q), turn(k), turn(v), relations.clone(), options),
        );
    }
    distances();
    optimizer();
}

/// Times attention of 128 queries after 128 earlier keys: without relative distances, and in the forms of Transformer-XL, Shaw
/// and DeBERTa.
fn distances() {
    let (queries, keys, heads, d) = (128, 256, 4, 64);
    let offset = keys - queries;
    let span = Span {
        queries,
        keys,
        offset,
    };
    let clipped = |most: i64| {
        let row = move |distance: i64| (distance.clamp(-most, most) + most) as usize;
        (2 * most as usize + 1, DistanceRows::new(span, row))
    };
    let before = DistanceRows::new(span, |distance| (-distance).max(0) as usize);
    let forms = [
        ("attention 16x4x128x256", (1, before.clone()), [false; 3]),
        ("of Transformer-XL", (keys, before), [true, false, false]),
        ("of Shaw, 16", clipped(16), [true, false, true]),
        ("of DeBERTa, 256", clipped(256), [true, true, false]),
    ];
    for (name, (count, rows), uses) in forms {
        let turn = |x: Tensor<4>| x.swap_dims(1, 2);
        let split = |[q, k, v, tables, shifts]: [Tensor<4>; 5]| {
            let table = |number: usize| DistanceTable {
                table: turn(tables.clone().narrow(0, number, 1)).squeeze_dim(0),
                rows: rows.clone(),
            };
            let shift = |number: usize| {
                let shift = shifts.clone().narrow(0, number, 1);
                (name == "of Transformer-XL").then(|| shift.reshape([heads, d]))
            };
            let used = |number: usize| uses[number].then(|| table(number));
            let relative = Relative {
                factor: None,
                content_shift: shift(0),
                distance_shift: shift(1),
                queries: used(0),
                keys: used(1),
                values: used(2),
            };
            let relations = Positional {
                visible: Visibility::causal(),
                offset,
                relative: uses.contains(&true).then_some(relative),
                ..Positional::default()
            };
            ([turn(q), turn(k), turn(v)], relations)
        };
        let options = AttentionOptions {
            scale: 0.125,
            softcap: None,
            dropout: None,
        };
        let of = |positions| random([16, positions, heads, d]);
        let (tables, shifts) = (random([3, count, heads, d]), random([2, 1, heads, d]));
        row(
            name,
            [of(queries), of(keys), of(keys), tables, shifts],
            |leaves| {
                let ([q, k, v], relations) = split(leaves);
                kernel::attention(q, k, v, relations, options)
            },
            |leaves| {
                let ([q, k, v], relations) = split(leaves);
                composed::attention(q, k, v, relations, options)
            },
        );
    }
}

fn optimizer() {
    let plain = Device::flex();
    let fresh = || Tensor::<2>::random([2048, 2048], Distribution::Default, &plain);
    let args = AdamwArgs {
        lr: 1e-3,
        beta_1: 0.9,
        beta_2: 0.999,
        eps: 1e-8,
        weight_decay: 0.1,
        time: 3,
    };
    let g = fresh();
    let mut state = Some((fresh(), fresh(), fresh()));
    let fused = median(|| {
        let (p, m, v) = state.take().unwrap();
        state = Some(kernel::adamw_step(p, g.clone(), m, v, args));
    });
    let composed = median(|| {
        let (p, m, v) = state.take().unwrap();
        state = Some(composed::adamw_step(p, g.clone(), m, v, args));
    });
    println!("adamw of 4M numbers: fused {fused:.3}, composed {composed:.3}");
    let fused = median(|| {
        let _ = kernel::sum_of_squares(&g);
    });
    let composed = median(|| {
        let _ = composed::sum_of_squares(g.clone());
    });
    println!("sum of squares of 4M numbers: fused {fused:.3}, composed {composed:.3}");
}
