//! Small helpers shared by our own optimizer steps.

use burn::optim::StateSource;
use burn::tensor::{DType, Device, FloatDType, Tensor};

/// Casts a tensor to the number format of the weights.
pub(super) fn like<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    if tensor.dtype() == dtype {
        tensor
    } else {
        tensor.cast(FloatDType::from(dtype))
    }
}

/// Reads a tensor of a record, in the number format that it was saved in.
pub(super) fn tensor<const D: usize>(
    prefix: &str,
    leaf: &str,
    source: &mut StateSource,
    device: &Device,
) -> Option<Tensor<D>> {
    let data = source.take_tensor(prefix, leaf)?;
    if data.rank() != D {
        return None;
    }
    let dtype = data.dtype();
    Some(Tensor::from_data(data, (device, dtype)))
}

/// Reads a counter of a record.
pub(super) fn counter(prefix: &str, leaf: &str, source: &mut StateSource) -> Option<usize> {
    usize::try_from(source.take_scalar(prefix, leaf)?).ok()
}
