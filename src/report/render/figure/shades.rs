//! Colours for numbers: the viridis colour map and its colour bar.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{Area, INK, drawing_error, px, text};
use crate::error::Result;
use crate::report::render::terminal::number;

/// Stops of the viridis colour map (Smith and van der Walt, matplotlib 2.0), dark to light.
const VIRIDIS: [(f64, f64, f64); 5] = [
    (68.0, 1.0, 84.0),
    (59.0, 82.0, 139.0),
    (33.0, 145.0, 140.0),
    (94.0, 201.0, 98.0),
    (253.0, 231.0, 37.0),
];

/// Returns the colour for a position in the range from 0 to 1, and a text colour that is legible on it.
pub fn shade(share: f64) -> (RGBColor, RGBColor) {
    let place = share.clamp(0.0, 1.0) * (VIRIDIS.len() - 1) as f64;
    let i = (place.floor() as usize).min(VIRIDIS.len() - 2);
    let (a, b, t) = (VIRIDIS[i], VIRIDIS[i + 1], place - i as f64);
    let mix = |a: f64, b: f64| (a + t * (b - a)).round() as u8;
    let color = RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2));
    let ink = if share > 0.55 { INK } else { WHITE };
    (color, ink)
}

/// Returns the position of a value in a range, from 0 to 1; 0.5 if the range is empty.
pub fn range_fraction(value: f64, (low, high): (f64, f64)) -> f64 {
    if high > low {
        (value - low) / (high - low)
    } else {
        0.5
    }
}

/// Draws the colour bar from `(x, y)` down, `tall` pixels high, with the ends of the range as labels.
pub fn color_bar(root: &Area, range: (f64, f64), (x, y): (f64, f64), tall: f64) -> Result<()> {
    const STEPS: usize = 48;
    for i in (0..STEPS).rev() {
        let share = i as f64 / (STEPS - 1) as f64;
        let from = y + tall * (1.0 - (i + 1) as f64 / STEPS as f64);
        // Each rectangle reaches to the bottom and is covered by the next, so that no seam shows.
        let corners = [(px(x), px(from)), (px(x + 14.0), px(y + tall))];
        root.draw(&Rectangle::new(corners, shade(share).0.filled()))
            .map_err(drawing_error)?;
    }
    let style = text(12.0, INK).pos(Pos::new(HPos::Left, VPos::Center));
    for (value, y) in [(range.1, y + 6.0), (range.0, y + tall - 6.0)] {
        let label = Text::new(number(value), (px(x + 20.0), px(y)), style.clone());
        root.draw(&label).map_err(drawing_error)?;
    }
    Ok(())
}
