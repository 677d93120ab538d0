//! The Swin Transformer (Liu et al. 2021): attention in windows of an image, over maps that become smaller and wider.
//!
//! Patches of the image become vectors with a norm. Stages of blocks follow, whose attention is limited to the positions of a
//! window; every second block shifts its windows by half of their side. After each stage except the last, four neighbouring
//! positions are merged into one of twice the width. A final norm follows; the image's vector is the mean over the last map.
//!
//! ```text
//! x = norm(patches·E)
//! x = x + attention_in_windows(norm(x));  x = x + feed_forward(norm(x))
//! ```
//!
//! The second version (Liu et al. 2022, Swin V2) uses cosines as scores ([`cosines`]), a network in place of tables of distances
//! ([`bias`]), keys without biases, and norms after layers and merged positions.
//!
//! The cost grows linearly with the number of patches, not quadratically.

pub mod bias;
mod config;
pub mod cosines;
mod facts;
pub mod merging;
pub mod window;

use super::BuildContext;
use super::vision::{Patches, PatchesConfig};
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::norm::Norm;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles};
use burn::module::Module;
use burn::tensor::Tensor;
pub(super) use config::USES;
pub use config::{StageShape, SwinConfig};
use merging::PatchMerging;
use window::{SwinBlock, WindowPass};

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "swin",
    summary: "vision transformer with attention in shifted windows, over feature maps that become smaller and wider",
    source: "Liu et al. 2021, Swin; Liu et al. 2022, Swin V2",
    example: "kind = \"swin\"\nstages = [2, 2, 6, 2]\nd_model = 96\nn_heads = [3, 6, 12, 24]\nwindow = 7",
};

/// Places of the parameters of [`Swin`].
pub const ROLES: Roles = Roles::new(
    "Swin",
    &[
        ("stem", Declaration::Place(Place::Input)),
        ("stem_norm", Declaration::Place(Place::Input)),
        ("stages", Declaration::Stages),
        ("norm", Declaration::Place(Place::Head)),
    ],
);

/// A Swin Transformer without a classifier.
#[derive(Module, Debug)]
pub struct Swin {
    /// The map from pixels to patch vectors.
    pub stem: Patches,
    /// The norm of the patch vectors.
    pub stem_norm: Norm,
    /// The stages in order of computation.
    pub stages: Vec<SwinStage>,
    /// The norm after the last stage.
    pub norm: Norm,
    dropout: f64,
    #[module(skip)]
    shapes: Vec<StageShape>,
}

/// Places of the parameters of a [`SwinStage`].
pub const STAGE_ROLES: Roles = Roles::new(
    "SwinStage",
    &[("blocks", Declaration::Place(Place::Blocks))],
);

/// A stage: blocks of one width.
#[derive(Module, Debug)]
pub struct SwinStage {
    /// The blocks in order of computation.
    pub blocks: Vec<SwinBlock>,
    /// The merging after them, if another stage follows.
    pub merging: Option<PatchMerging>,
}

impl SwinConfig {
    /// Builds the network for images of `[channels, height, width]`; its parameters are drawn at their first
    /// use.
    pub fn init(&self, [channels, height, width]: [usize; 3], inputs: &BuildContext) -> Swin {
        let residuals = 2 * self.blocks();
        let init = &Init::new(inputs.device, inputs.seed, &self.init, residuals, 1.0);
        let shapes = self.shapes(height, width);
        let stage = |(number, shape): (usize, &StageShape)| {
            let init = init.part(&format!("stage {number}"));
            let block = |block: usize| {
                let (trained, init) = (
                    self.pretrained_window(number),
                    init.part(&block.to_string()),
                );
                SwinBlock::new(self, (shape, trained), block, &init)
            };
            SwinStage {
                blocks: (0..shape.blocks).map(block).collect(),
                merging: shape.merges.then(|| {
                    let init = init.part("merging");
                    PatchMerging::new(shape.width, self.norm_placement, &self.norm, &init)
                }),
            }
        };
        let stem = init.part("stem");
        let patches = PatchesConfig {
            size: self.patch_size,
            bias: true,
        };
        Swin {
            stem: patches.build(channels, self.d_model, &stem),
            stem_norm: self.norm.init(self.d_model, &stem),
            stages: shapes.iter().enumerate().map(stage).collect(),
            norm: self.norm.init(self.features(), init),
            dropout: self.dropout,
            shapes,
        }
    }
}

impl Swin {
    /// Computes the positions of the last map, row by row, after the final norm: `[batch, channels, height, width]` →
    /// `[batch, rows·cols, features]`.
    pub fn forward(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        let x = self.stem_norm.forward(self.stem.forward(pixels));
        let mut x = pass.dropout(x, "embedding", self.dropout);
        pass.note_hidden(0, &x);
        for (number, (stage, shape)) in self.stages.iter().zip(&self.shapes).enumerate() {
            x = stage.forward(x, number, shape, pass);
            pass.note_hidden(number + 1, &x);
        }
        let x = self.norm.forward(x);
        pass.note_last(&x);
        x
    }

    /// Averages the last map: `[batch, channels, height, width]` → `[batch, features]`.
    pub fn pooled(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<2> {
        let map = self.forward(pixels, pass);
        let [batch, _, features] = map.dims();
        map.mean_dim(1).reshape([batch, features])
    }
}

impl SwinStage {
    /// Runs the stage over the positions of a map, row by row: `[batch, rows·cols, d]` → the same shape, or the next stage's.
    fn forward(&self, x: Tensor<3>, number: usize, shape: &StageShape, pass: &Pass) -> Tensor<3> {
        let batch = x.dims()[0];
        // Plain and shifted windows alternate.
        let turns = [0, 1].map(|block| WindowPass::of(shape, block, batch));
        let mut x = x;
        for (place, block) in self.blocks.iter().enumerate() {
            let name = format_args!("stages.{number}.blocks.{place}");
            x = pass.in_block(name, || block.forward(x, &turns[place % 2], pass));
        }
        match &self.merging {
            Some(merging) => merging.forward(x, shape.map),
            None => x,
        }
    }
}
