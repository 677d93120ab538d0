//! Masked autoencoders: most patches of an image are masked, and their pixels are predicted from the visible patches
//! (He et al. 2022, MAE, section 3).
//!
//! The network reads only the visible patches. A narrow decoder, which the task adds and which is dropped when the
//! network is used, predicts pixels from the network's hidden states. With y the pixels of a masked patch and ŷ their
//! prediction, the loss is the mean of (ŷ − y)² over the pixels of all masked patches. With `norm_pixels` y is
//! (y − mean) / √(variance + 10⁻⁶) over its own patch, with the unbiased variance. The masked patches are drawn again in
//! each step for each image, and are the same for an image in all evaluations.

mod network;

pub use network::MaskedImage;

use super::AnyTask;
use super::facts::TaskFacts;
use super::metric_keys::MetricKeys;
use crate::data::{DataSet, ExampleForm, Shape};
use crate::error::Result;
use crate::evaluate::metric::Metric;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::model::pixel_decoder::{self, PixelDecoderShape};
use crate::model::vision::PatchMasking;
use crate::model::{BuildContext, Demand, ModelConfig, Use};
use crate::nn::Kind;
use crate::nn::role::{Declaration, Roles, StackSide};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "masked_image",
    summary: "pixels of masked image patches, with a vision transformer and a separate decoder",
    source: "He et al. 2022, MAE",
    example: "{ kind = \"masked_image\", mask_ratio = 0.75, decoder_layers = 2, decoder_d_model = 128, decoder_n_heads = 4, \
              decoder_d_ff = 512, norm_pixels = true }",
};

/// The mask ratio and the predicted pixels define the loss.
pub const METRIC_KEYS: MetricKeys = MetricKeys::for_kind(KIND.kind).with_loss_keys(&[
    "mask_ratio",
    "norm_pixels",
    "data.size",
    "data.fit",
    "data.channels",
    "data.mean",
    "data.std",
]);

/// Maximum number of decoder blocks.
const MOST_LAYERS: usize = 1000;

/// Settings of masked autoencoders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MaskedImageConfig {
    /// Share of the patches that is masked. Source: He et al. 2022, section 3 and figure 5.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub mask_ratio: f64,
    /// Number of decoder blocks. Source: He et al. 2022, section 4.1 and table 1a.
    #[schemars(range(min = 1, max = MOST_LAYERS))]
    pub decoder_layers: usize,
    /// Hidden width of the decoder, a multiple of 4. Source: He et al. 2022, section 4.1 and table 1b.
    #[schemars(range(min = 4, max = crate::faults::MAX_WIDTH))]
    pub decoder_d_model: usize,
    /// Number of attention heads in the decoder, a divisor of its width. Source: He et al. 2022, released code.
    #[schemars(range(min = 1, max = 4096))]
    pub decoder_n_heads: usize,
    /// Inner width of the decoder's feed-forward layers. Source: He et al. 2022, released code.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub decoder_d_ff: usize,
    /// Whether the predicted pixels are normalised by the mean and deviation of their patch.
    /// Source: He et al. 2022, section 3, "Reconstruction target".
    pub norm_pixels: bool,
}

impl Default for MaskedImageConfig {
    fn default() -> Self {
        Self {
            mask_ratio: 0.75,
            decoder_layers: 8,
            decoder_d_model: 512,
            decoder_n_heads: 16,
            decoder_d_ff: 2048,
            norm_pixels: false,
        }
    }
}

impl MaskedImageConfig {
    /// Returns the shape of the decoder.
    pub fn decoder(&self) -> PixelDecoderShape {
        PixelDecoderShape {
            n_layers: self.decoder_layers,
            d_model: self.decoder_d_model,
            n_heads: self.decoder_n_heads,
            d_ff: self.decoder_d_ff,
        }
    }

    /// Returns the patches that are masked.
    pub fn hidden(&self) -> PatchMasking {
        PatchMasking {
            mask_ratio: self.mask_ratio,
            normalised: self.norm_pixels,
        }
    }
}

impl TaskFacts for MaskedImageConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Images
    }

    fn demand(&self) -> Demand {
        Demand {
            masked_patches: Some(self.hidden()),
            ..Demand::plain(Use::MaskedPatches)
        }
    }

    fn companion_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        Some(self.decoder().config(model.patch_network()?).into())
    }

    fn positions_read(&self, model: &ModelConfig, shape: &Shape) -> Option<usize> {
        let [_, height, width] = shape.image?;
        let (grid, tokens) = model.patches(height, width)?;
        Some(tokens + self.hidden().visible(grid.rows * grid.cols))
    }

    /// The network reads the visible patches, and the decoder all patches.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let network = model.products(&self.demand(), shape);
        let decoder = model
            .patch_network()
            .zip(shape.image)
            .map(|(encoder, image)| {
                let decoder = self.decoder();
                decoder.products(encoder, image, self.hidden())
            });
        network + decoder.unwrap_or(0.0)
    }

    fn faults(&self, at: &mut TableFaults) {
        let (ratio, wide, heads) = (self.mask_ratio, self.decoder_d_model, self.decoder_n_heads);
        if !(ratio > 0.0 && ratio < 1.0) {
            let rule = format!("mask_ratio = {ratio:?} must be above 0 and below 1");
            at.fault(&["mask_ratio"], rule);
        }
        at.count("decoder_layers", self.decoder_layers, MOST_LAYERS);
        at.count("decoder_d_ff", self.decoder_d_ff, MAX_WIDTH);
        let sound = at.count("decoder_n_heads", heads, 4096);
        if !at.count("decoder_d_model", wide, MAX_WIDTH) || !sound {
            return;
        }
        if !wide.is_multiple_of(4) {
            let near = wide.div_ceil(4) * 4;
            let rule = format!(
                "decoder_d_model = {wide} must be a multiple of 4, for sines and cosines of rows and columns; {near} is one"
            );
            at.fault(&["decoder_d_model"], rule);
        }
        if !wide.is_multiple_of(heads) {
            let below = (1..heads).rev().find(|n| wide.is_multiple_of(*n));
            let rule = format!(
                "decoder_n_heads = {heads} does not divide decoder_d_model = {wide}; {} does",
                below.unwrap_or(1)
            );
            at.fault(&["decoder_n_heads", "decoder_d_model"], rule);
        }
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        Vec::new()
    }

    fn reads_classes(&self) -> bool {
        false
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!("formwork encode {run} FILE.png --out VECTORS.npy"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let Some(model) = model.patch_network() else {
            return Ok(None);
        };
        let task = MaskedImage::new(model, self, inputs)?;
        Ok(Some(AnyTask::MaskedImage(task)))
    }
}

/// Roles of the parameters of [`MaskedImage`].
pub const ROLES: Roles = Roles::new(
    "MaskedImage",
    &[(
        pixel_decoder::NAME,
        Declaration::Side(StackSide::PixelDecoder),
    )],
);
