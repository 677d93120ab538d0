//! Masking of audio features in training (Baevski et al. 2020, section 4.2 and appendix B; SpecAugment, Park et al.
//! 2019): spans of frames are replaced by one learned vector, spans of channels by 0.
//!
//! In a row of n frames, ⌊share · n / width + u⌋ spans are masked, with u uniform in [0, 1), but at least the configured minimum.
//! They start at different frames and may overlap. Channels are masked in the same way; every row has the same number of channels.

use crate::faults::TableFaults;
use crate::kernel::replay;
use crate::nn::pass::Pass;
use crate::one_table::is_usual;
use crate::rng::{Purpose, Stream};
use burn::tensor::{Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum width and minimum number of spans that may be configured.
const MAX_SPANS: usize = 10_000;

/// The fault of a task that learns from masked frames on a network that masks none.
pub const NO_MASKS: &str = "time_share = 0.0 masks no frames, but [task] kind = \"contrastive_speech\" learns from masked frames; set \
                            time_share = 0.65";

/// The settings for masking features in training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureMasksConfig {
    /// Fraction of the frames that spans mask, not counting overlaps. Default: none.
    #[schemars(range(min = 0, max = 1))]
    pub time_share: f64,
    /// Width of a span in frames.
    #[schemars(range(min = 1, max = MAX_SPANS))]
    pub time_width: usize,
    /// Minimum number of spans in an audio clip.
    #[schemars(range(max = MAX_SPANS))]
    pub time_least: usize,
    /// Fraction of the channels that spans mask, not counting overlaps. Default: none.
    #[schemars(range(min = 0, max = 1))]
    #[serde(skip_serializing_if = "is_usual")]
    pub channel_share: f64,
    /// Width of a span in channels.
    #[schemars(range(min = 1, max = MAX_SPANS))]
    pub channel_width: usize,
    /// Minimum number of spans of channels.
    #[schemars(range(max = MAX_SPANS))]
    #[serde(skip_serializing_if = "is_usual")]
    pub channel_least: usize,
}

impl Default for FeatureMasksConfig {
    fn default() -> Self {
        Self {
            time_share: 0.0,
            time_width: 10,
            time_least: 2,
            channel_share: 0.0,
            channel_width: 10,
            channel_least: 0,
        }
    }
}

impl FeatureMasksConfig {
    /// Whether nothing is masked.
    pub fn is_none(&self) -> bool {
        self.time_share == 0.0 && self.channel_share == 0.0
    }

    /// Checks its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        for (key, share) in [
            ("time_share", self.time_share),
            ("channel_share", self.channel_share),
        ] {
            if !(0.0..=1.0).contains(&share) {
                at.fault(&[key], format!("{key} = {share:?} must be between 0 and 1"));
            }
        }
        at.count("time_width", self.time_width, MAX_SPANS);
        at.count("channel_width", self.channel_width, MAX_SPANS);
        for (key, least) in [
            ("time_least", self.time_least),
            ("channel_least", self.channel_least),
        ] {
            if least > MAX_SPANS {
                at.fault(
                    &[key],
                    format!("{key} = {least} must be at most {MAX_SPANS}"),
                );
            }
        }
        let usual = Self::default();
        for (key, share, differs) in [
            (
                "time",
                self.time_share,
                (self.time_width, self.time_least) != (usual.time_width, usual.time_least),
            ),
            (
                "channel",
                self.channel_share,
                (self.channel_width, self.channel_least)
                    != (usual.channel_width, usual.channel_least),
            ),
        ] {
            if share == 0.0 && differs {
                let [width, least, share] =
                    ["width", "least", "share"].map(|k| format!("{key}_{k}"));
                let rule = format!(
                    "{width} and {least} have no effect without {share}; remove them, or set {share} = 0.05"
                );
                at.fault(&[&width, &least, &share], rule);
            }
        }
    }

    /// Draws the masks of features `[batch, longest, d]` whose rows have these numbers of frames. Only training passes mask
    /// channels.
    pub(super) fn draw(
        &self,
        frames: &[usize],
        [longest, d]: [usize; 2],
        pass: &Pass,
    ) -> FeatureMasks {
        let has_channels = self.channel_share > 0.0 && pass.is_training();
        let mut times = vec![false; frames.len() * longest];
        let mut channels = has_channels.then(|| vec![false; frames.len() * d]);
        for (row, length) in frames.iter().enumerate() {
            let mut stream = pass.stream(Purpose::Sampled, row);
            let spans = (self.time_share, self.time_width, self.time_least);
            let hidden = masked_positions(spans, (*length).min(longest), &mut stream);
            hidden.for_each(|frame| times[row * longest + frame] = true);
            if let Some(channels) = &mut channels {
                let spans = (self.channel_share, self.channel_width, self.channel_least);
                let hidden = masked_positions(spans, d, &mut stream);
                hidden.for_each(|channel| channels[row * d + channel] = true);
            }
        }
        FeatureMasks {
            rows: frames.len(),
            times,
            channels,
        }
    }
}

