//! The page's heat map of quantities inside the network, by part and step: gradient norms and the other quantities in a
//! run's diagnostics.
//!
//! Each of the leading arms is represented by one run: the first of its drawn runs that has diagnostics.

use serde_json::{Map, Value, json};

use super::data::rounded;
use crate::error::Result;
use crate::report::analyse::comparison::Comparison;
use crate::report::read::diagnostics::{self, Quantity};
use crate::report::render::terminal::plain;

/// Maximum number of arms whose diagnostics are on the page.
const ARMS: usize = 8;
/// Maximum number of steps of a run on the page.
const STEPS: usize = 80;
/// Maximum number of parts of a network on the page; the first ones of the file are kept.
const PARTS: usize = 128;

/// Returns `[{"arm","run","quantities":{name:{"parts","steps","values"}}}]`; empty if no run has diagnostics.
///
/// # Errors
/// If a file cannot be read.
pub fn data(c: &Comparison) -> Result<Value> {
    let mut runs = Vec::new();
    for arm in c.best_arms(ARMS) {
        for run in c.plotted_runs(arm) {
            let Some(found) = diagnostics::read(&run.path, STEPS)? else {
                continue;
            };
            let quantities: Map<String, Value> = found
                .quantities
                .iter()
                .map(|(name, quantity)| (name.clone(), values(quantity)))
                .collect();
            runs.push(json!({"arm": arm, "run": plain(&run.title), "quantities": quantities}));
            break;
        }
    }
    Ok(Value::Array(runs))
}

fn values(quantity: &Quantity) -> Value {
    let row = |row: &Vec<f64>| row.iter().map(|v| rounded(*v)).collect::<Vec<f64>>();
    let values = quantity.values.iter().take(PARTS).map(row);
    let parts = quantity.parts.iter().take(PARTS).map(|p| plain(p));
    json!({
        "parts": parts.collect::<Vec<String>>(),
        "steps": quantity.steps,
        "values": values.collect::<Vec<Vec<f64>>>(),
    })
}

/// Returns the section of the page; empty without diagnostics.
pub fn section(data: &Value) -> String {
    if data.as_array().is_none_or(Vec::is_empty) {
        return String::new();
    }
    "<h2 id=\"layers\">Inside the network</h2>\n<p class=\"quiet\">One run of each arm; a row for each part, colours on a \
     logarithmic scale.</p>\n<div class=\"card\"><div class=\"controls\">\
     <label>run <select id=\"layer-run\"></select></label>\
     <label>quantity <select id=\"layer-quantity\"></select></label></div>\n\
     <div class=\"plot\"><svg id=\"layer-chart\" tabindex=\"0\" role=\"img\" aria-label=\"Quantities by part and step\"></svg>\
     <div class=\"tip\" id=\"layer-tip\" hidden></div></div>\n\
     <div class=\"hidden\" id=\"layer-spoken\" aria-live=\"polite\"></div></div>\n"
        .into()
}
