//! `[data.augment]` of recordings: SpecAugment's masks of bands and of frames (Park et al. 2019,
//! arXiv:1904.08779, section 2).
//!
//! A mask covers f consecutive bands, f uniform from 0 to `frequency_width` (F), or t consecutive frames, t
//! uniform from 0 to `time_width` (T) and at most the share `time_share` (p) of the recording. Its position
//! is uniform among those where it fits. Masked values become 0, as in transformers' Whisper. Silence after a
//! recording is not masked by frames. Time warping is not implemented; the paper found it to matter little.

use super::MOST_MELS;
use crate::data::batch::SpeechShape;
use crate::rng::{Purpose, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stream of the draws of masks, apart from those of images and captions.
const PART: u64 = 4;
/// The paper's widths on LibriSpeech, table 1.
const FREQUENCY_WIDTH: usize = 27;
const TIME_WIDTH: usize = 100;
/// Maximum number of masks of each kind.
const MOST_MASKS: usize = 100;

/// How training recordings are masked. The paper's policy LD has `frequency_masks = 2`, `time_masks = 2` and
/// the default widths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpeechAugmentConfig {
    /// Number of masks over bands in each recording. Default: none.
    pub frequency_masks: usize,
    /// Maximum number of bands that a mask covers. Default 27.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_width: Option<usize>,
    /// Number of masks over frames in each recording. Default: none.
    pub time_masks: usize,
    /// Maximum number of frames of 10 ms that a mask covers. Default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_width: Option<usize>,
    /// Maximum share of a recording that a mask over frames covers. Default 1.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_share: Option<f64>,
}

impl SpeechAugmentConfig {
    /// Returns all faults of its keys, for recordings with `n_mels` bands.
    pub(in crate::data) fn faults(&self, n_mels: usize) -> Vec<String> {
        let mut faults = Vec::new();
        if n_mels == 0 {
            if *self != Self::default() {
                faults.push(
                    "[data] augment masks bands and frames of log-mel features, but n_mels = 0 reads samples; remove it, and use [model] masks to \
                     mask the features that the network computes"
                        .into(),
                );
            }
            return faults;
        }
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(format!("[data.augment] {message}"));
            }
        };
        for (name, masks) in [
            ("frequency_masks", self.frequency_masks),
            ("time_masks", self.time_masks),
        ] {
            fault(
                masks > MOST_MASKS,
                format!("{name} = {masks} must be at most {MOST_MASKS}"),
            );
        }
        let bands = n_mels.min(MOST_MELS);
        if let Some(width) = self.frequency_width {
            fault(
                width == 0 || width > bands,
                format!(
                    "frequency_width = {width} must be between 1 and {bands}, the number of bands (n_mels)"
                ),
            );
        }
        fault(
            self.time_width == Some(0),
            "time_width = 0 must be at least 1".into(),
        );
        if let Some(share) = self.time_share {
            fault(
                !(share > 0.0 && share <= 1.0),
                format!("time_share = {share:?} must be above 0 and at most 1"),
            );
        }
        faults
    }

    /// Returns the faults of keys without an effect.
    pub(in crate::data) fn new_run_faults(&self) -> Vec<String> {
        let keys = [
            (
                "frequency_width",
                self.frequency_width.is_some(),
                "frequency_masks",
                self.frequency_masks,
            ),
            (
                "time_width",
                self.time_width.is_some(),
                "time_masks",
                self.time_masks,
            ),
            (
                "time_share",
                self.time_share.is_some(),
                "time_masks",
                self.time_masks,
            ),
        ];
        let idle = keys
            .iter()
            .filter(|(_, given, _, masks)| *given && *masks == 0);
        idle.map(|(key, _, masks, _)| {
            format!(
                "[data.augment] {key} has no effect without {masks}; remove it or set {masks} = 2"
            )
        })
        .collect()
    }

    /// Whether there are no masks.
    pub fn is_empty(&self) -> bool {
        self.frequency_masks == 0 && self.time_masks == 0
    }

    /// Masks the features `[n_mels, n_frames]` of a recording of `frames` frames, for the run's draw number
    /// `draw`.
    pub fn apply(
        &self,
        features: &mut [f32],
        shape: SpeechShape,
        frames: usize,
        (seed, draw, sample): (u64, u64, u64),
    ) {
        let SpeechShape {
            n_mels, n_frames, ..
        } = shape;
        let frames = frames.min(n_frames);
        let mut stream = Stream::new(seed, Purpose::Augment, (draw, PART, sample));
        let mut place = |most: usize, all: usize| {
            let width = stream.below(most.min(all) as u64 + 1) as usize;
            let first = stream.below((all - width) as u64 + 1) as usize;
            first..first + width
        };
        for _ in 0..self.frequency_masks {
            let bands = place(self.frequency_width.unwrap_or(FREQUENCY_WIDTH), n_mels);
            features[bands.start * n_frames..bands.end * n_frames].fill(0.0);
        }
        let share = self.time_share.unwrap_or(1.0);
        let most = ((frames as f64 * share) as usize).min(self.time_width.unwrap_or(TIME_WIDTH));
        for _ in 0..self.time_masks {
            let hidden = place(most, frames);
            for band in features.chunks_mut(n_frames.max(1)) {
                band[hidden.clone()].fill(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: SpeechShape = SpeechShape {
        n_mels: 20,
        n_frames: 50,
        normalized: false,
    };

    fn masked(config: &SpeechAugmentConfig, draw: u64) -> Vec<f32> {
        let mut features = vec![1.0; 1000];
        config.apply(&mut features, SHAPE, 40, (7, draw, 3));
        features
    }

    #[test]
    fn masks_hide_whole_bands_and_frames_of_the_recording() {
        let bands = SpeechAugmentConfig {
            frequency_masks: 1,
            frequency_width: Some(6),
            ..SpeechAugmentConfig::default()
        };
        let frames = SpeechAugmentConfig {
            time_masks: 1,
            time_width: Some(30),
            time_share: Some(0.25),
            ..SpeechAugmentConfig::default()
        };
        let (mut most_bands, mut most_frames) = (0, 0);
        for draw in 0..200 {
            let found = masked(&bands, draw);
            let hidden = found
                .chunks(50)
                .filter(|band| band.iter().all(|x| *x == 0.0));
            let hidden = hidden.count();
            assert_eq!(found.iter().filter(|x| **x == 0.0).count(), hidden * 50);
            most_bands = hidden.max(most_bands);
            let found = masked(&frames, draw);
            let hidden: Vec<usize> = (0..50).filter(|frame| found[*frame] == 0.0).collect();
            assert_eq!(
                found.iter().filter(|x| **x == 0.0).count(),
                hidden.len() * 20
            );
            assert!(hidden.iter().all(|frame| *frame < 40));
            most_frames = hidden.len().max(most_frames);
        }
        assert_eq!((most_bands, most_frames), (6, 10));
        assert_eq!(masked(&bands, 5), masked(&bands, 5));
        assert_eq!(masked(&SpeechAugmentConfig::default(), 0), vec![1.0; 1000]);
    }

    #[test]
    fn keys_without_masks_have_no_effect() {
        let config = SpeechAugmentConfig {
            frequency_width: Some(90),
            time_share: Some(0.0),
            ..SpeechAugmentConfig::default()
        };
        assert_eq!(
            config.faults(80),
            [
                "[data.augment] frequency_width = 90 must be between 1 and 80, the number of bands (n_mels)",
                "[data.augment] time_share = 0.0 must be above 0 and at most 1"
            ]
        );
        assert_eq!(config.new_run_faults().len(), 2);
    }
}
