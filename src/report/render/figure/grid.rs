//! Heat maps: the mean final value of each combination of two axes of a sweep, and any other table of numbers.

use std::borrow::Cow;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{Area, INK, MUTED, drawing_error, line, px, shortened_name, svg, text};
use super::shades::{color_bar, range_fraction, shade};
use super::{Figure, metric};
use crate::error::Result;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::metrics::more_is_better;
use crate::report::read::sweep::PlannedArm;
use crate::report::render::terminal::{number, plain};

/// Maximum number of rows and of columns.
const MAX_CELLS: usize = 24;
/// Width and height of a cell in pixels; columns are wider if their names are.
const CELL: (f64, f64) = (64.0, 34.0);
/// Approximate width of a letter in pixels.
const LETTER: f64 = 7.0;
/// The values of each combination of two axes.
struct Grid {
    rows: (String, Vec<String>),
    columns: (String, Vec<String>),
    /// Values by row and column; `None` if there is no arm or no value.
    values: Vec<Vec<Option<f64>>>,
}

/// Draws the figure; `None` unless the sweep has two axes whose combinations are its arms.
pub fn figure(c: &Comparison) -> Result<Option<Figure>> {
    let Some(grid) = grid(c) else {
        return Ok(None);
    };
    let title = format!(
        "mean final {} by {} and {}",
        metric(c),
        grid.rows.0,
        grid.columns.0
    );
    let better = match more_is_better(&c.metric) {
        true => "higher",
        false => "lower",
    };
    Ok(Some(Figure {
        name: "grid".into(),
        caption: format!("{title}; {better} is better."),
        svg: grid_svg(&title, &grid)?,
    }))
}

/// A heat map of a table of numbers.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// File name without extension.
    pub name: Cow<'static, str>,
    /// Title, from which the caption is made.
    pub title: String,
    /// Name of the vertical axis, and the name of each row.
    pub rows: (String, Vec<String>),
    /// Name of the horizontal axis, and the name of each column.
    pub columns: (String, Vec<String>),
    /// Values by row and column; `None` leaves a cell empty.
    pub values: Vec<Vec<Option<f64>>>,
}

/// Draws a heat map.
///
/// # Errors
/// If the figure cannot be drawn.
pub fn heat_map(map: HeatMap) -> Result<Figure> {
    let grid = Grid {
        rows: map.rows,
        columns: map.columns,
        values: map.values,
    };
    Ok(Figure {
        name: map.name,
        caption: format!("{}.", map.title),
        svg: grid_svg(&map.title, &grid)?,
    })
}

/// Draws a grid as SVG.
fn grid_svg(title: &str, grid: &Grid) -> Result<String> {
    let (wide, high) = (grid.columns.1.len() as f64, grid.rows.1.len() as f64);
    // Room for the names of rows, by their approximate width.
    let longest = |names: &[String]| names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
    let left = 44.0 + LETTER * longest(&grid.rows.1) as f64;
    let cell = CELL.0.max(12.0 + LETTER * longest(&grid.columns.1) as f64);
    let size = (
        (left + wide * cell + 110.0).max(320.0) as u32,
        (high * CELL.1 + 74.0).max(150.0) as u32,
    );
    svg(title, size, |root| {
        cells(root, grid, left, cell)?;
        names_of_axes(root, grid, left, cell)?;
        color_bar(
            root,
            range(grid),
            (left + wide * cell + 24.0, TOP),
            high * CELL.1 - 1.0,
        )
    })
}

/// Arranges the arms as a grid. Returns `None` if there are not two axes, an arm has no cell, or two arms share one.
fn grid(c: &Comparison) -> Option<Grid> {
    let plan = c.sweep.as_ref()?;
    let [first, second] = plan.axes.as_slice() else {
        return None;
    };
    let at = |arm: &PlannedArm, axis: &str| -> Option<String> {
        let i = c.arms.iter().position(|a| a.label == arm.name)?;
        setting(c, i, arm, axis)
    };
    let sides = [first, second].map(|axis| {
        let mut names: Vec<String> = Vec::new();
        for value in plan.arms.iter().filter_map(|arm| at(arm, axis)) {
            if !names.contains(&value) {
                names.push(value);
            }
        }
        if names.iter().all(|name| name.parse::<f64>().is_ok()) {
            let value = |n: &String| n.parse().unwrap_or(f64::NAN);
            names.sort_by(|a, b| f64::total_cmp(&value(a), &value(b)));
        }
        names
    });
    let fits = |side: &Vec<String>| (2..=MAX_CELLS).contains(&side.len());
    if !sides.iter().all(fits) {
        return None;
    }
    let [rows, columns] = sides;
    let mut values = vec![vec![None; columns.len()]; rows.len()];
    let mut taken = vec![vec![false; columns.len()]; rows.len()];
    for arm in &plan.arms {
        let i = c.arms.iter().position(|a| a.label == arm.name)?;
        let row = rows
            .iter()
            .position(|r| Some(r) == at(arm, first).as_ref())?;
        let column = columns
            .iter()
            .position(|r| Some(r) == at(arm, second).as_ref())?;
        if std::mem::replace(&mut taken[row][column], true) {
            return None;
        }
        values[row][column] = c.results[i].last.map(|s| s.mean);
    }
    let filled = values.iter().flatten().any(Option::is_some);
    filled.then(|| Grid {
        rows: (last_part(first), cell_labels(rows)),
        columns: (last_part(second), cell_labels(columns)),
        values,
    })
}

