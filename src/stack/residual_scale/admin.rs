//! Admin: LN(ω∘x + f(x)), a learned scale of each skip for each channel, which starts so large that a layer's output is small
//! beside the sum of all earlier ones (Liu et al. 2020, Understanding the Difficulty of Training Transformers, section 4.3).
//!
//! ```text
//! ω₁ = 1        ωᵢ = √(Var[x₀] + Σ_{j<i} Var[f_j(x_{j−1})])
//! ```
//!
//! The variances are taken over all elements in one pass of the untrained network, with ω = 1 and without dropout, over the first
//! examples of the first step: ωᵢ is the standard deviation that a stream without norms would have there. The embeddings x₀ are
//! the sum's first term, as in the released code, which measures with dropout, and measures later connections with the ω of
//! earlier ones already in use. An encoder and a decoder have separate sums. A new run measures before its first step; a run that
//! resumes, or starts from another run's weights, measures nothing.

use crate::error::{Error, Result};
use crate::faults::TableFaults;
use crate::nn::Kind;
use crate::nn::branches::ResidualMoments;
use crate::nn::init::Init;
use crate::nn::pass::Pass;
use crate::nn::role::{NORM, Roles};
use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Its entry in the list of kinds.
pub const KIND: Kind = Kind {
    kind: "admin",
    summary: "a learned scale for each skip, initially as large as the results before it (norm_placement \"post\")",
    source: "Liu et al. 2020, Admin",
    example: "{ kind = \"admin\" }",
};

/// Maximum number of examples to measure on.
const MAX_EXAMPLES: usize = 1 << 12;

/// Settings of Admin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Examples of the first step that variances are measured on; all of them if the step has fewer.
    #[schemars(range(min = 1, max = MAX_EXAMPLES))]
    pub examples: usize,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { examples: 32 }
    }
}

impl AdminConfig {
    /// Checks its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.count("examples", self.examples, MAX_EXAMPLES);
    }
}

/// Places of the parameters of [`SkipScale`].
pub const ROLES: Roles = Roles::new("SkipScale", &[("omega", NORM)]);

/// The learned scale ω of one skip.
#[derive(Module, Debug)]
pub struct SkipScale {
    /// The scale ω, `[d_model]`; 1 until it is measured.
    pub omega: Param<Tensor<1>>,
}

impl SkipScale {
    /// Builds a scale for vectors of `d_model` elements.
    pub(super) fn new(d_model: usize, init: &Init) -> Self {
        Self {
            omega: init.vector(d_model, 1.0),
        }
    }

    /// Returns the scaled stream ω∘`x`, `[batch, seq, d_model]`, to which the layer's `result` is then added.
    pub(in crate::stack) fn forward(
        &self,
        x: Tensor<3>,
        result: &Tensor<3>,
        pass: &Pass,
    ) -> Tensor<3> {
        pass.note_branch(self.omega.id, &x, result);
        let omega = self.omega.val().cast(x.dtype());
        let length = omega.dims()[0];
        x * omega.reshape([1, 1, length])
    }
}

/// Computes the initial scale of each skip, by the id of its parameter.
///
/// # Errors
/// If a scale is 0 or not a normal number.
fn initial_scales(branches: &ResidualMoments) -> Result<HashMap<ParamId, f32>> {
    let mut scales = HashMap::new();
    for stack in branches.stacks() {
        let mut sum = None;
        for branch in stack {
            let omega = sum.map_or(1.0, f64::sqrt);
            if !((omega as f32).is_normal() && omega > 0.0) {
                return Err(Error::run(format!(
                    "residual_scale = \"admin\": the results of the untrained layers set the scale of a skip to {omega:?}; change \
                     the initial weights ([model] init) or the training set"
                )));
            }
            scales.insert(branch.skip, omega as f32);
            let before = sum.unwrap_or_else(|| branch.stream.variance());
            sum = Some(before + branch.result.variance());
        }
    }
    Ok(scales)
}

/// Returns the model with each skip's scale set from the variances measured in the untrained network.
///
/// # Errors
/// If a scale is 0 or not a normal number.
pub fn with_measured_scales<M: Module>(model: M, branches: &ResidualMoments) -> Result<M> {
    let mut scales = ScaleMapper(initial_scales(branches)?);
    Ok(model.map(&mut scales))
}

struct ScaleMapper(HashMap<ParamId, f32>);

impl ModuleMapper for ScaleMapper {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(omega) = self.0.get(&param.id).copied() else {
            return param;
        };
        let (id, old, mapper) = param.consume();
        let learns = old.is_require_grad();
        let value = match old.device().is_autodiff() {
            true => {
                let ones = old.inner().ones_like();
                Tensor::from_inner(ones * omega).set_require_grad(learns)
            }
            false => old.ones_like() * omega,
        };
        Param::from_mapped_value(id, value, mapper)
    }
}
