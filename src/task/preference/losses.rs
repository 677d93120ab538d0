//! Losses of pairs, as sums over pairs; the formulas are in `super`.

use burn::tensor::{Tensor, activation};

/// Returns the sum of `sigmoid` over β·Δ `[pairs]`, `[1]`.
pub fn sigmoid(scaled: Tensor<1>, label_smoothing: f64) -> Tensor<1> {
    let right = activation::log_sigmoid(scaled.clone());
    let log = match label_smoothing == 0.0 {
        true => right,
        false => {
            let wrong = activation::log_sigmoid(scaled.neg());
            right * (1.0 - label_smoothing) + wrong * label_smoothing
        }
    };
    log.sum().neg()
}

/// Returns the sum of `hinge` over β·Δ `[pairs]`, `[1]`.
pub fn hinge(scaled: Tensor<1>) -> Tensor<1> {
    (scaled.neg() + 1.0).clamp_min(0.0).sum()
}

/// Returns the sum of `ipo` over Δ̄ `[pairs]`, `[1]`.
pub fn ipo(means: Tensor<1>, beta: f64) -> Tensor<1> {
    let away = means - 1.0 / (2.0 * beta);
    (away.clone() * away).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// Returns the loss summed over some differences, and its gradient.
    fn of(loss: impl Fn(Tensor<1>) -> Tensor<1>, differences: &[f32]) -> (f32, Vec<f32>) {
        let device = Device::flex().autodiff();
        let x = Tensor::<1>::from_floats(differences, &device).require_grad();
        let sum = loss(x.clone());
        let gradients = sum.backward();
        let gradient = x.grad(&gradients).unwrap().into_data();
        (sum.into_scalar::<f32>(), gradient.iter::<f32>().collect())
    }

    fn near(found: &[f32], wanted: &[f32]) {
        let same = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6 * b.abs().max(1.0);
        assert!(
            found.len() == wanted.len() && found.iter().zip(wanted).all(same),
            "{found:?}, not {wanted:?}"
        );
    }

    /// Before the first step the policy equals the reference, and every difference is 0.
    #[test]
    fn a_policy_that_equals_its_reference_has_a_gradient() {
        let (loss, gradient) = of(|x| sigmoid(x, 0.0), &[0.0]);
        near(&[loss], &[std::f32::consts::LN_2]);
        near(&gradient, &[-0.5]);
        let (_, gradient) = of(|x| sigmoid(x, 0.1), &[0.0]);
        near(&gradient, &[-0.4]);
    }

    #[test]
    fn losses_are_their_formulas() {
        let (loss, gradient) = of(|x| sigmoid(x, 0.25), &[2.0, -90.0]);
        let soft = 2.0f32.exp().ln_1p() - 2.0;
        near(&[loss], &[0.75 * soft + 0.25 * (soft + 2.0) + 0.75 * 90.0]);
        let share = 1.0 / (1.0 + 2.0f32.exp());
        near(&gradient, &[-0.75 * share + 0.25 * (1.0 - share), -0.75]);
        let (loss, gradient) = of(hinge, &[0.25, 3.0, -1.0]);
        near(&[loss], &[0.75 + 2.0]);
        near(&gradient, &[-1.0, 0.0, -1.0]);
        let (loss, gradient) = of(|x| ipo(x, 0.25), &[1.0, -1.0]);
        near(&[loss], &[1.0 + 9.0]);
        near(&gradient, &[-2.0, -6.0]);
    }
}
