//! Tokens in clusters by frequency, where each cluster has its own vector width (Grave et al. 2017; Baevski and Auli 2019; Dai et
//! al. 2019, Transformer-XL).
//!
//! `cutoffs` c₁ < c₂ < … cut the ids, which are sorted by frequency, into the clusters 0..c₁, c₁..c₂, …, c_n..V. The vectors of
//! cluster i have ⌊d_embed / div_valⁱ⌋ elements and a projection P_i to d_model: `x = P_i·E_i[token]`. With div_val = 1 all
//! clusters share one projection, and there is none if d_embed equals d_model. `adaptive_embedding` computes the vectors,
//! `adaptive_head` the scores.

use super::TokenTables;
use super::adaptive_embedding::{AdaptiveEmbedding, Projection};
use super::adaptive_head::AdaptiveHead;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::nn::Kind;
use crate::nn::init::{Init, MatrixRole};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "adaptive",
    summary: "clusters of tokens by frequency: narrower vectors and separate scores for rare tokens",
    source: "Grave et al. 2017; Baevski and Auli 2019; Dai et al. 2019",
    example: "{ kind = \"adaptive\", cutoffs = [20, 40], div_val = 4, tie_projs = \"tails\" }",
};

/// Which projections the scores share with the input embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TieProjs {
    /// No projections.
    #[default]
    None,
    /// The projections of all clusters except the first, as in Transformer-XL on WikiText-103.
    Tails,
    /// The projections of all clusters.
    All,
}

/// Settings of an adaptive vocabulary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveConfig {
    /// The first id of each cluster after the first one, ascending.
    /// Source: Grave et al. 2017, section 4; Baevski and Auli 2019, section 3.
    pub cutoffs: Vec<usize>,
    /// Width of the vectors of the first cluster; d_model when absent.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_embed: Option<usize>,
    /// Factor by which the vectors of each cluster are narrower than those of the one before it.
    /// Source: Baevski and Auli 2019, section 3.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub div_val: usize,
    /// Which projections the scores share with the input embeddings. Source: Dai et al. 2019, released code.
    pub tie_projs: TieProjs,
    /// Whether the scores of tokens and clusters have biases.
    pub bias: bool,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        Self {
            cutoffs: Vec::new(),
            d_embed: None,
            div_val: 1,
            tie_projs: TieProjs::None,
            bias: true,
        }
    }
}

/// A range of ids whose vectors have the same width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// First id of the cluster.
    pub start: usize,
    /// Number of ids in the cluster.
    pub size: usize,
    /// Width of a vector.
    pub width: usize,
}

/// The projections that a config implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProjectionLayout {
    None,
    Shared,
    PerCluster,
}

impl AdaptiveConfig {
    pub(super) fn faults(&self, d_model: usize, at: &mut TableFaults) {
        let rising = self.cutoffs.windows(2).all(|pair| pair[0] < pair[1]);
        if self.cutoffs.first().is_none_or(|first| *first == 0) || !rising {
            at.fault(
                &["cutoffs", "kind"],
                format!(
                    "cutoffs = {:?} must be one or more ids above 0, each above the one before it, for example [2000, 10000]",
                    self.cutoffs
                ),
            );
        }
        let d_embed = self.d_embed.unwrap_or(d_model);
        // Without the setting it is d_model, whose fault is reported elsewhere.
        let wide = match self.d_embed {
            Some(width) => at.count("d_embed", width, MAX_WIDTH),
            None => (1..=MAX_WIDTH).contains(&d_model),
        };
        if at.count("div_val", self.div_val, MAX_WIDTH)
            && wide
            && self.cluster_width(d_model, self.cutoffs.len()) == 0
        {
            at.fault(
                &["div_val", "cutoffs"],
                format!(
                    "div_val = {} leaves no elements for the vectors of the last of {} clusters: {d_embed} / {}^{} is \
                     below 1; use a smaller div_val or fewer cutoffs",
                    self.div_val,
                    self.cutoffs.len() + 1,
                    self.div_val,
                    self.cutoffs.len()
                ),
            );
        }
        if self.tie_projs != TieProjs::None && self.projections(d_model) == ProjectionLayout::None {
            at.fault(
                &["tie_projs", "div_val"],
                "tie_projs has no effect: with div_val = 1 and vectors of d_model elements there are no projections; remove it",
            );
        }
    }

    pub(super) fn size_fault(&self, vocab: usize) -> Option<String> {
        let last = self.cutoffs.last().filter(|last| **last >= vocab)?;
        Some(format!(
            "[model.vocabulary] cutoffs = {:?}: the last one must be below the {vocab} tokens of the vocabulary, which has \
             no token {last}",
            self.cutoffs
        ))
    }

    /// Returns ⌊d_embed / div_valⁱ⌋.
    fn cluster_width(&self, d_model: usize, i: usize) -> usize {
        let by = self
            .div_val
            .saturating_pow(u32::try_from(i).unwrap_or(u32::MAX));
        self.d_embed.unwrap_or(d_model) / by.max(1)
    }

    /// Returns the clusters of a vocabulary.
    pub fn clusters(&self, vocab: usize, d_model: usize) -> Vec<Cluster> {
        let starts = [0].into_iter().chain(self.cutoffs.iter().copied());
        let ends = self.cutoffs.iter().copied().chain([vocab]);
        let bounds = starts.zip(ends).enumerate();
        let cluster = |(i, (start, end)): (usize, (usize, usize))| Cluster {
            start: start.min(vocab),
            size: end.min(vocab).saturating_sub(start),
            width: self.cluster_width(d_model, i).max(1),
        };
        bounds.map(cluster).collect()
    }

