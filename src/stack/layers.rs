//! The number of blocks in a stack, and groups of blocks that differ.

use crate::nn::attention::AttentionConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::position::PositionConfig;
use crate::nn::recurrent::MixerConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default number of blocks.
pub const DEFAULT_LAYERS: usize = 4;

/// Equal consecutive blocks: `[[model.layers]]`, in place of the model's `attention` and `feed_forward`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayerGroup {
    /// Number of blocks.
    #[schemars(range(min = 1, max = 1000))]
    pub repeat: usize,
    /// Self-attention of these blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionConfig>,
    /// Position scheme of these blocks' attention, in place of the model's: rotary positions with a base
    /// of their own, or none. Source: Gemma Team 2025, Gemma 3, section 2 (`rotary`); Yang et al. 2025 (`none`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<PositionConfig>,
    /// Mixer in place of attention: a recurrence, whose state is carried from position to position, or a Fourier transform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixer: Option<MixerConfig>,
    /// Feed-forward layer, which reads each position by itself, or with the one before it (`rwkv`, `rwkv7`); no such layer when
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_forward: Option<FeedForwardConfig>,
    /// Cross-attention to a memory, in a decoder that has one; no such layer when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross: Option<AttentionConfig>,
}

impl Default for LayerGroup {
    fn default() -> Self {
        Self {
            repeat: 1,
            attention: None,
            position: None,
            mixer: None,
            feed_forward: None,
            cross: None,
        }
    }
}

/// The layers of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockConfig<'a> {
    /// Self-attention.
    pub attention: Option<&'a AttentionConfig>,
    /// The position scheme of its attention, in place of the model's.
    pub position: Option<&'a PositionConfig>,
    /// The mixer in place of attention.
    pub mixer: Option<&'a MixerConfig>,
    /// The feed-forward layer.
    pub feed_forward: Option<&'a FeedForwardConfig>,
    /// Cross-attention to a memory.
    pub cross: Option<&'a AttentionConfig>,
}

impl<'a> BlockConfig<'a> {
    /// Returns the layers of a block of a group.
    pub fn from_group(group: &'a LayerGroup) -> Self {
        Self {
            attention: group.attention.as_ref(),
            position: group.position.as_ref(),
            mixer: group.mixer.as_ref(),
            feed_forward: group.feed_forward.as_ref(),
            cross: group.cross.as_ref(),
        }
    }

    /// Widths of the vectors that its mixer and its feed-forward layer carry from position to position, in a model of width
    /// `d_model`.
    pub fn state_widths(&self, d_model: usize) -> [Vec<usize>; 2] {
        let mixer = self.mixer.map(|c| c.state_widths(d_model));
        let feed_forward = self.feed_forward.map(|c| c.state_widths(d_model));
        [mixer, feed_forward].map(Option::unwrap_or_default)
    }
}

/// The depth of a stack: equal blocks, or groups of blocks.
#[derive(Clone, Copy, Debug)]
pub struct Depth<'a> {
    /// The key of the number of blocks.
    pub key: &'static str,
    /// Whether a query sees only earlier positions.
    pub causal: bool,
    /// The value of that key: the number of all blocks. With groups it is a multiple of their blocks, and the groups then repeat.
    pub n_layers: Option<usize>,
    /// The key of the groups.
    pub groups_key: &'static str,
    /// The groups.
    pub groups: &'a [LayerGroup],
    /// The cross-attention of blocks without groups, in a decoder that has a memory.
    pub cross: Option<&'a AttentionConfig>,
    /// The blocks that have cross-attention, counted from 1, with or without groups; all blocks without groups when absent.
    pub cross_in: Option<&'a [usize]>,
}

impl<'a> Depth<'a> {
    /// Number of blocks of the groups, each group counted with its repeats.
    pub fn grouped_blocks(&self) -> usize {
        let repeats = self.groups.iter().map(|group| group.repeat);
        repeats.fold(0, usize::saturating_add)
    }

    /// Returns the stack's cross-attention if `cross_in` lists block number `block`.
    pub fn listed_cross_attention(&self, block: usize) -> Option<&'a AttentionConfig> {
        let has = |blocks: &[usize]| blocks.contains(&(block + 1));
        self.cross.filter(|_| self.cross_in.is_some_and(has))
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.n_layers.unwrap_or(match self.groups {
            [] => DEFAULT_LAYERS,
            _ => self.grouped_blocks(),
        })
    }
}

/// Sets how many earlier positions attention with segment memory keeps in evaluation: the attention of the groups, or the
/// stack's own if it has none. Returns whether there is such attention.
pub fn set_evaluation_memory(
    own: &mut AttentionConfig,
    groups: &mut [LayerGroup],
    positions: usize,
) -> bool {
    let own = groups.is_empty().then_some(own);
    let grouped = groups
        .iter_mut()
        .filter_map(|group| group.attention.as_mut());
    let remembering = grouped
        .chain(own)
        .map(|attention| attention.set_evaluation_memory(positions));
    remembering.fold(false, |any, one| any | one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::attention::multi_head::MultiHeadConfig;
    use crate::stack::StackConfig;

    fn heads(n_heads: usize) -> AttentionConfig {
        AttentionConfig::MultiHead(MultiHeadConfig {
            n_heads,
            ..MultiHeadConfig::default()
        })
    }

    fn group(repeat: usize, n_heads: usize) -> LayerGroup {
        LayerGroup {
            repeat,
            attention: Some(heads(n_heads)),
            ..LayerGroup::default()
        }
    }

    #[test]
    fn groups_follow_each_other_again_and_again() {
        let groups = [group(2, 8), group(1, 4)];
        let depth = |n_layers| Depth {
            key: "n_layers",
            causal: true,
            n_layers,
            groups_key: "layers",
            groups: &groups,
            cross: None,
            cross_in: None,
        };
        let config = StackConfig::default();
        let read = |depth: &Depth| -> Vec<usize> {
            let blocks = config.blocks(depth);
            blocks.map(|b| b.attention.unwrap().n_heads()).collect()
        };
        assert_eq!(read(&depth(None)), [8, 8, 4]);
        assert_eq!(read(&depth(Some(6))), [8, 8, 4, 8, 8, 4]);
        assert!(config.block(&depth(None), 0).feed_forward.is_none());
        let alike = Depth {
            groups: &[],
            ..depth(Some(2))
        };
        assert_eq!(read(&alike), [4, 4]);
    }
}
