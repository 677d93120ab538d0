//! Muon (Jordan et al. 2024): momentum whose matrix is orthogonalised before it is applied.
//!
//! ```text
//! b ← μb + (1 − μ)g,   u = (1 − μ)g + μb (Nesterov),   θ ← (1 − ηλ)θ − η·s·NS₅(u)
//! ```
//!
//! NS₅ is five rounds of x ← ax + (b·xxᵀ + c·(xxᵀ)²)x from x = u/‖u‖, with a, b, c = 3.4445, −4.7750, 2.0315; s is
//! √max(1, d_out/d_in), or 0.2·√max(d_out, d_in) to match AdamW's step (Liu et al. 2025, "Muon is scalable for LLM
//! training"). Only matrices of the blocks are updated like this; embeddings, tables, the head, gains and biases are
//! updated by AdamW. PyTorch's `torch.optim.Muon` computes NS₅ in bfloat16; here it is computed in single precision.

use super::adam::Adam;
use super::groups::{CommonKeys, Decay, GroupConfig};
use super::state::{self, like};
use crate::kernel;
use crate::kernel::to_f32;
use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of rounds: five are enough, so a larger number is a typing error.
const MOST_ROUNDS: usize = 100;

/// Pattern of the paths of matrices, for all networks.
pub const DEFAULT_MATRICES: &str = r"(^|\.)blocks\.";

/// Orthogonalised momentum for matrices, AdamW for the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MuonConfig {
    /// Learning rate of the matrices, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decay rate μ of the momentum. Source: Jordan et al. 2024.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub momentum: f64,
    /// Whether to use Nesterov momentum.
    pub nesterov: bool,
    /// Number of rounds of the orthogonalisation. Source: Jordan et al. 2024.
    #[schemars(range(min = 1, max = MOST_ROUNDS))]
    pub ns_steps: usize,
    /// How the step depends on a matrix's shape. Source: Jordan et al. 2024; Liu et al. 2025.
    pub adjust_lr: AdjustLr,
    /// Weight decay λ, for matrices and the rest.
    pub weight_decay: f64,
    /// Regular expression on the paths of the matrices; parameters that it matches but that do not have two dimensions,
    /// and tables within blocks, are still updated by AdamW.
    pub matrices: String,
    /// Learning rate of AdamW.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub adamw_lr: f64,
    /// Decay rates of AdamW's first and second moment.
    pub adamw_betas: [f64; 2],
    /// Added to the square root of AdamW's second moment.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub adamw_eps: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for MuonConfig {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            momentum: 0.95,
            nesterov: true,
            ns_steps: 5,
            adjust_lr: AdjustLr::Original,
            weight_decay: 0.1,
            matrices: DEFAULT_MATRICES.into(),
            adamw_lr: 3e-4,
            adamw_betas: [0.9, 0.95],
            adamw_eps: 1e-8,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

/// How the step of a matrix depends on its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdjustLr {
    /// √max(1, d_out/d_in).
    Original,
    /// 0.2·√max(d_out, d_in).
    MatchRmsAdamw,
}

impl AdjustLr {
    fn factor(self, [d_out, d_in]: [usize; 2]) -> f64 {
        let (d_in, d_out) = (d_in as f64, d_out as f64);
        match self {
            Self::Original => (d_out / d_in).max(1.0).sqrt(),
            Self::MatchRmsAdamw => 0.2 * d_out.max(d_in).sqrt(),
        }
    }
}

impl MuonConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys {
            matrices: Some(&self.matrices),
            ..CommonKeys::of(self.weight_decay, self.decay, &self.groups)
        }
    }

    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        faults.extend(super::positive_fault("adamw_lr", self.adamw_lr));
        if !(1..=MOST_ROUNDS).contains(&self.ns_steps) {
            faults.push(format!(
                "ns_steps = {} is not between 1 and {MOST_ROUNDS}",
                self.ns_steps
            ));
        }
    }

    pub(super) fn step(&self, weight_decay: f64) -> Muon {
        Muon {
            momentum: self.momentum,
            nesterov: self.nesterov,
            ns_steps: self.ns_steps,
            adjust_lr: self.adjust_lr,
            weight_decay,
        }
    }

    pub(super) fn adamw(&self, weight_decay: f64) -> Adam {
        Adam {
            betas: self.adamw_betas,
            eps: self.adamw_eps,
            weight_decay,
            decoupled: true,
        }
    }
}

/// One matrix's update.
#[derive(Clone, Debug)]
pub struct Muon {
    momentum: f64,
    nesterov: bool,
    ns_steps: usize,
    adjust_lr: AdjustLr,
    weight_decay: f64,
}

/// The momentum of one matrix.
#[derive(Clone, Debug)]
pub struct MuonState<const D: usize> {
    /// Moving average of gradients.
    pub buffer: Tensor<D>,
}

impl Optimizer for Muon {
    type State<const D: usize> = MuonState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<MuonState<D>>,
    ) -> (Tensor<D>, Option<MuonState<D>>) {
        assert_eq!(D, 2, "Muon updates matrices; groups hand it nothing else");
        let dtype = tensor.dtype();
        let (tensor, grad) = (to_f32(tensor), to_f32(grad));
        let fresh = grad * (1.0 - self.momentum);
        let buffer = match state {
            Some(old) => old.buffer * self.momentum + fresh.clone(),
            None => fresh.clone(),
        };
        let update = if self.nesterov {
            buffer.clone() * self.momentum + fresh
        } else {
            buffer.clone()
        };
        let shape = tensor.dims();
        let step = lr * self.adjust_lr.factor([shape[0], shape[1]]);
        let tensor =
            tensor * (1.0 - lr * self.weight_decay) - orthogonalize(update, self.ns_steps) * step;
        (like(tensor, dtype), Some(MuonState { buffer }))
    }

    fn to_device<const D: usize>(mut state: MuonState<D>, device: &Device) -> MuonState<D> {
        state.buffer = state.buffer.to_device(device);
        state
    }
}

/// Returns approximately the orthogonal matrix nearest to `u`: its singular values become 0.7 … 1.2.
fn orthogonalize<const D: usize>(u: Tensor<D>, rounds: usize) -> Tensor<D> {
    const A: f64 = 3.4445;
    const B: f64 = -4.7750;
    const C: f64 = 2.0315;
    /// Minimum norm to divide by.
    const EPS: f64 = 1e-7;
    let shape = u.dims();
    let tall = shape[0] > shape[1];
    let x = if tall { u.transpose() } else { u };
    let norm = x.clone().square().sum().sqrt().clamp_min(EPS);
    let mut x = x / norm.unsqueeze();
    for _ in 0..rounds {
        let gram = x.clone().matmul(x.clone().transpose());
        let square = gram.clone().matmul(gram.clone());
        x = x.clone() * A + (gram * B + square * C).matmul(x);
    }
    if tall { x.transpose() } else { x }
}

impl<const D: usize> RecordState for MuonState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_tensor(prefix, "buffer", kernel::read(self.buffer.clone()));
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self {
            buffer: state::tensor(prefix, "buffer", src, device)?,
        })
    }
}
