//! The innermost part of a product: a few rows times a panel of columns, in registers.
//!
//! Each of up to six rows keeps its sums for one panel in registers while it goes along the inner dimension (Goto and
//! van de Geijn 2008, section 4). So each step loads one row of the panel and broadcasts six elements.

use pulp::Simd;

use crate::kernel::flex::simd;

/// Rows of elements that are read one at a time: `at + row·rows + inner·step`.
#[derive(Clone, Copy)]
pub struct Broadcast {
    /// Pointer to the first element.
    pub at: *const f32,
    /// Distance between rows.
    pub rows: usize,
    /// Distance between steps of the inner dimension.
    pub step: usize,
}

/// Rows of a panel, which are read whole.
#[derive(Clone, Copy)]
pub struct Panel {
    /// Pointer to the first element.
    pub at: *const f32,
    /// Distance between steps of the inner dimension.
    pub step: usize,
    /// Distance to the elements that are prefetched meanwhile; 0 for none.
    pub ahead: usize,
}

/// The rows to be written, and the values the sums are added to.
#[derive(Clone, Copy)]
pub struct Target {
    /// Pointer to the first element.
    pub at: *mut f32,
    /// Distance between rows.
    pub rows: usize,
    /// Pointer to the first of the values that sums are added to, if any; may equal `at`.
    pub begin: Option<*const f32>,
    /// Distance between rows of these values; 0 if one row is added to all rows.
    pub begin_rows: usize,
    /// Factor of the sums.
    pub factor: f32,
}

/// Number of elements that a step of a block prefetches: two cache lines, so that two blocks of rows prefetch a whole
/// panel.
pub const FETCHED: usize = 32;

/// A block of a fixed number of rows times a panel.
pub trait Block {
    /// Computes `columns` columns of the block.
    unsafe fn make<S: Simd, const AHEAD: bool>(
        s: S,
        left: Broadcast,
        right: Panel,
        inner: usize,
        out: Target,
        columns: usize,
    );
}

/// Returns the sums of one row: `sums + number·columns`.
#[inline(always)]
pub fn step4<S: Simd>(s: S, x: S::f32s, b: [S::f32s; 4], c: [S::f32s; 4]) -> [S::f32s; 4] {
    [
        s.mul_add_e_f32s(x, b[0], c[0]),
        s.mul_add_e_f32s(x, b[1], c[1]),
        s.mul_add_e_f32s(x, b[2], c[2]),
        s.mul_add_e_f32s(x, b[3], c[3]),
    ]
}

/// Like [`step4`], in two registers.
#[inline(always)]
pub fn step2<S: Simd>(s: S, x: S::f32s, b: [S::f32s; 2], c: [S::f32s; 2]) -> [S::f32s; 2] {
    [
        s.mul_add_e_f32s(x, b[0], c[0]),
        s.mul_add_e_f32s(x, b[1], c[1]),
    ]
}

/// Like [`step4`], in one register.
#[inline(always)]
pub fn step1<S: Simd>(s: S, x: S::f32s, b: [S::f32s; 1], c: [S::f32s; 1]) -> [S::f32s; 1] {
    [s.mul_add_e_f32s(x, b[0], c[0])]
}

/// Loads `N` registers from memory of any alignment.
#[inline(always)]
pub unsafe fn load<S: Simd, const N: usize>(at: *const f32) -> [S::f32s; N] {
    // SAFETY: the caller promises that this memory is readable; any bits are valid float32.
    unsafe { at.cast::<[S::f32s; N]>().read_unaligned() }
}

/// Stores the sums of one row.
#[inline(always)]
unsafe fn store<S: Simd, const N: usize>(
    s: S,
    sums: [S::f32s; N],
    out: Target,
    row: usize,
    columns: usize,
) {
    let factor = s.splat_f32s(out.factor);
    let lanes = S::F32_LANES;
    // SAFETY: the caller promises that `columns` elements of this row are writable, and readable in `begin`.
    unsafe {
        let at = out.at.add(row * out.rows);
        let begin = out.begin.map(|begin| begin.add(row * out.begin_rows));
        for (i, sum) in sums.into_iter().enumerate() {
            let first = i * lanes;
            if first + lanes <= columns {
                let value = match begin {
                    Some(begin) => {
                        let [begin] = load::<S, 1>(begin.add(first));
                        s.mul_add_e_f32s(sum, factor, begin)
                    }
                    None => s.mul_f32s(sum, factor),
                };
                at.add(first).cast::<S::f32s>().write_unaligned(value);
            } else if first < columns {
                let rest = columns - first;
                let value = match begin {
                    Some(begin) => {
                        let begin = std::slice::from_raw_parts(begin.add(first), rest);
                        s.mul_add_e_f32s(sum, factor, s.partial_load_f32s(begin))
                    }
                    None => s.mul_f32s(sum, factor),
                };
                let slot = std::slice::from_raw_parts_mut(at.add(first), rest);
                s.partial_store_f32s(slot, value);
            }
        }
    }
}

