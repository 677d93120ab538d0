//! Products with a right operand that is stored in panels: panels of sixteen columns follow one another, and within
//! each panel the steps of the inner dimension, one cache line each.
//!
//! Decoding multiplies a few rows with every weight of a model for each token. Stored in this way, a weight is one
//! stream of memory, read once while up to sixteen rows keep their sums in registers. The terms of a sum are added in
//! order, whatever rows and columns are computed with it, so a text is continued identically alone and in a batch.

use pulp::{Simd, WithSimd};

use super::pack::{self, Aligned};
use super::registers::{load, step1, step2};
use super::{InitialSums, Matrix, Product};
use crate::kernel::flex::simd;

/// Number of columns of a panel.
const WIDTH: usize = crate::kernel::PANEL;

/// Number of tasks of a product: few, since long streams are read faster than short ones.
const TASKS: usize = 4;

/// Number of rows copied at a time; a panel stays in a core's L2 cache together with them.
const ROWS: usize = 96;

/// Number of elements between the one being read and the one being prefetched.
const AHEAD: usize = 768;

/// Returns `left·right`, plus `row` on every row if given, for contiguous rows of `left` and `right` stored in
/// panels.
pub fn product_with_panels(left: Matrix, right: &[f32], row: Option<&[f32]>) -> Vec<f32> {
    let [_, k] = left.shape;
    let panel = k.checked_mul(WIDTH).filter(|len| *len > 0);
    let whole = panel.is_some_and(|len| right.len().is_multiple_of(len));
    assert!(whole, "whole panels");
    assert!(left.strides[1] == 1 || k == 1, "contiguous rows");
    let right = Matrix {
        data: right,
        shape: [k, right.len() / k],
        strides: [0, 0],
    };
    if right.data.is_empty() {
        return Vec::new();
    }
    let begin = InitialSums::from_row(row, right.shape[1]);
    super::allocate_output(left, right, begin, |product| {
        let m = left.shape[0];
        let height = height(m);
        let mut buffer = pack::take_shared_buffer();
        for first in (0..m).step_by(ROWS) {
            let rows = first..(first + ROWS).min(m);
            rows_of(product, rows, height, &mut buffer);
        }
        pack::return_shared_buffer(buffer);
    })
}

/// Returns the height of blocks for `rows` rows: as few blocks as the registers allow, and these as low as possible.
fn height(rows: usize) -> usize {
    struct Tallest;
    impl WithSimd for Tallest {
        type Output = &'static [usize];
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> Self::Output {
            match one_register::<S>() {
                true => &[1, 2, 4, 6, 8, 12, 16],
                false => &[1, 2, 4, 6],
            }
        }
    }
    if rows == 0 {
        return 1;
    }
    let heights = simd::run(Tallest);
    let tallest = heights[heights.len() - 1];
    let wanted = rows.div_ceil(rows.div_ceil(tallest));
    let fits = heights.iter().find(|height| **height >= wanted);
    *fits.unwrap_or(&tallest)
}

/// Returns whether a panel is one register wide and there are enough registers for sixteen rows.
#[inline(always)]
fn one_register<S: Simd>() -> bool {
    S::F32_LANES == WIDTH && S::REGISTER_COUNT >= 32
}

/// Computes some rows of the product: they are copied so that the elements of one step are adjacent, then multiplied
/// with all panels.
fn rows_of(product: &Product, rows: std::ops::Range<usize>, height: usize, buffer: &mut Aligned) {
    let [_, k, n] = product.sizes();
    let left: &[f32] = match height {
        1 => &product.left.data[rows.start * product.left.strides[0]..],
        _ => {
            let copy = buffer.room(rows.len().next_multiple_of(height) * k);
            pack::panels(copy, product.left.transposed(), 0..k, rows.clone(), height);
            copy
        }
    };
    let panels = n / WIDTH;
    let each = panels.div_ceil(if product.threads { TASKS } else { 1 });
    product.for_each_item(0..panels.div_ceil(each), |task| {
        let panels = task * each..((task + 1) * each).min(panels);
        simd::run(Task {
            product,
            left,
            rows: rows.clone(),
            panels,
            height,
        });
    });
}

/// Some panels, to be multiplied with some copied rows.
struct Task<'a> {
    product: &'a Product<'a>,
    left: &'a [f32],
    rows: std::ops::Range<usize>,
    panels: std::ops::Range<usize>,
    height: usize,
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (one_register::<S>(), self.height) {
            (true, 16) => self.blocks::<S, SixteenByOne>(simd),
            (true, 12) => self.blocks::<S, TwelveByOne>(simd),
            (true, 8) => self.blocks::<S, EightByOne>(simd),
            (true, 6) => self.blocks::<S, SixByOne>(simd),
            (true, 4) => self.blocks::<S, FourByOne>(simd),
            (true, 2) => self.blocks::<S, TwoByOne>(simd),
            (true, _) => self.blocks::<S, OneByOne>(simd),
            (_, 6) => self.blocks::<S, SixByTwo>(simd),
            (_, 4) => self.blocks::<S, FourByTwo>(simd),
            (_, 2) => self.blocks::<S, TwoByTwo>(simd),
            (_, _) => self.blocks::<S, OneByTwo>(simd),
        }
    }
}

