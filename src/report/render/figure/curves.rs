//! Figure of the compared metric's curves: the mean over seeds of each arm, with a band of one standard deviation.
//!
//! The frame holds every value after the first tenth of the steps; higher values (a fresh model's loss) are cut off.

use plotters::prelude::*;

use super::axis::Axis;
use super::canvas::{COLORS, Mark, drawing_error, frame, legend, line, px, svg};
use super::{ARMS, Figure, FigureOptions, metric, plotted_arms};
use crate::error::Result;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::curves::{Band, curve};

/// Maximum number of points of a curve; about as many as the frame has pixels.
const POINTS: usize = 400;
const WIDTH: u32 = 720;
const HEIGHT: u32 = 380;
/// Left edge of the legend, in pixels.
const LEGEND: f64 = 520.0;

/// The curve of an arm.
struct Trace {
    arm: usize,
    color: RGBColor,
    points: Vec<Band>,
}

/// Draws the figure; `None` if no arm has a curve.
pub fn figure(c: &Comparison, look: FigureOptions) -> Result<Option<Figure>> {
    let (arms, note) = plotted_arms(c, ARMS);
    let of_arm = |i: usize| curve(&c.plotted_runs(i), c.split, &c.metric, POINTS);
    // Colours are assigned before arms without a curve are dropped, so that an arm has the same colour in all figures.
    let curves: Vec<Trace> = arms
        .into_iter()
        .zip(COLORS)
        .map(|(arm, color)| Trace {
            arm,
            color,
            points: of_arm(arm),
        })
        .filter(|trace| trace.points.len() > 1)
        .collect();
    if curves.is_empty() {
        return Ok(None);
    }
    let (x, y) = axes(c, &curves, look);
    let name = metric(c);
    let title = format!("{name} by optimizer steps");
    let svg = svg(&title, (WIDTH, HEIGHT), |root| {
        let (left, right) = root.split_horizontally(px(LEGEND));
        let mut chart = frame(&left, &x, &y, 62.0)?;
        for Trace { color, points, .. } in &curves {
            let outline = band(points, &x, &y);
            if points.iter().any(|p| p.sd > 0.0) && outline.len() > 2 {
                let band = Polygon::new(outline, color.mix(0.18).filled());
                chart.plotting_area().draw(&band).map_err(drawing_error)?;
            }
        }
        for Trace { color, points, .. } in &curves {
            let places = points.iter();
            let places =
                places.filter_map(|p| Some((x.position(p.step as f64)?, y.position(p.mean)?)));
            for piece in clip_line(places.collect(), y.low, y.high) {
                let style = line(*color, 2.0);
                chart
                    .draw_series(LineSeries::new(piece, style))
                    .map_err(drawing_error)?;
            }
        }
        let entries: Vec<_> = curves
            .iter()
            .map(|t| (t.color, c.arms[t.arm].name.clone()))
            .collect();
        legend(&right, &entries, Mark::Line)
    })?;
    let seeds = c.arms.iter().any(|arm| arm.plotted().len() > 1);
    let band = match seeds {
        true => " Lines are means over seeds, bands one standard deviation.",
        false => "",
    };
    Ok(Some(Figure {
        name: "curves".into(),
        caption: format!("{title}.{band}{note}"),
        svg,
    }))
}

fn axes(c: &Comparison, curves: &[Trace], look: FigureOptions) -> (Axis, Axis) {
    let steps = || curves.iter().flat_map(|t| &t.points).map(|p| p.step as f64);
    // A logarithmic axis can show only positive steps.
    let shown = steps().filter(|s| !look.log_x || *s > 0.0);
    let x = Axis::fit("optimizer steps", shown, look.log_x, 5, false);
    let start = 0.1 * steps().fold(0.0, f64::max);
    let late = curves
        .iter()
        .flat_map(|t| &t.points)
        .filter(|p| p.step as f64 >= start);
    let ends = late.flat_map(|p| [p.mean - p.sd, p.mean, p.mean + p.sd]);
    let ends = ends.filter(|v| !look.log_y || *v > 0.0);
    let y = Axis::fit(metric(c), ends, look.log_y, 6, true);
    (x, y)
}

