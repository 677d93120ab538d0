//! The content of a picture of shapes, its caption, and its pixels.

use super::CaptionedShapesConfig;
use crate::data::batch::ImageItem;
use crate::data::synthetic::shapes::{self, NAMES, Placed};
use crate::rng::Stream;

/// Names of the colours, in the order in which they are used, with red, green and blue values.
pub(super) const COLOURS: [(&str, [f32; 3]); 8] = [
    ("red", [0.9, 0.1, 0.1]),
    ("green", [0.1, 0.75, 0.15]),
    ("blue", [0.15, 0.25, 0.95]),
    ("yellow", [0.95, 0.9, 0.1]),
    ("purple", [0.55, 0.1, 0.75]),
    ("cyan", [0.1, 0.85, 0.9]),
    ("white", [1.0, 1.0, 1.0]),
    ("pink", [1.0, 0.55, 0.75]),
];
/// Relations of the first shape to the second.
const RELATIONS: [&str; 2] = ["left of", "above"];
/// Range of the background's grey value.
const GREY: (f32, f32) = (0.2, 0.4);
/// Range of the radius of a shape, as a share of the image's side.
const RADIUS: (f32, f32) = (0.15, 0.22);
/// Maximum rotation of a shape to either side, in radians.
const TURN: f32 = 0.3;
/// Mean and standard deviation by which values from 0 to 1 are normalised.
pub(super) const MEAN: f32 = 0.5;
pub(super) const STD: f32 = 0.25;
/// Indices of a colour and a shape.
type Thing = [usize; 2];

/// The content of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Scene {
    first: Thing,
    /// Index of the relation, and the second thing.
    second: Option<(usize, Thing)>,
}

impl Scene {
    /// Draws a scene.
    pub(super) fn draw(config: &CaptionedShapesConfig, stream: &mut Stream) -> Self {
        let thing = |stream: &mut Stream| {
            [config.colours, config.shapes].map(|n| stream.below(n as u64) as usize)
        };
        let alone = f64::from(stream.uniform()) < config.alone;
        let first = thing(stream);
        let second = (!alone).then(|| {
            let relation = stream.below(RELATIONS.len() as u64) as usize;
            (relation, thing(stream))
        });
        Self { first, second }
    }

    /// Returns the caption, such as `a red circle left of a blue square`.
    pub(super) fn caption(&self) -> String {
        let named = |[colour, shape]: Thing| format!("a {} {}", COLOURS[colour].0, NAMES[shape]);
        match self.second {
            None => named(self.first),
            Some((relation, second)) => {
                let relation = RELATIONS[relation];
                format!("{} {relation} {}", named(self.first), named(second))
            }
        }
    }

    /// Returns the centre of each thing's part of the picture and half of its extent, as shares of the side.
    fn parts(&self) -> Vec<(Thing, [f32; 2], [f32; 2])> {
        let Some((relation, second)) = self.second else {
            return vec![(self.first, [0.5, 0.5], [0.5, 0.5])];
        };
        let part = |thing: Thing, along: f32| match relation {
            0 => (thing, [along, 0.5], [0.25, 0.5]),
            _ => (thing, [0.5, along], [0.5, 0.25]),
        };
        vec![part(self.first, 0.25), part(second, 0.75)]
    }

    /// Draws the picture; positions and sizes are random.
    pub(super) fn image(&self, config: &CaptionedShapesConfig, stream: &mut Stream) -> ImageItem {
        let (size, side) = (config.size, config.size as f32);
        let between =
            |stream: &mut Stream, (low, high): (f32, f32)| low + (high - low) * stream.uniform();
        let grey = between(stream, GREY);
        let mut planes = vec![vec![grey; size * size]; 3];
        for ([colour, shape], middle, half) in self.parts() {
            let radius = between(stream, RADIUS);
            let mut place = |part: usize| {
                let room = (half[part] - radius).max(0.0);
                side * between(stream, (middle[part] - room, middle[part] + room))
            };
            let at = Placed {
                x: place(0),
                y: place(1),
                radius: side * radius,
                angle: between(stream, (-TURN, TURN)),
            };
            let covered = shapes::covered(shape, size, at);
            for (plane, value) in planes.iter_mut().zip(COLOURS[colour].1) {
                for (pixel, share) in plane.iter_mut().zip(&covered) {
                    *pixel += share * (value - *pixel);
                }
            }
        }
        let noisy = |value: f32, stream: &mut Stream| {
            let value = value + config.noise as f32 * stream.normal();
            (value.clamp(0.0, 1.0) - MEAN) / STD
        };
        let values = planes.concat().into_iter();
        ImageItem {
            pixels: values.map(|value| noisy(value, stream)).collect(),
            shape: [3, size, size],
            label: 0,
            mixed: None,
            views: None,
        }
    }
}

/// Returns every word that captions can contain.
pub(super) fn words() -> Vec<&'static str> {
    let relations = RELATIONS.iter().flat_map(|relation| relation.split(' '));
    let named = COLOURS.iter().map(|(name, _)| *name).chain(NAMES);
    ["a"].into_iter().chain(relations).chain(named).collect()
}
