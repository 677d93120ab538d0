//! The parameters of a module by dotted path: `stack.blocks.0.attention.query.weight`.
//!
//! Files, groups and messages name a parameter by its path. Optimizer states are keyed by `ParamId`, which Burn draws
//! at random; [`name_parameters`] derives the ids from the paths, so that two processes that build the same model agree
//! on them and equal runs write equal files.

use crate::kernel;
use crate::nn::path::Path;
use crate::nn::role::{ParameterKind, Role};
use crate::task::{ROLES, is_state};
use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Bool, Int, Tensor};
use sha2::{Digest, Sha256};

/// A parameter without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Path in the model ([`crate::nn::path`]).
    pub path: String,
    /// The path including the names of enum variants, which patterns of old runs may refer to.
    pub old_path: String,
    /// Key of its gradient and of its optimizer state.
    pub id: ParamId,
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
    /// Its kind and its place in the model.
    pub role: Role,
}

/// Lists the float parameters in the order of the module's fields, without state that no optimizer updates. Values that
/// are not drawn yet stay undrawn.
pub fn list<M: Module>(model: &M) -> Vec<Parameter> {
    let mut all = list_with_state(model);
    all.retain(|parameter| !parameter.role.kind.is_some_and(ParameterKind::is_untrained));
    all
}

/// Returns, for each parameter, whether the pattern matches its path. A pattern that matches none may come from an old
/// run whose paths contained the names of enum variants, so it is then matched against those.
pub fn matching(pattern: &ParamGroup, parameters: &[Parameter]) -> Vec<bool> {
    let hits = |path: fn(&Parameter) -> &str| -> Vec<bool> {
        let all = parameters.iter();
        all.map(|p| pattern.matches(&p.id, Some(path(p)))).collect()
    };
    let found = hits(|p| &p.path);
    match found.contains(&true) {
        true => found,
        false => hits(|p| &p.old_path),
    }
}

/// Lists the content of a model's checkpoint: the float parameters and the state of norms, in the order of the fields.
pub fn list_with_state<M: Module>(model: &M) -> Vec<Parameter> {
    let mut lister = Lister::default();
    model.visit(&mut lister);
    lister.found
}

/// Counts the values of all parameters that an optimizer may update.
pub fn count<M: Module>(model: &M) -> usize {
    let sizes = list(model).into_iter();
    sizes.map(|p| p.shape.iter().product::<usize>()).sum()
}

/// Replaces the ids of all parameters by functions of their paths.
///
/// Call it once on a freshly built model, before any optimizer sees it.
pub fn name_parameters<M: Module>(model: M) -> M {
    model.map(&mut Namer::default())
}

/// Draws the values of all parameters now, in order.
pub fn materialize<M: Module>(model: M) -> M {
    model.visit(&mut Drawer);
    model
}

/// Returns the values by id, without gradients; Burn's container for tensors of any rank is named after gradients.
pub fn values<M: Module>(model: &M) -> GradientsParams {
    let mut values = Values(GradientsParams::new());
    model.visit(&mut values);
    values.0
}

/// As [`values`], without frozen parameters.
pub fn trainable_values<M: Module>(model: &M) -> GradientsParams {
    let mut moving = Moving {
        of_norm: false,
        found: GradientsParams::new(),
    };
    model.visit(&mut moving);
    moving.found
}

struct Moving {
    /// Whether the visited field is state kept alongside the parameters.
    of_norm: bool,
    found: GradientsParams,
}

impl ModuleVisitor for Moving {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.of_norm = is_state(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.of_norm = false;
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        if self.of_norm || value.is_require_grad() {
            self.found.register(param.id, kernel::untracked(value));
        }
    }
}

struct Values(GradientsParams);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.register(param.id, kernel::untracked(param.val()));
    }
}

/// Returns the state that norms and tasks keep alongside their parameters, by id: training updates it in the forward
/// pass or after a step.
pub fn states<M: Module>(model: &M) -> GradientsParams {
    let mut states = States {
        within: false,
        found: GradientsParams::new(),
    };
    model.visit(&mut states);
    states.found
}

/// Returns the module with `states` as the state of its norms and its task.
pub fn with_states<M: Module>(model: M, states: GradientsParams) -> M {
    model.map(&mut Restored(states))
}

struct States {
    /// Whether the visited field is such a state.
    within: bool,
    found: GradientsParams,
}

impl ModuleVisitor for States {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.within = is_state(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.within = false;
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.within {
            self.found
                .register(param.id, kernel::untracked(param.val()));
        }
    }
}

struct Restored(GradientsParams);

impl ModuleMapper for Restored {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(value) = self.0.remove::<D>(param.id) else {
            return param;
        };
        let (id, old, mapper) = param.consume();
        let value = match old.device().is_autodiff() {
            true => Tensor::from_inner(value),
            false => value,
        };
        Param::from_mapped_value(id, value, mapper)
    }
}

struct Drawer;

impl ModuleVisitor for Drawer {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        drop(param.val());
    }
}

/// Returns the id of the parameter at a path: the first 64 bits of the path's SHA-256.
pub fn id_of(path: &str) -> ParamId {
    let digest = Sha256::digest(path.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    ParamId::from(u64::from_le_bytes(first))
}

#[derive(Default)]
struct Lister {
    path: Path,
    found: Vec<Parameter>,
}

impl ModuleVisitor for Lister {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.push(Parameter {
            path: self.path.joined(),
            old_path: self.path.with_variants(),
            id: param.id,
            shape: param.lazy_shape().to_vec(),
            role: self.path.role(&ROLES),
        });
    }
}

#[derive(Default)]
struct Namer {
    path: Path,
}

impl ModuleMapper for Namer {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, mut param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.id = id_of(&self.path.joined());
        param
    }

    fn map_int<const D: usize>(
        &mut self,
        mut param: Param<Tensor<D, Int>>,
    ) -> Param<Tensor<D, Int>> {
        param.id = id_of(&self.path.joined());
        param
    }

    fn map_bool<const D: usize>(
        &mut self,
        mut param: Param<Tensor<D, Bool>>,
    ) -> Param<Tensor<D, Bool>> {
        param.id = id_of(&self.path.joined());
        param
    }

    fn map_flag(&mut self, mut flag: Param<Flag>) -> Param<Flag> {
        flag.id = id_of(&self.path.joined());
        flag
    }
}
