//! Log-mel features as Whisper reads them (Radford et al. 2022, arXiv:2212.04356, section 2.2), equal to transformers'
//! `WhisperFeatureExtractor`.
//!
//! ```text
//! S(t, k) = |FFT(hann · x[160 t - 200 .. 160 t + 200])_k|²      x reflected at its ends, the last frame left out
//! L = log10(max(mel S, 1e-10))
//! features = (max(L, max L - 8) + 4) / 4
//! ```
//!
//! A recording is padded with silence or cut first. Frames of silence alone have one value, which is not computed anew.

use super::mel::{Filter, filters};
use super::{HOP, N_FFT};
use realfft::{RealFftPlanner, RealToComplex};
use std::f64::consts::TAU;
use std::fmt;
use std::sync::Arc;

/// The least power that is told from silence.
const FLOOR: f64 = 1e-10;
/// Powers of ten below the loudest band that are kept.
const RANGE: f32 = 8.0;
/// Samples of a window on each side of its frame.
const HALF: usize = N_FFT / 2;

/// Makes features of recordings with so many mel bands.
#[derive(Clone)]
pub struct LogMel {
    filters: Vec<Filter>,
    window: Vec<f64>,
    transform: Arc<dyn RealToComplex<f64>>,
}

/// The features of a recording without the silence behind it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spectrum {
    /// `[n_mels, frames]`.
    values: Vec<f32>,
    /// Frames of the recording.
    frames: usize,
    /// The value of silence.
    silence: f32,
}

impl fmt::Debug for LogMel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogMel({})", self.filters.len())
    }
}

impl LogMel {
    /// The fewest frames whose ends can be reflected.
    pub const FEWEST_FRAMES: usize = 2;

    /// For features of `n_mels` bands.
    pub fn new(n_mels: usize) -> Self {
        // Periodic: one more sample would begin the next period.
        let hann = |n: usize| 0.5 - 0.5 * (TAU * n as f64 / N_FFT as f64).cos();
        Self {
            filters: filters(n_mels),
            window: (0..N_FFT).map(hann).collect(),
            transform: RealFftPlanner::new().plan_fft_forward(N_FFT),
        }
    }

    /// Features `[n_mels, n_frames]` of samples at 16 kHz, padded with silence or cut to `n_frames`, which are at least 2.
    pub fn features(&self, samples: &[f32], n_frames: usize) -> Vec<f32> {
        self.spectrum(samples, n_frames).padded(n_frames)
    }

    /// The same without the silence behind the recording.
    pub fn spectrum(&self, samples: &[f32], n_frames: usize) -> Spectrum {
        let fewest = Self::FEWEST_FRAMES;
        assert!(n_frames >= fewest, "features have at least {fewest} frames");
        let len = n_frames * HOP;
        let samples = &samples[..samples.len().min(len)];
        // The last windows reach back from the end.
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

/// Which of `len` samples a place stands for that counts from half a window before the first.
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

    /// Frames of the recording, without the silence behind it.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.values.as_slice())
    }

    /// Features `[n_mels, n_frames]`, with silence behind the recording.
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