/// Returns the outline of mean ± sd, clipped to the frame.
fn band(points: &[Band], x: &Axis, y: &Axis) -> Vec<(f64, f64)> {
    let edge = |p: &Band, value: f64| {
        // A value without a logarithm is placed at the lower edge of the frame.
        let value = y.position(value).unwrap_or(y.low);
        Some((x.position(p.step as f64)?, value))
    };
    let upper = points.iter().filter_map(|p| edge(p, p.mean + p.sd));
    let lower = points.iter().rev().filter_map(|p| edge(p, p.mean - p.sd));
    let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
    let below = clip_polygon(outline, y.high, |v| v <= y.high);
    clip_polygon(below, y.low, |v| v >= y.low)
}

/// Clips a polygon to the heights that are `inside`, with the edge at `bound` (Sutherland and Hodgman, "Reentrant polygon
/// clipping", CACM 17, 1974).
fn clip_polygon(
    outline: Vec<(f64, f64)>,
    bound: f64,
    inside: impl Fn(f64) -> bool,
) -> Vec<(f64, f64)> {
    let mut kept = Vec::with_capacity(outline.len());
    let before = outline.iter().cycle().skip(outline.len().saturating_sub(1));
    for (&(x0, y0), &(x1, y1)) in before.zip(&outline) {
        if inside(y0) != inside(y1) {
            kept.push((x0 + (bound - y0) / (y1 - y0) * (x1 - x0), bound));
        }
        if inside(y1) {
            kept.push((x1, y1));
        }
    }
    kept
}

/// Returns the pieces of a line between `low` and `high`, cut where the line crosses them.
fn clip_line(points: Vec<(f64, f64)>, low: f64, high: f64) -> Vec<Vec<(f64, f64)>> {
    let mut pieces: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        // The fraction of the segment between the two points that is inside, from `from` to `to`.
        let cross = |bound: f64| (bound - y0) / (y1 - y0);
        let (mut from, mut to) = (0.0f64, 1.0f64);
        if y0 != y1 {
            let (a, b) = (cross(low), cross(high));
            from = from.max(a.min(b));
            to = to.min(a.max(b));
        } else if !(low..=high).contains(&y0) {
            to = -1.0;
        }
        if from > to {
            pieces.push(Vec::new());
            continue;
        }
        let place = |t: f64| (x0 + t * (x1 - x0), (y0 + t * (y1 - y0)).clamp(low, high));
        if let Some(piece) = pieces.last_mut() {
            if piece.is_empty() {
                piece.push(place(from));
            }
            piece.push(place(to));
        }
        if to < 1.0 {
            pieces.push(Vec::new());
        }
    }
    pieces.retain(|piece| piece.len() > 1);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_cut_at_the_frame() {
        let square = vec![(0.0, 4.0), (2.0, 4.0), (2.0, 0.0), (0.0, 0.0)];
        let lower = clip_polygon(square, 1.0, |v| v <= 1.0);
        assert_eq!(lower, [(0.0, 1.0), (2.0, 1.0), (2.0, 0.0), (0.0, 0.0)]);
    }

    #[test]
    fn a_line_is_cut_at_the_frame() {
        let line = vec![(0.0, 4.0), (1.0, 2.0), (2.0, 1.0), (3.0, 5.0), (4.0, 1.0)];
        assert_eq!(
            clip_line(line, 0.0, 3.0),
            [
                vec![(0.5, 3.0), (1.0, 2.0), (2.0, 1.0), (2.5, 3.0)],
                vec![(3.5, 3.0), (4.0, 1.0)],
            ]
        );
    }
}
