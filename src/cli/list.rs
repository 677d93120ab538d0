//! `formwork list`: lists the values that an experiment file can use, from the tables of each family.

use super::{keys, output};
use crate::device;
use crate::error::{Error, Result, suggestion};
use crate::kind::Kind;
use crate::model::preset;
use crate::{data, model, nn, stack, task, tokenizer, train};
use clap::Args;
use std::fmt::Write as _;

/// `formwork list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// One family, or all; `keys` for the keys of experiment files, `devices` for the devices of this machine
    #[arg(value_name = "FAMILY")]
    pub family: Option<String>,
    /// With `keys`: a table or a key, such as model.attention or train.steps
    #[arg(value_name = "PATH")]
    pub path: Option<String>,
    /// With `keys`: all of them, as a Markdown page
    #[arg(long, conflicts_with = "path")]
    pub markdown: bool,
}

/// The list of keys, which is not a family of kinds.
const KEYS: &str = "keys";

/// The list of devices, which is not a family of kinds.
const DEVICES: &str = "devices";

/// A family: its name, the key that selects a kind, and its rows.
type Family = (&'static str, &'static str, Vec<Row>);

/// A kind: its name, its summary, and its source.
type Row = (String, String, String);

/// Prints one family, or all of them.
///
/// # Errors
/// If the family is unknown.
pub fn run(args: ListArgs) -> Result<()> {
    let of_keys = args.family.as_deref() == Some(KEYS);
    if !of_keys && (args.path.is_some() || args.markdown) {
        return Err(Error::usage(
            "a path and --markdown apply only to `keys`: formwork list keys model.attention",
        ));
    }
    output::line_part(match (of_keys, args.markdown) {
        (true, true) => keys::markdown(),
        (true, false) => keys::text(args.path.as_deref())?,
        (false, _) => text(args.family.as_deref())?,
    })
}

/// Returns the tables as text.
///
/// # Errors
/// If the family is unknown, or a preset cannot be read.
pub fn text(family: Option<&str>) -> Result<String> {
    if family == Some(DEVICES) {
        return Ok(devices());
    }
    let families = families()?;
    let names = || families.iter().map(|(name, ..)| *name);
    if let Some(name) = family.filter(|name| !names().any(|known| known == *name)) {
        let near = suggestion(name, names().chain([KEYS, DEVICES]));
        return Err(Error::usage(format!("there is no list `{name}`{near}")));
    }
    let mut text = String::new();
    for (name, key, rows) in &families {
        if family.is_none_or(|wanted| wanted == *name) {
            if !text.is_empty() {
                text.push('\n');
            }
            table(&mut text, name, key, rows);
        }
    }
    Ok(text)
}

/// The values of `[train] device` and `--device` on this machine: each device that the binary supports, and how to build for
/// the other backends.
fn devices() -> String {
    let mut rows = Vec::new();
    for backend in device::ALL {
        let (name, found) = (backend.name(), backend.list_devices());
        match (backend.compiled_in(), found.is_empty()) {
            (true, false) => rows.extend(
                found
                    .iter()
                    .map(|(device, adapter)| row(device, adapter, "")),
            ),
            (true, true) => rows.push(row(name, "none on this machine", "")),
            (false, _) => rows.push(row(
                name,
                "not in this binary",
                &format!("cargo build --release --features {name}"),
            )),
        }
    }
    let mut text = String::new();
    table(&mut text, DEVICES, "[train] device, --device", &rows);
    text
}

fn table(text: &mut String, name: &str, key: &str, rows: &[Row]) {
    let width = |column: fn(&Row) -> &str| rows.iter().map(|r| column(r).chars().count()).max();
    let first = width(|r| &r.0).unwrap_or(0);
    let second = width(|r| &r.1).unwrap_or(0);
    text.push_str(&format!("{name}  ({key})\n"));
    for (kind, summary, source) in rows {
        let line = format!("  {kind:first$}  {summary:second$}  {source}");
        writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
    }
}

fn families() -> Result<Vec<Family>> {
    let rows = |kinds: &[Kind]| {
        kinds
            .iter()
            .map(|k| row(k.kind, k.summary, k.source))
            .collect()
    };
    Ok(vec![
        ("architectures", "[model] kind", rows(model::KINDS)),
        (
            "stems",
            "[model] stem of vision",
            rows(model::vision::STEMS),
        ),
        ("positions", "[model] position", rows(nn::position::KINDS)),
        ("attention", "[model] attention", rows(nn::attention::KINDS)),
        ("norms", "[model] norm", rows(nn::norm::KINDS)),
        (
            "vocabularies",
            "[model] vocabulary",
            rows(nn::vocabulary::KINDS),
        ),
        (
            "channel_norms",
            "[model] norm of resnet",
            rows(nn::channel_norm::KINDS),
        ),
        (
            "placements",
            "[model] norm_placement",
            rows(stack::residual::KINDS),
        ),
        (
            "residual_scales",
            "[model] residual_scale",
            rows(stack::residual_scale::KINDS),
        ),
        (
            "sharing",
            "[model] share_layers",
            rows(stack::sharing::KINDS),
        ),
        (
            "feed_forward",
            "[model] feed_forward",
            rows(nn::feed_forward::KINDS),
        ),
        (
            "cells",
            "[model] cell of recurrent",
            rows(nn::recurrent::KINDS),
        ),
        (
            "mixers",
            "mixer of [[model.layers]], instead of attention",
            rows(nn::recurrent::mixer::KINDS),
        ),
        ("initial_weights", "[model] init", rows(nn::init::KINDS)),
        ("tasks", "[task] kind", rows(task::KINDS)),
        ("optimizers", "[optimizer] kind", rows(train::optim::KINDS)),
        ("schedules", "[schedule] kind", rows(train::schedule::KINDS)),
        ("tokenizers", "[tokenizer] kind", rows(tokenizer::KINDS)),
        ("data", "[data] kind", rows(data::KINDS)),
        ("presets", "[model] preset", presets()?),
    ])
}

fn row(kind: &str, summary: &str, source: &str) -> Row {
    (kind.into(), summary.into(), source.into())
}

fn presets() -> Result<Vec<Row>> {
    let row = |name: &str| {
        let preset = preset::parse_preset(name)?;
        let summary = format!(
            "{:>8} parameters, {}",
            short(preset.params),
            preset.inputs()
        );
        Ok((name.to_string(), summary, preset.source))
    };
    preset::names().map(row).collect()
}

/// Formats 124439808 as `124.4M`.
fn short(count: u64) -> String {
    let count = count as f64;
    if count < 1e6 {
        format!("{:.1}K", count / 1e3)
    } else if count < 1e9 {
        format!("{:.1}M", count / 1e6)
    } else {
        format!("{:.2}B", count / 1e9)
    }
}
