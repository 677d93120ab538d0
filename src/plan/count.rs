//! Counts of a model's parameters by part, without drawing them.

use crate::nn::path::Path;
use crate::nn::role::{ParameterKind, Place, Role, StackSide};
use crate::task::ROLES;
use crate::train::lora::{self, LoraConfig};
use crate::train::optim::soap::count_preconditioners;
use crate::train::optim::{Moments, UpdatedWhole, is_matrix};
use burn::module::{ModuleVisitor, Param, ParamGroup};
use burn::tensor::Tensor;
use std::collections::BTreeMap;

/// Counts of parameters by part, of trainable ones, and of trainable ones in matrices that the optimizer orthogonalises.
#[derive(Default)]
pub(super) struct Count<'a> {
    path: Path,
    /// The adapters, if only adapters (and parameters that they train in full) are trainable.
    pub lora: Option<&'a LoraConfig>,
    /// The groups of frozen parameters.
    pub frozen: Vec<ParamGroup>,
    /// Number of trainable parameters.
    pub trained: usize,
    /// Number of parameters in each part.
    pub parts: BTreeMap<&'static str, usize>,
    /// The group of matrices that the optimizer orthogonalises.
    pub matrices: Option<ParamGroup>,
    /// Number of trainable parameters in these matrices.
    pub orthogonal: usize,
    /// Sizes of the largest trainable parameters.
    pub largest: Largest,
    /// The maximum length of a dimension for which the optimizer keeps a preconditioner.
    pub max_precond_dim: usize,
    /// Number of values in preconditioners and their bases.
    pub preconditioners: usize,
}

/// Number of values of the largest parameter of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Largest {
    /// Among the matrices that the optimizer orthogonalises.
    pub matrices: usize,
    /// Among all other parameters.
    pub others: usize,
    /// In the preconditioners and bases of a single parameter.
    pub preconditioners: usize,
}

impl Largest {
    /// Bytes of the moments of the largest parameter that an optimizer updates as a whole; 0 if it updates each value
    /// separately.
    pub fn whole_update_bytes(&self, moments: Moments, together: UpdatedWhole) -> u64 {
        let beside = self.preconditioners as u128;
        let of = |together: bool, largest: usize, moments: usize| match together {
            true => super::bytes(4 * (largest as u128 * moments as u128 + beside)),
            false => 0,
        };
        of(together.matrices, self.matrices, moments.matrices).max(of(
            together.others,
            self.others,
            moments.others,
        ))
    }
}

/// The parts of a plan that only training has.
pub(super) const AUXILIARY: &str = "auxiliary";
pub(super) const GENERATOR: &str = "generator";
pub(super) const PIXEL_DECODER: &str = "pixel_decoder";
pub(super) const PROJECTION_HEAD: &str = "projection_head";

/// Returns the part of a plan in which a parameter of this role is counted.
fn part(role: Role) -> &'static str {
    match (role.place, role.kind) {
        (Some(Place::Position), _) => "position",
        (Some(Place::Auxiliary), _) => AUXILIARY,
        (_, Some(ParameterKind::Norm)) => "norm",
        (_, Some(ParameterKind::Table)) => "embedding",
        (Some(Place::Tokens | Place::SourceTokens), _) => "embedding",
        (Some(Place::Input), _) => "stem",
        (Some(Place::Blocks), _) => "stages",
        (Some(Place::Mixer), _) => "attention",
        (Some(Place::Recurrence), _) => "recurrent",
        (Some(Place::FeedForward), _) => "feed_forward",
        (Some(Place::Head | Place::TokenHead) | None, _) => "head",
    }
}

impl Count<'_> {
    fn is_trained(&self, path: &str) -> bool {
        let in_full = |lora: &LoraConfig| {
            let found = lora.in_full(std::iter::once(path));
            found.is_ok_and(|found| !found.is_empty())
        };
        self.lora
            .is_none_or(|lora| lora::is_adapter(path) || in_full(lora))
    }
}

impl ModuleVisitor for Count<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let role = self.path.role(&ROLES);
        if role.kind.is_some_and(ParameterKind::is_untrained) {
            return;
        }
        let shape = param.lazy_shape().to_vec();
        let values = shape.iter().fold(1, |n: usize, d| n.saturating_mul(*d));
        let path = self.path.joined();
        let part = match lora::is_adapter(&path) {
            true => "adapters",
            false => part(role),
        };
        let shown = match role.side {
            Some(StackSide::Generator) => GENERATOR,
            Some(StackSide::PixelDecoder) => PIXEL_DECODER,
            Some(StackSide::ProjectionHead) => PROJECTION_HEAD,
            Some(StackSide::Encoder | StackSide::Decoder) | None => part,
        };
        let count = self.parts.entry(shown).or_default();
        *count = count.saturating_add(values);
        let is_frozen = |group: &ParamGroup| group.matches(&param.id, Some(path.as_str()));
        if !self.is_trained(&path) || self.frozen.iter().any(is_frozen) {
            return;
        }
        self.trained = self.trained.saturating_add(values);
        let squares = count_preconditioners(&shape, self.max_precond_dim);
        self.preconditioners = self.preconditioners.saturating_add(squares);
        self.largest.preconditioners = squares.max(self.largest.preconditioners);
        let found = self.matrices.as_ref();
        let found = found.is_some_and(|group| group.matches(&param.id, Some(path.as_str())));
        let largest = match found && is_matrix(role, D) {
            true => {
                self.orthogonal = self.orthogonal.saturating_add(values);
                &mut self.largest.matrices
            }
            false => &mut self.largest.others,
        };
        *largest = values.max(*largest);
    }

    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }
}
