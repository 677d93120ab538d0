//! An encoder-decoder that reads recordings and writes texts: Whisper (Radford et al. 2022, section 2.2).
//!
//! ```text
//! states = encoder(stem(features) + positions)      logits = decoder(tokens, where every block looks at the states)
//! ```
//!
//! Features are log-mel spectrograms of one length. What fills a recording up is silence, and is read as the rest is. Not here: the
//! loss, and how recordings become features.

mod config;
mod facts;
pub mod stem;

pub use config::SpeechEncoderDecoderConfig;
pub use stem::{SpeechStem, SpeechStemConfig};

use super::heads::VocabularyHead;
use super::side::Side;
use super::source::Source;
use super::{ModelConfig, ModelInputs, Use};
use crate::nn::Kind;
use crate::nn::attention::Visibility;
use crate::nn::pass::Pass;
use crate::nn::role::{BIAS, Place, Roles, Says, Side as NetworkSide};
use crate::nn::state::StateUse;
use crate::nn::vocabulary::{TokenHead, TokenVectors};
use crate::stack::ModelState;
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "speech_encoder_decoder",
    summary: "an encoder of recordings behind a stem of convolutions, and a decoder that looks at it: Whisper",
    source: "Radford et al. 2022, Whisper",
    example: "kind = \"speech_encoder_decoder\"\nn_encoder_layers = 4\nn_decoder_layers = 4\nd_model = 128\nposition = { kind = \"learned\" }\nencoder_position = { kind = \"sinusoidal\", layout = \"halves\", endpoint = true }",
};

/// The uses that it serves.
pub(super) const USES: &[Use] = &[Use::SpeechToText];

/// What the parameters of [`SpeechEncoderDecoder`] are.
pub const ROLES: Roles = Roles::new(
    "SpeechEncoderDecoder",
    &[
        ("embedding", Says::Stands(Place::Tokens)),
        ("head", Says::Stands(Place::TokenHead)),
        ("stem", Says::Stands(Place::Input)),
        ("stem", Says::In(NetworkSide::Reads)),
        ("encoder", Says::In(NetworkSide::Reads)),
        ("decoder", Says::In(NetworkSide::Writes)),
        ("head_bias", Says::Stands(Place::TokenHead)),
        ("head_bias", BIAS),
    ],
);

/// An encoder-decoder that reads recordings.
#[derive(Module, Debug)]
pub struct SpeechEncoderDecoder {
    /// Token vectors.
    pub embedding: TokenVectors,
    /// From features to vectors.
    pub stem: SpeechStem,
    /// What reads.
    pub encoder: Side,
    /// What writes.
    pub decoder: Side,
    /// The parameters of the product onto the vocabulary beside those of its vectors.
    pub head: Option<TokenHead>,
    /// Added to the scores of a tied product, `[vocab]`.
    pub head_bias: Option<Param<Tensor<1>>>,
    dropout: f64,
    head_factor: f64,
}

impl SpeechEncoderDecoder {
    /// The network of a config; `None` when the config is of another kind, or the inputs have no recordings.
    pub fn new(model: &ModelConfig, inputs: &ModelInputs) -> Option<Self> {
        match model {
            ModelConfig::SpeechEncoderDecoder(c) => c.init(inputs),
            _ => None,
        }
    }

    /// What the decoder keeps between calls, before the first one.
    pub fn empty_state(&self, of: StateUse) -> ModelState {
        self.decoder.stack.empty_state(of)
    }

    /// The longest text that the decoder can place, when it has a limit.
    pub fn max_len(&self) -> Option<usize> {
        self.decoder.position.scheme().max_len()
    }

    /// Reads log-mel features `[batch, n_mels, frames]`.
    pub fn encode(&self, features: Tensor<3>, pass: &Pass) -> Source {
        let states = pass.within("encoder", || {
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

    /// Hidden states `[batch, seq, d_model]` of token ids `[batch, seq]`, each seeing those before it and the whole recording;
    /// `state` continues where its last call ended.
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

    /// The product onto the vocabulary.
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
