//! The memory of an optimizer: how many values it keeps for each parameter.

use super::OptimizerConfig;

/// Values that an optimizer keeps for each parameter, in 32-bit floats (Adam: 2 and 2).
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// Of the matrices of the blocks.
    pub matrices: usize,
    /// Of every other parameter.
    pub others: usize,
}

impl OptimizerConfig {
    /// Values that it keeps for each parameter.
    pub fn moments(&self) -> Moments {
        let (matrices, others) = match self {
            Self::Adamw(_) | Self::Adam(_) | Self::Lamb(_) => (2, 2),
            Self::Sgd(c) if c.momentum == 0.0 => (0, 0),
            Self::Sgd(_) | Self::Lion(_) => (1, 1),
            Self::Muon(_) => (1, 2),
            // Rows and columns instead of whole matrices.
            Self::Adafactor(_) => (0, 0),
        };
        Moments { matrices, others }
    }
}
