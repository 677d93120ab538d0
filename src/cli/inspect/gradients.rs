//! `inspect RUN gradients`: the gradient norm of each block.

use super::examples::{InspectedRun, only_run};
use super::{InspectArgs, out, output, write};
use crate::error::{Error, Result};
use crate::experiment::open;
use crate::inspect::gradients::{
    ParameterGradient, PartGradient, parameter_gradients, part_gradients,
};
use crate::report::render::figure::Figure;
use crate::report::render::figure::lines::{Line, Plot, plot};
use crate::report::render::table::table;
use crate::report::render::terminal;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Inspects the gradients of a run.
pub(super) fn run(args: &InspectArgs, runs: &[PathBuf]) -> Result<()> {
    let flags = [
        "--context",
        "--step",
        "--layer",
        "--example",
        "--text",
        "--pair",
        "--image",
    ];
    args.refuse("gradients", &flags)?;
    let folder = only_run(runs, "gradients")?;
    let out = out(args, runs)?;
    let run = InspectedRun {
        folder: folder.to_path_buf(),
        opened: open::open_tracked(folder, args.checkpoint, args.device.as_deref())?,
    };
    if run.opened.experiment.task.facts().compared_rows().is_some() {
        return Err(Error::usage(format!(
            "inspect gradients: a run of {} compares the rows of a batch, so a single example has no gradient",
            run.opened.experiment.task.kind()
        )));
    }
    let batches = run.batches(args.examples())?;
    if batches.iter().all(|batch| batch.scored == 0) {
        return Err(Error::usage(
            "the examples contain nothing to score, so there is no gradient",
        ));
    }
    let examples = batches.len();
    let (loss, all) = parameter_gradients(&run.opened.model, batches);
    let parts = part_gradients(&all);
    let files = write(&out, &[figure(&parts)?])?;
    match args.json {
        true => {
            let object = json(&run, examples, loss, &parts, &all, &files);
            output::line(object.to_string())
        }
        false => show(examples, loss, &parts, &files),
    }
}

/// Groups the norms of blocks by stack, in order of the blocks.
fn stacks(parts: &[PartGradient]) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut stacks: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for part in parts {
        let Some((stack, number)) = part.part.rsplit_once('.') else {
            continue;
        };
        let Ok(number) = number.parse::<u32>() else {
            continue;
        };
        let point = (f64::from(number), part.norm);
        match stacks.iter_mut().find(|(name, _)| name == stack) {
            Some((_, points)) => points.push(point),
            None => stacks.push((stack.to_string(), vec![point])),
        }
    }
    stacks
}

fn figure(parts: &[PartGradient]) -> Result<Figure> {
    let line = |(name, points)| Line { name, points };
    plot(&Plot {
        name: "gradients".into(),
        title: "norm of the gradient of each block's parameters".into(),
        x: ("block", false),
        y: "gradient norm",
        lines: stacks(parts).into_iter().map(line).collect(),
    })
}

fn json(
    run: &InspectedRun,
    examples: usize,
    loss: f64,
    parts: &[PartGradient],
    all: &[ParameterGradient],
    files: &[String],
) -> Value {
    let part = |part: &PartGradient| {
        json!({
            "part": part.part,
            "parameters": part.count,
            "gradient_norm": part.norm,
            "weight_norm": part.weight_norm,
        })
    };
    let parameter = |one: &ParameterGradient| {
        json!({
            "parameter": one.path,
            "part": one.part,
            "numbers": one.count,
            "gradient_norm": one.norm,
            "weight_norm": one.weight_norm,
        })
    };
    json!({
        "run": run.folder.display().to_string(),
        "step": run.opened.step,
        "examples": examples,
        "loss": loss,
        "parts": parts.iter().map(part).collect::<Vec<_>>(),
        "parameters": all.iter().map(parameter).collect::<Vec<_>>(),
        "files": files,
    })
}

fn show(examples: usize, loss: f64, parts: &[PartGradient], files: &[String]) -> Result<()> {
    let titles = [
        "part",
        "parameters",
        "gradient norm",
        "weight norm",
        "ratio",
    ];
    let mut rows = vec![titles.map(String::from).to_vec()];
    rows.extend(parts.iter().map(|part| {
        vec![
            part.part.clone(),
            part.count.to_string(),
            format!("{:.3e}", part.norm),
            format!("{:.3e}", part.weight_norm),
            match part.weight_norm > 0.0 {
                true => format!("{:.3e}", part.norm / part.weight_norm),
                false => "–".into(),
            },
        ]
    }));
    output::line(table(&rows, None).trim_end())?;
    output::line(format!(
        "loss {} over {examples} examples, without dropout",
        terminal::loss(loss)
    ))?;
    files.iter().try_for_each(output::line)
}
