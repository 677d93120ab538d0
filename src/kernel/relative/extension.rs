//! Attention with vectors of distances as a Burn backend extension: an operation beside plain attention, which stays
//! without the share of distances.

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
    /// All of them, in their order.
    pub fn all(self) -> [Maybe<B>; 5] {
        [
            self.content_shift,
            self.distance_shift,
            self.queries,
            self.keys,
            self.values,
        ]
    }

    /// The opposite of [`Self::all`].
    pub fn of(all: [Maybe<B>; 5]) -> Self {
        let [content_shift, distance_shift, queries, keys, values] = all;
        Self {
            content_shift,
            distance_shift,
            queries,
            keys,
            values,
        }
    }

    /// The shifts u and v, and the tables of queries, keys and values, made from their tensors and rows.
    pub fn gathered<T>(
        self,
        rows: &[Option<DistanceRows>; 3],
        mut table: impl FnMut(FloatTensor<B>, &DistanceRows) -> T,
    ) -> Gathered<B, T> {
        let [content, distance, tables @ ..] = self.all().map(Maybe::into_option);
        let mut rows = rows.iter();
        let tables = tables.map(|x| {
            let rows = rows.next().and_then(Option::as_ref);
            let (x, rows) = x.zip(rows)?;
            Some(table(x, rows))
        });
        Gathered {
            shifts: [content, distance],
            tables,
        }
    }
}

/// [`DistanceTensors`] as a kernel holds them.
pub struct Gathered<B: Backend, T> {
    /// u and v, `[H, D]`.
    pub shifts: [Option<FloatTensor<B>>; 2],
    /// Of queries, keys and values.
    pub tables: [Option<T>; 3],
}

/// Its settings that are not tensors.
#[derive(Clone, Debug)]
pub struct RelativeSettings {
    /// Those of attention; the scale has the factor of all scores in it.
    pub attention: AttentionSettings,
    /// The rows of the tables of queries, keys and values, where there is a table.
    pub rows: [Option<DistanceRows>; 3],
}

/// The values that the backward pass needs of the forward pass.
#[derive(Clone, Debug)]
pub struct RelativeSaved<B: Backend> {
    /// Those of attention.
    pub attention: AttentionSaved<B>,
    /// Shifts and tables.
    pub tensors: DistanceTensors<B>,
}

/// The gradients of all float arguments.
#[derive(Debug)]
pub struct RelativeGradients<B: Backend> {
    /// Those of attention's own.
    pub attention: AttentionGradients<B>,
    /// Of shifts and tables, where they are wanted.
    pub tensors: [Option<FloatTensor<B>>; 5],
}

/// The gradients that a backward pass may leave out.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Of the bias.
    pub bias: bool,
    /// Of shifts and tables.
    pub tensors: [bool; 5],
}

/// The backward half, which is never dispatched.
pub trait RelativeBackwardOps: Backend {
    /// Attention that also gives what its backward pass needs.
    fn relative_attention_saving(
        inputs: [FloatTensor<Self>; 3],
        bias: Maybe<Self>,
        tensors: DistanceTensors<Self>,
        settings: RelativeSettings,
    ) -> RelativeSaved<Self>;
    /// Its gradients.
    fn relative_attention_backward(
        saved: RelativeSaved<Self>,
        grad: FloatTensor<Self>,
        settings: RelativeSettings,
        wanted: Wanted,
    ) -> RelativeGradients<Self>;
}

/// The operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait RelativeOps: Backend {
    /// Softmax attention with vectors of distances.
    fn relative_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        #[extension_type] tensors: DistanceTensors<Self>,
        settings: RelativeSettings,
    ) -> FloatTensor<Self>;
}
