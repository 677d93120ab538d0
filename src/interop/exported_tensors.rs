//! The HF tensors that a table makes from a model's parameters: first their names and shapes, then, rule by rule, their
//! values.

use super::rename::Table;
use super::rule::Rule;
use super::weights::Array;
use std::collections::BTreeMap;

/// The tensors of a table that can be made from the parameters present.
pub(super) struct Exported<'a> {
    /// Tensors made by rules, grouped by rule.
    pub tensors: Vec<ExportedTensors<'a>>,
    /// Tensors whose values follow from the shape.
    pub constants: BTreeMap<&'a str, Array>,
    /// Names of integer tensors that are all 0: `num_batches_tracked` of batch norms.
    pub counts: Vec<&'a str>,
}

/// The tensors of one rule.
pub(super) struct ExportedTensors<'a> {
    rule: &'a Rule,
    /// The shape of each tensor.
    pub shape: Vec<usize>,
    /// The names of the tensors, each with its index among the rule's results.
    pub names: Vec<(&'a str, usize)>,
}

impl<'a> Exported<'a> {
    /// Finds the tensors that can be made from parameters with these shapes. A rule with an absent parameter is skipped; of
    /// two rules for the same name, the later one counts.
    pub fn of(table: &'a Table, shapes: &BTreeMap<&String, &[usize]>) -> Self {
        let mut owners: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut made: Vec<ExportedTensors> = Vec::new();
        for rule in table.rules.iter().filter(|rule| !rule.read_only) {
            let ours = rule.ours.iter().map(|path| shapes.get(path).copied());
            let Some(ours) = ours.collect::<Option<Vec<&[usize]>>>() else {
                continue;
            };
            let names = rule.theirs.iter().map(String::as_str).zip(0..);
            owners.extend(names.map(|(name, part)| (name, (made.len(), part))));
            made.push(ExportedTensors {
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
            tensors: made,
            constants,
            counts,
        }
    }
}

impl ExportedTensors<'_> {
    /// Computes the rule's tensors, in order, from our parameters, which `read` returns one at a time.
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
