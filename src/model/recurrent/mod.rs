//! Recurrent networks: embeddings, layers of recurrent cells, and task-specific parts (Mikolov et al. 2010; Zaremba et
//! al. 2014, arXiv:1409.2329, for dropout between layers; Bahdanau et al. 2015 for text to text).
//!
//! One kind, three networks: a language model, a reader whose last state is the text's vector, and an encoder-decoder with
//! additive attention.

mod config;
pub mod encoder_decoder;
mod facts;

use super::decoder::DecoderInput;
use super::encoder::EncoderInput;
use super::heads::VocabularyHead;
use super::{BuildContext, LanguageModel};
use crate::nn::Kind;
use crate::nn::embed::Embedding;
use crate::nn::init::Init;
use crate::nn::pass::Pass;
use crate::nn::position::Span;
use crate::nn::recurrent::{Recurrent, Sequences};
use crate::nn::role::{Declaration, Place, Roles};
use crate::nn::state::{LayerState, StateUse};
use crate::nn::vocabulary::{TokenHead, TokenTables, TokenVectors};
use crate::stack::{BlockState, ModelState};
use burn::module::Module;
use burn::tensor::Tensor;

pub use config::RecurrentModelConfig;
pub(super) use config::USES;
pub use encoder_decoder::{RecurrentEncoderDecoder, RecurrentSource};

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "recurrent",
    summary: "Elman, GRU or LSTM layers: language model, text classifier, or encoder-decoder with additive attention",
    source: "Mikolov et al. 2010; Zaremba et al. 2014; Bahdanau et al. 2015",
    example: "kind = \"recurrent\"\ncell = { kind = \"lstm\" }\nn_layers = 2\nd_model = 256",
};

impl RecurrentModelConfig {
    fn builder<'a>(&self, inputs: &BuildContext<'a>) -> Init<'a> {
        Init::new(inputs.device, inputs.seed, &self.init, 1, 1.0)
    }

    fn embedding(&self, vocab: usize, name: &str, init: &Init) -> Embedding {
        Embedding::new(vocab, self.d_model, 1.0, None, &init.part(name))
    }

    /// The embedding and LM head of the tokens that are generated.
    fn tables(&self, vocab: usize) -> TokenTables<'static> {
        TokenTables {
            vocab,
            d_model: self.d_model,
            scale: 1.0,
            norm: None,
            tied: self.ties_embeddings(),
            head_bias: self.head_bias,
        }
    }

    /// Builds a language model; its parameters are drawn at their first use.
    pub fn language_model(&self, inputs: &BuildContext) -> RecurrentLm {
        let (init, vocab) = (self.builder(inputs), inputs.shape.vocab_size);
        let tables = self.tables(vocab);
        RecurrentLm {
            embedding: self.vocabulary.embedding(&tables, &init.part("embedding")),
            cells: Cells::new(self, self.d_model, &init.part("cells")),
            head: self.vocabulary.head(&tables, &init.part("head")),
        }
    }

    /// Builds a network that reads texts.
    pub fn reader(&self, inputs: &BuildContext) -> RecurrentReader {
        let (init, vocab) = (self.builder(inputs), inputs.shape.vocab_size);
        RecurrentReader {
            embedding: self.embedding(vocab, "embedding", &init),
            cells: Cells::new(self, self.d_model, &init.part("cells")),
        }
    }

    /// Builds an encoder-decoder.
    pub fn encoder_decoder(&self, inputs: &BuildContext) -> RecurrentEncoderDecoder {
        RecurrentEncoderDecoder::new(self, inputs)
    }
}

/// Places of the parameters of [`Cells`].
pub const ROLES: Roles = Roles::new("Cells", &[("layers", Declaration::Place(Place::Blocks))]);

/// Recurrent layers, each reading the hidden states of the one below.
#[derive(Module, Debug)]
pub struct Cells {
    /// The layers, from the one that reads the input.
    pub layers: Vec<Recurrent>,
    dropout: f64,
}

impl Cells {
    fn new(config: &RecurrentModelConfig, d_in: usize, init: &Init) -> Self {
        let d = config.d_model;
        let layer = |number: usize| {
            let d_in = if number == 0 { d_in } else { d };
            config.cell.init(d_in, d, &init.part(&number.to_string()))
        };
        Self {
            layers: (0..config.n_layers).map(layer).collect(),
            dropout: config.dropout,
        }
    }

    /// Returns the state before the first position.
    pub fn empty_state(&self) -> ModelState {
        let block = |_: &Recurrent| BlockState {
            own: LayerState::Recurrent(Vec::new()),
            ..BlockState::default()
        };
        ModelState::new(self.layers.iter().map(block).collect())
    }

