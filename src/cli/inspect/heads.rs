//! `inspect RUN attention` for a run of any task: statistics of each attention head over the validation split.

use super::examples::InspectedRun;
use super::{InspectArgs, attention, out, output, write};
use crate::data::batch::Item;
use crate::error::{Error, Result};
use crate::experiment::encode;
use crate::inspect::heads::{HeadStatistics, HeadSums};
use crate::inspect::weights::{Layout, attention_weights};
use crate::nn::record::AttentionKey;
use crate::report::render::figure::Figure;
use crate::report::render::figure::grid::{HeatMap, heat_map};
use crate::report::render::table::table;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Maximum number of distances in a figure.
const DISTANCES: usize = 24;

/// Inspects the heads of a run over examples of its validation split.
pub(super) fn run(args: &InspectArgs, runs: &[PathBuf], run: &InspectedRun) -> Result<()> {
    args.refuse(
        "the attention of this run, which reads whole examples",
        &["--context"],
    )?;
    require_weights(run)?;
    let out = out(args, runs)?;
    let (network, layout) = (run.network()?, run.layout());
    let examples = run.examples(args.examples())?;
    let mut heads = HeadSums::new(layout);
    for example in &examples {
        require_few(run, &example.item)?;
        heads.add(&attention_weights(network, &example.item));
    }
    let heads = heads.finished();
    if heads.is_empty() {
        return Err(Error::usage(format!(
            "{} has no attention to show: the model has none, or its keys are not positions",
            run.folder.display()
        )));
    }
    let figures = figures(&heads, layout)?;
    let files = write(&out, &figures)?;
    match args.json {
        true => output::line(json(run, examples.len(), layout, &heads, &files).to_string()),
        false => show(&heads, layout, &files),
    }
}

/// Returns an error if the weights of an example would not fit in memory.
pub(super) fn require_few(run: &InspectedRun, example: &Item) -> Result<()> {
    let of_target = match example {
        Item::Pair(pair) => pair.target.len(),
        Item::Text(_) | Item::Image(_) | Item::Captioned(_) | Item::Spoken(_) => 0,
    };
    let positions = encode::positions(&run.opened, example).max(of_target);
    let model = &run.opened.experiment.model;
    attention::require_few(
        model,
        positions,
        positions,
        "choose a shorter example (--text, --example)",
    )
}

/// Returns an error for a model without attention weights.
pub(super) fn require_weights(run: &InspectedRun) -> Result<()> {
    let model = &run.opened.experiment.model;
    match model.no_weights_reason() {
        None => Ok(()),
        Some(why) => Err(Error::usage(format!(
            "{} has no attention weights to show: the model (kind = \"{}\") {why}",
            run.folder.display(),
            model.kind()
        ))),
    }
}

/// Name of the attention's place: `encoder`, `decoder`, `cross`, or empty for a single network.
pub(super) fn place(at: &AttentionKey) -> String {
    match at.is_cross {
        true => "cross".into(),
        false => at.network.clone(),
    }
}

/// File name for a place: `attention`, or `attention_encoder`.
pub(super) fn file(aspect: &str, place: &str) -> String {
    match place {
        "" => aspect.into(),
        place => format!("{aspect}_{}", place.replace('.', "_")),
    }
}

fn unit(layout: Layout) -> &'static str {
    match layout {
        Layout::Sequence => "tokens",
        Layout::Grid { .. } => "pixels",
    }
}

/// A figure for each network: weights by distance for text, mean distances for images, entropies otherwise.
fn figures(heads: &[HeadStatistics], layout: Layout) -> Result<Vec<Figure>> {
    let places: BTreeSet<String> = heads.iter().map(|head| place(&head.at)).collect();
    let of_place = |place_of: &String| {
        let heads: Vec<&HeadStatistics> =
            heads.iter().filter(|h| place(&h.at) == *place_of).collect();
        let name = file("attention", place_of);
        match heads.iter().any(|head| !head.by_distance.is_empty()) {
            true => by_distance(name, &heads),
            false => by_layer(name, &heads, layout),
        }
    };
    places.iter().map(of_place).collect()
}

