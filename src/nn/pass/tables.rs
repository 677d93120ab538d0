//! Tables that follow from sizes and positions alone, which the layers of a pass have in common: those asked for last are kept.

mod angles;
mod waves;

pub use angles::Angles;
use burn::tensor::Tensor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub use waves::Waves;

/// The tables that a pass has, in common with what is computed anew of it on the way back.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    angles: Arc<Mutex<Option<angles::Kept>>>,
    waves: Arc<Mutex<Option<waves::Kept>>>,
}

/// A kept table, of which each value is whole.
fn held<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a table can stand beside `x` in one operation.
fn beside<const D: usize>(table: &Tensor<D>, x: &Tensor<3>) -> bool {
    let (own, others) = (table.device(), x.device());
    // Equal devices may differ in this.
    own == others && own.is_autodiff() == others.is_autodiff() && table.dtype() == x.dtype()
}
