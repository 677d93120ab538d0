//! The sense of the models that read images.

use super::Sense;
use crate::faults::WIDEST;
use crate::model::vision::{PatchesConfig, StemConfig};
use crate::model::{ModelConfig, ResnetConfig, VisionConfig};

/// Stages of a residual network: the last of them has a 256th of a side.
const MOST_STAGES: usize = 8;
/// Blocks of all stages.
const MOST_BLOCKS: usize = 1024;
/// Planes of the last stage, a bottleneck's expansion apart.
const MOST_PLANES: usize = 1 << 14;

/// Faults of a vision transformer; its number of positions, when the size of the images is known.
pub(super) fn vision(
    sense: &mut Sense,
    c: &VisionConfig,
    image: Option<[usize; 3]>,
) -> Option<usize> {
    match &c.stem {
        StemConfig::Patches(PatchesConfig { size }) => {
            if !sense.count("model.stem.size", *size, WIDEST) {
                return None;
            }
        }
        StemConfig::Resnet(c) => resnet(sense, "model.stem", c),
    }
    let [_, height, width] = image?;
    if let Some(misfit) = c.stem.misfit(height, width) {
        sense.fault(&["model.stem.size"], misfit);
        return None;
    }
    Some(c.grid(height, width).positions())
}

/// Faults of a residual network whose keys are in `table`.
pub(super) fn resnet(sense: &mut Sense, table: &str, c: &ResnetConfig) {
    let key = |name: &str| format!("{table}.{name}");
    let stages = sense.count(&key("stages"), c.stages.len(), MOST_STAGES);
    if c.stages.contains(&0) {
        sense.fault(
            &[&key("stages")],
            "stages has a stage of 0 blocks; leave it out",
        );
    }
    let blocks = c
        .stages
        .iter()
        .fold(0usize, |sum, n| sum.saturating_add(*n));
    if blocks > MOST_BLOCKS {
        let rule = format!("stages has {blocks} blocks, more than {MOST_BLOCKS}");
        sense.fault(&[&key("stages")], rule);
    }
    let widest = MOST_PLANES >> c.stages.len().clamp(1, MOST_STAGES).saturating_sub(1);
    let width = sense.count(&key("width"), c.width, widest);
    let width = (stages && width).then_some(c.width);
    sense.told(&key("norm"), |at| c.norm.faults(width, at));
}

/// Faults of positions on a grid.
pub(super) fn grid_positions(sense: &mut Sense, d_model: usize) {
    let model = &sense.loaded.experiment.model;
    if !matches!(model, ModelConfig::Vision(_)) {
        let rule = format!(
            "kind = \"sinusoidal_2d\" is for images; a {} reads lines of tokens: use \"sinusoidal\"",
            model.kind()
        );
        sense.fault(&["model.position.kind"], rule);
    } else if !d_model.is_multiple_of(4) {
        let rule = format!(
            "d_model = {d_model} is not a multiple of 4, as position kind = \"sinusoidal_2d\" needs"
        );
        sense.fault(&["model.d_model", "model.position.kind"], rule);
    }
}
