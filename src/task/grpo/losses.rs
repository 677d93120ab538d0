//! The surrogate loss of sampled tokens, as a sum over tokens; the formulas are in `super`.

use burn::tensor::{DType, Tensor, TensorData};

/// Clipping range of probability ratios: how far a ratio may fall below 1, and rise above 1.
pub type Clip = [f64; 2];

/// Values of each token that are known before the pass.
#[derive(Clone, Copy, Debug)]
pub struct TokenValues<'a> {
    /// Advantage of the token's completion.
    pub advantages: &'a [f32],
    /// Weight of the token in the sum.
    pub weights: &'a [f32],
}

/// The sums of a batch.
#[derive(Clone, Debug)]
pub struct SurrogateSums {
    /// The loss, `[1]`.
    pub loss: Tensor<1>,
    /// Estimated divergence from the reference, summed over all tokens with a weight above 0, `[1]`.
    pub divergence: Option<Tensor<1>>,
    /// Number of tokens with a weight above 0 whose ratio is clipped, `[1]`.
    pub clipped: Option<Tensor<1>>,
}

/// Computes the surrogate loss from log-probabilities `[n]` of all tokens under the policy, `ours`, under the policy
/// that sampled them, `old`, and under the reference, with the weight of the divergence from it. Ratios are clipped if
/// `clip` is given.
pub fn surrogate(
    ours: &Tensor<1>,
    old: Tensor<1>,
    reference: Option<(Tensor<1>, f64)>,
    known: TokenValues,
    clip: Option<Clip>,
) -> SurrogateSums {
    let beside = |values: Vec<f32>| vector(values, ours);
    let advantages = known.advantages;
    let left_out = known.weights.contains(&0.0);
    let left_out = left_out.then(|| beside(known.weights.to_vec()).lower_equal_elem(0.0));
    let mut ratios = (ours.clone() - old).exp();
    let mut clipped = None;
    if let Some([low, high]) = clip {
        let bounds = |of: &dyn Fn(f32) -> f32| beside(advantages.iter().map(|a| of(*a)).collect());
        let [low, high] = [(1.0 - low) as f32, (1.0 + high) as f32];
        // A ratio is clipped if it has moved in the direction of its advantage.
        let ends = bounds(&|a| if a > 0.0 { high } else { low });
        let above = bounds(&|a| if a > 0.0 { high } else { f32::MAX });
        let below = bounds(&|a| if a < 0.0 { low } else { -1.0 });
        let beyond = ratios.clone().greater(above);
        let beyond = beyond.bool_or(ratios.clone().lower(below));
        let counted = match &left_out {
            Some(left_out) => beyond.clone().bool_and(left_out.clone().bool_not()),
            None => beyond.clone(),
        };
        clipped = Some(counted.int().sum().cast(burn::tensor::FloatDType::F32));
        ratios = ratios.mask_where(beyond, ends);
    }
    let mut losses = (ratios * beside(advantages.to_vec())).neg();
    let mut divergence = None;
    if let Some((reference, beta)) = reference {
        let further = reference - ours.clone();
        let each = further.clone().exp() - further - 1.0;
        let counted = match left_out {
            Some(left_out) => each.clone().mask_fill(left_out, 0.0),
            None => each.clone(),
        };
        divergence = Some(counted.sum());
        losses = losses + each * beta;
    }
    SurrogateSums {
        loss: (losses * beside(known.weights.to_vec())).sum(),
        divergence,
        clipped,
    }
}

/// Converts numbers of tokens to a tensor `[n]` with the device and data type of `beside`.
pub fn vector(values: Vec<f32>, beside: &Tensor<1>) -> Tensor<1> {
    let count = values.len();
    let format: DType = beside.dtype();
    Tensor::from_data(TensorData::new(values, [count]), (&beside.device(), format))
}

/// Added to the deviation that advantages are divided by, as in TRL.
const DEVIATION_EPS: f64 = 1e-4;

