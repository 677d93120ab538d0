//! Several products whose outputs follow one another, such as groups of rows that each have a separate matrix.
//!
//! Small ones share their parallel rounds: first all right operands are copied, then the rows of all outputs are
//! computed. So the threads wait for each other twice, not twice per product. The results are those of the products
//! one by one.

use super::tasks::ROWS;
use super::{InitialSums, Matrix, Product, WriteMode, block, in_place, pack, pieces};
use crate::kernel::flex::threads;

/// Number of elements of the right operands, 2 MiB, up to which they are copied together: they stay in the caches
/// until they are read.
const TOGETHER: usize = 1 << 19;

/// One product, and a row to be added to every row of its output.
#[derive(Clone, Copy)]
pub struct Grouped<'a> {
    /// Left operand.
    pub left: Matrix<'a>,
    /// Right operand.
    pub right: Matrix<'a>,
    /// The added row, such as a bias.
    pub row: Option<&'a [f32]>,
}

impl Grouped<'_> {
    /// Returns the number of elements of the output.
    fn len(&self) -> usize {
        let len = self.left.shape[0].checked_mul(self.right.shape[1]);
        len.expect("a matrix that fits into memory")
    }
}

/// Returns `left·right (+ row)` of each, stored row after row, one product after another.
pub fn grouped_products(all: &[Grouped]) -> Vec<f32> {
    let len = all.iter().map(Grouped::len).sum();
    let mut out: Vec<f32> = Vec::with_capacity(len);
    let places = &mut out.spare_capacity_mut()[..len];
    let mut at: *mut f32 = places.as_mut_ptr().cast();
    let each = all.iter().map(|one| {
        let begin = InitialSums::from_row(one.row, one.right.shape[1]);
        let output = (at, one.len());
        at = at.wrapping_add(one.len());
        Product::at(output, one.left, one.right, begin, WriteMode::REPLACE)
    });
    let products: Vec<Product> = each.collect();
    make(&products);
    // SAFETY: this many elements were reserved and divided among the products, each of which writes all of its own, as in `made`.
    unsafe { out.set_len(len) };
    out
}

/// Computes all products, small ones together.
fn make(products: &[Product]) {
    let numbers = products.iter().map(|product| {
        let [_, k, n] = product.sizes();
        n.next_multiple_of(block::panel()) * k
    });
    let numbers: Vec<usize> = numbers.collect();
    let alone = |product: &Product| {
        let [m, k, n] = product.sizes();
        m == 0 || k == 0 || n == 0 || in_place::applies(product)
    };
    if numbers.iter().sum::<usize>() > TOGETHER {
        return products.iter().for_each(Product::make);
    }
    let (single, others): (Vec<_>, Vec<_>) =
        products.iter().zip(numbers).partition(|(p, _)| alone(p));
    single.iter().for_each(|(product, _)| product.make());
    if others.len() < 2 {
        return others.iter().for_each(|(product, _)| product.make());
    }
    run_together(&others);
}

/// Computes products whose copied columns take the given numbers of elements.
fn run_together(products: &[(&Product, usize)]) {
    let mut buffer = pack::take_shared_buffer();
    let mut rest = buffer.room(products.iter().map(|(_, numbers)| numbers).sum());
    let mut copies = Vec::new();
    for (product, numbers) in products {
        let (panels, next) = rest.split_at_mut(*numbers);
        let [_, k, n] = product.sizes();
        let of_one = Product::copies(&(0..k), &(0..n), panels);
        copies.extend(of_one.into_iter().map(|copy| (*product, copy)));
        rest = next;
    }
    let threads = products.iter().any(|(product, _)| product.threads);
    each(threads, copies.into_iter(), |(product, copy)| {
        product.copy(copy)
    });
    let mut rest = buffer.numbers();
    let mut tasks = Vec::new();
    for (product, numbers) in products {
        let (panels, next) = rest.split_at(*numbers);
        let [m, _, _] = product.sizes();
        let [_, most] = ROWS;
        tasks.extend(pieces(0..m, most).map(|rows| (*product, panels, rows)));
        rest = next;
    }
    each(threads, tasks.into_iter(), |(product, panels, rows)| {
        let [_, k, n] = product.sizes();
        product.some_rows(&rows, &(0..k), &(0..n), panels);
    });
    pack::return_shared_buffer(buffer);
}

/// Calls `work` for every item, on all threads if that pays off.
fn each<T: Send>(threads: bool, items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    match threads {
        true => threads::for_each(items, work),
        false => items.for_each(work),
    }
}
