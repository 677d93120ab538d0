//! Grids of small pictures: attention maps, filters, similarities. Each picture is a bitmap inside the SVG.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, RgbImage};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Figure;
use super::canvas::{Area, INK, drawing_error, px, shortened_name, svg, text};
use super::shades::{color_bar, range_fraction, shade};
use crate::error::Result;

/// Gap between pictures in pixels.
const GAP: f64 = 6.0;
/// Approximate width of a letter in pixels.
const LETTER: f64 = 7.0;
/// Height in pixels of the names beside a picture's own rows and columns; the font is one pixel smaller.
const TICK: f64 = 12.0;

/// A small bitmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Red, green and blue of each pixel, row by row; `width · height · 3` bytes.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// Builds a picture of numbers, given row by row, coloured by their position in `range`.
    pub fn of_values(values: &[f64], width: usize, range: (f64, f64)) -> Self {
        let color = |value: &f64| {
            let color = shade(range_fraction(*value, range)).0;
            [color.0, color.1, color.2]
        };
        Self {
            width,
            height: values.len() / width.max(1),
            rgb: values.iter().flat_map(color).collect(),
        }
    }

    /// Returns the picture as a `data:` URL of a PNG.
    fn data_url(&self) -> Result<String> {
        let (width, height) = (self.width as u32, self.height as u32);
        let pixels = RgbImage::from_raw(width, height, self.rgb.clone());
        let pixels = pixels.ok_or_else(|| drawing_error("a picture has too few pixels"))?;
        let mut png = Cursor::new(Vec::new());
        pixels
            .write_to(&mut png, ImageFormat::Png)
            .map_err(drawing_error)?;
        let encoded = STANDARD.encode(png.into_inner());
        Ok(format!("data:image/png;base64,{encoded}"))
    }
}

/// Pictures in rows and columns.
#[derive(Clone, Debug)]
pub struct Panels {
    /// File name without extension.
    pub name: Cow<'static, str>,
    /// Title, from which the caption is made.
    pub title: String,
    /// Name of each row of pictures; empty for no names and no room.
    pub rows: Vec<String>,
    /// Name of each column of pictures; empty for no names and no room.
    pub columns: Vec<String>,
    /// Pictures by row and column; a row may be shorter than others.
    pub pictures: Vec<Vec<Picture>>,
    /// Names of the rows and columns within each picture; `None` if there is no room for them.
    pub ticks: Option<[Vec<String>; 2]>,
    /// Numbers of the darkest and the brightest colour, if colours stand for numbers.
    pub range: Option<(f64, f64)>,
    /// Width of a picture in the figure, in pixels.
    pub side: f64,
}

/// The layout of the pictures, in pixels.
struct Frame {
    left: f64,
    top: f64,
    side: [f64; 2],
    step: [f64; 2],
}

impl Frame {
    fn of(panels: &Panels) -> Self {
        let longest = |names: &[String]| names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
        let room = |names: &[String]| match longest(names) {
            0 => 0.0,
            letters => 10.0 + LETTER * letters as f64,
        };
        let first = panels.pictures.iter().flatten().next();
        let shape = first.map_or(1.0, |p| p.height as f64 / p.width.max(1) as f64);
        let side = [panels.side, panels.side * shape];
        let [down, across] = match &panels.ticks {
            Some([down, across]) => [room(down), room(across)],
            None => [0.0; 2],
        };
        Self {
            left: 8.0 + room(&panels.rows) + down,
            top: 8.0 + if panels.columns.is_empty() { 0.0 } else { 20.0 } + across,
            side,
            step: [side[0] + GAP + down, side[1] + GAP + across],
        }
    }

    /// Returns the bottom right corner of so many rows and columns of pictures, as (x, y).
    fn end(&self, rows: usize, columns: usize) -> (f64, f64) {
        let last = |count: usize| count.saturating_sub(1);
        let (x, y) = self.place(last(rows), last(columns));
        (x + self.side[0], y + self.side[1])
    }

    fn place(&self, row: usize, column: usize) -> (f64, f64) {
        (
            self.left + column as f64 * self.step[0],
            self.top + row as f64 * self.step[1],
        )
    }
}

/// Draws a grid of pictures.
///
/// # Errors
/// If the figure cannot be drawn.
pub fn panels(panels: &Panels) -> Result<Figure> {
    let frame = Frame::of(panels);
    let columns = panels.pictures.iter().map(Vec::len).max().unwrap_or(0);
    let (right, bottom) = frame.end(panels.pictures.len(), columns);
    let tall = bottom - frame.top;
    let bar = if panels.range.is_some() { 90.0 } else { 8.0 };
    let size = (
        (right + bar).max(160.0) as u32,
        (bottom + 8.0).max(90.0) as u32,
    );
    let drawn = svg(&panels.title, size, |root| {
        names(root, panels, &frame)?;
        match panels.range {
            Some(range) => color_bar(
                root,
                range,
                (right + 14.0, frame.top),
                tall.clamp(40.0, 240.0),
            ),
            None => Ok(()),
        }
    })?;
    let mut images = String::new();
    for (r, row) in panels.pictures.iter().enumerate() {
        for (c, picture) in row.iter().enumerate() {
            let (x, y) = frame.place(r, c);
            let [wide, high] = frame.side;
            // Writing to a string does not fail.
            let _ = writeln!(
                images,
                "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
                 style=\"image-rendering:pixelated\" href=\"{}\"/>",
                px(x),
                px(y),
                px(wide),
                px(high),
                picture.data_url()?
            );
        }
    }
    let end = drawn.rfind("</svg>").unwrap_or(drawn.len());
    Ok(Figure {
        name: panels.name.clone(),
        caption: format!("{}.", panels.title),
        svg: format!("{}{images}{}", &drawn[..end], &drawn[end..]),
    })
}

/// Draws the names of rows and columns, and of the rows and columns within pictures.
fn names(root: &Area, panels: &Panels, frame: &Frame) -> Result<()> {
    let put = |label: &str, (x, y): (f64, f64), pos: HPos, size: f64, turned: bool| {
        let style = text(size, INK).pos(Pos::new(pos, VPos::Center));
        let style = match turned {
            true => style.transform(FontTransform::Rotate270),
            false => style,
        };
        root.draw(&Text::new(shortened_name(label), (px(x), px(y)), style))
            .map_err(drawing_error)
    };
    let [wide, high] = frame.side;
    for (row, name) in panels.rows.iter().enumerate() {
        let (_, y) = frame.place(row, 0);
        put(name, (8.0, y + high / 2.0), HPos::Left, 12.0, false)?;
    }
    for (column, name) in panels.columns.iter().enumerate() {
        let (x, _) = frame.place(0, column);
        put(name, (x + wide / 2.0, 14.0), HPos::Center, 12.0, false)?;
    }
    let Some([down, across]) = &panels.ticks else {
        return Ok(());
    };
    for (r, row) in panels.pictures.iter().enumerate() {
        for c in 0..row.len() {
            let (x, y) = frame.place(r, c);
            let at = |number: usize, names: &[String], side: f64| {
                (number as f64 + 0.5) * side / names.len().max(1) as f64
            };
            for (number, name) in down.iter().enumerate() {
                let place = (x - 4.0, y + at(number, down, high));
                put(name, place, HPos::Right, TICK - 1.0, false)?;
            }
            for (number, name) in across.iter().enumerate() {
                let place = (x + at(number, across, wide), y - 4.0);
                put(name, place, HPos::Left, TICK - 1.0, true)?;
            }
        }
    }
    Ok(())
}
