//! Buffers of which several pieces of work write disjoint rows, in any order.

use std::sync::atomic::{AtomicUsize, Ordering};

/// An uninitialised buffer whose rows several pieces of work write in any order. It can be taken as a vector once as
/// many elements have been handed out as it has.
pub struct UninitBuffer {
    buffer: Vec<f32>,
    start: *mut f32,
    len: usize,
    written: AtomicUsize,
}

// SAFETY: the pointer is only used through `Rows`, whose callers write disjoint rows.
unsafe impl Send for UninitBuffer {}
// SAFETY: as above.
unsafe impl Sync for UninitBuffer {}

impl UninitBuffer {
    /// Creates a buffer for `len` elements.
    pub fn new(len: usize) -> Self {
        let mut buffer = Vec::with_capacity(len);
        Self {
            start: buffer.as_mut_ptr(),
            buffer,
            len,
            written: AtomicUsize::new(0),
        }
    }

    /// Returns a handle to the rows that one piece of work writes.
    pub fn rows(&self) -> Rows<'_> {
        Rows {
            of: self,
            handed: 0,
        }
    }

    /// Returns the whole buffer.
    ///
    /// # Panics
    /// If a row was not written.
    pub fn into_vec(mut self) -> Vec<f32> {
        assert_eq!(self.written.into_inner(), self.len, "every row is written");
        // SAFETY: rows are disjoint and inside the buffer, each was zeroed or copied over when it was handed out, and
        // together they have as many elements as the buffer.
        unsafe { self.buffer.set_len(self.len) };
        self.buffer
    }
}

/// A handle to the rows of an [`UninitBuffer`] that one piece of work writes.
pub struct Rows<'a> {
    of: &'a UninitBuffer,
    handed: usize,
}

impl<'a> Rows<'a> {
    /// Copies `numbers` to the elements from `at` on.
    ///
    /// # Safety
    /// No other row with these elements is ever requested or written.
    pub unsafe fn copy(&mut self, at: usize, numbers: &[f32]) {
        let start = self.place(at, numbers.len());
        // SAFETY: the elements exist, only this call writes them by the caller's promise, and nothing reads them yet.
        unsafe { start.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len()) };
    }

    /// Hands out `len` elements from `at` on and returns a pointer to the first.
    fn place(&mut self, at: usize, len: usize) -> *mut f32 {
        let end = at.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.of.len),
            "a row of a buffer"
        );
        self.handed += len;
        self.of.start.wrapping_add(at)
    }

    /// Returns `len` elements from `at` on, set to zero.
    ///
    /// # Safety
    /// No other row with these elements is ever requested.
    pub unsafe fn row(&mut self, at: usize, len: usize) -> &'a mut [f32] {
        let row = self.place(at, len);
        // SAFETY: the elements exist; they are zeroed before they are borrowed, exclusively by the caller's promise.
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

/// A borrowed buffer of which several pieces of work write disjoint rows.
pub struct SharedBuffer {
    start: *mut f32,
    len: usize,
}

// SAFETY: the pointer is only used through `row`, whose callers write disjoint rows.
unsafe impl Send for SharedBuffer {}
// SAFETY: as above.
unsafe impl Sync for SharedBuffer {}

impl SharedBuffer {
    /// Borrows a buffer for the duration of a parallel loop.
    pub fn new(buffer: &mut [f32]) -> Self {
        Self {
            start: buffer.as_mut_ptr(),
            len: buffer.len(),
        }
    }

    /// Returns `len` elements from `at` on.
    ///
    /// # Safety
    /// The buffer must outlive the slice, and no other slice of these elements may be alive.
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
