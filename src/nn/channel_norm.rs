//! Normalisation of the planes of an image, with a learned scale and shift for each plane.
//!
//! Batch norm (Ioffe and Szegedy 2015) normalises by mean and variance over the batch and the image in training, and by running
//! averages of them in evaluation: r ← (1 − m)r + m·s, where s is the batch's statistic (for the variance, the unbiased one). The
//! averages are state: checkpoints hold them, optimizers do not update them. Each micro-batch is normalised by its own
//! statistics, so a step that is split into micro-batches does not equal one whole batch. Group norm (Wu and He 2018) normalises
//! by the mean and variance of a group of planes of one image; it depends on no other image and has no state.

use super::Kind;
use super::init::Init;
use super::pass::Pass;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel;
use crate::nn::role::{NORM, Roles, STATE};
use burn::module::{Module, Param, RunningState};
use burn::tensor::Tensor;
use burn::tensor::module::batch_norm_train;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of a residual network's `norm`.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "batch",
        summary: "mean and variance of each channel over the batch, replaced by running averages in evaluation",
        source: "Ioffe and Szegedy 2015",
        example: "{ kind = \"batch\", eps = 1e-5, momentum = 0.1 }",
    },
    Kind {
        kind: "group",
        summary: "mean and variance of each group of an image's channels",
        source: "Wu and He 2018",
        example: "{ kind = \"group\", groups = 32 }",
    },
];

/// The normalisation of the planes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChannelNormConfig {
    /// Batch norm.
    Batch(BatchNormConfig),
    /// Group norm.
    Group(GroupNormConfig),
}

impl ChannelNormConfig {
    /// Reports faults of the keys; `width` is the network's first number of planes, `None` if that is itself invalid.
    pub fn faults(&self, width: Option<usize>, at: &mut TableFaults) {
        match self {
            Self::Batch(norm) => {
                at.positive("eps", norm.eps);
                if !(norm.momentum > 0.0 && norm.momentum <= 1.0) {
                    let rule = format!(
                        "momentum = {:?} must be above 0 and at most 1",
                        norm.momentum
                    );
                    at.fault(&["momentum"], rule);
                }
            }
            Self::Group(norm) => {
                at.positive("eps", norm.eps);
                let groups = at.count("groups", norm.groups, MAX_WIDTH);
                if let Some(width) = width.filter(|w| groups && !w.is_multiple_of(norm.groups)) {
                    let rule = format!(
                        "width = {width} is not a multiple of {} groups = {}",
                        at.header(),
                        norm.groups
                    );
                    let network = at.table().trim_end_matches(".norm").to_string();
                    at.fault(&[&format!("{network}.width"), "groups"], rule);
                }
            }
        }
    }
}

impl Default for ChannelNormConfig {
    fn default() -> Self {
        Self::Batch(BatchNormConfig::default())
    }
}

/// Settings of batch norm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BatchNormConfig {
    /// Added to the variance.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub eps: f64,
    /// Share of the newest batch in the running averages.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1))]
    pub momentum: f64,
}

impl Default for BatchNormConfig {
    fn default() -> Self {
        Self {
            eps: 1e-5,
            momentum: 0.1,
        }
    }
}

/// Settings of group norm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupNormConfig {
    /// Groups of planes; a divisor of every number of planes.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub groups: usize,
    /// Added to the variance.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub eps: f64,
}

impl Default for GroupNormConfig {
    fn default() -> Self {
        Self {
            groups: 32,
            eps: 1e-5,
        }
    }
}

impl ChannelNormConfig {
    /// Builds a norm for `planes` planes.
    pub fn init(&self, planes: usize, init: &Init) -> ChannelNorm {
        let (gamma, beta) = (init.vector(planes, 1.0), init.vector(planes, 0.0));
        match self {
            Self::Batch(c) => ChannelNorm::Batch(BatchNorm {
                gamma,
                beta,
                running_mean: RunningState::new(Tensor::zeros([planes], init.device())),
                running_var: RunningState::new(Tensor::ones([planes], init.device())),
                eps: c.eps,
                momentum: c.momentum,
            }),
            Self::Group(c) => ChannelNorm::Group(GroupNorm {
                gamma,
                beta,
                groups: c.groups,
                eps: c.eps,
            }),
        }
    }
}

