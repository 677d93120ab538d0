//! Speech: recordings become log-mel features or normalised samples, transcripts the tokens that a model writes about them.
//!
//! [`samples`] reads a WAV or FLAC file as one channel at 16 kHz, [`LogMel`] makes Whisper's features of it, [`Hearing`] makes either, and
//! [`augment`] masks features in training. [`transcribed`] is the kind of data that reads files and their transcripts;
//! `synthetic/dialled_digits` generates recordings.

pub mod augment;
mod decode;
mod features;
mod heard;
mod mel;
mod resample;
pub mod transcribed;
mod transcripts;

pub use augment::SpeechAugmentConfig;
pub use decode::samples;
pub use features::{LogMel, Spectrum};
pub use heard::{Heard, Hearing};
pub use transcripts::Transcripts;

use super::View;
use super::batch::SpeechShape;
use super::described::no_marks;
use crate::error::Result;
use crate::tokenizer::{Around, Edges, Tokenizer};

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

/// The size of the features of so many seconds, or of samples, which are normalised unless `normalize` says otherwise.
pub fn shape(n_mels: usize, seconds: f64, normalize: Option<bool>) -> SpeechShape {
    SpeechShape {
        n_mels,
        n_frames: (seconds * FRAMES).round() as usize,
        normalized: n_mels == 0 && normalize.unwrap_or(true),
    }
}

/// Faults of the keys that say the size of features and whether samples are normalised.
pub(in crate::data) fn shape_faults(
    n_mels: usize,
    seconds: f64,
    normalize: Option<bool>,
) -> Vec<String> {
    let mut faults = Vec::new();
    if n_mels > MOST_MELS {
        faults.push(format!(
            "[data] n_mels = {n_mels} must be 1 to {MOST_MELS}, or 0 for the samples themselves; Whisper has 80, and 128 since large-v3"
        ));
    }
    if let Some(normalize) = normalize.filter(|_| n_mels > 0) {
        faults.push(format!(
            "[data] normalize = {normalize} has no effect on log-mel features; leave it out, or set n_mels = 0 to read samples"
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

/// What a model reads around the transcript of a view.
pub(in crate::data) fn around(view: &View) -> Around {
    match view {
        View::Aligned => Around::Nothing,
        View::AsItIs | View::Masked(_) | View::Corrupted(_) | View::Alone => Around::Edges,
    }
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
        let whisper = shape(80, 30.0, None);
        assert_eq!((whisper.n_mels, whisper.n_frames), (80, 3000));
        assert_eq!(seconds(whisper), 30.0);
        assert_eq!(shape_faults(80, 0.29, None), Vec::<String>::new());
        assert_eq!(
            shape_faults(200, 1.234, None),
            [
                "[data] n_mels = 200 must be 1 to 128, or 0 for the samples themselves; Whisper has 80, and 128 since large-v3",
                "[data] seconds = 1.234 is no whole number of frames of 0.01 s; the nearest is 1.23"
            ]
        );
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(shape_faults(80, seconds, None).len(), 1, "{seconds}");
        }
        let samples = shape(0, 2.0, None);
        assert_eq!(
            (samples.samples(), samples.normalized),
            (Some(32_000), true)
        );
        assert!(!shape(0, 2.0, Some(false)).normalized);
        assert_eq!(shape_faults(0, 2.0, Some(false)), Vec::<String>::new());
        assert_eq!(shape_faults(80, 2.0, Some(true)).len(), 1);
    }
}
