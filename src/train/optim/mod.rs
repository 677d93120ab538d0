//! Optimizers: how a gradient becomes an update, for every parameter of a module.
//!
//! A configuration becomes one `ModuleOptimizer` of Burn with a group for each combination of learning rate, weight
//! decay and kind of update. The schedule's learning rate is passed at each step; groups scale it.

pub mod adafactor;
pub mod adam;
pub mod ademamix;
pub mod adopt;
mod cautious;
mod device_decided;
mod eigenbasis;
mod elementwise;
mod factors;
pub mod groups;
mod kinds;
pub mod lamb;
pub mod lion;
mod means;
mod moments;
pub mod muon;
pub mod nadam;
pub mod radam;
mod scaled;
pub mod schedule_free;
pub mod sgd;
pub mod soap;
mod state;

use super::parameters::{self, Parameter};
use crate::error::{Error, Result};
pub use adafactor::AdafactorConfig;
pub use adam::{AdamConfig, AdamwConfig};
pub use ademamix::AdemamixConfig;
pub use adopt::AdoptConfig;
use burn::module::Module;
use burn::optim::ModuleOptimizer;
pub use factors::{Factors, FactorsByRole};
use groups::{Cluster, CommonKeys};
pub use groups::{Decay, GroupConfig, is_matrix};
pub use kinds::KINDS;
pub use lamb::LambConfig;
pub use lion::LionConfig;
pub use moments::{Moments, StateSize, UpdatedWhole};
pub use muon::MuonConfig;
pub use nadam::NadamConfig;
pub use radam::RadamConfig;
use scaled::add_cluster;
pub use schedule_free::{Averaging, ScheduleFreeConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use sgd::SgdConfig;
pub use soap::SoapConfig;
use std::ops::RangeInclusive;

/// `[optimizer]`: how parameters are updated from their gradients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OptimizerConfig {
    /// Adam with decoupled weight decay.
    Adamw(AdamwConfig),
    /// Adam.
    Adam(AdamConfig),
    /// Gradient descent with momentum.
    Sgd(SgdConfig),
    /// Sign momentum.
    Lion(LionConfig),
    /// Factored second moments.
    Adafactor(AdafactorConfig),
    /// Layer-wise adaptive moments.
    Lamb(LambConfig),
    /// Orthogonalised momentum.
    Muon(MuonConfig),
    /// Adam that begins as gradient descent.
    Radam(RadamConfig),
    /// Adam with Nesterov's momentum.
    Nadam(NadamConfig),
    /// Adam that divides a gradient by the second moment of earlier gradients only.
    Adopt(AdoptConfig),
    /// Adam with a fast and a slow moving average of gradients.
    Ademamix(AdemamixConfig),
    /// AdamW without a schedule; evaluations use its average of the weights.
    ScheduleFree(ScheduleFreeConfig),
    /// Adam in the eigenbasis of Shampoo's preconditioners.
    Soap(SoapConfig),
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self::Adamw(AdamwConfig::default())
    }
}

impl OptimizerConfig {
    /// Returns the learning rate, which the schedule scales.
    pub fn lr(&self) -> f64 {
        match self {
            Self::Adamw(c) => c.lr,
            Self::Adam(c) => c.lr,
            Self::Sgd(c) => c.lr,
            Self::Lion(c) => c.lr,
            Self::Adafactor(c) => c.lr,
            Self::Lamb(c) => c.lr,
            Self::Muon(c) => c.lr,
            Self::Radam(c) => c.lr,
            Self::Nadam(c) => c.lr,
            Self::Adopt(c) => c.lr,
            Self::Ademamix(c) => c.lr,
            Self::ScheduleFree(c) => c.lr,
            Self::Soap(c) => c.lr,
        }
    }

