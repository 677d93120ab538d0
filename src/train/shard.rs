//! Moments divided among the ranks of a run (`shard_optimizer`; ZeRO's first stage, Rajbhandari et al. 2020, section 5.1).
//!
//! Each parameter belongs to one rank, which alone keeps its moments and moves it; all ranks then take the values of all
//! others. A parameter is moved by the same update from the same gradient as without, so the bits are the same for any
//! optimizer. Parameters are not cut: the largest one bounds how evenly they are divided. Checkpoints hold the moments
//! of all ranks, as those of one process do.

use super::checkpoint::moments;
use super::parameters;
use crate::collective::Ranks;
use crate::error::{Error, Result};
use crate::kernel;
use crate::nn::role::ParameterKind;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{DType, Tensor, TensorData};
use std::collections::{HashMap, HashSet};

/// Bytes of weights that are exchanged at once.
const ROOM: usize = 1 << 25;

/// Which rank each parameter belongs to.
pub struct Shard {
    owners: HashMap<ParamId, usize>,
    ranks: Ranks,
}

impl Shard {
    /// The shares of a model's parameters: the largest first, each to the rank that has the least so far.
    pub fn new<M: Module>(model: &M, ranks: &Ranks) -> Self {
        let mut learning = Learning::default();
        model.visit(&mut learning);
        let all = parameters::with_state(model).into_iter();
        let all: Vec<(usize, ParamId)> = all
            .filter(|p| p.role.kind != Some(ParameterKind::State))
            .filter(|p| learning.0.contains(&p.id))
            .map(|p| (p.shape.iter().product(), p.id))
            .collect();
        Self {
            owners: divided(all, ranks.count()),
            ranks: ranks.clone(),
        }
    }

    fn is_own(&self, id: ParamId) -> bool {
        self.owners.get(&id).copied().unwrap_or(0) == self.ranks.rank()
    }

    /// The optimizer without the moments of other ranks.
    ///
    /// # Errors
    /// A state that cannot be read.
    pub fn own(&self, optimizer: ModuleOptimizer) -> Result<ModuleOptimizer> {
        moments::of_some(optimizer, &|id| self.is_own(ParamId::from(id)))
    }

    /// The gradients of this rank's parameters; the others are dropped.
    pub fn own_gradients<M: Module>(&self, model: &M, gradients: GradientsParams) -> OwnGradients {
        let mut own = Own {
            shard: self,
            gradients,
            own: GradientsParams::new(),
            moved: Vec::new(),
        };
        model.visit(&mut own);
        OwnGradients {
            gradients: own.own,
            moved: own.moved,
        }
    }

    /// The model with what every rank has made of its parameters, in rooms of [`ROOM`] bytes; `moved` are those that had a
    /// gradient. With an error, a rank that has failed, some of them are not exchanged.
    pub fn exchanged<M: Module>(&self, mut model: M, moved: &[Moved]) -> (M, Result<()>) {
        for room in rooms(moved) {
            let mut values = Values {
                shard: self,
                room: &room,
                bytes: Vec::new(),
            };
            model.visit(&mut values);
            let all = match self.ranks.gather(&values.bytes) {
                Ok(all) => all,
                Err(error) => return (model, Err(error)),
            };
            let mut taking = Taking {
                shard: self,
                room: &room,
                at: vec![0; all.len()],
                all,
                lacks: false,
            };
            model = model.map(&mut taking);
            if taking.lacks {
                let lacks = Error::run("a rank has sent fewer weights than it keeps");
                return (model, Err(lacks));
            }
        }
        (model, Ok(()))
    }

    /// The moments of all ranks for a checkpoint, each as the optimizer writes them down; those of other ranks.
    ///
    /// # Errors
    /// A rank that has failed, a state that cannot be written down.
    pub fn gathered(&self, optimizer: &ModuleOptimizer) -> Result<Vec<Vec<u8>>> {
        let own = match self.ranks.is_first() {
            true => Vec::new(),
            false => moments::bytes(optimizer)?,
        };
        let all = self.ranks.gather(&own)?;
        Ok(all.into_iter().skip(1).collect())
    }
}

/// The rank of each parameter, given the sizes of all: the largest first, each to the rank that has the least so far.
fn divided(mut all: Vec<(usize, ParamId)>, ranks: usize) -> HashMap<ParamId, usize> {
    // A stable sort: equal sizes stay in the order of the model.
    all.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let mut loads = vec![0; ranks];
    let owners = all.into_iter().map(|(size, id)| {
        let least = loads.iter().enumerate().min_by_key(|(_, load)| **load);
        let rank = least.map_or(0, |(rank, _)| rank);
        loads[rank] += size;
        (id, rank)
    });
    owners.collect()
}

/// What a rank steps with.
pub struct OwnGradients {
    /// By parameter, of its own.
    pub gradients: GradientsParams,
    /// The parameters of all ranks that had a gradient.
    pub moved: Vec<Moved>,
}

/// A parameter that had a gradient, and the bytes of its values.
pub type Moved = (ParamId, usize);

