//! The number format of what is multiplied (`train.dtype = "mixed_bf16"`, `train.tf32`).
//!
//! With bfloat16 products, the operands of [`super::linear`], [`super::head_loss`] and of attention's two products are rounded
//! to 8 significant bits; sums, and everything between products, stay in 32 bits (Kalamkar et al. 2019, "A study of BFLOAT16
//! for deep learning training"). bfloat16 has the range of 32-bit floats, so that losses are not scaled. A device multiplies
//! in bfloat16 and adds up in 32 bits (the composed form rounds the result there, too); the kernels of flex have no such product: operands are
//! rounded there and multiplied in 32 bits.

use super::is_here;
use burn::tensor::{DType, FloatDType, Tensor};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether operands are rounded, in this process: a run settles it with its device, before its first tensor.
static ROUNDED: AtomicBool = AtomicBool::new(false);

/// Has 32-bit operands of products rounded to bfloat16, or not.
pub fn round_operands(rounds: bool) {
    ROUNDED.store(rounds, Ordering::Relaxed);
}

/// Whether operands of products are rounded.
pub fn rounds_operands() -> bool {
    ROUNDED.load(Ordering::Relaxed)
}

/// Whether operands of 32 bits may be rounded to TF32, in this process.
static TF32: AtomicBool = AtomicBool::new(true);

/// Has linear maps, attention, tables of distances and the loss of a vocabulary multiply 32-bit numbers as TF32, of 11 significant
/// bits, on NVIDIA's tensor cores, or not.
pub fn allow_tf32(allowed: bool) {
    TF32.store(allowed, Ordering::Relaxed);
}

/// Whether products of 32-bit numbers may round their operands to TF32.
pub fn allows_tf32() -> bool {
    TF32.load(Ordering::Relaxed)
}

/// An operand for a kernel: those of flex multiply in 32 bits, those of GPUs round in their products.
#[cfg(feature = "kernels")]
pub(super) fn operand<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match rounds_operands() && x.dtype() == DType::F32 && is_here(&x) {
        true => x.cast(FloatDType::BF16).cast(FloatDType::F32),
        false => x,
    }
}

/// `x·y`.
pub(super) fn product<const D: usize>(x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
    if !rounds_operands() || x.dtype() != DType::F32 {
        return x.matmul(y);
    }
    let (x, y) = (x.cast(FloatDType::BF16), y.cast(FloatDType::BF16));
    match is_here(&x) {
        true => x.cast(FloatDType::F32).matmul(y.cast(FloatDType::F32)),
        false => x.matmul(y).cast(FloatDType::F32),
    }
}
