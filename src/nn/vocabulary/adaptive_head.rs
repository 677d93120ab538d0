//! Adaptive softmax: the scores of tokens in clusters (Grave et al. 2017, "Efficient softmax approximation for GPUs";
//! `ProjectedAdaptiveLogSoftmax` of Dai et al. 2019, Transformer-XL, released code).
//!
//! The head scores the tokens of the first cluster and, with one score each, the other clusters (the tails): log p(w) = log
//! `softmax(head)[w]` for a token of the first cluster, and log p(w) = `log softmax(head)[tail i] + log softmax(tail i)[w]` for a
//! token of tail i, whose scores are E_i·P_iᵀ·h + b_i. In training a tail is computed only for positions whose target is in it,
//! through the tiled vocabulary loss.

use super::adaptive_embedding::{AdaptiveEmbedding, Projection, indices};
use crate::kernel::{self, Head, HeadLoss, IGNORE_INDEX};
use crate::nn::role::{BIAS, Roles, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData, activation};

/// Roles of the parameters of [`AdaptiveHead`].
pub const ROLES: Roles = Roles::new(
    "AdaptiveHead",
    &[
        ("clusters", WEIGHT),
        ("cluster_bias", BIAS),
        ("tables", WEIGHT),
        ("biases", BIAS),
    ],
);

/// The parameters of the scores other than the input embeddings.
#[derive(Module, Debug)]
pub struct AdaptiveHead {
    /// Weights of the scores of the tails, `[tails, width of the first cluster]`.
    pub clusters: Param<Tensor<2>>,
    /// Biases of the scores of the tails, `[tails]`.
    pub cluster_bias: Option<Param<Tensor<1>>>,
    /// Untied tables of each cluster, `[size, width]`; empty if the tables are those of the input embeddings.
    pub tables: Vec<Param<Tensor<2>>>,
    /// Biases of each cluster, `[size]`; empty if scores have none.
    pub biases: Vec<Param<Tensor<1>>>,
    /// The separate projection of each cluster, if it has one.
    pub projections: Vec<Option<Projection>>,
}

/// Adaptive softmax over hidden states.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveSoftmax<'a> {
    /// The parameters of the head.
    pub head: &'a AdaptiveHead,
    /// The input embeddings.
    pub embedding: &'a AdaptiveEmbedding,
}

/// Maximum number of scores in memory at a time when those of the whole vocabulary are computed.
const MAX_SCORES: usize = 1 << 21;