    fn projections(&self, d_model: usize) -> ProjectionLayout {
        match self.div_val {
            1 if self.d_embed.is_none_or(|d| d == d_model) => ProjectionLayout::None,
            1 => ProjectionLayout::Shared,
            _ => ProjectionLayout::PerCluster,
        }
    }

    /// Whether the scores of cluster i use the projection of the input embeddings.
    fn ties_projection(&self, i: usize) -> bool {
        match self.tie_projs {
            TieProjs::None => false,
            TieProjs::Tails => i > 0,
            TieProjs::All => true,
        }
    }

    pub(super) fn embedding(&self, of: &TokenTables, init: &Init) -> AdaptiveEmbedding {
        let clusters = self.clusters(of.vocab, of.d_model);
        let projected = match self.projections(of.d_model) {
            ProjectionLayout::None => 0,
            ProjectionLayout::Shared => 1,
            ProjectionLayout::PerCluster => clusters.len(),
        };
        let table = |c: &Cluster| init.table(c.size, c.width);
        AdaptiveEmbedding {
            tables: clusters.iter().map(table).collect(),
            projections: clusters[..projected]
                .iter()
                .map(|c| Projection::new(c.width, of.d_model, init))
                .collect(),
            norm: of.norm.map(|norm| norm.init(of.d_model, init)),
            starts: clusters.iter().map(|c| c.start).collect(),
            scale: of.scale,
        }
    }

    pub(super) fn head(&self, of: &TokenTables, init: &Init) -> AdaptiveHead {
        let clusters = self.clusters(of.vocab, of.d_model);
        let (first, tails) = (clusters[0].width, clusters.len() - 1);
        let projected = self.projections(of.d_model) != ProjectionLayout::None;
        let own = |(i, c): (usize, &Cluster)| {
            let own = projected && !self.ties_projection(i);
            own.then(|| Projection::new(c.width, of.d_model, init))
        };
        let table = |c: &Cluster| init.linear(c.width, c.size, MatrixRole::Head);
        let biases = if self.bias { &clusters[..] } else { &[] };
        AdaptiveHead {
            clusters: init.linear(first, tails, MatrixRole::Head),
            cluster_bias: self.bias.then(|| init.vector(tails, 0.0)),
            tables: match of.tied {
                true => Vec::new(),
                false => clusters.iter().map(table).collect(),
            },
            biases: biases.iter().map(|c| init.vector(c.size, 0.0)).collect(),
            projections: clusters.iter().enumerate().map(own).collect(),
        }
    }

    /// Returns the multiplications for a token that is embedded and for one that is scored. The cluster of a token depends on the
    /// text: token frequencies are assumed to follow Zipf's law, with the frequency of id n proportional to 1/(n + 1).
    pub fn products(&self, vocab: usize, d_model: usize) -> [f64; 2] {
        let clusters = self.clusters(vocab, d_model);
        let projected = self.projections(d_model) != ProjectionLayout::None;
        let project = |c: &Cluster| {
            if projected {
                (c.width * d_model) as f64
            } else {
                0.0
            }
        };
        let (mut read, mut scored) = (0.0, 0.0);
        for (i, c) in clusters.iter().enumerate() {
            let share = token_share(c, vocab);
            read += share * project(c);
            let own = project(c) + c.width as f64 * c.size as f64;
            scored += match i {
                0 => own + (c.width * (clusters.len() - 1)) as f64,
                _ => share * own,
            };
        }
        [read, scored]
    }
}

/// Returns the share of tokens in a cluster if frequencies follow Zipf's law.
fn token_share(cluster: &Cluster, vocab: usize) -> f64 {
    // Harmonic numbers by their asymptotic series, exact to 1e-4 for n ≥ 1.
    let harmonic = |n: usize| match n {
        0 => 0.0,
        n => (n as f64).ln() + 0.577_215_664_9 + 0.5 / n as f64 - 1.0 / (12.0 * (n * n) as f64),
    };
    let of = harmonic(cluster.start + cluster.size) - harmonic(cluster.start);
    of / harmonic(vocab.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> AdaptiveConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn clusters_cut_the_vocabulary() {
        let config = config("cutoffs = [20, 40]\nd_embed = 16\ndiv_val = 4");
        let clusters = config.clusters(100, 32);
        let found: Vec<_> = clusters
            .iter()
            .map(|c| (c.start, c.size, c.width))
            .collect();
        assert_eq!(found, [(0, 20, 16), (20, 20, 4), (40, 60, 1)]);
        let shares: f64 = clusters.iter().map(|c| token_share(c, 100)).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        // H(20) / H(100)
        assert!((token_share(&clusters[0], 100) - 3.597_740 / 5.187_378).abs() < 1e-4);
    }

    #[test]
    fn a_scored_token_costs_the_head_and_its_share_of_the_tails() {
        let plain = config("cutoffs = [20, 40]");
        let [read, scored] = plain.products(100, 32);
        let clusters = plain.clusters(100, 32);
        let tails = clusters[1..].iter();
        let tails: f64 = tails
            .map(|c| token_share(c, 100) * 32.0 * c.size as f64)
            .sum();
        assert_eq!(read, 0.0);
        assert!((scored - (32.0 * 22.0 + tails)).abs() < 1e-6);
        let narrow = config("cutoffs = [20, 40]\ndiv_val = 2");
        assert!(narrow.products(100, 32)[0] > 0.0);
    }
}
