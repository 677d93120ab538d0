//! The operations of mixers as cases: leaves by name, outputs with the state after them, and all gradients.

use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use formwork::kernel::Sequences;
use formwork::kernel::delta_rule::{self, DeltaRule, delta_rule};
use formwork::kernel::generalized_delta::{self, GeneralizedDelta, generalized_delta};
use formwork::kernel::selective_scan::{self, Scan, selective_scan};
use formwork::kernel::short_convolution::{self, ShortConvolution, short_convolution};
use formwork::kernel::ssd::{self, Ssd, ssd};
use formwork::kernel::wkv::{self, Wkv, wkv};

use super::super::{random, values};

/// Batch, positions and channels.
pub type Sizes = [usize; 3];

/// An operation with autodiff: its leaves by name, its output and the state after it.
pub struct Case {
    /// `ssd` and `ssd limited` are the state space by heads, in [`groups`] groups; `delta` and `delta kept` are the delta rule
    /// with as many key heads, with and without decay; `general` is the generalised delta rule with heads of width [`head`].
    pub name: &'static str,
    pub leaves: Vec<(&'static str, Leaf)>,
}

#[derive(Clone)]
pub enum Leaf {
    One(Tensor<1>),
    Two(Tensor<2>),
    Three(Tensor<3>),
}

impl Leaf {
    pub fn own(self) -> Self {
        match self {
            Self::One(x) => Self::One(x.detach().require_grad()),
            Self::Two(x) => Self::Two(x.detach().require_grad()),
            Self::Three(x) => Self::Three(x.detach().require_grad()),
        }
    }

    pub fn three(&self) -> Tensor<3> {
        let Self::Three(x) = self else {
            panic!("three")
        };
        x.clone()
    }

    fn two(&self) -> Tensor<2> {
        let Self::Two(x) = self else { panic!("two") };
        x.clone()
    }

    fn one(&self) -> Tensor<1> {
        let Self::One(x) = self else { panic!("one") };
        x.clone()
    }

    /// Returns the leaf's gradient; zeros if the output does not depend on it.
    fn gradient(&self, all: &burn::tensor::Gradients) -> Vec<f32> {
        fn of<const D: usize>(x: &Tensor<D>, all: &burn::tensor::Gradients) -> Vec<f32> {
            let none = || vec![0.0; x.shape().num_elements()];
            x.grad(all).map_or_else(none, |gradient| values(&gradient))
        }
        match self {
            Self::One(x) => of(x, all),
            Self::Two(x) => of(x, all),
            Self::Three(x) => of(x, all),
        }
    }
}

pub type Made = (Tensor<3>, Option<Tensor<2>>);

impl Case {
    fn leaf(&self, name: &str) -> &Leaf {
        &self.leaves.iter().find(|(own, _)| *own == name).unwrap().1
    }

