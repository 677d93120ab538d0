//! The head of contrastive pretraining on audio (Baevski et al. 2020, wav2vec 2.0, section 2, "Quantization module" and section
//! 3.2): codes of features, and the maps of codes and hidden states into the space where they are compared.
//!
//! ```text
//! scores = W·z + b, in G groups of V      code_g = entry argmax_v (scores_gv + n_gv)      q = W'[e_1; …; e_G] + b'
//! ```
//!
//! In training n is Gumbel noise, and gradients are those of softmax((scores + n)/τ) (Jang et al. 2017, straight-through). Without
//! noise a code is the entry with the highest score. The head belongs to the task; it is not part of the network that is used
//! afterwards.

use super::BuildContext;
use crate::kernel;
use crate::nn::init::{Init, InitSettings, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::role::{Declaration, Place, Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, activation};

/// Name of the head: as a field of a task, and in keys of random draws.
pub const NAME: &str = "contrastive_head";

/// The sizes of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContrastiveHeadShape {
    /// Width of features.
    pub d_features: usize,
    /// Width of hidden states.
    pub d_model: usize,
    /// Number of codebooks.
    pub codebooks: usize,
    /// Number of entries of each codebook.
    pub entries: usize,
    /// Width of a code: the sum of the widths of its entries.
    pub d_code: usize,
    /// Width of the vectors that are compared.
    pub d_compared: usize,
}

impl ContrastiveHeadShape {
    /// Multiplications for one frame.
    pub fn products(&self) -> f64 {
        let scores = self.d_features * self.codebooks * self.entries;
        let chosen = self.entries * self.d_code;
        let maps = (self.d_code + self.d_model) * self.d_compared;
        (scores + chosen + maps) as f64
    }

    /// Builds the head; its parameters are drawn at their first use.
    pub fn init(&self, initial: InitSettings, inputs: &BuildContext) -> ContrastiveHead {
        let init = Init::of_heads(inputs.device, inputs.seed, initial).part(NAME);
        let map = |name: &str, from: usize, to: usize| {
            Linear::new(from, to, true, MatrixRole::Inner, &init.part(name))
        };
        let width = self.d_code / self.codebooks.max(1);
        let scores = self.codebooks * self.entries;
        ContrastiveHead {
            scores: Linear {
                // As in the released code, whatever the scheme; frames differ in their codes from the first step.
                weight: init.part("scores").normal([scores, self.d_features], 1.0),
                bias: Some(init.vector(scores, 0.0)),
            },
            entries: init
                .part("entries")
                .uniform([self.codebooks, self.entries, width], |u| u),
            codes: map("codes", self.d_code, self.d_compared),
            states: map("states", self.d_model, self.d_compared),
        }
    }
}

/// Places of the parameters of [`ContrastiveHead`].
pub const ROLES: Roles = Roles::new(
    "ContrastiveHead",
    &[
        ("scores", Declaration::Place(Place::Head)),
        ("entries", TABLE),
        ("entries", Declaration::Place(Place::Head)),
        ("codes", Declaration::Place(Place::Head)),
        ("states", Declaration::Place(Place::Head)),
    ],
);

/// Codebooks and the maps into the space where codes and hidden states are compared.
#[derive(Module, Debug)]
pub struct ContrastiveHead {
    /// Map from features to the scores of entries, `[codebooks·entries, d_features]`.
    pub scores: Linear,
    /// The codebooks, `[codebooks, entries, d_code / codebooks]`.
    pub entries: Param<Tensor<3>>,
    /// Map of codes, `[d_compared, d_code]`.
    pub codes: Linear,
    /// Map of hidden states, `[d_compared, d_model]`.
    pub states: Linear,
}

/// Gumbel noise for the choice of codes.
#[derive(Clone, Debug)]
pub struct CodeNoise {
    /// Standard Gumbel noise, `[rows, frames, codebooks·entries]`.
    pub values: Tensor<3>,
    /// Temperature of the softmax whose gradients are used.
    pub temperature: f64,
}

/// The codes of some frames.
#[derive(Clone, Debug)]
pub struct Codes {
    /// The codes in the space of comparison, `[rows, frames, d_compared]`.
    pub compared: Tensor<3>,
    /// 1 for the chosen entry of each codebook and 0 for the others, `[rows, frames, codebooks·entries]`, not tracked.
    pub chosen: Tensor<3>,
    /// Probabilities of the entries of each codebook, `[codebooks, rows·frames, entries]`: in training by the scores without noise,
    /// otherwise 1 for the chosen entries.
    pub shares: Tensor<3>,
}

impl ContrastiveHead {
    /// Computes the codes of features `[rows, frames, d_features]`.
    pub fn quantise(&self, features: Tensor<3>, noise: Option<CodeNoise>) -> Codes {
        let [rows, frames, _] = features.dims();
        let [books, entries, width] = self.entries.dims();
        let count = rows * frames;
        let by_book = |x: Tensor<3>| x.reshape([count, books, entries]).swap_dims(0, 1);
        let scores = by_book(kernel::to_f32(self.scores.forward(features)));
        let (chosen, weights, shares) = match noise {
            None => {
                let chosen = highest(&scores);
                (chosen.clone(), chosen.clone(), chosen)
            }
            Some(noise) => {
                let shares = activation::softmax(scores.clone(), 2);
                let noisy = scores + by_book(noise.values);
                let soft = activation::softmax(noisy / noise.temperature, 2);
                let chosen = highest(&soft);
                let rest = soft.clone().detach();
                (chosen.clone(), chosen - rest + soft, shares)
            }
        };
        let found = weights.matmul(kernel::to_f32(self.entries.val()));
        let found = found.swap_dims(0, 1).reshape([rows, frames, books * width]);
        Codes {
            compared: self.codes.forward(found),
            chosen: chosen
                .swap_dims(0, 1)
                .reshape([rows, frames, books * entries]),
            shares,
        }
    }
}

/// Returns 1 at the highest value of each row of the last dimension and 0 elsewhere, not tracked.
fn highest(x: &Tensor<3>) -> Tensor<3> {
    let [_, _, len] = x.dims();
    let x = kernel::untracked(x.clone());
    let best = x.clone().argmax(2);
    let places: Tensor<1, Int> = Tensor::arange(0..len as i64, &x.device());
    best.equal(places.reshape([1, 1, len]))
        .float()
        .cast(x.dtype())
}
