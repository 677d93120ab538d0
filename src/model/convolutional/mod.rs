//! The convolutional reader of texts (Collobert et al. 2011, JMLR 12; Kim 2014, arXiv:1408.5882): a text classification
//! baseline without attention or recurrence.
//!
//! Every position has features of the token windows around it, with several window widths:
//!
//! ```text
//! h_w[i] = act(W_w [x_{i−⌊(w−1)/2⌋}; …; x_{i+⌊w/2⌋}] + b_w)      hidden[i] = [h_{w₁}[i]; h_{w₂}[i]; …]
//! ```
//!
//! with zeros before the beginning and after the end of a text (PyTorch's `padding="same"`). A text's vector is the maximum of
//! each feature over all positions, so that a head knows whether a phrase occurs, but not where.

mod config;
mod facts;

use super::encoder::EncoderInput;
use super::text::max_pool;
use super::{BuildContext, Use};
use crate::kernel::replay;
use crate::nn::Kind;
use crate::nn::embed::Embedding;
use crate::nn::feed_forward::Activation;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::padding;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles};
use burn::module::Module;
use burn::tensor::ops::PadMode;
use burn::tensor::{Tensor, TensorData};

pub use config::ConvolutionalConfig;

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "convolutional",
    summary: "convolutions over windows of tokens, pooled over a text: a baseline for tasks on whole texts",
    source: "Collobert et al. 2011; Kim 2014",
    example: "kind = \"convolutional\"\nd_model = 300\nwidths = [3, 4, 5]\nfilters = 100",
};

/// The uses that it serves.
pub(super) const USES: &[Use] = &[
    Use::TextClasses,
    Use::TextRegression,
    Use::TextEmbeddings,
    Use::TokenClasses,
    Use::Spans,
];

/// Places of the parameters of [`Convolutional`].
pub const ROLES: Roles = Roles::new(
    "Convolutional",
    &[
        ("embedding", Declaration::Place(Place::Tokens)),
        ("windows", Declaration::Place(Place::Blocks)),
    ],
);

/// A convolutional reader of texts.
#[derive(Module, Debug)]
pub struct Convolutional {
    /// The embedding of tokens.
    pub embedding: Embedding,
    /// The filters of each window width, `[filters, width · d_model]`: the window's tokens one after another.
    pub windows: Vec<Linear>,
    /// Window width of each map, in tokens.
    widths: Vec<usize>,
    #[module(skip)]
    activation: Activation,
    dropout: f64,
}

impl ConvolutionalConfig {
    /// Builds the network; its parameters are drawn at their first use.
    pub fn init(&self, inputs: &BuildContext) -> Convolutional {
        let init = Init::new(inputs.device, inputs.seed, &self.init, 1, 1.0);
        let (vocab, d) = (inputs.shape.vocab_size, self.d_model);
        let window = |(number, width): (usize, &usize)| {
            let init = init.part("windows").part(&number.to_string());
            Linear::new(width * d, self.filters, true, MatrixRole::Inner, &init)
        };
        Convolutional {
            embedding: Embedding::new(vocab, d, 1.0, None, &init.part("embedding")),
            windows: self.widths.iter().enumerate().map(window).collect(),
            widths: self.widths.clone(),
            activation: self.activation,
            dropout: self.dropout,
        }
    }
}

impl Convolutional {
    /// Computes the features of all positions, `[batch, seq, widths · filters]`.
    pub fn forward(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        let x = self.embedding.forward(input.ids);
        let x = pass.dropout(x, "embedding", self.dropout);
        let x = zero_padding(x, input.lengths.as_deref());
        pass.note_hidden(0, &x);
        let features = self.windows.iter().zip(&self.widths);
        let features = features.map(|(map, width)| {
            map.forward_activated(concat_windows(&x, *width), self.activation.into())
        });
        let hidden = Tensor::cat(features.collect(), 2);
        pass.note_hidden(1, &hidden);
        pass.note_layer(1, &hidden);
        pass.note_last(&hidden);
        hidden
    }

    /// Takes the maximum of each feature over a text's positions, `[batch, widths · filters]`.
    pub fn pooled(&self, hidden: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
        max_pool(hidden, lengths)
    }
}

/// Sets `x` `[batch, seq, d]` to zero after each text's end.
fn zero_padding(x: Tensor<3>, lengths: Option<&[usize]>) -> Tensor<3> {
    let [batch, seq, _] = x.dims();
    let Some(factors) = padding::token_mask(lengths, seq) else {
        return x;
    };
    let factors = TensorData::new(factors, [batch, seq, 1]);
    let factors = replay::floats(factors, &x.device());
    x * factors
}

/// Concatenates the vectors of the `width` tokens around each position: `[batch, seq, width · d]`.
fn concat_windows(x: &Tensor<3>, width: usize) -> Tensor<3> {
    let [batch, seq, d] = x.dims();
    let before = (width - 1) / 2;
    let zeros = (0, 0, before, width - 1 - before);
    let padded = x.clone().pad(zeros, PadMode::Constant(0.0));
    let token = |at: usize| padded.clone().slice([0..batch, at..at + seq, 0..d]);
    Tensor::cat((0..width).map(token).collect(), 2)
}
