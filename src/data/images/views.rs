//! Views of an image: crops of it, each resized and augmented separately, which a task compares (Caron et al.
//! 2020, SwAV, section 3.4: multi-crop; Caron et al. 2021, DINO, section 3.1).
//!
//! Two global views show much of the image at the image's own size; local ones show little of it at a smaller
//! size. Each is a crop of random area and aspect ratio. Then, in this order and each with its probability,
//! it is mirrored, its colours are jittered, it is made grey, blurred, and its bright pixels are inverted.
//! The draws for a view are a function of (seed, draw, view): neither the number of views nor the changes of
//! other views affect them.

use super::operations::{self, Operation};
use super::pictures::with_channels;
use super::resized_crop::{JitterConfig, ResizedCropConfig};
use super::{blur, normalise::Normalise};
use crate::data::batch::Views;
use crate::faults::TableFaults;
use crate::rng::{Purpose, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of local views per image.
pub const MOST_LOCAL: usize = 256;
/// Longest side of a local view.
pub const LONGEST_SIDE: usize = 4096;
/// Maximum standard deviation of the blur in pixels.
const MOST_SIGMA: f64 = 100.0;
/// Value from which on pixels are inverted (Grill et al. 2020, BYOL, appendix B).
const SOLARIZE_THRESHOLD: f32 = 128.0;

/// The configuration of views. A list of three holds the values for the first global view, the second one,
/// and local views.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ViewsConfig {
    /// Number of local views per image; 0 for none. Source: Caron et al. 2021, released code.
    #[schemars(range(max = MOST_LOCAL))]
    pub local: usize,
    /// Height and width of a local view in pixels, a multiple of the patch size.
    /// Source: Caron et al. 2021, section 3.1.
    #[schemars(range(min = 1, max = LONGEST_SIDE))]
    pub local_size: usize,
    /// Minimum and maximum share of the image's area that a global view shows.
    /// Source: Caron et al. 2021, released code.
    pub global_scale: [f64; 2],
    /// Minimum and maximum share that a local view shows. Source: Caron et al. 2021, released code.
    pub local_scale: [f64; 2],
    /// Whether half of the views are mirrored.
    pub flip: bool,
    /// Colours changed by random factors. Default: none; the paper's are brightness 0.4, contrast 0.4, saturation 0.2 and hue 0.1.
    /// Source: Grill et al. 2020, BYOL, appendix B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterConfig>,
    /// Share of the views whose colours are jittered. Default: 0.8. Source: Grill et al. 2020, appendix B.
    #[schemars(range(min = 0, max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jittered: Option<f64>,
    /// Share of the views that are made grey; the paper's is 0.2. Source: Grill et al. 2020, appendix B.
    #[schemars(range(min = 0, max = 1))]
    pub grey: f64,
    /// Shares of the views that are blurred. Source: Caron et al. 2021, released code.
    pub blurred: [f64; 3],
    /// Minimum and maximum standard deviation of the blur, in pixels. Source: Grill et al. 2020, appendix B.
    pub blur_sigma: [f64; 2],
    /// Shares of the views whose bright pixels are inverted. Source: Caron et al. 2021, released code.
    pub solarized: [f64; 3],
}

impl Default for ViewsConfig {
    fn default() -> Self {
        Self {
            local: 8,
            local_size: 96,
            global_scale: [0.4, 1.0],
            local_scale: [0.05, 0.4],
            flip: true,
            jitter: None,
            jittered: None,
            grey: 0.0,
            blurred: [1.0, 0.1, 0.5],
            blur_sigma: [0.1, 2.0],
            solarized: [0.0, 0.2, 0.0],
        }
    }
}

/// Index of the value for local views in a list of three.
const LOCAL: usize = 2;
/// Share of the views that are jittered by default.
const JITTERED: f64 = 0.8;

impl ViewsConfig {
    /// Returns the number of views per image.
    pub fn count(&self) -> usize {
        self.local.saturating_add(Views::GLOBAL)
    }

