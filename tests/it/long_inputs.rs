//! What holds of every kind of attention for long inputs alike: it is among the kinds that contracts run over, a run with it
//! goes on exactly, positions are carried or refused by name, and decoding keeps what later queries can see.

mod arena;
mod decoding;
mod places;
mod resumed;

use crate::kinds::{kinds, regrouping_kinds};
use formwork::nn::attention::KINDS;
use serde_json::Value;

/// The keys of every kind, with more than one form of most.
fn every_kind() -> Vec<Value> {
    [kinds(), regrouping_kinds()].concat()
}

/// Keys as one value of TOML: scalars and lists are written alike in both.
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
