//! Optimizer steps along gradients and momenta, without a running mean of squares. None of them is differentiated.

use burn::tensor::Tensor;

use super::elementwise::{ElementwiseStep, Updated};

/// Coefficients of a step along the gradient: `g ← g + penalty·θ, θ ← θ − lr·g`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DescentArgs {
    /// Learning rate.
    pub lr: f64,
    /// Factor of the parameter that is added to its gradient: an L2 penalty.
    pub penalty: f64,
}

/// Coefficients of a step along a momentum b of gradients:
///
/// ```text
/// g ← g + penalty·θ,   b ← decay·b + fresh·g,   θ ← θ − lr·b   (Nesterov: θ ← θ − lr·(g + ahead·b))
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MomentumArgs {
    /// Learning rate and L2 penalty.
    pub descent: DescentArgs,
    /// The factors `[decay, fresh]` of b and g in the new momentum.
    pub decay: [f64; 2],
    /// Factor `ahead` of the momentum in a Nesterov step; `None` for a plain step.
    pub nesterov: Option<f64>,
}

/// Coefficients of a step by the sign of a mean of gradients (Lion):
///
/// ```text
/// θ ← keep·θ − lr·sign(β₁m + (1 − β₁)g),   m ← β₂m + (1 − β₂)g
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LionArgs {
    /// Learning rate.
    pub lr: f64,
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// Factor of the parameter: 1 − ηλ for a weight decay λ.
    pub keep: f64,
}

impl DescentArgs {
    fn penalised<const D: usize>(self, param: &Tensor<D>, grad: Tensor<D>) -> Tensor<D> {
        match self.penalty == 0.0 {
            true => grad,
            false => param.clone() * self.penalty + grad,
        }
    }
}

impl ElementwiseStep<0> for DescentArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        values: [Tensor<D>; 0],
    ) -> Updated<D, 0> {
        let grad = self.penalised(&param, grad);
        (param - grad * self.lr, values)
    }
}

impl ElementwiseStep<1> for MomentumArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        [momentum]: [Tensor<D>; 1],
    ) -> Updated<D, 1> {
        let grad = self.descent.penalised(&param, grad);
        let [decay, fresh] = self.decay;
        let momentum = grad.clone() * fresh + momentum * decay;
        let along = match self.nesterov {
            Some(ahead) => momentum.clone() * ahead + grad,
            None => momentum.clone(),
        };
        (param - along * self.descent.lr, [momentum])
    }
}

impl ElementwiseStep<1> for LionArgs {
    fn apply<const D: usize>(
        self,
        param: Tensor<D>,
        grad: Tensor<D>,
        [mean]: [Tensor<D>; 1],
    ) -> Updated<D, 1> {
        let [along, decay] = self.betas;
        let sign = (mean.clone() * along + grad.clone() * (1.0 - along)).sign();
        let mean = mean * decay + grad * (1.0 - decay);
        let param = match self.keep == 1.0 {
            true => param,
            false => param * self.keep,
        };
        (param - sign * self.lr, [mean])
    }
}