/// A normalisation of planes and its parameters.
#[derive(Module, Debug)]
pub enum ChannelNorm {
    /// Batch norm.
    Batch(BatchNorm),
    /// Group norm.
    Group(GroupNorm),
}

impl ChannelNorm {
    /// Normalises `x` `[batch, planes, height, width]`; the shape stays the same.
    pub fn forward(&self, x: Tensor<4>, pass: &Pass) -> Tensor<4> {
        match self {
            Self::Batch(norm) if pass.is_training() && norm.learns() => norm.forward_training(x),
            Self::Batch(norm) => norm.forward(x),
            Self::Group(norm) => norm.forward(x),
        }
    }
}

/// Roles of the parameters of [`BatchNorm`].
pub const ROLES: Roles = Roles::new(
    "BatchNorm",
    &[
        ("gamma", NORM),
        ("beta", NORM),
        ("running_mean", STATE),
        ("running_var", STATE),
    ],
);

/// Parameters γ and β and the running averages of a batch norm.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// γ `[planes]`, initially 1.
    pub gamma: Param<Tensor<1>>,
    /// β `[planes]`, initially 0.
    pub beta: Param<Tensor<1>>,
    /// Running mean `[planes]`, initially 0; not a parameter.
    pub running_mean: RunningState<Tensor<1>>,
    /// Running variance `[planes]`, initially 1; not a parameter.
    pub running_var: RunningState<Tensor<1>>,
    eps: f64,
    momentum: f64,
}

impl BatchNorm {
    /// Whether the norm is trained; a frozen norm keeps its running averages, too.
    fn learns(&self) -> bool {
        self.gamma.val().is_require_grad()
    }

    /// Normalises by the running averages.
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let scale = self.gamma.val() / (self.running_var.value() + self.eps).sqrt();
        let shift = self.beta.val() - self.running_mean.value() * scale.clone();
        affine(x, scale, shift)
    }

    /// Normalises by the batch's statistics and updates the running averages with them.
    fn forward_training(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, _, height, width] = x.dims();
        let count = (batch * height * width) as f64;
        let result = batch_norm_train(x, self.gamma.val(), self.beta.val(), self.eps);
        let unbiased = result.variance.detach() * (count / (count - 1.0).max(1.0));
        self.follow(&self.running_mean, result.mean.detach());
        self.follow(&self.running_var, unbiased);
        result.output
    }

    /// Moves a running average towards a batch's statistic. Elements that would become non-finite (in a step that will be
    /// skipped) keep their old value.
    fn follow(&self, average: &RunningState<Tensor<1>>, statistic: Tensor<1>) {
        let old = average.value();
        let new = old.clone() * (1.0 - self.momentum) + statistic * self.momentum;
        let wrong = new.clone().is_finite().bool_not();
        average.update(new.mask_where(wrong, old));
        // Burn defers an update until the next one; module visitors must see it now.
        average.value_sync();
    }
}

/// Whether a field of this name is the state of a batch norm, which is saved but not trained.
pub fn is_state(name: &str) -> bool {
    matches!(name, "running_mean" | "running_var")
}

/// Roles of the parameters of [`GroupNorm`].
pub const GROUPNORM_ROLES: Roles = Roles::new("GroupNorm", &[("gamma", NORM), ("beta", NORM)]);

/// Parameters γ and β of a group norm.
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// γ `[planes]`, initially 1.
    pub gamma: Param<Tensor<1>>,
    /// β `[planes]`, initially 0.
    pub beta: Param<Tensor<1>>,
    groups: usize,
    eps: f64,
}

impl GroupNorm {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, planes, height, width] = x.dims();
        let size = planes / self.groups * height * width;
        let x = x.reshape([batch, self.groups, size]);
        let x = kernel::layer_norm(x, None, None, self.eps);
        affine(
            x.reshape([batch, planes, height, width]),
            self.gamma.val(),
            self.beta.val(),
        )
    }
}

/// Computes scale·x + shift, plane by plane.
fn affine(x: Tensor<4>, scale: Tensor<1>, shift: Tensor<1>) -> Tensor<4> {
    let planes = x.dims()[1];
    x * scale.reshape([1, planes, 1, 1]) + shift.reshape([1, planes, 1, 1])
}
