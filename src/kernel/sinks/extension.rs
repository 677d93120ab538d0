//! Attention with sinks as a Burn backend extension: a separate operation, so that plain attention does not carry
//! them.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use super::saving;
use crate::kernel::extension::{AttentionSettings, Maybe};

/// The forward half of the operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait SinkOps: Backend {
    /// Softmax attention with one sink score per head, `[H]`.
    fn attention_beside_sinks(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] bias: Maybe<Self>,
        sinks: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> FloatTensor<Self>;
}

#[cfg(feature = "flex")]
impl SinkOps for burn_flex::Flex {
    fn attention_beside_sinks(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: Maybe<Self>,
        sinks: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        saving::<Self>([q, k, v], bias, sinks, settings).out
    }
}

#[cfg(all(feature = "gpu", not(feature = "fusion")))]
impl SinkOps for burn_cubecl::CubeBackend {
    fn attention_beside_sinks(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: Maybe<Self>,
        sinks: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        saving::<Self>([q, k, v], bias, sinks, settings).out
    }
}
