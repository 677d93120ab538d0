//! Factors of a parameter's own on its learning rate and its weight decay, by its role.

use super::Cluster;
use crate::nn::role::Role;

/// Factors of a parameter's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// On the learning rate of the schedule.
    pub lr: f64,
    /// On its weight decay, which that learning rate multiplies again.
    pub weight_decay: f64,
}

impl Factors {
    /// Another learning rate, which the weight decay follows.
    pub fn of_rate(lr: f64) -> Self {
        Self {
            lr,
            weight_decay: 1.0,
        }
    }

    /// Both of them.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self {
            lr: self.lr * other.lr,
            weight_decay: self.weight_decay * other.weight_decay,
        }
    }
}

/// The factors of a parameter by its role.
pub type ByRole<'a> = Box<dyn Fn(Role) -> Factors + 'a>;

/// Clusters whose members have the same factors on their learning rate and their weight decay.
pub(super) fn scaled(clusters: Vec<Cluster>, by_role: ByRole) -> Vec<Cluster> {
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
