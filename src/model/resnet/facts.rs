//! The network facts of a residual network.

use super::config::{MAX_BLOCKS, MAX_PLANES, MAX_STAGES};
use super::{Blocks, KIND, ResnetConfig};
use crate::data::Shape;
use crate::faults::TableFaults;
use crate::model::facts::{ImageFacts, NetworkFacts};
use crate::model::{Demand, ThroughputUnit};
use crate::nn::Kind;
use crate::nn::position::Grid;

impl NetworkFacts for ResnetConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.features()
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        self.key_faults(at);
        demand.context
    }

    fn products(&self, _: &Demand, shape: &Shape) -> f64 {
        shape.image.map_or(0.0, |image| self.cost(image).products)
    }

    fn positions(&self, _: &Shape) -> usize {
        1
    }

    fn throughput_unit(&self) -> ThroughputUnit {
        ThroughputUnit::Image
    }

    fn image_facts(&self) -> Option<&dyn ImageFacts> {
        Some(self)
    }
}

impl ImageFacts for ResnetConfig {
    fn patches(&self, height: usize, width: usize) -> (Grid, usize) {
        let [rows, cols] = self.map_size(height, width);
        let class_token = false;
        let places = Grid {
            rows,
            cols,
            class_token,
        };
        (places, 0)
    }

    fn convolutions(&self) -> Option<&ResnetConfig> {
        Some(self)
    }
}

impl ResnetConfig {
    /// Checks its keys, both as a model and as a stem.
    pub(in crate::model) fn key_faults(&self, at: &mut TableFaults) {
        let stages = at.count("stages", self.stages.len(), MAX_STAGES);
        if self.stages.contains(&0) {
            at.fault(
                &["stages"],
                "stages contains a stage of 0 blocks; remove it",
            );
        }
        let blocks = self.stages.iter().copied();
        let blocks = blocks.fold(0, usize::saturating_add);
        if blocks > MAX_BLOCKS {
            let rule = format!("stages has {blocks} blocks, more than {MAX_BLOCKS}");
            at.fault(&["stages"], rule);
        }
        let widest = MAX_PLANES >> self.stages.len().clamp(1, MAX_STAGES).saturating_sub(1);
        let width = at.count("width", self.width, widest);
        let width = (stages && width).then_some(self.width);
        if self.stride_in_1x1 && self.blocks == Blocks::Basic {
            let rule = "stride_in_1x1 = true has no effect on blocks = \"basic\", which have no 1×1 convolutions; remove it";
            at.fault(&["stride_in_1x1", "blocks"], rule);
        }
        if self.stride_in_1x1 && self.stages.len() == 1 && !self.downsample_first_stage {
            let rule = "stride_in_1x1 = true has no effect: a single stage halves the image only with downsample_first_stage = \
                        true; remove it or set that key";
            at.fault(&["stride_in_1x1", "stages", "downsample_first_stage"], rule);
        }
        at.nested("norm", |at| self.norm.faults(width, at));
    }
}
