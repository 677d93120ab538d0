//! Products that read their right operand in place: those of a few rows, as in decoding, where the time is spent
//! reading it once in memory order, and those with a few columns, as in attention.

use super::registers::{Broadcast, Panel};
use super::{DEPTH, Part, Product, block, dots, pack, pieces};

/// Number of rows up to which copying the right operand does not pay off.
const ROWS: usize = 24;

/// Number of inner steps read side by side for up to [`FEWEST`] rows. With more rows it is twice as many, since each
/// row reads and writes its sums once per group of steps.
const STREAMS: usize = 16;

/// Number of rows up to which arithmetic costs nothing next to reading.
const MEMORY_BOUND_ROWS: usize = 4;

/// Number of tasks of a product: few, since long pieces of rows are read faster than short ones.
const TASKS: usize = 4;

/// Maximum number of columns of a task.
const COLUMNS: usize = 512;

/// Returns whether a product is computed here.
pub(super) fn applies(product: &Product) -> bool {
    let [rows, columns] = [product.left.shape[0], product.right.strides[1]];
    match columns {
        1 => rows <= ROWS || narrow(product),
        _ => rows <= ROWS && product.right.strides[0] == 1 && product.left.strides[1] == 1,
    }
}

/// Returns whether all columns are one panel that need not be copied; if several tasks share it, copying it once is
/// cheaper.
fn narrow(product: &Product) -> bool {
    let columns = product.right.shape[1];
    !product.threads && columns <= block::panel() && block::direct(columns)
}

/// Computes the product.
pub(super) fn make(product: &Product) {
    let [m, _, n] = product.sizes();
    let width = block::panel();
    let columns = match product.threads {
        true => n
            .div_ceil(TASKS)
            .next_multiple_of(width)
            .clamp(width, COLUMNS),
        false => n,
    };
    product.for_each_item(0..n.div_ceil(columns), |task| {
        let first = task * columns;
        let part = Part {
            rows: 0..m,
            columns: first..(first + columns).min(n),
        };
        if product.right.strides[1] == 1 {
            streams(product, part, width);
        } else {
            dots::make(product, &part);
        }
    });
}

/// Reads rows of the right operand in groups, side by side.
fn streams(product: &Product, part: Part, width: usize) {
    let (left, right) = (product.left, product.right);
    let [m, k, _] = product.sizes();
    let whole = match block::direct(part.columns.len()) {
        true => part.columns.len(),
        false => part.columns.len() / width * width,
    };
    let steps = match m {
        0..=MEMORY_BOUND_ROWS => STREAMS,
        _ if m <= ROWS => 2 * STREAMS,
        _ => DEPTH,
    };
    let middle = part.columns.start + whole;
    let body = Part {
        columns: part.columns.start..middle,
        rows: part.rows.clone(),
    };
    let rest = Part {
        columns: middle..part.columns.end,
        rows: part.rows,
    };
    let broadcast = |first: usize| Broadcast {
        at: left.data[first * left.strides[1]..].as_ptr(),
        rows: left.strides[0],
        step: left.strides[1],
    };
    for inner in pieces(0..k, steps) {
        let first = inner.start;
        if whole > 0 {
            // Distance to the next steps.
            let ahead = match inner.end < k {
                true => inner.len() * right.strides[0],
                false => 0,
            };
            let at = right.data[first * right.strides[0] + body.columns.start..].as_ptr();
            let panel = Panel {
                at,
                step: right.strides[0],
                ahead,
            };
            let sweep = product.sweep(&body, inner, broadcast(first), panel, width);
            // SAFETY: these are whole panels of the right operand, which lies inside its slice like the left one;
            // only this task uses these columns of the output.
            unsafe { sweep.run() };
        }
    }
    if rest.columns.is_empty() {
        return;
    }
    pack::with_buffer(|panels| {
        for inner in pieces(0..k, DEPTH) {
            let panel = panels.room(width * inner.len());
            pack::panels(panel, right, inner.clone(), rest.columns.clone(), width);
            let panel = Panel {
                at: panel.as_ptr(),
                step: width,
                ahead: 0,
            };
            let sweep = product.sweep(&rest, inner.clone(), broadcast(inner.start), panel, 0);
            debug_assert_eq!(sweep.rows, m);
            // SAFETY: as above, with a copied and padded panel.
            unsafe { sweep.run() };
        }
    });
}
