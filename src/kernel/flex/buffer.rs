//! Conversion between Burn's CPU tensors and slices: contiguous views, outputs, and division of work into pieces.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use burn::tensor::{Shape, TensorData};
use burn_flex::FlexTensor;

use super::threads;

pub use super::disjoint::{SharedBuffer, UninitBuffer};

/// Number of elements of a piece of elementwise work: 64 KiB, which fit in a core's cache together with the other
/// operands.
pub const PIECE_LEN: usize = 16 * 1024;

/// Number of elements of a piece that starts as zeros ([`build_zeroed`]): together with its operands it fits in a core's L1
/// cache, so that the zeros cost next to nothing.
pub const ZEROED_PIECE_LEN: usize = 4 * 1024;

/// Number of elements of elementwise work up to which it stays on the calling thread, as one piece.
pub const SINGLE_THREAD_LEN: usize = PIECE_LEN;

/// Returns the dimensions of a tensor.
pub fn dims<const D: usize>(x: &FlexTensor) -> [usize; D] {
    let shape = x.layout().shape();
    std::array::from_fn(|i| shape[i])
}

/// Returns the tensor with its elements in order and nothing else in its buffer; copies only if it must.
pub fn contiguous(x: FlexTensor) -> FlexTensor {
    let plain = x.to_contiguous();
    drop(x);
    plain
}

/// Returns the elements of a [`contiguous`] tensor.
pub fn slice(x: &FlexTensor) -> &[f32] {
    x.storage::<f32>()
}

/// Returns the elements of a [`contiguous`] tensor for writing, if nothing else refers to its buffer.
pub fn slice_mut(x: &mut FlexTensor) -> Option<&mut [f32]> {
    x.try_storage_mut::<f32>()
}

/// Wraps elements as a tensor, without a copy.
pub fn tensor(elements: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(elements, shape.into()))
}

/// Returns the same elements in another shape; x must be [`contiguous`].
pub fn reshaped(x: FlexTensor, shape: impl Into<Shape>) -> FlexTensor {
    x.reshape(shape.into())
}

/// Creates a buffer that `work(first, piece)` writes in consecutive pieces, on all threads if it is large enough. The
/// task that writes a piece first fills it with zeros while it is in a core's cache. So elements that a task does not
/// write are zero, never undefined, and no separate pass over memory is needed.
pub fn build_zeroed(len: usize, piece: usize, work: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let first = (0..).step_by(piece);
    let begin = || ();
    let [out] = build_zeroed_with([len], [piece], first, begin, |(), first, [part]| {
        work(first, part);
    });
    out
}

/// Like [`build_zeroed`], but pieces do not start as zeros.
///
/// # Safety
/// `work` must write every element of its piece.
pub unsafe fn build_uninit(
    len: usize,
    piece: usize,
    work: impl Fn(usize, &mut [MaybeUninit<f32>]) + Sync,
) -> Vec<f32> {
    let first = (0..).step_by(piece);
    let each = |(): &mut (), first, [part]: [&mut [MaybeUninit<f32>]; 1]| work(first, part);
    // SAFETY: the caller's promise.
    let [out] = unsafe { build_uninit_with([len], [piece], first, || (), each) };
    out
}

/// Returns zeros, written on all threads if there are many.
pub fn zeros(len: usize) -> Vec<f32> {
    build_zeroed(len, PIECE_LEN, |_, _| ())
}

/// Like [`build_zeroed`], for several buffers that are cut into equally many pieces. `work` receives a state that `begin`
/// creates for each thread, the next item of `others` and a piece of each buffer.
///
/// # Panics
/// If `others` or one of the buffers has fewer pieces than the first.
pub fn build_zeroed_with<const N: usize, T: Send, S>(
    lens: [usize; N],
    pieces: [usize; N],
    others: impl Iterator<Item = T> + Send,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T, [&mut [f32]; N]) + Sync,
) -> [Vec<f32>; N] {
    let each = |state: &mut S, other, parts: [&mut [MaybeUninit<f32>]; N]| {
        work(state, other, parts.map(fill_zeros));
    };
    // SAFETY: `build_uninit_with` requires every element to be written, and zeros are.
    unsafe { build_uninit_with(lens, pieces, others, begin, each) }
}

