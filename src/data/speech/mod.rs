//! Speech: recordings become log-mel features or normalised samples, transcripts become the tokens that a
//! model writes.
//!
//! [`samples`] reads a WAV or FLAC file as one channel at 16 kHz, [`LogMel`] computes Whisper's features from
//! it, [`SpeechInputs`] makes features or raw inputs, and [`augment`] masks features in training. [`transcribed`]
//! is the kind of data that reads files and their transcripts; `synthetic/dialled_digits` generates
//! recordings.

pub mod augment;
mod decode;
mod features;
mod inputs;
mod mel;
mod resample;
pub mod transcribed;
mod transcripts;

pub use augment::SpeechAugmentConfig;
pub use decode::samples;
pub use features::{LogMel, Spectrum};
pub use inputs::{SpeechInput, SpeechInputs};
pub use transcripts::Transcripts;

use super::View;
use super::batch::SpeechShape;
use super::described::missing_frame_error;
use crate::error::Result;
use crate::tokenizer::{SpecialTokenLayout, TokenFraming, Tokenizer};

/// Sampling rate of the inputs, in samples per second.
pub const RATE: usize = 16_000;
/// Window length of the Fourier transform in samples, 25 ms.
pub const N_FFT: usize = 400;
/// Number of samples from one frame to the next, 10 ms.
pub const HOP: usize = 160;
/// Frames per second.
const FRAMES: f64 = (RATE / HOP) as f64;
/// Maximum number of mel bands: Whisper has 80, and 128 since its version large-v3.
pub const MOST_MELS: usize = 128;
/// Minimum and maximum length of an input, in seconds.
const SECONDS: [f64; 2] = [0.1, 600.0];

/// Returns the duration of an input in seconds.
pub fn seconds(shape: SpeechShape) -> f64 {
    shape.n_frames as f64 / FRAMES
}

/// Returns the shape of inputs of this duration: features, or samples, which are normalised unless
/// `normalize` says otherwise.
pub fn shape(n_mels: usize, seconds: f64, normalize: Option<bool>) -> SpeechShape {
    SpeechShape {
        n_mels,
        n_frames: (seconds * FRAMES).round() as usize,
        normalized: n_mels == 0 && normalize.unwrap_or(true),
    }
}

/// Faults of the keys that set the size of inputs and whether samples are normalised.
pub(in crate::data) fn shape_faults(
    n_mels: usize,
    seconds: f64,
    normalize: Option<bool>,
) -> Vec<String> {
    let mut faults = Vec::new();
    if n_mels > MOST_MELS {
        faults.push(format!(
            "[data] n_mels = {n_mels} must be between 1 and {MOST_MELS}, or 0 to read samples; Whisper uses 80, and 128 since large-v3"
        ));
    }
    if let Some(normalize) = normalize.filter(|_| n_mels > 0) {
        faults.push(format!(
            "[data] normalize = {normalize} has no effect on log-mel features; remove it, or set n_mels = 0 to read samples"
        ));
    }
    let [least, most] = SECONDS;
    let whole = (seconds * FRAMES - (seconds * FRAMES).round()).abs() < 1e-6;
    if !(least..=most).contains(&seconds) {
        faults.push(format!(
            "[data] seconds = {seconds:?} must be between {least:?} and {most:?}; Whisper uses 30.0"
        ));
    } else if !whole {
        faults.push(format!(
            "[data] seconds = {seconds:?} is not a whole number of frames of 0.01 s; the nearest is {:?}",
            (seconds * FRAMES).round() / FRAMES
        ));
    }
    faults
}

/// Returns which special tokens a model reads around a transcript in a view.
pub(in crate::data) fn framing(view: &View) -> TokenFraming {
    match view {
        View::Ctc => TokenFraming::NoTokens,
        View::Plain | View::Masked(_) | View::Corrupted(_) | View::EncodedSeparately => {
            TokenFraming::FileLayout
        }
    }
}

/// Returns the special tokens around a transcript: those that the tokenizer's file puts around a text if
/// there are some on both sides, as in Whisper's, otherwise the frame of the vocabulary.
///
/// # Errors
/// If the vocabulary has no tokens for both sides of a text.
pub fn marks(tokenizer: &Tokenizer) -> Result<SpecialTokenLayout> {
    let both = |edges: &&SpecialTokenLayout| {
        let before = edges.before().len();
        before > 0 && edges.len(false) > before
    };
    let own = tokenizer.file_layout().filter(both).cloned();
    own.or_else(|| tokenizer.frame().map(SpecialTokenLayout::from))
        .ok_or_else(|| missing_frame_error("a transcript"))
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
                "[data] n_mels = 200 must be between 1 and 128, or 0 to read samples; Whisper uses 80, and 128 since large-v3",
                "[data] seconds = 1.234 is not a whole number of frames of 0.01 s; the nearest is 1.23"
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
