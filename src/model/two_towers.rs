//! Two towers: a network that reads images and one that reads texts, each with a map onto one width, where they are compared
//! by direction (Radford et al. 2021, CLIP, figure 3).
//!
//! ```text
//! u = W_image · image(pixels)      v = W_text · text(ids)      score(u, v) = exp(t) · cos(u, v)
//! ```
//!
//! t is a parameter, `logit_scale`, which begins at −ln(temperature) and stays at ln 100 or below (section 2.5). Not here: what
//! stands for a text among its states, which a task says, and the loss.

mod facts;

use super::{ImageModel, ModelConfig, ModelInputs, TextModel, Use};
use crate::nn::Kind;
use crate::nn::bounds::Bounds;
use crate::nn::init::{Init, Role};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::role::{Place, Roles, Says};
use crate::rng;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "two_towers",
    summary: "a network for images and one for texts, compared by direction: CLIP",
    source: "Radford et al. 2021",
    example: "kind = \"two_towers\"\nd_joint = 128\nimage = { kind = \"vision\", n_layers = 4, d_model = 128 }\ntext = { kind = \"decoder\", n_layers = 4, d_model = 128 }",
};

/// The uses that it serves.
pub(super) const USES: &[Use] = &[Use::ImageText];

/// Draws of the text tower are those of another seed, since its parts have the names of the image tower's.
const TEXT: &str = "text";
/// What the exponential of `logit_scale` stays below. Source: Radford et al. 2021, section 2.5.
const MOST_SCALE: f32 = 100.0;

/// The knobs of two towers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TwoTowersConfig {
    /// The network that reads images: `vision` or `resnet`.
    pub image: Box<ModelConfig>,
    /// The network that reads texts: `decoder`, `encoder`, `recurrent` or `convolutional`.
    pub text: Box<ModelConfig>,
    /// Width of the vectors that are compared.
    #[schemars(range(min = 1, max = crate::faults::WIDEST))]
    #[serde(default = "d_joint")]
    pub d_joint: usize,
    /// What cosines are divided by when training begins; a parameter from then on, which stays at 0.01 or more.
    /// Source: Radford et al. 2021, section 2.5.
    #[schemars(range(min = 0.01))]
    #[serde(default = "temperature")]
    pub temperature: f64,
}

fn d_joint() -> usize {
    512
}

fn temperature() -> f64 {
    0.07
}

impl TwoTowersConfig {
    /// The network; `None` where a tower is of a kind that does not serve, or the inputs have no image.
    pub fn init(&self, inputs: &ModelInputs) -> Option<TwoTowers> {
        let of_texts = ModelInputs {
            seed: rng::part(inputs.seed, TEXT),
            ..*inputs
        };
        let projection = |tower: &ModelConfig, inputs: &ModelInputs| {
            let init = Init::of_heads(inputs.device, inputs.seed, &tower.initial());
            let init = init.of("projection");
            Linear::new(tower.d_output(), self.d_joint, false, Role::Inner, &init)
        };
        let init = Init::of_heads(inputs.device, inputs.seed, &self.image.initial());
        Some(TwoTowers {
            image: ImageModel::new(&self.image, inputs)?,
            text: TextModel::new(&self.text, &of_texts)?,
            image_projection: projection(&self.image, inputs),
            text_projection: projection(&self.text, &of_texts),
            logit_scale: init.vector(1, -self.temperature.ln() as f32),
        })
    }
}

/// What the parameters of [`TwoTowers`] are.
pub const ROLES: Roles = Roles::new(
    "TwoTowers",
    &[
        ("image_projection", Says::Stands(Place::Head)),
        ("text_projection", Says::Stands(Place::Head)),
        ("logit_scale", Says::Stands(Place::Head)),
        ("logit_scale", crate::nn::role::BIAS),
    ],
);

/// The range of `logit_scale`.
pub const BOUNDS: Bounds = Bounds {
    holder: "TwoTowers",
    field: "logit_scale",
    // Whatever cosines are divided by may grow.
    least: f32::MIN,
    most: 4.605_170_2, // ln 100
};

/// A network that reads images and one that reads texts.
#[derive(Module, Debug)]
pub struct TwoTowers {
    /// Reads images.
    pub image: ImageModel,
    /// Reads texts.
    pub text: TextModel,
    /// `[d_joint, features]`.
    pub image_projection: Linear,
    /// `[d_joint, features]`.
    pub text_projection: Linear,
    /// The logarithm of what cosines are multiplied by, `[1]`.
    pub logit_scale: Param<Tensor<1>>,
}

impl TwoTowers {
    /// The networks of a config; `None` when the config is of another kind, or the inputs have no image.
    pub fn new(model: &ModelConfig, inputs: &ModelInputs) -> Option<Self> {
        match model {
            ModelConfig::TwoTowers(c) => c.init(inputs),
            _ => None,
        }
    }

    /// Vectors `[rows, d_joint]` of images `[rows, channels, height, width]`.
    pub fn of_images(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<2> {
        onto(&self.image_projection, self.image.pooled(pixels, pass))
    }

    /// Vectors `[rows, d_joint]` of texts, from what stands for each of them among its states, `[rows, features]`.
    pub fn of_pooled_texts(&self, pooled: Tensor<2>) -> Tensor<2> {
        onto(&self.text_projection, pooled)
    }

    /// What cosines are multiplied by, `[1]`.
    pub fn scale(&self) -> Tensor<1> {
        self.logit_scale.val().exp()
    }
}

/// `[rows, features]` → `[rows, d_joint]`.
fn onto(projection: &Linear, x: Tensor<2>) -> Tensor<2> {
    let [rows, width] = x.dims();
    let projected = projection.forward(x.reshape([1, rows, width]));
    let [_, _, width] = projected.dims();
    projected.reshape([rows, width])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_logarithm_of_a_hundred() {
        assert_eq!(BOUNDS.most, MOST_SCALE.ln());
        assert_eq!(-temperature().ln() as f32, (1.0f64 / 0.07).ln() as f32);
    }
}