/// Parameters in their order, so many at a time as have [`ROOM`] bytes, and at least one.
fn rooms(moved: &[Moved]) -> Vec<HashSet<ParamId>> {
    let (mut rooms, mut left) = (Vec::<HashSet<ParamId>>::new(), 0);
    for (id, bytes) in moved {
        match rooms.last_mut() {
            Some(room) if *bytes <= left => {
                room.insert(*id);
                left -= bytes;
            }
            _ => {
                rooms.push(HashSet::from([*id]));
                left = ROOM.saturating_sub(*bytes);
            }
        }
    }
    rooms
}

/// The parameters that learn.
#[derive(Default)]
struct Learning(HashSet<ParamId>);

impl ModuleVisitor for Learning {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.val().is_require_grad() {
            self.0.insert(param.id);
        }
    }
}

struct Own<'a> {
    shard: &'a Shard,
    gradients: GradientsParams,
    own: GradientsParams,
    moved: Vec<Moved>,
}

impl ModuleVisitor for Own<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else {
            return;
        };
        let bytes = gradient.shape().num_elements() * gradient.dtype().size();
        self.moved.push((param.id, bytes));
        if self.shard.is_own(param.id) {
            self.own.register::<D>(param.id, gradient);
        }
    }
}

/// The values of this rank's parameters, in the order of the model.
struct Values<'a> {
    shard: &'a Shard,
    room: &'a HashSet<ParamId>,
    bytes: Vec<u8>,
}

impl ModuleVisitor for Values<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.room.contains(&param.id) && self.shard.is_own(param.id) {
            let data = kernel::read(kernel::untracked(param.val()));
            self.bytes.extend_from_slice(data.as_bytes());
        }
    }
}

struct Taking<'a> {
    shard: &'a Shard,
    room: &'a HashSet<ParamId>,
    all: Vec<Vec<u8>>,
    /// How much of each rank's bytes is taken.
    at: Vec<usize>,
    lacks: bool,
}

impl Taking<'_> {
    /// The next value of a rank.
    fn next(&mut self, rank: usize, shape: Vec<usize>, dtype: DType) -> Option<TensorData> {
        let size = shape.iter().product::<usize>() * dtype.size();
        let from = self.at[rank];
        self.at[rank] += size;
        let bytes = self.all[rank].get(from..from + size)?;
        Some(TensorData::from_bytes_vec(bytes.to_vec(), shape, dtype))
    }
}

impl ModuleMapper for Taking<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !self.room.contains(&param.id) || self.shard.is_own(param.id) {
            return param;
        }
        let rank = self.shard.owners.get(&param.id).copied().unwrap_or(0);
        let (id, old, mapper) = param.consume();
        let (tracked, learns) = (old.device().is_autodiff(), old.is_require_grad());
        let value = kernel::untracked(old.clone());
        let Some(data) = self.next(rank, value.dims().to_vec(), value.dtype()) else {
            self.lacks = true;
            return Param::from_mapped_value(id, old, mapper);
        };
        let value = Tensor::<D>::from_data(data, (&value.device(), value.dtype()));
        let value = match tracked {
            true => Tensor::from_inner(value),
            false => value,
        };
        let value = match learns {
            true => value.require_grad(),
            false => value,
        };
        Param::from_mapped_value(id, value, mapper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest share of so many ranks, as a multiple of an equal one.
    fn largest(sizes: &[usize], ranks: usize) -> f64 {
        let all: Vec<_> = sizes.iter().map(|size| (*size, ParamId::new())).collect();
        let mut loads = vec![0; ranks];
        for (id, rank) in divided(all.clone(), ranks) {
            loads[rank] += all.iter().find(|(_, of)| *of == id).unwrap().0;
        }
        let total: usize = sizes.iter().sum();
        assert_eq!(loads.iter().sum::<usize>(), total);
        loads[..].iter().max().copied().unwrap_or(0) as f64 * ranks as f64 / total as f64
    }

    /// GPT-2's matrices: its table of tokens is 31 % of them, and no share can be smaller.
    #[test]
    fn shares_are_even_unless_one_parameter_is_larger() {
        let block = [768 * 2304, 768 * 768, 768 * 3072, 3072 * 768, 768, 768];
        let blocks = block.repeat(12);
        for ranks in [2, 4, 8] {
            assert!(largest(&blocks, ranks) < 1.1, "{ranks}");
        }
        let all = [vec![50257 * 768, 1024 * 768], blocks].concat();
        assert!(largest(&all, 2) < 1.01);
        assert!((largest(&all, 4) - 1.24).abs() < 0.01);
    }

    #[test]
    fn rooms_hold_whole_parameters_in_their_order() {
        let ids: Vec<ParamId> = (0..5).map(|_| ParamId::new()).collect();
        let sizes = [ROOM / 2, ROOM / 2, 1, 3 * ROOM, 1];
        let moved: Vec<Moved> = ids.iter().copied().zip(sizes).collect();
        let made: Vec<usize> = rooms(&moved).iter().map(HashSet::len).collect();
        assert_eq!(made, [2, 1, 1, 1]);
        assert!(rooms(&moved)[2].contains(&ids[3]));
        assert!(rooms(&[]).is_empty());
    }
}
