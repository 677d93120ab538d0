//! Figures with a row for each arm: final values with their intervals and every seed, and differences from the
//! first arm as bars.
//!
//! Values are dots and not bars, because bars that do not begin at zero mislead; differences do begin at zero.

use plotters::prelude::*;

use super::axis::{Axis, is_single_value};
use super::canvas::{
    Area, COLORS, Chart, INK, MUTED, Mark, drawing_error, frame, legend, line, px, shortened_name,
    svg, width,
};
use super::{Figure, metric, plotted_arms};
use crate::error::Result;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::statistics::contrast::{Contrast, Verdict};
use crate::report::render::terminal::plain;

/// Maximum number of rows, which fill a page's height.
const ROWS: usize = 40;
const WIDTH: u32 = 720;
/// Height of the legend above the chart, in pixels.
const LEGEND_HEIGHT: f64 = 34.0;
/// Room for the names of rows in a figure of `WIDTH`, in pixels; longer ones make it wider.
const NAMES_WIDTH: f64 = 260.0;

/// Draws the final values: the mean with its 95 % interval, and every run; `None` unless two values differ.
pub fn results(c: &Comparison) -> Result<Option<Figure>> {
    let (arms, note) = plotted_arms(c, ROWS);
    let finals = |i: usize| -> Vec<f64> {
        let counted = c.arms[i].counted.iter();
        counted
            .filter_map(|&m| Some(c.outcomes[m].last?.1))
            .collect()
    };
    let ends = |i: usize| c.results[i].last.and_then(|s| s.interval);
    let values = arms.iter().flat_map(|&i| {
        let ends = ends(i).into_iter().flat_map(|e| [e.low, e.high]);
        finals(i).into_iter().chain(ends)
    });
    let values: Vec<f64> = values.collect();
    // A single value needs no figure, nor do several equal ones.
    if is_single_value(values.iter().copied()) {
        return Ok(None);
    }
    let title = format!("final {}", metric(c));
    let x = Axis::fit(&title, values, false, 6, true);
    let svg = svg(&title, (wide(c, &arms), height(arms.len())), |root| {
        let chart = row_frame(root, c, &arms, &x)?;
        let area = chart.plotting_area();
        for (row, &i) in arms.iter().enumerate() {
            let (y, color) = (row as f64, COLORS[row % COLORS.len()]);
            for value in finals(i) {
                // Drawn below the interval, which would otherwise hide dots.
                let dot = Circle::new((value, y + 0.27), px(3.0), color.mix(0.6).filled());
                area.draw(&dot).map_err(drawing_error)?;
            }
            if let Some(ends) = ends(i) {
                whisker(&chart, (ends.low, ends.high), y, 2.0)?;
            }
            if let Some(summary) = c.results[i].last {
                let dot = Circle::new((summary.mean, y), px(5.0), color.filled());
                area.draw(&dot).map_err(drawing_error)?;
            }
        }
        Ok(())
    })?;
    let seeds = match c.results.iter().any(|r| r.last.is_some_and(|s| s.n > 1)) {
        true => ": mean over seeds with its 95 % t interval; small dots are runs",
        false => " of each run",
    };
    Ok(Some(Figure {
        name: "results".into(),
        caption: format!("{title}{seeds}.{note}"),
        svg,
    }))
}

