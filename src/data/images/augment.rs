//! `[data] augment`: how training images are augmented, in the order of DeiT's recipe: crop, flip,
//! RandAugment, jitter, normalisation, erasing, mixing.
//!
//! * `resized_crop`: a window of random area and aspect ratio, resized to the size of the whole image
//!   (Szegedy et al. 2015, section 6; torchvision's `RandomResizedCrop`). It is cut from the image at the
//!   size that the data has.
//! * `crop`: the image is padded with this many black pixels and cropped at random to its own size (He et al.
//!   2016, section 4.2).
//! * `flip`: half of the images are mirrored left to right.
//! * `rand_augment`: `n` operations of 14, drawn independently (Cubuk et al. 2020, arXiv:1909.13719), with
//!   torchvision's operations and its 31 magnitudes; areas from outside the image are black.
//! * `jitter`: brightness, contrast and saturation are scaled by random factors and hues rotated by a random
//!   angle, in random order (torchvision's `ColorJitter`).
//! * `erase`: with this probability a rectangle of 2 to 33 % of the image, of aspect ratio 0.3 to 3.3,
//!   becomes 0 after normalisation, that is, the mean colour (Zhong et al. 2017, arXiv:1708.04896; ranges of
//!   torchvision).
//! * `mixup`, `cutmix`: α of the Beta distribution; see [`super::mix`].

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mix::Mixing;
use super::operations;
use super::resized_crop::{JitterConfig, ResizedCropConfig};
use crate::error::{Error, Result};
use crate::rng::Stream;

/// `[data] augment`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AugmentConfig {
    /// Pixels of padding around the image before a random crop; 0 for none.
    #[schemars(range(max = 4096))]
    pub crop: usize,
    /// A window of random area and aspect ratio, instead of `crop`. Source: Szegedy et al. 2015, section 6.
    pub resized_crop: Option<ResizedCropConfig>,
    /// Whether half of the images are mirrored.
    pub flip: bool,
    /// Operations drawn at random. Source: Cubuk et al. 2020, section 3.
    pub rand_augment: Option<RandAugmentConfig>,
    /// Colours changed by random factors. Source: Krizhevsky et al. 2012; Howard 2013, section 2.
    pub jitter: Option<JitterConfig>,
    /// Probability that a rectangle is erased. Source: Zhong et al. 2020, section 3.2.
    #[schemars(range(min = 0, max = 1))]
    pub erase: f64,
    /// α of mixup; 0 for none. Source: Zhang et al. 2018, section 2.
    #[schemars(range(min = 0, max = 1000))]
    pub mixup: f64,
    /// α of cutmix; 0 for none. Source: Yun et al. 2019, section 3.1.
    #[schemars(range(min = 0, max = 1000))]
    pub cutmix: f64,
}

/// `rand_augment`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RandAugmentConfig {
    /// Number of operations, applied one after the other. Source: Cubuk et al. 2020, section 3.
    pub n: usize,
    /// Strength of the operations, 0 to 30. Source: Cubuk et al. 2020, section 3.
    #[schemars(range(max = 30))]
    pub magnitude: usize,
}

impl Default for RandAugmentConfig {
    fn default() -> Self {
        Self { n: 2, magnitude: 9 }
    }
}

/// Range of the erased share of the image.
const ERASED: Range<f64> = 0.02..0.33;
/// Range of the erased rectangle's aspect ratio, height over width.
const ASPECT: Range<f64> = 0.3..3.3;
/// Number of rectangles that are tried before the image is left whole.
const TRIES: usize = 10;

impl AugmentConfig {
    /// Returns all faults of its keys.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, table: &str, message: String| {
            if wrong {
                faults.push(format!("[data.augment{table}] {message}"));
            }
        };
        let crop = self.crop;
        fault(
            crop > 0 && self.resized_crop.is_some(),
            "",
            "crop and resized_crop both cut the image; remove one of them".into(),
        );
        for (table, of) in [
            (
                ".resized_crop",
                self.resized_crop.as_ref().map(ResizedCropConfig::faults),
            ),
            (".jitter", self.jitter.as_ref().map(JitterConfig::faults)),
        ] {
            for message in of.into_iter().flatten() {
                fault(true, table, message);
            }
        }
        fault(
            crop > 4096,
            "",
            format!("crop = {crop} must be between 0 and 4096"),
        );
        fault(
            !(0.0..=1.0).contains(&self.erase),
            "",
            format!("erase = {} must be between 0 and 1", self.erase),
        );
        for (key, alpha) in [("mixup", self.mixup), ("cutmix", self.cutmix)] {
            fault(
                !(0.0..=1000.0).contains(&alpha),
                "",
                format!("{key} = {alpha} must be between 0 and 1000; 0 is none"),
            );
        }
        if let Some(RandAugmentConfig { n, magnitude }) = self.rand_augment {
            let most = operations::MAGNITUDES - 1;
            fault(
                !(1..=operations::COUNT).contains(&n),
                ".rand_augment",
                format!("n = {n} must be between 1 and {}", operations::COUNT),
            );
            fault(
                magnitude > most,
                ".rand_augment",
                format!("magnitude = {magnitude} must be between 0 and {most}"),
            );
        }
        faults
    }

    /// Returns the faults of augmentations that do not fit images with these channels and this size (height
    /// and width), as far as these are known.
    pub(in crate::data) fn misfits(
        &self,
        channels: Option<usize>,
        size: Option<[usize; 2]>,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let jitter = self.jitter.iter().filter(|_| channels == Some(1));
        for fault in jitter.flat_map(JitterConfig::grey_faults) {
            faults.push(format!("[data.augment.jitter] {fault}"));
        }
        let side = size.and_then(|sides| sides.into_iter().min());
        if let Some(side) = side.filter(|side| self.crop > *side) {
            faults.push(format!(
                "[data.augment] crop = {} must be at most {side}, the shorter side of the images",
                self.crop
            ));
        }
        faults
    }

    /// Returns an error with the first of [`Self::misfits`].
    ///
    /// # Errors
    /// If an augmentation does not fit images of this shape `[channels, height, width]`.
    pub(in crate::data) fn require_fit(&self, [channels, height, width]: [usize; 3]) -> Result<()> {
        let faults = self.misfits(Some(channels), Some([height, width]));
        let first = faults.into_iter().next();
        first.map_or(Ok(()), |fault| Err(Error::usage(fault)))
    }

    /// Returns how images are mixed, if they are.
    pub fn mixing(&self) -> Option<Mixing> {
        match (self.mixup > 0.0, self.cutmix > 0.0) {
            (false, false) => None,
            (true, false) => Some(Mixing::Mixup(self.mixup)),
            (false, true) => Some(Mixing::Cutmix(self.cutmix)),
            (true, true) => Some(Mixing::Either(self.mixup, self.cutmix)),
        }
    }
}

