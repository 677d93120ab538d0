//! Figure of the final value of every run by its training compute: FLOPs of a training step per item, times the items.
//!
//! Only a sweep's plan knows the FLOPs per item, so runs without a sweep have no such figure.

use plotters::prelude::*;

use super::axis::{Axis, is_single_value};
use super::canvas::{COLORS, Mark, drawing_error, frame, legend, px, svg};
use super::{ARMS, Figure, FigureOptions, metric, plotted_arms};
use crate::error::Result;
use crate::report::analyse::comparison::Comparison;

const WIDTH: u32 = 720;
const HEIGHT: u32 = 380;
/// Left edge of the legend, in pixels.
const LEGEND: f64 = 520.0;
/// Factor between the largest and smallest compute above which its axis is logarithmic.
const SPAN: f64 = 5.0;

/// Returns the FLOPs that a run has taken so far; `None` if its arm's plan or its journal does not tell.
pub fn flops(c: &Comparison, arm: usize, run: usize) -> Option<f64> {
    let items = c.runs[run].items()?;
    Some(c.arms[arm].cost?.flops_per_item * items).filter(|flops| *flops > 0.0)
}

/// Draws the figure; `None` if compute is unknown or the same for all runs, or if all final values are equal.
pub fn figure(c: &Comparison, look: FigureOptions) -> Result<Option<Figure>> {
    let (arms, note) = plotted_arms(c, ARMS);
    let of_arm = |i: usize| -> Vec<(f64, f64)> {
        let counted = c.arms[i].counted.iter();
        counted
            .filter_map(|&m| Some((flops(c, i, m)?, c.outcomes[m].last?.1)))
            .collect()
    };
    let points: Vec<(usize, Vec<(f64, f64)>)> = arms.iter().map(|&i| (i, of_arm(i))).collect();
    let all = || points.iter().flat_map(|(_, p)| p);
    // If all runs have the same compute or the same value, there is no relation to show.
    if is_single_value(all().map(|p| p.0)) || is_single_value(all().map(|p| p.1)) {
        return Ok(None);
    }
    let low = all().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|p| p.0).fold(0.0, f64::max);
    let x = Axis::fit(
        "training FLOPs",
        all().map(|p| p.0),
        high / low > SPAN,
        4,
        true,
    );
    let name = format!("final {}", metric(c));
    let y = Axis::fit(&name, all().map(|p| p.1), look.log_y, 6, true);
    let title = format!("{name} by training compute");
    let svg = svg(&title, (WIDTH, HEIGHT), |root| {
        let (left, right) = root.split_horizontally(px(LEGEND));
        let chart = frame(&left, &x, &y, 62.0)?;
        for (n, (_, points)) in points.iter().enumerate() {
            for (flops, value) in points {
                let place = x.position(*flops).zip(y.position(*value));
                let Some(place) = place else { continue };
                let dot = Circle::new(place, px(4.5), COLORS[n].mix(0.7).filled());
                chart.plotting_area().draw(&dot).map_err(drawing_error)?;
            }
        }
        let entries: Vec<_> = points
            .iter()
            .enumerate()
            .filter(|(_, (_, points))| !points.is_empty())
            .map(|(n, (i, _))| (COLORS[n], c.arms[*i].name.clone()))
            .collect();
        legend(&right, &entries, Mark::Dot)
    })?;
    Ok(Some(Figure {
        name: "compute".into(),
        caption: format!("{title}: a dot for each run.{note}"),
        svg,
    }))
}
