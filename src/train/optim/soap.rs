//! SOAP (Vyas et al. 2024, "SOAP: Improving and Stabilizing Shampoo using Adam", algorithm 3): Adam in the eigenbasis
//! of Shampoo's preconditioners. For a matrix with gradient g and preconditioners L and R, and the bases Q_L and Q_R of
//! their eigenvectors:
//!
//! ```text
//! m ← β₁m + (1 − β₁)g,   g′ = Q_Lᵀ g Q_R,   v ← β₂v + (1 − β₂)g′²,   m′ = Q_Lᵀ m Q_R
//! θ ← θ − η·√(1 − β₂ᵗ)/(1 − β₁ᵗ) · Q_L (m′/(√v + ε)) Q_Rᵀ,   θ ← (1 − ηλ)θ
//! L ← β₂L + (1 − β₂)ggᵀ,   R ← β₂R + (1 − β₂)gᵀg
//! ```
//!
//! The first gradient only initialises L, R and their eigenvectors, and t counts from the second. Every f-th step the
//! bases are updated by one round of power iteration ([`super::eigenbasis`]), and v is reordered with their vectors. A
//! tensor of more dimensions has a basis for each. A dimension longer than `max_precond_dim` has none, and neither has
//! a vector, whose step is Adam's.

use super::eigenbasis;
use super::groups::{CommonKeys, Decay, GroupConfig};
use super::state::{self, like};
use crate::kernel::{self, to_f32};
use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum length of a dimension with a basis.
const MAX_DIM: usize = 1 << 16;

/// Adam in the eigenbasis of Shampoo's preconditioners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SoapConfig {
    /// Learning rate, which the schedule scales.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub lr: f64,
    /// Decay rates of the mean of gradients, and of the second moment and the preconditioners. Source: Vyas et al.
    /// 2024, section 5.
    pub betas: [f64; 2],
    /// Added to the square root of the second moment. Source: Vyas et al. 2024, algorithm 3.
    #[schemars(range(min = 1e-37, max = 1e37))]
    pub eps: f64,
    /// Steps f from one round of power iteration to the next. Source: Vyas et al. 2024, section 5.
    #[schemars(range(min = 1))]
    pub precondition_frequency: u64,
    /// Longest dimension that has a basis. The paper uses 10,000; here bases are computed on the host, in a time that
    /// grows with the third power of the dimension.
    #[schemars(range(min = 1, max = MAX_DIM))]
    pub max_precond_dim: usize,
    /// Weight decay λ. Source: Vyas et al. 2024, algorithm 3.
    pub weight_decay: f64,
    /// Which parameters have weight decay.
    pub decay: Decay,
    /// Parameters with another learning rate or weight decay.
    pub groups: Vec<GroupConfig>,
}

impl Default for SoapConfig {
    fn default() -> Self {
        Self {
            lr: 3e-3,
            betas: [0.95, 0.95],
            eps: 1e-8,
            precondition_frequency: 10,
            max_precond_dim: 1024,
            weight_decay: 0.01,
            decay: Decay::Matrices,
            groups: Vec::new(),
        }
    }
}

impl SoapConfig {
    pub(super) fn common(&self) -> CommonKeys<'_> {
        CommonKeys::of(self.weight_decay, self.decay, &self.groups)
    }

    pub(super) fn faults(&self, faults: &mut Vec<String>) {
        if self.precondition_frequency == 0 {
            faults.push("precondition_frequency = 0 must be 1 or more".into());
        }
        if !(1..=MAX_DIM).contains(&self.max_precond_dim) {
            faults.push(format!(
                "max_precond_dim = {} is not between 1 and {MAX_DIM}",
                self.max_precond_dim
            ));
        }
    }

    pub(super) fn step(&self, weight_decay: f64) -> Soap {
        Soap {
            betas: self.betas,
            eps: self.eps,
            precondition_frequency: self.precondition_frequency,
            max_precond_dim: self.max_precond_dim,
            weight_decay,
        }
    }

    /// Returns the number of values in a parameter's preconditioners and their bases.
    pub(super) fn preconditioner_values(&self, shape: &[usize]) -> usize {
        count_preconditioners(shape, self.max_precond_dim)
    }
}

