//! Regular expressions over parameter paths, as given in the keys of `[init]` and `[lora]`.

use super::parameters::{self, Parameter};
use crate::error::{Error, Result};
use burn::module::ParamGroup;

/// Regular expressions over paths, with the key that they come from.
pub(super) struct Patterns<'a> {
    table: &'a str,
    key: &'a str,
    groups: Vec<(&'a str, ParamGroup)>,
}

impl<'a> Patterns<'a> {
    /// Compiles the patterns of a key of `[init]`.
    pub(super) fn new(key: &'a str, patterns: &'a [String]) -> Result<Self> {
        Self::of("init", key, patterns)
    }

    /// Compiles the patterns of a key of a table.
    pub(super) fn of(table: &'a str, key: &'a str, patterns: &'a [String]) -> Result<Self> {
        let groups = patterns.iter().map(|pattern| {
            let group = ParamGroup::from_regex(pattern.as_str()).map_err(|_| {
                Error::usage(format!(
                    "[{table}] {key}: `{pattern}` is not a regular expression (syntax: https://docs.rs/regex)"
                ))
            })?;
            Ok((pattern.as_str(), group))
        });
        Ok(Self {
            table,
            key,
            groups: groups.collect::<Result<_>>()?,
        })
    }

    pub(super) fn match_path(&self, path: &str) -> bool {
        let id = parameters::id_of(path);
        self.groups
            .iter()
            .any(|(_, group)| group.matches(&id, Some(path)))
    }

    /// Returns, for each parameter, whether any pattern matches its path.
    ///
    /// # Errors
    /// If a pattern matches no path.
    pub(super) fn matching(&self, all: &[Parameter]) -> Result<Vec<bool>> {
        let mut found = vec![false; all.len()];
        for (pattern, group) in &self.groups {
            let hits = parameters::matching(group, all);
            if !hits.contains(&true) {
                return Err(self.not_found(pattern, all.iter().map(|p| p.path.as_str())));
            }
            found
                .iter_mut()
                .zip(hits)
                .for_each(|(found, hit)| *found |= hit);
        }
        Ok(found)
    }

    /// Fails if a pattern matches no path.
    pub(super) fn require_all_matched<'p>(
        &self,
        paths: impl Iterator<Item = &'p str> + Clone,
    ) -> Result<()> {
        for (pattern, group) in &self.groups {
            let hit = |path: &str| group.matches(&parameters::id_of(path), Some(path));
            if !paths.clone().any(hit) {
                return Err(self.not_found(pattern, paths));
            }
        }
        Ok(())
    }

    fn not_found<'p>(&self, pattern: &str, paths: impl Iterator<Item = &'p str>) -> Error {
        let some: Vec<String> = paths.take(3).map(|p| format!("`{p}`")).collect();
        Error::usage(format!(
            "[{}] {}: `{pattern}` matches no parameter; parameters are named like {}",
            self.table,
            self.key,
            some.join(", ")
        ))
    }
}
