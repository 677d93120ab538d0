//! Moments divided among the ranks of a run (`shard_optimizer`; ZeRO's first stage, Rajbhandari et al. 2020, section 5.1).
//!
//! Each rank keeps the moments of some values of the model, as many moments as every other rank ([`division`]), updates
//! only these values, and receives the others from their ranks. If an optimizer updates each value independently,
//! parameters are cut at any value: a stretch of one is updated like a parameter of one row, by the same operations on
//! the same numbers. If values are updated together (LAMB's ratio, Adafactor's rows and columns, Muon's matrices), one
//! rank keeps the whole parameter. So the bits are the same for any optimizer. Checkpoints hold the moments of all
//! ranks, joined as in those of one process.

mod division;
mod values;

use super::checkpoint::moments::{self, KeptValues};
use super::optim::StateSize;
use super::parameters;
use crate::collective::Ranks;
use crate::error::{Error, Result};
use crate::nn::role::ParameterKind;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;
use division::{DividedParameter, divide, owned_whole};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use values::{OwnSlices, OwnValues, ValueWriter, slice_as_row};

/// Maximum bytes of weights that are exchanged at once.
const MAX_EXCHANGE_BYTES: usize = 1 << 25;

/// Which values each rank updates and keeps the moments of.
pub struct Shard {
    parts: HashMap<ParamId, ParameterDivision>,
    ranks: Ranks,
}

/// The division of one parameter.
struct ParameterDivision {
    shape: Vec<usize>,
    /// Values of each rank, indexed by rank, in order.
    stretches: Vec<Range<usize>>,
}

impl ParameterDivision {
    fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Shard {
    /// Divides a model's parameters; `kept` says how much state the optimizer keeps for each. A parameter missing in
    /// `kept` stays whole.
    pub fn new<M: Module>(model: &M, kept: &HashMap<ParamId, StateSize>, ranks: &Ranks) -> Self {
        let mut learning = TrainableIds::default();
        model.visit(&mut learning);
        let mut all = parameters::list_with_state(model);
        all.retain(|p| !p.role.kind.is_some_and(ParameterKind::is_untrained));
        let learning = all.iter().filter(|p| learning.0.contains(&p.id));
        let learning = learning.map(|p| {
            let elements = p.shape.iter().product();
            let whole = StateSize {
                values: elements,
                elementwise: false,
            };
            DividedParameter {
                id: p.id,
                elements,
                kept: kept.get(&p.id).copied().unwrap_or(whole),
            }
        });
        let mut stretches = divide(&learning.collect::<Vec<_>>(), ranks.count());
        let parts = all.into_iter().map(|p| {
            let elements = p.shape.iter().product();
            let stretches = stretches.remove(&p.id);
            let part = ParameterDivision {
                shape: p.shape,
                stretches: stretches.unwrap_or_else(|| owned_whole(elements, 0, ranks.count())),
            };
            (p.id, part)
        });
        Self {
            parts: parts.collect(),
            ranks: ranks.clone(),
        }
    }

    /// Returns the values of a parameter that this rank updates.
    fn own_part(&self, id: ParamId) -> KeptValues {
        let Some(part) = self.parts.get(&id) else {
            return KeptValues::Nothing;
        };
        let own = part.stretches[self.ranks.rank()].clone();
        match own.len() {
            0 => KeptValues::Nothing,
            n if n == part.elements() => KeptValues::Whole,
            _ => KeptValues::Part(own),
        }
    }

    /// Returns the optimizer without the moments of other ranks.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn keep_own_moments(&self, optimizer: ModuleOptimizer) -> Result<ModuleOptimizer> {
        moments::restricted_to(optimizer, &|id| self.own_part(ParamId::from(id)))
    }

    /// Returns the gradients of the values that this rank updates; the others are dropped.
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

    /// Replaces each parameter that is cut and has a gradient by this rank's stretch of it, until [`Self::exchange_values`].
    pub fn own_values<M: Module>(&self, model: M, moved: &[UpdatedParameter]) -> M {
        model.map(&mut OwnSlices {
            shard: self,
            moved: moved.iter().map(|(id, _)| *id).collect(),
        })
    }

