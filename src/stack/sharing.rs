//! Sharing of parameters across layers (Lan et al. 2019, ALBERT, section 3.1; one layer for the whole depth: Dehghani et al. 2018,
//! Universal Transformers).
//!
//! The layers of a stack are cut into equal groups of consecutive layers. A group has the parameters of its first `cycle`
//! layers, which repeat: layer l of a group computes with those of the group's layer l mod cycle. The parameters are held once, by
//! that layer's block; every layer has its own state, dropouts and drop-path probability. The norms of a layer's residual
//! connection are shared with the layer, and the learned parameters of a position scheme with attention. Vectors that a scheme
//! adds before each layer are not shared.
//!
//! A kind of attention may share a single matrix among layers (Wang et al. 2020, Linformer, "layerwise sharing"). The first block
//! whose attention has the same keys holds the matrix and lends it to the others.

use super::block::ResolvedBlock;
use super::{BlockConfig, Depth, StackConfig};
use crate::faults::TableFaults;
use crate::nn::Kind;
use crate::nn::role::Place;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The layers that share parameters: `[model] share_layers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ShareConfig {
    /// Every layer has its own parameters.
    None(NotShared),
    /// The layers that mix positions are shared: attention or the mixer in its place, and cross-attention.
    Attention(SharedBy),
    /// The feed-forward layers are shared.
    FeedForward(SharedBy),
    /// Whole blocks are shared.
    All(SharedBy),
}

/// The `none` kind, which has no keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotShared {}

/// Which layers share parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SharedBy {
    /// Groups of consecutive layers; each has its own parameters (`num_hidden_groups` of ALBERT).
    pub groups: usize,
    /// Layers of a group that have their own parameters and repeat in order (`inner_group_num`).
    pub cycle: usize,
}

impl Default for SharedBy {
    fn default() -> Self {
        Self {
            groups: 1,
            cycle: 1,
        }
    }
}

impl Default for ShareConfig {
    fn default() -> Self {
        Self::None(NotShared {})
    }
}

/// The values of `[model] share_layers`.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "none",
        summary: "every layer has its own parameters",
        source: "Vaswani et al. 2017",
        example: "{ kind = \"none\" }",
    },
    Kind {
        kind: "attention",
        summary: "the layers that mix positions are shared",
        source: "Lan et al. 2019, table 4",
        example: "{ kind = \"attention\" }",
    },
    Kind {
        kind: "feed_forward",
        summary: "the feed-forward layers are shared",
        source: "Lan et al. 2019, table 4",
        example: "{ kind = \"feed_forward\" }",
    },
    Kind {
        kind: "all",
        summary: "whole blocks are shared, by all layers or in groups",
        source: "Lan et al. 2019, ALBERT; Dehghani et al. 2018",
        example: "{ kind = \"all\", groups = 2 }",
    },
];

/// For each layer of a stack, the layer whose parameters it uses: its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterOwners {
    mixing: SharingCycle,
    feeding: SharingCycle,
}

/// How one sort of layer, mixing or feed-forward, is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SharingCycle {
    /// Number of layers in a group.
    length: usize,
    /// Number of these layers that have parameters.
    cycle: usize,
}

impl SharingCycle {
    fn owner(self, layer: usize) -> usize {
        let (group, place) = (layer / self.length, layer % self.length);
        group * self.length + place % self.cycle
    }

    fn last(self, owner: usize) -> usize {
        let rest = self.length - 1 - owner % self.length;
        owner + rest / self.cycle * self.cycle
    }
}

impl ParameterOwners {
    /// Returns the layer whose attention or mixer layer number `layer` uses.
    pub fn mixer_owner(&self, layer: usize) -> usize {
        self.mixing.owner(layer)
    }

    /// Returns the layer whose feed-forward layer it uses.
    pub fn feed_forward_owner(&self, layer: usize) -> usize {
        self.feeding.owner(layer)
    }

    /// Whether layer number `layer` owns the parameters of its attention or mixer, and of its feed-forward layer.
    pub fn owns(&self, layer: usize) -> [bool; 2] {
        [
            self.mixer_owner(layer) == layer,
            self.feed_forward_owner(layer) == layer,
        ]
    }

    /// Returns the last layer that uses the parameters at this place of block `owner`.
    pub fn last(&self, place: Option<Place>, owner: usize) -> usize {
        match place {
            Some(Place::FeedForward) => self.feeding.last(owner),
            _ => self.mixing.last(owner),
        }
    }
}

impl ShareConfig {
    /// Whether every layer has its own parameters.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None(_))
    }

    /// Whether whole blocks are shared.
    pub fn shares_whole_blocks(&self) -> bool {
        matches!(self, Self::All(_))
    }

    /// Whether only feed-forward layers are shared.
    pub fn shares_only_feed_forward(&self) -> bool {
        matches!(self, Self::FeedForward(_))
    }

    /// Returns the value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None(_) => "none",
            Self::Attention(_) => "attention",
            Self::FeedForward(_) => "feed_forward",
            Self::All(_) => "all",
        }
    }

    /// Returns groups and cycle, if layers share parameters.
    pub fn groups_and_cycle(&self) -> Option<SharedBy> {
        match self {
            Self::None(_) => None,
            Self::Attention(by) | Self::FeedForward(by) | Self::All(by) => Some(*by),
        }
    }

    /// Returns the owners in a stack of `layers` layers, which groups and cycle must divide.
    pub fn owners(&self, layers: usize) -> ParameterOwners {
        let alone = SharingCycle {
            length: 1,
            cycle: 1,
        };
        let shared = |by: &SharedBy| SharingCycle {
            length: (layers / by.groups.max(1)).max(1),
            cycle: by.cycle.max(1),
        };
        let [mixing, feeding] = match self {
            Self::None(_) => [alone; 2],
            Self::Attention(by) => [shared(by), alone],
            Self::FeedForward(by) => [alone, shared(by)],
            Self::All(by) => [shared(by); 2],
        };
        ParameterOwners { mixing, feeding }
    }

    /// Checks its keys by themselves, for stacks of at most `most` layers; returns whether they are sound.
    pub fn faults(&self, most: usize, at: &mut TableFaults) -> bool {
        let by = self.groups_and_cycle().unwrap_or_default();
        let keys = [("groups", by.groups), ("cycle", by.cycle)];
        keys.map(|(key, value)| at.count(key, value, most))
            .iter()
            .all(|sound| *sound)
    }
}

impl BlockConfig<'_> {
    /// Returns the config with or without the layers that mix positions, and with or without the feed-forward layer.
    #[must_use]
    pub fn with(self, mixing: bool, feeding: bool) -> Self {
        Self {
            attention: self.attention.filter(|_| mixing),
            position: self.position,
            mixer: self.mixer.filter(|_| mixing),
            feed_forward: self.feed_forward.filter(|_| feeding),
            cross: self.cross.filter(|_| mixing),
        }
    }
}

impl StackConfig {
    /// Returns the first block of a stack whose attention has the same config as that of block number `layer`.
    pub(super) fn lender(&self, depth: &Depth, layer: usize) -> usize {
        let own = self.block(depth, layer).attention;
        let mut blocks = self.blocks(depth);
        let first = blocks.position(|block| block.attention == own);
        first.unwrap_or(layer)
    }
}

impl ResolvedBlock<'_> {
    /// Returns the matrix that the first block whose attention has the same keys lends.
    pub(super) fn lent_matrix(&self) -> Option<Tensor<2>> {
        self.lender.attention.as_ref()?.layer().lent_matrix()
    }

    /// The longest input that its attention or mixer can read, if there is a limit.
    pub(super) fn max_len(&self) -> Option<usize> {
        self.mixer().max_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(groups: usize, cycle: usize) -> ParameterOwners {
        ShareConfig::All(SharedBy { groups, cycle }).owners(12)
    }

    /// HF's `AlbertTransformer`: group ⌊l·groups/layers⌋, with the inner layers of the group in turn.
    #[test]
    fn layers_take_the_parameters_of_their_group() {
        let of =
            |owners: ParameterOwners| (0..12).map(|l| owners.mixer_owner(l)).collect::<Vec<_>>();
        assert_eq!(of(owners(1, 1)), [0; 12]);
        assert_eq!(of(owners(2, 1)), [0, 0, 0, 0, 0, 0, 6, 6, 6, 6, 6, 6]);
        assert_eq!(of(owners(2, 3)), [0, 1, 2, 0, 1, 2, 6, 7, 8, 6, 7, 8]);
        assert_eq!(of(owners(12, 1)), (0..12).collect::<Vec<_>>());
        let [first, second] = [0, 1].map(|layer| owners(2, 3).last(None, layer));
        assert_eq!((first, second, owners(2, 3).last(None, 8)), (3, 4, 11));
    }

    #[test]
    fn either_sort_of_layer_is_shared_alone() {
        let by = SharedBy::default();
        let attention = ShareConfig::Attention(by).owners(4);
        assert_eq!(
            (attention.mixer_owner(3), attention.feed_forward_owner(3)),
            (0, 3)
        );
        assert_eq!(attention.owns(3), [false, true]);
        let feed_forward = ShareConfig::FeedForward(by).owners(4);
        assert_eq!(feed_forward.owns(3), [true, false]);
        let place = Some(Place::FeedForward);
        assert_eq!(
            (feed_forward.last(place, 0), attention.last(place, 0)),
            (3, 0)
        );
        assert_eq!(ShareConfig::default().owners(4).owns(3), [true; 2]);
    }
}
