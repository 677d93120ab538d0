//! Tests of products against direct sums, for every memory layout of the operands.

use super::{
    Grouped, Matrix, Packed, PackedRows, WriteMode, grouped_products, product, product_new,
    product_plus_row, product_with_panels,
};

/// Every memory layout, added and replaced, for sizes around those of panels, tasks and pieces.
#[test]
fn products_are_sums_of_products() {
    for [m, k, n] in [
        [1, 500, 200],
        [2, 40, 391],
        [7, 300, 1000],
        [16, 33, 192],
        [1, 200, 5000],
        [97, 96, 97],
        [700, 33, 65],
        [64, 40, 1001],
        [321, 20, 320],
        [25, 300, 70],
        [400, 513, 129],
        [385, 257, 770],
        [24, 259, 63],
        [3, 1000, 130],
        [48, 260, 1000],
        [400, 4000, 1030],
    ] {
        let number = |i: usize| ((i * 7919) % 23) as f32 - 11.0;
        let [a, b] = [m * k, k * n].map(|len| (0..len).map(number).collect::<Vec<f32>>());
        for way in 0..8 {
            let left = match way % 2 {
                0 => Matrix::rows(&a, [m, k]),
                _ => Matrix::rows(&a, [k, m]).transposed(),
            };
            let right = match way / 2 % 2 {
                0 => Matrix::rows(&b, [k, n]),
                _ => Matrix::rows(&b, [n, k]).transposed(),
            };
            let mut out: Vec<f32> = (0..m * n).map(number).collect();
            let row: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let (factor, begin): (f32, &dyn Fn(usize) -> f32) = match (way + m) % 4 {
                0 => (0.5, &|_| 0.0),
                1 => (0.5, &number),
                2 => (1.0, &|_| 0.0),
                _ => (1.0, &|at| (at % n) as f32),
            };
            match (way + m) % 4 {
                1 => product(&mut out, left, right, WriteMode::ADD.times(factor)),
                3 => product_plus_row(&mut out, left, right, &row),
                2 => product(&mut out, left, right, WriteMode::TILE),
                _ => product(&mut out, left, right, WriteMode::REPLACE.times(factor)),
            }
            if factor == 1.0 {
                let row = ((way + m) % 4 == 3).then_some(&row[..]);
                assert_eq!(product_new(left, right, row), out);
            }
            for at in (0..m * n).step_by(1 + m * n / 997) {
                let (row, column) = (at / n, at % n);
                let each = |i: usize| {
                    let x = a[row * left.strides[0] + i * left.strides[1]];
                    x * b[i * right.strides[0] + column * right.strides[1]]
                };
                let sum: f32 = (0..k).map(each).sum();
                let wanted = begin(at) + factor * sum;
                assert_eq!(out[at], wanted, "{m}x{k}x{n}, way {way}: {at}");
            }
        }
    }
}

#[test]
fn a_product_of_nothing_is_what_it_begins_with() {
    let none = Matrix::rows(&[], [2, 0]);
    let right = Matrix::rows(&[], [0, 3]);
    let mut out = vec![7.0; 6];
    product(&mut out, none, right, WriteMode::ADD);
    assert_eq!(out, [7.0; 6]);
    product_plus_row(&mut out, none, right, &[1.0, 2.0, 3.0]);
    assert_eq!(out, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    product(&mut out, none, right, WriteMode::REPLACE);
    assert_eq!(out, [0.0; 6]);
}

#[test]
fn a_product_of_nothing_is_made_of_numbers() {
    let none = Matrix::rows(&[], [2, 0]);
    let right = Matrix::rows(&[], [0, 3]);
    assert_eq!(product_new(none, right, None), [0.0; 6]);
    let row = [1.0, 2.0, 3.0];
    let rows = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0];
    assert_eq!(product_new(none, right, Some(&row)), rows);
}

/// Sizes whose products wrap around to small ones.
#[test]
fn sizes_beyond_memory_are_refused() {
    let numbers = vec![1.0; 16];
    let half = 1_usize << (usize::BITS / 2);
    let matrix = |shape, strides| Matrix {
        data: &numbers,
        shape,
        strides,
    };
    let refused = |left: Matrix, right: Matrix| {
        let made = std::panic::catch_unwind(|| product_new(left, right, None));
        assert!(made.is_err(), "{:?} by {:?}", left.shape, right.shape);
        let made = std::panic::catch_unwind(|| product(&mut [], left, right, WriteMode::REPLACE));
        assert!(made.is_err(), "{:?} by {:?}", left.shape, right.shape);
    };
    // The last element of the right operand has index 2^64, or 2^64 + 1.
    refused(
        matrix([1, half + 1], [0, 0]),
        matrix([half + 1, 1], [half, 1]),
    );
    refused(
        matrix([1, 3], [0, 0]),
        matrix([3, 1], [1 << (usize::BITS - 1), 1]),
    );
    // 2^64 elements of the output, and of a copy of the operand.
    refused(matrix([half, 1], [0, 0]), matrix([1, half], [0, 0]));
    let square = matrix([half, half], [0, 0]);
    refused(matrix([1, half], [0, 0]), square);
    assert!(std::panic::catch_unwind(|| Packed::new(square)).is_err());
}

