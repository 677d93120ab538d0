//! HF's tensors that a table makes of a model's parameters: their names and shapes first, then, rule by rule, their numbers.

use super::rename::Table;
use super::rule::Rule;
use super::weights::Array;
use std::collections::BTreeMap;

/// The tensors of a table whose parameters are there.
pub(super) struct Exported<'a> {
    /// Those that rules make.
    pub made: Vec<Made<'a>>,
    /// Those that follow from the shape.
    pub constants: BTreeMap<&'a str, Array>,
    /// Whole numbers, all 0: counts of batches.
    pub counts: Vec<&'a str>,
}

/// The tensors of one rule.
pub(super) struct Made<'a> {
    rule: &'a Rule,
    /// The shape of each.
    pub shape: Vec<usize>,
    /// Their names, each with the number of its tensor.
    pub names: Vec<(&'a str, usize)>,
}

impl<'a> Exported<'a> {
    /// Those of parameters with these shapes; rules whose parameters are absent are idle, and a later one counts.
    pub fn of(table: &'a Table, shapes: &BTreeMap<&String, &[usize]>) -> Self {
        let mut owners: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut made: Vec<Made> = Vec::new();
        for rule in table.rules.iter().filter(|rule| !rule.read_only) {
            let ours = rule.ours.iter().map(|path| shapes.get(path).copied());
            let Some(ours) = ours.collect::<Option<Vec<&[usize]>>>() else {
                continue;
            };
            let names = rule.theirs.iter().map(String::as_str).zip(0..);
            owners.extend(names.map(|(name, part)| (name, (made.len(), part))));
            made.push(Made {
                rule,
                shape: rule.their_shape(&ours),
                names: Vec::new(),
            });
        }
        for (copy, original) in &table.copies {
            if let Some(owner) = owners.get(original.as_str()).copied() {
                owners.insert(copy, owner);
            }
        }
        let written = table.constants.iter().filter(|constant| constant.written);
        let constants: BTreeMap<&str, Array> = written
            .map(|constant| (constant.name.as_str(), constant.array()))
            .collect();
        // A shortcut that a block lacks has no counts.
        let counted = |name: &&str| {
            let weight = name.replace("num_batches_tracked", "weight");
            owners.contains_key(weight.as_str()) || constants.contains_key(weight.as_str())
        };
        let counts = table.counts.iter().map(String::as_str).filter(counted);
        let counts = counts.collect();
        owners.retain(|name, _| !constants.contains_key(name));
        for (name, (number, part)) in owners {
            made[number].names.push((name, part));
        }
        Self {
            made,
            constants,
            counts,
        }
    }
}

impl Made<'_> {
    /// The tensors, by number, from our parameters, each read when its turn comes.
    pub fn arrays(&self, read: impl Fn(&str) -> Option<Array>) -> Vec<Array> {
        let ours: Vec<Array> = self
            .rule
            .ours
            .iter()
            .filter_map(|path| read(path))
            .collect();
        self.rule.export(&ours.iter().collect::<Vec<_>>())
    }
}
