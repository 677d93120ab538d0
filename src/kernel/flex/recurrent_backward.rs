//! Recurrent cells, backward: from the last position to the first, then the weight gradient as one product.
//!
//! The gradient of h at a position comes from its output and from the gates of the next position through the weights.
//! In a GRU, and where a row has ended, a further part bypasses the weights (`carried`). Gates are overwritten by
//! their gradients.

use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};

use super::buffer::{SharedBuffer, build_zeroed, contiguous, slice, tensor, zeros};
use super::linear::sum_of_rows;
use super::product::{Matrix, Packed, WriteMode, product, product_new};
use super::recurrent::{Shape, Task, with_scratch};
use super::recurrent_cells::{self as cells, Units};
use super::simd::run;
use crate::kernel::recurrent::extension::{RecurrenceGradients, RecurrenceSaved};
use crate::kernel::recurrent::{Cell, RecurrenceSettings, Step};

/// Returns the gradients of all inputs.
pub fn backward(
    saved: RecurrenceSaved<Flex>,
    grad: FlexTensor,
    settings: &RecurrenceSettings,
) -> RecurrenceGradients<Flex> {
    let shape = Shape::new(&saved.gates, settings);
    let Shape { batch, seq, d, .. } = shape;
    let mut gates = contiguous(saved.gates);
    let mut inner = saved.inner.into_option().map(contiguous);
    let extra = saved.extra.into_option().map(contiguous);
    let [grad, y, weight, h] = [grad, saved.out, saved.weight, saved.h].map(contiguous);
    let (grad, y, weight, h) = (slice(&grad), slice(&y), slice(&weight), slice(&h));
    let mut carried = vec![0.0; batch * d];
    let mut d_c = match settings.last {
        true => grad[batch * seq * d..].to_vec(),
        false => vec![0.0; batch * d],
    };
    let mut d_h = vec![0.0; batch * d];
    let saved = Saved {
        shape,
        grad,
        y,
        h,
        extra: extra.as_ref().map(slice),
        zeros: &vec![0.0; d],
    };
    let none: &mut [f32] = &mut [];
    let buffers = Buffers {
        gates: SharedBuffer::new(gates.storage_mut()),
        inner: SharedBuffer::new(inner.as_mut().map_or(none, FlexTensor::storage_mut)),
        carried: SharedBuffer::new(&mut carried),
        d_c: SharedBuffer::new(&mut d_c),
        d_h: SharedBuffer::new(&mut d_h),
    };
    saved.positions(&buffers, weight);
    let (d_gates, d_inner) = (slice(&gates), inner.as_ref().map(slice));
    let d_weight = saved.weight_gradient(d_gates, d_inner);
    let d_extra = match (settings.cell, extra, d_inner) {
        (Cell::Lstm, Some(_), _) => Some(tensor(d_c, [batch, d])),
        (Cell::Gru, Some(_), Some(d_inner)) => Some(tensor(sum_of_rows(d_inner, d), [d])),
        _ => None,
    };
    RecurrenceGradients {
        inputs: gates,
        weight: tensor(d_weight, [shape.width(), d]),
        h: tensor(d_h, [batch, d]),
        extra: d_extra,
    }
}

/// The inputs of the backward pass.
#[derive(Clone, Copy)]
struct Saved<'a> {
    shape: Shape<'a>,
    grad: &'a [f32],
    y: &'a [f32],
    h: &'a [f32],
    extra: Option<&'a [f32]>,
    zeros: &'a [f32],
}

/// The outputs of the backward pass.
struct Buffers {
    gates: SharedBuffer,
    inner: SharedBuffer,
    carried: SharedBuffer,
    d_c: SharedBuffer,
    d_h: SharedBuffer,
}

