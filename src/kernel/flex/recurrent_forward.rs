//! Recurrent cells, forward: one product with the state per position, with weights that are packed once for all
//! positions.

use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};

use super::buffer::{SharedBuffer, contiguous, scratch_buffer, slice, tensor, zeros};
use super::product::{Matrix, Packed, WriteMode, product};
use super::recurrent::{Shape, Task, with_scratch};
use super::recurrent_cells::{self as cells, Units};
use super::simd::run;
use super::threads;
use crate::kernel::extension::Maybe;
use crate::kernel::recurrent::extension::RecurrenceSaved;
use crate::kernel::recurrent::{Cell, RecurrenceSettings, Step};

/// Computes all positions, one after the other; `extra` is an LSTM's first c or a GRU's bias.
pub fn forward(
    inputs: FlexTensor,
    weight: FlexTensor,
    h: FlexTensor,
    extra: Maybe<Flex>,
    settings: &RecurrenceSettings,
) -> RecurrenceSaved<Flex> {
    let shape = Shape::new(&inputs, settings);
    let Shape { batch, seq, d, .. } = shape;
    let mut gates = contiguous(inputs);
    let (weight, h) = (contiguous(weight), contiguous(h));
    let extra = extra.into_option().map(contiguous);
    let positions = batch * seq;
    let last = if settings.last { batch } else { 0 };
    let mut y = zeros((positions + last) * d);
    let has_inner = settings.cell != Cell::Elman;
    let mut inner = zeros(if has_inner { positions * d } else { 0 });
    let zeros = vec![0.0; d];
    let mut states = [slice(&h).to_vec(), vec![0.0; batch * d]];
    let buffers = Buffers {
        gates: SharedBuffer::new(gates.storage_mut()),
        y: SharedBuffer::new(&mut y),
        inner: SharedBuffer::new(&mut inner),
    };
    let weights = Weights::new(&shape, slice(&weight));
    for at in 0..seq {
        let [even, odd] = &mut states;
        let (before, after) = if at % 2 == 0 {
            (even, odd)
        } else {
            (odd, even)
        };
        let position = Position {
            shape,
            at,
            before: &*before,
            after: SharedBuffer::new(after),
            extra: extra.as_ref().map(slice),
            zeros: &zeros,
            buffers: &buffers,
        };
        weights.position(&position);
    }
    if settings.last {
        for (row, last) in y[positions * d..].chunks_exact_mut(d).enumerate() {
            last.copy_from_slice(&inner[((row + 1) * seq - 1) * d..][..d]);
        }
    }
    let maybe = |x: Option<FlexTensor>| x.map_or(Maybe::None, Maybe::Some);
    RecurrenceSaved {
        out: tensor(y, [positions + last, d]),
        gates,
        inner: maybe(has_inner.then(|| tensor(inner, [batch, seq, d]))),
        weight,
        h,
        extra: maybe(extra),
    }
}

/// The outputs of all positions.
struct Buffers {
    gates: SharedBuffer,
    y: SharedBuffer,
    inner: SharedBuffer,
}

/// The weights, as read by the products of a position.
enum Weights<'a> {
    /// Packed, one per gate.
    Packed(Vec<Packed>),
    /// A view of the unpacked weights.
    Direct(Matrix<'a>),
}

impl<'a> Weights<'a> {
    fn new(shape: &Shape, weight: &'a [f32]) -> Self {
        let d = shape.d;
        let right = Matrix::rows(weight, [shape.width(), d]).transposed();
        if shape.reads_unpacked() {
            return Self::Direct(right);
        }
        let gate = |gate: &'a [f32]| Packed::new(Matrix::rows(gate, [d, d]).transposed());
        Self::Packed(threads::map(weight.chunks_exact(d * d), gate))
    }

    fn position(&self, position: &Position) {
        let Shape { batch, d, .. } = position.shape;
        let gates = position.shape.settings.cell.gates();
        let left = Matrix::rows(position.before, [batch, d]);
        match self {
            Self::Packed(packed) => position.shape.for_each_task(|task| {
                let (rows, units) = (task.rows.len(), task.units.len());
                let left = Matrix::rows(&position.before[task.rows.start * d..], [rows, d]);
                with_scratch(gates * rows * units, |room| {
                    for (out, packed) in room.chunks_exact_mut(rows * units).zip(packed) {
                        packed.product(out, left, task.units.clone(), WriteMode::TILE);
                    }
                    let at = |gate, row| (gate * rows + row) * units;
                    run(Gates {
                        position,
                        task: &task,
                        hidden: room,
                        at,
                    });
                });
            }),
            Self::Direct(right) => {
                let width = gates * d;
                let mut hidden = scratch_buffer(batch * width);
                product(&mut hidden, left, *right, WriteMode::REPLACE);
                position.shape.for_each_task(|task| {
                    let first = task.rows.start * width + task.units.start;
                    run(Gates {
                        position,
                        task: &task,
                        hidden: &hidden,
                        at: |gate, row| first + row * width + gate * d,
                    });
                });
            }
        }
    }
}

