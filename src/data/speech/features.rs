//! Log-mel features as Whisper reads them (Radford et al. 2022, arXiv:2212.04356, section 2.2), equal to transformers'
//! `WhisperFeatureExtractor`.
//!
//! ```text
//! S(t, k) = |FFT(hann · x[160 t - 200 .. 160 t + 200])_k|²      x reflected at its ends, the last frame left out
//! L = log10(max(mel S, 1e-10))
//! features = (max(L, max L - 8) + 4) / 4
//! ```
//!
//! A recording is first padded with silence or cut. Frames of only silence all have the same value, which is
//! not recomputed.

use super::mel::{Filter, filters};
use super::{HOP, N_FFT};
use realfft::{RealFftPlanner, RealToComplex};
use std::f64::consts::TAU;
use std::fmt;
use std::sync::Arc;

/// Minimum power that is distinguished from silence.
const FLOOR: f64 = 1e-10;
/// Dynamic range kept below the loudest band, in powers of ten.
const RANGE: f32 = 8.0;
/// Number of samples of a window on each side of its frame.
const HALF: usize = N_FFT / 2;

/// Computes log-mel features of recordings.
#[derive(Clone)]
pub struct LogMel {
    filters: Vec<Filter>,
    window: Vec<f64>,
    transform: Arc<dyn RealToComplex<f64>>,
}

/// The features of a recording without the silence after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spectrum {
    /// `[n_mels, frames]`.
    values: Vec<f32>,
    /// Number of frames of the recording.
    frames: usize,
    /// Feature value of silence.
    silence: f32,
}

impl fmt::Debug for LogMel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogMel({})", self.filters.len())
    }
}

impl LogMel {
    /// Minimum number of frames, below which the ends cannot be reflected.
    pub const FEWEST_FRAMES: usize = 2;

    /// Builds the transform to features of `n_mels` bands.
    pub fn new(n_mels: usize) -> Self {
        // A periodic window: the sample after the last would begin the next period.
        let hann = |n: usize| 0.5 - 0.5 * (TAU * n as f64 / N_FFT as f64).cos();
        Self {
            filters: filters(n_mels),
            window: (0..N_FFT).map(hann).collect(),
            transform: RealFftPlanner::new().plan_fft_forward(N_FFT),
        }
    }

    /// Returns features `[n_mels, n_frames]` of samples at 16 kHz, padded with silence or cut to `n_frames`,
    /// which must be at least 2.
    pub fn features(&self, samples: &[f32], n_frames: usize) -> Vec<f32> {
        self.spectrum(samples, n_frames).padded(n_frames)
    }

    /// Returns the same features without the silence after the recording.
    pub fn spectrum(&self, samples: &[f32], n_frames: usize) -> Spectrum {
        let fewest = Self::FEWEST_FRAMES;
        assert!(n_frames >= fewest, "features have at least {fewest} frames");
        let len = n_frames * HOP;
        let samples = &samples[..samples.len().min(len)];
        // The windows of the last frames reach back before the end.
        let frames = match samples.len() + HALF > len {
            true => n_frames,
            false => (samples.len() + HALF).div_ceil(HOP).min(n_frames),
        };
        let n_mels = self.filters.len();
        let mut values = vec![0.0; n_mels * frames];
        let mut input = self.transform.make_input_vec();
        let mut output = self.transform.make_output_vec();
        let mut scratch = self.transform.make_scratch_vec();
        for frame in 0..frames {
            for (place, (value, weight)) in input.iter_mut().zip(&self.window).enumerate() {
                let at = reflected(frame * HOP + place, len);
                *value = samples.get(at).map_or(0.0, |x| f64::from(*x)) * weight;
            }
            let made = self
                .transform
                .process_with_scratch(&mut input, &mut output, &mut scratch);
            assert!(made.is_ok(), "buffers have the sizes of their transform");
            let power: Vec<f64> = output.iter().map(|x| x.norm_sqr()).collect();
            for (band, filter) in self.filters.iter().enumerate() {
                let bins = filter.weights.iter().zip(&power[filter.first..]);
                let mel: f64 = bins.map(|(weight, power)| weight * power).sum();
                values[band * frames + frame] = mel.max(FLOOR).log10() as f32;
            }
        }
        Spectrum::scaled(values, frames)
    }
}

/// Returns which of `len` samples a position refers to; positions count from half a window before the first
/// sample.
fn reflected(place: usize, len: usize) -> usize {
    let at = place.abs_diff(HALF);
    match at < len {
        true => at,
        false => 2 * (len - 1) - at,
    }
}

impl Spectrum {
    fn scaled(mut values: Vec<f32>, frames: usize) -> Self {
        let silence = FLOOR.log10() as f32;
        let loudest = values.iter().copied().fold(silence, f32::max);
        let scale = |value: f32| (value.max(loudest - RANGE) + 4.0) / 4.0;
        values.iter_mut().for_each(|value| *value = scale(*value));
        Self {
            values,
            frames,
            silence: scale(silence),
        }
    }

    /// Returns the number of frames of the recording, without the silence after it.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the size of the features in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice())
    }

    /// Returns features `[n_mels, n_frames]`, with silence after the recording.
    pub fn padded(&self, n_frames: usize) -> Vec<f32> {
        let mut all = Vec::with_capacity(self.values.len() / self.frames.max(1) * n_frames);
        for band in self.values.chunks(self.frames.max(1)) {
            all.extend(band.iter().take(n_frames));
            all.resize(
                all.len() + n_frames.saturating_sub(self.frames),
                self.silence,
            );
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_behind_a_recording_is_as_if_it_were_computed() {
        let log_mel = LogMel::new(20);
        let tone = |n: usize| (0.1 * n as f32).sin() * 0.3;
        for len in [0, 1, 800, 3000, 3160, 3199, 3200, 4000] {
            let samples: Vec<f32> = (0..len).map(tone).collect();
            let mut padded = samples.clone();
            padded.resize(3200, 0.0);
            let [short, whole] = [&samples, &padded].map(|s| log_mel.features(s, 20));
            assert_eq!(short.len(), 400);
            assert_eq!(short, whole, "{len}");
        }
        assert_eq!(log_mel.features(&[], 2), vec![-1.5; 40]);
    }

    #[test]
    fn ends_are_reflected() {
        let all: Vec<usize> = (0..720).map(|place| reflected(place, 320)).collect();
        assert_eq!(&all[..3], [200, 199, 198]);
        assert_eq!(&all[199..203], [1, 0, 1, 2]);
        assert_eq!(&all[518..522], [318, 319, 318, 317]);
    }
}