    /// Computes the hidden states of the last layer, `[batch, seq, d_model]`, from the input of the first, `[batch, seq, d_in]`.
    pub fn forward(
        &self,
        x: Tensor<3>,
        sequences: &Sequences,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let seq = x.dims()[1];
        let states = state.map(|state| {
            state.seen += seq;
            state.layers.as_mut_slice()
        });
        pass.note_hidden(0, &x);
        let x = self.run_layers(x, states, |number, layer, x, own| {
            let x = pass.in_block(format_args!("layers.{number}"), || {
                let x = layer.advance(x, own, sequences);
                pass.dropout(x, "output", self.dropout)
            });
            pass.note_hidden(number + 1, &x);
            pass.note_layer(number + 1, &x);
            x
        });
        pass.note_last(&x);
        x
    }

    /// Computes one position, continuing from a state. The layers' outputs are not recorded for a watched pass, which would get
    /// them position by position.
    fn step(&self, x: Tensor<3>, state: &mut ModelState, pass: &Pass) -> Tensor<3> {
        state.seen += 1;
        let states = Some(state.layers.as_mut_slice());
        self.run_layers(x, states, |number, layer, x, own| {
            let x = pass.in_part(&format!("layers.{number}"), || {
                let x = layer.advance(x, own, &Sequences::default());
                pass.dropout(x, "output", self.dropout)
            });
            pass.note_hidden(number + 1, &x);
            x
        })
    }

    /// Runs `work` layer after layer, each with its state.
    fn run_layers(
        &self,
        mut x: Tensor<3>,
        states: Option<&mut [BlockState]>,
        work: impl Fn(usize, &Recurrent, Tensor<3>, Option<&mut LayerState>) -> Tensor<3>,
    ) -> Tensor<3> {
        let mut states = states.map(|states| states.iter_mut());
        for (number, layer) in self.layers.iter().enumerate() {
            let own = states.as_mut().and_then(Iterator::next);
            x = work(number, layer, x, own.map(|block| &mut block.own));
        }
        x
    }
}

/// Places of the parameters of [`RecurrentReader`].
pub const READER_ROLES: Roles = Roles::new(
    "RecurrentReader",
    &[("embedding", Declaration::Place(Place::Tokens))],
);

/// Embedding and recurrent layers, for tasks that read texts.
#[derive(Module, Debug)]
pub struct RecurrentReader {
    /// The embedding of tokens.
    pub embedding: Embedding,
    /// The recurrent layers.
    pub cells: Cells,
}

impl RecurrentReader {
    /// Computes the last layer's hidden states, `[batch, seq, d_model]`. After the end of a row its last state is repeated.
    pub fn forward(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        let sequences = Sequences {
            begins: None,
            lengths: input.lengths.map(Into::into),
        };
        let x = drop_embeddings(self.embedding.forward(input.ids), self.cells.dropout, pass);
        self.cells.forward(x, &sequences, None, pass)
    }

    /// Returns each text's vector: the hidden state after its last token, `[batch, d_model]`.
    pub fn pooled(&self, hidden: Tensor<3>) -> Tensor<2> {
        let [batch, seq, d] = hidden.dims();
        let last = hidden.slice([0..batch, seq - 1..seq, 0..d]);
        last.reshape([batch, d])
    }
}

/// Applies dropout to embedded tokens `[batch, seq, d_model]`.
fn drop_embeddings(x: Tensor<3>, dropout: f64, pass: &Pass) -> Tensor<3> {
    pass.dropout(x, "embedding", dropout)
}

/// Places of the parameters of [`RecurrentLm`].
pub const LM_ROLES: Roles = Roles::new(
    "RecurrentLm",
    &[
        ("embedding", Declaration::Place(Place::Tokens)),
        ("head", Declaration::Place(Place::TokenHead)),
    ],
);

/// A recurrent language model.
#[derive(Module, Debug)]
pub struct RecurrentLm {
    /// The embedding of tokens.
    pub embedding: TokenVectors,
    /// The recurrent layers.
    pub cells: Cells,
    /// The LM head's own parameters, besides those of the embedding.
    pub head: Option<TokenHead>,
}

impl LanguageModel for RecurrentLm {
    fn empty_state(&self, _: StateUse) -> ModelState {
        self.cells.empty_state()
    }

    fn max_len(&self) -> Option<usize> {
        None
    }

    fn has_bounded_state(&self) -> bool {
        true
    }

    /// Each document of a row starts from a zero state.
    fn forward(
        &self,
        input: DecoderInput,
        state: Option<&mut ModelState>,
        pass: &Pass,
    ) -> Tensor<3> {
        let offset = state.as_ref().map_or(0, |state| state.seen);
        let seq = input.ids.dims()[1];
        let span = Span {
            queries: seq,
            keys: offset + seq,
            offset,
        };
        let sequences = Sequences::from_visibility(&input.visible, span);
        let x = drop_embeddings(self.embedding.forward(input.ids), self.cells.dropout, pass);
        self.cells.forward(x, &sequences, state, pass)
    }

    fn vocabulary_head(&self) -> VocabularyHead<'_> {
        VocabularyHead {
            own: self.head.as_ref(),
            embedding: &self.embedding,
            bias: None,
            factor: 1.0,
            softcap: None,
        }
    }
}