impl AdaptiveSoftmax<'_> {
    /// Computes the log-probabilities of the vocabulary `[batch, seq, vocab]` from hidden states.
    pub fn log_probabilities(&self, hidden: Tensor<3>) -> Tensor<3> {
        let (batch, seq) = (hidden.dims()[0], hidden.dims()[1]);
        let log = |scores: Tensor<3>| activation::log_softmax(kernel::to_f32(scores), 2);
        let x = self.project(0, hidden.clone());
        let head = [self.cluster_head(0), self.tail_head()]
            .map(|h| kernel::linear(x.clone(), h.weight, h.bias));
        let head = log(Tensor::cat(head.into(), 2));
        let first = self.embedding.size(0);
        let mut parts = vec![head.clone().narrow(2, 0, first)];
        for i in 1..self.embedding.tables.len() {
            let tail = self.cluster_head(i);
            let tail = kernel::linear(self.project(i, hidden.clone()), tail.weight, tail.bias);
            let chosen = head.clone().narrow(2, first + i - 1, 1);
            let chosen = chosen.expand([batch, seq, self.embedding.size(i)]);
            parts.push(log(tail) + chosen);
        }
        Tensor::cat(parts, 2)
    }

    /// Computes −Σ log p(target) over hidden states `[n, d_model]` whose targets `[n]` are ids or [`IGNORE_INDEX`]. Whether each
    /// target is the likeliest token is computed only if `tells_hits` is set, since it requires the scores of all tokens;
    /// otherwise it is zero everywhere.
    pub fn loss(&self, hidden: Tensor<2>, targets: Tensor<1, Int>, tells_hits: bool) -> HeadLoss {
        let ([n, d], device) = (hidden.dims(), hidden.device());
        let ids: Vec<i64> = kernel::read(targets.clone()).iter::<i64>().collect();
        let first = self.embedding.size(0);
        let in_head = |id: &i64| match self.embedding.cluster_of(*id) {
            _ if *id < 0 => IGNORE_INDEX as i32,
            0 => *id as i32,
            tail => (first + tail - 1) as i32,
        };
        let vector = |values: Vec<i32>| {
            let count = values.len();
            Tensor::<1, Int>::from_data(TensorData::new(values, [count]), &device)
        };
        let mut sum = self.head_loss(hidden.clone(), vector(ids.iter().map(in_head).collect()));
        for i in 1..self.embedding.tables.len() {
            let start = self.embedding.start(i) as i64;
            let of_tail = |(place, id): (usize, &i64)| {
                let own = *id >= 0 && self.embedding.cluster_of(*id) == i;
                own.then_some((place as i32, (*id - start) as i32))
            };
            let own = ids.iter().enumerate().filter_map(of_tail);
            let (mut places, mut own): (Vec<i32>, Vec<i32>) = own.unzip();
            if places.is_empty() {
                // No position has a target in this tail: its parameters get zero gradients.
                (places, own) = (vec![0], vec![IGNORE_INDEX as i32]);
            }
            let x = kernel::embedding(hidden.clone(), indices(places, &device));
            let x = self.project(i, x);
            let [_, count, width] = x.dims();
            let x = x.reshape([count, width]);
            sum = sum + kernel::head_loss(x, self.cluster_head(i), vector(own), 0.0).sum;
        }
        let right = match tells_hits {
            true => self.hits(hidden.detach().reshape([1, n, d]), targets),
            false => Tensor::zeros([n], &device),
        };
        HeadLoss {
            sum,
            is_correct: right,
        }
    }

    /// Computes the loss of tokens of the first cluster and of the choice among tails.
    fn head_loss(&self, hidden: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let [n, d] = hidden.dims();
        let x = self.project(0, hidden.reshape([1, n, d]));
        let width = x.dims()[2];
        let (words, tails) = (self.cluster_head(0), self.tail_head());
        let bias = words.bias.zip(tails.bias);
        let head = Head {
            weight: Tensor::cat(vec![words.weight, tails.weight], 0),
            bias: bias.map(|(words, tails)| Tensor::cat(vec![words, tails], 0)),
        };
        kernel::head_loss(x.reshape([n, width]), head, targets, 0.0).sum
    }

    /// Returns, for hidden states `[1, n, d_model]`, 1 if the target is the likeliest token, else 0, as `[n]`.
    fn hits(&self, hidden: Tensor<3>, targets: Tensor<1, Int>) -> Tensor<1> {
        let [_, n, d] = hidden.dims();
        let tile = (MAX_SCORES / self.embedding.vocab_size().max(1)).max(1);
        let tiles = (0..n).step_by(tile).map(|first| {
            let count = tile.min(n - first);
            let rows = hidden.clone().slice([0..1, first..first + count, 0..d]);
            let best = self.log_probabilities(rows).argmax(2).reshape([count]);
            best.equal(targets.clone().narrow(0, first, count)).float()
        });
        kernel::to_f32(Tensor::cat(tiles.collect(), 0))
    }

    /// Projects hidden states to the width of a cluster's vectors.
    fn project(&self, cluster: usize, hidden: Tensor<3>) -> Tensor<3> {
        let own = self.head.projections[cluster].as_ref();
        match own.or(self.embedding.projection(cluster)) {
            Some(projection) => projection.onto_vectors(hidden),
            None => hidden,
        }
    }

    /// Returns the head that scores the tokens of a cluster from projected hidden states.
    fn cluster_head(&self, cluster: usize) -> Head {
        let own = self.head.tables.get(cluster);
        Head {
            weight: own.unwrap_or(&self.embedding.tables[cluster]).val(),
            bias: self.head.biases.get(cluster).map(Param::val),
        }
    }

    /// Returns the head that scores the tails.
    fn tail_head(&self) -> Head {
        Head {
            weight: self.head.clusters.val(),
            bias: self.head.cluster_bias.as_ref().map(Param::val),
        }
    }
}
