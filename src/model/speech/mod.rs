//! An encoder-decoder that reads audio and writes text: Whisper (Radford et al. 2022, section 2.2).
//!
//! ```text
//! states = encoder(stem(features) + positions)      logits = decoder(tokens, states), with cross-attention to the states in every block
//! ```
//!
//! Features are log-mel spectrograms of one length. Clips are padded with silence, which the network reads like the rest. The loss
//! and the computation of features are elsewhere.

mod config;
mod facts;
pub mod stem;

pub use config::SpeechEncoderDecoderConfig;
pub use stem::{SpeechStem, SpeechStemConfig};

use super::heads::VocabularyHead;
use super::side::Side;
use super::source::Source;
use super::{BuildContext, ModelConfig, Use};
use crate::nn::Kind;
use crate::nn::attention::Visibility;
use crate::nn::pass::Pass;
use crate::nn::role::{BIAS, Declaration, Place, Roles, StackSide as NetworkSide};
use crate::nn::state::StateUse;
use crate::nn::vocabulary::{TokenHead, TokenVectors};
use crate::stack::ModelState;
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "speech_encoder_decoder",
    summary: "encoder of recordings after a convolutional stem, and a decoder that attends to it: Whisper",
    source: "Radford et al. 2022, Whisper",
    example: "kind = \"speech_encoder_decoder\"\nn_encoder_layers = 4\nn_decoder_layers = 4\nd_model = 128\nposition = { kind = \"learned\" }\nencoder_position = { kind = \"sinusoidal\", layout = \"halves\", endpoint = true }",
};

/// The uses that it serves.
pub(super) const USES: &[Use] = &[Use::SpeechToText];

/// Places of the parameters of [`SpeechEncoderDecoder`].
pub const ROLES: Roles = Roles::new(
    "SpeechEncoderDecoder",
    &[
        ("embedding", Declaration::Place(Place::Tokens)),
        ("head", Declaration::Place(Place::TokenHead)),
        ("stem", Declaration::Place(Place::Input)),
        ("stem", Declaration::Side(NetworkSide::Encoder)),
        ("encoder", Declaration::Side(NetworkSide::Encoder)),
        ("decoder", Declaration::Side(NetworkSide::Decoder)),
        ("head_bias", Declaration::Place(Place::TokenHead)),
        ("head_bias", BIAS),
    ],
);

/// An encoder-decoder that reads audio.
#[derive(Module, Debug)]
pub struct SpeechEncoderDecoder {
    /// The embedding of tokens.
    pub embedding: TokenVectors,
    /// The convolutions from audio features to the encoder's input.
    pub stem: SpeechStem,
    /// The encoder.
    pub encoder: Side,
    /// The decoder.
    pub decoder: Side,
    /// The LM head's own parameters, besides those of the embedding.
    pub head: Option<TokenHead>,
    /// Bias added to the logits of a tied head, `[vocab]`.
    pub head_bias: Option<Param<Tensor<1>>>,
    dropout: f64,
    head_factor: f64,
}

impl SpeechEncoderDecoder {
    /// Builds the network of a config; `None` if the config is of another kind, or the inputs have no audio.
    pub fn new(model: &ModelConfig, inputs: &BuildContext) -> Option<Self> {
        match model {
            ModelConfig::SpeechEncoderDecoder(c) => c.init(inputs),
            _ => None,
        }
    }

    /// Returns the decoder's state before the first call.
    pub fn empty_state(&self, of: StateUse) -> ModelState {
        self.decoder.stack.empty_state(of)
    }

    /// The longest text that the decoder's position scheme can encode, if there is a limit.
    pub fn max_len(&self) -> Option<usize> {
        self.decoder.position.scheme().max_len()
    }

    /// Encodes log-mel features `[batch, n_mels, frames]`.
    pub fn encode(&self, features: Tensor<3>, pass: &Pass) -> Source {
        let states = pass.in_network("encoder", || {
            let x = self.stem.forward(features);
            let visible = Visibility::default();
            self.encoder
                .forward(x, self.dropout, &visible, None, None, pass)
        });
        Source {
            states,
            lengths: None,
        }
    }

    /// Computes hidden states `[batch, seq, d_model]` of token ids `[batch, seq]`; each token sees those before it and the whole
    /// clip. `state` continues where its last call ended.
    pub fn decode(
        &self,
        ids: Tensor<2, Int>,
        source: &Source,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let x = self.embedding.forward(ids);
        self.decoder.decode(x, self.dropout, source, state, pass)
    }

    /// Returns the LM head.
    pub fn vocabulary_head(&self) -> VocabularyHead<'_> {
        VocabularyHead {
            own: self.head.as_ref(),
            embedding: &self.embedding,
            bias: self.head_bias.as_ref(),
            factor: self.head_factor,
            softcap: None,
        }
    }
}
