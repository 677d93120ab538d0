//! Figures of a comparison for papers, as SVG and PNG.
//!
//! Every figure is drawn once, with `plotters`. The PNG is its SVG rendered by `resvg` with the font next to this file, so
//! that the result does not depend on system fonts. Colours are those of Okabe and Ito ("Color universal design", 2008),
//! which people with any common form of colour blindness can tell apart; heat maps use viridis.

use std::borrow::Cow;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::error::Result;
use crate::report::analyse::comparison::Comparison;

mod axis;
mod canvas;
pub mod compute;
mod curves;
pub mod grid;
pub mod lines;
pub mod panels;
mod rows;
mod shades;

/// Maximum number of arms in one plot of curves or points; more cannot be told apart.
const ARMS: usize = 8;
/// PNG pixels per SVG pixel: sharp in print at the width of a page.
const PNG_SCALE: f32 = 2.0;

/// How figures are drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct FigureOptions {
    /// Whether steps are on a logarithmic axis.
    pub log_x: bool,
    /// Whether values are on a logarithmic axis.
    pub log_y: bool,
}

/// A drawn figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// File name without extension.
    pub name: Cow<'static, str>,
    /// Caption of one or two sentences.
    pub caption: String,
    /// SVG text of the figure.
    pub svg: String,
}

/// Draws all figures that the runs have data for, in reading order.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn figures(c: &Comparison, look: FigureOptions) -> Result<Vec<Figure>> {
    let drawn = [
        curves::figure(c, look)?,
        rows::results(c)?,
        rows::differences(c)?,
        compute::figure(c, look)?,
        grid::figure(c)?,
    ];
    Ok(drawn.into_iter().flatten().collect())
}

/// Renders a figure's SVG as PNG.
///
/// # Errors
/// If the SVG is invalid, or the picture is too large.
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(canvas::FONT.to_vec());
    fonts.set_sans_serif_family(canvas::FONT_NAME);
    let options = Options {
        fontdb: fonts.into(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(canvas::drawing_error)?;
    let size = tree.size().to_int_size();
    let size = size
        .scale_by(PNG_SCALE)
        .ok_or_else(|| canvas::drawing_error("too large"))?;
    let mut pixels = Pixmap::new(size.width(), size.height())
        .ok_or_else(|| canvas::drawing_error("not enough memory for its pixels"))?;
    resvg::render(
        &tree,
        Transform::from_scale(PNG_SCALE, PNG_SCALE),
        &mut pixels.as_mut(),
    );
    pixels.encode_png().map_err(canvas::drawing_error)
}

/// Returns the split and metric in readable form: `valid loss`.
fn metric(c: &Comparison) -> String {
    format!("{} {}", c.split, c.metric.replace('_', " "))
}

/// Returns the arms of a plot in the table's order, at most `most`, and a note for the caption if some are left out.
fn plotted_arms(c: &Comparison, most: usize) -> (Vec<usize>, String) {
    let all = c.arms.len();
    if all <= most {
        return ((0..all).collect(), String::new());
    }
    let mut arms = c.best_arms(most);
    if !arms.contains(&0) {
        arms = c.best_arms(most - 1);
        arms.insert(0, 0);
    }
    let note = format!(" The first arm and the {} best of {all}.", arms.len() - 1);
    (arms, note)
}
