//! Several products whose outputs lie one behind another, as those of a group of rows each with a matrix of its own.
//!
//! Small ones share their rounds of the threads: first all right operands are copied, then the rows of all outputs are made,
//! so that the threads wait for each other twice and not twice a product. Numbers are those of the products one by one.

use super::tasks::ROWS;
use super::{Begin, Matrix, Product, Put, block, few, pack, pieces};
use crate::kernel::flex::threads;

/// Numbers of right operands, 2 MiB, up to which they are copied together: they stay in the caches until they are read.
const TOGETHER: usize = 1 << 19;

/// One product, and the row that lies under all rows of its output.
#[derive(Clone, Copy)]
pub struct Grouped<'a> {
    /// Its left operand.
    pub left: Matrix<'a>,
    /// Its right operand.
    pub right: Matrix<'a>,
    /// A row such as a bias.
    pub row: Option<&'a [f32]>,
}

impl Grouped<'_> {
    /// Numbers of its output.
    fn len(&self) -> usize {
        let len = self.left.shape[0].checked_mul(self.right.shape[1]);
        len.expect("a matrix that fits into memory")
    }
}

/// `left·right (+ row)` of each, row after row, one product behind the other.
pub fn products_made(all: &[Grouped]) -> Vec<f32> {
    let len = all.iter().map(Grouped::len).sum();
    let mut out: Vec<f32> = Vec::with_capacity(len);
    let places = &mut out.spare_capacity_mut()[..len];
    let mut at: *mut f32 = places.as_mut_ptr().cast();
    let each = all.iter().map(|one| {
        let begin = Begin::under(one.row, one.right.shape[1]);
        let output = (at, one.len());
        at = at.wrapping_add(one.len());
        Product::at(output, one.left, one.right, begin, Put::REPLACE)
    });
    let products: Vec<Product> = each.collect();
    make(&products);
    // SAFETY: so many places were reserved and divided among the products, each of which writes all of its own, as in `made`.
    unsafe { out.set_len(len) };
    out
}

/// Makes all of them, small ones together.
fn make(products: &[Product]) {
    let numbers = products.iter().map(|product| {
        let [_, k, n] = product.sizes();
        n.next_multiple_of(block::panel()) * k
    });
    let numbers: Vec<usize> = numbers.collect();
    let alone = |product: &Product| {
        let [m, k, n] = product.sizes();
        m == 0 || k == 0 || n == 0 || few::is_one(product)
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
    together(&others);
}

/// Makes products with so many numbers of copied columns each.
fn together(products: &[(&Product, usize)]) {
    let mut buffer = pack::take();
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
    pack::give(buffer);
}

/// Calls `work` for every item, on all threads where that pays.
fn each<T: Send>(threads: bool, items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    match threads {
        true => threads::for_each(items, work),
        false => items.for_each(work),
    }
}