    /// Returns the model with the updated values of every rank, exchanged in chunks of [`MAX_EXCHANGE_BYTES`] bytes; `moved` are the
    /// parameters that had a gradient. If a rank has failed, an error is returned along with a model in which some
    /// values are not exchanged.
    pub fn exchange_values<M: Module>(
        &self,
        mut model: M,
        moved: &[UpdatedParameter],
    ) -> (M, Result<()>) {
        for room in exchange_chunks(moved) {
            let mut values = OwnValues {
                shard: self,
                room: &room,
                bytes: Vec::new(),
            };
            model.visit(&mut values);
            let all = match self.ranks.all_gather(&values.bytes) {
                Ok(all) => all,
                Err(error) => return (model, Err(error)),
            };
            let mut taking = ValueWriter {
                shard: self,
                room: &room,
                at: vec![0; all.len()],
                all,
                lacks: false,
            };
            model = model.map(&mut taking);
            if taking.lacks {
                let lacks = Error::run("a rank sent fewer weights than it updates");
                return (model, Err(lacks));
            }
        }
        (model, Ok(()))
    }

    /// Gathers the moments of all other ranks, serialized, on the first rank, which writes the checkpoint; the other
    /// ranks get nothing.
    ///
    /// # Errors
    /// If a rank has failed, or a state cannot be serialized.
    pub fn gather_moments(&self, optimizer: &ModuleOptimizer) -> Result<Vec<Vec<u8>>> {
        let own = match self.ranks.is_first() {
            true => Vec::new(),
            false => moments::bytes(optimizer)?,
        };
        let all = self.ranks.gather(&own)?;
        Ok(all.into_iter().skip(1).collect())
    }
}

/// The gradients that a rank updates its values with.
pub struct OwnGradients {
    /// Gradients of its own values, by parameter.
    pub gradients: GradientsParams,
    /// Parameters of all ranks that had a gradient.
    pub moved: Vec<UpdatedParameter>,
}

/// A parameter that had a gradient, and the size of its values in bytes.
pub type UpdatedParameter = (ParamId, usize);

/// Splits the parameters, in order, into chunks of at most [`ROOM`] bytes, with at least one parameter each.
fn exchange_chunks(moved: &[UpdatedParameter]) -> Vec<HashSet<ParamId>> {
    let (mut rooms, mut left) = (Vec::<HashSet<ParamId>>::new(), 0);
    for (id, bytes) in moved {
        match rooms.last_mut() {
            Some(room) if *bytes <= left => {
                room.insert(*id);
                left -= bytes;
            }
            _ => {
                rooms.push(HashSet::from([*id]));
                left = MAX_EXCHANGE_BYTES.saturating_sub(*bytes);
            }
        }
    }
    rooms
}

/// The trainable parameters.
#[derive(Default)]
struct TrainableIds(HashSet<ParamId>);

impl ModuleVisitor for TrainableIds {
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
    moved: Vec<UpdatedParameter>,
}

impl ModuleVisitor for Own<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else {
            return;
        };
        let bytes = gradient.shape().num_elements() * gradient.dtype().size();
        self.moved.push((param.id, bytes));
        match self.shard.own_part(param.id) {
            KeptValues::Nothing => {}
            KeptValues::Whole => self.own.register::<D>(param.id, gradient),
            KeptValues::Part(own) => {
                let gradient = slice_as_row(gradient, own);
                self.own.register::<D>(param.id, gradient);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_hold_whole_parameters_in_their_order() {
        let ids: Vec<ParamId> = (0..5).map(|_| ParamId::new()).collect();
        let sizes = [
            MAX_EXCHANGE_BYTES / 2,
            MAX_EXCHANGE_BYTES / 2,
            1,
            3 * MAX_EXCHANGE_BYTES,
            1,
        ];
        let moved: Vec<UpdatedParameter> = ids.iter().copied().zip(sizes).collect();
        let made: Vec<usize> = exchange_chunks(&moved).iter().map(HashSet::len).collect();
        assert_eq!(made, [2, 1, 1, 1]);
        assert!(exchange_chunks(&moved)[2].contains(&ids[3]));
        assert!(exchange_chunks(&[]).is_empty());
    }
}
