//! The number format of the operands of matrix products (`train.dtype = "mixed_bf16"`, `train.tf32`).
//!
//! With bfloat16 products, the operands of [`super::linear`], [`super::head_loss`] and of attention's two products
//! are rounded to 8 significant bits; sums, and everything between products, stay in 32 bits (Kalamkar et al. 2019,
//! "A study of BFLOAT16 for deep learning training"). bfloat16 has the range of 32-bit floats, so no loss scaling is
//! needed. A GPU multiplies in bfloat16 and accumulates in 32 bits (the composed form also rounds the result there).
//! Flex has no bfloat16 product: its operands are rounded and then multiplied in 32 bits.

use super::is_on_host;
use burn::tensor::{DType, FloatDType, Tensor};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether operands are rounded in this process. A run sets this together with its device, before its first tensor.
static ROUND_OPERANDS: AtomicBool = AtomicBool::new(false);

/// Sets whether 32-bit operands of products are rounded to bfloat16.
pub fn round_operands(rounds: bool) {
    ROUND_OPERANDS.store(rounds, Ordering::Relaxed);
}

/// Returns whether operands of products are rounded to bfloat16.
pub fn rounds_operands() -> bool {
    ROUND_OPERANDS.load(Ordering::Relaxed)
}

/// Whether 32-bit operands may be rounded to TF32 in this process.
static TF32: AtomicBool = AtomicBool::new(true);

/// Sets whether linear maps, attention, relative-distance tables and the LM head's loss may multiply 32-bit numbers
/// as TF32, with 11 significant bits, on NVIDIA's tensor cores.
pub fn allow_tf32(allowed: bool) {
    TF32.store(allowed, Ordering::Relaxed);
}

/// Returns whether products of 32-bit numbers may round their operands to TF32.
pub fn allows_tf32() -> bool {
    TF32.load(Ordering::Relaxed)
}

/// Prepares an operand for a kernel: it is rounded here for flex, which multiplies in 32 bits. GPU kernels round
/// inside their products.
#[cfg(feature = "kernels")]
pub(super) fn operand<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match rounds_operands() && x.dtype() == DType::F32 && is_on_host(&x) {
        true => x.cast(FloatDType::BF16).cast(FloatDType::F32),
        false => x,
    }
}

/// Returns `x·y`, with operands rounded to bfloat16 if [`rounds_operands`] holds.
pub(super) fn product<const D: usize>(x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
    if !rounds_operands() || x.dtype() != DType::F32 {
        return x.matmul(y);
    }
    let (x, y) = (x.cast(FloatDType::BF16), y.cast(FloatDType::BF16));
    match is_on_host(&x) {
        true => x.cast(FloatDType::F32).matmul(y.cast(FloatDType::F32)),
        false => x.matmul(y).cast(FloatDType::F32),
    }
}
