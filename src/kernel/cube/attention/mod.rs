//! Softmax attention, in one of two ways: by matrix products of whole blocks of queries ([`products`]), which
//! supports every feature, or in tiles within one kernel ([`tiles`]), if the device has tensor cores for the number
//! format of the run ([`choice`]).

mod choice;
mod products;
mod tiles;

pub use choice::{SWITCH, SWITCHES};

use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::launch::contiguous;
use super::relative::Distances;
use super::row_products::products_of;
use super::scores::Added;
use super::softmax::Softmax;
use super::visibility_data::Structure;
use crate::kernel::extension::{AttentionGradients, AttentionSaved, AttentionSettings, Maybe};
use crate::kernel::relative::extension::{RelativeGradients, WantedGradients};

/// Sizes of an attention call.
#[derive(Clone, Copy, Debug)]
pub struct Dims {
    /// Number of rows of the batch.
    pub batch: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key-value heads.
    pub kv_heads: usize,
    /// Number of queries of a head.
    pub queries: usize,
    /// Number of keys of a head.
    pub keys: usize,
    /// Width of a head.
    pub d_head: usize,
}

impl Dims {
    fn of(q: &CubeTensor, k: &CubeTensor) -> Self {
        let [batch, heads, queries, d_head] = q.shape().dims();
        let [_, kv_heads, keys, _] = k.shape().dims();
        Self {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            d_head,
        }
    }

    /// Returns the number of query heads that share a key-value head.
    fn group(self) -> u32 {
        (self.heads / self.kv_heads) as u32
    }

    /// Returns rows, heads, queries and keys.
    fn of_scores(self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }
}

/// The inputs of a pass, and the steps between its matrix products.
#[derive(Clone)]
pub struct Pass {
    q: CubeTensor,
    k: CubeTensor,
    v: CubeTensor,
    settings: AttentionSettings,
    softmax: Softmax,
    dims: Dims,
}

impl Pass {
    fn new(
        [q, k, v]: [CubeTensor; 3],
        bias: Maybe<CubeBackend>,
        settings: AttentionSettings,
    ) -> Self {
        let dims = Dims::of(&q, &k);
        let softmax = softmax(bias, &settings, dims, &q);
        Self {
            q,
            k,
            v,
            settings,
            softmax,
            dims,
        }
    }
}

/// The inputs of a backward pass.
#[derive(Clone)]
pub struct Backward {
    pass: Pass,
    /// Gradient of the output.
    grad: CubeTensor,
    /// Log-sum-exps of the scores.
    lse: CubeTensor,
    /// Dot products of outputs with their gradients.
    products: CubeTensor,
}

fn softmax(
    bias: Maybe<CubeBackend>,
    settings: &AttentionSettings,
    dims: Dims,
    q: &CubeTensor,
) -> Softmax {
    let bias = bias.into_option().map(contiguous);
    let added = match &bias {
        None => Added::Nothing,
        Some(bias) if bias.rank() == 2 => Added::ByDistance,
        Some(bias) if bias.shape()[0] == dims.batch => Added::Own,
        Some(_) => Added::Shared,
    };
    Softmax {
        structure: Structure::of(settings, dims.of_scores(), &q.device()),
        scale: settings.scale as f32,
        cap: settings.softcap.map(|cap| cap as f32),
        dropout: settings.dropout,
        bias,
        added,
    }
}

/// Runs attention and keeps what its backward pass needs.
pub fn saving(
    inputs: [CubeTensor; 3],
    bias: Maybe<CubeBackend>,
    settings: AttentionSettings,
    distances: Option<&Distances>,
) -> AttentionSaved<CubeBackend> {
    let pass = Pass::new(inputs, bias.clone(), settings);
    let [out, lse] = match distances.is_none() && tiles::supports(&pass) {
        true => tiles::forward(&pass),
        false => products::forward(&pass, distances),
    };
    let Pass { q, k, v, .. } = pass;
    AttentionSaved {
        q,
        k,
        v,
        bias,
        out,
        lse,
    }
}

/// Returns the gradients of attention.
pub fn backward(
    saved: AttentionSaved<CubeBackend>,
    grad: CubeTensor,
    settings: AttentionSettings,
    distances: Option<&Distances>,
    wanted: WantedGradients,
) -> RelativeGradients<CubeBackend> {
    let AttentionSaved {
        q,
        k,
        v,
        bias,
        out,
        lse,
    } = saved;
    let backward = Backward {
        products: products_of(&out, &grad),
        pass: Pass::new([q, k, v], bias, settings),
        grad,
        // Sinks are added to it by Burn's operations, whose results may have padded rows.
        lse: contiguous(lse),
    };
    if distances.is_some() || wanted.bias || !tiles::supports(&backward.pass) {
        return products::backward(&backward, distances, wanted);
    }
    let [q, k, v] = tiles::backward(&backward);
    let attention = AttentionGradients {
        q,
        k,
        v,
        bias: None,
    };
    RelativeGradients {
        attention,
        tensors: Default::default(),
    }
}
