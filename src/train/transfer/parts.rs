//! `[init.image]`, `[init.text]`: the runs that the two networks of a model begin from, each separately.

use super::TransferConfig;
use crate::one_table::{is_usual, word_or_number};
use crate::train::parameters::Parameter;
use burn::tensor::TensorData;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The run that one network of a model begins from. The model's parameters outside its networks are newly initialised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartConfig {
    /// Folder of the run to begin from, or the file of the experiment that makes it, as `init.from`.
    pub from: PathBuf,
    /// Network to take from a run that has two; the one of the same name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartName>,
    /// Checkpoint of the run: `best`, `latest` or the number of a step; the best one when absent.
    #[schemars(extend("type" = ["string", "integer"]))]
    #[serde(
        default,
        deserialize_with = "word_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub checkpoint: Option<String>,
    /// Regular expressions: parameters of this network that are newly initialised, even if the other run has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<String>,
    /// Regular expressions: parameters of the other run that are not taken, by the paths that they have in this model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// Regular expressions: position tables that are resampled if their lengths differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resample: Vec<String>,
    /// Whether bicubic resampling is antialiased, as `init.resample_antialias`.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub resample_antialias: bool,
}

/// A network of a model that has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartName {
    /// The image network.
    Image,
    /// The network that reads or writes text.
    Text,
}

impl PartName {
    /// Returns the key of the network.
    pub fn key(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Text => "text",
        }
    }
}

/// A run that weights are taken from.
#[derive(Clone, Debug, PartialEq)]
pub struct InitialRun {
    /// Key that names the run.
    pub key: &'static str,
    /// Folder of the run.
    pub from: PathBuf,
    /// Rules for which parameters are taken.
    pub rules: TransferConfig,
    /// The network that begins from it, and the network of the other run that is taken; `None` for the whole model.
    pub part: Option<[PartName; 2]>,
}

impl PartConfig {
    fn initial_run(&self, key: &'static str, own: PartName) -> InitialRun {
        InitialRun {
            key,
            from: self.from.clone(),
            rules: TransferConfig {
                from: Some(self.from.clone()),
                checkpoint: self.checkpoint.clone(),
                new: self.new.clone(),
                skip: self.skip.clone(),
                resample: self.resample.clone(),
                resample_antialias: self.resample_antialias,
                ..TransferConfig::default()
            },
            part: Some([own, self.part.unwrap_or(own)]),
        }
    }
}

impl TransferConfig {
    /// Returns both networks that may begin from separate runs, with their keys and settings.
    pub fn parts(&self) -> [(PartName, &'static str, Option<&PartConfig>); 2] {
        [
            (PartName::Image, "init.image.from", self.image.as_ref()),
            (PartName::Text, "init.text.from", self.text.as_ref()),
        ]
    }

    /// Returns the runs that weights are taken from.
    pub fn initial_runs(&self) -> Vec<InitialRun> {
        let whole = self.from.as_ref().map(|from| InitialRun {
            key: "init.from",
            from: from.clone(),
            rules: self.clone(),
            part: None,
        });
        let parts = self.parts().into_iter();
        let parts = parts.filter_map(|(own, key, part)| Some(part?.initial_run(key, own)));
        whole.into_iter().chain(parts).collect()
    }

    /// Returns the faults in the tables of both networks.
    pub(super) fn part_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, _, part) in self.parts() {
            let Some(part) = part else { continue };
            let name = name.key();
            if self.from.is_some() {
                faults.push(format!(
                    "[init.{name}] from has no effect together with [init] from, the run that the whole model begins from; remove \
                     one of them"
                ));
            }
            let own = part.initial_run("", PartName::Image).rules.faults();
            faults.extend(own.iter().map(|fault| format!("[init.{name}] {fault}")));
        }
        faults
    }
}

/// The mapping of parameter paths from another run to a network of this model: two path prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMapping {
    /// Prefix of the paths in the other run.
    pub theirs: String,
    /// Prefix of the paths in this model.
    pub ours: String,
}

impl PathMapping {
    /// Returns the path in this model of a parameter of the other run, if its path has the prefix.
    pub fn map_path(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&self.theirs)?;
        Some(format!("{}{rest}", self.ours))
    }

    /// Returns whether a parameter of this model belongs to the network.
    pub fn maps_to(&self, path: &str) -> bool {
        path.starts_with(&self.ours)
    }
}

/// Restricts the stored and wanted parameters to a network: returns the stored ones by their paths in this model, and
/// the paths left out from a run with one network. Without a `way` everything is kept.
pub(super) fn restrict_to_part(
    way: Option<&PathMapping>,
    stored: BTreeMap<String, TensorData>,
    wanted: &mut Vec<Parameter>,
) -> (BTreeMap<String, TensorData>, Vec<String>) {
    let Some(way) = way else {
        return (stored, Vec::new());
    };
    wanted.retain(|parameter| way.maps_to(&parameter.path));
    let (mut along, mut behind) = (BTreeMap::new(), Vec::new());
    for (path, data) in stored {
        match way.map_path(&path) {
            Some(path) => drop(along.insert(path, data)),
            None => behind.push(path),
        }
    }
    // In a run with two networks, the other network is not reported as left out.
    let of_one = way.theirs == "model.";
    behind.retain(|_| of_one);
    (along, behind)
}
