//! Which parameters have weight decay, and which have another learning rate.
//!
//! The default is nanoGPT's rule: parameters of two or more dimensions have weight decay, gains and biases never.
//! Groups then change the learning rate and weight decay of the parameters whose path they match.

use crate::error::{Error, Result, nearest};
use crate::nn::role::{ParameterKind, Role};
use crate::train::parameters::{self, Parameter};
use burn::module::{ParamGroup, ParamId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters that weight decay applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// Parameters of two or more dimensions: matrices and embeddings, not gains and biases.
    #[default]
    Matrices,
    /// All parameters.
    All,
}

/// `[[optimizer.groups]]`: another learning rate or weight decay for some parameters. If several groups match, the last
/// one that has the key wins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupConfig {
    /// Regular expression that is searched for in the dotted path of a parameter.
    #[serde(rename = "match")]
    pub pattern: String,
    /// Factor on the learning rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr_scale: Option<f64>,
    /// Weight decay of the group, instead of the optimizer's; `decay` still determines which parameters have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
}

/// How one parameter is updated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateSettings {
    /// Factor on the learning rate of the schedule.
    pub lr_scale: f64,
    /// Weight decay of the parameter; 0 for none.
    pub weight_decay: f64,
    /// Whether Muon orthogonalises its update (other optimizers ignore it).
    pub matrix: bool,
}

/// Parameters that are updated with equal settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The settings that they share.
    pub settings: UpdateSettings,
    /// Ids of the parameters.
    pub ids: Vec<ParamId>,
    /// Their paths, in the same order.
    pub paths: Vec<String>,
    /// Their roles, in the same order.
    pub roles: Vec<Role>,
}

/// The keys that all optimizers have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommonKeys<'a> {
    pub weight_decay: f64,
    pub decay: Decay,
    pub groups: &'a [GroupConfig],
    /// Pattern of the paths of Muon's matrices.
    pub matrices: Option<&'a str>,
}

impl<'a> CommonKeys<'a> {
    /// Returns the common keys of an optimizer that updates all parameters alike.
    pub fn of(weight_decay: f64, decay: Decay, groups: &'a [GroupConfig]) -> Self {
        Self {
            weight_decay,
            decay,
            groups,
            matrices: None,
        }
    }
}

/// Returns whether Muon orthogonalises a parameter that its pattern matches: it must have two dimensions and not be a
/// table in a block (Swin's distance biases), which is looked up and multiplies no vectors. Other networks have no
/// tables in their blocks: token and position tables lie outside, where only a pattern written for them matches. Runs
/// with such a pattern have kept the momentum of these tables since earlier versions, and continue with it.
pub fn is_matrix(role: Role, rank: usize) -> bool {
    let of_block = role.block.is_some() && role.kind == Some(ParameterKind::Table);
    rank == 2 && !of_block
}

/// Groups the parameters into clusters of equal settings, in the order of their first members.
pub(super) fn resolve(common: CommonKeys, parameters: &[Parameter]) -> Result<Vec<Cluster>> {
    let groups = common
        .groups
        .iter()
        .map(|group| matching("groups", &group.pattern, parameters).map(|hits| (group, hits)))
        .collect::<Result<Vec<_>>>()?;
    let matrices = match common.matrices {
        Some(pattern) => matching("matrices", pattern, parameters)?,
        None => vec![false; parameters.len()],
    };
    let mut clusters: Vec<Cluster> = Vec::new();
    for (i, parameter) in parameters.iter().enumerate() {
        let rank = parameter.shape.len();
        let mut settings = UpdateSettings {
            lr_scale: 1.0,
            weight_decay: common.weight_decay,
            matrix: matrices[i] && is_matrix(parameter.role, rank),
        };
        for (group, _) in groups.iter().filter(|(_, hits)| hits[i]) {
            settings.lr_scale = group.lr_scale.unwrap_or(settings.lr_scale);
            settings.weight_decay = group.weight_decay.unwrap_or(settings.weight_decay);
        }
        if common.decay == Decay::Matrices && rank < 2 {
            settings.weight_decay = 0.0;
        }
        let at = clusters.iter().position(|c| c.settings == settings);
        let at = at.unwrap_or_else(|| {
            clusters.push(Cluster {
                settings,
                ids: Vec::new(),
                paths: Vec::new(),
                roles: Vec::new(),
            });
            clusters.len() - 1
        });
        clusters[at].ids.push(parameter.id);
        clusters[at].paths.push(parameter.path.clone());
        clusters[at].roles.push(parameter.role);
    }
    Ok(clusters)
}

