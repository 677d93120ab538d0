//! Rows times panels of columns, divided into blocks that stay in registers.
//!
//! A panel is [`panel`] columns wide: four registers on machines with 32 of them, two on machines with 16.

use pulp::{Simd, WithSimd};

use super::HEIGHT;
use super::registers::*;
use crate::kernel::flex::simd;

/// `rows` rows of `left` times the panels of `right`, with `columns` columns in all and an inner dimension of
/// `inner`.
pub struct Sweep {
    pub left: Broadcast,
    pub right: Panel,
    /// Distance from one panel to the next.
    pub next_panel: usize,
    pub out: Target,
    pub rows: usize,
    pub inner: usize,
    pub columns: usize,
}

/// Returns the number of columns of a panel, and of a register, on this machine.
pub fn widths() -> [usize; 2] {
    struct Widths;
    impl WithSimd for Widths {
        type Output = [usize; 2];
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> [usize; 2] {
            [registers::<S>() * S::F32_LANES, S::F32_LANES]
        }
    }
    simd::run(Widths)
}

/// Returns the number of columns of a panel on this machine.
pub fn panel() -> usize {
    widths()[0]
}

/// Returns whether this many columns of a matrix can be read in place, that is, no register extends past the last
/// one.
pub fn direct(columns: usize) -> bool {
    let [panel, register] = widths();
    let last = columns % panel;
    last.is_multiple_of(register) && matches!(last / register, 0..=2)
}

/// Returns the number of registers of a row of a panel.
#[inline(always)]
fn registers<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 4 } else { 2 }
}

impl Sweep {
    /// Computes the sweep.
    ///
    /// # Safety
    /// Everything that the sweep describes must be readable. Its output must be writable and used by no other thread.
    /// Panels must be readable over their whole width.
    pub unsafe fn run(self) {
        match self.right.ahead {
            0 => simd::run(Compiled::<false>(self)),
            _ => simd::run(Compiled::<true>(self)),
        }
    }
}

/// A sweep with or without prefetching: a branch inside the innermost loop would slow down every product.
struct Compiled<const AHEAD: bool>(Sweep);

impl<const AHEAD: bool> WithSimd for Compiled<AHEAD> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: `Sweep::run` requires from its callers what `blocks` needs.
        unsafe {
            if registers::<S>() == 4 {
                self.0.blocks::<S, ByFour, AHEAD>(simd);
            } else {
                self.0.blocks::<S, ByTwo, AHEAD>(simd);
            }
        }
    }
}

/// The block types for whole panels.
trait Blocks {
    type One: Block;
    type Two: Block;
    type Four: Block;
    type Six: Block;
}

struct ByFour;

impl Blocks for ByFour {
    type One = OneByFour;
    type Two = TwoByFour;
    type Four = FourByFour;
    type Six = SixByFour;
}

struct ByTwo;

impl Blocks for ByTwo {
    type One = OneByTwo;
    type Two = TwoByTwo;
    type Four = FourByTwo;
    type Six = SixByTwo;
}

impl Sweep {
    /// Processes rows in blocks of six, the rest in smaller ones; for each block all panels.
    #[inline(always)]
    unsafe fn blocks<S: Simd, B: Blocks, const AHEAD: bool>(&self, simd: S) {
        let mut row = 0;
        while row < self.rows {
            // SAFETY: rows and columns stay below the sweep's counts.
            row += unsafe {
                match self.rows - row {
                    1 => self.panels::<S, B::One, OneByTwo, OneByOne, AHEAD>(simd, row, 1),
                    2 | 3 => self.panels::<S, B::Two, TwoByTwo, TwoByOne, AHEAD>(simd, row, 2),
                    4 | 5 => self.panels::<S, B::Four, FourByTwo, FourByOne, AHEAD>(simd, row, 4),
                    _ => self.panels::<S, B::Six, SixByTwo, SixByOne, AHEAD>(simd, row, 6),
                }
            };
        }
    }

    /// Processes all panels for `height` rows from `row` on; the last panel in as few registers as it needs.
    #[inline(always)]
    unsafe fn panels<S: Simd, Whole: Block, Two: Block, One: Block, const AHEAD: bool>(
        &self,
        simd: S,
        row: usize,
        height: usize,
    ) -> usize {
        let width = registers::<S>() * S::F32_LANES;
        // SAFETY: by the caller's promise.
        unsafe {
            let left = Broadcast {
                at: self.left.at.add(row * self.left.rows),
                ..self.left
            };
            for (i, column) in (0..self.columns).step_by(width).enumerate() {
                let right = Panel {
                    at: self.right.at.add(i * self.next_panel),
                    ahead: self.right.ahead + row / HEIGHT * FETCHED % width,
                    ..self.right
                };
                let begin = self.out.begin;
                let out = Target {
                    at: self.out.at.add(row * self.out.rows + column),
                    begin: begin.map(|at| at.add(row * self.out.begin_rows + column)),
                    ..self.out
                };
                let columns = width.min(self.columns - column);
                match columns.div_ceil(S::F32_LANES) {
                    1 => One::make::<S, AHEAD>(simd, left, right, self.inner, out, columns),
                    2 => Two::make::<S, AHEAD>(simd, left, right, self.inner, out, columns),
                    _ => Whole::make::<S, AHEAD>(simd, left, right, self.inner, out, columns),
                }
            }
        }
        height
    }
}
