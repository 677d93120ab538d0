//! The shape of a residual network: its settings, its blocks, and their cost.

use crate::model::Use;
use crate::nn::channel_norm::ChannelNormConfig;
use crate::nn::convolution::{ConvolutionShape, Padding};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ratio of a bottleneck block's output channels to its inner channels.
const EXPANSION: usize = 4;

/// The uses that it serves.
pub(in crate::model) const USES: &[Use] = &[Use::ImageClasses];

/// Maximum number of stages; with 8 stages, the sides of the last map are a 256th of the image's.
pub(super) const MAX_STAGES: usize = 8;
/// Maximum number of blocks in all stages.
pub(super) const MAX_BLOCKS: usize = 1024;
/// Maximum number of inner channels in the last stage, without a bottleneck's expansion.
pub(super) const MAX_PLANES: usize = 1 << 14;

/// The settings of a residual network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResnetConfig {
    /// Type of block. Source: He et al. 2016, section 4.1.
    pub blocks: Blocks,
    /// Number of blocks in each stage. Source: He et al. 2016, table 1.
    pub stages: Vec<usize>,
    /// Channels of the first stage, before a bottleneck's expansion.
    pub width: usize,
    /// Stem before the first stage.
    pub stem: StemSize,
    /// Whether the first stage halves the image's sides as the others do.
    pub downsample_first_stage: bool,
    /// Whether a bottleneck block that halves the image has its stride on the first 1×1 convolution, as in the paper,
    /// rather than on the 3×3 one, as in torchvision.
    pub stride_in_1x1: bool,
    /// Whether a norm and relu come before each convolution of a block rather than after it (ResNet v2, BiT): the stream is then
    /// a plain sum, and a norm with relu comes before the mean over the image. Source: He et al. 2016, Identity Mappings in
    /// Deep Residual Networks, figure 4(e); Kolesnikov et al. 2020, Big Transfer.
    pub preactivation: bool,
    /// Padding with zeros around images and maps: symmetric as in PyTorch's networks, or same as in the published hybrids.
    pub padding: Padding,
    /// Settings of every norm layer.
    pub norm: ChannelNormConfig,
    /// Whether the weights of convolutions are standardised, as in the hybrids.
    /// Source: Qiao et al. 2019.
    pub standardized: bool,
}

impl Default for ResnetConfig {
    fn default() -> Self {
        Self {
            blocks: Blocks::Basic,
            stages: vec![2, 2, 2, 2],
            width: 64,
            stem: StemSize::Small,
            downsample_first_stage: false,
            stride_in_1x1: false,
            preactivation: false,
            padding: Padding::Symmetric,
            norm: ChannelNormConfig::default(),
            standardized: false,
        }
    }
}

/// The type of block of a residual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// Two 3×3 convolutions.
    Basic,
    /// 1×1, 3×3 and 1×1 convolutions; the last outputs four times as many channels.
    Bottleneck,
}

/// The stem before the first stage of a residual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StemSize {
    /// A 3×3 convolution, for images of about 32 pixels a side.
    Small,
    /// A 7×7 convolution of stride 2, then a 3×3 max pooling of stride 2: a quarter of each side.
    Large,
}

/// The shape of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    /// The type of block.
    pub blocks: Blocks,
    /// Input channels.
    pub inputs: usize,
    /// Inner channels; the block outputs as many, or four times as many for a bottleneck.
    pub planes: usize,
    /// Stride of the block.
    pub stride: usize,
    /// Whether a bottleneck's first convolution has the stride rather than the second.
    pub stride_first: bool,
}

impl BlockShape {
    pub(super) fn outputs(&self) -> usize {
        match self.blocks {
            Blocks::Basic => self.planes,
            Blocks::Bottleneck => EXPANSION * self.planes,
        }
    }

