//! Between Burn's CPU tensors and slices: contiguous views, outputs, and cutting work into pieces.

use burn::tensor::{Shape, TensorData};
use burn_flex::FlexTensor;

use super::threads;

/// Elements of one piece of element-wise work: 64 KiB, which fits a core's cache beside its neighbours.
pub const PIECE: usize = 16 * 1024;

/// Element-wise work of up to this many elements stays on the calling thread: it is one piece.
pub const ALONE: usize = PIECE;

/// The dimensions of a tensor.
pub fn dims<const D: usize>(x: &FlexTensor) -> [usize; D] {
    let shape = x.layout().shape();
    std::array::from_fn(|i| shape[i])
}

/// The tensor with its elements in order and nothing else in its buffer; copies only when it must.
pub fn contiguous(x: FlexTensor) -> FlexTensor {
    let plain = x.to_contiguous();
    drop(x);
    plain
}

/// The elements of a [`contiguous`] tensor.
pub fn slice(x: &FlexTensor) -> &[f32] {
    x.storage::<f32>()
}

/// The elements of a [`contiguous`] tensor for writing, when nothing else holds its buffer.
pub fn slice_mut(x: &mut FlexTensor) -> Option<&mut [f32]> {
    x.try_storage_mut::<f32>()
}

/// A tensor from its elements; no copy.
pub fn tensor(elements: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(elements, shape.into()))
}

/// The same elements under another shape; x is [`contiguous`].
pub fn reshaped(x: FlexTensor, shape: impl Into<Shape>) -> FlexTensor {
    x.reshape(shape.into())
}

/// A buffer of `len` elements whose values are not defined: the caller writes every element before any is
/// read.
#[allow(clippy::uninit_vec)]
pub fn output(len: usize) -> Vec<f32> {
    let mut elements = Vec::with_capacity(len);
    // SAFETY: the capacity was just reserved, every bit pattern is an f32, and every kernel here writes
    // the whole buffer before it is read. Zeroing it first would cost a pass over memory.
    unsafe { elements.set_len(len) };
    elements
}

/// A tensor's memory that several pieces of work write disjoint rows of.
pub struct Shared {
    start: *mut f32,
    len: usize,
}

// SAFETY: the pointer is only used through `row`, whose callers write disjoint rows.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Borrows a buffer for the time of a parallel loop.
    pub fn new(buffer: &mut [f32]) -> Self {
        Self {
            start: buffer.as_mut_ptr(),
            len: buffer.len(),
        }
    }

    /// `len` elements from `at`.
    ///
    /// # Safety
    /// The buffer outlives the slice, and no other slice of these elements is alive.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn row(&self, at: usize, len: usize) -> &mut [f32] {
        assert!(at + len <= self.len, "a row of a shared buffer");
        // SAFETY: in bounds by the assertion; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}

/// Calls `work(first, piece)` for consecutive pieces of `out`, on all threads when there is enough of it.
pub fn in_pieces(out: &mut [f32], piece: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    let alone = out.len() <= ALONE.max(piece);
    let each = |(i, part): (usize, &mut [f32])| work(i * piece, part);
    let pieces = out.chunks_mut(piece).enumerate();
    if alone {
        pieces.for_each(each);
    } else {
        threads::for_each(pieces, each);
    }
}
