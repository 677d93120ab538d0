//! The network facts of a vision transformer.

use super::{KIND, MAX_REGISTERS, Pooling, VisionConfig, attention_pooling};
use crate::data::Shape;
use crate::faults::{Faults, TableFaults};
use crate::model::facts::{ImageFacts, NetworkFacts};
use crate::model::{Demand, ModelConfig, ResnetConfig, ThroughputUnit, Transformer};
use crate::nn::Kind;
use crate::nn::position::{ActsOn, Grid, KnownSizes};

/// The position schemes that are added before the blocks, and so allow tokens without a position.
const EMBEDDED_SCHEMES: &str =
    "\"learned\", \"sinusoidal\", \"sinusoidal_2d\", \"learned_2d\", \"axial\" or \"none\"";
/// The position schemes among these that have a position for a second token before the patches.
const TWO_TOKEN_SCHEMES: &str = "\"learned\", \"sinusoidal\", \"axial\" or \"none\"";

impl NetworkFacts for VisionConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn d_pooled(&self) -> usize {
        self.pooling.width_factor() * self.d_output()
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        self.token_faults(at);
        self.register_faults(at);
        if let Some(hidden) = demand.masked_patches {
            self.masking_faults(hidden, demand.image, at);
        }
        if let Some(views) = demand.local_views {
            self.local_faults(views, demand.image, at);
        }
        at.nested("stem", |at| {
            if !self.stem.faults(at) {
                return None;
            }
            let [_, height, width] = demand.image?;
            if let Some(misfit) = self.stem.image_size_fault(height, width) {
                at.fault(&["size", "data.height", "data.width"], misfit);
                return None;
            }
            Some(self.positions(height, width))
        })
    }

    fn products(&self, demand: &Demand, shape: &Shape) -> f64 {
        let of_image = |image| match (demand.masked_patches, demand.local_views) {
            (Some(hidden), _) => self.visible_products(image, hidden),
            (None, Some(views)) => self.view_products(image, views),
            (None, None) => self.image_products(image),
        };
        shape.image.map_or(0.0, of_image)
    }

    fn positions(&self, shape: &Shape) -> usize {
        let [_, height, width] = shape.image.unwrap_or_default();
        VisionConfig::positions(self, height, width)
    }

    fn tokens_without_position(&self) -> usize {
        self.n_registers
    }

    fn throughput_unit(&self) -> ThroughputUnit {
        ThroughputUnit::Image
    }

    fn transformer(&self) -> Option<Transformer<'_>> {
        Some(Transformer {
            stack: &self.stack,
            stacks: [Some(self.depth()), None],
            embedding_norm: self.embedding_norm,
        })
    }

    fn image_facts(&self) -> Option<&dyn ImageFacts> {
        Some(self)
    }

    fn activations_between(&self, shape: &Shape, _recompute: bool) -> u128 {
        match self.pooling {
            Pooling::Class | Pooling::ClassAndMean | Pooling::Mean | Pooling::MeanThenNorm => 0,
            Pooling::Attention => {
                let positions = NetworkFacts::positions(self, shape) - self.n_registers;
                attention_pooling::activations(self, positions)
            }
        }
    }
}

impl ImageFacts for VisionConfig {
    fn patches(&self, height: usize, width: usize) -> (Grid, usize) {
        let grid = VisionConfig::grid(self, height, width);
        let positions = VisionConfig::positions(self, height, width);
        (grid, positions - grid.rows * grid.cols)
    }

    fn prefix_token_names(&self) -> Vec<String> {
        let single = [
            (self.pooling.has_class_token(), "[class]"),
            (self.distillation_token, "[distillation]"),
        ];
        let single = single.into_iter().filter(|(there, _)| *there);
        let registers = (0..self.n_registers).map(|number| format!("[register {number}]"));
        single
            .map(|(_, name)| name.to_owned())
            .chain(registers)
            .collect()
    }

    fn grid(&self, height: usize, width: usize) -> Option<Grid> {
        Some(VisionConfig::grid(self, height, width))
    }

