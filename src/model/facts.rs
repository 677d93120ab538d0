//! The facts of a network kind, which each kind implements in its own file.

use super::measures::ThroughputUnit;
use super::resnet::ResnetConfig;
use super::{Demand, ModelConfig, RecurrentModelConfig, RetrievalConfig, Transformer};
use crate::data::{Shape, SpeechShape};
use crate::faults::TableFaults;
use crate::nn::Kind;
use crate::nn::init::{InitConfig, InitSettings};
use crate::nn::position::Grid;
use crate::nn::vocabulary::VocabularyConfig;

/// Facts about a network, answered from its config.
pub trait NetworkFacts {
    /// Its entry in the list of model kinds.
    fn kind(&self) -> Kind;

    /// Width of the residual stream, or of the last feature map. For two networks it is that of the main one.
    fn d_model(&self) -> usize;

    /// Width of the hidden states that heads read.
    fn d_output(&self) -> usize {
        let transformer = self.transformer();
        transformer.map_or_else(|| self.d_model(), |model| model.stack.d_output())
    }

    /// Width of the pooled vector of a whole text or image.
    fn d_pooled(&self) -> usize {
        self.d_output()
    }

    /// Checks its own keys under a demand, without those that all transformers share. Returns the number of positions of its
    /// longest input, if it is known.
    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize>;

    /// How the initial weights of the network and of the heads on it are drawn.
    fn init_settings(&self) -> InitSettings {
        match self.transformer() {
            Some(model) => model.stack.init_settings(),
            None => InitConfig::default().into(),
        }
    }

    /// How tokens are embedded and scored, if the network has such keys.
    fn vocabulary(&self) -> Option<&VocabularyConfig> {
        None
    }

    /// Returns the model without the parts that are not read under a demand; `None` if it has no such parts.
    fn restricted_to(&self, _demand: &Demand) -> Option<ModelConfig> {
        None
    }

    /// Multiplications of a forward pass over one example of this shape under a demand, without a task's head. For a source and
    /// a target in one row, only the target is scored against the vocabulary; an encoder only computes hidden states.
    fn products(&self, demand: &Demand, shape: &Shape) -> f64;

    /// Number of positions of an input of this shape: those of each side for a pair, the sum for two networks, 1 for a network
    /// without positions.
    fn positions(&self, shape: &Shape) -> usize {
        let Some(parts) = self.parts() else {
            return shape.context;
        };
        let each = parts.networks.map(|(_, part)| part.tokens(shape));
        each[0].saturating_add(each[1])
    }

    /// Number of input tokens without a position: the registers of an image.
    fn tokens_without_position(&self) -> usize {
        0
    }

    /// The item in which speed and cost are counted.
    fn throughput_unit(&self) -> ThroughputUnit {
        ThroughputUnit::Token
    }

    /// Returns the network's transformer facts; `None` if it is no transformer.
    fn transformer(&self) -> Option<Transformer<'_>> {
        None
    }

    /// Number of encoder positions for an audio clip; `None` if the network reads no audio.
    fn encoder_positions(&self, _speech: SpeechShape) -> Option<usize> {
        None
    }

    /// Whether it reads segment ids of a text's tokens.
    fn reads_segments(&self) -> bool {
        false
    }

    /// Whether it has attention, in transformer blocks or elsewhere.
    fn has_attention(&self) -> bool {
        self.transformer().is_some()
    }

    /// Returns the config of the recurrent network; `None` if it is none.
    fn recurrent_config(&self) -> Option<&RecurrentModelConfig> {
        None
    }

    /// Returns the image facts of the network, or of its image network; `None` if it reads no images.
    fn image_facts(&self) -> Option<&dyn ImageFacts> {
        let [(_, image), _] = self.parts()?.networks;
        image.facts().image_facts()
    }

    /// The image and text networks that it is made of; `None` if it is a single network.
    fn parts(&self) -> Option<Parts<'_>> {
        None
    }

    /// The retrieval settings of a network that reads retrieved neighbours beside its text.
    fn retrieval(&self) -> Option<&RetrievalConfig> {
        None
    }

    /// The path of a gate that starts closed, if the network has one; parameters behind it do not learn while it stays closed.
    fn closed_gate(&self) -> Option<&'static str> {
        None
    }

    /// Number of parameters that a single token does not use, outside the networks that it is made of.
    fn inactive_parameters_between(&self) -> usize {
        0
    }

    /// Elements kept for each token for the backward pass, for a text network that is no transformer.
    fn activations_per_token(&self) -> Option<u128> {
        None
    }

    /// Elements kept for each token beyond those of the blocks, for a transformer that reads neighbours.
    fn neighbour_activations_per_token(&self) -> u128 {
        0
    }

    /// Elements kept for each example for the backward pass by parts between the two networks, or after the blocks of an image
    /// network. Blocks in stages are included; with `recompute` they keep only their inputs.
    fn activations_between(&self, _shape: &Shape, _recompute: bool) -> u128 {
        0
    }

    /// Elements that a pass keeps once for the backward pass, independent of its number of examples; with `recompute`, those of
    /// one block only.
    fn activations_per_pass(&self, shape: &Shape, recompute: bool) -> u128 {
        let networks = self.parts().map(|parts| parts.networks);
        let networks = networks.into_iter().flatten();
        let each = networks.map(|(_, part)| part.facts().activations_per_pass(shape, recompute));
        each.fold(0, u128::saturating_add)
    }

    /// Multiplications of a pass that do not depend on its number of examples. `products` includes them, as the cost of one
    /// example.
    fn products_per_pass(&self, shape: &Shape) -> f64 {
        let networks = self.parts().map(|parts| parts.networks);
        let networks = networks.into_iter().flatten();
        networks
            .map(|(_, part)| part.facts().products_per_pass(shape))
            .sum()
    }

    /// Number of blocks of each stage, for a network whose blocks form stages.
    fn stages(&self) -> Option<&[usize]> {
        None
    }

    /// Multiplications of the blocks for one example, for a network whose blocks form stages.
    fn products_in_stages(&self, _shape: &Shape) -> f64 {
        0.0
    }
}

/// Facts about a network that reads images.
pub trait ImageFacts {
    /// The grid of patches (or of feature map positions) of an image of this height and width, and the number of tokens before
    /// them.
    fn patches(&self, height: usize, width: usize) -> (Grid, usize);

    /// The names of the tokens before the patches, in their order.
    fn prefix_token_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// The grid of patches that its position scheme encodes; `None` if it has no positions.
    fn grid(&self, _height: usize, _width: usize) -> Option<Grid> {
        None
    }

    /// Whether its position table differs between images of these two sizes, `[height, width]`.
    fn resizes_positions(&self, one: [usize; 2], _other: [usize; 2]) -> bool {
        self.grid(one[0], one[1]).is_some()
    }

    /// The reason why images of this height and width cannot be read, if there is one, with the config table at fault:
    /// `stem`, or an empty string for the network's own.
    fn image_size_fault(&self, _height: usize, _width: usize) -> Option<(&'static str, String)> {
        None
    }

    /// Side in pixels of the patches, if patches are embedded by one matrix.
    fn patch_size(&self) -> Option<usize> {
        None
    }

    /// The config of its residual convolutional network, if it has one.
    fn convolutions(&self) -> Option<&ResnetConfig>;
}

/// The image and text networks that a model is made of.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// Both networks with the keys that hold them.
    pub networks: [(&'static str, &'a ModelConfig); 2],
    /// Splits a demand on the whole model into the demands on both networks.
    pub demands: fn(&Demand) -> [Demand; 2],
}
