//! Products of tiles in the shared memory of a cube on tensor cores: a plane takes 16 rows of the result, fragments of 16 by
//! 16 numbers in bfloat16 are multiplied, and sums have 32 bits.

use burn::tensor::bf16;
use cubecl::prelude::*;

/// Rows and columns of a fragment.
pub const FRAGMENT: u32 = 16;

/// Units of a plane.
pub const PLANE: u32 = 32;

/// The sizes of a product `[m, k]·[k, n]` and how its operands lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Columns of the result.
    pub n: u32,
    /// Length of the sums.
    pub k: u32,
    /// Distance between rows, or between columns, of the left operand.
    pub left: u32,
    /// The same of the right one.
    pub right: u32,
    /// Whether the left operand lies column by column.
    pub left_by_column: bool,
    /// Whether the right one does.
    pub right_by_column: bool,
}

/// The 16 rows of a result that a plane holds.
#[derive(CubeType)]
pub struct Sum {
    fragments: Sequence<cmma::Matrix<f32>>,
}

/// Zeros.
#[cube]
pub fn zeros(#[comptime] n: u32) -> Sum {
    let mut fragments = Sequence::<cmma::Matrix<f32>>::new();
    #[unroll]
    for _ in 0..comptime!(n / FRAGMENT) {
        fragments.push(cmma::Matrix::<f32>::from_value(
            cmma::MatrixIdent::Accumulator,
            16usize,
            16usize,
            16usize,
            cmma::MatrixLayout::Undefined,
            0.0f32,
        ));
    }
    Sum { fragments }
}

/// Adds a product.
#[cube]
pub fn add_product(
    sum: &mut Sum,
    left: &Shared<[bf16]>,
    right: &Shared<[bf16]>,
    #[comptime] p: Product,
) {
    let row = UNIT_POS / PLANE * FRAGMENT;
    #[unroll]
    for step in 0..comptime!(p.k / FRAGMENT) {
        let depth = comptime!(step * FRAGMENT);
        let mut at = row * p.left + depth;
        if comptime!(p.left_by_column) {
            at = row + depth * p.left;
        }
        let a = cmma::Matrix::<bf16>::from_slice(
            cmma::MatrixIdent::A,
            16usize,
            16usize,
            16usize,
            comptime!(layout(p.left_by_column)),
            &left[at as usize..left.len()],
            p.left,
        );
        #[unroll]
        for number in 0..comptime!(p.n / FRAGMENT) {
            let column = comptime!(number * FRAGMENT);
            let at = comptime!(if p.right_by_column {
                column * p.right + depth
            } else {
                column + depth * p.right
            });
            let b = cmma::Matrix::<bf16>::from_slice(
                cmma::MatrixIdent::B,
                16usize,
                16usize,
                16usize,
                comptime!(layout(p.right_by_column)),
                &right[at as usize..right.len()],
                p.right,
            );
            let c = sum.fragments.index(comptime!(number as usize));
            cmma::execute(&a, &b, c, c);
        }
    }
}

/// Writes the plane's rows into a tile whose rows lie at a distance.
#[cube]
pub fn put(sum: &Sum, out: &mut Shared<[f32]>, #[comptime] n: u32, #[comptime] distance: u32) {
    let row = UNIT_POS / PLANE * FRAGMENT;
    #[unroll]
    for number in 0..comptime!(n / FRAGMENT) {
        let at = row * distance + comptime!(number * FRAGMENT);
        let end = out.len();
        cmma::store(
            &mut out[at as usize..end],
            sum.fragments.index(comptime!(number as usize)),
            distance,
            cmma::MatrixLayout::RowMajor,
        );
    }
}

fn layout(by_column: bool) -> cmma::MatrixLayout {
    if by_column {
        cmma::MatrixLayout::ColMajor
    } else {
        cmma::MatrixLayout::RowMajor
    }
}