/// Returns the image `[channels, height, width]`, cropped, mirrored and changed by operations.
pub fn augment_image(
    image: &[u8],
    shape: [usize; 3],
    config: &AugmentConfig,
    stream: &mut Stream,
) -> Vec<u8> {
    let mut image = if let Some(window) = &config.resized_crop {
        window.apply(image, shape, stream)
    } else if config.crop > 0 {
        let span = 2 * config.crop as u64 + 1;
        let mut offset = || stream.below(span) as isize - config.crop as isize;
        let (down, right) = (offset(), offset());
        shifted(image, shape, down, right)
    } else {
        image.to_vec()
    };
    if config.flip && stream.next_u32() >> 31 == 0 {
        operations::mirror(&mut image, shape[2]);
    }
    if let Some(RandAugmentConfig { n, magnitude }) = config.rand_augment {
        for _ in 0..n {
            image = operations::Operation::draw(magnitude, shape, stream).apply(image, shape);
        }
    }
    match &config.jitter {
        Some(jitter) => jitter.apply(image, shape, stream),
        None => image,
    }
}

/// Returns the image's window shifted by these pixels down and right; black outside the image.
fn shifted(image: &[u8], [_, height, width]: [usize; 3], down: isize, right: isize) -> Vec<u8> {
    // Columns of the window that lie inside the image.
    let seen = |size: usize, by: isize| {
        let size = size as isize;
        let clamp = |at: isize| at.clamp(0, size) as usize;
        clamp(-by)..clamp(size - by)
    };
    let (rows, columns) = (seen(height, down), seen(width, right));
    let mut out = vec![0; image.len()];
    if rows.is_empty() || columns.is_empty() {
        return out;
    }
    let planes = out.chunks_exact_mut(height * width);
    for (out, image) in planes.zip(image.chunks_exact(height * width)) {
        for row in rows.clone() {
            let from = row.saturating_add_signed(down) * width;
            let from = from + columns.start.saturating_add_signed(right);
            let line = &mut out[row * width..][columns.clone()];
            line.copy_from_slice(&image[from..from + line.len()]);
        }
    }
    out
}

/// Erases a rectangle of a normalised image with this probability.
pub fn erase(image: &mut [f32], shape: [usize; 3], probability: f64, stream: &mut Stream) {
    // With probability 0 no number is drawn.
    if probability == 0.0 || f64::from(stream.uniform()) >= probability {
        return;
    }
    let [_, height, width] = shape;
    let Some((rows, columns)) = rectangle(height, width, stream) else {
        return;
    };
    for plane in image.chunks_exact_mut(height * width) {
        for row in rows.clone() {
            plane[row * width..][columns.clone()].fill(0.0);
        }
    }
}

fn rectangle(
    height: usize,
    width: usize,
    stream: &mut Stream,
) -> Option<(Range<usize>, Range<usize>)> {
    let mut within = |r: Range<f64>| r.start + (r.end - r.start) * f64::from(stream.uniform());
    let (rows, columns) = (0..TRIES).find_map(|_| {
        let area = (height * width) as f64 * within(ERASED);
        let aspect = within(ASPECT.start.ln()..ASPECT.end.ln()).exp();
        let rows = (area * aspect).sqrt().round_ties_even() as usize;
        let columns = (area / aspect).sqrt().round_ties_even() as usize;
        (rows < height && columns < width).then_some((rows, columns))
    })?;
    let mut place = |size: usize, length: usize| {
        let first = stream.below((size - length + 1) as u64) as usize;
        first..first + length
    };
    Some((place(height, rows), place(width, columns)))
}
