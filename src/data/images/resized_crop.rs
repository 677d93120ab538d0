//! Crops of random area and aspect ratio, and random changes of colours: torchvision's `RandomResizedCrop`
//! and `ColorJitter` on bytes.

use super::operations::Operation;
use super::resize::resize;
use crate::one_table::is_usual;
use crate::rng::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `resized_crop`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResizedCropConfig {
    /// Minimum and maximum share of the image's area.
    pub scale: [f64; 2],
    /// Minimum and maximum ratio of the window's width to its height.
    pub ratio: [f64; 2],
}

impl Default for ResizedCropConfig {
    fn default() -> Self {
        Self {
            scale: [0.08, 1.0],
            ratio: [3.0 / 4.0, 4.0 / 3.0],
        }
    }
}

/// `jitter`: each factor is drawn from 1 − x to 1 + x, and never below 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JitterConfig {
    /// x of the brightness; 0 leaves it unchanged.
    #[schemars(range(min = 0, max = 10))]
    pub brightness: f64,
    /// x of the contrast.
    #[schemars(range(min = 0, max = 10))]
    pub contrast: f64,
    /// x of the saturation; grey images have none.
    #[schemars(range(min = 0, max = 10))]
    pub saturation: f64,
    /// x of the hue: hues are rotated by -x to x, as a share of the colour circle; grey images have none.
    #[schemars(range(min = 0, max = 0.5))]
    #[serde(skip_serializing_if = "is_usual")]
    pub hue: f64,
}

/// Number of windows that are tried before the middle of the image is taken.
const TRIES: usize = 10;
/// Maximum of the jitter of brightness, contrast and saturation.
const MOST_JITTER: f64 = 10.0;
/// Half of the colour circle, beyond which hues come back from the other side.
const MOST_HUE: f64 = 0.5;

impl ResizedCropConfig {
    pub(super) fn faults(&self) -> Vec<String> {
        let ([least, most], mut faults) = (self.scale, Vec::new());
        if !(least > 0.0 && least <= most && most <= 1.0) {
            faults.push(format!(
                "scale = [{least:?}, {most:?}] must be two shares above 0 and at most 1, the smaller one first"
            ));
        }
        let [least, most] = self.ratio;
        if !(least >= 1e-3 && least <= most && most <= 1e3) {
            faults.push(format!(
                "ratio = [{least:?}, {most:?}] must be two ratios from 0.001 to 1000, the smaller one first"
            ));
        }
        faults
    }

    /// Returns a random window of the image `[channels, height, width]`, resized to the image's size.
    pub(super) fn apply(&self, image: &[u8], shape: [usize; 3], stream: &mut Stream) -> Vec<u8> {
        self.applied_to(image, shape, [shape[1], shape[2]], stream)
    }

    /// Returns a random window of the image `[channels, height, width]`, resized to `size` (height and
    /// width).
    pub(super) fn applied_to(
        &self,
        image: &[u8],
        shape: [usize; 3],
        size: [usize; 2],
        stream: &mut Stream,
    ) -> Vec<u8> {
        let [channels, height, width] = shape;
        let [top, left, rows, columns] = self.window([height, width], stream);
        let lines = image.chunks_exact(height * width).flat_map(|plane| {
            let lines = plane.chunks_exact(width).skip(top).take(rows);
            lines.flat_map(|line| &line[left..left + columns])
        });
        let window: Vec<u8> = lines.copied().collect();
        match [rows, columns] == size {
            true => window,
            false => resize(&window, [channels, rows, columns], size),
        }
    }

    /// Draws the top, left, height and width of a window.
    fn window(&self, [height, width]: [usize; 2], stream: &mut Stream) -> [usize; 4] {
        for _ in 0..TRIES {
            let mut within =
                |[least, most]: [f64; 2]| least + (most - least) * f64::from(stream.uniform());
            let area = (height * width) as f64 * within(self.scale);
            let ratio = within(self.ratio.map(f64::ln)).exp();
            let columns = (area * ratio).sqrt().round_ties_even() as usize;
            let rows = (area / ratio).sqrt().round_ties_even() as usize;
            if (1..=height).contains(&rows) && (1..=width).contains(&columns) {
                let top = stream.below((height - rows + 1) as u64) as usize;
                let left = stream.below((width - columns + 1) as u64) as usize;
                return [top, left, rows, columns];
            }
        }
        // Otherwise the largest window in the middle with an allowed ratio.
        let [least, most] = self.ratio;
        let whole = width as f64 / height as f64;
        let (rows, columns) = match whole {
            _ if whole < least => ((width as f64 / least).round_ties_even() as usize, width),
            _ if whole > most => (height, (height as f64 * most).round_ties_even() as usize),
            _ => (height, width),
        };
        let (rows, columns) = (rows.clamp(1, height), columns.clamp(1, width));
        [(height - rows) / 2, (width - columns) / 2, rows, columns]
    }
}