/// Like [`build_zeroed_with`], but pieces do not start as zeros.
///
/// # Safety
/// `work` must write every element of its pieces.
///
/// # Panics
/// Like [`build_zeroed_with`].
pub unsafe fn build_uninit_with<const N: usize, T: Send, S>(
    lens: [usize; N],
    pieces: [usize; N],
    others: impl Iterator<Item = T> + Send,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T, [&mut [MaybeUninit<f32>]; N]) + Sync,
) -> [Vec<f32>; N] {
    let counts: [usize; N] = std::array::from_fn(|i| lens[i].div_ceil(pieces[i]));
    let count = counts.iter().copied().max().unwrap_or(0);
    assert!(counts.iter().all(|n| *n == count), "as many pieces of each");
    let mut buffers = lens.map(Vec::<f32>::with_capacity);
    let mut left: [_; N] = {
        let mut sizes = lens.into_iter().zip(pieces);
        buffers.each_mut().map(|buffer| {
            let (len, piece) = sizes.next().unwrap_or((0, 1));
            buffer.spare_capacity_mut()[..len].chunks_mut(piece)
        })
    };
    let mut others = others;
    let items = (0..count).map(|_| {
        let other = others.next().expect("one of the others for each piece");
        let parts = left.each_mut().map(|parts| parts.next());
        (other, parts.map(|part| part.unwrap_or_default()))
    });
    let each = |state: &mut S, (other, parts): (T, [&mut [MaybeUninit<f32>]; N])| {
        work(state, other, parts);
    };
    if lens
        .iter()
        .zip(pieces)
        .all(|(len, piece)| *len <= SINGLE_THREAD_LEN.max(piece))
    {
        let mut state = begin();
        items.for_each(|item| each(&mut state, item));
    } else {
        threads::for_each_with(items, begin, each);
    }
    for (buffer, len) in buffers.iter_mut().zip(lens) {
        // SAFETY: the pieces are chunks of the first `len` elements, so each element is in one of them. `count`
        // pieces are all of them, and by the caller's promise their tasks wrote every element. If a task panics, this
        // is not reached.
        unsafe { buffer.set_len(len) };
    }
    buffers
}

/// Fills uninitialised memory with zeros.
pub fn fill_zeros(part: &mut [MaybeUninit<f32>]) -> &mut [f32] {
    let (start, len) = (part.as_mut_ptr().cast::<f32>(), part.len());
    // SAFETY: same memory and same borrow as before; zero is all bits zero. `fill` would write with the narrowest
    // registers that the binary is built for.
    unsafe {
        start.write_bytes(0, len);
        std::slice::from_raw_parts_mut(start, len)
    }
}

thread_local! {
    /// Buffers that no task of this thread uses at the moment.
    static FREE_BUFFERS: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Maximum number of buffers that a thread keeps, and maximum number of elements of a kept one: 1 MiB.
const MAX_FREE: (usize, usize) = (8, 1 << 18);

/// Scratch memory of a task. Its initial contents are those of an earlier task of the same thread.
pub struct ScratchBuffer {
    numbers: Vec<f32>,
    len: usize,
}

/// Removes and returns the last buffer that is long enough.
pub fn take_fitting<T>(unused: &mut Vec<T>, len: usize, length: impl Fn(&T) -> usize) -> Option<T> {
    let fits = |buffer: &T| len > 0 && length(buffer) >= len;
    let at = unused.iter().rposition(fits)?;
    Some(unused.swap_remove(at))
}

/// Adds a buffer to at most `count` kept ones; if there are already as many, it replaces the shortest one if that is
/// shorter.
pub fn keep_free<T>(unused: &mut Vec<T>, count: usize, buffer: T, length: impl Fn(&T) -> usize) {
    if unused.len() < count {
        return unused.push(buffer);
    }
    let shortest = unused.iter_mut().min_by_key(|kept| length(kept));
    if let Some(shortest) = shortest.filter(|kept| length(kept) < length(&buffer)) {
        *shortest = buffer;
    }
}

/// Returns scratch memory for `len` elements of any value.
pub fn scratch_buffer(len: usize) -> ScratchBuffer {
    let unused = FREE_BUFFERS.with_borrow_mut(|unused| take_fitting(unused, len, Vec::len));
    ScratchBuffer {
        numbers: unused.unwrap_or_else(|| vec![0.0; len]),
        len,
    }
}

impl Deref for ScratchBuffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.numbers[..self.len]
    }
}

impl DerefMut for ScratchBuffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[..self.len]
    }
}

impl Drop for ScratchBuffer {
    fn drop(&mut self) {
        let (count, longest) = MAX_FREE;
        let numbers = std::mem::take(&mut self.numbers);
        // When the thread ends, its buffers may be dropped before this one.
        let _ = FREE_BUFFERS.try_with(|unused| {
            if (1..=longest).contains(&numbers.len()) {
                keep_free(&mut unused.borrow_mut(), count, numbers, Vec::len);
            }
        });
    }
}

/// Calls `work(first, piece)` for consecutive pieces of `out`, on all threads if it is large enough.
pub fn in_pieces(out: &mut [f32], piece: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    let alone = out.len() <= SINGLE_THREAD_LEN.max(piece);
    let each = |(i, part): (usize, &mut [f32])| work(i * piece, part);
    let pieces = out.chunks_mut(piece).enumerate();
    if alone {
        pieces.for_each(each);
    } else {
        threads::for_each(pieces, each);
    }
}
