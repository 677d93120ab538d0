//! Two towers: an image network and a text network, each projected onto one shared width, in which they are compared
//! by cosine similarity (Radford et al. 2021, CLIP, figure 3).
//!
//! ```text
//! u = W_image · image(pixels)      v = W_text · text(ids)      score(u, v) = exp(t) · cos(u, v)
//! ```
//!
//! t is a parameter, `logit_scale`, which starts at −ln(temperature) and is kept at most ln 100 (section 2.5). Scores for a loss
//! that classifies each pair separately also have a bias ([`sigmoid`]). The task chooses how a text's hidden states are pooled,
//! and the loss.

mod facts;
pub mod sigmoid;

use super::{BuildContext, ImageModel, ModelConfig, TextModel, Use};
use crate::nn::Kind;
use crate::nn::bounds::Bounds;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles};
use crate::one_table::{is_true, is_usual};
use crate::rng;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sigmoid::SigmoidScale;

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "two_towers",
    summary: "one network for images and one for texts, compared by cosine similarity: CLIP, SigLIP",
    source: "Radford et al. 2021; Zhai et al. 2023",
    example: "kind = \"two_towers\"\nd_joint = 128\nimage = { kind = \"vision\", n_layers = 4, d_model = 128 }\ntext = { kind = \"decoder\", n_layers = 4, d_model = 128 }",
};

/// The uses that two towers serve.
pub(super) const USES: &[Use] = &[Use::ImageText];

/// Name of the text tower's seed. The tower draws from a separate seed because its parts have the same names as the image tower's.
const TEXT: &str = "text";
/// Upper bound of exp(`logit_scale`). Source: Radford et al. 2021, section 2.5.
const MAX_SCALE: f32 = 100.0;

/// The settings of two towers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TwoTowersConfig {
    /// The image network: `vision`, `resnet` or `swin`.
    pub image: Box<ModelConfig>,
    /// The text network: `decoder`, `encoder`, `recurrent` or `convolutional`.
    pub text: Box<ModelConfig>,
    /// Width of the embeddings that are compared.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(default = "d_joint")]
    pub d_joint: usize,
    /// Whether a matrix projects the image's vector onto `d_joint`. Without it the vector is compared unchanged, and its width
    /// must be `d_joint` (SigLIP).
    #[serde(default = "projected", skip_serializing_if = "is_true")]
    pub image_projection: bool,
    /// Whether the projections have a bias (SigLIP).
    #[serde(default, skip_serializing_if = "is_usual")]
    pub projection_bias: bool,
    /// Divisor of cosines at the start of training; a learned parameter from then on, which stays at 0.01 or more with
    /// `loss = "softmax"`. SigLIP starts at 0.1.
    /// Source: Radford et al. 2021, section 2.5; Zhai et al. 2023, section 3.2.
    #[schemars(range(min = 0.01))]
    #[serde(default = "temperature")]
    pub temperature: f64,
    /// For `loss = "sigmoid"`: the bias of all scores at the start of training; a learned parameter from then on. Default −10.
    /// Source: Zhai et al. 2023, section 3.2.
    #[schemars(range(min = -100.0, max = 100.0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logit_bias: Option<f64>,
}

fn d_joint() -> usize {
    512
}

fn projected() -> bool {
    true
}

fn temperature() -> f64 {
    0.07
}

