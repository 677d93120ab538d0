//! `inspect RUN positions`: the similarity of position embeddings, and the biases that are added to attention scores by
//! distance.

use super::examples::{Example, InspectedRun, empty_split};
use super::heads::file;
use super::{InspectArgs, out, output, write};
use crate::data::batch::Item;
use crate::error::{Error, Result};
use crate::inspect::context::buckets;
use crate::inspect::positions::{HeadBias, Similarity, biases, position_records};
use crate::inspect::weights::Layout;
use crate::nn::record::PositionRecord;
use crate::report::render::figure::Figure;
use crate::report::render::figure::grid::{HeatMap, heat_map};
use crate::report::render::figure::panels::{Panels, Picture, panels};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Width of a text's matrix in pixels of the figure.
const SIDE: f64 = 480.0;
/// Total width of the pictures of an image's positions, in pixels of the figure.
const GRID: f64 = 960.0;
/// Range of cosine similarities.
const COSINES: (f64, f64) = (-1.0, 1.0);

/// The similarities of one table of vectors.
struct Table {
    network: String,
    layer: Option<usize>,
    similarity: Similarity,
}

/// Inspects the positions of a run.
pub(super) fn run(args: &InspectArgs, runs: &[PathBuf]) -> Result<()> {
    args.refuse(
        "positions",
        &["--context", "--examples", "--step", "--layer"],
    )?;
    let run = InspectedRun::open(args, runs, "positions")?;
    let one = match run.flag_example(args)? {
        Some(one) => one.item,
        None => longest(&run)?,
    };
    let out = out(args, runs)?;
    let all = position_records(run.network()?, &one);
    let tables: Vec<Table> = all
        .iter()
        .flat_map(|(n, placed)| tables(n, placed))
        .collect();
    let biased: Vec<(&String, i64, Vec<HeadBias>)> = all
        .iter()
        .map(|(network, placed)| (network, biases(placed)))
        .filter(|(_, (_, heads))| !heads.is_empty())
        .map(|(network, (first, heads))| (network, first, heads))
        .collect();
    if tables.is_empty() && biased.is_empty() {
        return Err(no_positions(&run));
    }
    let layout = run.layout();
    let mut figures = tables
        .iter()
        .map(|table| of_table(table, layout))
        .collect::<Result<Vec<_>>>()?;
    for (network, first, heads) in &biased {
        figures.push(of_biases(network, *first, heads)?);
    }
    let files = write(&out, &figures)?;
    if args.json {
        return output::line(json(&run, &tables, &biased, &files).to_string());
    }
    for table in &tables {
        let positions = table.similarity.positions;
        output::line(format!("{}: {positions} vectors", table_name(table)))?;
    }
    for (network, _, heads) in &biased {
        let count = heads.len();
        output::line(format!(
            "{}biases of {count} heads",
            network_prefix(network)
        ))?;
    }
    files.iter().try_for_each(output::line)
}

/// The error that there is nothing to inspect, with the reason.
fn no_positions(run: &InspectedRun) -> Error {
    let folder = run.folder.display();
    let model = &run.opened.experiment.model;
    let Some(transformer) = model.transformer() else {
        let why = match model.parts().is_none() && model.facts().has_attention() {
            true => {
                ": the blocks of its stages add biases to the scores by distance within a window, which are not drawn"
            }
            false => "",
        };
        return Error::usage(format!("{folder} has no positions to show{why}"));
    };
    Error::usage(format!(
        "the positions of {folder} are of kind `{}`; inspect shows only vectors that are added to inputs and biases that are \
         added to scores by distance along a text",
        transformer.stack.position.facts().kind().kind
    ))
}

/// The longest of some examples of the validation split.
fn longest(run: &InspectedRun) -> Result<Item> {
    let length = |one: &Example| match &one.item {
        Item::Text(text) => text.inputs.len(),
        Item::Pair(pair) => pair.source.len().min(pair.target.len()),
        Item::Image(_) | Item::Captioned(_) | Item::Spoken(_) => 1,
    };
    let all = run.examples(super::EXAMPLES)?.into_iter();
    let longest = all.max_by_key(length).ok_or_else(empty_split)?;
    Ok(longest.item)
}

fn tables(network: &str, placed: &PositionRecord) -> Vec<Table> {
    let of = |layer, vectors| Table {
        network: network.to_string(),
        layer,
        similarity: Similarity::of(vectors),
    };
    let first = placed.vectors.iter().map(|vectors| of(None, vectors));
    let layers = placed.layer_vectors.iter();
    let layers = layers.map(|(layer, vectors)| of(Some(*layer), vectors));
    first.chain(layers).collect()
}

