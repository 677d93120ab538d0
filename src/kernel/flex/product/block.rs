//! Rows times panels of columns, cut into blocks that stay in registers.
//!
//! A panel is [`panel`] columns wide: four registers where the machine has 32 of them, two where it has 16.

use pulp::{Simd, WithSimd};

use super::HEIGHT;
use super::registers::*;
use crate::kernel::flex::simd;

/// `rows` rows of `left` times the panels of `right`, `columns` columns in all and `inner` deep.
pub struct Sweep {
    pub left: Broadcast,
    pub right: Panel,
    /// From one panel to the next.
    pub next_panel: usize,
    pub out: Target,
    pub rows: usize,
    pub inner: usize,
    pub columns: usize,
}

/// Columns of a panel on this machine, and of a register.
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

/// Columns of a panel on this machine.
pub fn panel() -> usize {
    widths()[0]
}

/// Whether so many columns of a matrix can be read where they lie: no register reaches over the last one.
pub fn direct(columns: usize) -> bool {
    let [panel, register] = widths();
    let last = columns % panel;
    last.is_multiple_of(register) && matches!(last / register, 0..=2)
}

/// Registers of a row of a panel.
#[inline(always)]
fn registers<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 4 } else { 2 }
}

impl Sweep {
    /// Makes them.
    ///
    /// # Safety
    /// Everything that the sweep describes is readable, its output writable and no other thread's; panels are readable
    /// over their whole width.
    pub unsafe fn run(self) {
        match self.right.ahead {
            0 => simd::run(Compiled::<false>(self)),
            _ => simd::run(Compiled::<true>(self)),
        }
    }
}

/// A sweep that fetches ahead, or one that does not: a choice within the innermost loop would cost every product.
struct Compiled<const AHEAD: bool>(Sweep);

impl<const AHEAD: bool> WithSimd for Compiled<AHEAD> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: `Sweep::run` asks its callers for what `blocks` needs.
        unsafe {
            if registers::<S>() == 4 {
                self.0.blocks::<S, ByFour, AHEAD>(simd);
            } else {
                self.0.blocks::<S, ByTwo, AHEAD>(simd);
            }
        }
    }
}

/// The blocks for whole panels.
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
    /// Rows in blocks of six, the rest in smaller ones; under each block all panels.
    #[inline(always)]
    unsafe fn blocks<S: Simd, B: Blocks, const AHEAD: bool>(&self, simd: S) {
        let mut row = 0;
        while row < self.rows {
            // SAFETY: rows and columns stay below those that the sweep has.
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

    /// All panels under `height` rows from `row` on; the last one in as few registers as it needs.
    #[inline(always)]
    unsafe fn panels<S: Simd, Whole: Block, Two: Block, One: Block, const AHEAD: bool>(
        &self,
        simd: S,
        row: usize,
        height: usize,
    ) -> usize {
        let width = registers::<S>() * S::F32_LANES;
        // SAFETY: as the caller says.
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
