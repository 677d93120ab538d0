//! `[init] layer_lr_decay`: how far a parameter stands from the end of its stack.

use crate::model::StackDepths;
use crate::nn::role::{Place, Role, Side};

/// Layers between a parameter and the end of its stack: 0 for heads and the last norm, 1 for the last block … and one
/// more than blocks for what comes before them. Of two stacks each is counted by itself. Parameters that layers share stand
/// where the last of these layers does.
pub(super) fn depth_from_end(role: Role, depths: StackDepths) -> i32 {
    let layers = match (role.side, role.place) {
        // It is trained beside the network that is tuned, and has no layers of it.
        (Some(Side::Generates | Side::Reconstructs), _) => return 0,
        (Some(Side::Reads), _) | (None, Some(Place::SourceTokens)) => depths.reads,
        (Some(Side::Writes), _) => depths.writes,
        (None, _) => depths.tokens,
    };
    let depth = match role.block {
        _ if role.is_input() => layers + 1,
        Some(block) => layers.saturating_sub(depths.share.owners(layers).last(role.place, block)),
        None => 0,
    };
    i32::try_from(depth).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::ShareConfig;
    use crate::stack::sharing::{NotShared, SharedBy};

    const ONE_STACK: StackDepths = StackDepths {
        reads: 4,
        writes: 4,
        tokens: 4,
        share: ShareConfig::None(NotShared {}),
    };

    #[test]
    fn each_of_two_stacks_counts_from_its_own_end() {
        let depths = StackDepths {
            reads: 6,
            writes: 2,
            tokens: 6,
            share: ShareConfig::default(),
        };
        let depth = |side, place, block| {
            let role = Role {
                place,
                block,
                side,
                ..Role::default()
            };
            depth_from_end(role, depths)
        };
        let (reads, writes) = (Some(Side::Reads), Some(Side::Writes));
        let blocks = Some(Place::Blocks);
        assert_eq!(depth(reads, blocks, Some(5)), 1);
        assert_eq!(depth(reads, blocks, Some(0)), 6);
        assert_eq!(depth(writes, blocks, Some(1)), 1);
        assert_eq!(depth(writes, blocks, Some(0)), 2);
        assert_eq!(depth(writes, Some(Place::Position), None), 3);
        assert_eq!(depth(None, Some(Place::Tokens), None), 7);
        assert_eq!(depth(None, Some(Place::TokenHead), None), 0);
    }

    #[test]
    fn layers_count_from_the_heads() {
        let depth = |place, block| {
            let role = Role {
                place,
                block,
                ..Role::default()
            };
            depth_from_end(role, ONE_STACK)
        };
        assert_eq!(depth(Some(Place::Head), None), 0);
        assert_eq!(depth(Some(Place::Blocks), Some(3)), 1);
        assert_eq!(depth(Some(Place::Blocks), Some(0)), 4);
        for before in [Place::Tokens, Place::Input, Place::Position] {
            assert_eq!(depth(Some(before), None), 5);
        }
    }

    #[test]
    fn a_shared_layer_learns_as_the_last_that_it_is() {
        let by = SharedBy {
            groups: 2,
            cycle: 1,
        };
        let depths = StackDepths {
            share: ShareConfig::FeedForward(by),
            ..ONE_STACK
        };
        let depth = |place, block| {
            let role = Role {
                place: Some(place),
                block: Some(block),
                ..Role::default()
            };
            depth_from_end(role, depths)
        };
        let feeding = [0, 2].map(|block| depth(Place::FeedForward, block));
        assert_eq!(feeding, [3, 1]);
        let mixing = [0, 1, 2, 3].map(|block| depth(Place::Mixer, block));
        assert_eq!(mixing, [4, 3, 2, 1]);
    }
}
