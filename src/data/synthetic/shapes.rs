//! Generated shapes: circles, squares, triangles and others, at any position, of any size, rotated, in noise.
//! No file is needed, and a classifier has to look at the form: neither position, brightness, colour nor size
//! tells what is shown.
//!
//! An image is drawn from (seed, sample number): a background and a shape that differ by at least 0.35 of
//! full scale in the mean of their channels, a radius of 0.28 to 0.42 of the image's side, any angle, and
//! normal noise on every pixel. The validation and test images are the same for every seed.

use std::f32::consts::{FRAC_1_SQRT_2, TAU};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::held_out::{FIXED_SEED, PASS};
use crate::data::batch::ImageItem;
use crate::data::{Data, DataSet, ExampleForm, Item, Request, Shape, Source, Split};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// `kind = "shapes"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShapesConfig {
    /// Height and width of an image in pixels.
    pub size: usize,
    /// 1 for grey, 3 for colour.
    pub channels: usize,
    /// Number of the shapes in use: circle, square, triangle, cross, star, ring, crescent, bar.
    pub classes: usize,
    /// Standard deviation of the noise, of values from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub noise: f64,
    /// Images in the validation split; 0 for none.
    pub valid_items: usize,
    /// Images in the test split; 0 for none.
    pub test_items: usize,
}

impl Default for ShapesConfig {
    fn default() -> Self {
        Self {
            size: 28,
            channels: 1,
            classes: 4,
            noise: 0.05,
            valid_items: 1000,
            test_items: 0,
        }
    }
}

/// Names of the shapes, in the order of their labels.
pub const NAMES: [&str; 8] = [
    "circle", "square", "triangle", "cross", "star", "ring", "crescent", "bar",
];

/// Range of the radius of a shape, as a share of the image's side.
const RADIUS: (f32, f32) = (0.28, 0.42);
/// Minimum difference between the shape and the background.
const CONTRAST: f32 = 0.35;
/// Mean and standard deviation by which values from 0 to 1 are normalised.
const MEAN: f32 = 0.5;
const STD: f32 = 0.25;

impl DataSet for ShapesConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(format!("[data] {message}"));
            }
        };
        let (size, classes, noise) = (self.size, self.classes, self.noise);
        fault(
            !(12..=1024).contains(&size),
            format!("size = {size} must be between 12 and 1024"),
        );
        fault(
            self.channels != 1 && self.channels != 3,
            "channels must be 1 (grey) or 3 (colour)".into(),
        );
        fault(
            !(2..=NAMES.len()).contains(&classes),
            format!("classes = {classes} must be between 2 and {}", NAMES.len()),
        );
        fault(
            !(0.0..=1.0).contains(&noise),
            format!("noise = {noise} must be between 0 and 1"),
        );
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Images
    }

    fn image(&self) -> Option<[usize; 3]> {
        Some([self.channels, self.size, self.size])
    }

    fn context(&self) -> usize {
        0
    }

    fn has(&self, split: Split) -> bool {
        match split {
            Split::Train => true,
            Split::Valid => self.valid_items > 0,
            Split::Test => self.test_items > 0,
        }
    }

    fn is_text(&self) -> bool {
        false
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let source = |split, seed, items| -> Arc<dyn Source> {
            Arc::new(Shapes {
                config: self.clone(),
                split,
                seed,
                items,
            })
        };
        let held_out = |split, items| (items > 0).then(|| source(split, FIXED_SEED, items));
        let shape = Shape {
            image: Some([self.channels, self.size, self.size]),
            classes: NAMES[..self.classes].iter().map(|n| (*n).into()).collect(),
            mean: vec![MEAN; self.channels],
            std: vec![STD; self.channels],
            ..Shape::default()
        };
        Ok(Data {
            valid: held_out(Split::Valid, self.valid_items),
            test: held_out(Split::Test, self.test_items),
            ..Data::new(source(Split::Train, request.seed, PASS), shape)
        })
    }
}

struct Shapes {
    config: ShapesConfig,
    split: Split,
    seed: u64,
    items: usize,
}

