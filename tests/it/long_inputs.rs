//! Properties common to every kind of attention for long inputs: contract tests cover it, a run with it resumes exactly,
//! positions are supported or refused by name, and decoding keeps what later queries can see.

mod arena;
mod decoding;
mod places;
mod resumed;

use crate::kinds::{kinds, regrouping_kinds};
use formwork::nn::attention::KINDS;
use serde_json::Value;

/// The keys of every kind, most of them in several forms.
fn every_kind() -> Vec<Value> {
    [kinds(), regrouping_kinds()].concat()
}

/// Keys as one inline TOML value: scalars and lists are written alike in JSON and TOML.
fn inline(keys: &Value) -> String {
    let Value::Object(keys) = keys else {
        return keys.to_string();
    };
    let keys: Vec<String> = keys
        .iter()
        .map(|(key, value)| format!("{key} = {}", inline(value)))
        .collect();
    format!("{{ {} }}", keys.join(", "))
}

#[test]
fn contracts_run_over_every_kind() {
    let ours = every_kind();
    for kind in KINDS.iter().filter(|kind| kind.kind != "multi_head") {
        let is_among = ours.iter().any(|keys| keys["kind"] == kind.kind);
        assert!(is_among, "{}", kind.kind);
    }
}
