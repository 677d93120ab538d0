//! Differential attention: the difference of two softmaxes, so that their common part cancels (Ye et al. 2024, "Differential
//! Transformer", arXiv:2410.05258, section 2.1):
//!
//! head_i = (1 − λ_init)·norm((A_i − λ·A_{i+h})·[v_i ; v_{i+h}]), A_j = softmax(scale·q_j k_jᵀ + bias),
//! λ = exp(λ_q1·λ_k1) − exp(λ_q2·λ_k2) + λ_init.
//!
//! The first h query heads and the second h (`n_heads` = 2h) are paired into h results, each twice as wide as a head. λ is one
//! number per layer, computed from four learned vectors. λ_init grows with depth: 0.8 − 0.6·e^(−0.3·l) in layer l, counted from
//! 0. The order of heads is that of Hugging Face's DiffLlama; the authors' program places the two heads of a pair next to each
//! other.
//!
//! Projections are those of multi-head attention. The attention is computed twice, once for each half of the values, since
//! kernels expect values as wide as keys. Dropout removes the same weights in both. Records and entropies describe each head's
//! own softmax.

use super::multi_head::gate::Gate;
use super::multi_head::{MultiHead, MultiHeadConfig};
use super::{Abilities, AttentionFacts, AttentionInputs, AttentionShape, Kind};
use crate::faults::TableFaults;
use crate::kernel::{self, Positional};
use crate::nn::init::Init;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::position::HeadEffect;
use crate::nn::role::{BIAS, Roles};
use crate::nn::state::{LayerState, StateUse};
use crate::one_table::one_table;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "differential",
    summary: "the difference of two heads' softmax weights, which cancels their common part",
    source: "Ye et al. 2024, Differential Transformer, section 2.1",
    example: "{ kind = \"differential\", n_heads = 4 }",
};

/// Initial standard deviation of the four vectors. Source: Ye et al. 2024, released code.
const INITIAL_STD: f32 = 0.1;

/// Settings of differential attention: those of multi-head attention, the initial λ and the norm of the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct DifferentialConfig {
    /// The heads with their projections; two heads form a result.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// λ_init; 0.8 − 0.6·e^(−0.3·l) in layer l, counted from 0, when absent. Source: Ye et al. 2024, section 2.1.
    #[schemars(range(min = 0, max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda_init: Option<f64>,
    /// Norm on each result, over the width of two heads. Source: Ye et al. 2024, section 2.1.
    pub norm: NormConfig,
}

impl Default for DifferentialConfig {
    fn default() -> Self {
        Self {
            heads: MultiHeadConfig::default(),
            lambda_init: None,
            norm: NormConfig::rms_of(1e-5),
        }
    }
}

one_table!(DifferentialConfig, heads: MultiHeadConfig, |_| &[]);

/// Roles of the parameters of [`Differential`]: none multiplies inputs, so all count as biases.
pub const ROLES: Roles = Roles::new(
    "Differential",
    &[
        ("lambda_q1", BIAS),
        ("lambda_k1", BIAS),
        ("lambda_q2", BIAS),
        ("lambda_k2", BIAS),
    ],
);

/// Differential attention with its parameters.
#[derive(Module, Debug)]
pub struct Differential {
    /// Projections of queries, keys, values and the output.
    pub heads: MultiHead,
    /// λ_q1 `[d_head]`.
    pub lambda_q1: Param<Tensor<1>>,
    /// λ_k1 `[d_head]`.
    pub lambda_k1: Param<Tensor<1>>,
    /// λ_q2 `[d_head]`.
    pub lambda_q2: Param<Tensor<1>>,
    /// λ_k2 `[d_head]`.
    pub lambda_k2: Param<Tensor<1>>,
    /// Norm over the 2·d_head elements of a result.
    pub norm: Norm,
    lambda_init: f64,
}

impl DifferentialConfig {
    /// Builds the attention layer for this shape.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> Differential {
        let d_head = self.heads.d_head(shape.d_model);
        let vector = |name| init.part(name).normal([d_head], INITIAL_STD);
        let by_depth = 0.8 - 0.6 * (-0.3 * shape.layer as f64).exp();
        Differential {
            heads: MultiHead::new(&self.heads, shape, init),
            lambda_q1: vector("lambda_q1"),
            lambda_k1: vector("lambda_k1"),
            lambda_q2: vector("lambda_q2"),
            lambda_k2: vector("lambda_k2"),
            norm: self.norm.init(2 * d_head, init),
            lambda_init: self.lambda_init.unwrap_or(by_depth),
        }
    }
}