impl Source for Shapes {
    fn len(&self) -> usize {
        self.items
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let place = (sample, self.split as u64, 0);
        let mut stream = Stream::new(self.seed, Purpose::Synthetic, place);
        Ok(Item::Image(draw(&self.config, &mut stream)))
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_endless(&self) -> bool {
        self.split == Split::Train
    }
}

/// Draws one image.
fn draw(config: &ShapesConfig, stream: &mut Stream) -> ImageItem {
    let ShapesConfig { size, channels, .. } = *config;
    let label = stream.below(config.classes as u64) as usize;
    let mut within = |low: f32, high: f32| low + (high - low) * stream.uniform();
    let side = size as f32;
    let radius = side * within(RADIUS.0, RADIUS.1);
    let (x, y) = (within(radius, side - radius), within(radius, side - radius));
    let angle = within(0.0, TAU);
    let (behind, shown) = colours(channels, stream);
    let covered = covered(
        label,
        size,
        Placed {
            x,
            y,
            radius,
            angle,
        },
    );
    let mut pixels = Vec::with_capacity(channels * size * size);
    for (behind, shown) in behind.iter().zip(&shown) {
        for share in &covered {
            let value = behind + share * (shown - behind);
            let value = (value + config.noise as f32 * stream.normal()).clamp(0.0, 1.0);
            pixels.push((value - MEAN) / STD);
        }
    }
    ImageItem {
        pixels,
        shape: [channels, size, size],
        label: label as i32,
        mixed: None,
        views: None,
    }
}

/// The position, size and rotation of a shape in an image, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// Distance of its middle from the left edge.
    pub x: f32,
    /// Distance of its middle from the top edge.
    pub y: f32,
    /// Radius of the circle that encloses it.
    pub radius: f32,
    /// Rotation angle in radians.
    pub angle: f32,
}

/// Returns the share of each pixel that a shape covers, row by row, in an image `size` wide and high; `label`
/// is the shape's index in [`NAMES`].
pub(super) fn covered(label: usize, size: usize, at: Placed) -> Vec<f32> {
    let (sin, cos) = at.angle.sin_cos();
    let inside = |across: f32, down: f32| {
        let place = (across * cos + down * sin, down * cos - across * sin);
        is_inside(label, place.0 / at.radius, place.1 / at.radius)
    };
    let share = |pixel: usize| {
        let (across, down) = ((pixel % size) as f32 - at.x, (pixel / size) as f32 - at.y);
        // No shape reaches beyond its radius plus the diagonal of a pixel.
        if across.hypot(down) > at.radius + 1.5 {
            return 0.0;
        }
        let corners = [(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)];
        let count = corners
            .iter()
            .filter(|(dx, dy)| inside(across + dx, down + dy))
            .count();
        count as f32 / corners.len() as f32
    };
    (0..size * size).map(share).collect()
}

/// Draws the values of the background and of the shape, for each channel.
fn colours(channels: usize, stream: &mut Stream) -> (Vec<f32>, Vec<f32>) {
    loop {
        let mut one = || (0..channels).map(|_| stream.uniform()).collect::<Vec<_>>();
        let (behind, shown) = (one(), one());
        let difference: f32 = behind.iter().zip(&shown).map(|(b, s)| b - s).sum();
        if (difference / channels as f32).abs() >= CONTRAST {
            return (behind, shown);
        }
    }
}

/// Whether a point, in radii from the middle, belongs to the shape.
fn is_inside(label: usize, x: f32, y: f32) -> bool {
    let square = |half: f32| x.abs() <= half && y.abs() <= half;
    let distance = x.hypot(y);
    match NAMES[label] {
        "circle" => distance <= 0.85,
        "square" => square(FRAC_1_SQRT_2),
        // Equilateral, with the corners on the circle of radius 1.
        "triangle" => y <= 0.5 && y >= 3.0f32.sqrt() * x.abs() - 1.0,
        "cross" => (x.abs() <= 0.24 && y.abs() <= 0.95) || (y.abs() <= 0.24 && x.abs() <= 0.95),
        "star" => is_in_star(x, y),
        "ring" => (0.5..=0.95).contains(&distance),
        "crescent" => distance <= 0.95 && (x - 0.45).hypot(y) > 0.7,
        _ => x.abs() <= 0.95 && y.abs() <= 0.26,
    }
}

/// Whether a point is in a star with five tips on the circle of radius 1 and inner corners at 0.4.
fn is_in_star(x: f32, y: f32) -> bool {
    let tenth = TAU / 10.0;
    // Folded to a tenth of the circle: from a tip (angle 0) to the inner corner beside it.
    let angle = y.atan2(x).rem_euclid(2.0 * tenth);
    let angle = angle.min(2.0 * tenth - angle);
    let distance = x.hypot(y);
    let (across, up) = (distance * angle.cos(), distance * angle.sin());
    let (corner_x, corner_y) = (0.4 * tenth.cos(), 0.4 * tenth.sin());
    // Test for the inner side of the line from (1, 0) to the corner.
    (corner_x - 1.0) * up - corner_y * (across - 1.0) >= 0.0
}
