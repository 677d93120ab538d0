//! Attention rollout: how much of each input position reaches each output position, if a layer passes on half of its
//! input and half of what attention mixes (Abnar and Zuidema 2020, section 3; for images Dosovitskiy et al. 2021,
//! appendix D.7).
//!
//! With A_l the mean of layer l's attention weights over its heads, R = ½(A_L + I) · … · ½(A_1 + I).

use super::weights::Weights;
use crate::nn::record::AttentionKey;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A matrix of shares `[positions, positions]`: row i holds the share of each input position in output position i.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    /// Number of positions.
    pub positions: usize,
    /// Shares, row by row.
    pub shares: Vec<f64>,
}

impl Rollout {
    /// Returns the identity: every position depends only on itself.
    fn identity(positions: usize) -> Self {
        let mut shares = vec![0.0; positions * positions];
        shares
            .iter_mut()
            .step_by(positions + 1)
            .for_each(|x| *x = 1.0);
        Self { positions, shares }
    }

    /// Returns the shares of one output position.
    pub fn row(&self, position: usize) -> &[f64] {
        &self.shares[position * self.positions..][..self.positions]
    }

    /// Returns the mean of the shares over some output positions.
    pub fn mean(&self, positions: std::ops::Range<usize>) -> Vec<f64> {
        let count = positions.len().max(1) as f64;
        let mut mean = vec![0.0; self.positions];
        for position in positions {
            let row = self.row(position).iter();
            mean.iter_mut()
                .zip(row)
                .for_each(|(sum, x)| *sum += x / count);
        }
        mean
    }

    /// Applies one more layer.
    fn then(&self, layer: &Weights) -> Self {
        let n = self.positions;
        let mean = layer.mean();
        let mut shares = vec![0.0; n * n];
        let rows = shares.par_chunks_mut(n.max(1)).enumerate();
        rows.for_each(|(query, out)| {
            let mut add = |share: f64, row: &[f64]| {
                let both = out.iter_mut().zip(row);
                both.for_each(|(out, x)| *out += share * x);
            };
            add(0.5, self.row(query));
            let weights = mean[query * n..][..n].iter().enumerate();
            for (key, weight) in weights.filter(|(_, weight)| **weight != 0.0) {
                add(0.5 * weight, self.row(key));
            }
        });
        Self {
            positions: n,
            shares,
        }
    }
}

/// Computes the rollout of each network with self-attention, by name; `Err` with the layer whose keys are not the
/// network's positions.
pub fn rollouts(
    example: &BTreeMap<AttentionKey, Weights>,
) -> BTreeMap<String, std::result::Result<Rollout, usize>> {
    let mut all: BTreeMap<String, std::result::Result<Rollout, usize>> = BTreeMap::new();
    for (at, weights) in example.iter().filter(|(at, _)| !at.is_cross) {
        let so_far = all
            .remove(&at.network)
            .unwrap_or_else(|| Ok(Rollout::identity(weights.queries)));
        let fits = |so_far: &Rollout| weights.is_square() && weights.queries == so_far.positions;
        let next = so_far.and_then(|so_far| match fits(&so_far) {
            true => Ok(so_far.then(weights)),
            false => Err(at.layer),
        });
        all.insert(at.network.clone(), next);
    }
    all
}
