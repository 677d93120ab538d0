//! A recurrent encoder-decoder with additive attention (Bahdanau et al. 2015, arXiv:1409.0473).
//!
//! Before each token the decoder attends to the source with its state s: c = attention(s, source). Its cells read the last
//! token's vector and c, and the next token is predicted from tanh(W [s'; c; token]). Unlike the paper's, the encoder reads
//! in one direction only, and its final states are the decoder's initial ones (Sutskever et al. 2014).

use super::{Cells, RecurrentModelConfig, drop_embeddings};
use crate::model::BuildContext;
use crate::model::heads::VocabularyHead;
use crate::nn::init::MatrixRole;
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::recurrent::additive::AdditiveMemory;
use crate::nn::recurrent::{AdditiveAttention, Sequences};
use crate::nn::role::{Declaration, Place, Roles};
use crate::nn::state::LayerState;
use crate::nn::vocabulary::{TokenHead, TokenVectors};
use crate::stack::ModelState;
use burn::module::Module;
use burn::tensor::{Int, Tensor};

/// Places of the parameters of [`RecurrentEncoderDecoder`].
pub const ROLES: Roles = Roles::new(
    "RecurrentEncoderDecoder",
    &[
        ("embedding", Declaration::Place(Place::Tokens)),
        ("source_embedding", Declaration::Place(Place::SourceTokens)),
        ("attention", Declaration::Place(Place::Mixer)),
        ("readout", Declaration::Place(Place::Head)),
        ("head", Declaration::Place(Place::TokenHead)),
    ],
);

/// A recurrent encoder-decoder.
#[derive(Module, Debug)]
pub struct RecurrentEncoderDecoder {
    /// The embedding of target tokens, and of source tokens if they share it.
    pub embedding: TokenVectors,
    /// The embedding of source tokens, if it is not shared.
    pub source_embedding: Option<TokenVectors>,
    /// The encoder's layers.
    pub encoder: Cells,
    /// The decoder's layers; their input is a token's vector and the attention's output.
    pub decoder: Cells,
    /// Attention from the decoder's last layer to the encoder's.
    pub attention: AdditiveAttention,
    /// Map from state, attention output and token vector to the LM head's input, `[d_model, 3 · d_model]`.
    pub readout: Linear,
    /// The LM head's own parameters, besides those of the embedding.
    pub head: Option<TokenHead>,
    dropout: f64,
}

/// An encoded source.
#[derive(Clone, Debug)]
pub struct RecurrentSource {
    memory: AdditiveMemory,
    /// The decoder's initial state.
    pub state: ModelState,
}

impl RecurrentSource {
    /// Selects rows: row i becomes that of `rows[i]`.
    pub fn select(&self, rows: &Tensor<1, Int>) -> Self {
        let mut state = self.state.clone();
        state.select(rows);
        Self {
            memory: self.memory.select(rows),
            state,
        }
    }
}

impl RecurrentEncoderDecoder {
    pub(super) fn new(config: &RecurrentModelConfig, inputs: &BuildContext) -> Self {
        let (init, shape, d) = (config.builder(inputs), inputs.shape, config.d_model);
        let source = shape.source_vocab_size.unwrap_or(shape.vocab_size);
        let tables = config.tables(shape.vocab_size);
        Self {
            embedding: config
                .vocabulary
                .embedding(&tables, &init.part("embedding")),
            source_embedding: (!config.shares_embedding())
                .then(|| TokenVectors::Full(config.embedding(source, "source_embedding", &init))),
            encoder: Cells::new(config, d, &init.part("encoder")),
            decoder: Cells::new(config, 2 * d, &init.part("decoder")),
            attention: AdditiveAttention::new([d, d, d], &init.part("attention")),
            readout: Linear::new(3 * d, d, true, MatrixRole::Inner, &init.part("readout")),
            head: config.vocabulary.head(&tables, &init.part("head")),
            dropout: config.dropout,
        }
    }

    /// Encodes source ids `[batch, source]` whose rows have these lengths.
    pub fn encode(
        &self,
        ids: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        pass: &Pass,
    ) -> RecurrentSource {
        let embedding = self.source_embedding.as_ref().unwrap_or(&self.embedding);
        let mut state = self.encoder.empty_state();
        let sequences = Sequences {
            begins: None,
            lengths: lengths.as_deref().map(Into::into),
        };
        let states = pass.in_network("encoder", || {
            let x = drop_embeddings(embedding.forward(ids), self.dropout, pass);
            self.encoder.forward(x, &sequences, Some(&mut state), pass)
        });
        // Positions of the target are counted from the target's beginning.
        state.seen = 0;
        RecurrentSource {
            memory: self.attention.memory(states, lengths.as_deref()),
            state,
        }
    }

    /// Computes the LM head's input `[batch, seq, d_model]` for target ids `[batch, seq]`. `state` is the source's at the
    /// beginning of a target, and continues where its last call ended.
    pub fn decode(
        &self,
        ids: Tensor<2, Int>,
        source: &RecurrentSource,
        state: &mut ModelState,
        pass: &Pass,
    ) -> Tensor<3> {
        pass.in_network("decoder", || {
            let [batch, seq] = ids.dims();
            let tokens = drop_embeddings(self.embedding.forward(ids), self.dropout, pass);
            let d = tokens.dims()[2];
            pass.note_hidden(0, &tokens);
            let mut read = Vec::with_capacity(seq);
            for at in 0..seq {
                let token = tokens.clone().slice([0..batch, at..at + 1, 0..d]);
                let seen = self.attention.forward(query(state), &source.memory, pass);
                let seen = seen.unsqueeze_dim::<3>(1);
                let x = Tensor::cat(vec![token.clone(), seen.clone()], 2);
                // Each position has its own random draws.
                let h = pass.in_part(&format!("position {}", state.seen), || {
                    self.decoder.step(x, state, pass)
                });
                read.push(Tensor::cat(vec![h, seen, token], 2));
            }
            let x = self.readout.forward(Tensor::cat(read, 1)).tanh();
            pass.note_last(&x);
            x
        })
    }

    /// Returns the LM head.
    pub fn vocabulary_head(&self) -> VocabularyHead<'_> {
        VocabularyHead {
            own: self.head.as_ref(),
            embedding: &self.embedding,
            bias: None,
            factor: 1.0,
            softcap: None,
        }
    }
}

/// Returns the hidden state h of the decoder's last layer, the query of attention.
fn query(state: &ModelState) -> Tensor<2> {
    match state.layers.last().map(|block| &block.own) {
        Some(LayerState::Recurrent(vectors)) if !vectors.is_empty() => vectors[0].clone(),
        _ => unreachable!("a source that was read leaves a state in every layer"),
    }
}