/// Returns the advantages of a group: rewards minus their mean, divided by their standard deviation if `scaled`. Also
/// returns the deviation, with n − 1 in its divisor.
pub fn advantages(rewards: &[f32], scaled: bool) -> (Vec<f32>, f64) {
    let count = rewards.len() as f64;
    let mean = rewards.iter().map(|r| f64::from(*r)).sum::<f64>() / count;
    let squares = rewards.iter().map(|r| (f64::from(*r) - mean).powi(2));
    let deviation = (squares.sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
    let divisor = match scaled {
        true => deviation + DEVIATION_EPS,
        false => 1.0,
    };
    let of = |reward: &f32| ((f64::from(*reward) - mean) / divisor) as f32;
    (rewards.iter().map(of).collect(), deviation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn near(found: &[f32], wanted: &[f32]) {
        let same = |(a, b): (&f32, &f32)| (a - b).abs() < 2e-6 * b.abs().max(1.0);
        assert!(
            found.len() == wanted.len() && found.iter().zip(wanted).all(same),
            "{found:?}, not {wanted:?}"
        );
    }

    #[test]
    fn advantages_are_distances_from_the_mean_in_deviations_of_a_sample() {
        let (plain, deviation) = advantages(&[1.0, 0.0, 0.0, 1.0], false);
        near(&plain, &[0.5, -0.5, -0.5, 0.5]);
        assert!((deviation - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let (scaled, _) = advantages(&[1.0, 0.0, 0.0, 1.0], true);
        near(&scaled[..1], &[(0.5 / (deviation + 1e-4)) as f32]);
        // A group whose rewards are all equal teaches nothing.
        let (none, deviation) = advantages(&[0.25; 3], true);
        assert_eq!((none, deviation), (vec![0.0; 3], 0.0));
    }

    /// Ratios 1.5, 0.5, 1.5 and 0.5 with advantages 1, 1, −1 and −1: the first and the last are clipped.
    #[test]
    fn a_ratio_is_cut_off_where_it_has_gone_the_way_of_its_advantage() {
        let device = Device::flex().autodiff();
        let ratios = [1.5f32, 0.5, 1.5, 0.5];
        let ours: Vec<f32> = ratios.iter().map(|r| r.ln()).collect();
        let ours = Tensor::<1>::from_floats(ours.as_slice(), &device).require_grad();
        let old = Tensor::<1>::zeros([4], &device);
        let known = TokenValues {
            advantages: &[1.0, 1.0, -1.0, -1.0],
            weights: &[1.0, 2.0, 1.0, 1.0],
        };
        let sums = surrogate(&ours, old, None, known, Some([0.2, 0.28]));
        let gradients = sums.loss.clone().backward();
        let gradient = ours.grad(&gradients).unwrap().into_data();
        let gradient: Vec<f32> = gradient.iter().collect();
        near(&gradient, &[0.0, -1.0, 1.5, 0.0]);
        near(
            &[sums.loss.into_scalar::<f32>()],
            &[-1.28 - 1.0 + 1.5 + 0.8],
        );
        near(&[sums.clipped.unwrap().into_scalar::<f32>()], &[2.0]);
        // Tokens that are excluded from the loss are not counted.
        let reference = Tensor::<1>::from_floats([0.0, 0.0, 0.0, 0.0], &device);
        let known = TokenValues {
            weights: &[0.0, 2.0, 0.0, 1.0],
            ..known
        };
        let old = Tensor::<1>::zeros([4], &device);
        let sums = surrogate(&ours, old, Some((reference, 0.5)), known, Some([0.2, 0.28]));
        near(&[sums.clipped.unwrap().into_scalar::<f32>()], &[1.0]);
        let k3 = 2.0 - 2.0f32.ln() - 1.0;
        near(
            &[sums.divergence.unwrap().into_scalar::<f32>()],
            &[2.0 * k3],
        );
    }

    #[test]
    fn the_divergence_is_k3() {
        let device = Device::flex().autodiff();
        let ours = Tensor::<1>::from_floats([-1.0, -2.0], &device).require_grad();
        let reference = Tensor::<1>::from_floats([-1.5, -2.0], &device);
        let known = TokenValues {
            advantages: &[0.0, 0.0],
            weights: &[1.0, 1.0],
        };
        let old = ours.clone().detach();
        let sums = surrogate(&ours, old, Some((reference, 0.5)), known, None);
        let k3 = (-0.5f32).exp() + 0.5 - 1.0;
        near(&[sums.divergence.unwrap().into_scalar::<f32>()], &[k3]);
        near(&[sums.loss.clone().into_scalar::<f32>()], &[0.5 * k3]);
        let gradients = sums.loss.backward();
        let gradient = ours.grad(&gradients).unwrap().into_data();
        let gradient: Vec<f32> = gradient.iter().collect();
        near(&gradient, &[0.5 * (1.0 - (-0.5f32).exp()), 0.0]);
    }
}
