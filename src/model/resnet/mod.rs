//! The residual network (He et al. 2016): the convolutional baseline, and the stem of hybrid ViTs.
//!
//! A stem, stages of blocks y = relu(x + f(x)), and the mean over the image. Each stage except the first halves the image's sides
//! and doubles the channels (with `downsample_first_stage` the first halves them, too). If f changes the shape, the shortcut has a
//! 1×1 convolution with a norm. In bottleneck blocks the stride is on the 3×3 convolution, as in
//! torchvision, or on the first 1×1 convolution (`stride_in_1x1`), as in the paper. The small stem is for
//! small images, the large one for ImageNet; ResNet-18 (basic blocks) and ResNet-50 (bottleneck blocks) are
//! the best-known networks.
//!
//! With `preactivation` it is the second version (He et al. 2016, Identity Mappings; BiT): y = x + f(x), with a norm and relu
//! before each convolution of f. The shortcut's convolution reads the same input as f's first convolution. Neither it nor the stem
//! has a norm; a norm with relu follows the last stage.

mod config;
mod facts;

use super::BuildContext;
use crate::kernel::{self, Activation};
use crate::nn::Kind;
use crate::nn::channel_norm::ChannelNorm;
use crate::nn::convolution::{Convolution, ConvolutionShape, Padding};
use crate::nn::init::{Init, InitConfig};
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles};
use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::module::max_pool2d;
use burn::tensor::ops::{MaxPoolOptions, PadMode};
pub(super) use config::USES;
pub use config::{BlockShape, Blocks, ConvolutionCost, ResnetConfig, StemSize};

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "resnet",
    summary: "residual convolutional network, the baseline for images",
    source: "He et al. 2016",
    example: "kind = \"resnet\"\nblocks = \"basic\"\nstages = [2, 2, 2, 2]\nwidth = 64",
};

impl ResnetConfig {
    /// Builds the network for images of `[channels, height, width]`; its parameters are drawn at their first
    /// use.
    pub fn init(&self, [channels, ..]: [usize; 3], inputs: &BuildContext) -> Resnet {
        let (device, seed) = (inputs.device, inputs.seed);
        self.build(
            channels,
            &Init::new(device, seed, InitConfig::default(), 1, 1.0),
        )
    }

    pub(super) fn build(&self, channels: usize, init: &Init) -> Resnet {
        let stage = |blocks: Vec<BlockShape>| Stage {
            blocks: blocks.iter().map(|b| self.block(b, init)).collect(),
        };
        Resnet {
            stem: self.conv_norm(&self.stem_shape(channels), self.outer_norm(), init),
            stages: self.block_shapes().into_iter().map(stage).collect(),
            norm: (self.preactivation).then(|| self.norm.init(self.features(), init)),
            pooled_stem: self.stem == StemSize::Large,
            padding: self.padding,
        }
    }

    /// Builds a block with this network's norm.
    pub fn block(&self, shape: &BlockShape, init: &Init) -> ResidualBlock {
        let placed = match self.preactivation {
            true => NormPosition::Before,
            false => NormPosition::After,
        };
        let layer = |shape: &ConvolutionShape| self.conv_norm(shape, placed, init);
        let shortcut = |shape: &ConvolutionShape| self.conv_norm(shape, self.outer_norm(), init);
        ResidualBlock {
            layers: shape.layers().iter().map(layer).collect(),
            shortcut: shape.shortcut().as_ref().map(shortcut),
            preactivation: self.preactivation,
        }
    }

    /// Norm of a convolution outside f: after it, or none with `preactivation`.
    fn outer_norm(&self) -> NormPosition {
        match self.preactivation {
            true => NormPosition::Nowhere,
            false => NormPosition::After,
        }
    }

    fn conv_norm(&self, shape: &ConvolutionShape, norm: NormPosition, init: &Init) -> ConvNorm {
        ConvNorm {
            convolution: Convolution::new(shape, self.padding, self.standardized, init),
            norm: match norm {
                NormPosition::After => Some(self.norm.init(shape.outputs, init)),
                NormPosition::Before => Some(self.norm.init(shape.inputs, init)),
                NormPosition::Nowhere => None,
            },
        }
    }
}

/// The place of a convolution's norm.
#[derive(Clone, Copy)]
enum NormPosition {
    Before,
    After,
    Nowhere,
}

/// Places of the parameters of [`Resnet`].
pub const ROLES: Roles = Roles::new(
    "Resnet",
    &[
        ("stem", Declaration::Place(Place::Input)),
        ("stages", Declaration::Place(Place::Blocks)),
        ("norm", Declaration::Place(Place::Head)),
    ],
);

/// A residual network without a classifier.
#[derive(Module, Debug)]
pub struct Resnet {
    /// The stem, before the first stage.
    pub stem: ConvNorm,
    /// The stages in order of computation.
    pub stages: Vec<Stage>,
    /// The norm after the last stage, with `preactivation`.
    pub norm: Option<ChannelNorm>,
    pooled_stem: bool,
    #[module(skip)]
    padding: Padding,
}

