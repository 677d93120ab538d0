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

    /// Masks features `[batch, frames, d]` in a training pass; `vector` `[d]` replaces masked frames.
    pub(super) fn apply(
        &self,
        x: Tensor<3>,
        frames: &[usize],
        vector: Option<Tensor<1>>,
        pass: &Pass,
    ) -> Tensor<3> {
        if self.is_none() || !pass.is_training() {
            return x;
        }
        let ([batch, longest, d], device) = (x.dims(), x.device());
        let (mut times, mut channels) = (vec![0.0; batch * longest], vec![1.0; batch * d]);
        for (row, length) in frames.iter().enumerate() {
            let mut stream = pass.stream(Purpose::Sampled, row);
            let spans = (self.time_share, self.time_width, self.time_least);
            let hidden = masked_positions(spans, (*length).min(longest), &mut stream);
            hidden.for_each(|frame| times[row * longest + frame] = 1.0);
            let spans = (self.channel_share, self.channel_width, self.channel_least);
            let hidden = self::masked_positions(spans, d, &mut stream);
            hidden.for_each(|channel| channels[row * d + channel] = 0.0);
        }
        let tensor = |values, shape| replay::floats(TensorData::new(values, shape), &device);
        let x = match vector {
            Some(vector) => {
                let times: Tensor<3> = tensor(times, [batch, longest, 1]);
                let shown = times.clone().neg() + 1.0;
                x * shown + times * vector.reshape([1, 1, d])
            }
            None => x,
        };
        match self.channel_share > 0.0 {
            true => x * tensor(channels, [batch, 1, d]),
            false => x,
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
