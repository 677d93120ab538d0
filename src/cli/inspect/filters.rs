//! `inspect RUN filters`: the principal components of the filters that an image network reads with.

use super::examples::InspectedRun;
use super::pictures::tile;
use super::{InspectArgs, out, output, write};
use crate::error::{Error, Result};
use crate::inspect::filters::{Components, Filters, first};
use crate::report::render::figure::Figure;
use crate::report::render::figure::panels::{Panels, Picture, panels};
use serde_json::json;
use std::path::PathBuf;

/// Number of components shown, as in the paper's figure.
const COMPONENTS: usize = 28;
/// Number of filters drawn unchanged.
const FILTERS: usize = 64;
/// Pictures per row.
const PICTURES_PER_ROW: usize = 7;
const FILTERS_PER_ROW: usize = 16;
/// Width of a picture in pixels of the figure.
const SIDE: f64 = 64.0;

/// Inspects the filters of a run.
pub(super) fn run(args: &InspectArgs, runs: &[PathBuf]) -> Result<()> {
    args.refuse("filters", super::EXAMPLE_FLAGS)?;
    let run = InspectedRun::open(args, runs, "filters")?;
    let opened = &run.opened;
    let [channels, _, _] = opened.shape.image.unwrap_or_default();
    let found = first(&opened.model, &opened.experiment.model, channels);
    let Some(filters) = found.filter(|_| channels > 0) else {
        return Err(Error::usage(format!(
            "{} does not read images, so it has no filters",
            run.folder.display()
        )));
    };
    let out = out(args, runs)?;
    let components = filters.components(COMPONENTS);
    let files = write(
        &out,
        &[of_components(&components, &filters)?, of_filters(&filters)?],
    )?;
    if args.json {
        let object = json!({
            "run": run.folder.display().to_string(),
            "step": opened.step,
            "parameter": filters.path,
            "filters": filters.count(),
            "shape": filters.shape,
            "variance": components.shares,
            "components": components.vectors,
            "files": files,
        });
        return output::line(object.to_string());
    }
    let [channels, height, width] = filters.shape;
    output::line(format!(
        "{}: {} filters of {channels} x {height} x {width}",
        filters.path,
        filters.count()
    ))?;
    let mut sum = 0.0;
    let each = components.shares.iter().map(|share| {
        sum += share;
        format!("{:.1}", 100.0 * sum)
    });
    let each: Vec<String> = each.collect();
    output::line(format!(
        "variance of the first {} components, added up (%): {}",
        each.len(),
        each.join(" ")
    ))?;
    files.iter().try_for_each(output::line)
}

fn rows(pictures: &[Picture], across: usize) -> Vec<Vec<Picture>> {
    pictures.chunks(across).map(<[Picture]>::to_vec).collect()
}

fn of_components(components: &Components, filters: &Filters) -> Result<Figure> {
    let tiles = components.vectors.iter().map(|v| tile(v, filters.shape));
    let tiles: Vec<Picture> = tiles.collect();
    panels(&Panels {
        name: "filters".into(),
        title: format!(
            "the first {} principal components of the filters, row by row",
            tiles.len()
        ),
        rows: Vec::new(),
        columns: Vec::new(),
        pictures: rows(&tiles, PICTURES_PER_ROW),
        ticks: None,
        range: None,
        side: SIDE,
    })
}

fn of_filters(filters: &Filters) -> Result<Figure> {
    let values: Vec<f64> = filters.values.iter().map(|x| f64::from(*x)).collect();
    let each = values.chunks(filters.size().max(1)).take(FILTERS);
    let tiles: Vec<Picture> = each.map(|v| tile(v, filters.shape)).collect();
    panels(&Panels {
        name: "filters_alone".into(),
        title: format!("the first {} of {} filters", tiles.len(), filters.count()),
        rows: Vec::new(),
        columns: Vec::new(),
        pictures: rows(&tiles, FILTERS_PER_ROW),
        ticks: None,
        range: None,
        side: SIDE / 2.0,
    })
}
