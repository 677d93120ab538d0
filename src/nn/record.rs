//! The internal values of a pass that `infer` writes out and `inspect` examines: complete hidden states and attention weights,
//! and the contribution of the position scheme by itself.
//!
//! As with a probe, tensors are read without gradients and the pass is left unchanged, bit for bit. A pass without a record pays
//! one comparison per block.

use crate::kernel::{self, ScoreBias};
use burn::tensor::{Tensor, TensorData};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Selection of the values that a record keeps beside the last hidden states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordSelection {
    /// The residual stream before the first block and after each block.
    pub hidden_states: bool,
    /// The weights of each attention layer, before dropout.
    pub attentions: bool,
    /// Position vectors and biases by distance.
    pub positions: bool,
}

/// Recorded values as 32-bit floats, batch first. Networks are named as [`Pass::within`](super::pass::Pass::in_network)
/// names them: `encoder`, `decoder`, or nothing for a network by itself.
#[derive(Clone, Debug, Default)]
pub struct RecordedValues {
    /// The last hidden states of each network, after its last norm.
    pub last: BTreeMap<String, TensorData>,
    /// Hidden states by network and number: 0 for the embeddings, then one after each block, before any last norm.
    pub hidden_states: BTreeMap<(String, usize), TensorData>,
    /// Attention weights `[batch, heads, queries, keys]`.
    pub attentions: BTreeMap<AttentionKey, TensorData>,
    /// Contribution of the position scheme, by network.
    pub positions: BTreeMap<String, PositionRecord>,
}

/// The contribution of a position scheme to a pass, as in the first row of the batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PositionRecord {
    /// Vectors added to the embeddings, `[positions, width]`.
    pub vectors: Option<TensorData>,
    /// Vectors added to the input of a layer, `[positions, d_model]`, by layer number.
    pub layer_vectors: BTreeMap<usize, TensorData>,
    /// Biases added to the scores of a layer by distance, `[heads, queries + keys − 1]`, together with the number of queries, by
    /// layer number.
    pub biases: BTreeMap<usize, (usize, TensorData)>,
}

/// Identifies one attention layer of a network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttentionKey {
    /// Name of the network.
    pub network: String,
    /// Whether it is cross-attention.
    pub is_cross: bool,
    /// Number of the block, from 0.
    pub layer: usize,
}

/// A record under construction. Values of a network that computes position by position are noted in parts, which are joined.
#[derive(Debug)]
pub struct Record {
    keep: RecordSelection,
    network: RefCell<String>,
    last: RefCell<BTreeMap<String, Vec<TensorData>>>,
    hidden_states: RefCell<BTreeMap<(String, usize), Vec<TensorData>>>,
    attentions: RefCell<BTreeMap<AttentionKey, Vec<TensorData>>>,
    positions: RefCell<BTreeMap<String, PositionRecord>>,
}

/// The dimension of positions in hidden states.
const POSITIONS: usize = 1;
/// The dimension of queries in attention weights.
const QUERIES: usize = 2;

impl Record {
    /// Creates an empty record.
    pub(super) fn new(keep: RecordSelection) -> Self {
        Self {
            keep,
            network: RefCell::default(),
            last: RefCell::default(),
            hidden_states: RefCell::default(),
            attentions: RefCell::default(),
            positions: RefCell::default(),
        }
    }

    /// Whether attention weights are kept.
    pub fn keeps_attentions(&self) -> bool {
        self.keep.attentions
    }

    /// Whether the contributions of position schemes are kept.
    pub fn keeps_positions(&self) -> bool {
        self.keep.positions
    }

    /// Notes the vectors `[1, positions, width]` that a scheme adds to the embeddings of the current network, or to the input of
    /// a layer. Vectors that are all zero are not noted.
    pub fn note_vectors(&self, layer: Option<usize>, vectors: Tensor<3>) {
        let [_, positions, width] = vectors.dims();
        let vectors = to_floats(vectors.narrow(0, 0, 1).reshape([positions, width]));
        if vectors.iter::<f32>().all(|x| x == 0.0) {
            return;
        }
        let mut all = self.positions.borrow_mut();
        let placed = all.entry(self.network.borrow().clone()).or_default();
        match layer {
            None => placed.vectors = Some(vectors),
            Some(layer) => {
                placed.layer_vectors.insert(layer, vectors);
            }
        }
    }

