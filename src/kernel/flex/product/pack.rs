//! Copies of operands in the order in which the inner part of a product reads them.

use std::cell::RefCell;
use std::ops::Range;

use super::{HEIGHT, Matrix};
use crate::kernel::flex::buffer::{keep_free, take_fitting};
use crate::kernel::flex::simd;

/// Number of elements of a cache line.
const LINE: usize = 16;

/// Sixteen elements aligned to a cache line, for fast AVX-512 loads.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([f32; LINE]);

/// A buffer aligned to a cache line.
#[derive(Default)]
pub struct Aligned(Vec<Line>);

impl Aligned {
    /// Returns memory for `len` elements; its content is that of an earlier use, or zeros.
    pub fn room(&mut self, len: usize) -> &mut [f32] {
        let lines = len.div_ceil(LINE);
        if self.0.len() < lines {
            // Not `resize`, which would copy content that is no longer needed.
            self.0 = vec![Line([0.0; LINE]); lines];
        }
        // SAFETY: lines are nothing but contiguous elements, and are borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }

    /// Returns the whole buffer.
    pub fn numbers(&self) -> &[f32] {
        // SAFETY: as above, but shared.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE) }
    }
}

/// Maximum number of buffers that a thread keeps, and maximum number of elements of a kept one: 1 MiB.
const MAX_FREE: (usize, usize) = (8, 1 << 18);

impl Aligned {
    /// Returns a buffer for `len` elements that this thread no longer uses, or an empty one.
    pub fn unused(len: usize) -> Self {
        let lines = len.div_ceil(LINE);
        let found = FREE_BUFFERS.with_borrow_mut(|unused| take_fitting(unused, lines, Vec::len));
        Self(found.unwrap_or_default())
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        let (count, longest) = MAX_FREE;
        if !(1..=longest / LINE).contains(&self.0.len()) {
            return;
        }
        let lines = std::mem::take(&mut self.0);
        // When the thread ends, its buffers may be dropped before this one.
        let _ = FREE_BUFFERS.try_with(|unused| {
            keep_free(&mut unused.borrow_mut(), count, lines, Vec::len);
        });
    }
}

thread_local! {
    /// Buffers of copies that were dropped.
    static FREE_BUFFERS: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
    /// The buffer for a task's own copies, kept between products.
    static OWN: RefCell<Aligned> = RefCell::default();
    /// The buffer for an operand's copy that all tasks of a product use, kept by the thread that creates it.
    static SHARED: RefCell<Aligned> = RefCell::default();
}

/// Calls `work` with this thread's buffer.
pub fn with_buffer<R>(work: impl FnOnce(&mut Aligned) -> R) -> R {
    let mut buffer = OWN.take();
    let done = work(&mut buffer);
    OWN.set(buffer);
    done
}

/// Takes the calling thread's buffer for a shared copy.
pub fn take_shared_buffer() -> Aligned {
    SHARED.take()
}

/// Returns the buffer for the next product.
pub fn return_shared_buffer(buffer: Aligned) {
    SHARED.set(buffer);
}

/// Writes rows `inner` and columns `columns` of `from` as consecutive panels of `width` columns, the last one padded
/// with zeros; `to` must hold whole panels.
pub fn panels(
    to: &mut [f32],
    from: Matrix,
    inner: Range<usize>,
    columns: Range<usize>,
    width: usize,
) {
    let depth = inner.len();
    let firsts = columns.clone().step_by(width);
    for (panel, first) in to.chunks_exact_mut(width * depth).zip(firsts) {
        let columns = first..(first + width).min(columns.end);
        if columns.len() < width {
            let rows = panel.chunks_exact_mut(width);
            rows.for_each(|row| row[columns.len()..].fill(0.0));
        }
        if from.strides[1] == 1 {
            for (row, k) in panel.chunks_exact_mut(width).zip(inner.clone()) {
                let at = k * from.strides[0];
                row[..columns.len()]
                    .copy_from_slice(&from.data[at + columns.start..at + columns.end]);
            }
        } else {
            transpose_panel(panel, from, &inner, &columns, width);
        }
    }
}

/// Number of inner steps and columns that are transposed at a time: a cache line of each column.
const TRANSPOSED_TILE: usize = 16;

/// Writes a panel from columns that are not adjacent, by transposing.
fn transpose_panel(
    panel: &mut [f32],
    from: Matrix,
    inner: &Range<usize>,
    columns: &Range<usize>,
    width: usize,
) {
    let [down, across] = from.strides;
    for first in columns.clone().step_by(TRANSPOSED_TILE) {
        let part = first..(first + TRANSPOSED_TILE).min(columns.end);
        let slot = first - columns.start;
        let pieces = panel.chunks_mut(TRANSPOSED_TILE * width);
        for (rows, k) in pieces.zip(inner.clone().step_by(TRANSPOSED_TILE)) {
            let depth = rows.len() / width;
            if down == 1 && part.len() == TRANSPOSED_TILE && depth == TRANSPOSED_TILE {
                let at = |i: usize| &from.data[(first + i) * across + k..];
                let lines: [&[f32; TRANSPOSED_TILE]; TRANSPOSED_TILE] =
                    std::array::from_fn(|i| at(i).first_chunk().unwrap_or(&[0.0; TRANSPOSED_TILE]));
                for (i, row) in rows.chunks_exact_mut(width).enumerate() {
                    for (slot, line) in row[slot..slot + TRANSPOSED_TILE].iter_mut().zip(lines) {
                        *slot = line[i];
                    }
                }
            } else {
                for (i, row) in rows.chunks_exact_mut(width).enumerate() {
                    for (column, slot) in part.clone().zip(&mut row[slot..]) {
                        *slot = from.data[(k + i) * down + column * across];
                    }
                }
            }
        }
    }
}

/// Number of inner steps that are prefetched before they are copied, if adjacent rows are adjacent in memory.
const PREFETCHED_STEPS: usize = 4;

/// Writes non-contiguous rows of `from` as consecutive blocks of `HEIGHT` rows, the last one with the remaining rows.
/// Within a block, the steps of `inner` follow one another.
pub fn blocks(to: &mut [f32], from: Matrix, rows: Range<usize>, inner: Range<usize>) {
    let [down, across] = from.strides;
    let depth = inner.len();
    let (whole, last) = to.split_at_mut(rows.len() / HEIGHT * HEIGHT * depth);
    for (step, k) in inner.enumerate() {
        let first = rows.start * down + k * across;
        if down == 1 {
            let line = &from.data[first..first + rows.len()];
            let next = line.as_ptr().wrapping_add(PREFETCHED_STEPS * across);
            for i in (0..line.len()).step_by(LINE) {
                simd::fetch_from(next.wrapping_add(i));
            }
            let (heights, rest) = line.as_chunks::<HEIGHT>();
            for (block, numbers) in whole.chunks_exact_mut(HEIGHT * depth).zip(heights) {
                block[step * HEIGHT..][..HEIGHT].copy_from_slice(numbers);
            }
            last[step * rest.len()..][..rest.len()].copy_from_slice(rest);
        } else {
            let numbers = |row: usize| from.data[first + row * down];
            let blocks = whole.chunks_exact_mut(HEIGHT * depth).chain([&mut *last]);
            for (i, block) in blocks.enumerate() {
                let height = block.len() / depth;
                for (j, slot) in block[step * height..][..height].iter_mut().enumerate() {
                    *slot = numbers(i * HEIGHT + j);
                }
            }
        }
    }
}
