//! The inputs from which a model is built besides its config.

use crate::data::Shape;
use burn::tensor::Device;

/// The facts about data, seed and device that a model needs when it is built.
#[derive(Clone, Copy, Debug)]
pub struct BuildContext<'a> {
    /// Vocabulary size, longest input, image size.
    pub shape: &'a Shape,
    /// Seed of the initial weights.
    pub seed: u64,
    /// The device of the parameters.
    pub device: &'a Device,
}