    /// Returns invalid values, each as a sentence about keys of `[optimizer]`.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = groups::faults(self.common());
        let none: &[f64] = &[];
        let (betas, eps, momentum) = match self {
            Self::Adamw(c) => (&c.betas[..], Some(c.eps), None),
            Self::Adam(c) => (&c.betas[..], Some(c.eps), None),
            Self::Lamb(c) => (&c.betas[..], Some(c.eps), None),
            Self::Lion(c) => (&c.betas[..], None, None),
            Self::Muon(c) => (&c.adamw_betas[..], Some(c.adamw_eps), Some(c.momentum)),
            Self::Sgd(c) => (none, None, Some(c.momentum)),
            Self::Adafactor(_) => (none, None, None),
            Self::Radam(c) => (&c.betas[..], Some(c.eps), None),
            Self::Nadam(c) => (&c.betas[..], Some(c.eps), None),
            Self::Adopt(c) => (&c.betas[..], Some(c.eps), None),
            Self::Ademamix(c) => (&c.betas[..], Some(c.eps), None),
            Self::ScheduleFree(c) => (&c.betas[..], Some(c.eps), None),
            Self::Soap(c) => (&c.betas[..], Some(c.eps), None),
        };
        match self {
            Self::Sgd(c) => c.faults(&mut faults),
            Self::Adafactor(c) => c.faults(&mut faults),
            Self::Muon(c) => c.faults(&mut faults),
            Self::Radam(c) => c.faults(&mut faults),
            Self::Nadam(c) => c.faults(&mut faults),
            Self::Ademamix(c) => c.faults(&mut faults),
            Self::Soap(c) => c.faults(&mut faults),
            _ => {}
        }
        faults.extend(positive_fault("lr", self.lr()));
        let (name, eps_name) = match self {
            Self::Muon(_) => ("adamw_betas", "adamw_eps"),
            _ => ("betas", "eps"),
        };
        let betas = betas.iter().map(|beta| (name, *beta));
        for (key, decay) in betas.chain(momentum.map(|m| ("momentum", m))) {
            if !(0.0..1.0).contains(&decay) {
                faults.push(format!(
                    "{key} has the value {decay}, which is not in [0, 1)"
                ));
            }
        }
        faults.extend(eps.and_then(|eps| positive_fault(eps_name, eps)));
        faults
    }

    /// Returns how the parameters are updated, as `check` and `plan` show it.
    ///
    /// # Errors
    /// If a group's pattern matches no parameter's path.
    pub fn clusters(&self, parameters: &[Parameter]) -> Result<Vec<Cluster>> {
        let mut clusters = groups::resolve(self.common(), parameters)?;
        if let Self::Muon(c) = self {
            for cluster in clusters.iter_mut().filter(|c| !c.settings.matrix) {
                cluster.settings.lr_scale *= c.adamw_lr / c.lr;
            }
        }
        Ok(clusters)
    }

    /// Returns the path pattern of the matrices that the optimizer orthogonalises; `None` if it updates all parameters alike.
    pub fn matrices(&self) -> Option<&str> {
        self.common().matrices
    }

    fn common(&self) -> CommonKeys<'_> {
        match self {
            Self::Adamw(c) => c.common(),
            Self::Adam(c) => c.common(),
            Self::Sgd(c) => c.common(),
            Self::Lion(c) => c.common(),
            Self::Adafactor(c) => c.common(),
            Self::Lamb(c) => c.common(),
            Self::Muon(c) => c.common(),
            Self::Radam(c) => c.common(),
            Self::Nadam(c) => c.common(),
            Self::Adopt(c) => c.common(),
            Self::Ademamix(c) => c.common(),
            Self::ScheduleFree(c) => c.common(),
            Self::Soap(c) => c.common(),
        }
    }

    /// Returns how the optimizer averages the weights that evaluations use, after `warmup_steps` steps of warmup, if it does.
    pub fn averaging(&self, warmup_steps: u64) -> Option<Averaging> {
        match self {
            Self::ScheduleFree(c) => Some(c.averaging(warmup_steps)),
            _ => None,
        }
    }

    /// Adds the update of one cluster, which begins with `warmup_steps` steps of warmup.
    fn add(
        &self,
        to: Option<ModuleOptimizer>,
        cluster: Cluster,
        warmup_steps: u64,
    ) -> ModuleOptimizer {
        let decay = cluster.settings.weight_decay;
        match self {
            Self::Adamw(c) if c.cautious => add_cluster(to, cluster, c.cautious_step(decay)),
            Self::Adamw(c) => add_cluster(to, cluster, c.step(decay)),
            Self::Adam(c) => add_cluster(to, cluster, c.step(decay)),
            Self::Sgd(c) => add_cluster(to, cluster, c.step(decay)),
            Self::Lion(c) if c.cautious => add_cluster(to, cluster, c.cautious_step(decay)),
            Self::Lion(c) => add_cluster(to, cluster, c.step(decay)),
            Self::Adafactor(c) => add_cluster(to, cluster, c.step(decay)),
            Self::Lamb(c) => add_cluster(to, cluster, c.step(decay)),
            Self::Muon(c) if cluster.settings.matrix => add_cluster(to, cluster, c.step(decay)),
            Self::Muon(c) => add_cluster(to, cluster, c.adamw(decay)),
            Self::Radam(c) => add_cluster(to, cluster, c.step(decay)),
            Self::Nadam(c) => add_cluster(to, cluster, c.step(decay)),
            Self::Adopt(c) => add_cluster(to, cluster, c.step(decay)),
            Self::Ademamix(c) => add_cluster(to, cluster, c.step(decay)),
            Self::ScheduleFree(c) => add_cluster(to, cluster, c.step(decay, warmup_steps)),
            Self::Soap(c) => add_cluster(to, cluster, c.step(decay)),
        }
    }
}