/// A stage: blocks with the same number of channels.
#[derive(Module, Debug)]
pub struct Stage {
    /// The blocks in order of computation.
    pub blocks: Vec<ResidualBlock>,
}

/// A residual block: relu(x + f(x)), or x + f(x) with `preactivation`.
#[derive(Module, Debug)]
pub struct ResidualBlock {
    /// f: convolutions with their norms, relu between them.
    pub layers: Vec<ConvNorm>,
    /// The convolution that replaces x on the shortcut, if f changes the shape.
    pub shortcut: Option<ConvNorm>,
    preactivation: bool,
}

/// A convolution and its norm.
#[derive(Module, Debug)]
pub struct ConvNorm {
    /// The convolution.
    pub convolution: Convolution,
    /// The norm of the convolution's output, or of its input with `preactivation`.
    pub norm: Option<ChannelNorm>,
}

impl ConvNorm {
    /// Applies the convolution, then its norm if it has one.
    fn forward(&self, x: Tensor<4>, pass: &Pass) -> Tensor<4> {
        apply_norm(&self.norm, self.convolution.forward(x), pass)
    }
}

impl ResidualBlock {
    /// Runs the block: `[batch, inputs, height, width]` → `[batch, outputs, ⌈height/stride⌉, ⌈width/stride⌉]`.
    pub fn forward(&self, x: Tensor<4>, pass: &Pass) -> Tensor<4> {
        if self.preactivation {
            return self.forward_preactivation(x, pass);
        }
        let stream = match &self.shortcut {
            Some(shortcut) => shortcut.forward(x.clone(), pass),
            None => x.clone(),
        };
        let mut x = x;
        for (i, layer) in self.layers.iter().enumerate() {
            x = layer.forward(if i == 0 { x } else { relu(x) }, pass);
        }
        relu(sum(stream, x))
    }

    /// Forward pass with `preactivation`: norm and relu before each convolution; the shortcut reads the first norm's output.
    fn forward_preactivation(&self, x: Tensor<4>, pass: &Pass) -> Tensor<4> {
        let mut stream = x.clone();
        let mut x = x;
        for (i, layer) in self.layers.iter().enumerate() {
            x = relu(apply_norm(&layer.norm, x, pass));
            if let (0, Some(shortcut)) = (i, &self.shortcut) {
                stream = shortcut.forward(x.clone(), pass);
            }
            x = layer.convolution.forward(x);
        }
        sum(stream, x)
    }
}

fn apply_norm(norm: &Option<ChannelNorm>, x: Tensor<4>, pass: &Pass) -> Tensor<4> {
    match norm {
        Some(norm) => norm.forward(x, pass),
        None => x,
    }
}

fn sum(a: Tensor<4>, b: Tensor<4>) -> Tensor<4> {
    let dims = b.dims();
    kernel::add(flat(a), flat(b)).reshape(dims)
}

impl Resnet {
    /// Computes the first stage's input from images `[batch, channels, height, width]`.
    pub fn stem(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<4> {
        let x = self.stem.forward(pixels, pass);
        let x = if self.norm.is_some() { x } else { relu(x) };
        if !self.pooled_stem {
            return x;
        }
        let [_, _, height, width] = x.dims();
        let [rows, columns] = [height, width].map(|side| self.padding.pair(side, 3, 2));
        let options = MaxPoolOptions::new([3, 3]).with_stride([2, 2]);
        if self.norm.is_none() {
            return max_pool2d(x, options.with_padding_pairs([rows, columns]));
        }
        // BiT has no relu before this maximum, and the zeros padded around the map take part in it.
        let padded = (columns.0, columns.1, rows.0, rows.1);
        max_pool2d(x.pad(padded, PadMode::Constant(0.0)), options)
    }

    /// Computes the last feature map, `[batch, features, rows, columns]`, of images `[batch, channels, height, width]`.
    pub fn feature_map(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<4> {
        let mut x = self.stem(pixels, pass);
        pass.note_hidden(0, &x);
        for (stage, blocks) in self.stages.iter().enumerate() {
            for (number, block) in blocks.blocks.iter().enumerate() {
                let name = format_args!("stages.{stage}.blocks.{number}");
                x = pass.in_block(name, || block.forward(x, pass));
            }
            pass.note_hidden(stage + 1, &x);
        }
        if self.norm.is_some() {
            x = relu(apply_norm(&self.norm, x, pass));
        }
        pass.note_last(&x);
        x
    }

    /// Averages the last feature map: images `[batch, channels, height, width]` → `[batch, features]`.
    pub fn pooled(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<2> {
        let map = self.feature_map(pixels, pass);
        let [batch, features, ..] = map.dims();
        flat(map).mean_dim(2).reshape([batch, features])
    }
}

/// Flattens the sides: `[batch, channels, height, width]` → `[batch, channels, height·width]`.
fn flat(x: Tensor<4>) -> Tensor<3> {
    let [batch, planes, height, width] = x.dims();
    x.reshape([batch, planes, height * width])
}

fn relu(x: Tensor<4>) -> Tensor<4> {
    let dims = x.dims();
    kernel::activate(flat(x), Activation::Relu).reshape(dims)
}
