//! How many blocks a stack has, and how blocks that differ stand in groups.

use crate::nn::attention::AttentionConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::position::PositionConfig;
use crate::nn::recurrent::MixerConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Blocks of a stack whose number no key gives.
pub const LAYERS: usize = 4;

/// Equal blocks in a row: `[[model.layers]]`, in place of the model's `attention` and `feed_forward`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayerGroup {
    /// Number of blocks.
    #[schemars(range(min = 1, max = 1000))]
    pub repeat: usize,
    /// Positions look at each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionConfig>,
    /// How attention knows where a token stands in these blocks, in place of the model's scheme: rotary positions with a base
    /// of their own, or none. Source: Gemma Team 2025, Gemma 3, section 2 (`rotary`); Yang et al. 2025 (`none`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<PositionConfig>,
    /// In place of attention: a state is carried from position to position, or a Fourier transform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixer: Option<MixerConfig>,
    /// Each position by itself, or with the one before it (`rwkv`, `rwkv7`); no such layer when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_forward: Option<FeedForwardConfig>,
    /// Positions look at a memory, in a decoder that has one; no such layer when absent.
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
    /// Positions look at each other.
    pub attention: Option<&'a AttentionConfig>,
    /// The position scheme of its attention, in place of the model's.
    pub position: Option<&'a PositionConfig>,
    /// In place of attention.
    pub mixer: Option<&'a MixerConfig>,
    /// Each position by itself, or with the one before it.
    pub feed_forward: Option<&'a FeedForwardConfig>,
    /// Positions look at a memory.
    pub cross: Option<&'a AttentionConfig>,
}

impl<'a> BlockConfig<'a> {
    /// The layers of a block of a group.
    pub fn of(group: &'a LayerGroup) -> Self {
        Self {
            attention: group.attention.as_ref(),
            position: group.position.as_ref(),
            mixer: group.mixer.as_ref(),
            feed_forward: group.feed_forward.as_ref(),
            cross: group.cross.as_ref(),
        }
    }

    /// Widths of the vectors that its mixer and its feed-forward layer carry, in a model of width `d_model`.
    pub fn state_widths(&self, d_model: usize) -> [Vec<usize>; 2] {
        let mixer = self.mixer.map(|c| c.state_widths(d_model));
        let feed_forward = self.feed_forward.map(|c| c.state_widths(d_model));
        [mixer, feed_forward].map(Option::unwrap_or_default)
    }
}

/// The depth of a stack: blocks alike, or groups of them.
#[derive(Clone, Copy, Debug)]
pub struct Depth<'a> {
    /// The key of the number of blocks.
    pub key: &'static str,
    /// Whether a query sees earlier positions alone.
    pub causal: bool,
    /// Its value: all blocks; a multiple of those of the groups, which then follow each other again and again.
    pub n_layers: Option<usize>,
    /// The key of the groups.
    pub groups_key: &'static str,
    /// The groups.
    pub groups: &'a [LayerGroup],
    /// Cross-attention of blocks alike, in a decoder that has a memory.
    pub cross: Option<&'a AttentionConfig>,
    /// The blocks that have it, counted from 1, in groups or not; all of those alike when absent.
    pub cross_in: Option<&'a [usize]>,
}

impl<'a> Depth<'a> {
    /// Blocks of the groups, each counted as often as it is repeated.
    pub fn grouped(&self) -> usize {
        let repeats = self.groups.iter().map(|group| group.repeat);
        repeats.fold(0, usize::saturating_add)
    }

    /// The stack's cross-attention, for the blocks that `cross_in` lists.
    pub fn cross_of(&self, block: usize) -> Option<&'a AttentionConfig> {
        let has = |blocks: &[usize]| blocks.contains(&(block + 1));
        self.cross.filter(|_| self.cross_in.is_some_and(has))
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.n_layers.unwrap_or(match self.groups {
            [] => LAYERS,
            _ => self.grouped(),
        })
    }
}

/// The attention of groups, or of a stack without some, that remembers earlier segments takes so many positions of them in evaluation;
/// whether there is such attention.
pub fn remember_at_evaluation(
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
        .map(|attention| attention.remember_at_evaluation(positions));
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
