//! The selective scan as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// The parts of a scan beside its tensors.
#[derive(Clone, Debug)]
pub struct ScanSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
}

/// The tensors of a scan that gradients go to.
#[derive(Clone, Debug)]
pub struct Scanned<T> {
    /// Written into the states.
    pub u: T,
    /// Steps before their softplus.
    pub raw: T,
    /// Gates before their SiLU.
    pub gate: T,
    /// Decay.
    pub decay: T,
    /// What is written and what is read.
    pub directions: T,
    /// The share that passes by.
    pub skip: T,
}

/// The values that a scan's backward pass needs of its forward pass.
#[derive(Clone, Debug)]
pub struct ScanSaved<B: Backend> {
    /// The tensors that gradients go to.
    pub inputs: Scanned<FloatTensor<B>>,
    /// States before each chunk of positions, `[batch, chunks, n, channels]`.
    pub states: FloatTensor<B>,
}

/// The backward half, which is never dispatched.
pub trait SelectiveScanBackwardOps: Backend {
    /// [`SelectiveScanOps::selective_scan`] that also gives what its backward pass needs.
    fn selective_scan_saving(
        inputs: Scanned<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &ScanSettings,
    ) -> (FloatTensor<Self>, ScanSaved<Self>);
    /// Gradients of a scan.
    fn selective_scan_backward(
        saved: ScanSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &ScanSettings,
    ) -> Scanned<FloatTensor<Self>>;
}

/// The operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait SelectiveScanOps: Backend {
    /// Outputs `[batch·seq, channels]`, then `[batch·n, channels]` of the last states when the settings ask for them.
    #[allow(clippy::too_many_arguments)]
    fn selective_scan(
        u: FloatTensor<Self>,
        raw: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        decay: FloatTensor<Self>,
        directions: FloatTensor<Self>,
        skip: FloatTensor<Self>,
        #[extension_type] state: Maybe<Self>,
        settings: ScanSettings,
    ) -> FloatTensor<Self>;
}
