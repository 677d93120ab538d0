//! Adaptive inputs: a table for each cluster of tokens, and projections of their vectors to the width of the residual stream
//! (Baevski and Auli 2019, section 3; `AdaptiveEmbedding` of Transformer-XL's released code). `adaptive` has the formula.

use crate::kernel;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::norm::Norm;
use crate::nn::role::{Roles, TABLE, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Roles of the parameters of [`Projection`].
pub const PROJECTION_ROLES: Roles = Roles::new("Projection", &[("weight", WEIGHT)]);

/// A matrix between the vectors of a cluster and the residual stream, used in both directions.
#[derive(Module, Debug)]
pub struct Projection {
    /// `[d_model, width]`.
    pub weight: Param<Tensor<2>>,
}

impl Projection {
    /// Builds a projection of vectors of `width` elements.
    pub(super) fn new(width: usize, d_model: usize, init: &Init) -> Self {
        Self {
            weight: init.linear(width, d_model, MatrixRole::Inner),
        }
    }

    /// Projects vectors `[batch, seq, width]` to `[batch, seq, d_model]`.
    pub fn onto_stream(&self, x: Tensor<3>) -> Tensor<3> {
        kernel::linear(x, self.weight.val(), None)
    }

    /// Projects hidden states `[batch, seq, d_model]` to `[batch, seq, width]` by the transposed matrix.
    pub fn onto_vectors(&self, x: Tensor<3>) -> Tensor<3> {
        kernel::linear(x, self.weight.val().transpose(), None)
    }
}

/// Roles of the parameters of [`AdaptiveEmbedding`].
pub const ROLES: Roles = Roles::new("AdaptiveEmbedding", &[("tables", TABLE)]);

/// A table for each cluster, with projections to the width of the residual stream.
#[derive(Module, Debug)]
pub struct AdaptiveEmbedding {
    /// The table of each cluster, `[size, width]`.
    pub tables: Vec<Param<Tensor<2>>>,
    /// Projections: none, one for all clusters, or one for each.
    pub projections: Vec<Projection>,
    /// Norm on the projected vectors.
    pub norm: Option<Norm>,
    /// The first id of each cluster.
    pub(super) starts: Vec<usize>,
    pub(super) scale: f64,
}

impl AdaptiveEmbedding {
    /// Looks up the vectors of `ids` `[batch, seq]` as `[batch, seq, d_model]`. The ids of a cluster are looked up and projected
    /// together. A cluster without any looks up its first id, which no position uses, so that every table has a gradient.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let ([batch, seq], device) = (ids.dims(), ids.device());
        let ids: Vec<i64> = kernel::read(ids).iter::<i64>().collect();
        let mut places = vec![0i32; ids.len()];
        let (mut parts, mut rows) = (Vec::new(), 0);
        for (i, table) in self.tables.iter().enumerate() {
            let mut own: Vec<i32> = Vec::new();
            for (place, id) in places.iter_mut().zip(&ids) {
                if self.cluster_of(*id) == i {
                    *place = (rows + own.len()) as i32;
                    own.push((*id - self.starts[i] as i64) as i32);
                }
            }
            if own.is_empty() {
                own.push(0);
            }
            rows += own.len();
            let x = kernel::embedding(table.val(), indices(own, &device));
            parts.push(match self.projection(i) {
                Some(projection) => projection.onto_stream(x),
                None => x,
            });
        }
        let x = Tensor::cat(parts, 1);
        let d_model = x.dims()[2];
        let places = Tensor::from_data(TensorData::new(places, [batch, seq]), &device);
        let x = kernel::embedding(x.reshape([rows, d_model]), places);
        let x = if self.scale == 1.0 { x } else { x * self.scale };
        match &self.norm {
            Some(norm) => norm.forward(x),
            None => x,
        }
    }

    /// Returns the cluster of an id.
    pub(super) fn cluster_of(&self, id: i64) -> usize {
        let before = self.starts[1..].iter();
        before.take_while(|start| id >= **start as i64).count()
    }

    /// Returns the first id of a cluster.
    pub(super) fn start(&self, cluster: usize) -> usize {
        self.starts[cluster]
    }

    /// Returns the number of tokens in a cluster.
    pub(super) fn size(&self, cluster: usize) -> usize {
        self.tables[cluster].val().dims()[0]
    }

    /// Returns the number of tokens in all clusters.
    pub(super) fn vocab_size(&self) -> usize {
        (0..self.tables.len()).map(|i| self.size(i)).sum()
    }

    /// Returns the projection of a cluster, if there is one.
    pub(super) fn projection(&self, cluster: usize) -> Option<&Projection> {
        self.projections.get(cluster).or(self.projections.first())
    }

    pub(super) fn device(&self) -> Device {
        self.tables[0].val().device()
    }
}

/// Returns ids as a tensor of one row.
pub(super) fn indices(ids: Vec<i32>, device: &Device) -> Tensor<2, Int> {
    let shape = [1, ids.len()];
    Tensor::from_data(TensorData::new(ids, shape), device)
}
