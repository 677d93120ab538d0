//! Data for the page of one run beside its curves, read from the run folder on each request, up to size limits.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::row::{seconds, shortened};
use crate::error::{Error, Result};
use crate::files;
use crate::report::read::{changes, diagnostics, resolved, samples};
use crate::report::render::html::rounded;
use crate::report::render::terminal::plain;
use crate::train::checkpoint::{self, BEST, LATEST};
use crate::train::run_dir::{
    DIAGNOSTICS, EXPERIMENT, MACHINE, RESOLVED, SAMPLES, SCORES, checkpoints_folder,
};

/// Maximum size of a text file in bytes.
const MAX_TEXT: u64 = 256 << 10;
/// Number of bytes shown from the end of a log.
const LOG_TAIL: u64 = 16 << 10;
/// Maximum number of checkpoints; the newest are shown.
const CHECKPOINTS: usize = 200;
/// Maximum number of steps and of parts of diagnostics.
const MAX_DIAGNOSTICS: (usize, usize) = (160, 128);
/// Maximum number of bytes read from the end of the diagnostics.
const DIAGNOSTICS_END: u64 = 32 << 20;

/// Returns the settings of a run: its experiment as written and as resolved, the keys that changed, and the machine.
pub fn settings(run: &Path) -> Value {
    let resolved = text(&run.join(RESOLVED));
    let table = resolved
        .as_deref()
        .and_then(|text| resolved::parse(&run.join(RESOLVED), text).ok());
    let changes = match (&table, has_checkpoints(run)) {
        (Some(table), true) => changes::read(run, table),
        _ => Vec::new(),
    };
    let changes = changes.iter().map(|change| {
        json!({ "step": change.step, "key": change.key, "from": change.from, "to": change.to })
    });
    json!({
        "path": plain(&run.display().to_string()),
        "resolved": resolved.as_deref().map(printable_lines),
        "experiment": text(&run.join(EXPERIMENT)).as_deref().map(printable_lines),
        "changes": changes.collect::<Vec<Value>>(),
        "machine": object(&run.join(MACHINE)),
    })
}

/// Returns the outputs of a run so far: checkpoints, scores, samples, and the end of its log.
pub fn detail(run: &Path) -> Value {
    let newest = files::read_end(&run.join(SAMPLES), samples::SAMPLES_TAIL).unwrap_or_default();
    json!({
        "checkpoints": if has_checkpoints(run) { checkpoints(run) } else { Vec::new() },
        "scores": object(&run.join(SCORES)),
        "samples": samples::newest(&newest).into_iter().map(sample).collect::<Vec<Value>>(),
        "log": log(run),
        "has_diagnostics": run.join(DIAGNOSTICS).symlink_metadata().is_ok_and(|about| about.is_file()),
    })
}

/// Whether the run's checkpoints are in a real folder below it, not behind a link.
fn has_checkpoints(run: &Path) -> bool {
    checkpoints_folder(run)
        .symlink_metadata()
        .is_ok_and(|steps| steps.is_dir())
}

/// Returns the thinned diagnostics as `{quantity:{"parts","steps","values"}}`; empty without diagnostics.
///
/// # Errors
/// If the file cannot be read.
pub fn thinned_diagnostics(run: &Path) -> Result<Value> {
    let path = run.join(DIAGNOSTICS);
    let text = match files::read_end(&path, DIAGNOSTICS_END) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(json!({})),
        Err(error) => return Err(Error::io("read", &path)(error)),
    };
    let (steps, parts) = MAX_DIAGNOSTICS;
    let found = diagnostics::parse(&text, steps);
    let quantities = found.quantities.iter().map(|(name, quantity)| {
        let row = |row: &Vec<f64>| row.iter().map(|v| rounded(*v)).collect::<Vec<f64>>();
        let names: Vec<String> = quantity
            .parts
            .iter()
            .take(parts)
            .map(|part| shortened(part))
            .collect();
        let values: Vec<Vec<f64>> = quantity.values.iter().take(parts).map(row).collect();
        (
            shortened(name),
            json!({ "parts": names, "steps": quantity.steps, "values": values }),
        )
    });
    Ok(Value::Object(quantities.collect()))
}

fn text(path: &Path) -> Option<String> {
    files::read_plain(path, MAX_TEXT).ok().map(|(text, _)| text)
}

/// Returns a text without control characters in its lines.
fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| plain(&line.replace('\t', "    ")))
        .collect();
    lines.join("\n")
}

/// Returns the JSON object in a file; empty if there is none.
fn object(path: &Path) -> Value {
    let found = text(path).and_then(|text| serde_json::from_str(&text).ok());
    let found: Option<Map<String, Value>> = found;
    Value::Object(found.unwrap_or_default())
}

fn sample(sample: Vec<(String, String)>) -> Value {
    let values = sample
        .into_iter()
        .map(|(key, value)| json!([shortened(&key), printable_lines(&value)]));
    values.collect()
}

fn checkpoints(run: &Path) -> Vec<Value> {
    let marked = |name: &str| {
        let target = fs::read_link(run.join(name)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    };
    let (best, latest) = (marked(BEST), marked(LATEST));
    let steps = checkpoint::steps(run);
    let newest = steps.into_iter().rev().take(CHECKPOINTS);
    let shown = newest.map(|step| {
        let name = checkpoint::folder_name(step);
        let folder = checkpoints_folder(run).join(&name);
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
        let written = folder
            .symlink_metadata()
            .and_then(|about| about.modified())
            .ok();
        json!({
            "step": step,
            "bytes": sizes.sum::<u64>(),
            "best": best.as_ref() == Some(&name),
            "latest": latest.as_ref() == Some(&name),
            "written": written.map(seconds),
        })
    });
    shown.collect()
}

/// Returns the end of the run's log: a cell's log beside its folder, or the newest log of its Slurm jobs.
fn log(run: &Path) -> Value {
    let Some(path) = log_file(run) else {
        return Value::Null;
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let text = files::read_end(&path, LOG_TAIL).unwrap_or_default();
    let mut shown = Map::new();
    shown.insert("name".into(), shortened(&name).into());
    shown.insert("text".into(), printable_lines(&text).into());
    Value::Object(shown)
}

fn log_file(run: &Path) -> Option<PathBuf> {
    let name = run.file_name()?.to_string_lossy();
    let plain = run.with_file_name(format!("{name}.log"));
    if plain.symlink_metadata().is_ok_and(|about| about.is_file()) {
        return Some(plain);
    }
    let start = format!("{name}.slurm-");
    let beside = fs::read_dir(run.parent()?).ok()?.flatten();
    let logs = beside.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(&start) && name.ends_with(".log")
    });
    let newest = logs.max_by_key(|entry| entry.metadata().and_then(|about| about.modified()).ok());
    newest.map(|entry| entry.path())
}
