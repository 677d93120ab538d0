//! `[init.image]`, `[init.text]`: the runs that the two networks of a model begin from, each by itself.

use super::TransferConfig;
use crate::one_table::{is_usual, word_or_number};
use crate::train::parameters::Parameter;
use burn::tensor::TensorData;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The run that one network of a model begins from. What the model has beside its networks begins anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartConfig {
    /// The folder of the run to begin from, or the file of the experiment that makes it, as `init.from`.
    pub from: PathBuf,
    /// The network that is taken of a run which has two; that of the same name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartName>,
    /// Which of its checkpoints: `best`, `latest` or the number of a step; the best one when absent.
    #[schemars(extend("type" = ["string", "integer"]))]
    #[serde(
        default,
        deserialize_with = "word_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub checkpoint: Option<String>,
    /// Regular expressions: parameters of this network that begin anew, whatever the other run has in their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<String>,
    /// Regular expressions: parameters of the other run, by the paths that they have here, that are not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// Regular expressions: tables of positions that are resampled when their lengths differ.
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
    /// That which reads images.
    Image,
    /// That which reads or writes texts.
    Text,
}

impl PartName {
    /// The key that holds the network.
    pub fn key(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Text => "text",
        }
    }
}

/// A run that weights are taken from.
#[derive(Clone, Debug, PartialEq)]
pub struct Beginning {
    /// The key that names it.
    pub key: &'static str,
    /// The run.
    pub from: PathBuf,
    /// The rules of what is taken.
    pub rules: TransferConfig,
    /// The network that begins from it, and that of the other run which is taken; the whole model when absent.
    pub part: Option<[PartName; 2]>,
}

impl PartConfig {
    fn beginning(&self, key: &'static str, own: PartName) -> Beginning {
        Beginning {
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
    /// Both networks that may begin from a run each, with the tables of their keys.
    pub fn parts(&self) -> [(PartName, &'static str, Option<&PartConfig>); 2] {
        [
            (PartName::Image, "init.image.from", self.image.as_ref()),
            (PartName::Text, "init.text.from", self.text.as_ref()),
        ]
    }

    /// The runs that weights are taken from.
    pub fn beginnings(&self) -> Vec<Beginning> {
        let whole = self.from.as_ref().map(|from| Beginning {
            key: "init.from",
            from: from.clone(),
            rules: self.clone(),
            part: None,
        });
        let parts = self.parts().into_iter();
        let parts = parts.filter_map(|(own, key, part)| Some(part?.beginning(key, own)));
        whole.into_iter().chain(parts).collect()
    }

    /// Faults of the tables of both networks.
    pub(super) fn part_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, _, part) in self.parts() {
            let Some(part) = part else { continue };
            let name = name.key();
            if self.from.is_some() {
                faults.push(format!(
                    "[init.{name}] from has no effect beside [init] from, which is the run that the whole model begins from; leave \
                     one of them out"
                ));
            }
            let own = part.beginning("", PartName::Image).rules.faults();
            faults.extend(own.iter().map(|fault| format!("[init.{name}] {fault}")));
        }
        faults
    }
}

/// The way of parameters from a run to a network of the model: the beginnings of their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// There.
    pub theirs: String,
    /// Here.
    pub ours: String,
}

impl Way {
    /// The path here of a parameter there, when it goes this way.
    pub fn turned(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&self.theirs)?;
        Some(format!("{}{rest}", self.ours))
    }

    /// Whether a parameter of the model is at the end of it.
    pub fn leads_to(&self, path: &str) -> bool {
        path.starts_with(&self.ours)
    }
}

/// What goes a way, by its paths here, and the paths of what stays behind of a run with one network; all of it where there is none.
pub(super) fn taken_along(
    way: Option<&Way>,
    stored: BTreeMap<String, TensorData>,
    wanted: &mut Vec<Parameter>,
) -> (BTreeMap<String, TensorData>, Vec<String>) {
    let Some(way) = way else {
        return (stored, Vec::new());
    };
    wanted.retain(|parameter| way.leads_to(&parameter.path));
    let (mut along, mut behind) = (BTreeMap::new(), Vec::new());
    for (path, data) in stored {
        match way.turned(&path) {
            Some(path) => drop(along.insert(path, data)),
            None => behind.push(path),
        }
    }
    // Of a run with two networks the other one is not meant.
    let of_one = way.theirs == "model.";
    behind.retain(|_| of_one);
    (along, behind)
}