    /// Returns the convolutions of f, in order.
    pub(super) fn layers(&self) -> Vec<ConvolutionShape> {
        let &Self { inputs, planes, .. } = self;
        let layer = |inputs, outputs, size, stride| ConvolutionShape {
            inputs,
            outputs,
            size,
            stride,
        };
        match self.blocks {
            Blocks::Basic => vec![
                layer(inputs, planes, 3, self.stride),
                layer(planes, planes, 3, 1),
            ],
            Blocks::Bottleneck => {
                let [first, second] = match self.stride_first {
                    true => [self.stride, 1],
                    false => [1, self.stride],
                };
                vec![
                    layer(inputs, planes, 1, first),
                    layer(planes, planes, 3, second),
                    layer(planes, self.outputs(), 1, 1),
                ]
            }
        }
    }

    /// Returns the convolution on the shortcut, if f changes the shape.
    pub(super) fn shortcut(&self) -> Option<ConvolutionShape> {
        let changes = self.stride != 1 || self.inputs != self.outputs();
        changes.then(|| ConvolutionShape {
            inputs: self.inputs,
            outputs: self.outputs(),
            size: 1,
            stride: self.stride,
        })
    }
}

impl ResnetConfig {
    /// Number of channels of the last feature map.
    pub fn features(&self) -> usize {
        let last = self.stages.len().saturating_sub(1);
        let planes = self.width << last.min(20);
        match self.blocks {
            Blocks::Basic => planes,
            Blocks::Bottleneck => EXPANSION * planes,
        }
    }

    /// Returns the height and width of the last feature map of an image.
    pub fn map_size(&self, height: usize, width: usize) -> [usize; 2] {
        let halvings = self.stages.len().saturating_sub(1)
            + usize::from(self.downsample_first_stage)
            + match self.stem {
                StemSize::Small => 0,
                StemSize::Large => 2,
            };
        // ⌈⌈n/2⌉/2⌉ = ⌈n/4⌉.
        [height, width].map(|side| side.div_ceil(1 << halvings.min(40)))
    }

    pub(super) fn stem_shape(&self, channels: usize) -> ConvolutionShape {
        let (size, stride) = match self.stem {
            StemSize::Small => (3, 1),
            StemSize::Large => (7, 2),
        };
        ConvolutionShape {
            inputs: channels,
            outputs: self.width,
            size,
            stride,
        }
    }

    /// Returns the blocks of each stage.
    pub(super) fn block_shapes(&self) -> Vec<Vec<BlockShape>> {
        let mut inputs = self.width;
        let stage = |(number, blocks): (usize, &usize)| {
            let block = |i: usize| {
                let shape = BlockShape {
                    blocks: self.blocks,
                    inputs,
                    planes: self.width << number,
                    stride: match i == 0 && (number > 0 || self.downsample_first_stage) {
                        true => 2,
                        false => 1,
                    },
                    stride_first: self.stride_in_1x1,
                };
                inputs = shape.outputs();
                shape
            };
            (0..*blocks).map(block).collect()
        };
        self.stages.iter().enumerate().map(stage).collect()
    }

    /// Returns the cost of the convolutions for an image of this many channels, rows and columns.
    pub fn cost(&self, [channels, height, width]: [usize; 3]) -> ConvolutionCost {
        let mut cost = ConvolutionCost::default();
        let mut sides = [height, width];
        let stem = self.stem_shape(channels);
        cost.add(&stem, &mut sides);
        if self.stem == StemSize::Large {
            sides = sides.map(|side| side.div_ceil(2));
        }
        for block in self.block_shapes().iter().flatten() {
            if let Some(shortcut) = block.shortcut() {
                cost.add(&shortcut, &mut sides.clone());
            }
            for layer in block.layers() {
                cost.add(&layer, &mut sides);
            }
        }
        cost
    }
}

/// The cost of the convolutions for one image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConvolutionCost {
    /// Multiplications of the forward pass.
    pub products: f64,
    /// Number of output values.
    pub values: f64,
}

impl ConvolutionCost {
    fn add(&mut self, shape: &ConvolutionShape, sides: &mut [usize; 2]) {
        *sides = sides.map(|side| shape.side(side));
        let places = sides[0] as f64 * sides[1] as f64;
        self.products += places * shape.weights() as f64;
        self.values += places * shape.outputs as f64;
    }
}
