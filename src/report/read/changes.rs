//! Keys of a run that changed on its way: what its newest checkpoint says of them, and what `resolved.toml` says since.

use std::path::Path;

use serde_json::Value;

use super::patience::newest_state;
use crate::train::transfer::begins;

/// A key that has had another value since a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The last step with the old value.
    pub step: u64,
    /// Dotted.
    pub key: String,
    /// The value until then; none where the key was not there.
    pub from: Option<String>,
    /// The value since then.
    pub to: Option<String>,
    /// Whether a checkpoint was made with the new value.
    pub saved: bool,
}

impl Change {
    /// `0.001 at 300`: the new value, and since when.
    fn since(&self) -> String {
        let pending = if self.saved {
            ""
        } else {
            ", no checkpoint since"
        };
        format!("{} at {}{pending}", shown(self.to.as_ref()), self.step)
    }
}

/// `0.003 → 0.001 at 10 → 0.002 at 30`: the values of one key, from its changes in their order.
pub fn values(changes: &[&Change]) -> String {
    let first = changes.first().map_or("–", |c| shown(c.from.as_ref()));
    let later: Vec<String> = changes
        .iter()
        .map(|c| format!(" → {}", c.since()))
        .collect();
    format!("{first}{}", later.concat())
}

/// The keys of some changes, each once, in the order in which they changed first.
pub fn keys(changes: &[Change]) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for change in changes {
        if !keys.contains(&change.key.as_str()) {
            keys.push(&change.key);
        }
    }
    keys
}

/// The changes of one key.
pub fn of_key<'c>(changes: &'c [Change], key: &str) -> Vec<&'c Change> {
    changes.iter().filter(|c| c.key == key).collect()
}

/// Reads the changes of the run in a folder whose resolved experiment is `resolved`; none of a run of an earlier version.
pub fn read(folder: &Path, resolved: &toml::Table) -> Vec<Change> {
    let Some((newest, state)) = newest_state(folder) else {
        return Vec::new();
    };
    let kept = state.get("changes").and_then(Value::as_array);
    let mut changes: Vec<Change> = kept.into_iter().flatten().filter_map(change).collect();
    let settings = state.get("settings").and_then(Value::as_object);
    for (key, was) in settings.into_iter().flatten() {
        let (was, now) = (was.as_str().map(plain), value_of(resolved, key));
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
    // Earlier versions kept keys of the first weights among them, with paths that lead from elsewhere.
    changes.retain(|change| !begins(&change.key));
    changes
}

fn change(entry: &Value) -> Option<Change> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(plain);
    Some(Change {
        step: entry.get("step")?.as_u64()?,
        key: entry.get("key")?.as_str()?.to_string(),
        from: text("from"),
        to: text("to"),
        saved: true,
    })
}

/// The value of a dotted key.
fn value_of(table: &toml::Table, key: &str) -> Option<String> {
    let mut parts = key.split('.');
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = value.get(part)?;
    }
    Some(plain(&value.to_string()))
}

/// A value of TOML as a person reads it: strings without their quotes.
fn plain(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    inner.unwrap_or(value).to_string()
}

fn shown(value: Option<&String>) -> &str {
    value.map_or("–", String::as_str)
}
