//! What stands for a whole image: states of the last norm, as one vector.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What stands for the whole image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// A token of its own, before the patches.
    Class,
    /// The state of such a token beside the mean over the patches, twice as wide (Oquab et al. 2024, DINOv2, appendix B.3).
    ClassAndMean,
    /// The mean over the patches (Beyer et al. 2022).
    Mean,
    /// What a learned vector sees of the patches by attention of as many heads as the blocks have, through a feed-forward layer as the
    /// first block has one (SigLIP).
    Attention,
}

impl Pooling {
    /// Whether a token of its own stands before the patches.
    pub fn has_class_token(self) -> bool {
        match self {
            Self::Class | Self::ClassAndMean => true,
            Self::Mean | Self::Attention => false,
        }
    }

    /// Vectors of the network's width that stand beside each other.
    pub fn vectors(self) -> usize {
        match self {
            Self::ClassAndMean => 2,
            Self::Class | Self::Mean | Self::Attention => 1,
        }
    }
}
