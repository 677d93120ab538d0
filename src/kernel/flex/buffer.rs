//! Between Burn's CPU tensors and slices: contiguous views, outputs, and cutting work into pieces.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use burn::tensor::{Shape, TensorData};
use burn_flex::FlexTensor;

use super::threads;

pub use super::disjoint::{Shared, Unwritten};

/// Elements of one piece of element-wise work: 64 KiB, which fits a core's cache beside its neighbours.
pub const PIECE: usize = 16 * 1024;

/// Elements of one piece of such work that begins as zeros ([`made`]): with its operands it fits a core's first cache, so that
/// the zeros cost next to nothing.
pub const MADE: usize = 4 * 1024;

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

/// A buffer that `work(first, piece)` writes in consecutive pieces, on all threads when there is enough of it. A piece is
/// filled with zeros by the task that gets it, while it lies in a core's cache: what a task leaves out is zero, never
/// undefined, and no pass over memory is spent on it.
pub fn made(len: usize, piece: usize, work: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let first = (0..).step_by(piece);
    let begin = || ();
    let [out] = made_with([len], [piece], first, begin, |(), first, [part]| {
        work(first, part);
    });
    out
}

/// As [`made`], of pieces that do not begin as zeros.
///
/// # Safety
/// `work` writes every number of its piece.
pub unsafe fn made_new(
    len: usize,
    piece: usize,
    work: impl Fn(usize, &mut [MaybeUninit<f32>]) + Sync,
) -> Vec<f32> {
    let first = (0..).step_by(piece);
    let each = |(): &mut (), first, [part]: [&mut [MaybeUninit<f32>]; 1]| work(first, part);
    // SAFETY: the caller's promise.
    let [out] = unsafe { made_new_with([len], [piece], first, || (), each) };
    out
}

/// Zeros, written on all threads when there are many.
pub fn zeros(len: usize) -> Vec<f32> {
    made(len, PIECE, |_, _| ())
}

/// As [`made`], for several buffers that are cut into equally many pieces: `work` gets something that `begin` makes for
/// each thread, the next of `others` and a piece of each buffer.
///
/// # Panics
/// Where `others` or one of the buffers has fewer pieces than the first.
pub fn made_with<const N: usize, T: Send, S>(
    lens: [usize; N],
    pieces: [usize; N],
    others: impl Iterator<Item = T> + Send,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T, [&mut [f32]; N]) + Sync,
) -> [Vec<f32>; N] {
    let each = |state: &mut S, other, parts: [&mut [MaybeUninit<f32>]; N]| {
        work(state, other, parts.map(zeroed));
    };
    // SAFETY: zeros are numbers.
    unsafe { made_new_with(lens, pieces, others, begin, each) }
}

/// As [`made_with`], of pieces that do not begin as zeros.
///
/// # Safety
/// `work` writes every number of its pieces.
///
/// # Panics
/// As [`made_with`].
pub unsafe fn made_new_with<const N: usize, T: Send, S>(
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
        .all(|(len, piece)| *len <= ALONE.max(piece))
    {
        let mut state = begin();
        items.for_each(|item| each(&mut state, item));
    } else {
        threads::for_each_with(items, begin, each);
    }
    for (buffer, len) in buffers.iter_mut().zip(lens) {
        // SAFETY: the pieces are chunks of the first `len` places, so each place is in one of them; `count` of them is
        // all, and its task wrote each by the caller's promise. A panic of a task does not come here.
        unsafe { buffer.set_len(len) };
    }
    buffers
}

/// Zeros where nothing was.
pub fn zeroed(part: &mut [MaybeUninit<f32>]) -> &mut [f32] {
    let (start, len) = (part.as_mut_ptr().cast::<f32>(), part.len());
    // SAFETY: the same places, borrowed as before; zero is all bits zero. `fill` would write with the narrowest registers that
    // the binary is built for.
    unsafe {
        start.write_bytes(0, len);
        std::slice::from_raw_parts_mut(start, len)
    }
}

thread_local! {
    /// Buffers that no task of this thread uses.
    static UNUSED: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Buffers that a thread keeps, and numbers of one that it keeps at most: 1 MiB.
const KEPT: (usize, usize) = (8, 1 << 18);

/// Room for a task's own numbers. They begin as those of an earlier task of the same thread.
pub struct Room {
    numbers: Vec<f32>,
    len: usize,
}

/// The last of some buffers that is long enough, taken out of them.
pub fn fitting<T>(unused: &mut Vec<T>, len: usize, length: impl Fn(&T) -> usize) -> Option<T> {
    let fits = |buffer: &T| len > 0 && length(buffer) >= len;
    let at = unused.iter().rposition(fits)?;
    Some(unused.swap_remove(at))
}

/// Puts a buffer among at most `count` of them, in the place of the shortest where there are as many.
pub fn keep<T>(unused: &mut Vec<T>, count: usize, buffer: T, length: impl Fn(&T) -> usize) {
    if unused.len() < count {
        return unused.push(buffer);
    }
    let shortest = unused.iter_mut().min_by_key(|kept| length(kept));
    if let Some(shortest) = shortest.filter(|kept| length(kept) < length(&buffer)) {
        *shortest = buffer;
    }
}

/// Room for `len` numbers of any value.
pub fn room(len: usize) -> Room {
    let unused = UNUSED.with_borrow_mut(|unused| fitting(unused, len, Vec::len));
    Room {
        numbers: unused.unwrap_or_else(|| vec![0.0; len]),
        len,
    }
}

impl Deref for Room {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.numbers[..self.len]
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[..self.len]
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let (count, longest) = KEPT;
        let numbers = std::mem::take(&mut self.numbers);
        // When the thread ends its buffers may be gone before this one.
        let _ = UNUSED.try_with(|unused| {
            if (1..=longest).contains(&numbers.len()) {
                keep(&mut unused.borrow_mut(), count, numbers, Vec::len);
            }
        });
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