    /// Checks its keys for faults.
    pub fn faults(&self, at: &mut TableFaults) {
        if self.local > MOST_LOCAL {
            let rule = format!("local = {} must be at most {MOST_LOCAL}", self.local);
            at.fault(&["local"], rule);
        }
        at.count("local_size", self.local_size, LONGEST_SIDE);
        for (key, [least, most]) in [
            ("global_scale", self.global_scale),
            ("local_scale", self.local_scale),
        ] {
            if !(least > 0.0 && least <= most && most <= 1.0) {
                let rule = format!(
                    "{key} = [{least:?}, {most:?}] must be two shares above 0 and at most 1, the smaller one first"
                );
                at.fault(&[key], rule);
            }
        }
        self.share_faults(at);
        self.idle_faults(at);
        let [least, most] = self.blur_sigma;
        if !(least > 0.0 && least <= most && most <= MOST_SIGMA) {
            let rule = format!(
                "blur_sigma = [{least:?}, {most:?}] must be two standard deviations above 0 and at most {MOST_SIGMA:?}, the smaller one first"
            );
            at.fault(&["blur_sigma"], rule);
        }
        if let Some(jitter) = &self.jitter {
            for fault in jitter.faults() {
                at.fault(&["jitter"], format!("jitter: {fault}"));
            }
        }
    }

    /// Faults of changes that have no effect on grey images.
    pub fn grey_faults(&self, at: &mut TableFaults) {
        let jitter = self.jitter.iter().flat_map(JitterConfig::grey_faults);
        for fault in jitter {
            at.fault(&["jitter"], format!("jitter: {fault}"));
        }
        if self.grey > 0.0 {
            let rule = format!(
                "grey = {:?} has no effect on grey images (channels = 1); remove it",
                self.grey
            );
            at.fault(&["grey"], rule);
        }
    }

    fn share_faults(&self, at: &mut TableFaults) {
        let singles = [("jittered", self.jittered), ("grey", Some(self.grey))];
        for (key, share) in singles.map(|(key, share)| (key, share.unwrap_or(0.0))) {
            if !(0.0..=1.0).contains(&share) {
                at.fault(&[key], format!("{key} = {share:?} must be between 0 and 1"));
            }
        }
        for (key, shares) in [("blurred", self.blurred), ("solarized", self.solarized)] {
            if !shares.iter().all(|share| (0.0..=1.0).contains(share)) {
                let rule = format!(
                    "{key} = {shares:?} must be three shares from 0 to 1: for the first global view, the second, and local views"
                );
                at.fault(&[key], rule);
            }
        }
    }

    /// Faults of keys without an effect.
    fn idle_faults(&self, at: &mut TableFaults) {
        let usual = Self::default();
        let idle = [
            (
                "jittered",
                self.jitter.is_none() && self.jittered.is_some(),
                "jitter, which sets how colours change",
            ),
            (
                "local_size",
                self.local == 0 && self.local_size != usual.local_size,
                "local views (local = 0)",
            ),
            (
                "local_scale",
                self.local == 0 && self.local_scale != usual.local_scale,
                "local views (local = 0)",
            ),
            (
                "blur_sigma",
                self.blurred == [0.0; 3] && self.blur_sigma != usual.blur_sigma,
                "blurred views (blurred = [0.0, 0.0, 0.0])",
            ),
        ];
        for (key, _, without) in idle.into_iter().filter(|(_, idle, _)| *idle) {
            at.fault(
                &[key],
                format!("{key} has no effect without {without}; remove it"),
            );
        }
    }

    /// Returns the normalised views of an image of bytes `[channels, height, width]` for one draw of a seed.
    pub fn of(
        &self,
        image: &[u8],
        shape: [usize; 3],
        normalise: &Normalise,
        (seed, draw): (u64, u64),
    ) -> Views {
        let view = |number: usize| {
            let mut stream = Stream::new(seed, Purpose::Augment, (draw, number as u64, 1));
            normalise.apply(&self.view(image, shape, number, &mut stream))
        };
        Views {
            global: (0..Views::GLOBAL).flat_map(view).collect(),
            local: (Views::GLOBAL..self.count()).flat_map(view).collect(),
            side: self.local_size,
        }
    }

