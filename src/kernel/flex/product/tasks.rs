//! Products of many rows: operands are copied in the order in which register blocks read them, and the output is
//! divided into tasks. The division changes no result.

use std::ops::Range;

use super::pack::{self, Aligned};
use super::registers::{Broadcast, Panel};
use super::{DEPTH, HEIGHT, Matrix, Product, block, pieces};

/// Maximum number of output columns of a task: `DEPTH` steps of them are 384 KiB.
pub(super) const COLUMNS: usize = 256;

/// Minimum and maximum number of output rows of a task, if tasks share the copied columns.
pub(super) const ROWS: [usize; 2] = [24, 96];

/// Maximum number of rows if the copied columns exceed [`CACHED_ELEMENTS`], since each task reads all of them.
const MANY_ROWS: usize = 288;

/// Number of elements of the right operand, 4 MiB, above which little of it stays in a core's L2 cache.
const CACHED_ELEMENTS: usize = 1 << 20;

/// Minimum number of tasks of a product, if it is large enough: a slow core then does not delay the others for long.
const TASKS: usize = 8;

impl Product<'_> {
    /// Divides by columns: each task copies the columns that it needs and processes all rows. If the left operand has
    /// to be copied, this is done once for all tasks.
    pub(super) fn by_columns(&self, inner: &Range<usize>, buffer: &mut Aligned) {
        let [m, _, n] = self.sizes();
        let width = block::panel();
        let left = self.shared_rows(inner, buffer);
        let columns = match self.threads {
            true => n
                .div_ceil(TASKS)
                .next_multiple_of(width)
                .clamp(width, COLUMNS),
            false => COLUMNS,
        };
        self.for_each_item(0..n.div_ceil(columns), |task| {
            let first = task * columns;
            let part = Part {
                rows: 0..m,
                columns: first..(first + columns).min(n),
            };
            pack::with_buffer(|panels| {
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
                    self.part(&part, steps, &left, panels);
                }
            });
        });
    }

    /// Returns all rows of the left operand as register blocks read them: in place, or copied.
    fn shared_rows<'b>(&'b self, inner: &Range<usize>, buffer: &'b mut Aligned) -> Rows<'b> {
        let m = self.left.shape[0];
        if !self.copies_left() {
            return Rows::Direct(self.left);
        }
        let numbers = buffer.room(m * inner.len());
        let mut rest = &mut *numbers;
        let mut copies = Vec::new();
        for steps in pieces(inner.clone(), DEPTH) {
            for rows in pieces(0..m, ROWS[1]) {
                let (blocks, next) = rest.split_at_mut(rows.len() * steps.len());
                copies.push((blocks, rows, steps.clone()));
                rest = next;
            }
        }
        self.for_each_item(copies.into_iter(), |(blocks, rows, steps)| {
            pack::blocks(blocks, self.left, rows, steps);
        });
        Rows::Copied {
            numbers,
            rows: 0..m,
            from: inner.start,
        }
    }

    /// Divides by rows: all tasks share one copy of some steps of these columns; each task processes some rows, which
    /// it copies if necessary.
    pub(super) fn by_rows(
        &self,
        inner: &Range<usize>,
        columns: Range<usize>,
        buffer: &mut Aligned,
    ) {
        let m = self.left.shape[0];
        let whole = columns.len().next_multiple_of(block::panel());
        let panels = buffer.room(whole * inner.len());
        let panels = self.shared_panels(inner, columns.clone(), panels);
        let [least, most] = ROWS;
        let most = if panels.len() > CACHED_ELEMENTS {
            MANY_ROWS
        } else {
            most
        };
        let rows = m.div_ceil(TASKS).clamp(least, most);
        let rows = pieces(0..m, rows.next_multiple_of(HEIGHT));
        self.for_each_item(rows, |rows| self.some_rows(&rows, inner, &columns, panels));
    }

    /// Processes some rows for these columns; `panels` are the copied columns of the right operand.
    pub(super) fn some_rows(
        &self,
        rows: &Range<usize>,
        inner: &Range<usize>,
        columns: &Range<usize>,
        panels: &[f32],
    ) {
        let whole = columns.len().next_multiple_of(block::panel());
        pack::with_buffer(|copy| {
            for steps in pieces(inner.clone(), DEPTH) {
                let left = self.own_rows(rows, &steps, copy);
                for part in pieces(columns.clone(), COLUMNS) {
                    let first = whole * (steps.start - inner.start)
                        + (part.start - columns.start) * steps.len();
                    let part = Part {
                        rows: rows.clone(),
                        columns: part,
                    };
                    self.part(&part, steps.clone(), &left, &panels[first..]);
                }
            }
        });
    }

    /// Copies columns of the right operand to panels: by pieces of the inner dimension, then by panels.
    fn shared_panels<'b>(
        &self,
        inner: &Range<usize>,
        columns: Range<usize>,
        panels: &'b mut [f32],
    ) -> &'b [f32] {
        let copies = Self::copies(inner, &columns, panels);
        self.for_each_item(copies.into_iter(), |copy| self.copy(copy));
        panels
    }

    /// Returns the copies that panels of some columns consist of, with memory for each.
    pub(super) fn copies<'b>(
        inner: &Range<usize>,
        columns: &Range<usize>,
        panels: &'b mut [f32],
    ) -> Vec<Copied<'b>> {
        let width = block::panel();
        let (mut rest, mut copies) = (panels, Vec::new());
        for steps in pieces(inner.clone(), DEPTH) {
            for columns in pieces(columns.clone(), width) {
                let (panel, next) = rest.split_at_mut(width * steps.len());
                copies.push(Copied {
                    panel,
                    steps: steps.clone(),
                    columns,
                });
                rest = next;
            }
        }
        copies
    }

    /// Executes one of these copies.
    pub(super) fn copy(&self, copy: Copied) {
        let Copied {
            panel,
            steps,
            columns,
        } = copy;
        pack::panels(panel, self.right, steps, columns, block::panel());
    }

    /// Returns some rows and steps of the left operand as register blocks read them.
    fn own_rows<'b>(
        &'b self,
        rows: &Range<usize>,
        steps: &Range<usize>,
        buffer: &'b mut Aligned,
    ) -> Rows<'b> {
        if !self.copies_left() {
            return Rows::Direct(self.left);
        }
        let numbers = buffer.room(rows.len() * steps.len());
        pack::blocks(numbers, self.left, rows.clone(), steps.clone());
        Rows::Copied {
            numbers,
            rows: rows.clone(),
            from: steps.start,
        }
    }

    /// Adds some steps of the inner dimension to a part of the output; `panels` are the right operand's columns for
    /// these steps.
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
            // SAFETY: only this part uses these rows and columns of the output; the left operand was checked to be
            // inside its slice, or was copied, and there are as many whole panels as the columns need.
            unsafe { sweep.run() };
        }
    }
}

/// A part of the output.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
}

/// A panel to copy: some steps of as many columns as a panel has.
pub(super) struct Copied<'a> {
    panel: &'a mut [f32],
    steps: Range<usize>,
    columns: Range<usize>,
}

/// The rows of a left operand.
pub(super) enum Rows<'a> {
    /// A view of the operand.
    Direct(Matrix<'a>),
    /// A copy from step `from` on: groups of `DEPTH` steps follow one another, within them blocks of `HEIGHT` rows,
    /// and within these the steps.
    Copied {
        numbers: &'a [f32],
        rows: Range<usize>,
        from: usize,
    },
}

impl Rows<'_> {
    /// Returns how many of `count` rows one [`Broadcast`] describes.
    fn height(&self, count: usize) -> usize {
        match self {
            Self::Direct(_) => count,
            Self::Copied { .. } => HEIGHT,
        }
    }

    /// Returns where rows begin; copied rows must be those of one block.
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
                rows: all,
                from,
            } => {
                let before = all.len() * (steps.start - from);
                Broadcast {
                    at: numbers[before + (rows.start - all.start) * steps.len()..].as_ptr(),
                    rows: 1,
                    step: rows.len(),
                }
            }
        }
    }
}