fn by_distance(name: String, heads: &[&HeadStatistics]) -> Result<Figure> {
    let longest = heads.iter().map(|h| h.by_distance.len()).max().unwrap_or(1);
    let columns = 0..longest.min(DISTANCES);
    heat_map(HeatMap {
        name: name.into(),
        title: "mean attention weight by distance in tokens, on either side, for each head".into(),
        rows: (
            "layer.head".into(),
            heads
                .iter()
                .map(|h| format!("{}.{}", h.at.layer, h.head))
                .collect(),
        ),
        columns: (
            "distance".into(),
            columns.clone().map(|d| d.to_string()).collect(),
        ),
        values: heads
            .iter()
            .map(|h| {
                columns
                    .clone()
                    .map(|d| h.by_distance.get(d).copied())
                    .collect()
            })
            .collect(),
    })
}

fn by_layer(name: String, heads: &[&HeadStatistics], layout: Layout) -> Result<Figure> {
    let layers: BTreeSet<usize> = heads.iter().map(|h| h.at.layer).collect();
    let most = heads.iter().map(|h| h.head + 1).max().unwrap_or(1);
    let placed = heads.iter().any(|head| head.distance.is_some());
    let title = match placed {
        true => format!("mean attention distance in {}, for each head", unit(layout)),
        false => "mean entropy of attention in nats, for each head".into(),
    };
    let value = |layer: usize, number: usize| {
        let head = heads
            .iter()
            .find(|h| h.at.layer == layer && h.head == number)?;
        if placed {
            head.distance
        } else {
            Some(head.entropy)
        }
    };
    heat_map(HeatMap {
        name: name.into(),
        title,
        rows: (
            "layer".into(),
            layers.iter().map(usize::to_string).collect(),
        ),
        columns: ("head".into(), (0..most).map(|h| h.to_string()).collect()),
        values: layers
            .iter()
            .map(|layer| (0..most).map(|head| value(*layer, head)).collect())
            .collect(),
    })
}

fn json(
    run: &InspectedRun,
    examples: usize,
    layout: Layout,
    heads: &[HeadStatistics],
    files: &[String],
) -> Value {
    let of_head = |head: &HeadStatistics| {
        json!({
            "network": place(&head.at),
            "layer": head.at.layer,
            "head": head.head,
            "entropy": head.entropy,
            "largest_weight": head.largest,
            "weight_on_first": head.first,
            "mean_distance": head.distance,
            "weight_by_distance": head.by_distance,
        })
    };
    json!({
        "run": run.folder.display().to_string(),
        "step": run.opened.step,
        "examples": examples,
        "distance_in": unit(layout),
        "heads": heads.iter().map(of_head).collect::<Vec<_>>(),
        "files": files,
    })
}

fn show(heads: &[HeadStatistics], layout: Layout, files: &[String]) -> Result<()> {
    let distance = format!("mean distance ({})", unit(layout));
    let titles = [
        "layer.head",
        &distance,
        "entropy (nats)",
        "largest",
        "on the first",
    ];
    let mut rows = vec![titles.map(String::from).to_vec()];
    rows.extend(heads.iter().map(|head| {
        let within = match place(&head.at).as_str() {
            "" => String::new(),
            place => format!("{place} "),
        };
        vec![
            format!("{within}{}.{}", head.at.layer, head.head),
            head.distance.map_or("–".into(), |d| format!("{d:.1}")),
            format!("{:.3}", head.entropy),
            format!("{:.3}", head.largest),
            format!("{:.3}", head.first),
        ]
    }));
    output::line(table(&rows, None).trim_end())?;
    files.iter().try_for_each(output::line)
}
