//! The kinds of `[optimizer]`, and their properties.

use super::OptimizerConfig;
use crate::nn::Kind;

/// The kinds of `[optimizer]`.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "adamw",
        summary: "Adam with decoupled weight decay",
        source: "Loshchilov and Hutter 2019",
        example: "kind = \"adamw\"\nlr = 1e-3\nbetas = [0.9, 0.95]\nweight_decay = 0.1",
    },
    Kind {
        kind: "adam",
        summary: "adaptive moments; weight decay as an L2 penalty",
        source: "Kingma and Ba 2015",
        example: "kind = \"adam\"\nlr = 1e-3",
    },
    Kind {
        kind: "sgd",
        summary: "gradient descent with momentum",
        source: "Sutskever et al. 2013",
        example: "kind = \"sgd\"\nlr = 0.1\nmomentum = 0.9",
    },
    Kind {
        kind: "lion",
        summary: "sign of the momentum",
        source: "Chen et al. 2023",
        example: "kind = \"lion\"\nlr = 1e-4\nweight_decay = 1.0",
    },
    Kind {
        kind: "adafactor",
        summary: "factored second moments of rows and columns",
        source: "Shazeer and Stern 2018",
        example: "kind = \"adafactor\"\nlr = 1e-2",
    },
    Kind {
        kind: "lamb",
        summary: "Adam with steps proportional to each parameter's norm",
        source: "You et al. 2020",
        example: "kind = \"lamb\"\nlr = 2e-3",
    },
    Kind {
        kind: "muon",
        summary: "orthogonalised momentum for the blocks' matrices, AdamW for the rest",
        source: "Jordan et al. 2024",
        example: "kind = \"muon\"\nlr = 0.02\nadamw_lr = 3e-4",
    },
    Kind {
        kind: "radam",
        summary: "Adam with rectified variance in the first steps",
        source: "Liu et al. 2020",
        example: "kind = \"radam\"\nlr = 1e-3\nweight_decay = 0.1",
    },
    Kind {
        kind: "nadam",
        summary: "Adam with Nesterov's momentum",
        source: "Dozat 2016",
        example: "kind = \"nadam\"\nlr = 1e-3\nweight_decay = 0.1",
    },
    Kind {
        kind: "adopt",
        summary: "Adam that divides a gradient by the second moment of earlier gradients",
        source: "Taniguchi et al. 2024",
        example: "kind = \"adopt\"\nlr = 1e-3\nweight_decay = 0.1",
    },
    Kind {
        kind: "ademamix",
        summary: "Adam with a fast and a slow mean of gradients",
        source: "Pagliardini et al. 2024",
        example: "kind = \"ademamix\"\nlr = 1e-3\nalpha = 8.0\nslow_warmup = 10_000\nweight_decay = 0.1",
    },
    Kind {
        kind: "schedule_free",
        summary: "AdamW at a constant learning rate; evaluations use the average of the weights",
        source: "Defazio et al. 2024",
        example: "kind = \"schedule_free\"\nlr = 2.5e-3\nweight_decay = 0.1",
    },
    Kind {
        kind: "soap",
        summary: "Adam in the eigenbasis of Shampoo's preconditioners",
        source: "Vyas et al. 2024",
        example: "kind = \"soap\"\nlr = 3e-3\nprecondition_frequency = 10\nweight_decay = 0.1",
    },
];

impl OptimizerConfig {
    /// Returns whether the size of each element's step is set by the learning rate and not by the size of the
    /// gradients. RAdam's first few steps are an exception.
    pub fn has_rate_bound_steps(&self) -> bool {
        !matches!(
            self,
            Self::Sgd(_) | Self::Adafactor(_) | Self::Lamb(_) | Self::Muon(_) | Self::Soap(_)
        )
    }

    /// Returns whether weight decay is decoupled from the gradient.
    pub fn has_decoupled_decay(&self) -> bool {
        !matches!(self, Self::Adam(_) | Self::Sgd(_))
    }

    /// Returns whether any parameter has weight decay.
    pub fn has_weight_decay(&self) -> bool {
        let common = self.common();
        let of_groups = common.groups.iter().filter_map(|group| group.weight_decay);
        common.weight_decay != 0.0 || of_groups.into_iter().any(|decay| decay != 0.0)
    }

    /// Returns whether weights and moments are updated in place on a GPU, as replayed steps require.
    pub fn updates_in_place(&self) -> bool {
        let together = self.updated_whole();
        let apart = !together.matrices && !together.others;
        apart && !matches!(self, Self::ScheduleFree(_))
    }
}
