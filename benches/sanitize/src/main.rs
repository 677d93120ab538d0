//! Random matrix products and rounds of the thread team, to be run under a sanitizer: `sanitize products|team COUNT SEED`.
//!
//! A product takes operands that end exactly where their allocation ends, so that reading too far reads outside the
//! allocation, and its result is compared with plain sums of products. A round takes random items, sleeps, panics and
//! nested rounds.

#![allow(dead_code, missing_docs, unused_imports)]

#[path = "."]
mod kernel {
    pub const PANEL: usize = 16;

    #[path = "."]
    pub mod flex {
        #[path = "../../../src/kernel/flex/product/mod.rs"]
        pub mod product;
        #[path = "../../../src/kernel/flex/simd.rs"]
        pub mod simd;
        #[path = "../../../src/kernel/flex/threads/mod.rs"]
        pub mod threads;
    }
}

use kernel::flex::product::{
    Matrix, Packed, Put, product, product_made, product_on, stored_made,
};
use kernel::flex::threads;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Random numbers by SplitMix64.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Draws a size: mostly small, often near block and panel sizes, now and then large.
    fn size(&mut self) -> usize {
        match self.below(10) {
            0 => self.below(3),
            1..=4 => 1 + self.below(20),
            5 | 6 => (16 << self.below(3)) + self.below(3) - 1,
            7 | 8 => 1 + self.below(130),
            _ => 1 + self.below(500),
        }
    }

    fn numbers(&mut self, len: usize) -> Vec<f32> {
        let mut numbers = Vec::with_capacity(len);
        numbers.extend((0..len).map(|_| self.below(15) as f32 - 7.0));
        numbers
    }
}

/// A matrix with random strides that ends exactly where its allocation ends.
struct Operand {
    numbers: Vec<f32>,
    shape: [usize; 2],
    strides: [usize; 2],
}

impl Operand {
    fn draw(draws: &mut Draws, shape: [usize; 2], contiguous_rows: bool) -> Self {
        let gap = if draws.below(3) == 0 { draws.below(5) } else { 0 };
        let strides = match contiguous_rows || draws.below(2) == 0 {
            true => [shape[1] + gap, 1],
            false => [1, shape[0] + gap],
        };
        let len = match shape.contains(&0) {
            true => 0,
            false => 1 + (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1],
        };
        Self {
            numbers: draws.numbers(len),
            shape,
            strides,
        }
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix {
            data: &self.numbers,
            shape: self.shape,
            strides: self.strides,
        }
    }

    fn at(&self, row: usize, column: usize) -> f32 {
        self.numbers[row * self.strides[0] + column * self.strides[1]]
    }
}

/// Compares up to 40 random elements of a result with plain sums of products. All numbers are integers, so the sums are exact.
fn compare(draws: &mut Draws, out: &[f32], [m, k, n]: [usize; 3], term: impl Fn(usize, usize) -> f32) {
    assert_eq!(out.len(), m * n);
    let many = out.len().min(40);
    for _ in 0..many {
        let (row, column) = (draws.below(m), draws.below(n));
        let wanted = term(row, column);
        assert_eq!(out[row * n + column], wanted, "{m}x{k}x{n} at {row}, {column}");
    }
}

fn one_product(draws: &mut Draws) {
    let [m, k, n] = [draws.size(), draws.size(), draws.size()];
    let way = draws.below(6);
    let left = Operand::draw(draws, [m, k], matches!(way, 3 | 4));
    let right = Operand::draw(draws, [k, n], false);
    let sum = |row, column| (0..k).map(|i| left.at(row, i) * right.at(i, column)).sum::<f32>();
    let row = draws.numbers(n);
    match way {
        0 => {
            let mut out = draws.numbers(m * n);
            let before = out.clone();
            product(&mut out, left.matrix(), right.matrix(), Put::ADD.times(2.0));
            compare(draws, &out, [m, k, n], |r, c| before[r * n + c] + 2.0 * sum(r, c));
        }
        1 => {
            let mut out = draws.numbers(m * n);
            product_on(&mut out, left.matrix(), right.matrix(), &row);
            compare(draws, &out, [m, k, n], |r, c| row[c] + sum(r, c));
        }
        2 => {
            let out = product_made(left.matrix(), right.matrix(), Some(&row));
            compare(draws, &out, [m, k, n], |r, c| row[c] + sum(r, c));
        }
        3 => {
            let packed = Packed::new(right.matrix());
            let first = 64 * draws.below(n / 64 + 1);
            let end = first + draws.below(n - first + 1);
            let mut out = draws.numbers(m * (end - first));
            packed.product(&mut out, left.matrix(), first..end, Put::TILE);
            compare(draws, &out, [m, k, end - first], |r, c| sum(r, first + c));
        }
        4 if k > 0 => {
            let n = n / 16 * 16;
            let panels: Vec<f32> = (0..n / 16)
                .flat_map(|p| (0..k * 16).map(move |i| (i / 16, p * 16 + i % 16)))
                .map(|(i, column)| right.at(i, column))
                .collect();
            let out = stored_made(left.matrix(), &panels, Some(&row[..n]));
            compare(draws, &out, [m, k, n], |r, c| row[c] + sum(r, c));
        }
        _ => {
            let out = product_made(left.matrix(), right.matrix(), None);
            compare(draws, &out, [m, k, n], sum);
        }
    }
}

fn one_round(draws: &mut Draws) {
    let count = draws.below(60);
    let kind = draws.below(12);
    let done = AtomicUsize::new(0);
    let add = || {
        done.fetch_add(1, Ordering::Relaxed);
    };
    match kind {
        0 => {
            let fatal = draws.below(count + 1);
            let round = || threads::for_each(0..count, |i| assert!(i != fatal, "item {i}"));
            assert_eq!(catch_unwind(AssertUnwindSafe(round)).is_err(), fatal < count);
        }
        1 => {
            threads::for_each(0..count, |i| threads::for_each(0..i, |_| add()));
            assert_eq!(done.into_inner(), count * count.saturating_sub(1) / 2);
        }
        2 => std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| threads::for_each(0..count, |_| add()));
            }
        }),
        3 => {
            // Long enough for the team's threads to go to sleep.
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert!(threads::map(0..count, |i| i).into_iter().eq(0..count));
        }
        _ => {
            // Plain memory without synchronisation: only the order of the rounds prevents data races.
            let mut items = vec![0_usize; count];
            threads::for_each(items.iter_mut().enumerate(), |(i, item)| *item = i + 1);
            threads::for_each(items.iter_mut(), |item| *item *= 2);
            assert!(items.iter().enumerate().all(|(i, item)| *item == 2 * (i + 1)));
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize| arguments[i].parse::<u64>().expect("a number");
    let (count, mut draws) = (number(2), Draws(number(3)));
    let one = match arguments[1].as_str() {
        "products" => one_product,
        _ => one_round,
    };
    if arguments[1] != "products" {
        // Panics are part of the test; a failed check still ends the main thread with an error.
        std::panic::set_hook(Box::new(|_| ()));
    }
    for _ in 0..count {
        one(&mut draws);
    }
    println!("{} {}: nothing found", count, arguments[1]);
}
