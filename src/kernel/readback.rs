//! Reads of device tensors by the host.
//!
//! A read waits until the device has finished all queued work, so the device idles afterwards until the host has
//! queued more. Training steps read as rarely as possible, and the reads are counted.

use super::untracked;
use burn::tensor::kind::Basic;
use burn::tensor::{DType, FloatDType, Tensor, TensorData};
use std::sync::atomic::{AtomicU64, Ordering};

static READS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of reads of this process so far, on all devices.
pub fn read_count() -> u64 {
    READS.load(Ordering::Relaxed)
}

/// Reads the values of a tensor.
pub fn read<const D: usize, K: Basic>(x: Tensor<D, K>) -> TensorData {
    READS.fetch_add(1, Ordering::Relaxed);
    x.into_data()
}

/// Reads several numbers `[1]`, which may have different dtypes, at once; nothing is tracked.
pub fn read_scalars(all: Vec<Tensor<1>>) -> Vec<f32> {
    if all.is_empty() {
        return Vec::new();
    }
    let plain = |x: Tensor<1>| match untracked(x) {
        x if x.dtype() == DType::F32 => x,
        x => x.cast(FloatDType::F32),
    };
    let mut all: Vec<Tensor<1>> = all.into_iter().map(plain).collect();
    let all = match all.len() {
        1 => all.swap_remove(0),
        _ => Tensor::cat(all, 0),
    };
    read(all).iter::<f32>().collect()
}
