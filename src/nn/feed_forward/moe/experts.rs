//! The experts of a layer: their matrices are stored one after another in one tensor, as the grouped products read them.

use super::super::gated::GatedProduct;
use super::super::{Activation, DenseConfig};
use super::ExpertConfig;
use crate::kernel::grouped::{Groups, gather, grouped_linear};
use crate::kernel::{self, DropKey};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::pass::Pass;
use crate::nn::role::{BIAS, Roles, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

/// Roles of the parameters of [`ExpertLinear`].
pub const ROLES: Roles = Roles::new("ExpertLinear", &[("weight", WEIGHT), ("bias", BIAS)]);

/// Affine maps, one for each expert.
#[derive(Module, Debug)]
pub struct ExpertLinear {
    /// `[experts, d_out, d_in]`.
    pub weight: Param<Tensor<3>>,
    /// `[experts·d_out]`; a vector, so that optimizers treat it as biases.
    pub bias: Option<Param<Tensor<1>>>,
}

impl ExpertLinear {
    /// Builds maps from `d_in` to `d_out`.
    fn new(
        n_experts: usize,
        [d_in, d_out]: [usize; 2],
        bias: bool,
        role: MatrixRole,
        init: &Init,
    ) -> Self {
        Self {
            weight: init.matrices(n_experts, [d_in, d_out], role),
            bias: bias.then(|| init.vector(n_experts * d_out, 0.0)),
        }
    }

    /// Maps `[rows, d_in]` to `[rows, d_out]`.
    fn forward(&self, x: Tensor<2>, groups: &Groups) -> Tensor<2> {
        let weight = self.weight.val();
        let [n_experts, d_out, _] = weight.dims();
        let bias = self.bias.as_ref();
        let bias = bias.map(|bias| bias.val().reshape([n_experts, d_out]));
        grouped_linear(x, weight, bias, groups)
    }
}

/// All experts of a layer.
#[derive(Module, Debug)]
pub struct Experts {
    /// W₁ of gated experts.
    pub gate: Option<ExpertLinear>,
    /// W₁, or W₃ of gated experts.
    pub up: ExpertLinear,
    /// W₂.
    pub down: ExpertLinear,
    #[module(skip)]
    inner: InnerOperation,
    dropout: f64,
}

/// The operation between the maps of an expert.
#[derive(Clone, Copy, Debug)]
enum InnerOperation {
    Dense(Activation),
    Gated(GatedProduct),
}

impl Experts {
    /// Builds `n_experts` experts for vectors of `d_model` elements, with dropout after their nonlinearity.
    pub(super) fn new(
        config: &ExpertConfig,
        n_experts: usize,
        d_model: usize,
        dropout: f64,
        init: &Init,
    ) -> Self {
        let (inner, bias) = match config {
            ExpertConfig::Dense(DenseConfig {
                activation, bias, ..
            }) => (InnerOperation::Dense(*activation), *bias),
            ExpertConfig::Gated(c) => (InnerOperation::Gated(c.product()), c.bias),
        };
        let d_ff = config.d_ff(d_model);
        let first = || ExpertLinear::new(n_experts, [d_model, d_ff], bias, MatrixRole::Value, init);
        Self {
            gate: matches!(inner, InnerOperation::Gated(_)).then(first),
            up: first(),
            down: ExpertLinear::new(n_experts, [d_ff, d_model], bias, MatrixRole::Residual, init),
            inner,
            dropout,
        }
    }

    /// Applies each expert to its rows of `x` `[rows, d_model]`; the shape stays the same. `batch` is the number of rows of the
    /// batch, by which dropout is drawn.
    pub(super) fn forward(
        &self,
        x: Tensor<2>,
        groups: &Groups,
        batch: usize,
        pass: &Pass,
    ) -> Tensor<2> {
        let [rows, _] = x.dims();
        let gate = self.gate.as_ref();
        let gate = gate.map(|gate| as_sequence(gate.forward(x.clone(), groups)));
        let up = as_sequence(self.up.forward(x, groups));
        let inner = match (gate, self.inner) {
            (Some(gate), InnerOperation::Gated(product)) => product.apply(gate, up),
            (_, InnerOperation::Dense(activation)) => kernel::activate(up, activation.into()),
            (None, InnerOperation::Gated(_)) => unreachable!("gated experts have a gate"),
        };
        let [_, _, d_ff] = inner.dims();
        let inner = inner.reshape([rows, d_ff]);
        let inner = match pass.key("inner", self.dropout) {
            Some(key) => {
                let factors = dropout_factors(key, groups, [batch, d_ff], &inner.device());
                inner * factors
            }
            None => inner,
        };
        self.down.forward(inner, groups)
    }
}

/// Returns the dropout factors of rows, drawn by the row of the batch, the position and the rank of the choice: a token's draws
/// depend on no other token, wherever its rows are sorted.
fn dropout_factors(
    key: DropKey,
    groups: &Groups,
    [batch, d_ff]: [usize; 2],
    device: &Device,
) -> Tensor<2> {
    let choices = groups.tokens() * groups.choices();
    let ones = Tensor::<3>::ones([batch, choices / batch, d_ff], device);
    let factors = kernel::dropout(ones, key).reshape([choices, d_ff]);
    gather(factors, &groups.choices_as_tokens())
}

/// Views rows as one sequence, as the activation kernels require.
fn as_sequence(x: Tensor<2>) -> Tensor<3> {
    let [rows, width] = x.dims();
    x.reshape([1, rows, width])
}
