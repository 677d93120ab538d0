//! Settings that changed during a run, as recorded in its newest checkpoint and as seen in `resolved.toml` since then.

use std::path::Path;

use serde_json::Value;

use super::patience::newest_state;
use crate::train::transfer::is_initial_weight_key;

/// A key whose value changed at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The last step with the old value.
    pub step: u64,
    /// Dotted key.
    pub key: String,
    /// Value up to that step; `None` if the key was absent.
    pub from: Option<String>,
    /// Value after that step; `None` if the key is absent.
    pub to: Option<String>,
    /// Whether a checkpoint was saved with the new value.
    pub saved: bool,
}

impl Change {
    /// Formats the new value and its step: `0.001 at 300`.
    fn since(&self) -> String {
        let pending = if self.saved {
            ""
        } else {
            ", no checkpoint since"
        };
        format!("{} at {}{pending}", or_absent(self.to.as_ref()), self.step)
    }
}

/// Formats the successive values of one key from its changes, in order: `0.003 → 0.001 at 10 → 0.002 at 30`.
pub fn values(changes: &[&Change]) -> String {
    let first = changes.first().map_or("–", |c| or_absent(c.from.as_ref()));
    let later: Vec<String> = changes
        .iter()
        .map(|c| format!(" → {}", c.since()))
        .collect();
    format!("{first}{}", later.concat())
}

/// Returns the keys of the changes, each once, in the order of their first change.
pub fn keys(changes: &[Change]) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for change in changes {
        if !keys.contains(&change.key.as_str()) {
            keys.push(&change.key);
        }
    }
    keys
}

/// Returns the changes of one key.
pub fn changes_of_key<'c>(changes: &'c [Change], key: &str) -> Vec<&'c Change> {
    changes.iter().filter(|c| c.key == key).collect()
}

/// Reads the changes of the run in a folder whose resolved experiment is `resolved`; empty for runs of versions that record none.
pub fn read(folder: &Path, resolved: &toml::Table) -> Vec<Change> {
    let Some((newest, state)) = newest_state(folder) else {
        return Vec::new();
    };
    let kept = state.get("changes").and_then(Value::as_array);
    let mut changes: Vec<Change> = kept.into_iter().flatten().filter_map(change).collect();
    let settings = state.get("settings").and_then(Value::as_object);
    for (key, was) in settings.into_iter().flatten() {
        let (was, now) = (was.as_str().map(unquoted), value_of(resolved, key));
        if was != now {
            changes.push(Change {
                step: newest,
                key: key.clone(),
                from: was,
                to: now,
                saved: false,
            });
        }
    }
    // Earlier versions also recorded keys of the initial weights, with paths relative to another folder.
    changes.retain(|change| !is_initial_weight_key(&change.key));
    changes
}

fn change(entry: &Value) -> Option<Change> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(unquoted);
    Some(Change {
        step: entry.get("step")?.as_u64()?,
        key: entry.get("key")?.as_str()?.to_string(),
        from: text("from"),
        to: text("to"),
        saved: true,
    })
}

/// Returns the value of a dotted key.
fn value_of(table: &toml::Table, key: &str) -> Option<String> {
    let mut parts = key.split('.');
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = value.get(part)?;
    }
    Some(unquoted(&value.to_string()))
}

/// Returns a TOML value in readable form: strings lose their quotes.
fn unquoted(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    inner.unwrap_or(value).to_string()
}

fn or_absent(value: Option<&String>) -> &str {
    value.map_or("–", String::as_str)
}
