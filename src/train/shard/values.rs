//! Exchanging values between the ranks that update them: stretches of parameters, as bytes and as parameters.

use super::{ParameterDivision, Shard};
use crate::kernel;
use crate::train::checkpoint::moments::KeptValues;
use burn::module::{ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Tensor, TensorData};
use std::collections::HashSet;
use std::ops::Range;

/// Cuts parameters down to this rank's stretches.
pub(super) struct OwnSlices<'a> {
    pub shard: &'a Shard,
    pub moved: HashSet<ParamId>,
}

impl ModuleMapper for OwnSlices<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.shard.own_part(param.id) {
            KeptValues::Part(own) if self.moved.contains(&param.id) => {
                with_value(param, |value| slice_as_row(value, own))
            }
            KeptValues::Part(_) | KeptValues::Nothing | KeptValues::Whole => param,
        }
    }
}

/// Returns consecutive values of a tensor as a tensor of one row.
pub(super) fn slice_as_row<const D: usize>(x: Tensor<D>, values: Range<usize>) -> Tensor<D> {
    let mut shape = [1; D];
    shape[D - 1] = values.len();
    let count = x.shape().num_elements();
    x.reshape([count]).slice([values]).reshape(shape)
}

/// Replaces the value of a parameter, which stays trainable or frozen.
fn with_value<const D: usize>(
    param: Param<Tensor<D>>,
    made: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Param<Tensor<D>> {
    let (id, old, mapper) = param.consume();
    let (tracked, learns) = (old.device().is_autodiff(), old.is_require_grad());
    let value = made(kernel::untracked(old));
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

/// Collects the values that this rank has updated, in the order of the model.
pub(super) struct OwnValues<'a> {
    pub shard: &'a Shard,
    pub room: &'a HashSet<ParamId>,
    pub bytes: Vec<u8>,
}

impl ModuleVisitor for OwnValues<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let own = self
            .room
            .contains(&param.id)
            .then(|| self.shard.own_part(param.id));
        if let Some(KeptValues::Whole | KeptValues::Part(_)) = own {
            let data = kernel::read(kernel::untracked(param.val()));
            self.bytes.extend_from_slice(data.as_bytes());
        }
    }
}

/// Writes the values of all ranks into the parameters.
pub(super) struct ValueWriter<'a> {
    pub shard: &'a Shard,
    pub room: &'a HashSet<ParamId>,
    pub all: Vec<Vec<u8>>,
    /// Position up to which each rank's bytes are read.
    pub at: Vec<usize>,
    pub lacks: bool,
}

impl ValueWriter<'_> {
    /// Joins the bytes of a parameter from the ranks that updated it; `None` if a rank has sent too few.
    fn next(&mut self, part: &ParameterDivision, size: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(part.elements() * size);
        for (rank, stretch) in part.stretches.iter().enumerate() {
            let from = self.at[rank];
            self.at[rank] += stretch.len() * size;
            bytes.extend_from_slice(self.all[rank].get(from..self.at[rank])?);
        }
        Some(bytes)
    }
}

impl ModuleMapper for ValueWriter<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let shard = self.shard;
        let part = shard
            .parts
            .get(&param.id)
            .filter(|_| self.room.contains(&param.id));
        let Some(part) = part else { return param };
        let dtype = param.val().dtype();
        if let KeptValues::Whole = shard.own_part(param.id) {
            self.at[shard.ranks.rank()] += part.elements() * dtype.size();
            return param;
        }
        let Some(bytes) = self.next(part, dtype.size()) else {
            self.lacks = true;
            return param;
        };
        let data = TensorData::from_bytes_vec(bytes, part.shape.clone(), dtype);
        with_value(param, |old| Tensor::from_data(data, (&old.device(), dtype)))
    }
}
