//! Products of many rows: operands copied in the order in which blocks of registers read them, and the output cut into
//! tasks. How it is cut changes no number of it.

use std::ops::Range;

use super::pack::{self, Aligned};
use super::registers::{Broadcast, Panel};
use super::{DEPTH, HEIGHT, Matrix, Product, block, pieces};

/// Columns of the output that a task makes at most: `DEPTH` steps of them are 384 KiB.
pub(super) const COLUMNS: usize = 256;

/// Rows of the output that a task makes at least and at most, when tasks share the copied columns.
pub(super) const ROWS: [usize; 2] = [24, 96];

/// The same at most when the copied columns are [`FAR`]: each task reads all of them.
const MANY_ROWS: usize = 288;

/// Numbers of the right operand, 4 MiB, above which a core's second cache sees little of it again.
const FAR: usize = 1 << 20;

/// Tasks of a product at least, when it is large enough: a slow core then does not hold up the others for long.
const TASKS: usize = 8;

impl Product<'_> {
    /// Each task copies the columns that it needs, of all rows; a left operand that has to be copied is so once for
    /// all tasks.
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
        self.each(0..n.div_ceil(columns), |task| {
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

    /// All rows of the left operand as blocks of registers read them: where they lie, or copied.
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
        self.each(copies.into_iter(), |(blocks, rows, steps)| {
            pack::blocks(blocks, self.left, rows, steps);
        });
        Rows::Copied {
            numbers,
            rows: 0..m,
            from: inner.start,
        }
    }

    /// All tasks use one copy of some steps of these columns; each of them makes some rows, which it copies for itself if it has to.
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
        let most = if panels.len() > FAR { MANY_ROWS } else { most };
        let rows = m.div_ceil(TASKS).clamp(least, most);
        let rows = pieces(0..m, rows.next_multiple_of(HEIGHT));
        self.each(rows, |rows| self.some_rows(&rows, inner, &columns, panels));
    }

    /// Some rows of these columns, of which `panels` are the right operand's.
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

    /// Columns of the right operand as panels: by pieces of the inner dimension, then by panels.
    fn shared_panels<'b>(
        &self,
        inner: &Range<usize>,
        columns: Range<usize>,
        panels: &'b mut [f32],
    ) -> &'b [f32] {
        let copies = Self::copies(inner, &columns, panels);
        self.each(copies.into_iter(), |copy| self.copy(copy));
        panels
    }

    /// The copies that panels of some columns are made of, with room for each.
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

    /// Makes one of them.
    pub(super) fn copy(&self, copy: Copied) {
        let Copied {
            panel,
            steps,
            columns,
        } = copy;
        pack::panels(panel, self.right, steps, columns, block::panel());
    }

    /// Some rows and steps of the left operand as blocks of registers read them.
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
    /// Where they lie.
    Direct(Matrix<'a>),
    /// Steps from `from` on: `DEPTH` steps after `DEPTH` steps, in each of them `HEIGHT` rows after `HEIGHT` rows, in
    /// each of these step after step.
    Copied {
        numbers: &'a [f32],
        rows: Range<usize>,
        from: usize,
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