impl AttentionFacts for DifferentialConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn heads(&self) -> MultiHeadConfig {
        self.heads.clone()
    }

    /// An odd number of heads is doubled, with heads half as wide.
    fn set_heads(&mut self, heads: MultiHeadConfig) {
        let odd = usize::from(!heads.n_kv_heads().is_multiple_of(2));
        self.heads = MultiHeadConfig {
            n_heads: heads.n_heads << odd,
            n_kv_heads: heads.n_kv_heads.map(|number| number << odd),
            d_head: heads.d_head.map(|width| (width >> odd).max(1)),
            ..heads
        };
    }

    /// Vectors of distances would be added to the values of one head, but a result combines two.
    fn abilities(&self) -> Abilities {
        Abilities {
            positions: &[HeadEffect::Rotation, HeadEffect::Bias],
            ..Abilities::ALL
        }
    }

    fn keys(&self, tokens: usize, causal: bool) -> usize {
        self.heads.keys(tokens, causal)
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.nested("norm", |at| self.norm.faults(at));
        if let Some(lambda) = self.lambda_init
            && !(0.0..=1.0).contains(&lambda)
        {
            let rule = format!("lambda_init = {lambda:?} is not between 0 and 1");
            at.fault(&["lambda_init"], rule);
        }
        if self.heads.gate == Some(Gate::Headwise) {
            let rule = "gate = \"headwise\" would gate halves of results, since two heads make each result; use elementwise";
            at.fault(&["gate", "kind"], rule);
        }
        let kv_heads = self.heads.n_kv_heads();
        if !kv_heads.is_multiple_of(2) {
            let key = match self.heads.n_kv_heads {
                Some(_) => "n_kv_heads",
                None => "n_heads",
            };
            let rule = format!(
                "{key} = {kv_heads} is odd, but two heads make each result of differential attention; make it even"
            );
            at.fault(&[key], rule);
        }
        self.heads.faults(d_model, at)
    }

    /// Adds the results of all heads over both halves of the values, and their difference before the norm.
    fn activations(&self, d_model: usize) -> u128 {
        let width = self.heads.n_heads as u128 * self.heads.d_head(d_model) as u128;
        self.heads.activations(d_model) + 3 * width
    }

    /// Counts the weights twice, since they are computed for each half of the values.
    fn products(&self, d_model: usize, pairs: [usize; 3]) -> u128 {
        let [queries, _, keys] = pairs.map(|n| n as u128);
        let width = self.heads.n_heads as u128 * self.heads.d_head(d_model) as u128;
        self.heads.products(d_model, pairs) + 2 * queries * keys * width
    }
}

impl Differential {
    /// Returns λ, `[1, 1, 1, 1]`.
    fn lambda(&self) -> Tensor<4> {
        let term = |q: &Param<Tensor<1>>, k: &Param<Tensor<1>>| (q.val() * k.val()).sum().exp();
        let learned =
            term(&self.lambda_q1, &self.lambda_k1) - term(&self.lambda_q2, &self.lambda_k2);
        (learned + self.lambda_init).reshape([1, 1, 1, 1])
    }

    /// Computes the results `[batch, n_heads / 2, queries, 2·d_head]` from queries, keys and values by heads.
    fn weigh(&self, attended: AttentionInputs, cx: &LayerContext) -> Tensor<4> {
        attended.observe(cx);
        let [batch, heads, queries, _, d_head] = attended.dims();
        let lambda = self.lambda();
        // All layers share one bias tensor. Both uses here count as one use of it, so that gradients are added in one order.
        let relations = Positional {
            bias: attended.positional.bias.as_separate_node(),
            ..attended.positional
        };
        let values = attended.v.chunk(2, 1);
        let differences = values.into_iter().map(|half| {
            let v = Tensor::cat(vec![half.clone(), half], 1);
            let (q, k) = (attended.q.clone(), attended.k.clone());
            let y = kernel::attention(q, k, v, relations.clone(), attended.options);
            let first = y.clone().narrow(1, 0, heads / 2);
            let second = y.narrow(1, heads / 2, heads / 2);
            first - second * lambda.clone()
        });
        let y = Tensor::cat(differences.collect(), 3);
        let y = y.reshape([batch, heads / 2 * queries, 2 * d_head]);
        let y = self.norm.forward(y) * (1.0 - self.lambda_init);
        y.reshape([batch, heads / 2, queries, 2 * d_head])
    }
}

impl Layer for Differential {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let weigh = |attended, cx: &mut LayerContext| self.weigh(attended, cx);
        self.heads.forward_with(x, cx, weigh)
    }

    fn reach(&self) -> Option<usize> {
        self.heads.reach()
    }

    fn empty_state(&self, of: StateUse) -> LayerState {
        self.heads.empty_state(of)
    }
}
