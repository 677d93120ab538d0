//! Text generation with a trained model: token by token with a key-value cache, several texts side by side, or the best
//! of many by beam search.

pub mod beam;
pub mod caption;
mod continuation;
pub mod ctc;
pub mod decode;
pub mod describe;
mod next;
pub mod sampling_config;
mod sources;
pub mod speech;
pub mod text;
pub mod transcribe;
pub mod translate;

pub use crate::model::generation::TextGenerator;
pub use crate::model::sampling;
pub use crate::model::sampling::Sampling;
pub use beam::{BeamConfig, Hypothesis, LengthPenalty, NextScores, SearchStart, TokenRules};
pub use caption::Captioner;
pub use continuation::{ContinuationConfig, search_continuations};
pub use ctc::CtcTranscriber;
pub use decode::{DecodeConfig, TextMetric};
pub use describe::Describer;
pub use sampling_config::SamplingConfig;
pub use speech::SpeechToText;
pub use text::{StopTexts, TextStream};
pub use transcribe::Transcriber;
pub use translate::{GeneratedText, Translator};
