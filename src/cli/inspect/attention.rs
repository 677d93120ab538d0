//! `inspect RUN attention` for language models on text: attention weights of each head by distance, and on earlier segments.

use super::examples::{self, InspectedRun};
use super::{InspectArgs, InspectedTextRun, heads, maps, out, output, text, write};
use crate::error::{Error, Result};
use crate::experiment::open;
use crate::inspect::attention::{HIGH, HeadAttention, between, by_head};
use crate::inspect::context::buckets;
use crate::model::ModelConfig;
use crate::report::render::figure::Figure;
use crate::report::render::figure::grid::{HeatMap, heat_map};
use crate::report::render::table::table;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Maximum number of attention weights of one pass: 4 GiB.
const MOST_WEIGHTS: u128 = 1 << 30;

/// Inspects the attention of a run: for one example, for windows of its text, or for examples of any other data.
pub(super) fn run(args: &InspectArgs, runs: &[PathBuf]) -> Result<()> {
    args.refuse("attention: only `inspect context` uses it", &["--step"])?;
    let folder = examples::only_run(runs, "attention")?;
    if args.example.is_some() || args.text.is_some() || args.image.is_some() {
        args.refuse("the attention of one example", &["--context", "--examples"])?;
        let looked = InspectedRun::open(args, runs, "attention")?;
        let one = looked
            .flag_example(args)?
            .ok_or_else(examples::empty_split)?;
        return maps::run(args, runs, &looked, &one);
    }
    args.refuse("attention of many examples", &["--layer"])?;
    let stored = open::stored_experiment(folder)?;
    if !text::has_text_windows(&stored) {
        let looked = InspectedRun::open(args, runs, "attention")?;
        return heads::run(args, runs, &looked);
    }
    let out = out(args, runs)?;
    let run = InspectedTextRun::open(args, folder)?;
    require_few_weights(&run)?;
    let windows = run.windows(args, run.length)?;
    let heads = by_head(&run.reader()?, &windows);
    if heads.is_empty() {
        return Err(Error::usage(format!(
            "{} has no attention to show: the model has none, or its keys are not positions",
            folder.display()
        )));
    }
    let files = write(&out, &[figure(&heads)?])?;
    match args.json {
        true => output::line(json(&run, windows.len(), &heads, &files).to_string()),
        false => show(&heads, &files),
    }
}

/// Returns an error if the weights of one pass, which are in memory at once, would not fit.
fn require_few_weights(run: &InspectedTextRun) -> Result<()> {
    let model = &run.opened.experiment.model;
    let queries = run.opened.shape.context.min(run.length);
    let keys = (queries + model.evaluation_memory()).min(run.length);
    require_few(model, queries, keys, "shorten the windows with --context")
}

/// Returns an error with a `remedy` if the weights of all heads for this many queries and keys would not fit in memory.
pub(super) fn require_few(
    model: &ModelConfig,
    queries: usize,
    keys: usize,
    remedy: &str,
) -> Result<()> {
    let blocks = model.transformer().into_iter();
    let blocks = blocks.flat_map(|transformer| transformer.blocks().collect::<Vec<_>>());
    let attentions = blocks.flat_map(|block| [block.attention, block.cross].into_iter().flatten());
    let heads: usize = attentions.map(|attention| attention.n_heads()).sum();
    let weights = heads as u128 * queries as u128 * keys as u128;
    match weights > MOST_WEIGHTS {
        true => Err(Error::usage(format!(
            "{queries} positions with {keys} keys make {weights} attention weights in all heads, more than the limit of \
             {MOST_WEIGHTS}; {remedy}"
        ))),
        false => Ok(()),
    }
}

/// Buckets of distances: 0, then those used for positions.
fn distances(heads: &[HeadAttention]) -> Vec<(usize, usize)> {
    let longest = heads.iter().map(|h| h.by_distance.len()).max().unwrap_or(1);
    let further = buckets(longest.saturating_sub(1));
    [(0, 0)].into_iter().chain(further).collect()
}

fn name(head: &HeadAttention) -> String {
    format!("{}.{}", head.layer, head.head)
}

/// A heat map with a row for each head and a column for each bucket of distances; cells are mean weights.
fn figure(heads: &[HeadAttention]) -> Result<Figure> {
    let columns = distances(heads);
    let values = |head: &HeadAttention| -> Vec<Option<f64>> {
        let each = columns.iter().map(|(from, to)| {
            let to = (*to).min(head.by_distance.len().saturating_sub(1));
            (*from <= to).then(|| between(head, *from, to))
        });
        each.collect()
    };
    let span = |(from, to): &(usize, usize)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    };
    heat_map(HeatMap {
        name: "attention".into(),
        title: "mean attention weight by distance, for each head".into(),
        rows: ("layer.head".into(), heads.iter().map(name).collect()),
        columns: ("distance".into(), columns.iter().map(span).collect()),
        values: heads.iter().map(values).collect(),
    })
}

fn json(
    run: &InspectedTextRun,
    windows: usize,
    heads: &[HeadAttention],
    files: &[String],
) -> Value {
    let of_head = |head: &HeadAttention| {
        json!({
            "layer": head.layer,
            "head": head.head,
            "weight_by_distance": head.by_distance,
            "mean_distance": head.distance,
            "high_share": head.high,
            "memory_high_share": head.memory.map(|m| m.high),
            "memory_weight": head.memory.map(|m| m.weight),
        })
    };
    json!({
        "run": run.folder.display().to_string(),
        "step": run.opened.step,
        "windows": windows,
        "context": run.length,
        "high_above": format!("{HIGH}/keys"),
        "memory_high_share": mean(heads, |h| h.memory.map(|m| m.high)),
        "memory_weight": mean(heads, |h| h.memory.map(|m| m.weight)),
        "heads": heads.iter().map(of_head).collect::<Vec<_>>(),
        "files": files,
    })
}

/// The mean over the heads that have the value.
fn mean(heads: &[HeadAttention], value: impl Fn(&HeadAttention) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = heads.iter().filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn show(heads: &[HeadAttention], files: &[String]) -> Result<()> {
    let titles = [
        "layer.head",
        "mean distance",
        "weight at 0",
        "at 1",
        "high",
        "memory high",
        "memory weight",
    ];
    let mut rows = vec![titles.map(String::from).to_vec()];
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    rows.extend(heads.iter().map(|head| {
        let at = |distance: usize| match head.by_distance.get(distance) {
            Some(weight) => format!("{weight:.4}"),
            None => "–".into(),
        };
        let memory = |value: Option<f64>| value.map_or("–".into(), percent);
        vec![
            name(head),
            format!("{:.1}", head.distance),
            at(0),
            at(1),
            percent(head.high),
            memory(head.memory.map(|m| m.high)),
            memory(head.memory.map(|m| m.weight)),
        ]
    }));
    output::line(table(&rows, None).trim_end())?;
    if let Some(share) = mean(heads, |h| h.memory.map(|m| m.high)) {
        output::line(format!(
            "{} of the memory's keys have a weight above {HIGH}/keys",
            percent(share)
        ))?;
    }
    files.iter().try_for_each(output::line)
}
