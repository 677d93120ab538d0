//! Attention with vectors by distance as a Burn backend extension: a separate operation, so that plain attention does
//! not carry these tensors.

use burn::backend::{Backend, ExtensionType, backend_extension, tensor::FloatTensor};

use super::DistanceRows;
use crate::kernel::extension::{AttentionGradients, AttentionSaved, AttentionSettings, Maybe};

/// The tensors of [`super::Relative`].
#[derive(Clone, Debug, ExtensionType)]
pub struct DistanceTensors<B: Backend> {
    /// u, `[H, D]`.
    #[extension_type]
    pub content_shift: Maybe<B>,
    /// v, `[H, D]`.
    #[extension_type]
    pub distance_shift: Maybe<B>,
    /// The table that is multiplied with queries, `[1 or H, rows, D]`.
    #[extension_type]
    pub queries: Maybe<B>,
    /// The table that is multiplied with keys.
    #[extension_type]
    pub keys: Maybe<B>,
    /// The table that is added to values.
    #[extension_type]
    pub values: Maybe<B>,
}

impl<B: Backend> DistanceTensors<B> {
    /// Returns all tensors, in order.
    pub fn into_array(self) -> [Maybe<B>; 5] {
        [
            self.content_shift,
            self.distance_shift,
            self.queries,
            self.keys,
            self.values,
        ]
    }

    /// The inverse of [`Self::into_array`].
    pub fn from_array(all: [Maybe<B>; 5]) -> Self {
        let [content_shift, distance_shift, queries, keys, values] = all;
        Self {
            content_shift,
            distance_shift,
            queries,
            keys,
            values,
        }
    }

    /// Combines the tensors with their rows: returns the shifts u and v, and the tables of queries, keys and values.
    pub fn into_parts<T>(
        self,
        rows: &[Option<DistanceRows>; 3],
        mut table: impl FnMut(FloatTensor<B>, &DistanceRows) -> T,
    ) -> DistanceParts<B, T> {
        let [content, distance, tables @ ..] = self.into_array().map(Maybe::into_option);
        let mut rows = rows.iter();
        let tables = tables.map(|x| {
            let rows = rows.next().and_then(Option::as_ref);
            let (x, rows) = x.zip(rows)?;
            Some(table(x, rows))
        });
        DistanceParts {
            shifts: [content, distance],
            tables,
        }
    }
}

/// [`DistanceTensors`] as a kernel holds them.
pub struct DistanceParts<B: Backend, T> {
    /// The query shifts u and v, `[H, D]`.
    pub shifts: [Option<FloatTensor<B>>; 2],
    /// Tables of queries, keys and values.
    pub tables: [Option<T>; 3],
}

/// Settings other than the tensors.
#[derive(Clone, Debug)]
pub struct RelativeSettings {
    /// Settings of attention; the scale already includes the additional factor of all scores.
    pub attention: AttentionSettings,
    /// Rows of the tables of queries, keys and values, for tables that exist.
    pub rows: [Option<DistanceRows>; 3],
}

/// Values of the forward pass that the backward pass needs.
#[derive(Clone, Debug)]
pub struct RelativeSaved<B: Backend> {
    /// Saved values of attention.
    pub attention: AttentionSaved<B>,
    /// Shifts and tables.
    pub tensors: DistanceTensors<B>,
}

/// Gradients of all float arguments.
#[derive(Debug)]
pub struct RelativeGradients<B: Backend> {
    /// Gradients of attention's own arguments.
    pub attention: AttentionGradients<B>,
    /// Gradients of shifts and tables that are wanted.
    pub tensors: [Option<FloatTensor<B>>; 5],
}

/// Which optional gradients a backward pass computes.
#[derive(Clone, Copy, Debug)]
pub struct WantedGradients {
    /// Whether the gradient of the bias is wanted.
    pub bias: bool,
    /// Whether each gradient of shifts and tables is wanted.
    pub tensors: [bool; 5],
}

/// The backward half of the operation, which is never dispatched.
pub trait RelativeBackwardOps: Backend {
    /// Runs attention and keeps what its backward pass needs.
    fn relative_attention_saving(
        inputs: [FloatTensor<Self>; 3],
        bias: Maybe<Self>,
        tensors: DistanceTensors<Self>,
        settings: RelativeSettings,
    ) -> RelativeSaved<Self>;
    /// Returns the gradients of attention with vectors by distance.
    fn relative_attention_backward(
        saved: RelativeSaved<Self>,
        grad: FloatTensor<Self>,
        settings: RelativeSettings,
        wanted: WantedGradients,
    ) -> RelativeGradients<Self>;
}

/// The forward half of the operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait RelativeOps: Backend {
    /// Softmax attention with vectors by distance.
    fn relative_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        #[extension_type] tensors: DistanceTensors<Self>,
        settings: RelativeSettings,
    ) -> FloatTensor<Self>;
}
