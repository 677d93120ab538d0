//! Builds the message about an unknown key: suggests the key that was probably meant, in this table or in another one.

use super::aliases;
use super::messages::header;
use super::read::{self, Names, Reason};
use super::tree::{Node, Value};
use crate::error::{nearest, suggestion};
use crate::experiment::schema::sections;
use crate::experiment::{Experiment, Origin};

/// The message about an unknown key at `path`.
pub(super) fn unknown_key(root: &Node, path: &[String], key: &str, allowed: Names) -> String {
    let table = &path[..path.len().saturating_sub(1)];
    let is_table = root.at(path).is_some_and(|n| n.table().is_some());
    if table.is_empty() {
        let near = nearest(key, allowed.iter().copied());
        return match near.or_else(|| section(key, allowed).filter(|_| is_table)) {
            Some(near) if is_table => {
                format!("there is no section [{key}]; did you mean [{near}]?")
            }
            Some(near) => format!("there is no key `{key}`; did you mean `{near}`?"),
            None if aliases::table_and_key(key).is_some() => {
                format!(
                    "there is no key `{key}` here{}",
                    suggested_key(key, table, allowed)
                )
            }
            None if let Some(places) = other_places(key, is_table) => {
                format!(
                    "there is no {} here; did you mean {places}?",
                    key_label(key, is_table)
                )
            }
            None => {
                let near = suggestion(key, allowed.iter().copied());
                format!("there is no {}{near}", key_label(key, is_table))
            }
        };
    }
    let kind = root
        .at(table)
        .and_then(Node::table)
        .and_then(|t| t.string("kind"));
    let near = nearest(key, allowed.iter().copied()).is_some();
    let kind = match kind {
        Some(kind) if !near && key != "kind" => format!(" with kind = \"{kind}\""),
        _ => String::new(),
    };
    let remedy = match allowed {
        _ if let Some(ours) = aliases::table_alias(table, key) => {
            format!("; did you mean `{ours}`?")
        }
        _ if !near && let Some(home) = aliases::subtable_key(table, key, allowed) => {
            format!("; did you mean `{key}` of [{home}]?")
        }
        _ if !near && aliases::table_and_key(key).is_some() => suggested_key(key, table, allowed),
        [] => format!("; it accepts no keys{}", with_other_kinds(root, table, key)),
        _ if near => suggestion(key, allowed.iter().copied()),
        _ => {
            let others = with_other_kinds(root, table, key);
            format!("{}{others}", suggestion(key, allowed.iter().copied()))
        }
    };
    format!("{}{kind} has no key `{key}`{remedy}", header(root, table))
}

/// A section as `section [training]`, a key as ``key `lr` ``.
fn key_label(key: &str, is_table: bool) -> String {
    match is_table {
        true => format!("section [{key}]"),
        false => format!("key `{key}`"),
    }
}

/// The section whose name is the longest prefix of a word: `training` gives `train`.
fn section(word: &str, allowed: Names) -> Option<&'static str> {
    let begun = allowed
        .iter()
        .copied()
        .filter(|name| word.starts_with(*name));
    begun.max_by_key(|name| name.len())
}

/// Maximum number of places that a message names.
const MOST_PLACES: usize = 3;

/// The tables that have a key of this name, as `model.norm_placement` or `[model.attention]`; none if there are too many.
fn other_places(key: &str, is_table: bool) -> Option<String> {
    let sections = sections();
    let has = sections.iter().filter(|section| {
        !section.path.is_empty() && section.keys.iter().any(|own| own.name == key)
    });
    let mut places: Vec<&str> = has.map(|section| section.path.as_str()).collect();
    let depth = |place: &&str| place.matches('.').count();
    let least = places.iter().map(depth).min()?;
    places.retain(|place| depth(place) == least);
    places.sort_unstable();
    places.dedup();
    let named = places.iter().map(|place| match is_table {
        true => format!("[{place}.{key}]"),
        false => format!("`{place}.{key}`"),
    });
    let named: Vec<String> = named.collect();
    (named.len() <= MOST_PLACES).then(|| named.join(" or "))
}

/// `; a key of kind = "moe"` if other kinds of the table have the key.
fn with_other_kinds(root: &Node, table: &[String], key: &str) -> String {
    let Some(node) = root.at(table).and_then(|t| t.table()?.get(key)) else {
        return String::new();
    };
    let has = |kind: &&'static str| {
        let mut tree = root.clone();
        let Some(place) = tree.at_mut(table) else {
            return false;
        };
        *place = Node {
            value: Value::String(kind.to_string()),
            origin: Origin::Default,
        };
        place.string_to_kind();
        if let Some(alone) = place.table_mut() {
            alone.insert(key, node.clone());
        }
        let misses =
            |reason: &Reason| matches!(reason, Reason::UnknownKey { key: k, .. } if k == key);
        !read::read::<Experiment>(&mut tree).is_err_and(|(_, reason)| misses(&reason))
    };
    let kinds = read::kinds::<Experiment>(root, table).iter().copied();
    let kinds = kinds.filter(has).map(|kind| format!("\"{kind}\""));
    let kinds: Vec<String> = kinds.collect();
    let before = "; a key of kind =";
    match kinds.split_last() {
        Some((only, [])) => format!("{before} {only}"),
        Some((last, rest)) if rest.len() < 4 => format!("{before} {} or {last}", rest.join(", ")),
        Some(_) | None => String::new(),
    }
}

/// `; did you mean …?` for a key that belongs to another table, or has another name in this one.
fn suggested_key(key: &str, table: &[String], allowed: Names) -> String {
    let here = table.join(".");
    let inside = |home: &str| {
        let rest = home.strip_prefix(&here);
        let below = rest.and_then(|rest| rest.strip_prefix('.'));
        below.map(|rest| rest.split('.').next().unwrap_or_default().to_string())
    };
    match aliases::table_and_key(key) {
        // This table has the key, even if another table has it, too.
        Some((_, ours)) if allowed.contains(&ours) => format!("; did you mean `{ours}`?"),
        // This kind of table has neither the key nor the subtable that has it.
        Some((home, _)) if home == here => suggestion(key, allowed.iter().copied()),
        Some((home, _)) if inside(home).is_some_and(|child| !allowed.contains(&child.as_str())) => {
            suggestion(key, allowed.iter().copied())
        }
        Some(("", ours)) => format!("; did you mean `{ours}`, at the top of the file?"),
        Some((home, ours)) => format!("; did you mean `{ours}` of [{home}]?"),
        None => String::new(),
    }
}
