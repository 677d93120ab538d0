//! Separates the differing settings that are causes from those that merely follow from them.
//!
//! The keys of a table depend on its kind: an arm with rotary positions has a `theta`, one with a learned table has a
//! `max_len`. The cause of such a difference is the kind.

use super::arms::Difference;

/// Returns the differing settings, without keys that are present or absent only because their table's `kind` differs.
pub fn causes(differing: &[Difference]) -> Vec<&Difference> {
    let cause = |d: &&Difference| !differing.iter().any(|kind| follows_from_kind(d, kind));
    differing.iter().filter(cause).collect()
}

/// Whether `d` follows from `kind`: it is a key of the table whose kind that is, some arms lack it, and the kind determines
/// its value.
fn follows_from_kind(d: &Difference, kind: &Difference) -> bool {
    let within = || {
        let table = kind.key.strip_suffix("kind")?;
        Some(table.ends_with('.') && d.key.starts_with(table) && d.key != kind.key)
    };
    let lacking = d.values.iter().any(Option::is_none);
    let pairs = || d.values.iter().zip(&kind.values);
    let function = || {
        pairs().all(|(value, of)| {
            let mut alike = pairs().filter(|(_, other)| *other == of);
            alike.all(|(other, _)| other == value)
        })
    };
    within() == Some(true) && lacking && function()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(key: &str, values: [Option<&str>; 3]) -> Difference {
        Difference {
            key: key.into(),
            short: String::new(),
            values: values.map(|v| v.map(str::to_owned)).into(),
        }
    }

    #[test]
    fn the_keys_of_a_kind_follow_from_it() {
        let all = [
            difference(
                "model.position.kind",
                [Some("rotary"), Some("rotary"), Some("learned")],
            ),
            difference("model.position.theta", [Some("1e4"), Some("1e4"), None]),
            difference("model.position.max_len", [None, None, Some("64")]),
            // Not determined by the kind; present for both kinds; not in the table.
            difference("model.position.scale", [Some("1"), Some("2"), None]),
            difference("model.position.first", [Some("0"), Some("0"), Some("2")]),
            difference("model.positions", [Some("1"), Some("1"), None]),
            difference("optimizer.lr", [Some("1e-3"), Some("1e-3"), Some("1e-4")]),
        ];
        let keys: Vec<&str> = causes(&all).iter().map(|d| d.key.as_str()).collect();
        let expected = [
            "model.position.kind",
            "model.position.scale",
            "model.position.first",
            "model.positions",
            "optimizer.lr",
        ];
        assert_eq!(keys, expected);
    }
}