/// Draws the differences from the first arm with their 95 % intervals; `None` if no other arm has a difference.
pub fn differences(c: &Comparison) -> Result<Option<Figure>> {
    let (arms, note) = plotted_arms(c, ROWS + 1);
    let gap = |i: usize| {
        let gap = c.results[i].last_gap.as_ref()?;
        Some((gap, gap.difference?))
    };
    let arms: Vec<usize> = arms.into_iter().filter(|&i| gap(i).is_some()).collect();
    if arms.is_empty() {
        return Ok(None);
    }
    let ends = arms
        .iter()
        .filter_map(|&i| gap(i))
        .flat_map(|(gap, difference)| {
            let ends = gap.interval().into_iter().flat_map(|e| [e.low, e.high]);
            [0.0, difference].into_iter().chain(ends)
        });
    let baseline = plain(&c.arms[0].name);
    let title = format!("difference of final {} from {baseline}", metric(c));
    let x = Axis::fit(&title, ends, false, 6, true);
    let size = (wide(c, &arms), height(arms.len()) + LEGEND_HEIGHT as u32);
    let svg = svg(&title, size, |root| {
        let (head, body) = root.split_vertically(px(LEGEND_HEIGHT));
        legend_row(&head, c, &arms)?;
        let chart = row_frame(&body, c, &arms, &x)?;
        let area = chart.plotting_area();
        for (row, &i) in arms.iter().enumerate() {
            let Some((gap, difference)) = gap(i) else {
                continue;
            };
            let y = row as f64;
            let (from, to) = (difference.min(0.0), difference.max(0.0));
            let bar = Rectangle::new(
                [(from, y - 0.28), (to, y + 0.28)],
                color(gap).mix(0.75).filled(),
            );
            area.draw(&bar).map_err(drawing_error)?;
            if let Some(ends) = gap.interval() {
                whisker(&chart, (ends.low, ends.high), y, 1.5)?;
            }
        }
        let bottom = arms.len() as f64 - 0.5;
        let zero = PathElement::new(vec![(0.0, -0.5), (0.0, bottom)], line(INK, 1.0));
        area.draw(&zero).map_err(drawing_error)
    })?;
    Ok(Some(Figure {
        name: "differences".into(),
        caption: format!(
            "{title}, with 95 % t intervals (paired by seed where two seeds pair; not corrected for the number of arms). Coloured where the corrected p is at most 0.05.{note}"
        ),
        svg,
    }))
}

/// Colours and names of verdicts: better, worse, not settled, not tested.
const MEANINGS: [(RGBColor, &str); 4] = [
    (COLORS[0], "better"),
    (COLORS[1], "worse"),
    (MUTED, "not settled"),
    (RGBColor(0xc4, 0xc4, 0xc4), "not tested"),
];

fn meaning(gap: &Contrast) -> usize {
    match gap.verdict {
        Verdict::Better => 0,
        Verdict::Worse => 1,
        Verdict::NotSettled { .. } | Verdict::Open => 2,
        Verdict::NotTested(_) => 3,
    }
}

fn color(gap: &Contrast) -> RGBColor {
    MEANINGS[meaning(gap)].0
}

/// Draws the legend of the verdicts that occur, side by side.
fn legend_row(area: &Area, c: &Comparison, arms: &[usize]) -> Result<()> {
    let gaps = || arms.iter().filter_map(|&i| c.results[i].last_gap.as_ref());
    let found = (0..MEANINGS.len()).filter(|&m| gaps().any(|gap| meaning(gap) == m));
    for (n, m) in found.enumerate() {
        let (color, name) = MEANINGS[m];
        let left = px(220.0 + 124.0 * n as f64);
        let part = area
            .clone()
            .shrink((left, 0), (px(122.0), px(LEGEND_HEIGHT)));
        legend(&part, &[(color, name.to_string())], Mark::Bar)?;
    }
    Ok(())
}

/// Returns the width of a figure in pixels, widened for long row names at about 7 pixels per letter.
fn wide(c: &Comparison, arms: &[usize]) -> u32 {
    let names = arms
        .iter()
        .map(|i| shortened_name(&plain(&c.arms[*i].name)));
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    WIDTH + (7.0 * longest as f64 - NAMES_WIDTH).max(0.0) as u32
}

fn height(rows: usize) -> u32 {
    70 + 30 * rows as u32
}

/// Draws a frame with a row for each arm and their names at the left.
fn row_frame<'a, 'b>(
    area: &'a Area<'b>,
    c: &Comparison,
    arms: &[usize],
    x: &Axis,
) -> Result<Chart<'a, 'b>> {
    let names: Vec<String> = arms
        .iter()
        .map(|i| shortened_name(&plain(&c.arms[*i].name)))
        .collect();
    let mut left = 40.0f64;
    for name in &names {
        left = left.max(width(area, name, 12.0)? + 18.0);
    }
    frame(area, x, &Axis::of_rows(names), left)
}

/// Draws an interval as a line with a small stroke at either end.
fn whisker(chart: &Chart, (low, high): (f64, f64), y: f64, thick: f64) -> Result<()> {
    let area = chart.plotting_area();
    let strokes = [
        [(low, y), (high, y)],
        [(low, y - 0.12), (low, y + 0.12)],
        [(high, y - 0.12), (high, y + 0.12)],
    ];
    for stroke in strokes {
        let stroke = PathElement::new(stroke.to_vec(), line(INK, thick));
        area.draw(&stroke).map_err(drawing_error)?;
    }
    Ok(())
}
