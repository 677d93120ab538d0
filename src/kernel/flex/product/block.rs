//! The innermost part of a product: a few rows times a panel of columns, in registers.
//!
//! A panel is [`panel`] columns wide: four registers where the machine has 32 of them, two where it has 16. Each of up
//! to six rows keeps its sums of one panel in registers while it walks down the inner dimension (Goto and van de
//! Geijn 2008, section 4), so that a step of it loads one row of the panel and broadcasts six numbers.

use pulp::{Simd, WithSimd};

use super::HEIGHT;
use crate::kernel::flex::simd;

/// Rows of numbers somewhere, of which single ones are read: `at + row·rows + inner·step`.
#[derive(Clone, Copy)]
pub struct Broadcast {
    /// The first number.
    pub at: *const f32,
    /// Distance of rows.
    pub rows: usize,
    /// Distance along the inner dimension.
    pub step: usize,
}

/// Rows of a panel, which are read whole.
#[derive(Clone, Copy)]
pub struct Panel {
    /// The first number.
    pub at: *const f32,
    /// Distance along the inner dimension.
    pub step: usize,
    /// Distance of what is asked for meanwhile, since it comes next; 0 for nothing.
    pub ahead: usize,
}

/// Rows that are written, and what the sums are added to.
#[derive(Clone, Copy)]
pub struct Target {
    /// The first number.
    pub at: *mut f32,
    /// Distance of rows.
    pub rows: usize,
    /// The first number of what the sums are added to, if anything; may be `at`.
    pub begin: Option<*const f32>,
    /// Distance of its rows; 0 for one row under all.
    pub begin_rows: usize,
    /// Factor of the sums.
    pub factor: f32,
}

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
    /// Everything that the sweep describes is readable, its output writable and nobody else's; panels are readable
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

/// Numbers that a step of a block asks for ahead: two cache lines, so that two blocks of rows ask for a whole panel.
const FETCHED: usize = 32;

/// So many rows times a panel.
trait Block {
    /// Makes `columns` columns of it.
    unsafe fn make<S: Simd, const AHEAD: bool>(
        s: S,
        left: Broadcast,
        right: Panel,
        inner: usize,
        out: Target,
        columns: usize,
    );
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

/// Sums of one row: `sums + number·columns`.
#[inline(always)]
fn step4<S: Simd>(s: S, x: S::f32s, b: [S::f32s; 4], c: [S::f32s; 4]) -> [S::f32s; 4] {
    [
        s.mul_add_e_f32s(x, b[0], c[0]),
        s.mul_add_e_f32s(x, b[1], c[1]),
        s.mul_add_e_f32s(x, b[2], c[2]),
        s.mul_add_e_f32s(x, b[3], c[3]),
    ]
}

/// The same in two registers.
#[inline(always)]
fn step2<S: Simd>(s: S, x: S::f32s, b: [S::f32s; 2], c: [S::f32s; 2]) -> [S::f32s; 2] {
    [
        s.mul_add_e_f32s(x, b[0], c[0]),
        s.mul_add_e_f32s(x, b[1], c[1]),
    ]
}

/// The same in one register.
#[inline(always)]
fn step1<S: Simd>(s: S, x: S::f32s, b: [S::f32s; 1], c: [S::f32s; 1]) -> [S::f32s; 1] {
    [s.mul_add_e_f32s(x, b[0], c[0])]
}

/// `N` registers from memory of any alignment.
#[inline(always)]
unsafe fn load<S: Simd, const N: usize>(at: *const f32) -> [S::f32s; N] {
    // SAFETY: the caller says that so much is readable; any bits are float32.
    unsafe { at.cast::<[S::f32s; N]>().read_unaligned() }
}

/// Writes the sums of one row.
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
    // SAFETY: the caller says that this row of `columns` is writable, and readable in `begin`.
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

/// A block of so many rows and registers; written out, since sums that are indexed by a variable leave the registers.
/// The rows' addresses are hidden from the compiler, which would compute each from the last at every step: a fifth
/// of the loop's instructions, which a core that serves two programs has not to spare.
macro_rules! block {
    ($name:ident, $width:literal, $step:ident: $($sums:ident $at:ident $row:literal),*) => {
        struct $name;

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
                $(let mut $sums = [s.splat_f32s(0.0); $width];)*
                $(let $at = std::hint::black_box(left.at.wrapping_add($row * left.rows));)*
                let (mut a, mut b) = (0_usize, right.at);
                // SAFETY: the sweep says that `inner` steps of both are readable and the block writable.
                unsafe {
                    for _ in 0..inner {
                        let row = load::<S, $width>(b);
                        if AHEAD {
                            simd::fetch_from(b.wrapping_add(right.ahead));
                            simd::fetch_from(b.wrapping_add(right.ahead + FETCHED / 2));
                        }
                        $($sums = $step(s, s.splat_f32s(*$at.add(a)), row, $sums);)*
                        a = a.wrapping_add(left.step);
                        b = b.wrapping_add(right.step);
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