fn network_prefix(network: &str) -> String {
    match network {
        "" => String::new(),
        network => format!("{network} "),
    }
}

fn table_name(table: &Table) -> String {
    match table.layer {
        None => format!("{}positions", network_prefix(&table.network)),
        Some(layer) => format!(
            "{}positions of layer {layer}",
            network_prefix(&table.network)
        ),
    }
}

/// For images, a picture of all patches for each patch; for text, the matrix.
fn of_table(table: &Table, layout: Layout) -> Result<Figure> {
    let similarity = &table.similarity;
    let name = file("positions", &table.network);
    let name = match table.layer {
        None => name,
        Some(layer) => format!("{name}_{layer}"),
    };
    let (pictures, side, title) = match layout {
        Layout::Sequence => (
            vec![vec![Picture::of_values(
                &similarity.cosines,
                similarity.positions,
                COSINES,
            )]],
            SIDE,
            format!("cosine similarity of the {}", table_name(table)),
        ),
        Layout::Grid { rows, cols, .. } => {
            // Register tokens have no position vectors; other tokens before the patches have them.
            let first = similarity.positions.saturating_sub(rows * cols);
            let patch = |row: usize, col: usize| {
                let others = &similarity.row(first + row * cols + col)[first..];
                Picture::of_values(others, cols, COSINES)
            };
            let row = |row: usize| (0..cols).map(|col| patch(row, col)).collect();
            (
                (0..rows).map(row).collect(),
                (GRID / cols.max(1) as f64).min(96.0),
                "cosine similarity of the positions: for each patch, those of all patches".into(),
            )
        }
    };
    panels(&Panels {
        name: name.into(),
        title,
        rows: Vec::new(),
        columns: Vec::new(),
        pictures,
        ticks: None,
        range: Some(COSINES),
        side,
    })
}

/// Buckets of distances that grow on either side of 0.
fn spans(first: i64, count: usize) -> Vec<RangeInclusive<i64>> {
    let last = first + count as i64 - 1;
    let further = |most: i64| buckets(usize::try_from(most).unwrap_or(0)).into_iter();
    let before = further(-first)
        .rev()
        .map(|(a, b)| -(b as i64)..=-(a as i64));
    let behind = further(last).map(|(a, b)| a as i64..=b as i64);
    before.chain([0..=0]).chain(behind).collect()
}

fn of_biases(network: &str, first: i64, heads: &[HeadBias]) -> Result<Figure> {
    let spans = spans(first, heads.first().map_or(0, |head| head.biases.len()));
    let mean = |head: &HeadBias, span: &RangeInclusive<i64>| {
        let inside = span.clone().filter_map(|distance| {
            let at = usize::try_from(distance - first).ok()?;
            head.biases.get(at).copied()
        });
        let inside: Vec<f64> = inside.collect();
        (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
    };
    let shown = |span: &RangeInclusive<i64>| match span.start() == span.end() {
        true => span.start().to_string(),
        false => format!("{}..{}", span.start(), span.end()),
    };
    heat_map(HeatMap {
        name: file("position_biases", network).into(),
        title: "numbers added to scores by the distance key − query, for each head".into(),
        rows: (
            "layer.head".into(),
            heads
                .iter()
                .map(|h| format!("{}.{}", h.layer, h.head))
                .collect(),
        ),
        columns: ("distance".into(), spans.iter().map(shown).collect()),
        values: heads
            .iter()
            .map(|head| spans.iter().map(|span| mean(head, span)).collect())
            .collect(),
    })
}

fn json(
    run: &InspectedRun,
    tables: &[Table],
    biased: &[(&String, i64, Vec<HeadBias>)],
    files: &[String],
) -> Value {
    let table = |table: &Table| {
        let rows = (0..table.similarity.positions).map(|row| table.similarity.row(row).to_vec());
        json!({
            "network": table.network,
            "layer": table.layer,
            "cosines": rows.collect::<Vec<_>>(),
        })
    };
    let head = |network: &str, first: i64, head: &HeadBias| {
        json!({
            "network": network,
            "layer": head.layer,
            "head": head.head,
            "first_distance": first,
            "biases": head.biases,
        })
    };
    let biases = biased.iter().flat_map(|(network, first, heads)| {
        heads.iter().map(move |one| head(network, *first, one))
    });
    json!({
        "run": run.folder.display().to_string(),
        "step": run.opened.step,
        "similarity": tables.iter().map(table).collect::<Vec<_>>(),
        "biases": biases.collect::<Vec<_>>(),
        "files": files,
    })
}