/// Returns the number of values in a parameter's preconditioners up to this dimension, and in their bases.
pub fn count_preconditioners(shape: &[usize], max_precond_dim: usize) -> usize {
    let squares = shape
        .iter()
        .map(|n| match has_basis(shape, *n, max_precond_dim) {
            true => n.saturating_mul(*n).saturating_mul(2),
            false => 0,
        });
    squares.fold(0, usize::saturating_add)
}

/// Whether a dimension of this length has a basis.
fn has_basis(shape: &[usize], length: usize, max_precond_dim: usize) -> bool {
    shape.len() > 1 && length <= max_precond_dim
}

/// One parameter's update.
#[derive(Clone, Debug)]
pub struct Soap {
    betas: [f64; 2],
    eps: f64,
    precondition_frequency: u64,
    max_precond_dim: usize,
    weight_decay: f64,
}

/// The preconditioner of one dimension.
#[derive(Clone, Debug)]
pub struct Preconditioner {
    /// L or R above, `[n, n]` for a dimension of length n.
    pub gram: Tensor<2>,
    /// Its eigenvectors, one per column.
    pub basis: Tensor<2>,
}

/// State kept for one parameter.
#[derive(Clone, Debug)]
pub struct SoapState<const D: usize> {
    /// Number of gradients seen.
    pub time: usize,
    /// Moving average of gradients.
    pub first: Tensor<D>,
    /// Moving average of squared gradients, in the eigenbasis.
    pub second: Tensor<D>,
    /// Preconditioners by dimension.
    pub sides: [Option<Preconditioner>; D],
}

impl Soap {
    /// Initialises the state from the first gradient.
    fn init_state<const D: usize>(&self, grad: Tensor<D>) -> SoapState<D> {
        let shape = grad.dims();
        let sides = std::array::from_fn(|at| {
            has_basis(&shape, shape[at], self.max_precond_dim).then(|| {
                let gram = gram_matrix(grad.clone(), at) * (1.0 - self.betas[1]);
                let basis = eigenbasis::eigenvectors(gram.clone());
                Preconditioner { gram, basis }
            })
        });
        SoapState {
            time: 1,
            first: grad.zeros_like(),
            second: grad.zeros_like(),
            sides,
        }
    }

    /// Updates the preconditioners with a gradient and, if `due`, the bases and the order of v's values.
    fn update_preconditioners<const D: usize>(
        &self,
        mut state: SoapState<D>,
        grad: &Tensor<D>,
        due: bool,
    ) -> SoapState<D> {
        for (at, side) in state.sides.iter_mut().enumerate() {
            let Some(side) = side else { continue };
            let product = gram_matrix(grad.clone(), at);
            side.gram = kernel::mean_step(side.gram.clone(), product, self.betas[1]);
            if due {
                let (basis, order) = eigenbasis::power_iteration(&side.gram, &side.basis);
                side.basis = basis;
                state.second = state.second.select(at, order);
            }
        }
        state
    }
}

impl Optimizer for Soap {
    type State<const D: usize> = SoapState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<SoapState<D>>,
    ) -> (Tensor<D>, Option<SoapState<D>>) {
        let (dtype, grad) = (tensor.dtype(), to_f32(grad));
        let Some(mut state) = state.filter(|state| state.time > 0) else {
            return (tensor, Some(self.init_state(grad)));
        };
        let [beta_1, beta_2] = self.betas;
        let corrected = |beta: f64| 1.0 - beta.powf(state.time as f64);
        let step = lr * corrected(beta_2).sqrt() / corrected(beta_1);
        let along = rotate(grad.clone(), &state.sides, Direction::Into);
        state.first = kernel::mean_step(state.first, grad.clone(), beta_1);
        state.second = kernel::mean_step(state.second, along.square(), beta_2);
        let first = rotate(state.first.clone(), &state.sides, Direction::Into);
        let update = first / (state.second.clone().sqrt() + self.eps);
        let update = rotate(update, &state.sides, Direction::Back);
        let tensor = (to_f32(tensor) - update * step) * (1.0 - lr * self.weight_decay);
        let due = (state.time as u64).is_multiple_of(self.precondition_frequency.max(1));
        let mut state = self.update_preconditioners(state, &grad, due);
        state.time += 1;
        (like(tensor, dtype), Some(state))
    }

    fn to_device<const D: usize>(mut state: SoapState<D>, device: &Device) -> SoapState<D> {
        state.first = state.first.to_device(device);
        state.second = state.second.to_device(device);
        state.sides = state.sides.map(|side| {
            side.map(|side| Preconditioner {
                gram: side.gram.to_device(device),
                basis: side.basis.to_device(device),
            })
        });
        state
    }
}

