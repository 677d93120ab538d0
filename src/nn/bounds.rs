//! Parameters that stay within a range: after each update, values outside it are clamped to its ends.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;

/// The allowed range of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Name of the struct that holds the parameter.
    pub holder: &'static str,
    /// Name of the parameter's field in that struct.
    pub field: &'static str,
    /// Smallest value that an element may have.
    pub min: f32,
    /// Largest value that an element may have.
    pub max: f32,
}

/// Returns the model with each bounded parameter clamped to its range.
pub fn clamp_to_bounds<M: Module>(model: M, bounds: &[Bounds]) -> M {
    model.map(&mut ClampMapper {
        bounds,
        range: None,
    })
}

struct ClampMapper<'a> {
    bounds: &'a [Bounds],
    /// The range of the next parameter that is visited, if it has one.
    range: Option<[f32; 2]>,
}

impl ModuleMapper for ClampMapper<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        let holder = container.strip_prefix("Struct:");
        let mut bounds = self.bounds.iter();
        let own = bounds.find(|bounds| name == bounds.field && holder == Some(bounds.holder));
        self.range = own.map(|bounds| [bounds.min, bounds.max]);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some([least, most]) = self.range else {
            return param;
        };
        let (id, old, mapper) = param.consume();
        let learns = old.is_require_grad();
        let value = match old.device().is_autodiff() {
            true => Tensor::from_inner(old.inner().clamp(least, most)).set_require_grad(learns),
            false => old.clamp(least, most),
        };
        Param::from_mapped_value(id, value, mapper)
    }
}
