//! The surroundings of a model, from which it is built.

use crate::data::Shape;
use burn::tensor::Device;

/// What a model learns about its surroundings when it is built.
#[derive(Clone, Copy, Debug)]
pub struct ModelInputs<'a> {
    /// Vocabulary, longest input, image size.
    pub shape: &'a Shape,
    /// Seed of the initial weights.
    pub seed: u64,
    /// Where parameters live.
    pub device: &'a Device,
}
