//! Speech: recordings become log-mel features, transcripts the tokens that a model writes about them.
//!
//! [`samples`] reads a WAV or FLAC file as one channel at 16 kHz, [`LogMel`] makes Whisper's features of it, and
//! [`augment`] masks them in training. [`transcribed`] is the kind of data that reads files and their transcripts;
//! `synthetic/dialled_digits` generates recordings.

pub mod augment;
mod decode;
mod features;
mod mel;
mod resample;
pub mod transcribed;

pub use augment::SpeechAugmentConfig;
pub use decode::samples;
pub use features::{LogMel, Spectrum};

use super::batch::SpeechShape;
use super::described::no_marks;
use crate::error::Result;
use crate::tokenizer::{Edges, Tokenizer};

/// Samples a second that features are made of.
pub const RATE: usize = 16_000;
/// Samples of a window of the Fourier transform, 25 ms.
pub const N_FFT: usize = 400;
/// Samples from one frame to the next, 10 ms.
pub const HOP: usize = 160;
/// Frames a second.
const FRAMES: f64 = (RATE / HOP) as f64;
/// Mel bands at most: Whisper has 80, and 128 since its version large-v3.
pub const MOST_MELS: usize = 128;
/// The least and the longest input, in seconds.
const SECONDS: [f64; 2] = [0.1, 600.0];

/// The seconds of so many frames.
pub fn seconds(shape: SpeechShape) -> f64 {
    shape.n_frames as f64 / FRAMES
}

/// The size of the features of so many seconds.
pub fn shape(n_mels: usize, seconds: f64) -> SpeechShape {
    SpeechShape {
        n_mels,
        n_frames: (seconds * FRAMES).round() as usize,
    }
}

/// Faults of the two keys that say the size of features.
pub(in crate::data) fn shape_faults(n_mels: usize, seconds: f64) -> Vec<String> {
    let mut faults = Vec::new();
    if !(1..=MOST_MELS).contains(&n_mels) {
        faults.push(format!(
            "[data] n_mels = {n_mels} must be 1 to {MOST_MELS}; Whisper has 80, and 128 since large-v3"
        ));
    }
    let [least, most] = SECONDS;
    let whole = (seconds * FRAMES - (seconds * FRAMES).round()).abs() < 1e-6;
    if !(least..=most).contains(&seconds) {
        faults.push(format!(
            "[data] seconds = {seconds:?} must be {least:?} to {most:?}; Whisper has 30.0"
        ));
    } else if !whole {
        faults.push(format!(
            "[data] seconds = {seconds:?} is no whole number of frames of 0.01 s; the nearest is {:?}",
            (seconds * FRAMES).round() / FRAMES
        ));
    }
    faults
}

/// The tokens around a transcript: those that the tokenizer's file puts around a text where it puts some on both sides, as
/// Whisper's does, else the frame of the vocabulary.
///
/// # Errors
/// A vocabulary without marks on both sides of a text.
pub fn marks(tokenizer: &Tokenizer) -> Result<Edges> {
    let both = |edges: &&Edges| {
        let before = edges.before().len();
        before > 0 && edges.len(false) > before
    };
    let own = tokenizer.own_edges().filter(both).cloned();
    own.or_else(|| tokenizer.frame().map(Edges::from))
        .ok_or_else(|| no_marks("a transcript"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_their_faults() {
        let whisper = shape(80, 30.0);
        assert_eq!((whisper.n_mels, whisper.n_frames), (80, 3000));
        assert_eq!(seconds(whisper), 30.0);
        assert_eq!(shape_faults(80, 0.29), Vec::<String>::new());
        assert_eq!(
            shape_faults(200, 1.234),
            [
                "[data] n_mels = 200 must be 1 to 128; Whisper has 80, and 128 since large-v3",
                "[data] seconds = 1.234 is no whole number of frames of 0.01 s; the nearest is 1.23"
            ]
        );
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(shape_faults(80, seconds).len(), 1, "{seconds}");
        }
    }
}
