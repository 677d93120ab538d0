//! Normalisation of pixels: (byte / 255 − mean) / std, channel by channel.
//!
//! Mean and standard deviation are taken over all pixels of the training images, from integer sums, so that
//! the order of addition does not change them. A network that was trained with another normalisation reads
//! values converted to its own ([`Renormalise`]).

use rayon::prelude::*;

use super::Pictures;

/// Returns the mean and standard deviation of each channel over the chosen pictures; the deviation is 1 for a
/// constant channel.
pub fn statistics(pictures: &Pictures, chosen: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let [channels, height, width] = pictures.shape;
    let area = height * width;
    let none = || vec![(0u64, 0u64); channels];
    let sums = chosen
        .par_iter()
        .fold(none, |mut sums, index| {
            let planes = pictures.get(*index as usize).chunks_exact(area.max(1));
            for ((sum, squares), plane) in sums.iter_mut().zip(planes) {
                *sum += plane.iter().map(|p| u64::from(*p)).sum::<u64>();
                *squares += plane.iter().map(|p| u64::from(*p).pow(2)).sum::<u64>();
            }
            sums
        })
        .reduce(none, |a, b| {
            let both = a.into_iter().zip(b);
            both.map(|(a, b)| (a.0 + b.0, a.1 + b.1)).collect()
        });
    let count = (chosen.len() * area).max(1) as f64;
    let of = |(sum, squares): (u64, u64)| {
        let mean = sum as f64 / count;
        let variance = (squares as f64 / count - mean * mean).max(0.0);
        let std = if variance > 1e-9 {
            variance.sqrt() / 255.0
        } else {
            1.0
        };
        ((mean / 255.0) as f32, std as f32)
    };
    sums.into_iter().map(of).unzip()
}

/// A table of the normalised value of each byte, for each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalise {
    tables: Vec<[f32; 256]>,
}

impl Normalise {
    /// Builds the tables for these means and standard deviations; missing channels get mean 0 and deviation
    /// 1.
    pub fn new(mean: &[f32], std: &[f32], channels: usize) -> Self {
        let table = |channel: usize| {
            let mean = mean.get(channel).copied().unwrap_or(0.0);
            let std = std.get(channel).copied().unwrap_or(1.0);
            std::array::from_fn(|byte| (byte as f32 / 255.0 - mean) / std)
        };
        Self {
            tables: (0..channels).map(table).collect(),
        }
    }

    /// Returns an image `[channels, height, width]`, normalised.
    pub fn apply(&self, image: &[u8]) -> Vec<f32> {
        let area = image.len() / self.tables.len().max(1);
        let planes = image.chunks_exact(area.max(1)).zip(&self.tables);
        let mut out = Vec::with_capacity(image.len());
        for (plane, table) in planes {
            out.extend(plane.iter().map(|p| table[usize::from(*p)]));
        }
        out
    }
}

/// Converts values from one normalisation to another: x·scale + shift, channel by channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Renormalise {
    /// Standard deviation of the first normalisation over that of the second.
    pub scale: Vec<f32>,
    /// Difference of the means over the standard deviation of the second.
    pub shift: Vec<f32>,
}

impl Renormalise {
    /// Returns the conversion from values with one mean and standard deviation to the other; `None` if they
    /// are equal. Missing channels have mean 0 and deviation 1.
    pub fn between(
        [mean, std]: [&[f32]; 2],
        [other_mean, other_std]: [&[f32]; 2],
        channels: usize,
    ) -> Option<Self> {
        let all = |list: &[f32], default: f32| -> Vec<f64> {
            let of = |channel: usize| list.get(channel).copied().unwrap_or(default);
            let all = (0..channels).map(|channel| f64::from(of(channel)));
            all.collect()
        };
        let (mean, std) = (all(mean, 0.0), all(std, 1.0));
        let (other_mean, other_std) = (all(other_mean, 0.0), all(other_std, 1.0));
        if mean == other_mean && std == other_std {
            return None;
        }
        let stds = std.iter().zip(&other_std);
        let means = mean.iter().zip(&other_mean).zip(&other_std);
        Some(Self {
            scale: stds.map(|(from, to)| (from / to) as f32).collect(),
            shift: means
                .map(|((from, to), std)| ((from - to) / std) as f32)
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_normalisation_become_those_of_another() {
        let image: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        let (mean, std) = ([0.2_f32, 0.5], [0.3_f32, 0.25]);
        let (other_mean, other_std) = ([0.0_f32, 0.6], [0.1_f32]);
        let other = [&other_mean[..], &other_std[..]];
        let turned = Renormalise::between([&mean, &std], other, 2).unwrap();
        let ours = Normalise::new(&mean, &std, 2).apply(&image);
        let theirs = Normalise::new(&other_mean, &other_std, 2).apply(&image);
        for (place, (x, wanted)) in ours.iter().zip(theirs).enumerate() {
            let channel = place / 256;
            let found = x * turned.scale[channel] + turned.shift[channel];
            assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
        }
    }

    #[test]
    fn the_same_normalisation_is_left_alone() {
        let (mean, std) = ([0.2_f32], [0.3_f32]);
        assert_eq!(Renormalise::between([&mean, &std], [&mean, &std], 1), None);
        assert_eq!(Renormalise::between([&[], &[]], [&[0.0], &[1.0]], 1), None);
        assert_eq!(Renormalise::between([&mean, &std], [&[], &[]], 0), None);
    }
}