/// One step of the inner dimension: a row of the panel at `$b`, times an element of each row of the left operand.
macro_rules! step {
    ($s:ident, $width:literal, $step:ident, $a:ident, $b:expr, $($sums:ident $at:ident)*) => {
        let row = load::<S, $width>($b);
        $($sums = $step($s, $s.splat_f32s(*$at.add($a)), row, $sums);)*
    };
}

/// Defines a block of a fixed number of rows and registers. It is written out, since sums indexed by a variable would
/// not stay in registers.
///
/// Addresses are hidden from the compiler, which would otherwise compute each address from the previous one at every
/// step: a fifth of the loop's instructions, too many for a core that runs two threads. Whole panels are traversed in
/// pairs of steps, one part per row; each part begins by prefetching that row of the output, which arrives meanwhile.
macro_rules! block {
    ($name:ident, $width:literal, $step:ident: $($sums:ident $at:ident $row:literal),*) => {
        pub struct $name;

        impl Block for $name {
            #[inline(always)]
            unsafe fn make<S: Simd, const AHEAD: bool>(
                s: S,
                left: Broadcast,
                right: Panel,
                inner: usize,
                out: Target,
                columns: usize,
            ) {
                let width = $width * S::F32_LANES;
                $(let mut $sums = [s.splat_f32s(0.0); $width];)*
                $(let $at = std::hint::black_box(left.at.wrapping_add($row * left.rows));)*
                let (mut a, mut b) = (0_usize, right.at);
                // SAFETY: the sweep promises that `inner` steps of both are readable and the block is writable.
                unsafe {
                    if AHEAD || right.step != width {
                        for _ in 0..inner {
                            if AHEAD {
                                simd::fetch_from(b.wrapping_add(right.ahead));
                                simd::fetch_from(b.wrapping_add(right.ahead + FETCHED / 2));
                                // Often there are no more than four rows.
                                if [$($row),*].len() <= 4 && $width == 4 {
                                    simd::fetch_from(b.wrapping_add(right.ahead + FETCHED));
                                    simd::fetch_from(b.wrapping_add(right.ahead + 3 * FETCHED / 2));
                                }
                            }
                            step!(s, $width, $step, a, b, $($sums $at)*);
                            a = a.wrapping_add(left.step);
                            b = b.wrapping_add(right.step);
                        }
                    } else {
                        let rows = [$($row),*].len();
                        let mut rest = inner;
                        for row in 0..rows {
                            for i in 0..$width {
                                simd::fetch_from(out.at.wrapping_add(row * out.rows + i * S::F32_LANES));
                            }
                            let part = if row + 1 < rows { inner / rows / 2 * 2 } else { rest };
                            rest -= part;
                            for _ in 0..part / 2 {
                                step!(s, $width, $step, a, b, $($sums $at)*);
                                a = simd::hidden(a.wrapping_add(left.step));
                                step!(s, $width, $step, a, b.wrapping_add(width), $($sums $at)*);
                                a = a.wrapping_add(left.step);
                                b = b.wrapping_add(2 * width);
                            }
                            if part % 2 == 1 {
                                step!(s, $width, $step, a, b, $($sums $at)*);
                            }
                        }
                    }
                    $(store(s, $sums, out, $row, columns);)*
                }
            }
        }
    };
}

block!(SixByFour, 4, step4: c0 p0 0, c1 p1 1, c2 p2 2, c3 p3 3, c4 p4 4, c5 p5 5);
block!(FourByFour, 4, step4: c0 p0 0, c1 p1 1, c2 p2 2, c3 p3 3);
block!(TwoByFour, 4, step4: c0 p0 0, c1 p1 1);
block!(OneByFour, 4, step4: c0 p0 0);
block!(SixByTwo, 2, step2: c0 p0 0, c1 p1 1, c2 p2 2, c3 p3 3, c4 p4 4, c5 p5 5);
block!(FourByTwo, 2, step2: c0 p0 0, c1 p1 1, c2 p2 2, c3 p3 3);
block!(TwoByTwo, 2, step2: c0 p0 0, c1 p1 1);
block!(OneByTwo, 2, step2: c0 p0 0);
block!(SixByOne, 1, step1: c0 p0 0, c1 p1 1, c2 p2 2, c3 p3 3, c4 p4 4, c5 p5 5);
block!(FourByOne, 1, step1: c0 p0 0, c1 p1 1, c2 p2 2, c3 p3 3);
block!(TwoByOne, 1, step1: c0 p0 0, c1 p1 1);
block!(OneByOne, 1, step1: c0 p0 0);