/// Returns the value of an arm on an axis: the plan's, or else that of its resolved run.
fn setting(c: &Comparison, i: usize, arm: &PlannedArm, axis: &str) -> Option<String> {
    let planned = arm
        .settings
        .get(axis)
        .map(|v| v.trim_matches('"').to_string());
    let resolved = || {
        let run = &c.runs[*c.arms[i].members.first()?];
        let kind = format!("{axis}.kind");
        let found = run.settings.iter().find(|(k, _)| k == axis || *k == kind);
        found.map(|(_, v)| v.clone())
    };
    planned.or_else(resolved).map(|v| plain(&v))
}

/// Returns the values as shown: a table by its kind, if no other value has the same kind.
fn cell_labels(values: Vec<String>) -> Vec<String> {
    let kind = |value: &String| -> Option<String> {
        let table: toml::Table = toml::from_str(&format!("value = {value}")).ok()?;
        Some(table.get("value")?.get("kind")?.as_str()?.to_owned())
    };
    let kinds: Vec<Option<String>> = values.iter().map(kind).collect();
    let alone = |kind: &Option<String>| kinds.iter().filter(|other| *other == kind).count() == 1;
    let shown = values
        .into_iter()
        .zip(&kinds)
        .map(|(value, kind)| match kind {
            Some(name) if alone(kind) => name.clone(),
            _ => value,
        });
    shown.map(|value| shortened_name(&value)).collect()
}

/// Returns the last part of a dotted key: `norm_placement` of `model.norm_placement`.
fn last_part(key: &str) -> String {
    key.rsplit('.').next().unwrap_or(key).to_string()
}

fn range(grid: &Grid) -> (f64, f64) {
    let values = || grid.values.iter().flatten().flatten().copied();
    (
        values().fold(f64::INFINITY, f64::min),
        values().fold(f64::NEG_INFINITY, f64::max),
    )
}

const TOP: f64 = 12.0;

fn cells(root: &Area, grid: &Grid, left: f64, cell: f64) -> Result<()> {
    let range = range(grid);
    for (r, row) in grid.values.iter().enumerate() {
        for (k, value) in row.iter().enumerate() {
            let (x, y) = (left + k as f64 * cell, TOP + r as f64 * CELL.1);
            let corners = [(px(x), px(y)), (px(x + cell - 1.0), px(y + CELL.1 - 1.0))];
            let middle = (px(x + cell / 2.0), px(y + CELL.1 / 2.0));
            let centred = Pos::new(HPos::Center, VPos::Center);
            match value {
                Some(value) => {
                    let (color, ink) = shade(range_fraction(*value, range));
                    root.draw(&Rectangle::new(corners, color.filled()))
                        .map_err(drawing_error)?;
                    let style = text(12.0, ink).pos(centred);
                    root.draw(&Text::new(number(*value), middle, style))
                        .map_err(drawing_error)?;
                }
                None => {
                    root.draw(&Rectangle::new(corners, line(MUTED, 1.0)))
                        .map_err(drawing_error)?;
                }
            }
        }
    }
    Ok(())
}

fn names_of_axes(root: &Area, grid: &Grid, left: f64, cell: f64) -> Result<()> {
    let put = |label: &str, (x, y): (f64, f64), pos: HPos, turned: bool| {
        let style = text(12.0, INK).pos(Pos::new(pos, VPos::Center));
        let style = match turned {
            true => style.transform(FontTransform::Rotate270),
            false => style,
        };
        root.draw(&Text::new(label.to_string(), (px(x), px(y)), style))
            .map_err(drawing_error)
    };
    let bottom = TOP + grid.rows.1.len() as f64 * CELL.1;
    for (r, name) in grid.rows.1.iter().enumerate() {
        let y = TOP + (r as f64 + 0.5) * CELL.1;
        put(name, (left - 8.0, y), HPos::Right, false)?;
    }
    for (k, name) in grid.columns.1.iter().enumerate() {
        let x = left + (k as f64 + 0.5) * cell;
        put(name, (x, bottom + 14.0), HPos::Center, false)?;
    }
    let middle = left + grid.columns.1.len() as f64 * cell / 2.0;
    put(
        &grid.columns.0,
        (middle, bottom + 38.0),
        HPos::Center,
        false,
    )?;
    put(
        &grid.rows.0,
        (14.0, (TOP + bottom) / 2.0),
        HPos::Center,
        true,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_told_by_their_kind() {
        let values = [
            "pre",
            "{ kind = \"rotary\" }",
            "{ kind = \"rms\", eps = 1 }",
            "{ kind = \"rms\" }",
            "1e-3",
        ];
        let shown = cell_labels(values.map(str::to_owned).into());
        let expected = [
            "pre",
            "rotary",
            "{ kind = \"rms\", eps = 1 }",
            "{ kind = \"rms\" }",
            "1e-3",
        ];
        assert_eq!(shown, expected);
    }
}
