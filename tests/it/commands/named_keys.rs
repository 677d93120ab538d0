//! Every key that the documentation names is a key of experiment files.

use crate::binary::{output, shipped};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// File endings, whose names look like keys, and the keys that say which keys a table has.
const OTHERS: [&str; 8] = [
    "toml",
    "json",
    "jsonl",
    "safetensors",
    "model",
    "rs",
    "kind",
    "preset",
];

/// Returns the texts in backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the keys of each table by its dotted name; the name of the file's top level is empty.
fn tables() -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut here: Vec<String> = Vec::new();
    for line in output(&["list", "keys", "--markdown"]).lines() {
        if line == "## The file" {
            here = vec![String::new()];
        } else if let Some(table) = line.strip_prefix("## ") {
            here = vec![table.replace("[]", "")];
        } else if line.starts_with("Also `") {
            here.extend(quoted(line).map(|table| table.replace("[]", "")));
        } else if line.starts_with("| `") {
            let key = quoted(line).next().unwrap();
            for table in &here {
                all.entry(table.clone()).or_default().insert(key.into());
            }
        }
    }
    all
}

/// Returns the dotted names in a piece of code, without the numbers of list items.
fn names(code: &str) -> Vec<String> {
    let ends = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || "._".contains(c));
    let mut all = Vec::new();
    for word in code.split_whitespace().filter(|word| !word.contains('/')) {
        for name in word.split(ends) {
            let parts = name.split('.');
            let parts = parts.filter(|part| !part.is_empty() && part.parse::<u64>().is_err());
            all.push(parts.collect::<Vec<_>>().join("."));
        }
    }
    all
}

#[test]
fn the_documentation_names_keys_that_there_are() {
    let tables = tables();
    let mut unknown = Vec::new();
    for entry in fs::read_dir(shipped("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (line, number) in text.lines().zip(1..) {
            for name in quoted(line).flat_map(names) {
                let Some((table, key)) = name.rsplit_once('.') else {
                    continue;
                };
                let first = name.split('.').next().unwrap();
                if !tables[""].contains(first) || OTHERS.contains(&key) {
                    continue;
                }
                let known = tables.get(table).is_some_and(|keys| keys.contains(key));
                if !known {
                    unknown.push(format!("{}:{number}: {name}", path.display()));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}
