//! `[init] layer_lr_decay`: the distance of a parameter from the end of its stack.

use crate::model::StackDepths;
use crate::nn::role::{Place, Role, StackSide};

/// Returns the number of layers between a parameter and the end of its stack: 0 for heads and the last norm, 1 for the
/// last block, and the number of blocks plus one for the input modules. Each of two stacks is counted by itself; stages
/// of blocks count as one sequence of blocks. Parameters shared by several layers count as part of the last of these layers.
pub(super) fn depth_from_end(role: Role, depths: &StackDepths) -> i32 {
    let layers = match (role.side, role.place) {
        // These are trained next to the fine-tuned network and are not part of its layers.
        (Some(StackSide::Generator | StackSide::PixelDecoder | StackSide::ProjectionHead), _) => {
            return 0;
        }
        (Some(StackSide::Encoder), _) | (None, Some(Place::SourceTokens)) => depths.encoder,
        (Some(StackSide::Decoder), _) => depths.decoder,
        (None, _) => depths.tokens,
    };
    let depth = match (role.stage, role.block) {
        _ if role.is_input() => layers + 1,
        (Some(stage), block) => depth_in_stages(&depths.stages, stage, block),
        (None, Some(block)) => {
            layers.saturating_sub(depths.sharing.owners(layers).last(role.place, block))
        }
        (None, None) => 0,
    };
    i32::try_from(depth).unwrap_or(i32::MAX)
}

/// Depth from the end in stages with these numbers of blocks. The patch merging after the blocks of a stage belongs to
/// the last of them (Xie et al. 2022, SimMIM, released code).
fn depth_in_stages(stages: &[usize], stage: usize, block: Option<usize>) -> usize {
    let blocks = stages.get(stage).copied().unwrap_or(0);
    let own = block.map_or(1, |block| blocks.saturating_sub(block));
    own + stages.iter().skip(stage + 1).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Shape;
    use crate::model::{BuildContext, ModelConfig, SwinConfig};
    use crate::stack::ShareConfig;
    use crate::stack::sharing::{NotShared, SharedBy};
    use crate::task::{ImageClassificationConfig, TaskConfig};
    use crate::train::parameters;
    use burn::tensor::Device;
    use std::collections::BTreeMap;

    const ONE_STACK: StackDepths = StackDepths {
        encoder: 4,
        decoder: 4,
        tokens: 4,
        sharing: ShareConfig::None(NotShared {}),
        stages: Vec::new(),
    };

    #[test]
    fn each_of_two_stacks_counts_from_its_own_end() {
        let depths = StackDepths {
            encoder: 6,
            decoder: 2,
            tokens: 6,
            sharing: ShareConfig::default(),
            stages: Vec::new(),
        };
        let depth = |side, place, block| {
            let role = Role {
                place,
                block,
                side,
                ..Role::default()
            };
            depth_from_end(role, &depths)
        };
        let (reads, writes) = (Some(StackSide::Encoder), Some(StackSide::Decoder));
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
            depth_from_end(role, &ONE_STACK)
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
            sharing: ShareConfig::FeedForward(by),
            ..ONE_STACK
        };
        let depth = |place, block| {
            let role = Role {
                place: Some(place),
                block: Some(block),
                ..Role::default()
            };
            depth_from_end(role, &depths)
        };
        let feeding = [0, 2].map(|block| depth(Place::FeedForward, block));
        assert_eq!(feeding, [3, 1]);
        let mixing = [0, 1, 2, 3].map(|block| depth(Place::Mixer, block));
        assert_eq!(mixing, [4, 3, 2, 1]);
    }

    /// Three stages of two, three and one blocks: the parameters of a Swin Transformer by name.
    #[test]
    fn stages_are_one_row_of_blocks() {
        let model = ModelConfig::Swin(SwinConfig {
            patch_size: 2,
            window: 2,
            stages: vec![2, 3, 1],
            d_model: 4,
            n_heads: vec![1, 1, 2],
            ..SwinConfig::default()
        });
        let shape = Shape {
            image: Some([1, 16, 16]),
            classes: vec!["cat".into(), "dog".into()],
            ..Shape::default()
        };
        let inputs = BuildContext {
            shape: &shape,
            seed: 0,
            device: &Device::default(),
        };
        let task = TaskConfig::ImageClassification(ImageClassificationConfig::default());
        let listed = parameters::list(&task.init(&model, &inputs, false).unwrap());
        let depths = model.stack_depths().unwrap();
        let found: BTreeMap<&str, i32> = listed
            .iter()
            .map(|p| (p.path.as_str(), depth_from_end(p.role, &depths)))
            .collect();
        let of = |place: &str| {
            let place = format!("{place}.");
            let inside = found
                .iter()
                .filter(|(path, _)| path.starts_with(place.as_str()));
            let mut depths: Vec<i32> = inside.map(|(_, depth)| *depth).collect();
            depths.dedup();
            depths
        };
        for (place, depth) in [
            ("head", 0),
            ("model.norm", 0),
            ("model.stages.2", 1),
            ("model.stages.1.merging", 2),
            ("model.stages.1.blocks.2", 2),
            ("model.stages.1.blocks.0", 4),
            ("model.stages.0.merging", 5),
            ("model.stages.0.blocks.1", 5),
            ("model.stages.0.blocks.0", 6),
            ("model.stem_norm", 7),
            ("model.stem", 7),
        ] {
            assert_eq!(of(place), [depth], "{place} of {found:?}");
        }
    }
}
