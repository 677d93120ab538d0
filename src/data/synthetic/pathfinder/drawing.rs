//! Draws a problem of `kind = "pathfinder"`: paths that keep away from each other, dashes, circles.
//!
//! A path is a line of dashes: each continues the previous one after a gap, at an angle of at most [`TURN`]
//! to it. Lines of different paths, and parts of one path that do not follow each other, stay at least
//! [`MIN_DISTANCE`] pixels apart; an end that may get a circle keeps [`REACH`] more. Lit pixels of different paths
//! therefore never come as near to each other as two dashes of a path are.

use std::f32::consts::TAU;

use super::PathfinderConfig;
use crate::rng::Stream;

/// Distance from a dash to the next one, in pixels.
const GAP: f32 = 1.6;
/// Length of a dash in pixels.
const DASH: f32 = 2.6;
/// Thickness of a dash in pixels.
const THICK: f32 = 1.0;
/// Maximum angle between two dashes, in radians.
const TURN: f32 = 0.6;
/// Minimum distance in pixels of lines that do not belong together.
const MIN_DISTANCE: f32 = 4.65;
/// Radius of a circle in pixels.
const RADIUS: f32 = 1.5;
/// Distance that an end that may get a circle keeps clear beyond [`APART`].
const REACH: f32 = 1.0;
/// Minimum distance of a line from the edge of the image.
const EDGE: f32 = 2.0;
/// Number of directions that are tried for a dash, and of starts for a path.
const TURNS: usize = 10;
const BEGINNINGS: usize = 100;

/// A point in the image, in pixels.
pub type Place = (f32, f32);

/// A drawn problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Grey values, row by row.
    pub pixels: Vec<u8>,
    /// Whether a path joins the circles.
    pub joined: bool,
    /// Centres of the circles.
    pub circles: [Place; 2],
}

/// A line between two points.
type Line = (Place, Place);

/// Lines with a gap between each one and the next.
type Path = Vec<Line>;

/// Draws an image in which a path joins the circles if `joined`; `None` if these random numbers leave no room
/// for its paths.
pub fn draw(config: &PathfinderConfig, joined: bool, stream: &mut Stream) -> Option<Drawing> {
    let mut paths: Vec<Path> = Vec::new();
    for number in 0..2 + config.distractors {
        // The two long paths may get circles, the short ones never do.
        let (dashes, reach) = match number {
            0 | 1 => (config.length, REACH),
            _ => (config.distractor_length, 0.0),
        };
        let path = (0..BEGINNINGS).find_map(|_| grow(config, &paths, dashes, reach, stream))?;
        paths.push(path);
    }
    let circles = circles(&paths, joined);
    Some(Drawing {
        pixels: painted(config.size, &paths, circles),
        joined,
        circles,
    })
}

/// Returns the two ends of a path.
fn ends(path: &Path) -> [Place; 2] {
    [path[0].0, path[path.len() - 1].1]
}

/// Chooses the circles: both ends of one path, or one end of each. The pair of ends is taken whose distance
/// is nearest to the mean distance of the other class's pairs, so that the distance of the circles does not
/// tell whether they are joined.
fn circles(paths: &[Path], joined: bool) -> [Place; 2] {
    let (first, second) = (ends(&paths[0]), ends(&paths[1]));
    let across = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(a, b)| [first[a], second[b]]);
    let along = [first, second];
    let (chosen, others): (&[[Place; 2]], &[[Place; 2]]) = match joined {
        true => (&along, &across),
        false => (&across, &along),
    };
    let far = |[a, b]: &[Place; 2]| distance(*a, *b);
    let wanted = others.iter().map(far).sum::<f32>() / others.len() as f32;
    let off = |pair: &&[Place; 2]| (far(pair) - wanted).abs();
    let nearest = chosen.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
    *nearest.unwrap_or(&first)
}

