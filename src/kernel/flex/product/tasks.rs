//! Products of many rows: operands copied in the order in which blocks of registers read them, and the output cut into
//! tasks. How it is cut changes no number of it.

use std::ops::Range;

use super::block::{self, Broadcast, Panel};
use super::pack::{self, Aligned};
use super::{DEPTH, HEIGHT, Matrix, Part, Product, pieces};
use crate::kernel::flex::threads;

/// Columns of the output that a task makes at most: `DEPTH` steps of them are 384 KiB.
pub(super) const COLUMNS: usize = 256;

/// Steps of the inner dimension of a left operand that are copied at one time.
const COPIED_STEPS: usize = 16;

/// Rows of the output that a task makes at most and at least, when tasks share the copied columns.
const ROWS: [usize; 2] = [24, 96];

/// Tasks of a product at least, when it is large enough: a slow core then does not hold up the others for long.
const TASKS: usize = 8;

impl<'a> Product<'a> {
    /// The left operand as blocks of registers read it: where it lies, or copied when its rows are not contiguous.
    pub(super) fn left_rows<'b>(&self, inner: &Range<usize>, buffer: &'b mut Aligned) -> Rows<'b>
    where
        'a: 'b,
    {
        let (left, m) = (self.left, self.left.shape[0]);
        if !self.copies_left() {
            return Rows::Direct(left);
        }
        let numbers = buffer.room(m * inner.len());
        let mut rest = &mut *numbers;
        let mut copies = Vec::new();
        for steps in pieces(inner.clone(), DEPTH) {
            for rows in pieces(0..m, 8 * HEIGHT) {
                let (block, next) = rest.split_at_mut(rows.len() * steps.len());
                copies.push((block, rows, steps.clone()));
                rest = next;
            }
        }
        // A few steps of all these rows at a time: their numbers share cache lines, which would be gone again after many.
        let copy = |(to, rows, steps): (&mut [f32], Range<usize>, Range<usize>)| {
            for part in pieces(steps.clone(), COPIED_STEPS) {
                let blocks = to.chunks_mut(HEIGHT * steps.len());
                for (block, rows) in blocks.zip(pieces(rows.clone(), HEIGHT)) {
                    let [from, end] =
                        [part.start, part.end].map(|k| (k - steps.start) * rows.len());
                    pack::block(&mut block[from..end], left, rows, part.clone());
                }
            }
        };
        match self.threads {
            true => threads::for_each(copies.into_iter(), copy),
            false => copies.into_iter().for_each(copy),
        }
        Rows::Copied {
            numbers,
            from: inner.start,
            rows: m,
        }
    }

    /// Each task copies the columns that it needs.
    pub(super) fn own(&self, inner: &Range<usize>, left: &Rows) {
        let [m, _, n] = self.sizes();
        let width = block::panel();
        let columns = match self.threads {
            true => n
                .div_ceil(TASKS)
                .next_multiple_of(width)
                .clamp(width, COLUMNS),
            false => COLUMNS,
        };
        self.tasks(n.div_ceil(columns), |task| {
            let first = task * columns;
            let part = Part {
                rows: 0..m,
                columns: first..(first + columns).min(n),
            };
            pack::with_panels(|panels| {
                for steps in pieces(inner.clone(), DEPTH) {
                    let whole = part.columns.len().next_multiple_of(width);
                    let panels = panels.room(whole * steps.len());
                    pack::panels(
                        panels,
                        self.right,
                        steps.clone(),
                        part.columns.clone(),
                        width,
                    );
                    self.part(&part, steps, left, panels);
                }
            });
        });
    }

    /// All tasks use one copy of these columns.
    pub(super) fn shared(
        &self,
        inner: &Range<usize>,
        columns: Range<usize>,
        left: &Rows,
        buffer: &mut Aligned,
    ) {
        let (m, width) = (self.left.shape[0], block::panel());
        let whole = columns.len().next_multiple_of(width);
        let panels = buffer.room(whole * inner.len());
        // By steps of the inner dimension, then by panels.
        let mut rest = &mut *panels;
        let mut copies = Vec::new();
        for steps in pieces(inner.clone(), DEPTH) {
            for columns in pieces(columns.clone(), width) {
                let (panel, next) = rest.split_at_mut(width * steps.len());
                copies.push((panel, steps.clone(), columns));
                rest = next;
            }
        }
        threads::for_each(copies.into_iter(), |(panel, steps, columns)| {
            pack::panels(panel, self.right, steps, columns, width);
        });
        let panels = &*panels;
        let across = columns.len().div_ceil(COLUMNS);
        let [least, most] = ROWS;
        let rows = m
            .div_ceil(TASKS.div_ceil(across))
            .clamp(least, most)
            .next_multiple_of(HEIGHT);
        let down = m.div_ceil(rows);
        self.tasks(down * across, |task| {
            let (row, column) = (task % down * rows, columns.start + task / down * COLUMNS);
            let part = Part {
                rows: row..(row + rows).min(m),
                columns: column..(column + COLUMNS).min(columns.end),
            };
            for steps in pieces(inner.clone(), DEPTH) {
                let first =
                    whole * (steps.start - inner.start) + (column - columns.start) * steps.len();
                self.part(&part, steps, left, &panels[first..]);
            }
        });
    }

    /// Adds some steps of the inner dimension to a part of the output; `panels` are the right operand's columns of
    /// them.
    pub(super) fn part(&self, part: &Part, steps: Range<usize>, left: &Rows, panels: &[f32]) {
        let width = block::panel();
        let right = Panel {
            at: panels.as_ptr(),
            step: width,
            ahead: 0,
        };
        assert!(panels.len() >= part.columns.len().next_multiple_of(width) * steps.len());
        for rows in pieces(part.rows.clone(), left.height(part.rows.len())) {
            let broadcast = left.at(&rows, &steps);
            let here = Part {
                rows,
                columns: part.columns.clone(),
            };
            let sweep = self.sweep(&here, steps.clone(), broadcast, right, width * steps.len());
            // SAFETY: rows and columns are the output's, which is this part's alone; the left operand was checked to
            // lie inside its slice, or copied, and there are as many whole panels as columns need.
            unsafe { sweep.run() };
        }
    }
}

/// The rows of a left operand.
pub(super) enum Rows<'a> {
    /// Where they lie, each contiguous.
    Direct(Matrix<'a>),
    /// `DEPTH` steps after `DEPTH` steps of the inner dimension, in each of them `HEIGHT` rows after `HEIGHT` rows, in
    /// each of these step after step.
    Copied {
        numbers: &'a [f32],
        from: usize,
        rows: usize,
    },
}

impl Rows<'_> {
    /// Rows of `count` that are described by one [`Broadcast`].
    fn height(&self, count: usize) -> usize {
        match self {
            Self::Direct(_) => count,
            Self::Copied { .. } => HEIGHT,
        }
    }

    /// Where rows begin; copied ones are a block's.
    fn at(&self, rows: &Range<usize>, steps: &Range<usize>) -> Broadcast {
        match self {
            Self::Direct(left) => Broadcast {
                at: left.data[rows.start * left.strides[0] + steps.start * left.strides[1]..]
                    .as_ptr(),
                rows: left.strides[0],
                step: left.strides[1],
            },
            Self::Copied {
                numbers,
                from,
                rows: all,
            } => Broadcast {
                at: numbers[all * (steps.start - from) + rows.start * steps.len()..].as_ptr(),
                rows: 1,
                step: rows.len(),
            },
        }
    }
}