/// Builds the optimizer of a model whose parameters have their final ids
/// ([`name_parameters`](parameters::name_parameters)).
///
/// # Errors
/// If a group's pattern matches no parameter's path, or the model has no parameters.
pub fn build<M: Module>(config: &OptimizerConfig, model: &M) -> Result<ModuleOptimizer> {
    build_scaled(config, &parameters::list(model), None, 0)
}

/// [`build`] for some of a model's parameters, with further factors on the learning rate and weight decay of each.
/// `warmup_steps` is for optimizers without a schedule.
///
/// # Errors
/// As [`build`].
pub fn build_scaled(
    config: &OptimizerConfig,
    parameters: &[Parameter],
    by_role: Option<FactorsByRole>,
    warmup_steps: u64,
) -> Result<ModuleOptimizer> {
    let clusters = config.clusters(parameters)?;
    let clusters = match by_role {
        Some(by_role) => factors::apply_factors(clusters, by_role),
        None => clusters,
    };
    clusters
        .into_iter()
        .fold(None, |optimizer, cluster| {
            Some(config.add(optimizer, cluster, warmup_steps))
        })
        .ok_or_else(|| Error::run("the model has no parameters to train"))
}

/// Range of the numbers that steps are computed with: beyond it a 32-bit number becomes 0 or infinite, and weights
/// become NaN. The schema has the same bounds.
const BOUNDS: RangeInclusive<f64> = 1e-37..=1e37;

/// Returns the fault of a number that must be positive as a 32-bit number.
fn positive_fault(key: &str, value: f64) -> Option<String> {
    match value > 0.0 && value.is_finite() {
        false => Some(format!("{key} = {value} is not a positive number")),
        true if BOUNDS.contains(&value) => None,
        true => Some(format!(
            "{key} = {value:e} is not between {:e} and {:e}: as a 32-bit number it is 0 or infinite, or nearly so",
            BOUNDS.start(),
            BOUNDS.end()
        )),
    }
}

/// Returns the fault of a number that must be at least 0 and fit in 32 bits.
fn negative_fault(key: &str, value: f64) -> Option<String> {
    let most = BOUNDS.end();
    let bad = !(0.0..=*most).contains(&value);
    bad.then(|| format!("{key} = {value:?} is not between 0 and {most:e}"))
}
