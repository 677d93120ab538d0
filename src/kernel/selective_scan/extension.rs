//! The selective scan as a Burn backend extension. Shapes are those of the public function.

use burn::backend::{Backend, backend_extension, tensor::FloatTensor};

use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::Sequences;

/// Settings of a scan other than its tensors.
#[derive(Clone, Debug)]
pub struct ScanSettings {
    /// Where sequences begin and end.
    pub sequences: Sequences,
    /// Whether the last states follow the outputs.
    pub last: bool,
}

/// The tensors of a scan that receive gradients.
#[derive(Clone, Debug)]
pub struct ScanInputs<T> {
    /// Values written to the states.
    pub u: T,
    /// Steps before their softplus.
    pub raw: T,
    /// Gates before their SiLU.
    pub gate: T,
    /// Decay.
    pub decay: T,
    /// Directions b, in which states are written, and c, in which they are read.
    pub directions: T,
    /// Factor of u that bypasses the states.
    pub skip: T,
}

/// Values of a scan's forward pass that its backward pass needs.
#[derive(Clone, Debug)]
pub struct ScanSaved<B: Backend> {
    /// The tensors that receive gradients.
    pub inputs: ScanInputs<FloatTensor<B>>,
    /// States before each chunk of positions, `[batch, chunks, n, channels]`.
    pub states: FloatTensor<B>,
}

/// The backward half of the operation, which is never dispatched.
pub trait SelectiveScanBackwardOps: Backend {
    /// Runs [`SelectiveScanOps::selective_scan`] and keeps what its backward pass needs.
    fn selective_scan_saving(
        inputs: ScanInputs<FloatTensor<Self>>,
        state: Maybe<Self>,
        settings: &ScanSettings,
    ) -> (FloatTensor<Self>, ScanSaved<Self>);
    /// Returns the gradients of a scan.
    fn selective_scan_backward(
        saved: ScanSaved<Self>,
        grad: FloatTensor<Self>,
        settings: &ScanSettings,
    ) -> ScanInputs<FloatTensor<Self>>;
}

/// The forward half of the operation.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    Cube: cfg(all(feature = "gpu", not(feature = "fusion"))),
    Autodiff
)]
pub trait SelectiveScanOps: Backend {
    /// Returns the outputs `[batch·seq, channels]`, followed by the last states `[batch·n, channels]` if the settings
    /// request them.
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
