//! The generator of replaced-token detection: a small masked language model beside the encoder that is trained (Clark et
//! al. 2020, ELECTRA, section 3.1). Its config is the encoder's, with smaller widths.
//!
//! With shared tables it reads the encoder's normalised embeddings of tokens, segments and positions and
//! projects them onto its width (section 3.2). Otherwise it is a complete, separate encoder.

mod shape;

use super::BuildContext;
use super::encoder::{Encoder, EncoderConfig, EncoderInput, MasksAndPositions};
use super::heads::MlmHead;
use super::mask_decoder::MaskDecoder;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::position::{ActsOn, Position, Span};
use crate::nn::role::{Declaration, Place, Roles, StackSide};
use crate::rng;
use crate::stack::{Stack, StackContext, StackShape};
use burn::module::Module;
use burn::tensor::Tensor;
pub use shape::{GeneratorShape, TableSharing};

/// Name of the generator in keys of random draws and in readings.
pub const NAME: &str = "generator";

impl GeneratorShape {
    /// Builds the generator of an encoder; its parameters are drawn at their first use, with a seed of their own.
    pub fn init(&self, encoder: &EncoderConfig, inputs: &BuildContext) -> Generator {
        let config = self.config(encoder);
        let inputs = BuildContext {
            seed: rng::part_coordinate(inputs.seed, NAME),
            ..*inputs
        };
        let network = match self.tables {
            TableSharing::Shared => GeneratorNetwork::Shared(Blocks::new(&config, &inputs)),
            TableSharing::Unshared | TableSharing::Disentangled => {
                GeneratorNetwork::Own(config.init(&inputs))
            }
        };
        let init = Init::of_heads(inputs.device, inputs.seed, config.stack.init_settings());
        let own = self.tables != TableSharing::Shared;
        Generator {
            mask_decoder: MaskDecoder::build(&config, &inputs).filter(|_| own),
            network,
            head: MlmHead::new(&config, inputs.shape.vocab_size, &init),
        }
    }
}

/// Places of the parameters of [`Generator`].
pub const ROLES: Roles = Roles::new(
    "Generator",
    &[
        ("network", Declaration::Side(StackSide::Generator)),
        ("mask_decoder", Declaration::Side(StackSide::Generator)),
        ("mask_decoder", Declaration::Place(Place::Head)),
        ("head", Declaration::Side(StackSide::Generator)),
    ],
);

/// Places of the parameters of [`Blocks`].
pub const BLOCKS_ROLES: Roles = Roles::new(
    "Blocks",
    &[
        ("projection", Declaration::Place(Place::Input)),
        ("position", Declaration::Place(Place::Position)),
    ],
);

/// A small masked language model.
#[derive(Module, Debug)]
pub struct Generator {
    /// The network from tokens to hidden states.
    pub network: GeneratorNetwork,
    /// The decoder that adds positions of masked tokens before the head, if there is one.
    pub mask_decoder: Option<MaskDecoder>,
    /// The head for masked tokens.
    pub head: MlmHead,
}

/// The network of a generator.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them, and it holds its tensors elsewhere"
)]
pub enum GeneratorNetwork {
    /// Blocks that read the embeddings of the encoder that is trained.
    Shared(Blocks),
    /// A separate encoder.
    Own(Encoder),
}

/// Blocks that read another network's embeddings.
#[derive(Module, Debug)]
pub struct Blocks {
    /// Projection from the embeddings' width to the blocks'; none if the widths are equal.
    pub projection: Option<Linear>,
    /// The position scheme that acts inside blocks; none if positions are part of the embeddings.
    pub position: Option<Position>,
    /// The blocks.
    pub stack: Stack,
}

impl Blocks {
    fn new(config: &EncoderConfig, inputs: &BuildContext) -> Self {
        let (stack, depth) = (&config.stack, config.depth());
        let (d, blocks) = (stack.d_model, depth.blocks());
        let (alpha, beta) = stack.norm_placement.alpha_beta(blocks);
        let init = Init::new(
            inputs.device,
            inputs.seed,
            stack.init_settings(),
            2 * blocks,
            beta,
        );
        let places = stack.position_shape(&depth, inputs.shape.context);
        let shape = StackShape {
            config: stack,
            depth,
            alpha,
            context: inputs.shape.context,
            d_memory: None,
        };
        let acts_inside = stack.position.facts().acts_on() != ActsOn::Embeddings;
        Self {
            projection: config.d_embedding.map(|wide| {
                Linear::new(wide, d, true, MatrixRole::Inner, &init.part("projection"))
            }),
            position: acts_inside.then(|| stack.position.init(&places, &init.part("position"))),
            stack: Stack::new(&shape, &init.part("stack")),
        }
    }

    /// Computes hidden states from another network's embeddings `x`; `position` is that network's position scheme.
    fn forward(
        &self,
        x: Tensor<3>,
        seen: &MasksAndPositions,
        position: &Position,
        pass: &Pass,
    ) -> Tensor<3> {
        let x = match &self.projection {
            Some(projection) => projection.forward(x),
            None => x,
        };
        let context = StackContext {
            position: self.position.as_ref().unwrap_or(position),
            token_positions: &seen.positions,
            span: Span::full(x.dims()[1]),
            visible: &seen.visible,
            state: None,
            memory: None,
            before_blocks: None,
            pass,
        };
        self.stack.forward(x, context)
    }
}

impl Generator {
    /// Computes hidden states `[batch, seq, width]` of masked texts; `encoder` is the network that is trained.
    pub fn forward(&self, input: EncoderInput, encoder: &Encoder, pass: &Pass) -> Tensor<3> {
        pass.in_network(NAME, || match &self.network {
            GeneratorNetwork::Own(network) => {
                let seen = input.masks_and_positions();
                let x = network.embed(input, pass);
                match &self.mask_decoder {
                    Some(decoder) => decoder.forward(network, x, &seen, pass),
                    None => network.run_blocks(x, &seen, pass),
                }
            }
            GeneratorNetwork::Shared(blocks) => {
                let seen = input.masks_and_positions();
                let x = encoder.embed(input, pass);
                blocks.forward(x, &seen, &encoder.position, pass)
            }
        })
    }

    /// Computes logits `[n, vocab]` from the hidden states of some positions, `[1, n, width]`.
    pub fn logits(&self, hidden: Tensor<3>, encoder: &Encoder) -> Tensor<2> {
        let tables = match &self.network {
            GeneratorNetwork::Own(network) => network,
            GeneratorNetwork::Shared(_) => encoder,
        };
        self.head.forward(hidden, tables)
    }

    /// Returns its own encoder, if it has one.
    pub fn own_network(&self) -> Option<&Encoder> {
        match &self.network {
            GeneratorNetwork::Own(network) => Some(network),
            GeneratorNetwork::Shared(_) => None,
        }
    }
}
