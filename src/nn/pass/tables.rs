//! Tables that depend only on sizes and positions and are shared by the layers of a pass; the most recent ones are cached.

mod angles;
mod fourier;

pub use angles::Angles;
use burn::tensor::Tensor;
pub use fourier::FourierTransforms;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The cached tables of a pass, shared with its recomputations in the backward pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    angles: Arc<Mutex<Option<angles::CachedAngles>>>,
    waves: Arc<Mutex<Option<fourier::CachedTransforms>>>,
}

/// Locks a cached table. Each value is replaced as a whole, so a poisoned lock is still valid.
fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a table can be used in one operation with `x`.
fn is_usable_with<const D: usize>(table: &Tensor<D>, x: &Tensor<3>) -> bool {
    let (own, others) = (table.device(), x.device());
    // Devices that compare equal may still differ in autodiff.
    own == others && own.is_autodiff() == others.is_autodiff() && table.dtype() == x.dtype()
}
