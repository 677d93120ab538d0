//! The network facts of a Swin Transformer.

use super::bias::{self, PositionBias};
use super::config::{MAX_BLOCKS, MAX_FEATURES, MAX_STAGES, MAX_WINDOW};
use super::{KIND, SwinConfig};
use crate::data::Shape;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::model::facts::{ImageFacts, NetworkFacts};
use crate::model::vision::patch_size_fault;
use crate::model::{Demand, ResnetConfig, ThroughputUnit};
use crate::nn::Kind;
use crate::nn::init::InitSettings;
use crate::nn::position::Grid;

/// Maximum number of heads of a stage.
const MAX_HEADS: usize = 4096;

impl NetworkFacts for SwinConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.features()
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        let stages = self.stage_faults(at);
        let width = at.count("d_model", self.d_model, MAX_FEATURES);
        if stages && width {
            self.width_faults(at);
        }
        at.count("window", self.window, MAX_WINDOW);
        if at.count("patch_size", self.patch_size, MAX_WIDTH)
            && let Some([_, height, width]) = demand.image
            && let Some((_, misfit)) = ImageFacts::image_size_fault(self, height, width)
        {
            at.fault(&["patch_size", "data.height", "data.width"], misfit);
        }
        self.version_faults(at);
        at.positive("ff_ratio", self.ff_ratio);
        at.probability("dropout", self.dropout);
        if let Some(dropout) = self.dropout_attention {
            at.probability("dropout_attention", dropout);
        }
        at.probability("drop_path", self.drop_path);
        at.nested("norm", |at| self.norm.faults(at));
        at.nested("init", |at| self.init.faults(at));
        demand.context
    }

    fn init_settings(&self) -> InitSettings {
        InitSettings::from(&self.init)
    }

    fn products(&self, _: &Demand, shape: &Shape) -> f64 {
        shape.image.map_or(0.0, |image| self.image_products(image))
    }

    fn positions(&self, _: &Shape) -> usize {
        1
    }

    fn throughput_unit(&self) -> ThroughputUnit {
        ThroughputUnit::Image
    }

    fn has_attention(&self) -> bool {
        true
    }

    fn stages(&self) -> Option<&[usize]> {
        Some(&self.stages)
    }

    fn image_facts(&self) -> Option<&dyn ImageFacts> {
        Some(self)
    }

    fn activations_between(&self, shape: &Shape, recompute: bool) -> u128 {
        let [_, height, width] = shape.image.unwrap_or_default();
        self.image_activations(height, width, recompute)
    }

    fn activations_per_pass(&self, shape: &Shape, recompute: bool) -> u128 {
        let [_, height, width] = shape.image.unwrap_or_default();
        let stages = self.shapes(height, width).into_iter();
        let each = stages.map(|stage| {
            let block = bias::activations(self.position_bias, &stage);
            [block, stage.blocks as u128 * block]
        });
        let (most, sum) = each.fold((0, 0), |(most, sum), [block, all]| {
            (block.max(most), all + sum)
        });
        if recompute { most } else { sum }
    }

    fn products_per_pass(&self, shape: &Shape) -> f64 {
        let [_, height, width] = shape.image.unwrap_or_default();
        let stages = self.shapes(height, width).into_iter();
        let each =
            stages.map(|stage| stage.blocks as u128 * bias::products(self.position_bias, &stage));
        each.sum::<u128>() as f64
    }

    fn products_in_stages(&self, shape: &Shape) -> f64 {
        let [_, height, width] = shape.image.unwrap_or_default();
        self.block_products(height, width)
    }
}

impl ImageFacts for SwinConfig {
    fn patches(&self, height: usize, width: usize) -> (Grid, usize) {
        let [rows, cols] = self.last_map(height, width);
        let class_token = false;
        let places = Grid {
            rows,
            cols,
            class_token,
        };
        (places, 0)
    }

    /// A map smaller than the window reduces the window, and so the table.
    fn resizes_positions(&self, one: [usize; 2], other: [usize; 2]) -> bool {
        let windows = |[height, width]: [usize; 2]| {
            let shapes = self.shapes(height, width).into_iter();
            shapes.map(|stage| stage.window).collect::<Vec<_>>()
        };
        self.position_bias == PositionBias::Table && windows(one) != windows(other)
    }

    fn image_size_fault(&self, height: usize, width: usize) -> Option<(&'static str, String)> {
        let rule = patch_size_fault("patch_size", self.patch_size, [height, width])?;
        Some(("", rule))
    }

    fn patch_size(&self) -> Option<usize> {
        Some(self.patch_size)
    }

    fn convolutions(&self) -> Option<&ResnetConfig> {
        None
    }
}

