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
use std::collections::HashMap;

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
        let mut all: Vec<(usize, ParamId)> = all
            .filter(|p| p.role.kind != Some(ParameterKind::State))
            .filter(|p| learning.0.contains(&p.id))
            .map(|p| (p.shape.iter().product(), p.id))
            .collect();
        // A stable sort: equal sizes stay in the order of the model.
        all.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        let mut loads = vec![0; ranks.count()];
        let owners = all.into_iter().map(|(size, id)| {
            let least = loads.iter().enumerate().min_by_key(|(_, load)| **load);
            let rank = least.map_or(0, |(rank, _)| rank);
            loads[rank] += size;
            (id, rank)
        });
        Self {
            owners: owners.collect(),
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

    /// The model with what every rank has made of its parameters; `moved` are those that had a gradient.
    ///
    /// # Errors
    /// A rank that has failed.
    pub fn exchanged<M: Module>(&self, model: M, moved: &[ParamId]) -> Result<M> {
        let mut values = Values {
            shard: self,
            moved,
            bytes: Vec::new(),
        };
        model.visit(&mut values);
        let all = self.ranks.gather(&values.bytes)?;
        let mut taking = Taking {
            shard: self,
            moved,
            at: vec![0; all.len()],
            all,
            lacks: false,
        };
        let model = model.map(&mut taking);
        match taking.lacks {
            false => Ok(model),
            true => Err(Error::run("a rank has sent fewer weights than it keeps")),
        }
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

/// What a rank steps with.
pub struct OwnGradients {
    /// By parameter, of its own.
    pub gradients: GradientsParams,
    /// The parameters of all ranks that had a gradient.
    pub moved: Vec<ParamId>,
}

/// The parameters that learn.
#[derive(Default)]
struct Learning(std::collections::HashSet<ParamId>);

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
    moved: Vec<ParamId>,
}

impl ModuleVisitor for Own<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else {
            return;
        };
        self.moved.push(param.id);
        if self.shard.is_own(param.id) {
            self.own.register::<D>(param.id, gradient);
        }
    }
}

/// The values of this rank's parameters, in the order of the model.
struct Values<'a> {
    shard: &'a Shard,
    moved: &'a [ParamId],
    bytes: Vec<u8>,
}

impl ModuleVisitor for Values<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.moved.contains(&param.id) && self.shard.is_own(param.id) {
            let data = kernel::untracked(param.val()).into_data();
            self.bytes.extend_from_slice(data.as_bytes());
        }
    }
}

struct Taking<'a> {
    shard: &'a Shard,
    moved: &'a [ParamId],
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
        if !self.moved.contains(&param.id) || self.shard.is_own(param.id) {
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
