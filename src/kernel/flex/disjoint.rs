//! Buffers that several pieces of work write, each its own rows, in any order.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A buffer whose rows several pieces of work write in any order. It becomes a buffer of numbers when as many were
/// handed out as there are.
pub struct Unwritten {
    buffer: Vec<f32>,
    start: *mut f32,
    len: usize,
    written: AtomicUsize,
}

// SAFETY: the pointer is only used through `Rows`, whose callers write disjoint rows.
unsafe impl Send for Unwritten {}
// SAFETY: as above.
unsafe impl Sync for Unwritten {}

impl Unwritten {
    /// For `len` numbers.
    pub fn new(len: usize) -> Self {
        let mut buffer = Vec::with_capacity(len);
        Self {
            start: buffer.as_mut_ptr(),
            buffer,
            len,
            written: AtomicUsize::new(0),
        }
    }

    /// The rows that one piece of work writes.
    pub fn rows(&self) -> Rows<'_> {
        Rows {
            of: self,
            handed: 0,
        }
    }

    /// All of it.
    ///
    /// # Panics
    /// Where a row was not written.
    pub fn whole(mut self) -> Vec<f32> {
        assert_eq!(self.written.into_inner(), self.len, "every row is written");
        // SAFETY: rows are disjoint and inside the buffer, each was zeroed or copied over when it was handed out, and together they
        // are as many numbers as it has.
        unsafe { self.buffer.set_len(self.len) };
        self.buffer
    }
}

/// The rows of an [`Unwritten`] that one piece of work writes.
pub struct Rows<'a> {
    of: &'a Unwritten,
    handed: usize,
}

impl<'a> Rows<'a> {
    /// Writes numbers from `at` on.
    ///
    /// # Safety
    /// No other row of these numbers is ever asked for or written.
    pub unsafe fn copy(&mut self, at: usize, numbers: &[f32]) {
        let start = self.place(at, numbers.len());
        // SAFETY: so many places are there, they are this call's by the caller's promise, and nothing reads them yet.
        unsafe { start.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len()) };
    }

    /// Where `len` numbers from `at` on begin; they are handed out.
    fn place(&mut self, at: usize, len: usize) -> *mut f32 {
        let end = at.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.of.len),
            "a row of a buffer"
        );
        self.handed += len;
        self.of.start.wrapping_add(at)
    }

    /// `len` numbers from `at`, which are zeros.
    ///
    /// # Safety
    /// No other row of these numbers is ever asked for.
    pub unsafe fn row(&mut self, at: usize, len: usize) -> &'a mut [f32] {
        let row = self.place(at, len);
        // SAFETY: so many places are there; zeros before they are borrowed, exclusive by the caller's promise.
        unsafe {
            row.write_bytes(0, len);
            std::slice::from_raw_parts_mut(row, len)
        }
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        self.of.written.fetch_add(self.handed, Ordering::Relaxed);
    }
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
        let end = at.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "a row of a shared buffer"
        );
        // SAFETY: in bounds by the assertion; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}