    /// Notes the biases that a scheme adds to the scores of a layer by distance.
    pub fn note_bias(&self, layer: usize, queries: usize, bias: &ScoreBias) {
        if let ScoreBias::ByDistance(bias) = bias {
            let mut all = self.positions.borrow_mut();
            let placed = all.entry(self.network.borrow().clone()).or_default();
            let bias = (queries, to_floats(bias.clone()));
            placed.biases.insert(layer, bias);
        }
    }

    /// Notes the weights of an attention layer of the current network.
    pub fn note_attention(&self, layer: usize, crossed: bool, weights: Tensor<4>) {
        let place = AttentionKey {
            network: self.network.borrow().clone(),
            is_cross: crossed,
            layer,
        };
        let mut all = self.attentions.borrow_mut();
        all.entry(place).or_default().push(to_floats(weights));
    }

    /// Notes a hidden state of the current network: number 0 is the input of its first block.
    pub(super) fn note_hidden<const D: usize>(&self, number: usize, x: &Tensor<D>) {
        if self.keep.hidden_states {
            let place = (self.network.borrow().clone(), number);
            let mut all = self.hidden_states.borrow_mut();
            all.entry(place).or_default().push(to_floats(x.clone()));
        }
    }

    /// Notes the last hidden states of the current network.
    pub(super) fn note_last<const D: usize>(&self, x: &Tensor<D>) {
        let network = self.network.borrow().clone();
        let mut all = self.last.borrow_mut();
        all.entry(network).or_default().push(to_floats(x.clone()));
    }

    /// Does `work`, whose notes belong to network `name` inside the current one.
    pub(super) fn within<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let outer = self.network.borrow().clone();
        let inner = match &outer[..] {
            "" => name.to_string(),
            outer => format!("{outer}.{name}"),
        };
        self.network.replace(inner);
        let done = work();
        self.network.replace(outer);
        done
    }

    /// Takes out the recorded values and leaves the record empty.
    pub(super) fn take(&self) -> RecordedValues {
        RecordedValues {
            last: concat_all(&self.last, POSITIONS),
            hidden_states: concat_all(&self.hidden_states, POSITIONS),
            attentions: concat_all(&self.attentions, QUERIES),
            positions: self.positions.take(),
        }
    }
}

fn to_floats<const D: usize>(x: Tensor<D>) -> TensorData {
    kernel::read(kernel::untracked(x)).convert::<f32>()
}

fn concat_all<K: Ord>(
    parts: &RefCell<BTreeMap<K, Vec<TensorData>>>,
    dim: usize,
) -> BTreeMap<K, TensorData> {
    let parts = parts.take().into_iter();
    parts
        .map(|(key, parts)| (key, concat(parts, dim)))
        .collect()
}

/// Concatenates arrays of floats along one dimension; there is at least one, and their other dimensions agree.
fn concat(mut parts: Vec<TensorData>, dim: usize) -> TensorData {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let mut shape = parts[0].shape().to_vec();
    let outer: usize = shape[..dim].iter().product();
    shape[dim] = parts.iter().map(|part| part.shape()[dim]).sum();
    let parts: Vec<Vec<f32>> = parts.iter().map(|part| part.iter().collect()).collect();
    let mut values = Vec::with_capacity(shape.iter().product());
    for row in 0..outer {
        for part in &parts {
            let width = part.len() / outer.max(1);
            values.extend_from_slice(&part[row * width..][..width]);
        }
    }
    TensorData::new(values, shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_in_their_dimension() {
        let part = |values: Vec<f32>, shape: [usize; 3]| TensorData::new(values, shape);
        let parts = vec![
            part(vec![0.0, 1.0, 10.0, 11.0], [2, 1, 2]),
            part(vec![2.0, 3.0, 4.0, 5.0, 12.0, 13.0, 14.0, 15.0], [2, 2, 2]),
        ];
        let whole = concat(parts, 1);
        assert_eq!(whole.shape().to_vec(), [2, 3, 2]);
        let values: Vec<f32> = whole.iter().collect();
        let wanted = [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15].map(|x| x as f32);
        assert_eq!(values, wanted);
    }
}