    /// Returns a view as bytes, with random numbers from `stream`.
    fn view(&self, image: &[u8], shape: [usize; 3], number: usize, stream: &mut Stream) -> Vec<u8> {
        let [channels, height, width] = shape;
        let (size, scale) = match number < Views::GLOBAL {
            true => ([height, width], self.global_scale),
            false => ([self.local_size; 2], self.local_scale),
        };
        let window = ResizedCropConfig {
            scale,
            ..ResizedCropConfig::default()
        };
        let mut view = window.applied_to(image, shape, size, stream);
        let shape = [channels, size[0], size[1]];
        let list = number.min(LOCAL);
        let mut happens = |share: f64| share > 0.0 && f64::from(stream.uniform()) < share;
        let flips = self.flip && happens(0.5);
        let jittered = self.jittered.unwrap_or(JITTERED);
        let [jitters, greys] = [jittered, self.grey].map(&mut happens);
        let [blurs, inverts] = [self.blurred[list], self.solarized[list]].map(&mut happens);
        if flips {
            operations::mirror(&mut view, shape[2]);
        }
        if let Some(jitter) = self.jitter.as_ref().filter(|_| jitters) {
            view = jitter.apply(view, shape, stream);
        }
        if greys && channels == 3 {
            view = with_channels(&with_channels(&view, 3, 1), 1, 3);
        }
        if blurs {
            let [least, most] = self.blur_sigma;
            let sigma = least + (most - least) * f64::from(stream.uniform());
            view = blur::blurred(&view, shape, sigma as f32);
        }
        match inverts {
            true => Operation::Solarize(SOLARIZE_THRESHOLD).apply(view, shape),
            false => view,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(config: &ViewsConfig, draw: u64) -> Views {
        let image: Vec<u8> = (0..3 * 24 * 20).map(|n| (n * 7 % 251) as u8).collect();
        let normalise = Normalise::new(&[0.5; 3], &[0.25; 3], 3);
        config.of(&image, [3, 24, 20], &normalise, (5, draw))
    }

    #[test]
    fn a_view_is_a_function_of_seed_draw_and_number() {
        let few = ViewsConfig {
            local: 2,
            local_size: 8,
            ..ViewsConfig::default()
        };
        let more = ViewsConfig {
            local: 5,
            ..few.clone()
        };
        let (found, longer) = (views(&few, 3), views(&more, 3));
        assert_eq!(
            (found.global.len(), found.local.len()),
            (2 * 3 * 24 * 20, 2 * 3 * 8 * 8)
        );
        assert_eq!(found, views(&few, 3));
        assert_eq!(found.global, longer.global);
        assert_eq!(found.local, longer.local[..found.local.len()]);
        assert_ne!(found, views(&few, 4));
        let [first, second] = [0, 1].map(|n| &found.global[n * 3 * 24 * 20..][..3 * 24 * 20]);
        assert_ne!(first, second);
    }

    #[test]
    fn a_view_of_the_whole_without_changes_is_the_image() {
        let plain = ViewsConfig {
            local: 0,
            global_scale: [1.0, 1.0],
            flip: false,
            blurred: [0.0; 3],
            solarized: [0.0, 1.0, 0.0],
            ..ViewsConfig::default()
        };
        let image: Vec<u8> = (0..5 * 5).map(|n| n * 10).collect();
        let normalise = Normalise::new(&[], &[], 1);
        let found = plain.of(&image, [1, 5, 5], &normalise, (1, 1));
        assert!(found.local.is_empty());
        let (first, second) = found.global.split_at(25);
        assert_eq!(first, normalise.apply(&image));
        assert!(second.iter().all(|x| *x * 255.0 < 128.0));
    }
}
