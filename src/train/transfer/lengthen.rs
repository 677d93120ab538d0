//! How position tables get another length.

use burn::tensor::TensorData;

/// How a position table gets another length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthChange {
    /// New rows are interpolated between the old ones.
    Resample,
    /// The old rows are repeated.
    Repeat,
}

/// Changes a position table `[from, d]`, given with its path, to another shape; `None` if it cannot.
pub type Resample<'a> =
    &'a dyn Fn((&str, &TensorData), &[usize], LengthChange) -> Option<TensorData>;
