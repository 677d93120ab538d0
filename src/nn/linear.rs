//! The affine map y = xWᵀ + b, with W `[d_out, d_in]`, as PyTorch stores it.

use super::init::{Init, MatrixRole};
use super::path::Path;
use crate::kernel;
use crate::nn::role::{BIAS, Roles, WEIGHT};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;
use std::collections::BTreeSet;

/// Roles of the parameters of [`Linear`].
pub const ROLES: Roles = Roles::new("Linear", &[("weight", WEIGHT), ("bias", BIAS)]);

/// An affine map of the last dimension.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[d_out, d_in]`.
    pub weight: Param<Tensor<2>>,
    /// `[d_out]`.
    pub bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    /// Builds a map from `d_in` to `d_out`.
    pub fn new(d_in: usize, d_out: usize, bias: bool, role: MatrixRole, init: &Init) -> Self {
        Self {
            weight: init.linear(d_in, d_out, role),
            bias: bias.then(|| init.vector(d_out, 0.0)),
        }
    }

    /// Returns the map as an output head that scores classes or tokens.
    pub fn head(&self) -> kernel::Head {
        kernel::Head {
            weight: self.weight.val(),
            bias: self.bias.as_ref().map(Param::val),
        }
    }

    /// Maps `[batch, seq, d_in]` to `[batch, seq, d_out]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.forward_operand(kernel::Operand::new(x))
    }

    /// Applies `activation` to the result of [`Self::forward`].
    pub fn forward_activated(&self, x: Tensor<3>, activation: kernel::Activation) -> Tensor<3> {
        let bias = self.bias.as_ref().map(Param::val);
        kernel::Operand::new(x).activated(self.weight.val(), bias, activation)
    }

    /// Like [`Self::forward`], for an input that several maps read.
    pub fn forward_operand(&self, x: kernel::Operand) -> Tensor<3> {
        x.linear(self.weight.val(), self.bias.as_ref().map(Param::val))
    }
}

/// The container name of a [`Linear`]'s fields in Burn's traversals.
const CONTAINER: &str = "Struct:Linear";

/// Returns the paths of the weights of all linear maps in a module.
pub fn weight_paths<M: Module>(module: &M) -> BTreeSet<String> {
    let mut linear = WeightPathVisitor::default();
    module.visit(&mut linear);
    linear.found
}

#[derive(Default)]
struct WeightPathVisitor {
    path: Path,
    within: bool,
    found: BTreeSet<String>,
}

impl ModuleVisitor for WeightPathVisitor {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
        self.within = container == CONTAINER;
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, _: &Param<Tensor<D>>) {
        if self.within && D == 2 {
            self.found.insert(self.path.joined());
        }
    }
}

/// Returns the model with the weights of its affine maps in the layout of [`kernel::repacked`], for decoding on a CPU. The model
/// can then be used, but neither trained nor saved. Its results are the same up to the order of sums. Adapters are merged into
/// the weights.
pub fn repacked_for_decoding<M: Module>(model: M) -> M {
    model.materialize().map(&mut RepackMapper::default())
}

/// Affine maps whose weights decoding multiplies from both sides, as (container of the module, field). They keep their layout.
const NOT_REPACKED: [(&str, &str); 2] = [("Struct:Latent", "key"), ("Struct:Latent", "value")];

#[derive(Default)]
struct RepackMapper {
    /// Whether the next parameter belongs to an affine map.
    affine: bool,
    /// Whether the traversal is inside one of [`NOT_REPACKED`].
    stays: bool,
}

impl ModuleMapper for RepackMapper {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.stays |= NOT_REPACKED.contains(&(container, name));
        self.affine = container == CONTAINER && !self.stays;
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        if NOT_REPACKED.contains(&(container, name)) {
            self.stays = false;
        }
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.affine {
            true => param.map(kernel::repacked),
            false => param,
        }
    }
}