    pub fn run(&self, fused: bool, state: Option<Tensor<2>>, sequences: &Sequences) -> Made {
        let wide = |name: &str| self.leaf(name).three();
        match self.name {
            "scan" => {
                let scan = Scan {
                    u: wide("u"),
                    raw: wide("raw"),
                    gate: wide("gate"),
                    decay: self.leaf("a").two(),
                    directions: Tensor::cat(vec![wide("b"), wide("c")], 2),
                    skip: self.leaf("skip").one(),
                    state,
                };
                match fused {
                    true => selective_scan(scan, sequences, true),
                    false => {
                        let (y, state) = selective_scan::composed::selective_scan(scan, sequences);
                        (y, Some(state))
                    }
                }
            }
            "ssd" | "ssd limited" => {
                let (x, b) = (wide("x"), wide("b"));
                let groups = groups(self.leaf("skip").one().dims()[0]);
                let space = Ssd {
                    d_state: b.dims()[2] / groups,
                    mixed: Tensor::cat(vec![x, b, wide("c")], 2),
                    raw: wide("raw"),
                    decay: self.leaf("a").one(),
                    skip: self.leaf("skip").one(),
                    state,
                    groups,
                    limits: (self.name == "ssd limited").then_some([0.05, 0.8]),
                };
                match fused {
                    true => ssd(space, sequences, true),
                    false => {
                        let (y, state) = ssd::composed::ssd(space, sequences);
                        (y, Some(state))
                    }
                }
            }
            "delta" | "delta kept" => {
                let (q, beta) = (wide("q"), wide("beta"));
                let n_key_heads = groups(beta.dims()[2]);
                let rule = DeltaRule {
                    d_key: q.dims()[2] / n_key_heads,
                    mixed: Tensor::cat(vec![q, wide("k"), wide("v")], 2),
                    beta,
                    decay: (self.name == "delta").then(|| wide("decay")),
                    state,
                    n_key_heads,
                };
                match fused {
                    true => delta_rule(rule, sequences, true),
                    false => {
                        let (y, state) = delta_rule::composed::delta_rule(rule, sequences);
                        (y, Some(state))
                    }
                }
            }
            "general" => {
                let r = wide("r");
                let rule = GeneralizedDelta {
                    d_head: head(r.dims()[2]),
                    r,
                    decay: wide("decay"),
                    k: wide("k"),
                    v: wide("v"),
                    a: wide("a"),
                    b: wide("b"),
                    state,
                };
                match fused {
                    true => generalized_delta(rule, sequences, true),
                    false => {
                        let (y, state) =
                            generalized_delta::composed::generalized_delta(rule, sequences);
                        (y, Some(state))
                    }
                }
            }
            "wkv" => {
                let average = Wkv {
                    r: wide("r"),
                    k: wide("k"),
                    v: wide("v"),
                    decay: self.leaf("decay").one(),
                    bonus: self.leaf("first").one(),
                    state,
                };
                match fused {
                    true => wkv(average, sequences, true),
                    false => {
                        let (y, state) = wkv::composed::wkv(average, sequences);
                        (y, Some(state))
                    }
                }
            }
            _ => {
                let convolution = ShortConvolution {
                    x: wide("x"),
                    weight: self.leaf("w").two(),
                    bias: Some(self.leaf("bias").one()),
                    before: state,
                    silu: self.name == "conv",
                };
                let y = match fused {
                    true => short_convolution(convolution, sequences),
                    false => short_convolution::composed::short_convolution(convolution, sequences),
                };
                (y, None)
            }
        }
    }

