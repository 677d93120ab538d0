//! Attention under every visibility rule, with biases, soft caps, dropout and shared key-value heads.

use std::ops::Range;

use formwork::kernel::{
    self, AttentionOptions, Documents, DropKey, KeyPattern, Pattern, Positional, Query, ScoreBias,
    Visibility, Window,
};

use super::{device, random, same};

/// Rows, heads, key-value heads, queries, keys, head width.
type Sizes = [usize; 6];

fn options(dropout: f64) -> AttentionOptions {
    AttentionOptions {
        scale: 0.37,
        softcap: None,
        dropout: Some(DropKey {
            p: dropout,
            seed: 11,
            step: 5,
            first_row: 3,
            site: 99,
        }),
    }
}

fn check(
    what: &str,
    [b, h, kv, q, k, d]: Sizes,
    visible: &Visibility,
    offset: usize,
    options: AttentionOptions,
) {
    let Some(device) = device() else { return };
    let most = h.max(kv);
    let rows = q.max(k);
    let all = [1, 2, 3].map(|seed| random([b, rows, most, d], seed));
    same(what, &device, all, |_, [x, y, z]| {
        let queries = x.narrow(1, 0, q).narrow(2, 0, h).swap_dims(1, 2);
        let [keys, values] = [y, z].map(|x| x.narrow(1, 0, k).narrow(2, 0, kv).swap_dims(1, 2));
        let relations = Positional {
            visible: visible.clone(),
            offset,
            ..Positional::default()
        };
        kernel::attention(queries, keys, values, relations, options)
    });
}

/// A further score for each head beside those of keys.
#[test]
fn sinks() {
    let Some(device) = device() else { return };
    let all = [1, 2, 3, 4].map(|seed| random([2, 70, 4, 16], seed));
    for dropout in [0.0, 0.3] {
        let name = format!("sinks, dropout {dropout}");
        same(&name, &device, all.clone(), |_, [x, y, z, s]| {
            let queries = x.swap_dims(1, 2);
            let [keys, values] = [y, z].map(|x| x.narrow(2, 0, 2).swap_dims(1, 2));
            let relations = Positional {
                visible: Visibility::causal(),
                sinks: Some(
                    s.narrow(0, 0, 1)
                        .narrow(1, 0, 1)
                        .narrow(3, 0, 1)
                        .reshape([4]),
                ),
                ..Positional::default()
            };
            kernel::attention(queries, keys, values, relations, options(dropout))
        });
    }
}

#[test]
fn rules() {
    let documents = |keys: usize| {
        let numbers: Vec<i32> = (0..2 * keys).map(|i| (i / 5) as i32).collect();
        Some(Documents::new(&numbers, keys))
    };
    let window = |dilation: &[usize]| {
        Some(Window {
            before: 3,
            after: 2,
            dilation: dilation.into(),
        })
    };
    let all: [(&str, Visibility); 7] = [
        ("everything", Visibility::ALL),
        ("causal", Visibility::causal()),
        ("lengths", Visibility::from_lengths(&[13, 0])),
        (
            "documents",
            Visibility {
                causal: true,
                documents: documents(17),
                ..Visibility::ALL
            },
        ),
        (
            "a prefix",
            Visibility {
                causal: true,
                prefix: Some([4, 0].into()),
                lengths: Some([17, 9].into()),
                ..Visibility::ALL
            },
        ),
        (
            "a window",
            Visibility {
                window: window(&[]),
                ..Visibility::ALL
            },
        ),
        (
            "a dilated window",
            Visibility {
                causal: true,
                window: window(&[1, 3]),
                documents: documents(17),
                ..Visibility::ALL
            },
        ),
    ];
    for (what, visible) in all {
        for dropout in [0.0, 0.3] {
            let name = format!("{what}, dropout {dropout}");
            check(&name, [2, 2, 2, 17, 17, 5], &visible, 0, options(dropout));
        }
    }
}

/// Every query sees the keys whose index is a multiple of 3 plus the head's number, and its own key.
#[derive(Debug)]
struct Combs;

impl KeyPattern for Combs {
    fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        for key in 0..keys {
            if key % 3 == query.head || key == query.position {
                see(key..key + 1);
            }
        }
    }

    fn by_head(&self) -> bool {
        true
    }
}

#[test]
fn patterns() {
    for causal in [false, true] {
        let visible = Visibility {
            causal,
            pattern: Some(Pattern::new(Combs)),
            ..Visibility::ALL
        };
        check("a pattern", [2, 2, 2, 17, 17, 5], &visible, 0, options(0.3));
        check("behind keys", [2, 2, 1, 3, 9, 4], &visible, 6, options(0.0));
    }
}

/// Calls that are split into blocks of queries: causal, with a window, and with padding and documents.
#[test]
fn blocks() {
    let long = [1, 2, 1, 1100, 1100, 4];
    check("causal", long, &Visibility::causal(), 0, options(0.1));
    let windowed = Visibility {
        window: Some(Window {
            before: 3,
            after: 2,
            dilation: [1, 2].into(),
        }),
        ..Visibility::from_lengths(&[300, 0])
    };
    check(
        "a window",
        [2, 2, 2, 400, 400, 4],
        &windowed,
        0,
        options(0.2),
    );
    let numbers: Vec<i32> = (0..400).map(|i| i / 90).collect();
    let documents = Visibility {
        documents: Some(Documents::new(&numbers, 400)),
        window: windowed.window.clone(),
        ..Visibility::causal()
    };
    check(
        "documents",
        [1, 2, 2, 400, 400, 4],
        &documents,
        0,
        options(0.0),
    );
}

/// More keys than queries, long rows, shared keys, a soft cap.
#[test]
fn sizes() {
    let causal = Visibility::causal();
    check("one", [1, 1, 1, 1, 1, 1], &causal, 0, options(0.0));
    check("behind keys", [2, 4, 2, 3, 9, 4], &causal, 6, options(0.2));
    check("long", [1, 2, 1, 150, 150, 8], &causal, 0, options(0.1));
    let capped = AttentionOptions {
        softcap: Some(0.8),
        ..options(0.1)
    };
    check("capped", [2, 2, 2, 11, 11, 4], &causal, 0, capped);
}

#[test]
fn biases() {
    biases_of([2, 3, 7, 9, 4], Visibility::causal());
    let windowed = Visibility {
        window: Some(Window {
            before: 7,
            after: 0,
            dilation: [].into(),
        }),
        ..Visibility::causal()
    };
    // In blocks of queries.
    biases_of([2, 2, 300, 302, 4], windowed);
}

fn biases_of([b, h, q, k, d]: [usize; 5], visible: Visibility) {
    let Some(device) = device() else { return };
    let spans = [
        ("by distance", [1, 1, h, q + k - 1]),
        ("of each pair", [1, h, q, k]),
        ("of each pair and row", [b, h, q, k]),
    ];
    for (what, dims) in spans {
        let inputs = [random([b, h, q, d], 1), random([b, h, k, d], 2)];
        let bias = random(dims, 3);
        let all = [inputs[0].clone(), inputs[1].clone(), bias];
        same(what, &device, all, |_, [q, k, bias]| {
            let bias = match dims[1] {
                1 => ScoreBias::ByDistance(bias.reshape([dims[2], dims[3]])),
                _ => ScoreBias::Dense(bias),
            };
            let relations = Positional {
                visible: visible.clone(),
                offset: 2,
                bias,
                ..Positional::default()
            };
            let values = k.clone() * 0.5;
            kernel::attention(q, k, values, relations, options(0.2))
        });
    }
}
