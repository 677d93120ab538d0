//! Faults in the values of an experiment: values that no run can have, each with its keys and the violated rule. Each config type
//! reports its own faults; their lines are looked up where files are read.

/// The faults of an experiment, as far as its values alone show them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Each fault's dotted keys, of which the first names the table, and the violated rule with its remedy.
    pub found: Vec<(Vec<String>, String)>,
}

/// Maximum width of any vector inside a model.
pub const MAX_WIDTH: usize = 1 << 24;
/// Lowest temperature of a loss.
pub const MIN_TEMPERATURE: f64 = 0.001;
/// Highest temperature of a loss.
pub const MAX_TEMPERATURE: f64 = 1000.0;
/// Maximum number of positions of any table or input.
pub const MAX_POSITIONS: usize = 1 << 24;

impl Faults {
    /// Returns a collector of the faults of a table, for example `model.attention`.
    pub fn of<'a>(&'a mut self, table: &'a str) -> TableFaults<'a> {
        TableFaults {
            faults: self,
            table,
        }
    }
}

/// Formats a table's name for users: `[model.position]`; an item of a list by its number from 1, `[[model.layers]] 2`, and a table
/// inside the item as `[[model.layers]] 2 attention`. In a dotted name, the number counts from 0.
pub fn header(table: &str) -> String {
    let parts: Vec<&str> = table.split('.').collect();
    let number = |part: &&str| part.parse::<usize>().ok();
    let item = parts.iter().rposition(|part| number(part).is_some());
    match item.and_then(|at| Some((at, number(&parts[at])?))) {
        None => format!("[{table}]"),
        Some((at, number)) => {
            let list = format!("[[{}]] {}", parts[..at].join("."), number.saturating_add(1));
            match &parts[at + 1..] {
                [] => list,
                inside => format!("{list} {}", inside.join(".")),
            }
        }
    }
}

/// Prefixes a text with the name of the table that it is about.
pub fn prefix_with_table(table: &str, text: &str) -> String {
    let header = header(table);
    match (table, header.starts_with("[[")) {
        ("", _) => text.to_string(),
        (_, true) => format!("{header}: {text}"),
        (_, false) => format!("{header} {text}"),
    }
}

/// A collector of the faults of one table. Keys are short names within the table, or dotted names of other tables.
#[derive(Debug)]
pub struct TableFaults<'a> {
    faults: &'a mut Faults,
    table: &'a str,
}

impl TableFaults<'_> {
    /// The table's name.
    pub fn table(&self) -> &str {
        self.table
    }

    /// Returns the table's name as shown to users.
    pub fn header(&self) -> String {
        header(self.table)
    }

    /// Returns a key's dotted name.
    pub fn key(&self, name: &str) -> String {
        match name.contains('.') || self.table.is_empty() {
            true => name.to_string(),
            false => format!("{}.{name}", self.table),
        }
    }

    /// Runs `work` with a collector for a table inside this one.
    pub fn nested<T>(&mut self, table: &str, work: impl FnOnce(&mut TableFaults) -> T) -> T {
        let table = format!("{}.{table}", self.table);
        work(&mut self.faults.of(&table))
    }

    /// Adds a fault about some keys.
    pub fn fault(&mut self, keys: &[&str], rule: impl Into<String>) {
        let keys = keys.iter().map(|key| self.key(key)).collect();
        self.faults.found.push((keys, rule.into()));
    }

    /// Checks that a count is between 1 and `most`; returns whether it is.
    pub fn count(&mut self, key: &str, value: usize, most: usize) -> bool {
        let fine = (1..=most).contains(&value);
        if !fine {
            let name = last_key(key);
            self.fault(
                &[key],
                format!("{name} = {value} is not between 1 and {most}"),
            );
        }
        fine
    }

    /// Checks that a number is above 0 and fits a 32-bit float.
    pub fn positive(&mut self, key: &str, value: f64) {
        if !(value > 0.0 && value.is_finite()) {
            self.fault(
                &[key],
                format!("{} = {value:?} must be above 0", last_key(key)),
            );
        } else {
            self.check_f32_range(key, value);
        }
    }

    /// Checks that a nonzero number is neither 0 nor infinite as a 32-bit float.
    fn check_f32_range(&mut self, key: &str, value: f64) {
        if value != 0.0 && !(value as f32).is_normal() {
            let rule = format!(
                "{} = {value:e} is too small or too large for a 32-bit float; use a value between 1e-37 and 1e37",
                last_key(key)
            );
            self.fault(&[key], rule);
        }
    }

    /// Checks that a number is 0 or more.
    pub fn not_negative(&mut self, key: &str, value: f64) {
        if !(value >= 0.0 && value.is_finite()) {
            let rule = format!("{} = {value:?} must be 0 or more", last_key(key));
            self.fault(&[key], rule);
        } else {
            self.check_f32_range(key, value);
        }
    }

    /// Checks that a number is in a range, ends included.
    pub fn between(&mut self, key: &str, value: f64, [low, high]: [f64; 2]) {
        if !(low..=high).contains(&value) {
            let rule = format!(
                "{} = {value:?} must be between {low:?} and {high:?}",
                last_key(key)
            );
            self.fault(&[key], rule);
        }
    }

    /// Checks a temperature, the divisor of scores before a softmax.
    pub fn temperature(&mut self, key: &str, value: f64) {
        self.between(key, value, [MIN_TEMPERATURE, MAX_TEMPERATURE]);
    }

    /// Checks that a probability is at least 0 and below 1.
    pub fn probability(&mut self, key: &str, value: f64) {
        if !(0.0..1.0).contains(&value) {
            let rule = format!(
                "{} = {value:?} must be at least 0 and below 1",
                last_key(key)
            );
            self.fault(&[key], rule);
        }
    }
}

/// Returns the last part of a dotted key.
fn last_key(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::prefix_with_table;

    #[test]
    fn tables_of_lists_go_by_their_number() {
        for (table, said) in [
            ("", "x"),
            ("model", "[model] x"),
            ("model.position", "[model.position] x"),
            ("model.layers.0", "[[model.layers]] 1: x"),
            (
                "model.layers.11.attention.qk_norm",
                "[[model.layers]] 12 attention.qk_norm: x",
            ),
        ] {
            assert_eq!(prefix_with_table(table, "x"), said);
        }
    }
}
