//! `inspect RUN… context`: the loss by position, and the relative effective context length of a group of runs.

use super::{InspectArgs, InspectedTextRun, out, output, write};
use crate::error::{Error, Result};
use crate::inspect::context::{Bucket, by_position};
use crate::inspect::effective_context::{Losses, SHARES, THRESHOLD, losses};
use crate::report::render::figure::Figure;
use crate::report::render::figure::lines::{Line, Plot, plot};
use crate::report::render::table::table;
use crate::report::render::terminal::loss;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Number of default steps by which contexts grow up to a window.
const STEPS: usize = 8;

/// Inspects the use of context by some runs.
pub(super) fn run(args: &InspectArgs, runs: &[PathBuf]) -> Result<()> {
    args.refuse(
        "context",
        &["--example", "--text", "--pair", "--image", "--layer"],
    )?;
    let out = out(args, runs)?;
    let open = |run: &PathBuf| InspectedTextRun::open(args, run);
    let runs = runs.iter().map(open).collect::<Result<Vec<_>>>()?;
    let longest = runs.iter().map(|run| run.length).max().unwrap_or(1);
    let step = args.step.map_or((longest / STEPS).max(1), |n| n as usize);
    if step > longest {
        return Err(Error::usage(format!(
            "--step {step} is longer than a window of {longest} tokens"
        )));
    }
    let mut of_first = None;
    for run in &runs {
        let windows = run.windows(args, longest)?;
        match &of_first {
            None => of_first = Some(windows),
            Some(first) if *first == windows => {}
            Some(_) => {
                return Err(Error::usage(format!(
                    "{} reads different tokens than {}; effective contexts can only be compared on the same tokens of a text",
                    run.folder.display(),
                    runs[0].folder.display()
                )));
            }
        }
    }
    let windows = of_first.unwrap_or_default();
    let readers = runs.iter().map(InspectedTextRun::reader);
    let readers = readers.collect::<Result<Vec<_>>>()?;
    let curves: Vec<Vec<Bucket>> = readers.iter().map(|r| by_position(r, &windows)).collect();
    let losses = losses(&readers, &windows, step);
    let files = write(&out, &figures(&runs, &curves, &losses)?)?;
    let found = ContextResults {
        runs: &runs,
        curves: &curves,
        losses: &losses,
        windows: windows.len(),
        step,
    };
    match args.json {
        true => output::line(found.json(&files).to_string()),
        false => found.show(&files),
    }
}

/// Results for all runs.
struct ContextResults<'a> {
    runs: &'a [InspectedTextRun],
    curves: &'a [Vec<Bucket>],
    losses: &'a Losses,
    windows: usize,
    step: usize,
}

/// The loss by position, and the loss of the last token by the length of its context.
fn figures(
    runs: &[InspectedTextRun],
    curves: &[Vec<Bucket>],
    losses: &Losses,
) -> Result<[Figure; 2]> {
    let by_position = |(run, curve): (&InspectedTextRun, &Vec<Bucket>)| Line {
        name: run.name(),
        points: curve.iter().map(|b| (b.middle(), b.loss)).collect(),
    };
    let contexts = || losses.contexts.iter().map(|c| *c as f64);
    let by_context = |(number, run): (usize, &InspectedTextRun)| Line {
        name: run.name(),
        points: contexts().zip(losses.means(number)).collect(),
    };
    Ok([
        plot(&Plot {
            name: "context".into(),
            title: "mean loss of a token by the number of tokens before it".into(),
            x: ("tokens before", true),
            y: "loss (nats)",
            lines: runs.iter().zip(curves).map(by_position).collect(),
        })?,
        plot(&Plot {
            name: "context_length".into(),
            title: "mean loss of the same tokens by the length of the context".into(),
            x: ("tokens of context", false),
            y: "loss (nats)",
            lines: runs.iter().enumerate().map(by_context).collect(),
        })?,
    ])
}

impl ContextResults<'_> {
    fn json(&self, files: &[String]) -> Value {
        let run = |(number, run): (usize, &InspectedTextRun)| {
            let positions = self.curves[number].iter();
            let positions = positions
                .map(|b| json!({"from": b.from, "to": b.to, "loss": b.loss, "tokens": b.tokens}));
            let recl = SHARES.map(|r| {
                let found = self.losses.effective(number, r, THRESHOLD);
                json!({"r": r, "recl": found.length, "at_least": found.at_least, "gains": found.gains})
            });
            json!({
                "run": run.folder.display().to_string(),
                "step": run.opened.step,
                "positions": positions.collect::<Vec<_>>(),
                "loss_by_context": self.losses.means(number),
                "recl": recl,
            })
        };
        let runs: Vec<Value> = self.runs.iter().enumerate().map(run).collect();
        json!({
            "windows": self.windows,
            "contexts": self.losses.contexts,
            "context_step": self.step,
            "threshold": THRESHOLD,
            "runs": runs,
            "files": files,
        })
    }

    fn show(&self, files: &[String]) -> Result<()> {
        let names = || self.runs.iter().map(InspectedTextRun::name);
        let longest = self.curves.iter().max_by_key(|curve| curve.len());
        let mut rows = vec![
            ["tokens before".to_string()]
                .into_iter()
                .chain(names())
                .collect(),
        ];
        for (i, bucket) in longest.into_iter().flatten().enumerate() {
            let cell = |curve: &Vec<Bucket>| {
                // The last bucket of a shorter window holds fewer positions than that of a longer one.
                let here = curve.get(i).filter(|b| b.tokens > 0);
                here.map_or("–".to_string(), |b| loss(b.loss))
            };
            let cells = self.curves.iter().map(cell);
            rows.push([span(bucket)].into_iter().chain(cells).collect());
        }
        output::line(table(&rows, None).trim_end())?;
        output::line("")?;
        let shares = SHARES.map(|r| format!("RECL, r = {r:?}"));
        let mut rows = vec![["run".to_string()].into_iter().chain(shares).collect()];
        for (number, name) in names().enumerate() {
            let cells = SHARES.map(|r| {
                let found = self.losses.effective(number, r, THRESHOLD);
                let mark = if found.at_least { " or more" } else { "" };
                format!("{}{mark}", found.length)
            });
            rows.push([name].into_iter().chain(cells).collect());
        }
        output::line(table(&rows, None).trim_end())?;
        output::line(format!(
            "of {} tokens, contexts {} apart, threshold {THRESHOLD}",
            self.windows, self.step
        ))?;
        files.iter().try_for_each(output::line)
    }
}

/// The positions of a bucket: `5-6`.
fn span(bucket: &Bucket) -> String {
    match bucket.from == bucket.to {
        true => bucket.from.to_string(),
        false => format!("{}-{}", bucket.from, bucket.to),
    }
}
