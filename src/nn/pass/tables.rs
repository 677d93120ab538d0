//! Tables that follow from sizes and positions alone, which the layers of a pass have in common: those asked for last are kept.

mod angles;
mod waves;

pub use angles::Angles;
use burn::tensor::Tensor;
use std::cell::RefCell;
pub use waves::Waves;

/// The tables that a pass has.
#[derive(Debug, Default)]
pub(super) struct Tables {
    angles: RefCell<Option<angles::Kept>>,
    waves: RefCell<Option<waves::Kept>>,
}

/// Whether a table can stand beside `x` in one operation.
fn beside<const D: usize>(table: &Tensor<D>, x: &Tensor<3>) -> bool {
    let (own, others) = (table.device(), x.device());
    // Equal devices may differ in this.
    own == others && own.is_autodiff() == others.is_autodiff() && table.dtype() == x.dtype()
}
