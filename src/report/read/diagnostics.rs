//! Reads `diagnostics.jsonl` as series: internal quantities of training for each part of the network.
//!
//! A line is `{"step":50,"gradient_norm":{"blocks.0":1.2,"embedding":0.3},"update_ratio":{…}}`: each object is a quantity
//! with one number per part of the network. Unreadable lines, such as a truncated last one, are skipped, and so are values
//! that are not numbers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// File name of the diagnostics in a run folder.
pub const FILE: &str = "diagnostics.jsonl";

/// All quantities of one run.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    /// Quantities by name, in the file's order.
    pub quantities: Vec<(String, Quantity)>,
}

/// One quantity for all parts over the steps.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    /// Names of the parts, in the file's order.
    pub parts: Vec<String>,
    /// Steps, in rising order.
    pub steps: Vec<u64>,
    /// Values, indexed by part and then by step; NaN if nothing was measured.
    pub values: Vec<Vec<f64>>,
}

/// Reads the diagnostics of a run folder; `None` if it has no such file. Long runs are thinned to at most `limit` steps, each the
/// mean over the steps it stands for.
///
/// # Errors
/// If the file cannot be read.
pub fn read(run: &Path, limit: usize) -> Result<Option<Diagnostics>> {
    let path = run.join(FILE);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(parse(&String::from_utf8_lossy(&bytes), limit))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

/// Parses the quantities from a file's text, thinned to at most `limit` steps.
pub fn parse(text: &str, limit: usize) -> Diagnostics {
    // A resumed run may have written some steps again; the later line counts.
    let mut lines: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    for line in text.lines() {
        if let Ok(line) = serde_json::from_str::<Map<String, Value>>(line)
            && let Some(step) = line.get("step").and_then(Value::as_u64)
        {
            lines.insert(step, line);
        }
    }
    let mut names: Vec<&String> = Vec::new();
    for line in lines.values() {
        for (name, value) in line {
            if value.is_object() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let share = lines.len().div_ceil(limit.max(1)).max(1);
    let lines: Vec<(&u64, &Map<String, Value>)> = lines.iter().collect();
    let quantities = names
        .into_iter()
        .map(|name| (name.clone(), quantity(&lines, name, share)))
        .collect();
    Diagnostics { quantities }
}

fn quantity(lines: &[(&u64, &Map<String, Value>)], name: &str, share: usize) -> Quantity {
    let numbers = |line: &Map<String, Value>| -> Vec<(String, f64)> {
        let parts = line.get(name).and_then(Value::as_object);
        let parts = parts.into_iter().flatten();
        parts
            .filter_map(|(part, value)| Some((part.clone(), value.as_f64()?)))
            .collect()
    };
    let mut found = Quantity::default();
    for bin in lines.chunks(share) {
        let mut sums: Vec<(f64, f64)> = vec![(0.0, 0.0); found.parts.len()];
        for (part, value) in bin.iter().flat_map(|(_, line)| numbers(line)) {
            let at = match found.parts.iter().position(|p| *p == part) {
                Some(at) => at,
                None => {
                    found.parts.push(part);
                    let before = vec![f64::NAN; found.steps.len()];
                    found.values.push(before);
                    sums.push((0.0, 0.0));
                    sums.len() - 1
                }
            };
            sums[at] = (sums[at].0 + value, sums[at].1 + 1.0);
        }
        if let Some((step, _)) = bin.last() {
            found.steps.push(**step);
        }
        for (values, (sum, n)) in found.values.iter_mut().zip(sums) {
            // Without a measurement this is 0 / 0, which is NaN.
            values.push(sum / n);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_and_go_and_long_runs_are_thinned() {
        let text = concat!(
            "{\"step\":10,\"gradient_norm\":{\"blocks.0\":1.0},\"note\":\"x\"}\n",
            "{\"step\":20,\"gradient_norm\":{\"blocks.0\":3.0,\"embedding\":0.5}}\n",
            "torn {\n",
            "{\"step\":30,\"gradient_norm\":{\"blocks.0\":null,\"embedding\":1.5}}\n",
        );
        let found = parse(text, 2);
        let (name, q) = &found.quantities[0];
        assert_eq!(
            (found.quantities.len(), name.as_str()),
            (1, "gradient_norm")
        );
        assert_eq!(q.parts, ["blocks.0", "embedding"]);
        assert_eq!(q.steps, [20, 30]);
        assert_eq!(q.values[1], [0.5, 1.5]);
        assert_eq!(q.values[0][0], 2.0);
        assert!(q.values[0][1].is_nan());
    }
}
