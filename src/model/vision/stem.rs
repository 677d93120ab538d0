//! The stem of a vision transformer, which turns an image into a sequence of vectors.

use crate::faults::{MAX_WIDTH, TableFaults};
use crate::model::resnet::{Resnet, ResnetConfig};
use crate::nn::Kind;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of `[model] stem` of a vision transformer.
pub const STEMS: &[Kind] = &[
    Kind {
        kind: "patches",
        summary: "square patches of pixels, each projected by one matrix",
        source: "Dosovitskiy et al. 2021, section 3.1",
        example: "{ kind = \"patches\", size = 16 }",
    },
    Kind {
        kind: "resnet",
        summary: "positions of a residual network's feature map (hybrid)",
        source: "Dosovitskiy et al. 2021, section 3.1",
        example: "{ kind = \"resnet\", stages = [2, 2], width = 64 }",
    },
];

/// The stem that turns an image into a sequence of vectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StemConfig {
    /// Square patches of pixels.
    Patches(PatchesConfig),
    /// The positions of a residual network's feature map (hybrid).
    Resnet(ResnetConfig),
}

impl Default for StemConfig {
    fn default() -> Self {
        Self::Patches(PatchesConfig::default())
    }
}

/// The settings of patches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatchesConfig {
    /// Side of a patch in pixels, a divisor of the image's height and width.
    /// Source: Dosovitskiy et al. 2021, section 3.1.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub size: usize,
    /// Whether the projection of patches has a bias (CLIP has none).
    pub bias: bool,
}

impl Default for PatchesConfig {
    fn default() -> Self {
        Self {
            size: 4,
            bias: true,
        }
    }
}

impl PatchesConfig {
    /// Builds the projection of patches of images with this many channels onto width `d_model`.
    pub(in crate::model) fn build(&self, channels: usize, d_model: usize, init: &Init) -> Patches {
        let pixels = channels * self.size * self.size;
        Patches {
            projection: Linear::new(pixels, d_model, self.bias, MatrixRole::Input, init),
            size: self.size,
        }
    }
}

impl StemConfig {
    /// Checks its keys. Returns whether images can be cut with them.
    pub(super) fn faults(&self, at: &mut TableFaults) -> bool {
        match self {
            Self::Patches(c) => at.count("size", c.size, MAX_WIDTH),
            Self::Resnet(c) => {
                c.key_faults(at);
                true
            }
        }
    }

    /// Returns rows and columns of the sequence of an image of this height and width.
    pub fn grid(&self, height: usize, width: usize) -> [usize; 2] {
        match self {
            Self::Patches(c) => [height, width].map(|side| side / c.size.max(1)),
            Self::Resnet(c) => c.map_size(height, width),
        }
    }

    /// Returns the reason why images of this height and width cannot be read, if there is one.
    pub fn image_size_fault(&self, height: usize, width: usize) -> Option<String> {
        match self {
            Self::Patches(c) => patch_size_fault("size", c.size, [height, width]),
            Self::Resnet(_) => None,
        }
    }

    /// Multiplications of projecting one patch, or one position of a hybrid's feature map.
    pub(super) fn products(&self, channels: usize, d_model: usize) -> f64 {
        let inputs = match self {
            Self::Patches(c) => channels as f64 * (c.size as f64).powi(2),
            Self::Resnet(c) => c.features() as f64,
        };
        inputs * d_model as f64
    }

    /// Side of the patches in pixels; `None` for a hybrid.
    pub fn patch_size(&self) -> Option<usize> {
        match self {
            Self::Patches(c) => Some(c.size),
            Self::Resnet(_) => None,
        }
    }

    /// Returns the residual network of a hybrid.
    pub fn network(&self) -> Option<&ResnetConfig> {
        match self {
            Self::Patches(_) => None,
            Self::Resnet(c) => Some(c),
        }
    }

    pub(super) fn build(&self, channels: usize, d_model: usize, init: &Init) -> Stem {
        match self {
            Self::Patches(c) => Stem::Patches(c.build(channels, d_model, init)),
            Self::Resnet(c) => Stem::Resnet(Hybrid {
                network: c.build(channels, init),
                projection: Linear::new(c.features(), d_model, true, MatrixRole::Input, init),
            }),
        }
    }
}

/// A stem with its parameters.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a model has one of them, and it holds its tensors elsewhere"
)]
pub enum Stem {
    /// Square patches of pixels.
    Patches(Patches),
    /// The positions of a residual network's feature map.
    Resnet(Hybrid),
}

/// Square patches of pixels, each projected by one matrix.
#[derive(Module, Debug)]
pub struct Patches {
    /// The projection, `[channels·size·size, d_model]`.
    pub projection: Linear,
    size: usize,
}

/// The positions of a feature map, each projected by one matrix.
#[derive(Module, Debug)]
pub struct Hybrid {
    /// The network that computes the feature map.
    pub network: Resnet,
    /// The projection, `[features, d_model]`.
    pub projection: Linear,
}

impl Patches {
    /// Projects patches: `[batch, channels, height, width]` → `[batch, patches, d_model]`, row by row.
    pub fn forward(&self, pixels: Tensor<4>) -> Tensor<3> {
        self.projection.forward(patches(pixels, self.size))
    }
}

impl Stem {
    /// Computes the sequence of vectors: `[batch, channels, height, width]` → `[batch, patches, d_model]`, row by row.
    pub fn forward(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        match self {
            Self::Patches(stem) => stem.forward(pixels),
            Self::Resnet(stem) => {
                let map = pass.in_network("stem", || stem.network.feature_map(pixels, pass));
                stem.projection.forward(patches(map, 1))
            }
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

/// Returns the reason why patches of `size` pixels a side (the value of `key`) do not divide images of this height and width, if
/// so.
pub(in crate::model) fn patch_size_fault(
    key: &str,
    size: usize,
    [height, width]: [usize; 2],
) -> Option<String> {
    let divides = |size: usize| height.is_multiple_of(size) && width.is_multiple_of(size);
    let most = height.min(width);
    if (1..=most).contains(&size) && divides(size) {
        return None;
    }
    let common = if most == 0 { 0 } else { gcd(height, width) };
    // Divisors come in pairs, one of which is at most the square root. The cap guards against absurd sizes.
    let divisors = (1..=common.isqrt().min(1 << 16)).filter(|s| common.is_multiple_of(*s));
    let divisors: Vec<usize> = divisors.flat_map(|s| [s, common / s]).collect();
    let below = divisors.iter().filter(|s| **s <= size).max();
    let above = divisors.iter().filter(|s| **s > size).min();
    let fitting: Vec<String> = [below, above]
        .into_iter()
        .flatten()
        .map(usize::to_string)
        .collect();
    Some(format!(
        "{key} = {size} does not divide images of {height} by {width} pixels into patches; use {}, or other images",
        fitting.join(" or ")
    ))
}

/// Cuts images into squares of `size` pixels a side: `[batch, channels, height, width]` →
/// `[batch, squares, channels·size·size]`, row by row, each ordered by channel, row and column.
fn patches(x: Tensor<4>, size: usize) -> Tensor<3> {
    let [batch, channels, height, width] = x.dims();
    let (rows, cols) = (height / size, width / size);
    x.reshape([batch, channels, rows, size, cols, size])
        .permute([0, 2, 4, 1, 3, 5])
        .reshape([batch, rows * cols, channels * size * size])
}