/// The masked frames and channels of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureMasks {
    rows: usize,
    /// Whether each frame is masked, `[rows, frames]`.
    times: Vec<bool>,
    /// Whether each channel is masked, `[rows, d]`; `None` if no channel is.
    channels: Option<Vec<bool>>,
}

impl FeatureMasks {
    /// Masks the given frames of `rows` rows, `[rows, frames]`, and no channels.
    pub fn of_frames(rows: usize, times: Vec<bool>) -> Self {
        Self {
            rows,
            times,
            channels: None,
        }
    }

    /// Returns the indices of the masked frames of each row, in order.
    pub fn masked_frames(&self) -> Vec<Vec<usize>> {
        let frames = self.times.len() / self.rows.max(1);
        let row = |times: &[bool]| (0..frames).filter(|frame| times[*frame]).collect();
        self.times.chunks(frames.max(1)).map(row).collect()
    }

    /// Masks features `[rows, frames, d]`; `vector` `[d]` replaces masked frames.
    pub(super) fn apply(&self, x: Tensor<3>, vector: Option<Tensor<1>>) -> Tensor<3> {
        let ([rows, frames, d], device) = (x.dims(), x.device());
        let tensor = |values: Vec<f32>, shape| -> Tensor<3> {
            replay::floats(TensorData::new(values, shape), &device)
        };
        let x = match vector {
            Some(vector) => {
                let times = self.times.iter().map(|masked| f32::from(u8::from(*masked)));
                let times = tensor(times.collect(), [rows, frames, 1]);
                let shown = times.clone().neg() + 1.0;
                x * shown + times * vector.reshape([1, 1, d])
            }
            None => x,
        };
        match &self.channels {
            Some(channels) => {
                let shown = channels.iter().map(|masked| f32::from(u8::from(!*masked)));
                x * tensor(shown.collect(), [rows, 1, d])
            }
            None => x,
        }
    }
}

/// Returns the positions out of `len` that the spans mask; overlapping spans give some of them repeatedly.
fn masked_positions(
    (share, width, least): (f64, usize, usize),
    len: usize,
    stream: &mut Stream,
) -> impl Iterator<Item = usize> + use<> {
    let mut begins = Vec::new();
    // Only starts that leave room for a whole span.
    let room = (len + 1).saturating_sub(width);
    if share > 0.0 && room > 0 {
        let expected = share * len as f64 / width as f64;
        let count = (expected + f64::from(stream.uniform())) as usize;
        let count = count.max(least).min(len / width).min(room);
        let mut places: Vec<usize> = (0..room).collect();
        for number in 0..count {
            let other = number + stream.below((room - number) as u64) as usize;
            places.swap(number, other);
        }
        begins = places;
        begins.truncate(count);
    }
    begins
        .into_iter()
        .flat_map(move |first| first..first + width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn spans_hide_their_share_and_are_whole() {
        let (mut hidden_frames, mut most) = (0, 0);
        for draw in 0..400 {
            let mut stream = Stream::new(3, Purpose::Sampled, (draw, 0, 0));
            let all: Vec<usize> = masked_positions((0.325, 5, 1), 100, &mut stream).collect();
            assert!(all.len().is_multiple_of(5) && all.iter().all(|place| *place < 100));
            let begins: BTreeSet<usize> = all.chunks(5).map(|span| span[0]).collect();
            assert_eq!(begins.len() * 5, all.len(), "beginnings differ");
            hidden_frames += all.len();
            most = most.max(all.len());
        }
        // 0.325 · 100 / 5 is six spans, and one more in half of the draws.
        let mean = hidden_frames as f64 / 400.0;
        assert!((31.5..33.5).contains(&mean) && most <= 35, "{mean} {most}");
        let mut stream = Stream::new(3, Purpose::Sampled, (0, 0, 0));
        assert_eq!(masked_positions((0.05, 10, 2), 9, &mut stream).count(), 0);
        assert_eq!(masked_positions((0.05, 10, 2), 25, &mut stream).count(), 20);
        assert_eq!(masked_positions((0.0, 10, 2), 25, &mut stream).count(), 0);
    }
}