/// Draws a path of `dashes` dashes that keeps its distance from others; its ends keep `reach` more.
fn grow(
    config: &PathfinderConfig,
    others: &[Path],
    dashes: usize,
    reach: f32,
    stream: &mut Stream,
) -> Option<Path> {
    let side = config.size as f32;
    let inside = |(x, y): Place, edge: f32| {
        let within = edge..=side - edge;
        within.contains(&x) && within.contains(&y)
    };
    let mut at = (side * stream.uniform(), side * stream.uniform());
    let mut angle = TAU * stream.uniform();
    let mut path: Path = Vec::with_capacity(dashes);
    for dash in 0..dashes {
        let at_end = dash == 0 || dash + 1 == dashes;
        let beyond = if at_end { reach } else { 0.0 };
        let next = (0..TURNS).find_map(|_| {
            let turned = match dash {
                0 => angle,
                _ => angle + TURN * (2.0 * stream.uniform() - 1.0),
            };
            let (sin, cos) = turned.sin_cos();
            let step = |length: f32| (at.0 + length * cos, at.1 + length * sin);
            let line = (at, step(DASH));
            // The gap after a dash is kept clear, too.
            let clear = match dash + 1 == dashes {
                true => line,
                false => (at, step(DASH + GAP)),
            };
            let edge = EDGE + beyond;
            let near = others.iter().any(|other| {
                let far = |(number, part): (usize, &Line)| {
                    let end = number == 0 || number + 1 == other.len();
                    let ends = if end && other.len() == config.length {
                        REACH
                    } else {
                        0.0
                    };
                    between(whole(*part), clear) >= MIN_DISTANCE + beyond + ends
                };
                !other.iter().enumerate().all(far)
            });
            // The previous dash touches this one, and the one before it may come nearer in a bend.
            let own = path.len().saturating_sub(2);
            let folded = path[..own]
                .iter()
                .any(|part| between(whole(*part), clear) < MIN_DISTANCE + beyond);
            let fits = inside(line.0, edge) && inside(line.1, edge) && !near && !folded;
            fits.then_some((line, turned, step(DASH + GAP)))
        });
        let (line, turned, after) = next?;
        path.push(line);
        (angle, at) = (turned, after);
    }
    Some(path)
}

/// Returns a dash extended by the gap after it.
fn whole((from, to): Line) -> Line {
    let longer = (DASH + GAP) / DASH;
    let end = |a: f32, b: f32| a + (b - a) * longer;
    (from, (end(from.0, to.0), end(from.1, to.1)))
}

fn distance(a: Place, b: Place) -> f32 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

/// Returns the distance of a point from a line.
fn from_line(place: Place, (a, b): Line) -> f32 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx * dx + dy * dy;
    let along = ((place.0 - a.0) * dx + (place.1 - a.1) * dy) / length.max(f32::MIN_POSITIVE);
    let along = along.clamp(0.0, 1.0);
    distance(place, (a.0 + along * dx, a.1 + along * dy))
}

/// Returns the distance between two lines of at most [`DASH`] + [`GAP`]. For lines that cross it is the
/// distance of an end, which is at most half of that length and so less than [`APART`].
fn between(one: Line, other: Line) -> f32 {
    let ends = [
        from_line(one.0, other),
        from_line(one.1, other),
        from_line(other.0, one),
        from_line(other.1, one),
    ];
    ends.into_iter().fold(f32::INFINITY, f32::min)
}

/// Paints the image: a pixel is as bright as the nearest dash or circle covers it.
fn painted(size: usize, paths: &[Path], circles: [Place; 2]) -> Vec<u8> {
    let mut pixels = vec![0; size * size];
    let mut light = |around: Line, reach: f32| {
        let range = |a: f32, b: f32| {
            let low = (a.min(b) - reach - 1.0).max(0.0) as usize;
            let high = (a.max(b) + reach + 1.0).min(size as f32) as usize;
            low..high
        };
        for row in range(around.0.1, around.1.1) {
            for column in range(around.0.0, around.1.0) {
                let middle = (column as f32 + 0.5, row as f32 + 0.5);
                let covered = (reach + 0.5 - from_line(middle, around)).clamp(0.0, 1.0);
                let pixel: &mut u8 = &mut pixels[row * size + column];
                *pixel = (*pixel).max((255.0 * covered).round() as u8);
            }
        }
    };
    for line in paths.iter().flatten() {
        light(*line, THICK / 2.0);
    }
    for circle in circles {
        light((circle, circle), RADIUS);
    }
    pixels
}
