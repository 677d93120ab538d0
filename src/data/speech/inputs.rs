//! A recording as the input of a network: log-mel features, or the raw samples, as wav2vec 2.0 reads them
//! (Baevski et al. 2020, section 2), with mean 0 and variance 1 if the shape says so.
//!
//! ```text
//! y = (x − mean x) / √(variance x + 1e-7)      over the samples of one recording
//! ```

use super::{HOP, LogMel, Spectrum};
use crate::data::batch::{SpeechItem, SpeechShape};

/// Added to the variance of samples, as transformers' `Wav2Vec2FeatureExtractor` does.
const EPS: f64 = 1e-7;

/// Used for a recording without samples.
static SILENCE: [f32; HOP] = [0.0; HOP];

/// Turns recordings into inputs of a network.
#[derive(Clone, Debug)]
pub struct SpeechInputs {
    shape: SpeechShape,
    log_mel: Option<LogMel>,
}

/// A recording without the silence that pads it.
#[derive(Clone, Debug, PartialEq)]
pub enum SpeechInput {
    /// Log-mel features.
    Features(Spectrum),
    /// Samples.
    Samples(Vec<f32>),
}

impl SpeechInputs {
    /// Builds the conversion to inputs of this shape.
    pub fn new(shape: SpeechShape) -> Self {
        let log_mel = (shape.n_mels > 0).then(|| LogMel::new(shape.n_mels));
        Self { shape, log_mel }
    }

    /// Returns the shape of the inputs.
    pub fn shape(&self) -> SpeechShape {
        self.shape
    }

    /// Converts samples at 16 kHz, cut to the longest recording.
    pub fn convert(&self, samples: &[f32]) -> SpeechInput {
        let n_frames = self.shape.n_frames;
        if let Some(log_mel) = &self.log_mel {
            return SpeechInput::Features(log_mel.spectrum(samples, n_frames));
        }
        let samples = match samples.len().min(n_frames * HOP) {
            0 => &SILENCE[..],
            len => &samples[..len],
        };
        SpeechInput::Samples(match self.shape.normalized {
            true => normalized(samples),
            false => samples.to_vec(),
        })
    }

    /// Returns the input for samples at 16 kHz.
    pub fn item(&self, samples: &[f32]) -> SpeechItem {
        self.input(&self.convert(samples))
    }

    /// Returns the input for a converted recording: features are padded to the common length, samples keep
    /// their own.
    pub fn input(&self, heard: &SpeechInput) -> SpeechItem {
        SpeechItem {
            features: match heard {
                SpeechInput::Features(spectrum) => spectrum.padded(self.shape.n_frames),
                SpeechInput::Samples(samples) => samples.clone(),
            },
            shape: self.shape,
        }
    }
}

impl SpeechInput {
    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Features(spectrum) => spectrum.bytes(),
            Self::Samples(samples) => size_of_val(samples.as_slice()),
        }
    }

    /// Returns the number of frames of features; 0 for samples.
    pub fn frames(&self) -> usize {
        match self {
            Self::Features(spectrum) => spectrum.frames(),
            Self::Samples(_) => 0,
        }
    }
}

fn normalized(samples: &[f32]) -> Vec<f32> {
    let count = samples.len().max(1) as f64;
    let mean = samples.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let squares = samples.iter().map(|x| (f64::from(*x) - mean).powi(2));
    let scale = (squares.sum::<f64>() / count + EPS).sqrt();
    let each = samples.iter().map(|x| (f64::from(*x) - mean) / scale);
    each.map(|x| x as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::super::shape;
    use super::*;

    #[test]
    fn samples_are_cut_and_have_mean_0_and_variance_1() {
        let samples: Vec<f32> = (0..5000).map(|n| 0.3 + (0.1 * n as f32).sin()).collect();
        let item = SpeechInputs::new(shape(0, 0.2, None)).item(&samples);
        assert_eq!(item.features.len(), 3200);
        let mean = item.features.iter().sum::<f32>() / 3200.0;
        let variance = item
            .features
            .iter()
            .map(|x| (x - mean).powi(2))
            .sum::<f32>()
            / 3200.0;
        assert!(
            mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-4,
            "{mean} {variance}"
        );
        let plain = SpeechInputs::new(shape(0, 0.2, Some(false))).item(&samples[..100]);
        assert_eq!(plain.features, samples[..100]);
        let silence = SpeechInputs::new(shape(0, 0.2, None)).item(&[]);
        assert_eq!(silence.features, [0.0; HOP]);
    }
}
