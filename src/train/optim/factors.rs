//! Factors on a parameter's learning rate and weight decay, by its role.

use super::Cluster;
use crate::nn::role::Role;

/// Factors on the learning rate and weight decay of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Factor on the learning rate of the schedule.
    pub lr: f64,
    /// Factor on its weight decay, which is further multiplied by the learning rate.
    pub weight_decay: f64,
}

impl Factors {
    /// Scales the learning rate, and thereby also the step of the weight decay.
    pub fn lr_only(lr: f64) -> Self {
        Self {
            lr,
            weight_decay: 1.0,
        }
    }

    /// Multiplies two sets of factors.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self {
            lr: self.lr * other.lr,
            weight_decay: self.weight_decay * other.weight_decay,
        }
    }
}

/// Function from a parameter's role to its factors.
pub type FactorsByRole<'a> = Box<dyn Fn(Role) -> Factors + 'a>;

/// Applies the factors and regroups the clusters so that all members of one have equal settings.
pub(super) fn apply_factors(clusters: Vec<Cluster>, by_role: FactorsByRole) -> Vec<Cluster> {
    let mut scaled: Vec<Cluster> = Vec::new();
    for cluster in clusters {
        let paths = cluster.paths.into_iter().zip(cluster.roles);
        for (id, (path, role)) in cluster.ids.into_iter().zip(paths) {
            let mut settings = cluster.settings;
            let factors = by_role(role);
            settings.lr_scale *= factors.lr;
            settings.weight_decay *= factors.weight_decay;
            match scaled.iter_mut().find(|c| c.settings == settings) {
                Some(cluster) => {
                    cluster.ids.push(id);
                    cluster.paths.push(path);
                    cluster.roles.push(role);
                }
                None => scaled.push(Cluster {
                    settings,
                    ids: vec![id],
                    paths: vec![path],
                    roles: vec![role],
                }),
            }
        }
    }
    scaled
}