impl SwinConfig {
    /// Checks the lists of stages. Returns whether each stage has its blocks and its heads.
    fn stage_faults(&self, at: &mut TableFaults) -> bool {
        let counted = (1..=MAX_STAGES).contains(&self.stages.len());
        if !counted {
            let rule = format!(
                "stages = {:?} must have 1 to {MAX_STAGES} stages",
                self.stages
            );
            at.fault(&["stages"], rule);
            return false;
        }
        if self.stages.contains(&0) {
            at.fault(
                &["stages"],
                "stages contains a stage of 0 blocks; remove it",
            );
        }
        if self.blocks() > MAX_BLOCKS {
            let rule = format!(
                "stages has {} blocks, more than {MAX_BLOCKS}",
                self.blocks()
            );
            at.fault(&["stages"], rule);
        }
        let (stages, heads) = (self.stages.len(), self.n_heads.len());
        if stages != heads {
            let rule = format!(
                "n_heads = {:?}{} must have {stages} numbers, one for each of stages = {:?}",
                self.n_heads,
                self.default_heads(),
                self.stages
            );
            at.fault(&["n_heads", "stages"], rule);
        }
        stages == heads
    }

    /// Checks the keys that may differ in the second version.
    fn version_faults(&self, at: &mut TableFaults) {
        let placement = self.norm_placement;
        if !placement.norms_each_result_once() {
            let rule = format!(
                "norm_placement = \"{}\" is not supported in a Swin Transformer; use \"pre\" or \"res_post\"",
                placement.name()
            );
            at.fault(&["norm_placement"], rule);
        }
        if !self.qkv_bias && !self.key_bias {
            let rule = "key_bias = false has no effect with qkv_bias = false; remove it";
            at.fault(&["key_bias", "qkv_bias"], rule);
        }
        let trained = &self.trained_windows;
        if trained.is_empty() {
            return;
        }
        if self.position_bias == PositionBias::Table {
            let rule = "trained_windows has no effect: only position_bias = \"continuous\" uses it; remove it";
            at.fault(&["trained_windows", "position_bias"], rule);
        }
        let sound = |side: &usize| *side != 1 && *side <= MAX_WINDOW;
        if trained.len() != self.stages.len() || !trained.iter().all(sound) {
            let rule = format!(
                "trained_windows = {trained:?} must have {} numbers, one for each of stages = {:?}: sides from 2 to {MAX_WINDOW}, \
                 or 0 for the stage's own windows",
                self.stages.len(),
                self.stages
            );
            at.fault(&["trained_windows", "stages"], rule);
        }
    }

    /// Words after heads that are the default and may be missing from the file.
    fn default_heads(&self) -> &'static str {
        match self.n_heads == Self::default().n_heads {
            true => ", the default,",
            false => "",
        }
    }

    /// Checks the widths and the heads that divide them.
    fn width_faults(&self, at: &mut TableFaults) {
        if self.features() > MAX_FEATURES {
            let most = MAX_FEATURES >> self.stages.len().saturating_sub(1);
            let rule = format!(
                "d_model = {} doubles from stage to stage, over {} stages, to more than {MAX_FEATURES}; use at most {most}",
                self.d_model,
                self.stages.len()
            );
            at.fault(&["d_model", "stages"], rule);
            return;
        }
        for (stage, heads) in self.n_heads.iter().copied().enumerate() {
            let width = self.width(stage);
            let divides = |heads: &usize| *heads > 0 && width.is_multiple_of(*heads);
            if heads <= MAX_HEADS && divides(&heads) {
                continue;
            }
            let most = width.min(MAX_HEADS);
            let below = (1..=heads.min(most)).rev().find(divides);
            let above = (heads + 1..=most).find(divides);
            let fitting = [below, above].into_iter().flatten();
            let fitting: Vec<String> = fitting.map(|heads| heads.to_string()).collect();
            let rule = format!(
                "n_heads{} has {heads} for stage {stage}, which does not divide its width {width}; use {}",
                self.default_heads(),
                fitting.join(" or ")
            );
            at.fault(&["n_heads", "d_model"], rule);
        }
        let [first, last] = [self.d_model, self.features()].map(|d| self.ff_ratio * d as f64);
        if self.ff_ratio > 0.0 && (first < 1.0 || last > MAX_WIDTH as f64) {
            let rule = format!(
                "ff_ratio = {:?} makes feed-forward layers {first:?} wide in the first stage and {last:?} in the last, which must \
                 be between 1 and {MAX_WIDTH}",
                self.ff_ratio
            );
            at.fault(&["ff_ratio", "d_model"], rule);
        }
    }
}
