//! Operands of a product in the order in which its inner part reads them.

use std::cell::RefCell;
use std::ops::Range;

use super::{HEIGHT, Matrix};
use crate::kernel::flex::buffer::{fitting, keep};
use crate::kernel::flex::simd;

/// Numbers of a cache line.
const LINE: usize = 16;

/// Sixteen numbers that begin at a cache line, as AVX-512 likes to load them.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([f32; LINE]);

/// A buffer that begins at a cache line.
#[derive(Default)]
pub struct Aligned(Vec<Line>);

impl Aligned {
    /// Room for `len` numbers; they are those of an earlier use, or zeros.
    pub fn room(&mut self, len: usize) -> &mut [f32] {
        let lines = len.div_ceil(LINE);
        if self.0.len() < lines {
            // Not `resize`, which copies what is not wanted any more.
            self.0 = vec![Line([0.0; LINE]); lines];
        }
        // SAFETY: lines are nothing but numbers side by side, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }

    /// All that there is room for.
    pub fn numbers(&self) -> &[f32] {
        // SAFETY: as above, shared.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE) }
    }
}

/// Buffers that a thread keeps, and numbers of one that it keeps at most: 1 MiB.
const KEPT: (usize, usize) = (8, 1 << 18);

impl Aligned {
    /// A buffer for `len` numbers that no copy of this thread needs any more, or an empty one.
    pub fn unused(len: usize) -> Self {
        let lines = len.div_ceil(LINE);
        let found = UNUSED.with_borrow_mut(|unused| fitting(unused, lines, Vec::len));
        Self(found.unwrap_or_default())
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        let (count, longest) = KEPT;
        if !(1..=longest / LINE).contains(&self.0.len()) {
            return;
        }
        let lines = std::mem::take(&mut self.0);
        // When the thread ends its buffers may be gone before this one.
        let _ = UNUSED.try_with(|unused| {
            keep(&mut unused.borrow_mut(), count, lines, Vec::len);
        });
    }
}

thread_local! {
    /// Buffers of copies that were dropped.
    static UNUSED: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
    /// The copies of a task, kept between products.
    static OWN: RefCell<Aligned> = RefCell::default();
    /// The copy of an operand that all tasks of a product use, kept by the thread that makes it.
    static SHARED: RefCell<Aligned> = RefCell::default();
}

/// Calls `work` with this thread's buffer.
pub fn with_buffer<R>(work: impl FnOnce(&mut Aligned) -> R) -> R {
    let mut buffer = OWN.take();
    let done = work(&mut buffer);
    OWN.set(buffer);
    done
}

/// The calling thread's buffer for a shared copy.
pub fn take() -> Aligned {
    SHARED.take()
}

/// Keeps it for the next product.
pub fn give(buffer: Aligned) {
    SHARED.set(buffer);
}

/// Writes rows `inner` and columns `columns` of `from` as panels of `width` columns one after the other, the last one
/// filled up with zeros; `to` has whole panels.
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
            turned(panel, from, &inner, &columns, width);
        }
    }
}

/// Rows of the inner dimension and columns that are turned at one time: a cache line of each column.
const TURNED: usize = 16;

/// A panel from columns that lie apart.
fn turned(
    panel: &mut [f32],
    from: Matrix,
    inner: &Range<usize>,
    columns: &Range<usize>,
    width: usize,
) {
    let [down, across] = from.strides;
    for first in columns.clone().step_by(TURNED) {
        let part = first..(first + TURNED).min(columns.end);
        let slot = first - columns.start;
        let pieces = panel.chunks_mut(TURNED * width);
        for (rows, k) in pieces.zip(inner.clone().step_by(TURNED)) {
            let depth = rows.len() / width;
            if down == 1 && part.len() == TURNED && depth == TURNED {
                let at = |i: usize| &from.data[(first + i) * across + k..];
                let lines: [&[f32; TURNED]; TURNED] =
                    std::array::from_fn(|i| at(i).first_chunk().unwrap_or(&[0.0; TURNED]));
                for (i, row) in rows.chunks_exact_mut(width).enumerate() {
                    for (slot, line) in row[slot..slot + TURNED].iter_mut().zip(lines) {
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

/// Steps of rows that lie side by side which are asked for before they are copied.
const FETCHED: usize = 4;

/// Writes rows of `from`, which are not contiguous, as blocks of `HEIGHT` rows one after the other, the last one of as
/// many as are left, in each of them step after step of `inner`.
pub fn blocks(to: &mut [f32], from: Matrix, rows: Range<usize>, inner: Range<usize>) {
    let [down, across] = from.strides;
    let depth = inner.len();
    let (whole, last) = to.split_at_mut(rows.len() / HEIGHT * HEIGHT * depth);
    for (step, k) in inner.enumerate() {
        let first = rows.start * down + k * across;
        if down == 1 {
            let line = &from.data[first..first + rows.len()];
            let next = line.as_ptr().wrapping_add(FETCHED * across);
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
