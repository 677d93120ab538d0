//! Scores of attention in windows as cosines (Liu et al. 2022, Swin V2, section 3.2):
//!
//! ```text
//! score = τ·q·k / (|q|·|k|) + bias      τ = exp(min(s, ln 100)), s of each head
//! ```
//!
//! so that no score grows with the norm of its query or key.

use crate::kernel;
use crate::nn::attention::AttentionInputs;
use crate::nn::init::Init;
use crate::nn::role::{BIAS, Roles};
use burn::module::{Module, Param};
use burn::tensor::{FloatDType, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The score of a query and a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scores {
    /// Scaled dot products (Liu et al. 2021).
    #[default]
    Products,
    /// Cosines times a learned factor of each head (Liu et al. 2022).
    Cosines,
}

/// Initial τ. Source: Liu et al. 2022, released code.
const INITIAL_SCALE: f64 = 10.0;
/// Maximum τ. Source: Liu et al. 2022, section 3.2 (τ above 0.01, by which cosines are divided there).
const MAX_SCALE: f64 = 100.0;

/// Places of the parameters of [`Cosines`].
pub const ROLES: Roles = Roles::new("Cosines", &[("logit_scale", BIAS)]);

/// The learned factor τ on cosines.
#[derive(Module, Debug)]
pub struct Cosines {
    /// s, the logarithm of τ, `[heads]`.
    pub logit_scale: Param<Tensor<1>>,
}

impl Cosines {
    /// Builds the factors of this many heads.
    pub(super) fn new(heads: usize, init: &Init) -> Self {
        Self {
            logit_scale: init.vector(heads, INITIAL_SCALE.ln() as f32),
        }
    }

    /// Rescales queries and keys so that their products are τ times their cosines.
    pub(super) fn rescale(&self, attended: AttentionInputs) -> AttentionInputs {
        let heads = attended.q.dims()[1];
        let scale = self.logit_scale.val().clamp_max(MAX_SCALE.ln()).exp();
        let scale = scale.reshape([1, heads, 1, 1]);
        let mut options = attended.options;
        options.scale = 1.0;
        let dtype = attended.q.dtype();
        let wide = |x: Tensor<4>| kernel::l2_normalise(x.cast(FloatDType::F32));
        AttentionInputs {
            q: (wide(attended.q) * scale.cast(FloatDType::F32)).cast(dtype),
            k: wide(attended.k).cast(dtype),
            options,
            ..attended
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    /// The key of a padded position is 0 if keys have no bias: neither it nor its gradient may be NaN.
    #[test]
    fn vectors_without_length_stay() {
        let device = Device::flex().autodiff();
        let data = TensorData::new(vec![0.0f32, 0.0, 3.0, 4.0], [1, 1, 2, 2]);
        let x = Tensor::<4>::from_data(data, &device).require_grad();
        let y = kernel::l2_normalise(x.clone());
        let values: Vec<f32> = y.clone().into_data().iter().collect();
        assert_eq!(values, [0.0, 0.0, 0.6, 0.8]);
        let gradients = y.sum().backward();
        let found = x.grad(&gradients).map(Tensor::into_data);
        let found: Vec<f32> = found
            .into_iter()
            .flat_map(|g| g.iter().collect::<Vec<f32>>())
            .collect();
        assert!(
            found.len() == 4 && found.iter().all(|g| g.is_finite()),
            "{found:?}"
        );
    }
}