/// Direction between the coordinates of a parameter and those of its bases.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Into,
    Back,
}

/// Rotates a tensor into or out of the bases.
fn rotate<const D: usize>(
    x: Tensor<D>,
    sides: &[Option<Preconditioner>; D],
    way: Direction,
) -> Tensor<D> {
    let bases = sides.iter().enumerate();
    let bases = bases.filter_map(|(at, side)| Some((at, &side.as_ref()?.basis)));
    bases.fold(x, |x, (at, basis)| {
        let basis = match way {
            Direction::Into => basis.clone(),
            Direction::Back => basis.clone().transpose(),
        };
        let (rows, shape) = rows(x, at);
        rows.matmul(basis).reshape(shape).swap_dims(at, D - 1)
    })
}

/// Returns the Gram matrix of a tensor along a dimension of length n, `[n, n]`.
fn gram_matrix<const D: usize>(x: Tensor<D>, at: usize) -> Tensor<2> {
    let (rows, _) = rows(x, at);
    rows.clone().transpose().matmul(rows)
}

/// Moves a dimension to the end and flattens the others into rows; also returns the shape before flattening.
fn rows<const D: usize>(x: Tensor<D>, at: usize) -> (Tensor<2>, [usize; D]) {
    let x = x.swap_dims(at, D - 1);
    let shape = x.dims();
    let length = shape[D - 1];
    let count = shape[..D - 1].iter().product::<usize>();
    (x.reshape([count, length]), shape)
}

/// Returns the names of a preconditioner and its basis in checkpoints.
fn names(at: usize) -> [String; 2] {
    [format!("gram{at}"), format!("basis{at}")]
}

/// Returns the dimension that a state's tensor is a preconditioner or basis of, if it is one.
pub fn side_of(leaf: &str) -> Option<usize> {
    let at = leaf.strip_prefix("gram").or(leaf.strip_prefix("basis"))?;
    at.parse().ok()
}

impl<const D: usize> RecordState for SoapState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_scalar(prefix, "time", self.time.into());
        out.push_tensor(prefix, "first", kernel::read(self.first.clone()));
        out.push_tensor(prefix, "second", kernel::read(self.second.clone()));
        for (at, side) in self.sides.iter().enumerate() {
            let Some(side) = side else { continue };
            let [gram, basis] = names(at);
            out.push_tensor(prefix, &gram, kernel::read(side.gram.clone()));
            out.push_tensor(prefix, &basis, kernel::read(side.basis.clone()));
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let time = state::counter(prefix, "time", src)?;
        let first = state::tensor(prefix, "first", src, device)?;
        let second = state::tensor(prefix, "second", src, device)?;
        let mut sides: [Option<Preconditioner>; D] = [const { None }; D];
        for (at, side) in sides.iter_mut().enumerate() {
            let found = names(at).map(|name| state::tensor(prefix, &name, src, device));
            *side = match found {
                [Some(gram), Some(basis)] => Some(Preconditioner { gram, basis }),
                [None, None] => None,
                [Some(_), None] | [None, Some(_)] => return None,
            };
        }
        Some(Self {
            time,
            first,
            second,
            sides,
        })
    }
}