impl JitterConfig {
    pub(super) fn faults(&self) -> Vec<String> {
        let keys = [
            ("brightness", self.brightness, MOST_JITTER),
            ("contrast", self.contrast, MOST_JITTER),
            ("saturation", self.saturation, MOST_JITTER),
            ("hue", self.hue, MOST_HUE),
        ];
        if keys.iter().all(|(_, x, _)| *x == 0.0) {
            return vec![
                "brightness, contrast, saturation and hue are all 0, so it has no effect; remove it"
                    .into(),
            ];
        }
        let wrong = keys
            .into_iter()
            .filter(|(_, x, most)| !(0.0..=*most).contains(x));
        wrong
            .map(|(key, x, most)| format!("{key} = {x:?} must be between 0 and {most:?}"))
            .collect()
    }

    /// Faults of jitter that has no effect on grey images.
    pub(super) fn grey_faults(&self) -> Vec<String> {
        let keys = [("saturation", self.saturation), ("hue", self.hue)];
        let there = keys.into_iter().filter(|(_, x)| *x > 0.0);
        there
            .map(|(key, x)| {
                format!("{key} = {x:?} has no effect on grey images (channels = 1); remove it")
            })
            .collect()
    }

    /// Returns the image with changed colours.
    pub(super) fn apply(&self, image: Vec<u8>, shape: [usize; 3], stream: &mut Stream) -> Vec<u8> {
        let mut factor = |x: f64| {
            let least = (1.0 - x).max(0.0);
            (least + (1.0 + x - least) * f64::from(stream.uniform())) as f32
        };
        let mut operations = Vec::new();
        // Factors are always drawn in this order, whichever are in use.
        for (x, of) in [
            (
                self.brightness,
                Operation::Brightness as fn(f32) -> Operation,
            ),
            (self.contrast, Operation::Contrast),
            (self.saturation, Operation::Color),
        ] {
            if x > 0.0 {
                operations.push(of(factor(x)));
            }
        }
        if self.hue > 0.0 {
            let by = self.hue * (2.0 * f64::from(stream.uniform()) - 1.0);
            operations.push(Operation::Hue(by as f32));
        }
        for last in (1..operations.len()).rev() {
            operations.swap(last, stream.below(last as u64 + 1) as usize);
        }
        operations
            .into_iter()
            .fold(image, |image, operation| operation.apply(image, shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    fn stream(number: u64) -> Stream {
        Stream::new(5, Purpose::Augment, (number, 0, 0))
    }

    #[test]
    fn windows_have_the_area_and_the_ratio_that_are_allowed() {
        let config = ResizedCropConfig {
            scale: [0.25, 0.5],
            ratio: [0.5, 2.0],
        };
        let (mut areas, mut wide) = (Vec::new(), 0);
        for number in 0..500 {
            let [top, left, rows, columns] = config.window([60, 80], &mut stream(number));
            assert!(top + rows <= 60 && left + columns <= 80);
            areas.push((rows * columns) as f64 / 4800.0);
            wide += usize::from(columns > rows);
        }
        // Sides are rounded to whole pixels.
        assert!(areas.iter().all(|share| (0.24..0.52).contains(share)));
        let mean = areas.iter().sum::<f64>() / areas.len() as f64;
        assert!((mean - 0.375).abs() < 0.02, "{mean}");
        assert!((150..400).contains(&wide), "{wide}");
    }

    #[test]
    fn a_window_that_never_fits_is_the_middle() {
        let config = ResizedCropConfig {
            scale: [1.0, 1.0],
            ratio: [1.0, 1.0],
        };
        assert_eq!(config.window([10, 30], &mut stream(1)), [0, 10, 10, 10]);
        let image: Vec<u8> = (0..16).collect();
        assert_eq!(config.apply(&image, [1, 4, 4], &mut stream(1)), image);
    }

    #[test]
    fn jitter_of_nothing_changes_nothing_and_draws_nothing() {
        let image: Vec<u8> = (0..27).collect();
        let mut drawn = stream(2);
        assert_eq!(
            JitterConfig::default().apply(image.clone(), [3, 3, 3], &mut drawn),
            image
        );
        assert_eq!(drawn.next_u32(), stream(2).next_u32());
        let bright = JitterConfig {
            brightness: 0.5,
            ..JitterConfig::default()
        };
        let changed = bright.apply(vec![100; 3], [3, 1, 1], &mut stream(3));
        assert!(
            changed[0] != 100 && (50..=150).contains(&changed[0]),
            "{changed:?}"
        );
    }
}