impl TwoTowersConfig {
    /// Builds the towers; `None` if a tower's kind does not serve, or the inputs have no image.
    pub fn init(&self, inputs: &BuildContext) -> Option<TwoTowers> {
        let of_texts = BuildContext {
            seed: rng::part_coordinate(inputs.seed, TEXT),
            ..*inputs
        };
        let projection = |tower: &ModelConfig, inputs: &BuildContext| {
            let init = Init::of_heads(inputs.device, inputs.seed, tower.init_settings());
            let init = init.part("projection");
            let bias = self.projection_bias;
            Linear::new(
                tower.d_pooled(),
                self.d_joint,
                bias,
                MatrixRole::Inner,
                &init,
            )
        };
        let init = Init::of_heads(inputs.device, inputs.seed, self.image.init_settings());
        let temperature = self.temperature;
        Some(TwoTowers {
            image: ImageModel::new(&self.image, inputs)?,
            text: TextModel::new(&self.text, &of_texts)?,
            image_projection: self
                .image_projection
                .then(|| projection(&self.image, inputs)),
            text_projection: projection(&self.text, &of_texts),
            logit_scale: self
                .logit_bias
                .is_none()
                .then(|| init.vector(1, -temperature.ln() as f32)),
            sigmoid: self
                .logit_bias
                .map(|bias| SigmoidScale::new(temperature, bias, &init)),
        })
    }
}

/// Places of the parameters of [`TwoTowers`].
pub const ROLES: Roles = Roles::new(
    "TwoTowers",
    &[
        ("image_projection", Declaration::Place(Place::Head)),
        ("text_projection", Declaration::Place(Place::Head)),
        ("logit_scale", Declaration::Place(Place::Head)),
        ("logit_scale", crate::nn::role::BIAS),
        ("sigmoid", Declaration::Place(Place::Head)),
    ],
);

/// The bounds of `logit_scale`.
pub const BOUNDS: Bounds = Bounds {
    holder: "TwoTowers",
    field: "logit_scale",
    // The divisor of cosines may grow without bound.
    min: f32::MIN,
    max: 4.605_170_2, // ln 100
};

/// An image network and a text network.
#[derive(Module, Debug)]
pub struct TwoTowers {
    /// The image network.
    pub image: ImageModel,
    /// The text network.
    pub text: TextModel,
    /// Projection of the image's pooled vector, `[d_joint, features]`.
    pub image_projection: Option<Linear>,
    /// Projection of the text's pooled vector, `[d_joint, features]`.
    pub text_projection: Linear,
    /// Logarithm of the factor on cosines, `[1]`, if scores have no bias.
    pub logit_scale: Option<Param<Tensor<1>>>,
    /// Factor and bias of scores, if they have a bias.
    pub sigmoid: Option<SigmoidScale>,
}

impl TwoTowers {
    /// Builds the towers of a config; `None` if the config is of another kind, or the inputs have no image.
    pub fn new(model: &ModelConfig, inputs: &BuildContext) -> Option<Self> {
        match model {
            ModelConfig::TwoTowers(c) => c.init(inputs),
            _ => None,
        }
    }

    /// Computes embeddings `[rows, d_joint]` of images `[rows, channels, height, width]`.
    pub fn embed_images(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<2> {
        let pooled = self.image.pooled(pixels, pass);
        match &self.image_projection {
            Some(projection) => project(projection, pooled),
            None => pooled,
        }
    }

    /// Computes embeddings `[rows, d_joint]` of texts from their pooled vectors, `[rows, features]`.
    pub fn embed_pooled_texts(&self, pooled: Tensor<2>) -> Tensor<2> {
        project(&self.text_projection, pooled)
    }

    /// Computes scores `[images, texts]` from cosines.
    pub fn scores(&self, cosines: Tensor<2>) -> Tensor<2> {
        let dtype = cosines.dtype();
        let number = |x: Tensor<1>| -> Tensor<2> { x.cast(dtype).reshape([1, 1]) };
        match (&self.sigmoid, &self.logit_scale) {
            (Some(c), _) => {
                let scale = number(c.logit_scale.val().exp());
                cosines * scale + number(c.logit_bias.val())
            }
            (None, Some(scale)) => cosines * number(scale.val().exp()),
            (None, None) => unreachable!("a config makes one of both"),
        }
    }
}

/// Projects pooled vectors: `[rows, features]` → `[rows, d_joint]`.
fn project(projection: &Linear, x: Tensor<2>) -> Tensor<2> {
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
        assert_eq!(BOUNDS.max, MAX_SCALE.ln());
        assert_eq!(-temperature().ln() as f32, (1.0f64 / 0.07).ln() as f32);
    }
}
