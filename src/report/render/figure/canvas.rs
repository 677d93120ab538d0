//! Common parts of all figures: a white canvas in fine units, text in the embedded font, colours, frames, legends.

use std::fmt::Display;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use crate::error::{Error, Result};
use crate::report::render::terminal::plain;

/// Embedded font with Latin, Greek and Cyrillic letters; its licence is the file next to it.
pub const FONT: &[u8] = include_bytes!("sans.ttf");
/// Family name in the font file.
pub const FONT_NAME: &str = "Formwork Sans";
/// Font families with the same letter widths, for programs that show the SVG.
const FAMILY: &str = "Liberation Sans, Arial, Helvetica, sans-serif";
/// Drawing units per pixel; plotters draws at whole units only.
const UNITS_PER_PIXEL: u32 = 16;
/// Ratio of line height to em: plotters takes the line height as the font size.
const LINE_HEIGHT: f64 = 1.24;
/// Colour of text and main lines.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Colour of secondary lines and text.
pub const MUTED: RGBColor = RGBColor(0x8a, 0x8a, 0x8a);
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// Palette of Okabe and Ito, with its yellow (too light on white) replaced by a grey.
pub const COLORS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x99, 0x99, 0x99),
    RGBColor(0x00, 0x00, 0x00),
];

/// A drawing area or a part of it, in fine units.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// A chart: a frame with axes.
pub type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// Draws a figure of the given size in pixels and returns its SVG.
pub fn svg(
    title: &str,
    (width, height): (u32, u32),
    draw: impl FnOnce(&Area) -> Result<()>,
) -> Result<String> {
    register_font(FAMILY, FontStyle::Normal, FONT)
        .map_err(|_| drawing_error("its font cannot be read"))?;
    let fine = (width * UNITS_PER_PIXEL, height * UNITS_PER_PIXEL);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, fine).into_drawing_area();
        root.fill(&WHITE).map_err(drawing_error)?;
        draw(&root)?;
        root.present().map_err(drawing_error)?;
    }
    let size = format!("width=\"{}\" height=\"{}\"", fine.0, fine.1);
    let shown = format!("width=\"{width}\" height=\"{height}\" role=\"img\"");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let head = format!("<title>{}</title>\n", plain(&title));
    let text = text.replacen(&size, &shown, 1);
    let body = text.find('\n').map_or(0, |end| end + 1);
    Ok(format!("{}{head}{}", &text[..body], &text[body..]))
}

/// Converts an error of the drawing libraries.
pub fn drawing_error(error: impl Display) -> Error {
    Error::run(format!("a figure cannot be drawn: {error}"))
}

/// Converts pixels to fine units.
pub fn px(pixels: f64) -> i32 {
    (pixels * f64::from(UNITS_PER_PIXEL)).round() as i32
}

/// Returns the style of text with a font size in pixels.
pub fn text<'a>(size: f64, color: RGBColor) -> TextStyle<'a> {
    let font = FontDesc::new(
        FontFamily::Name(FAMILY),
        size * LINE_HEIGHT * f64::from(UNITS_PER_PIXEL),
        FontStyle::Normal,
    );
    font.color(&color)
}

/// Returns the style of a line with a width in pixels.
pub fn line(color: impl Into<RGBAColor>, width: f64) -> ShapeStyle {
    ShapeStyle {
        color: color.into(),
        filled: false,
        stroke_width: px(width).unsigned_abs(),
    }
}

/// Returns the width of a text in pixels.
pub fn width(area: &Area, label: &str, size: f64) -> Result<f64> {
    let (wide, _) = area
        .estimate_text_size(label, &text(size, INK))
        .map_err(drawing_error)?;
    Ok(f64::from(wide) / f64::from(UNITS_PER_PIXEL))
}

/// Draws a frame with axes, ticks and grid. `left` is the room for the labels of the vertical axis, in pixels.
pub fn frame<'a, 'b>(area: &'a Area<'b>, x: &Axis, y: &Axis, left: f64) -> Result<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin(px(10.0))
        .margin_right(px(14.0))
        .x_label_area_size(px(40.0))
        .y_label_area_size(px(left))
        .build_cartesian_2d(x.clone(), y.clone())
        .map_err(drawing_error)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(line(GRID, 1.0))
        .axis_style(line(MUTED, 1.0))
        .label_style(text(12.0, INK))
        .axis_desc_style(text(12.5, INK))
        .set_all_tick_mark_size(px(3.0))
        .x_desc(x.title.as_str())
        .y_desc(y.title.as_str());
    if y.rows {
        mesh.disable_y_mesh();
    }
    mesh.draw().map_err(drawing_error)?;
    Ok(chart)
}

/// The kind of mark beside a legend's entries.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    Line,
    Dot,
    Bar,
}

/// Draws a legend: a mark and a text for each entry, from the top of `area` down.
pub fn legend(area: &Area, entries: &[(RGBColor, String)], mark: Mark) -> Result<()> {
    let style = text(12.0, INK).pos(Pos::new(HPos::Left, VPos::Center));
    let room = f64::from(area.dim_in_pixel().0) / f64::from(UNITS_PER_PIXEL) - 33.0;
    let mut top = 22.0;
    for (color, label) in entries {
        let y = px(top);
        let (from, to) = (px(4.0), px(22.0));
        let drawn = match mark {
            Mark::Line => area.draw(&PathElement::new(
                vec![(from, y), (to, y)],
                line(*color, 3.0),
            )),
            Mark::Dot => area.draw(&Circle::new((px(13.0), y), px(4.5), color.filled())),
            Mark::Bar => {
                let corners = [(from, y - px(5.0)), (to, y + px(5.0))];
                area.draw(&Rectangle::new(corners, color.filled()))
            }
        };
        drawn.map_err(drawing_error)?;
        for line in lines(area, &shortened_name(&plain(label)), room)? {
            area.draw(&Text::new(line, (px(29.0), px(top)), style.clone()))
                .map_err(drawing_error)?;
            top += 15.0;
        }
        top += 5.0;
    }
    Ok(())
}

/// Maximum number of characters of a name in a figure.
const NAME: usize = 80;

/// Shortens a name to what a figure has room for. It cuts the end, never the middle, where names may differ.
pub fn shortened_name(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Breaks a text at blanks into lines that fit into `room` pixels. A longer word gets a line of its own and is broken if
/// it must be.
fn lines(area: &Area, label: &str, room: f64) -> Result<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    let fits = |text: &str| Ok::<bool, Error>(width(area, text, 12.0)? <= room);
    for word in label.split(' ') {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        if let (Some(longer), Some(last)) = (longer, lines.last_mut())
            && fits(&longer)?
        {
            *last = longer;
            continue;
        }
        let mut line = String::new();
        for c in word.chars() {
            line.push(c);
            if line.chars().count() > 1 && !fits(&line)? {
                line.pop();
                lines.push(std::mem::replace(&mut line, c.to_string()));
            }
        }
        lines.push(line);
    }
    Ok(lines)
}
