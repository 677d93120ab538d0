//! The experts of a layer: their matrices one after another in one tensor, as the grouped products read them.

use super::super::{Activation, DenseConfig, GatedConfig};
use super::ExpertConfig;
use crate::kernel::{
    self,
    grouped::{Groups, grouped_linear},
};
use crate::nn::init::{Init, Role};
use crate::nn::role::{BIAS, Roles, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// What the parameters of [`ExpertLinear`] are.
pub const ROLES: Roles = Roles::new("ExpertLinear", &[("weight", WEIGHT), ("bias", BIAS)]);

/// Affine maps, one an expert.
#[derive(Module, Debug)]
pub struct ExpertLinear {
    /// `[experts, d_out, d_in]`.
    pub weight: Param<Tensor<3>>,
    /// `[experts, d_out]`.
    pub bias: Option<Param<Tensor<2>>>,
}

impl ExpertLinear {
    /// Maps from `d_in` to `d_out`.
    fn new(
        n_experts: usize,
        [d_in, d_out]: [usize; 2],
        bias: bool,
        role: Role,
        init: &Init,
    ) -> Self {
        Self {
            weight: init.matrices(n_experts, [d_in, d_out], role),
            bias: bias.then(|| init.vectors(n_experts, d_out, 0.0)),
        }
    }

    /// `[rows, d_in]` → `[rows, d_out]`.
    fn forward(&self, x: Tensor<2>, groups: &Groups) -> Tensor<2> {
        let bias = self.bias.as_ref().map(Param::val);
        grouped_linear(x, self.weight.val(), bias, groups)
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
    activation: Activation,
}

impl Experts {
    /// So many experts for vectors of `d_model` elements.
    pub(super) fn new(
        config: &ExpertConfig,
        n_experts: usize,
        d_model: usize,
        init: &Init,
    ) -> Self {
        let (gated, activation, bias) = match config {
            ExpertConfig::Dense(DenseConfig {
                activation, bias, ..
            }) => (false, *activation, *bias),
            ExpertConfig::Gated(GatedConfig {
                activation, bias, ..
            }) => (true, *activation, *bias),
        };
        let d_ff = config.d_ff(d_model);
        let inner = || ExpertLinear::new(n_experts, [d_model, d_ff], bias, Role::Value, init);
        Self {
            gate: gated.then(inner),
            up: inner(),
            down: ExpertLinear::new(n_experts, [d_ff, d_model], bias, Role::Residual, init),
            activation,
        }
    }

    /// Rows `[rows, d_model]` of each expert → the same shape.
    pub(super) fn forward(&self, x: Tensor<2>, groups: &Groups) -> Tensor<2> {
        let activation: kernel::Activation = self.activation.into();
        let [rows, d_model] = x.dims();
        let inner = match &self.gate {
            Some(gate) => {
                let gate = as_batch(gate.forward(x.clone(), groups));
                kernel::gated(gate, as_batch(self.up.forward(x, groups)), activation)
            }
            None => kernel::activate(as_batch(self.up.forward(x, groups)), activation),
        };
        let d_ff = inner.dims()[2];
        let y = self.down.forward(inner.reshape([rows, d_ff]), groups);
        assert_eq!(y.dims(), [rows, d_model]);
        y
    }
}

/// Rows as one sequence, as the kernels of activations take them.
fn as_batch(x: Tensor<2>) -> Tensor<3> {
    let [rows, width] = x.dims();
    x.reshape([1, rows, width])
}
