//! Line plots of any series of numbers, with a dot for each point.

use std::borrow::Cow;

use plotters::prelude::*;

use super::Figure;
use super::axis::Axis;
use super::canvas::{COLORS, Mark, drawing_error, frame, legend, line, px, svg};
use crate::error::Result;

const WIDTH: u32 = 720;
const HEIGHT: u32 = 380;
/// Left edge of the legend, in pixels.
const LEGEND: f64 = 520.0;

/// A named line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Points from left to right; those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// A line plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// File name without extension.
    pub name: Cow<'static, str>,
    /// Title, from which the caption is made.
    pub title: String,
    /// Label of the horizontal axis, and whether the axis is logarithmic.
    pub x: (&'static str, bool),
    /// Label of the vertical axis.
    pub y: &'static str,
    /// Lines to draw; lines beyond the number of colours (8) are left out.
    pub lines: Vec<Line>,
}

/// Draws a line plot.
///
/// # Errors
/// If the figure cannot be drawn.
pub fn plot(plot: &Plot) -> Result<Figure> {
    let all = || plot.lines.iter().flat_map(|line| &line.points);
    let (title, log) = plot.x;
    let x = Axis::fit(title, all().map(|p| p.0), log, 5, true);
    let y = Axis::fit(plot.y, all().map(|p| p.1), false, 6, true);
    let svg = svg(&plot.title, (WIDTH, HEIGHT), |root| {
        let (left, right) = root.split_horizontally(px(LEGEND));
        let mut chart = frame(&left, &x, &y, 62.0)?;
        for (one, color) in plot.lines.iter().zip(COLORS) {
            let places = one.points.iter();
            let places = places.filter_map(|(a, b)| x.position(*a).zip(y.position(*b)));
            let places: Vec<(f64, f64)> = places.collect();
            let dots = places.iter();
            let dots: Vec<_> = dots
                .map(|place| Circle::new(*place, px(2.5), color.filled()))
                .collect();
            chart
                .draw_series(LineSeries::new(places, line(color, 2.0)))
                .map_err(drawing_error)?;
            chart.draw_series(dots).map_err(drawing_error)?;
        }
        let names = plot.lines.iter().zip(COLORS);
        let entries: Vec<_> = names
            .map(|(line, color)| (color, line.name.clone()))
            .collect();
        legend(&right, &entries, Mark::Line)
    })?;
    Ok(Figure {
        name: plot.name.clone(),
        caption: format!("{}.", plot.title),
        svg,
    })
}
