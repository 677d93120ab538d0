//! How deep a parameter stands, which its learning rate is scaled by.

use super::*;

const ONE_STACK: StackDepths = StackDepths {
    reads: 4,
    writes: 4,
    tokens: 4,
};

#[test]
fn each_of_two_stacks_counts_from_its_own_end() {
    let depths = StackDepths {
        reads: 6,
        writes: 2,
        tokens: 6,
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