impl Saved<'_> {
    /// Computes the gradients of all gates and of the first state.
    fn positions(&self, buffers: &Buffers, weight: &[f32]) {
        let Shape { batch, seq, d, .. } = self.shape;
        let weights = Weights::new(&self.shape, weight);
        let mut gates = [0, 1].map(|_| vec![0.0; batch * self.shape.width()]);
        for at in (0..seq).rev() {
            let [even, odd] = &mut gates;
            let (now, later) = match at % 2 {
                0 => (even, &*odd),
                _ => (odd, &*even),
            };
            let now = SharedBuffer::new(now);
            weights.each(&self.shape, later, |task, products| {
                run(Slopes {
                    saved: self,
                    buffers,
                    at,
                    now: &now,
                    task,
                    products,
                });
            });
        }
        weights.each(&self.shape, &gates[0], |task, products| {
            let n = task.units.len();
            for row in task.rows.clone() {
                let first = row * d + task.units.start;
                // SAFETY: only this task writes these units of this row.
                let (out, carried) =
                    unsafe { (buffers.d_h.row(first, n), buffers.carried.row(first, n)) };
                out.copy_from_slice(carried);
                if self.shape.step(row, 0) != Step::Begin {
                    let product = &products[(row - task.rows.start) * n..][..n];
                    out.iter_mut().zip(product).for_each(|(out, x)| *out += x);
                }
            }
        });
    }

    /// Returns `[gates·d, d]`: the gates' gradients times the states before them, over all positions.
    fn weight_gradient(&self, gates: &[f32], inner: Option<&[f32]>) -> Vec<f32> {
        let Shape { batch, seq, d, .. } = self.shape;
        let positions = batch * seq;
        let each = |first: usize, part: &mut [f32]| {
            let row = first / (seq * d);
            for (at, out) in part.chunks_exact_mut(d).enumerate() {
                match (self.shape.step(row, at), at) {
                    (Step::Begin, _) => out.fill(0.0),
                    (_, 0) => out.copy_from_slice(&self.h[row * d..][..d]),
                    (_, _) => out.copy_from_slice(&self.y[(row * seq + at - 1) * d..][..d]),
                }
            }
        };
        let before = build_zeroed(positions * d, (seq * d).max(1), each);
        let width = self.shape.width();
        let before = Matrix::rows(&before, [positions, d]);
        let gates = Matrix::rows(gates, [positions, width]).transposed();
        match (self.shape.settings.cell, inner) {
            (Cell::Gru, Some(inner)) => {
                let mut out = zeros(width * d);
                let (outer, last) = out.split_at_mut(2 * d * d);
                let two = Matrix {
                    shape: [2 * d, positions],
                    ..gates
                };
                product(outer, two, before, WriteMode::REPLACE);
                let inner = Matrix::rows(inner, [positions, d]).transposed();
                product(last, inner, before, WriteMode::REPLACE);
                out
            }
            _ => product_new(gates, before, None),
        }
    }
}

/// The weights, as read by the products with the gates' gradients.
enum Weights<'a> {
    Packed(Packed),
    Direct(Matrix<'a>),
}

impl<'a> Weights<'a> {
    fn new(shape: &Shape, weight: &'a [f32]) -> Self {
        let right = Matrix::rows(weight, [shape.width(), shape.d]);
        match shape.reads_unpacked() {
            true => Self::Direct(right),
            false => Self::Packed(Packed::new(right)),
        }
    }

    /// Calls `work` for the tasks of a position with their part of `gates·weight`, row after row.
    fn each(&self, shape: &Shape, gates: &[f32], work: impl Fn(&Task, &[f32]) + Sync) {
        let width = shape.width();
        let mut whole = Vec::new();
        if let Self::Direct(right) = self {
            let left = Matrix::rows(gates, [shape.batch, width]);
            whole = product_new(left, *right, None);
        }
        shape.for_each_task(|task| {
            let (rows, n) = (task.rows.len(), task.units.len());
            with_scratch(rows * n, |room| {
                match self {
                    Self::Packed(packed) => {
                        let left = &gates[task.rows.start * width..];
                        let left = Matrix::rows(left, [rows, width]);
                        packed.product(room, left, task.units.clone(), WriteMode::TILE);
                    }
                    Self::Direct(_) => {
                        for (out, row) in room.chunks_exact_mut(n).zip(task.rows.clone()) {
                            let first = row * shape.d + task.units.start;
                            out.copy_from_slice(&whole[first..][..n]);
                        }
                    }
                }
                work(&task, room);
            });
        });
    }
}