    fn resizes_positions(&self, one: [usize; 2], other: [usize; 2]) -> bool {
        let position = self.stack.position.facts();
        let parameters = ["table", "tables", "rows", "columns"];
        let has_table = parameters
            .iter()
            .any(|name| position.rows_of(name).is_some());
        has_table && self.stem.grid(one[0], one[1]) != self.stem.grid(other[0], other[1])
    }

    fn image_size_fault(&self, height: usize, width: usize) -> Option<(&'static str, String)> {
        VisionConfig::misfit(self, height, width)
    }

    fn patch_size(&self) -> Option<usize> {
        self.stem.patch_size()
    }

    fn convolutions(&self) -> Option<&ResnetConfig> {
        self.stem.network()
    }
}

impl VisionConfig {
    /// Returns the reason why images of this height and width cannot be read, if there is one, with the config table at fault:
    /// patches do not divide the image (`stem`), or a table of positions has too few rows (`position`).
    pub fn misfit(&self, height: usize, width: usize) -> Option<(&'static str, String)> {
        if let Some(rule) = self.stem.image_size_fault(height, width) {
            return Some(("stem", rule));
        }
        let known = KnownSizes {
            context: Some(self.placed(height, width)),
            is_image: true,
            ..KnownSizes::default()
        };
        let mut found = Faults::default();
        let position = self.stack.position.facts();
        position.faults(&known, &mut found.of("position"));
        let first = found.found.into_iter().next();
        first.map(|(_, rule)| ("position", rule))
    }

    /// Checks the registers, tokens without a position.
    fn register_faults(&self, at: &mut TableFaults) {
        if self.n_registers == 0 {
            return;
        }
        if self.n_registers > MAX_REGISTERS {
            let rule = format!(
                "n_registers = {} is more than {MAX_REGISTERS}",
                self.n_registers
            );
            at.fault(&["n_registers"], rule);
        }
        let position = self.stack.position.facts();
        if position.acts_on() != ActsOn::Embeddings && !position.skips_prefix_tokens() {
            let others = match self.distillation_token {
                true => TWO_TOKEN_SCHEMES,
                false => EMBEDDED_SCHEMES,
            };
            let rule = format!(
                "n_registers = {} have no position in the grid of position = {{ kind = \"{}\" }}, which acts in the blocks; use \
                 one that is added before the blocks: {others}; or \"rotary_centred\", which does not rotate registers",
                self.n_registers,
                position.kind().kind
            );
            at.fault(&["n_registers", "model.position.kind"], rule);
        }
        for (number, block) in self.stack.distinct_blocks(self.depth()).enumerate() {
            if let Some(own) = block.position
                && own.facts().acts_on() != ActsOn::Embeddings
            {
                let key = format!("model.layers.{number}.position");
                let rule = format!(
                    "position = {{ kind = \"{}\" }} of a group of blocks has no positions for n_registers = {}; remove one of them",
                    own.facts().kind().kind,
                    self.n_registers
                );
                at.fault(&[key.as_str(), "n_registers"], rule);
            }
        }
    }

    /// Checks the distillation token.
    fn token_faults(&self, at: &mut TableFaults) {
        if !self.distillation_token {
            return;
        }
        if self.pooling != Pooling::Class {
            let rule = "distillation_token = true needs a class token; set pooling = \"class\"";
            at.fault(&["distillation_token", "pooling"], rule);
        }
        let position = self.stack.position.facts();
        // If the scheme has no position for registers either, that is already reported.
        let said = self.n_registers > 0 && position.acts_on() != ActsOn::Embeddings;
        if position.text_counterpart().is_some() && !position.skips_prefix_tokens() && !said {
            let rule = "distillation_token = true has no position in the grid; use position = { kind = \"learned\" }";
            at.fault(&["distillation_token", "model.position.kind"], rule);
        }
    }
}

impl From<VisionConfig> for ModelConfig {
    fn from(config: VisionConfig) -> Self {
        Self::Vision(config)
    }
}
