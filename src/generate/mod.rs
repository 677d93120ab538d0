//! Text generation with a trained model: token by token with a key-value cache, several texts side by side, or the best
//! of many by beam search.

pub mod beam;
pub mod caption;
mod continued;
pub mod decode;
pub mod defaults;
pub mod describe;
pub mod listen;
mod next;
mod sources;
pub mod spell;
pub mod text;
pub mod transcribe;
pub mod translate;

pub use crate::model::generation::TextGenerator;
pub use crate::model::sampling;
pub use crate::model::sampling::Sampling;
pub use beam::{BeamConfig, Hypothesis, LengthPenalty, NextScores, Rules, Sentence};
pub use caption::Captioner;
pub use continued::{ContinuationConfig, likeliest};
pub use decode::{DecodeConfig, TextMetric};
pub use defaults::SamplingConfig;
pub use describe::Describer;
pub use listen::Listener;
pub use spell::Speller;
pub use text::{Stops, TextStream};
pub use transcribe::Transcriber;
pub use translate::{Translator, Written};
