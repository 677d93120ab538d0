//! The inner values of a pass that `infer` writes out and `inspect` looks at: hidden states and attention weights, whole,
//! and the part of the position scheme by itself.
//!
//! As with a probe, tensors are read without gradients and the pass is left as it was, to the last bit. A pass without a
//! record pays one comparison a block.

use crate::kernel::{self, ScoreBias};
use burn::tensor::{Tensor, TensorData};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The values that a record keeps beside the last hidden states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The stream before the first block and after each.
    pub hidden_states: bool,
    /// The weights of each attention, before dropout.
    pub attentions: bool,
    /// Vectors of positions and biases of distances.
    pub positions: bool,
}

/// Recorded values as 32-bit floats, batch first. Networks are named as [`Pass::within`](super::pass::Pass::within)
/// names them: `encoder`, `decoder`, or nothing for a network by itself.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The last hidden states of each network, after its last norm.
    pub last: BTreeMap<String, TensorData>,
    /// By network and number: 0 for the embeddings, then after each block, before any last norm.
    pub hidden_states: BTreeMap<(String, usize), TensorData>,
    /// `[batch, heads, queries, keys]`.
    pub attentions: BTreeMap<Attended, TensorData>,
    /// By network.
    pub positions: BTreeMap<String, Placed>,
}

/// The part of a position scheme in a pass, by itself: as the first row of the batch has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// Added to the embeddings, `[positions, width]`.
    pub vectors: Option<TensorData>,
    /// Added to the input of a layer, `[positions, d_model]`, by the number of the layer.
    pub of_layers: BTreeMap<usize, TensorData>,
    /// Added to the scores of a layer by distance, `[heads, queries + keys − 1]`, by the number of the layer, with the
    /// number of queries.
    pub biases: BTreeMap<usize, (usize, TensorData)>,
}

/// One attention of a network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attended {
    /// The network.
    pub network: String,
    /// Whether its keys are a memory's.
    pub crossed: bool,
    /// The block, from 0.
    pub layer: usize,
}

/// A record in the making. What a network computes position by position is noted in parts, which are joined.
#[derive(Debug)]
pub struct Record {
    keep: Keep,
    network: RefCell<String>,
    last: RefCell<BTreeMap<String, Vec<TensorData>>>,
    hidden_states: RefCell<BTreeMap<(String, usize), Vec<TensorData>>>,
    attentions: RefCell<BTreeMap<Attended, Vec<TensorData>>>,
    positions: RefCell<BTreeMap<String, Placed>>,
}

/// The dimension of positions in hidden states.
const POSITIONS: usize = 1;
/// The dimension of queries in attention weights.
const QUERIES: usize = 2;

impl Record {
    /// Nothing noted yet.
    pub(super) fn new(keep: Keep) -> Self {
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

    /// Whether the parts of position schemes are kept.
    pub fn keeps_positions(&self) -> bool {
        self.keep.positions
    }

    /// Notes what a scheme adds to the embeddings of the present network, or to the input of a layer: `[1, positions,
    /// width]`. What adds nothing is not noted.
    pub fn note_vectors(&self, layer: Option<usize>, vectors: Tensor<3>) {
        let [_, positions, width] = vectors.dims();
        let vectors = floats(vectors.narrow(0, 0, 1).reshape([positions, width]));
        if vectors.iter::<f32>().all(|x| x == 0.0) {
            return;
        }
        let mut all = self.positions.borrow_mut();
        let placed = all.entry(self.network.borrow().clone()).or_default();
        match layer {
            None => placed.vectors = Some(vectors),
            Some(layer) => {
                placed.of_layers.insert(layer, vectors);
            }
        }
    }

    /// Notes the numbers that a scheme adds to the scores of a layer by distance.
    pub fn note_bias(&self, layer: usize, queries: usize, bias: &ScoreBias) {
        if let ScoreBias::ByDistance(bias) = bias {
            let mut all = self.positions.borrow_mut();
            let placed = all.entry(self.network.borrow().clone()).or_default();
            let bias = (queries, floats(bias.clone()));
            placed.biases.insert(layer, bias);
        }
    }

    /// Notes the weights of an attention of the present network.
    pub fn note_attention(&self, layer: usize, crossed: bool, weights: Tensor<4>) {
        let place = Attended {
            network: self.network.borrow().clone(),
            crossed,
            layer,
        };
        let mut all = self.attentions.borrow_mut();
        all.entry(place).or_default().push(floats(weights));
    }

    /// Notes the stream of the present network: number 0 is what its first block reads.
    pub(super) fn note_hidden<const D: usize>(&self, number: usize, x: &Tensor<D>) {
        if self.keep.hidden_states {
            let place = (self.network.borrow().clone(), number);
            let mut all = self.hidden_states.borrow_mut();
            all.entry(place).or_default().push(floats(x.clone()));
        }
    }

    /// Notes the last hidden states of the present network.
    pub(super) fn note_last<const D: usize>(&self, x: &Tensor<D>) {
        let network = self.network.borrow().clone();
        let mut all = self.last.borrow_mut();
        all.entry(network).or_default().push(floats(x.clone()));
    }

    /// Does `work`, in which notes belong to this network inside the present one.
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

    /// The recorded values; the record is empty afterwards.
    pub(super) fn take(&self) -> Recorded {
        Recorded {
            last: all_joined(&self.last, POSITIONS),
            hidden_states: all_joined(&self.hidden_states, POSITIONS),
            attentions: all_joined(&self.attentions, QUERIES),
            positions: self.positions.take(),
        }
    }
}

fn floats<const D: usize>(x: Tensor<D>) -> TensorData {
    kernel::read(kernel::untracked(x)).convert::<f32>()
}

fn all_joined<K: Ord>(
    parts: &RefCell<BTreeMap<K, Vec<TensorData>>>,
    dim: usize,
) -> BTreeMap<K, TensorData> {
    let parts = parts.take().into_iter();
    parts
        .map(|(key, parts)| (key, joined(parts, dim)))
        .collect()
}

/// Arrays of floats next to each other in one of their dimensions; there is at least one, and they fit.
fn joined(mut parts: Vec<TensorData>, dim: usize) -> TensorData {
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
        let whole = joined(parts, 1);
        assert_eq!(whole.shape().to_vec(), [2, 3, 2]);
        let values: Vec<f32> = whole.iter().collect();
        let wanted = [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15].map(|x| x as f32);
        assert_eq!(values, wanted);
    }
}