/// Computes the gradients of a task's gates at one position.
struct Slopes<'a> {
    saved: &'a Saved<'a>,
    buffers: &'a Buffers,
    at: usize,
    /// Gradients of the products with h, `[batch, gates·d]`, which the previous position reads.
    now: &'a SharedBuffer,
    task: &'a Task,
    products: &'a [f32],
}

impl WithSimd for Slopes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for row in self.task.rows.clone() {
            self.row(simd, row);
        }
    }
}

impl Slopes<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, simd: S, row: usize) {
        let (Saved { shape, y, h, .. }, at) = (*self.saved, self.at);
        let Shape { seq, d, .. } = shape;
        let (first, n) = (self.task.units.start, self.task.units.len());
        let (place, width) = (row * seq + at, shape.width());
        let (buffers, task) = (self.buffers, self.task);
        // SAFETY: only this task writes these units of this row in any buffer, and the buffers outlive it.
        let gate = |gate: usize| unsafe { task.of(&buffers.gates, place * width + gate * d) };
        // SAFETY: as above.
        let now = |gate: usize| unsafe { task.of(self.now, row * width + gate * d) };
        // SAFETY: as above; an Elman cell has no inner values and does not call this.
        let inner = |place: usize| unsafe { task.of(&buffers.inner, place * d) };
        // SAFETY: as above.
        let (carried, d_c) = unsafe {
            (
                task.of(&buffers.carried, row * d),
                task.of(&buffers.d_c, row * d),
            )
        };
        let zeros = &self.saved.zeros[..n];
        let grad = &self.saved.grad[place * d + first..][..n];
        let rest = match shape.step(row, at + 1) {
            Step::Begin => zeros,
            Step::Next | Step::Hold => &self.products[(row - self.task.rows.start) * n..][..n],
        };
        let (step, cell) = (shape.step(row, at), shape.settings.cell);
        if step == Step::Hold {
            for (out, (a, b)) in carried.iter_mut().zip(grad.iter().zip(rest)) {
                *out += a + b;
            }
            (0..cell.gates()).for_each(|g| {
                gate(g).fill(0.0);
                now(g).fill(0.0);
            });
            if cell == Cell::Gru {
                inner(place).fill(0.0);
            }
            return;
        }
        match cell {
            Cell::Elman => Units {
                inputs: [grad, rest, &y[place * d + first..][..n]],
                changed: [gate(0), &mut *carried],
                outputs: [],
            }
            .update(simd, cells::ElmanBackward),
            Cell::Gru => {
                let old = match (step, at) {
                    (Step::Begin, _) => zeros,
                    (_, 0) => &h[row * d + first..][..n],
                    (_, _) => &y[(place - 1) * d + first..][..n],
                };
                Units {
                    inputs: [grad, rest, old],
                    changed: [gate(0), gate(1), gate(2), inner(place), &mut *carried],
                    outputs: [],
                }
                .update(simd, cells::GruBackward);
            }
            Cell::Lstm => {
                let old = match (step, at, self.saved.extra) {
                    (Step::Begin, _, _) | (_, _, None) => zeros,
                    (_, 0, Some(c)) => &c[row * d + first..][..n],
                    (_, _, Some(_)) => &*inner(place - 1),
                };
                let [i, f, g, o] = [0, 1, 2, 3].map(gate);
                Units {
                    inputs: [grad, rest, &*inner(place), old],
                    changed: [i, f, g, o, &mut *carried, &mut *d_c],
                    outputs: [],
                }
                .update(simd, cells::LstmBackward);
                if step == Step::Begin {
                    d_c.fill(0.0);
                }
            }
        }
        if step == Step::Begin {
            carried.fill(0.0);
        }
        let outer = if cell == Cell::Gru { 2 } else { cell.gates() };
        (0..outer).for_each(|g| now(g).copy_from_slice(gate(g)));
        if cell == Cell::Gru {
            now(2).copy_from_slice(inner(place));
        }
    }
}
