//! How tables of positions get another length.

use burn::tensor::TensorData;

/// The way in which a table of positions gets another length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengthen {
    /// New rows lie between the old ones.
    Resample,
    /// The old rows are copied one behind the other.
    Repeat,
}

/// Makes a table of positions `[from, d]`, given with its path, one of another shape; `None` when it cannot.
pub type Resample<'a> = &'a dyn Fn((&str, &TensorData), &[usize], Lengthen) -> Option<TensorData>;