/// One position of all rows.
struct Position<'a> {
    shape: Shape<'a>,
    at: usize,
    /// h before the position, `[batch, d]`.
    before: &'a [f32],
    /// h after the position.
    after: SharedBuffer,
    extra: Option<&'a [f32]>,
    zeros: &'a [f32],
    buffers: &'a Buffers,
}

/// Computes a task's gates from its products; `at(gate, row)` is the offset of a row's products.
struct Gates<'a, F> {
    position: &'a Position<'a>,
    task: &'a Task,
    hidden: &'a [f32],
    at: F,
}

impl<F: Fn(usize, usize) -> usize> WithSimd for Gates<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for row in self.task.rows.clone() {
            self.row(simd, row);
        }
    }
}

impl<F: Fn(usize, usize) -> usize> Gates<'_, F> {
    #[inline(always)]
    fn row<S: Simd>(&self, simd: S, row: usize) {
        let Position {
            shape,
            at,
            before,
            extra,
            zeros,
            buffers,
            ..
        } = *self.position;
        let Shape { seq, d, .. } = shape;
        let (first, n) = (self.task.units.start, self.task.units.len());
        let place = row * seq + at;
        let step = shape.step(row, at);
        let zeros = &zeros[..n];
        let hidden = |gate: usize| match step {
            Step::Begin => zeros,
            Step::Next | Step::Hold => {
                &self.hidden[(self.at)(gate, row - self.task.rows.start)..][..n]
            }
        };
        let h = match step {
            Step::Begin => zeros,
            Step::Next | Step::Hold => &before[row * d + first..][..n],
        };
        // SAFETY: only this task writes these units of this row in any buffer, and the buffers outlive it.
        let (y, after) = unsafe {
            (
                self.task.of(&buffers.y, place * d),
                self.task.of(&self.position.after, row * d),
            )
        };
        let gate = |gate: usize| {
            let start = place * shape.width() + gate * d;
            // SAFETY: as above.
            unsafe { self.task.of(&buffers.gates, start) }
        };
        // SAFETY: as above; an Elman cell has no inner values and does not call this.
        let inner = || unsafe { self.task.of(&buffers.inner, place * d) };
        let cell = shape.settings.cell;
        if step == Step::Hold {
            y.copy_from_slice(h);
            if cell == Cell::Lstm {
                let c = self.c_before(row, step);
                inner().copy_from_slice(c);
            }
        } else {
            match cell {
                Cell::Elman => Units {
                    inputs: [&*gate(0), hidden(0)],
                    changed: [],
                    outputs: [&mut *y],
                }
                .update(simd, cells::Elman),
                Cell::Gru => {
                    let bias = extra.map_or(zeros, |bias| &bias[first..][..n]);
                    Units {
                        inputs: [hidden(0), hidden(1), hidden(2), bias, h],
                        changed: [gate(0), gate(1), gate(2)],
                        outputs: [inner(), &mut *y],
                    }
                    .update(simd, cells::Gru);
                }
                Cell::Lstm => {
                    let c = self.c_before(row, step);
                    Units {
                        inputs: [hidden(0), hidden(1), hidden(2), hidden(3), c],
                        changed: [gate(0), gate(1), gate(2), gate(3)],
                        outputs: [inner(), &mut *y],
                    }
                    .update(simd, cells::Lstm);
                }
            }
        }
        after.copy_from_slice(y);
    }

    /// Returns an LSTM's c before this position.
    #[inline(always)]
    fn c_before(&self, row: usize, step: Step) -> &[f32] {
        let Position { shape, at, .. } = *self.position;
        let Shape { seq, d, .. } = shape;
        let (first, n) = (self.task.units.start, self.task.units.len());
        match (step, self.position.extra) {
            (Step::Begin, _) | (_, None) => &self.position.zeros[..n],
            (_, Some(c)) if at == 0 => &c[row * d + first..][..n],
            (_, Some(_)) => {
                let start = (row * seq + at - 1) * d;
                // SAFETY: written at the previous position, and by no task at this one.
                unsafe { self.task.of(&self.position.buffers.inner, start) }
            }
        }
    }
}