/// Returns, for each parameter, whether a key's pattern matches its path; fails if it matches none.
fn matching(key: &str, pattern: &str, parameters: &[Parameter]) -> Result<Vec<bool>> {
    let group = ParamGroup::from_regex(pattern).map_err(|_| {
        Error::usage(format!(
            "[optimizer] {key}: `{pattern}` is not a regular expression (syntax: https://docs.rs/regex)"
        ))
    })?;
    let hits = parameters::matching(&group, parameters);
    if hits.contains(&true) {
        return Ok(hits);
    }
    Err(Error::usage(format!(
        "[optimizer] {key}: `{pattern}` matches no parameter; {}",
        suggest_path(pattern, parameters)
    )))
}

/// Suggests a path, or a part of one, that resembles the pattern; else lists a few paths.
fn suggest_path(pattern: &str, parameters: &[Parameter]) -> String {
    let word = pattern.trim_matches(['^', '$']).replace('\\', "");
    let parts = parameters.iter().flat_map(|p| p.path.split('.'));
    let prefixes = parameters
        .iter()
        .flat_map(|p| p.path.match_indices('.').map(|(at, _)| &p.path[..at]));
    let paths = parameters.iter().map(|p| p.path.as_str());
    if let Some(near) = nearest(&word, parts.chain(prefixes).chain(paths)) {
        return format!("did you mean `{near}`?");
    }
    let step = parameters.len().div_ceil(4).max(1);
    let some: Vec<String> = parameters
        .iter()
        .step_by(step)
        .map(|p| format!("`{}`", p.path))
        .collect();
    format!("parameters are named like {}", some.join(", "))
}

/// Whether a weight decay is at least 0 and finite, also in single precision, in which some optimizers compute.
fn is_valid_decay(value: f64) -> bool {
    value >= 0.0 && (value as f32).is_finite()
}

/// Returns invalid or ineffective values among the common keys.
pub(super) fn faults(common: CommonKeys) -> Vec<String> {
    let mut faults = Vec::new();
    if !is_valid_decay(common.weight_decay) {
        faults.push(format!(
            "weight_decay = {} must be 0 or more",
            common.weight_decay
        ));
    }
    let grouped = common.groups.iter().filter_map(|g| g.weight_decay);
    let mut rates = grouped.chain([common.weight_decay]);
    if common.decay == Decay::All && rates.all(|rate| rate == 0.0) {
        faults.push(
            "decay = \"all\" has no effect: weight_decay is 0; set weight_decay or remove decay"
                .into(),
        );
    }
    for (number, group) in common.groups.iter().enumerate() {
        let (table, name) = (format!("[optimizer.groups.{number}]"), &group.pattern);
        if name.is_empty() {
            faults.push(format!(
                "{table} `match` is missing: a pattern for parameter paths"
            ));
        } else if ParamGroup::from_regex(name).is_err() {
            faults.push(format!(
                "{table} match = {name:?} is not a regular expression"
            ));
        }
        if group.lr_scale.is_none() && group.weight_decay.is_none() {
            faults.push(format!(
                "{table} group `{name}` has no effect; set `lr_scale` or `weight_decay`"
            ));
        }
        for (key, value) in [
            ("lr_scale", group.lr_scale),
            ("weight_decay", group.weight_decay),
        ] {
            if let Some(value) = value.filter(|v| !is_valid_decay(*v)) {
                faults.push(format!(
                    "{table} {key} = {value} of `{name}` must be 0 or more"
                ));
            }
        }
    }
    faults
}
