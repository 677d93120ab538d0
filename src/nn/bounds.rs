//! Parameters that stay within a range: after each update those that left it are put back to its end.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;

/// The range of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The struct that holds it.
    pub holder: &'static str,
    /// Its field.
    pub field: &'static str,
    /// The least that an element may be.
    pub least: f32,
    /// The most.
    pub most: f32,
}

/// A model whose parameters are within their ranges.
pub fn within<M: Module>(model: M, bounds: &[Bounds]) -> M {
    model.map(&mut Within {
        bounds,
        range: None,
    })
}

struct Within<'a> {
    bounds: &'a [Bounds],
    /// Of the parameter that comes next.
    range: Option<[f32; 2]>,
}

impl ModuleMapper for Within<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        let holder = container.strip_prefix("Struct:");
        let mut bounds = self.bounds.iter();
        let own = bounds.find(|bounds| name == bounds.field && holder == Some(bounds.holder));
        self.range = own.map(|bounds| [bounds.least, bounds.most]);
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