#[test]
fn a_packed_operand_gives_the_same_product() {
    for [m, k, n] in [[64, 16, 200], [7, 300, 129], [1, 64, 64], [13, 1, 70]] {
        let number = |i: usize| ((i * 7919) % 23) as f32 - 11.0;
        let [a, b] = [m * k, k * n].map(|len| (0..len).map(number).collect::<Vec<f32>>());
        let left = Matrix::rows(&a, [m, k]);
        for right in [
            Matrix::rows(&b, [k, n]),
            Matrix::rows(&b, [n, k]).transposed(),
        ] {
            let packed = Packed::new(right);
            let mut whole = vec![0.0; m * n];
            product(&mut whole, left, right, WriteMode::TILE);
            for columns in [0..n, 64..n, 64..n.clamp(64, 100)] {
                let mut out = vec![1.0; m * columns.len()];
                packed.product(
                    &mut out,
                    left,
                    columns.clone(),
                    WriteMode::ADD_TILE.times(2.0),
                );
                for row in 0..m {
                    for (i, column) in columns.clone().enumerate() {
                        let wanted = 1.0 + 2.0 * whole[row * n + column];
                        assert_eq!(out[row * columns.len() + i], wanted);
                    }
                }
            }
        }
    }
}

/// A row's result is bit-identical whatever rows are computed with it, and for any number of columns.
#[test]
fn a_row_is_the_same_beside_others() {
    let number = |i: usize| ((i * 7919) % 1009) as f32 / 1009.0 - 0.5;
    for [k, n] in [[64, 10], [75, 9], [7, 3], [384, 33]] {
        let [a, b] = [24 * k, k * n].map(|len| (0..len).map(number).collect::<Vec<f32>>());
        let right = Matrix::rows(&b, [n, k]).transposed();
        let made = |rows: std::ops::Range<usize>, right: Matrix| {
            let left = Matrix::rows(&a[rows.start * k..], [rows.len(), k]);
            let mut out = vec![0.0; rows.len() * right.shape[1]];
            product(&mut out, left, right, WriteMode::REPLACE);
            out
        };
        let whole = made(0..24, right);
        for row in 0..24 {
            assert_eq!(made(row..row + 1, right), whole[row * n..(row + 1) * n]);
        }
        assert_eq!(made(1..8, right), whole[n..8 * n]);
        let first = Matrix {
            shape: [k, 1],
            ..right
        };
        let each: Vec<f32> = whole.chunks(n).map(|row| row[0]).collect();
        assert_eq!(made(0..24, first), each);
    }
}

/// Any number of rows, with and without a bias, gives the same as the product with the unpacked matrix, and a row's
/// result is bit-identical whatever rows are computed with it.
#[test]
fn an_operand_that_is_stored_in_panels_gives_the_same_product() {
    for [k, n] in [[1, 16], [37, 48], [300, 160], [64, 1040]] {
        let number = |i: usize| ((i * 7919) % 23) as f32 - 11.0;
        let b: Vec<f32> = (0..k * n).map(number).collect();
        let panels: Vec<f32> = (0..n / 16)
            .flat_map(|panel| b.chunks(n).flat_map(move |row| &row[panel * 16..][..16]))
            .copied()
            .collect();
        let bias: Vec<f32> = (0..n).map(|i| i as f32).collect();
        for m in [0, 1, 2, 3, 5, 6, 7, 8, 11, 13, 16, 17, 40, 97, 230] {
            let a: Vec<f32> = (0..m * k).map(number).collect();
            let left = Matrix::rows(&a, [m, k]);
            for row in [None, Some(&bias[..])] {
                let mut wanted = vec![0.0; m * n];
                match row {
                    None => product(
                        &mut wanted,
                        left,
                        Matrix::rows(&b, [k, n]),
                        WriteMode::REPLACE,
                    ),
                    Some(row) => product_plus_row(&mut wanted, left, Matrix::rows(&b, [k, n]), row),
                }
                let out = product_with_panels(left, &panels, row);
                assert!(out == wanted, "{m}x{k}x{n}");
            }
            let a: Vec<f32> = a.iter().map(|x| x / 7.0).collect();
            let whole = product_with_panels(Matrix::rows(&a, [m, k]), &panels, None);
            for (row, wanted) in a.chunks(k).zip(whole.chunks(n)) {
                let out = product_with_panels(Matrix::rows(row, [1, k]), &panels, None);
                assert_eq!(out, wanted, "a row of {m}x{k}x{n}");
            }
        }
    }
}

