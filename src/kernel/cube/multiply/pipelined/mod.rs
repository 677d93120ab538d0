//! Our own bfloat16 matrix product. A cube computes 128 × 128 elements of the result; each of its four planes holds
//! 64 × 64 of them in registers. The sums advance in steps of depth 32, four of which are in flight to shared memory
//! at once (`cp.async`, PTX ISA), so that tensor cores do not wait for memory. It needs an NVIDIA GPU of compute
//! capability 8.0 or later.

mod kernel;
mod stage;

use burn::backend::TensorMetadata;
use burn::tensor::{DType, bf16};
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::DeviceProperties;
use cubecl::prelude::*;

use crate::kernel::cube::fragment::has_products;
use kernel::{Form, SizesLaunch, multiplied};
use stage::{CHUNK, Layout, OperandLaunch, STAGES, TILE, UNITS};

/// Multiplies `x` and `y` into `out`.
///
/// # Errors
/// If it cannot: operands in another format, or not laid out in rows or columns at multiples of 16 bytes, or a device
/// without these products.
pub fn launched([x, y, out]: [CubeTensor; 3]) -> Result<CubeTensor, String> {
    let client = out.client.clone();
    if [&x, &y].iter().any(|x| x.dtype() != DType::BF16) || !is_able(client.properties()) {
        return Err("needs operands in bfloat16 on a GPU that multiplies them".to_owned());
    }
    let rank = out.rank();
    if rank < 2 || [&x, &y].iter().any(|x| x.rank() != rank) {
        return Err("the operands are no matrices of one batch".to_owned());
    }
    let of_left = operand_of(&x, &out, [rank - 1, rank - 2])?;
    let of_right = operand_of(&y, &out, [rank - 2, rank - 1])?;
    let place = lies(&out, &out, [rank - 1, rank - 2])?;
    if place.lies != Layout::Along {
        return Err("the result has gaps".to_owned());
    }
    let [m, n] = [rank - 2, rank - 1].map(|at| out.shape()[at]);
    let offset = out.handle.offset_start.unwrap_or(0);
    let numbers = [n, place.step, place.batch];
    let even = numbers.iter().all(|x| x % 2 == 0) && offset.is_multiple_of(8);
    let batches: usize = out.shape().iter().take(rank - 2).product();
    let cubes = batches * m.div_ceil(TILE as usize) * n.div_ceil(TILE as usize);
    let sizes = SizesLaunch::new(
        OperandLaunch::new(m as u32, of_left.step as u32, of_left.batch as u32),
        OperandLaunch::new(n as u32, of_right.step as u32, of_right.batch as u32),
        x.shape()[rank - 1] as u32,
        place.step as u32,
        place.batch as u32,
        batches as u32,
    );
    multiplied::launch(
        &client,
        cubecl::calculate_cube_count_elemwise(&client, cubes, CubeDim::new_single()),
        CubeDim::new_1d(UNITS),
        if even { 2 } else { 1 },
        x.into_tensor_arg(),
        y.into_tensor_arg(),
        out.clone().into_tensor_arg(),
        sizes,
        Form {
            left: of_left.lies,
            right: of_right.lies,
        },
    );
    Ok(out)
}

/// Returns whether a device has the products, loads, asynchronous copies and shared memory that the kernel needs.
fn is_able(properties: &DeviceProperties) -> bool {
    let features = &properties.features;
    let most = Layout::Along.size().max(Layout::Across.size());
    let shared = 2 * STAGES * most * size_of::<bf16>() as u32;
    has_products(properties)
        && features.copy_async
        && shared as usize <= properties.hardware.max_shared_memory_size
}

/// The memory layout of the matrices of a tensor.
struct Place {
    lies: Layout,
    /// Distance between elements along the dimension that is not contiguous.
    step: usize,
    /// Distance from matrix to matrix.
    batch: usize,
}

/// Returns the layout of an operand. Its elements are read in chunks, so rows must begin at multiples of the chunk
/// size.
fn operand_of(x: &CubeTensor, out: &CubeTensor, along: [usize; 2]) -> Result<Place, String> {
    let place = lies(x, out, along)?;
    let offset = x.handle.offset_start.unwrap_or(0);
    let chunk = CHUNK as usize;
    let whole = [place.step, place.batch]
        .iter()
        .all(|step| step.is_multiple_of(chunk));
    match whole && offset.is_multiple_of(16) {
        true => Ok(place),
        false => Err("rows of an operand do not begin at multiples of 16 bytes".to_owned()),
    }
}

/// Returns the layout of a tensor's matrices, contiguous along the first of two dimensions or across it. The tensor
/// has the batch of `out`, or a single matrix for all of it.
fn lies(x: &CubeTensor, out: &CubeTensor, [along, across]: [usize; 2]) -> Result<Place, String> {
    let (shape, steps) = (x.shape(), x.meta.strides());
    let (step, lies) = match (steps[along], steps[across]) {
        _ if x.meta.is_tiled() => return Err("a tensor lies in tiles".to_owned()),
        (1, step) => (step, Layout::Along),
        (step, 1) => (step, Layout::Across),
        _ => return Err("a tensor has gaps".to_owned()),
    };
    let reach = (0..steps.len()).map(|at| shape[at] * steps[at]).max();
    if reach.is_some_and(|reach| reach > u32::MAX as usize) {
        return Err("a tensor has more numbers than 32 bits count".to_owned());
    }
    let outer = shape.len() - 2;
    let batch = match (0..outer).all(|at| shape[at] == 1) {
        true => 0,
        false if (0..outer).all(|at| shape[at] == out.shape()[at]) => batch_step(x)?,
        false => return Err("an operand has another batch than the result".to_owned()),
    };
    Ok(Place { lies, step, batch })
}

/// Returns the distance between the matrices of a batch, which must be evenly spaced.
fn batch_step(x: &CubeTensor) -> Result<usize, String> {
    let (shape, steps) = (x.shape(), x.meta.strides());
    let mut found: Option<(usize, usize)> = None;
    for at in (0..shape.len() - 2).rev().filter(|at| shape[*at] > 1) {
        let behind = steps[at] * shape[at];
        match found {
            None => found = Some((steps[at], behind)),
            Some((first, next)) if next == steps[at] => found = Some((first, behind)),
            Some(_) => return Err("matrices of a batch are not at equal distances".to_owned()),
        }
    }
    Ok(found.map_or(0, |(step, _)| step))
}
