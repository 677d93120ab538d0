//! The facts of a kind of network: each kind says its own, in its own file.

use super::measures::ItemOf;
use super::resnet::ResnetConfig;
use super::{Demand, ModelConfig, RecurrentModelConfig, RetrievalConfig, Transformer};
use crate::data::{Shape, SpeechShape};
use crate::faults::TableFaults;
use crate::nn::Kind;
use crate::nn::init::{InitConfig, Initial};
use crate::nn::position::Grid;
use crate::nn::vocabulary::VocabularyConfig;

/// The answers of a network's config.
pub trait NetworkFacts {
    /// Its row of the family's table.
    fn kind(&self) -> Kind;

    /// Width of the residual stream, or of the last feature map; of two networks that of the one whose stream goes on.
    fn d_model(&self) -> usize;

    /// Width of the states that heads read.
    fn d_output(&self) -> usize {
        let transformer = self.transformer();
        transformer.map_or_else(|| self.d_model(), |model| model.stack.d_output())
    }

    /// Width of a whole text's or an image's vector.
    fn d_pooled(&self) -> usize {
        self.d_output()
    }

    /// Faults of its own keys under a demand; the positions of its longest input, when they are known. The keys that all
    /// transformers have are not among them.
    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize>;

    /// How its initial weights are drawn, and those of heads on it.
    fn initial(&self) -> Initial {
        match self.transformer() {
            Some(model) => model.stack.init(),
            None => InitConfig::default().into(),
        }
    }

    /// How tokens are embedded and scored, where keys say so.
    fn vocabulary(&self) -> Option<&VocabularyConfig> {
        None
    }

    /// The model without the parts that nothing reads under a demand; `None` when it has no such parts.
    fn under(&self, _demand: &Demand) -> Option<ModelConfig> {
        None
    }

    /// Multiplications of a forward pass over one example of this shape under a demand, without those of a task's head. Of a
    /// source and a target in one row the target alone is scored against the vocabulary; an encoder gives states.
    fn products(&self, demand: &Demand, shape: &Shape) -> f64;

    /// Positions that an input of this shape has, of a pair each side, of two networks both together; 1 of a network that
    /// has none.
    fn positions(&self, shape: &Shape) -> usize {
        let Some(parts) = self.parts() else {
            return shape.context;
        };
        let each = parts.networks.map(|(_, part)| part.tokens(shape));
        each[0].saturating_add(each[1])
    }

    /// Positions of an input that have no place: the registers of an image.
    fn unplaced(&self) -> usize {
        0
    }

    /// What speed and cost are counted in.
    fn item(&self) -> ItemOf {
        ItemOf::Token
    }

    /// What it is as a transformer; `None` when it is none.
    fn transformer(&self) -> Option<Transformer<'_>> {
        None
    }

    /// Positions that the stack which reads has of a recording; `None` of a network that reads none.
    fn heard(&self, _speech: SpeechShape) -> Option<usize> {
        None
    }

    /// Whether it reads the segments of the tokens of a text.
    fn reads_segments(&self) -> bool {
        false
    }

    /// Whether it has attention, in blocks of a transformer or otherwise.
    fn attends(&self) -> bool {
        self.transformer().is_some()
    }

    /// What it is as a network of recurrent cells; `None` when it is none.
    fn cells(&self) -> Option<&RecurrentModelConfig> {
        None
    }

    /// What it is as a network that reads images, or what its network for images is; `None` when it reads none.
    fn of_images(&self) -> Option<&dyn ImageFacts> {
        let [(_, image), _] = self.parts()?.networks;
        image.facts().of_images()
    }

    /// The networks that it is made of; `None` when it is one.
    fn parts(&self) -> Option<Parts<'_>> {
        None
    }

    /// The neighbours that it reads beside its texts, when it reads some.
    fn retrieval(&self) -> Option<&RetrievalConfig> {
        None
    }

    /// The path of a gate that begins closed, of a network that has some: nothing behind it learns while it stays so.
    fn closed_gate(&self) -> Option<&'static str> {
        None
    }

    /// Parameters that a token does not use, outside the networks that it is made of.
    fn unused_between(&self) -> usize {
        0
    }

    /// Numbers that are kept of each token for the backward pass, of a network that reads texts and is no transformer.
    fn kept(&self) -> Option<u128> {
        None
    }

    /// Numbers that are kept of each token beyond those of its blocks, of a transformer that reads neighbours.
    fn kept_of_neighbours(&self) -> u128 {
        0
    }

    /// Numbers that what stands between its networks, or behind the blocks of a network for images, keeps of an example for the
    /// backward pass. Blocks in stages are among them, which keep their inputs alone with `recompute`.
    fn kept_between(&self, _shape: &Shape, _recompute: bool) -> u128 {
        0
    }

    /// Numbers that a pass keeps for the backward pass once, however many examples it reads; of one block alone with `recompute`.
    fn kept_once(&self, shape: &Shape, recompute: bool) -> u128 {
        let networks = self.parts().map(|parts| parts.networks);
        let networks = networks.into_iter().flatten();
        let each = networks.map(|(_, part)| part.facts().kept_once(shape, recompute));
        each.fold(0, u128::saturating_add)
    }

    /// Multiplications that a pass makes once, however many examples it reads: `products` has them, as one example costs them.
    fn products_once(&self, shape: &Shape) -> f64 {
        let networks = self.parts().map(|parts| parts.networks);
        let networks = networks.into_iter().flatten();
        networks
            .map(|(_, part)| part.facts().products_once(shape))
            .sum()
    }

    /// The blocks of each stage, of a network whose blocks stand in stages.
    fn stages(&self) -> Option<&[usize]> {
        None
    }

    /// Multiplications of the blocks of an example, of a network whose blocks stand in stages.
    fn products_in_stages(&self, _shape: &Shape) -> f64 {
        0.0
    }
}

/// The facts of a network that reads images.
pub trait ImageFacts {
    /// The patches of an image of this height and width, or the places of a feature map, and the tokens before them.
    fn patches(&self, height: usize, width: usize) -> (Grid, usize);

    /// The names of the tokens before the patches, in their order.
    fn tokens_before(&self) -> Vec<String> {
        Vec::new()
    }

    /// The patches that positions are told of; `None` when it has no positions.
    fn grid(&self, _height: usize, _width: usize) -> Option<Grid> {
        None
    }

    /// Whether a table of it that is made for images of one height and width is another one for images of the other.
    fn resizes(&self, one: [usize; 2], _other: [usize; 2]) -> bool {
        self.grid(one[0], one[1]).is_some()
    }

    /// The reason why images of this height and width cannot be read, if there is one, and the table of the network that says so:
    /// `stem`, or none for its own.
    fn misfit(&self, _height: usize, _width: usize) -> Option<(&'static str, String)> {
        None
    }

    /// The side in pixels of patches that are multiplied by one matrix, where it reads images so.
    fn patch_size(&self) -> Option<usize> {
        None
    }

    /// Its residual network, where it has one.
    fn convolutions(&self) -> Option<&ResnetConfig>;
}

/// A network for images and one for texts that a model is made of.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// Both with the keys that hold them.
    pub networks: [(&'static str, &'a ModelConfig); 2],
    /// The demands on both of a demand on the whole.
    pub demands: fn(&Demand) -> [Demand; 2],
}