impl Task<'_> {
    /// Processes all blocks of rows for each panel, so that a panel is read from memory once.
    #[inline(always)]
    fn blocks<S: Simd, B: Block>(&self, simd: S) {
        debug_assert_eq!(self.height, B::HEIGHT);
        let [_, k, n] = self.product.sizes();
        for column in self.panels.clone().map(|panel| panel * WIDTH) {
            for part in (0..WIDTH).step_by(B::REGISTERS * S::F32_LANES) {
                for row in (0..self.rows.len()).step_by(B::HEIGHT) {
                    let left = &self.left[row * k..][..k * B::HEIGHT];
                    let panel = &self.product.right.data[column * k..][..k * WIDTH];
                    let begin = match self.product.begin {
                        InitialSums::Row(numbers) => {
                            Some(&numbers[column + part..][..B::REGISTERS * S::F32_LANES])
                        }
                        _ => None,
                    };
                    let rows = B::HEIGHT.min(self.rows.len() - row);
                    let first = (self.rows.start + row) * n + column + part;
                    // SAFETY: only this task uses `rows` rows of the output from there on, and as many columns as `B`
                    // writes, since a panel consists of whole registers; the slices are as long as `B` needs.
                    unsafe {
                        let out = self.product.out.add(first);
                        B::make(simd, left, &panel[part..], begin, [k, rows, n], out);
                    }
                }
            }
        }
    }
}

/// A block of a fixed number of rows times registers of a panel.
trait Block {
    const HEIGHT: usize;
    const REGISTERS: usize;

    /// Computes the block; `sizes` are the inner dimension, the number of rows to write, and the distance between
    /// them.
    unsafe fn make<S: Simd>(
        s: S,
        left: &[f32],
        panel: &[f32],
        begin: Option<&[f32]>,
        sizes: [usize; 3],
        out: *mut f32,
    );
}

/// Written out, since sums indexed by a variable would not stay in registers.
macro_rules! block {
    ($name:ident, $height:literal by $width:literal, $step:ident: $($sums:ident $row:literal)*) => {
        struct $name;

        impl Block for $name {
            const HEIGHT: usize = $height;
            const REGISTERS: usize = $width;

            #[inline(always)]
            unsafe fn make<S: Simd>(
                s: S,
                left: &[f32],
                panel: &[f32],
                begin: Option<&[f32]>,
                [inner, rows, distance]: [usize; 3],
                out: *mut f32,
            ) {
                // SAFETY: the caller promises that all inputs are readable, and `rows` rows writable.
                unsafe {
                    let begin = match begin {
                        Some(numbers) => load::<S, $width>(numbers.as_ptr()),
                        None => [s.splat_f32s(0.0); $width],
                    };
                    $(let mut $sums = begin;)*
                    let (mut a, mut b) = (left.as_ptr(), panel.as_ptr());
                    for _ in 0..inner {
                        simd::fetch_from(b.wrapping_add(AHEAD));
                        let line = load::<S, $width>(b);
                        $($sums = $step(s, s.splat_f32s(*a.add($row)), line, $sums);)*
                        a = a.wrapping_add($height);
                        b = b.wrapping_add(WIDTH);
                    }
                    $(if $row < rows {
                        out.add($row * distance).cast::<[S::f32s; $width]>().write_unaligned($sums);
                    })*
                }
            }
        }
    };
}

block!(SixteenByOne, 16 by 1, step1: c0 0 c1 1 c2 2 c3 3 c4 4 c5 5 c6 6 c7 7 c8 8 c9 9 c10 10 c11 11 c12 12 c13 13
    c14 14 c15 15);
block!(TwelveByOne, 12 by 1, step1: c0 0 c1 1 c2 2 c3 3 c4 4 c5 5 c6 6 c7 7 c8 8 c9 9 c10 10 c11 11);
block!(EightByOne, 8 by 1, step1: c0 0 c1 1 c2 2 c3 3 c4 4 c5 5 c6 6 c7 7);
block!(SixByOne, 6 by 1, step1: c0 0 c1 1 c2 2 c3 3 c4 4 c5 5);
block!(FourByOne, 4 by 1, step1: c0 0 c1 1 c2 2 c3 3);
block!(TwoByOne, 2 by 1, step1: c0 0 c1 1);
block!(OneByOne, 1 by 1, step1: c0 0);
block!(SixByTwo, 6 by 2, step2: c0 0 c1 1 c2 2 c3 3 c4 4 c5 5);
block!(FourByTwo, 4 by 2, step2: c0 0 c1 1 c2 2 c3 3);
block!(TwoByTwo, 2 by 2, step2: c0 0 c1 1);
block!(OneByTwo, 1 by 2, step2: c0 0);