/// Ranges of rows of an operand that is copied once.
#[test]
fn rows_of_a_copied_operand_give_the_product_with_them() {
    for [rows, columns] in [[1, 1], [70, 64], [500, 16], [400, 37], [300, 130]] {
        let number = |i: usize| ((i * 7919) % 1009) as f32 / 1009.0 - 0.5;
        // Rows are not adjacent, like those of one head.
        let stride = columns + 5;
        let numbers: Vec<f32> = (0..rows * stride).map(number).collect();
        let right = Matrix {
            data: &numbers,
            shape: [rows, columns],
            strides: [stride, 1],
        };
        let copy = PackedRows::new(right);
        for range in [0..rows, rows / 3..rows, 0..rows / 2, rows / 2..rows / 2] {
            let (n, some) = (
                range.len(),
                Matrix {
                    data: &numbers[range.start * stride..],
                    shape: [range.len(), columns],
                    ..right
                },
            );
            for m in [1, 4, 25, 64, 70] {
                let left: Vec<f32> = (0..m * n).map(|i| number(i + 3)).collect();
                let left = Matrix::rows(&left, [m, n]);
                let begun: Vec<f32> = (0..m * columns).map(|i| number(i + 11)).collect();
                for into in [WriteMode::TILE, WriteMode::ADD_TILE.times(0.25)] {
                    let (mut made, mut wanted) = (begun.clone(), begun.clone());
                    copy.product(&mut made, left, range.clone(), into);
                    exact(&mut wanted, left, some, into);
                    let off = made.iter().zip(&wanted).map(|(a, b)| (a - b).abs());
                    let off = off.fold(0.0, f32::max);
                    assert!(off < 1e-4, "{m}x{n}x{columns}: {off}");
                }
            }
        }
    }
}

/// Computes the product element by element, in float64.
fn exact(out: &mut [f32], left: Matrix, right: Matrix, into: WriteMode) {
    let at =
        |of: &Matrix, i: usize, j: usize| f64::from(of.data[i * of.strides[0] + j * of.strides[1]]);
    let columns = right.shape[1];
    for (place, number) in out.iter_mut().enumerate() {
        let [row, column] = [place / columns, place % columns];
        let terms = (0..left.shape[1]).map(|k| at(&left, row, k) * at(&right, k, column));
        let begun = if into.add { f64::from(*number) } else { 0.0 };
        *number = (begun + f64::from(into.factor) * terms.sum::<f64>()) as f32;
    }
}

/// Groups of any sizes, including empty ones, whether computed together or one by one, give bit-identical results to
/// single products.
#[test]
fn grouped_products_are_those_alone() {
    let number = |i: usize| ((i * 7919) % 1009) as f32 / 1009.0 - 0.5;
    for [k, n, most] in [
        [40, 33, 70],
        [128, 344, 300],
        [500, 70, 9],
        [700, 1030, 40],
        [0, 3, 5],
    ] {
        let rows: Vec<usize> = [0, most, 1, most / 2, 0, 7, most - 1].into();
        let all: usize = rows.iter().sum();
        let [a, b, bias] =
            [all * k, rows.len() * k * n, n].map(|len| (0..len).map(number).collect::<Vec<f32>>());
        // The rows of each group times its matrix, plain and transposed, and the gradients of the matrices.
        for way in 0..3 {
            let mut at = 0;
            let each = rows.iter().enumerate().map(|(group, rows)| {
                let first = at;
                at += rows;
                let left = Matrix::rows(&a[first * k..][..rows * k], [*rows, k]);
                let matrix = &b[group * k * n..][..k * n];
                match way {
                    0 => (left, Matrix::rows(matrix, [k, n])),
                    1 => (left, Matrix::rows(matrix, [n, k]).transposed()),
                    _ => (left.transposed(), left),
                }
            });
            let grouped: Vec<Grouped> = each
                .map(|(left, right)| Grouped {
                    left,
                    right,
                    row: (way == 1).then_some(&bias[..]),
                })
                .collect();
            let alone = grouped
                .iter()
                .flat_map(|one| product_new(one.left, one.right, one.row));
            assert_eq!(
                grouped_products(&grouped),
                alone.collect::<Vec<f32>>(),
                "{k} {n} {way}"
            );
        }
    }
}