    /// Returns the output, the state after it, and all gradients of a non-uniform loss.
    pub fn all(
        &self,
        fused: bool,
        state: Option<Tensor<2>>,
        sequences: &Sequences,
        weights: &Tensor<3>,
    ) -> Vec<(String, Vec<f32>)> {
        let (y, after) = self.run(fused, state, sequences);
        let mut found = vec![("y".to_string(), values(&y))];
        found.extend(after.map(|state| ("state".to_string(), values(&state))));
        let grads = (y * weights.clone()).sum().backward();
        for (name, leaf) in &self.leaves {
            found.push((format!("grad.{name}"), leaf.gradient(&grads)));
        }
        found
    }
}

/// Returns the number of groups for this number of heads.
pub fn groups(heads: usize) -> usize {
    if heads.is_multiple_of(2) { 2 } else { 1 }
}

/// Returns the width of a head for this number of channels: several SIMD registers, the last of them not full.
pub fn head(channels: usize) -> usize {
    let divides = |d: &usize| channels.is_multiple_of(*d);
    (1..=70).rev().find(divides).unwrap_or(1)
}

/// The generalised delta rule as used by RWKV-7.
fn general([batch, seq, channels]: Sizes) -> Case {
    let n = head(channels);
    let wide = |seed| random([batch, seq, channels], seed);
    let by_head = wide(71).reshape([batch, seq, channels / n, n]);
    let length = by_head.clone().square().sum_dim(3).sqrt();
    let direction = (by_head / length).reshape([batch, seq, channels]);
    let leaves = [
        ("r", wide(72)),
        ("decay", sigmoid(wide(73)) * -0.6),
        ("k", wide(74)),
        ("v", wide(75)),
        ("a", direction.clone().neg()),
        ("b", direction * sigmoid(wide(76))),
    ];
    let own = leaves.map(|(name, x)| (name, Leaf::Three(x).own()));
    Case {
        name: "general",
        leaves: Vec::from(own),
    }
}

fn directions(batch: usize, seq: usize, width: usize, seed: u64) -> Leaf {
    Leaf::Three(random([batch, seq, width], seed)).own()
}

/// The delta rule with this number of heads and keys of width `n`: with decay, and without it but with β up to 2.
fn rules([batch, seq, channels]: Sizes, heads: usize, n: usize) -> [Case; 2] {
    let gate = |seed| sigmoid(random([batch, seq, heads], seed));
    let keys = |seed| directions(batch, seq, groups(heads) * n, seed);
    let value = || Leaf::Three(random([batch, seq, channels], 33)).own();
    let own = |x| Leaf::Three(x).own();
    let decay = (random([batch, seq, heads], 35) - 1.0).exp().neg();
    let leaves = [("q", keys(31)), ("k", keys(32)), ("v", value())];
    let decaying = [("beta", own(gate(34))), ("decay", own(decay))];
    let kept = ("beta", own(gate(36) * 2.0));
    [
        Case {
            name: "delta",
            leaves: leaves.iter().cloned().chain(decaying).collect(),
        },
        Case {
            name: "delta kept",
            leaves: leaves.iter().cloned().chain([kept]).collect(),
        },
    ]
}

/// Returns the cases of a size, each with the width of a row's state.
pub fn cases([batch, seq, channels]: Sizes) -> Vec<(Case, usize)> {
    let wide = |seed| Leaf::Three(random([batch, seq, channels], seed)).own();
    let n = 5;
    let scan = Case {
        name: "scan",
        leaves: vec![
            ("u", wide(1)),
            ("raw", wide(2)),
            ("gate", wide(3)),
            (
                "a",
                Leaf::Two((random([channels, n], 4) * 0.5).exp().neg()).own(),
            ),
            ("b", Leaf::Three(random([batch, seq, n], 5)).own()),
            ("c", Leaf::Three(random([batch, seq, n], 6)).own()),
            ("skip", Leaf::One(random([channels], 7)).own()),
        ],
    };
    // The largest head width below 8 that divides the channels.
    let d_head = (1..8).rev().find(|d| channels.is_multiple_of(*d));
    let heads = channels / d_head.unwrap_or(1);
    let by_heads = |name| Case {
        name,
        leaves: vec![
            ("x", wide(21)),
            ("raw", Leaf::Three(random([batch, seq, heads], 22)).own()),
            ("b", directions(batch, seq, groups(heads) * n, 23)),
            ("c", directions(batch, seq, groups(heads) * n, 24)),
            ("a", Leaf::One(random([heads], 25).exp().neg()).own()),
            ("skip", Leaf::One(random([heads], 26)).own()),
        ],
    };
    let spaces = ["ssd", "ssd limited"].map(|name| (by_heads(name), n * channels));
    let average = Case {
        name: "wkv",
        leaves: vec![
            ("r", wide(8)),
            (
                "k",
                Leaf::Three(random([batch, seq, channels], 9) * 3.0).own(),
            ),
            ("v", wide(10)),
            ("decay", Leaf::One(random([channels], 11).exp().neg()).own()),
            ("first", Leaf::One(random([channels], 12)).own()),
        ],
    };
    let mut all = vec![(scan, n * channels), (average, 3 * channels)];
    let sizes = [batch, seq, channels];
    all.push((general(sizes), head(channels) * channels));
    all.extend(spaces);
    all.extend(rules([batch, seq, channels], heads, n).map(|rule| (rule, n * channels)));
    for (name, taps) in [("conv", 4), ("plain", 2), ("conv", 1)] {
        let conv = Case {
            name,
            leaves: vec![
                ("x", wide(13)),
                ("w", Leaf::Two(random([channels, taps], 14)).own()),
                ("bias", Leaf::One(random([channels], 15)).own()),
            ],
        };
        all.push((conv, (taps - 1) * channels));
    }
    all
}
