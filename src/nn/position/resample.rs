//! Resampling of a learned table of positions for a text of another length or a grid of another size (Dosovitskiy et al. 2021,
//! section 3.2), so that a network can be fine-tuned on longer texts or at a higher resolution.
//!
//! A text's rows are interpolated linearly between their neighbours. Each side of a grid is interpolated by the cubic convolution
//! of Keys 1981 with a = −0.75, aligned at the corners of the cells and clamped at the edges, as in PyTorch's bicubic
//! `interpolate` without `align_corners` and without antialiasing. With antialiasing, a is −0.5, the kernel is widened by the
//! factor by which a side shrinks, and weights at the edges are divided by their sum. The interpolation is linear in the table,
//! so it is one matrix and differentiable.

use burn::tensor::{Tensor, TensorData};

/// Sharpness a of the kernel.
const CUBIC_A: f64 = -0.75;
/// Sharpness a of the antialiased kernel.
const ANTIALIASED_CUBIC_A: f64 = -0.5;

/// Resamples `table` `[positions, d]` of the grid `from` (rows, columns) for the grid `to`. A class token's row comes first and
/// stays unchanged; the caller must say whether there is one, since the number of positions cannot tell
/// (14·14 = 196 = 1 + 13·15). `antialias` is PyTorch's.
pub fn resample_grid(
    table: Tensor<2>,
    from: [usize; 2],
    to: [usize; 2],
    class_token: bool,
    antialias: bool,
) -> Tensor<2> {
    let [positions, _] = table.dims();
    let extra = usize::from(class_token);
    assert_eq!(
        positions,
        extra + from[0] * from[1],
        "a table of a grid of {from:?}, class token: {class_token}"
    );
    if from == to {
        return table;
    }
    let values = weight_matrix(from, to, extra, antialias);
    let shape = [extra + to[0] * to[1], positions];
    Tensor::<2>::from_data(TensorData::new(values, shape), &table.device()).matmul(table)
}

/// Resamples a table of a text's positions `[from, d]` to another number of rows, each interpolated between its two nearest old
/// rows. The first `reserved` rows belong to no position and stay unchanged. `None` if no other rows are left.
pub fn interpolate(
    table: &[f32],
    [from, to]: [usize; 2],
    d: usize,
    reserved: usize,
) -> Option<Vec<f32>> {
    if from <= reserved || to <= reserved {
        return None;
    }
    let (kept, table) = table.split_at(reserved * d);
    let (from, to) = (from - reserved, to - reserved);
    let place = |row: usize| match to {
        1 => 0.0,
        _ => row as f64 * (from - 1) as f64 / (to - 1) as f64,
    };
    let stretched = (0..to).flat_map(|row| {
        let at = place(row);
        let below = (at as usize).min(from - 1);
        let above = (below + 1).min(from - 1);
        let share = (at - below as f64) as f32;
        (0..d).map(move |i| {
            let (x, y) = (table[below * d + i], table[above * d + i]);
            x + share * (y - x)
        })
    });
    Some(kept.iter().copied().chain(stretched).collect())
}

/// Extends a table of a text's positions `[from, d]` to `to` rows by repeating it, with the last copy cut (Beltagy et al. 2020,
/// section 5): neighbours stay neighbours, except where a copy begins. The first `reserved` rows belong to no position and stay
/// unchanged. `None` if the table would not grow, or has no other rows.
pub fn repeat(
    table: &[f32],
    [from, to]: [usize; 2],
    d: usize,
    reserved: usize,
) -> Option<Vec<f32>> {
    if from <= reserved || to <= from {
        return None;
    }
    let (kept, rows) = table.split_at(reserved * d);
    let copies = rows.iter().copied().cycle().take((to - reserved) * d);
    Some(kept.iter().copied().chain(copies).collect())
}

/// Returns the weight of each old position in each new one.
fn weight_matrix(from: [usize; 2], to: [usize; 2], extra: usize, antialias: bool) -> Vec<f32> {
    let shares = |i: usize, from: usize, to: usize| match antialias {
        true => antialiased_weights(i, from, to),
        false => cubic_weights(i, from, to).to_vec(),
    };
    let width = extra + from[0] * from[1];
    let mut values = vec![0.0; (extra + to[0] * to[1]) * width];
    if extra == 1 {
        values[0] = 1.0;
    }
    for row in 0..to[0] {
        for col in 0..to[1] {
            let at = (extra + row * to[1] + col) * width + extra;
            for (i, by_row) in shares(row, from[0], to[0]) {
                for (j, by_col) in shares(col, from[1], to[1]) {
                    values[at + i * from[1] + j] += (by_row * by_col) as f32;
                }
            }
        }
    }
    values
}

/// Returns the old positions that contribute to position `i` of `to`, with their weights.
fn cubic_weights(i: usize, from: usize, to: usize) -> [(usize, f64); 4] {
    let place = (i as f64 + 0.5) * from as f64 / to as f64 - 0.5;
    let (floor, t) = (place.floor(), place - place.floor());
    let clamped = |offset: f64| (floor + offset).clamp(0.0, (from - 1) as f64) as usize;
    [
        (clamped(-1.0), kernel(1.0 + t, CUBIC_A)),
        (clamped(0.0), kernel(t, CUBIC_A)),
        (clamped(1.0), kernel(1.0 - t, CUBIC_A)),
        (clamped(2.0), kernel(2.0 - t, CUBIC_A)),
    ]
}

/// Like [`shares`], with antialiasing.
fn antialiased_weights(i: usize, from: usize, to: usize) -> Vec<(usize, f64)> {
    let scale = from as f64 / to as f64;
    let (place, wider) = ((i as f64 + 0.5) * scale, scale.max(1.0));
    let edge = |at: f64| (at + 0.5).clamp(0.0, from as f64) as usize;
    let places = edge(place - 2.0 * wider)..edge(place + 2.0 * wider);
    let share = |at: usize| kernel((at as f64 + 0.5 - place).abs() / wider, ANTIALIASED_CUBIC_A);
    let sum: f64 = places.clone().map(share).sum();
    places.map(|at| (at, share(at) / sum)).collect()
}

/// Evaluates the kernel of sharpness `a` at distance `x`.
fn kernel(x: f64, a: f64) -> f64 {
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::{interpolate, repeat};

    #[test]
    fn a_stretched_table_keeps_its_ends() {
        let table = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(interpolate(&table, [3, 3], 2, 0).unwrap(), table);
        let longer = interpolate(&table, [3, 5], 2, 0).unwrap();
        assert_eq!(longer, [0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0]);
        assert_eq!(interpolate(&table, [3, 1], 2, 0).unwrap(), [0.0, 1.0]);
    }

    #[test]
    fn a_repeated_table_begins_again_behind_its_end() {
        let table = [9.0, 8.0, 0.0, 1.0, 2.0];
        let longer = repeat(&table, [5, 10], 1, 2).unwrap();
        assert_eq!(longer, [9.0, 8.0, 0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 0.0, 1.0]);
        assert_eq!(repeat(&table, [5, 5], 1, 2), None);
        assert_eq!(repeat(&table, [5, 10], 1, 5), None);
    }

    #[test]
    fn rows_of_no_position_stay() {
        let table = [9.0, 8.0, 0.0, 1.0, 2.0];
        let longer = interpolate(&table, [5, 7], 1, 2).unwrap();
        assert_eq!(longer, [9.0, 8.0, 0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(interpolate(&table, [5, 2], 1, 2), None);
        assert_eq!(interpolate(&table, [5, 0], 1, 0), None);
    }
}
