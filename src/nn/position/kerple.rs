//! Kernelised relative positions: scores are lowered by a learned function of distance with two positive parameters for each head
//! of each layer (Chi et al. 2022, KERPLE, section 4).
//!
//! The logarithmic form is −p·ln(1 + a·|i − j|), the power form −a·|i − j|^p with p up to 2. Both are conditionally positive
//! definite kernels, so that scores keep the meaning of a product, and both are defined for distances unseen in training. The
//! linear biases of ALiBi are the power form with p = 1 and a fixed a. Initial values and bounds are those of the authors'
//! program.

use super::facts::{ActsOn, HeadEffect, PositionFacts};
use super::{AttentionView, Kind, PositionScheme, PositionShape, ScoreBias, Span, per_layer};
use crate::kernel::replay;
use crate::nn::bounds::Bounds;
use crate::nn::init::Init;
use crate::nn::role::{BIAS, Roles};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "kerple",
    summary: "scores lowered by a learned function of distance, two numbers for each head and layer",
    source: "Chi et al. 2022",
    example: "{ kind = \"kerple\", form = \"log\" }",
};

/// Settings of kernelised positions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KerpleConfig {
    /// The function of distance.
    pub form: KerpleForm,
}

/// A function of distance, with a head's parameters p and a.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KerpleForm {
    /// −p·ln(1 + a·distance). Source: Chi et al. 2022, equation 6.
    #[default]
    Log,
    /// −a·distance^p, p at most 2. Source: Chi et al. 2022, equation 5.
    Power,
}

impl PositionFacts for KerpleConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::LayerBias)
    }

    fn image_counterpart(&self) -> Option<Kind> {
        Some(super::relative_bias_2d::KIND)
    }
}

/// Minimum of both parameters.
const MIN_PARAMETER: f32 = 0.01;

/// The ranges of both parameters in each form.
pub const BOUNDS: [Bounds; 4] = [
    bounds("LogKernel", "p", f32::MAX),
    bounds("LogKernel", "a", f32::MAX),
    bounds("PowerKernel", "p", 2.0),
    bounds("PowerKernel", "a", f32::MAX),
];

const fn bounds(holder: &'static str, field: &'static str, most: f32) -> Bounds {
    Bounds {
        holder,
        field,
        min: MIN_PARAMETER,
        max: most,
    }
}

/// Roles of the parameters of a layer's logarithmic kernels.
pub const LOG_ROLES: Roles = Roles::new("LogKernel", &[("p", BIAS), ("a", BIAS)]);

/// Roles of the parameters of a layer's power kernels.
pub const POWER_ROLES: Roles = Roles::new("PowerKernel", &[("p", BIAS), ("a", BIAS)]);

/// −p·ln(1 + a·distance), with p and a `[heads]`.
#[derive(Module, Debug)]
pub struct LogKernel {
    p: Param<Tensor<1>>,
    a: Param<Tensor<1>>,
}

impl LogKernel {
    fn new(heads: usize, init: &Init) -> Self {
        let [p, a] = initial_parameters(heads, init);
        Self { p, a }
    }

    /// Returns the biases `[heads, distances]` for these distances.
    fn bias(&self, distances: &[f32], device: &Device) -> Tensor<2> {
        let lengthened = row(distances, device) * column(&self.a) + 1.0;
        -(lengthened.log() * column(&self.p))
    }
}

/// −a·distance^p, with p and a `[heads]`.
#[derive(Module, Debug)]
pub struct PowerKernel {
    p: Param<Tensor<1>>,
    a: Param<Tensor<1>>,
}

impl PowerKernel {
    fn new(heads: usize, init: &Init) -> Self {
        let [p, a] = initial_parameters(heads, init);
        Self { p, a }
    }

    /// Like [`LogKernel::bias`]. The power is computed as exp(p·ln distance); for a distance of 0 it is 0.
    fn bias(&self, distances: &[f32], device: &Device) -> Tensor<2> {
        let logarithms: Vec<f32> = distances.iter().map(|d| d.max(1.0).ln()).collect();
        let apart: Vec<f32> = distances.iter().map(|d| d.min(1.0)).collect();
        let power = (row(&logarithms, device) * column(&self.p)).exp() * row(&apart, device);
        -(power * column(&self.a))
    }
}

/// Draws p and a of each head uniformly up to 2 and 1.
fn initial_parameters(heads: usize, init: &Init) -> [Param<Tensor<1>>; 2] {
    [2.0, 1.0].map(|most| init.uniform([heads], move |u| (most * u).max(MIN_PARAMETER)))
}

/// Returns one number per head as a column.
fn column(numbers: &Param<Tensor<1>>) -> Tensor<2> {
    numbers.val().unsqueeze_dim(1)
}

fn row(numbers: &[f32], device: &Device) -> Tensor<2> {
    replay::floats(
        TensorData::new(numbers.to_vec(), [1, numbers.len()]),
        device,
    )
}

/// The kernels of one layer's heads.
#[derive(Module, Debug)]
pub enum Kernels {
    /// The logarithmic form.
    Log(LogKernel),
    /// The power form.
    Power(PowerKernel),
}

/// Lowers scores by learned functions of distance.
#[derive(Module, Debug)]
pub struct Kerple {
    /// The kernels of each layer; `None` for a layer without attention.
    layers: Vec<Option<Kernels>>,
}

impl Kerple {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &KerpleConfig, shape: &PositionShape, init: &Init) -> Self {
        let heads = shape.n_heads;
        let layers = per_layer(shape, || match config.form {
            KerpleForm::Log => Kernels::Log(LogKernel::new(heads, init)),
            KerpleForm::Power => Kernels::Power(PowerKernel::new(heads, init)),
        });
        Self { layers }
    }
}

/// Returns the distance between query and key for each diagonal of a span.
fn diagonal_distances(span: Span) -> Vec<f32> {
    let diagonals = 0..span.distances();
    let of = |diagonal| span.distance(diagonal).unsigned_abs() as f32;
    diagonals.map(of).collect()
}

impl PositionScheme for Kerple {
    fn score_bias(&self, attending: &AttentionView) -> Option<ScoreBias> {
        let kernels = self.layers.get(attending.layer)?.as_ref()?;
        let distances = diagonal_distances(attending.span);
        Some(ScoreBias::ByDistance(match kernels {
            Kernels::Log(kernel) => kernel.bias(&distances, attending.device),
            Kernels::Power(kernel) => kernel.bias(&distances, attending.device),
        }))
    }
}
