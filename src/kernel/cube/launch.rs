//! Helpers that every kernel launch needs: contiguous buffers, cube counts, sums over a cube.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, FloatDType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, empty_device_dtype};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::multiply;
use crate::kernel::extension::Maybe;
use crate::kernel::rounds_operands;

/// Number of units of a cube in elementwise kernels.
const UNITS: u32 = 256;

/// Allocates an uninitialised float32 tensor on the device of another.
pub fn empty(beside: &CubeTensor, shape: impl Into<Shape>) -> CubeTensor {
    let (client, device) = (beside.client.clone(), beside.device.clone());
    empty_device_contiguous_dtype(client, device, shape.into(), DType::F32)
}

/// Allocates an uninitialised tensor in another's shape.
pub fn empty_like(x: &CubeTensor) -> CubeTensor {
    empty(x, x.shape())
}

/// Allocates an uninitialised bfloat16 tensor in another's shape.
pub fn empty_rounded(x: &CubeTensor) -> CubeTensor {
    let (client, device) = (x.client.clone(), x.device.clone());
    empty_device_contiguous_dtype(client, device, x.shape(), DType::BF16)
}

/// Allocates an uninitialised bfloat16 matrix, an operand of products. Also returns the distance between its rows,
/// which CUDA pads to the alignment of wide reads.
pub fn empty_operand(beside: &CubeTensor, sizes: [usize; 2]) -> SpacedRows {
    let (client, device) = (beside.client.clone(), beside.device.clone());
    spaced_rows(empty_device_dtype(
        client,
        device,
        Shape::from(sizes),
        DType::BF16,
    ))
}

/// Allocates zeros on the device of another tensor. CUDA would pad the rows; they are made contiguous.
pub fn zeros(beside: &CubeTensor, shape: impl Into<Shape>) -> CubeTensor {
    let zeros = CubeBackend::float_zeros(shape.into(), &beside.device, FloatDType::F32);
    contiguous(zeros)
}

/// Returns a tensor without gaps whose buffer ends where the tensor does, since kernels take the buffer's length for
/// the tensor's. CUDA pads the rows of data uploaded from the host, even a single row, whose padding Burn does not
/// count as a gap.
pub fn contiguous(x: CubeTensor) -> CubeTensor {
    let mut x = into_contiguous(x);
    let bytes = x.shape().num_elements() * x.dtype.size();
    let padding = x.handle.size_in_used().saturating_sub(bytes as u64);
    if padding > 0 {
        x.handle = x.handle.offset_end(padding);
    }
    x
}

/// Returns a contiguous tensor whose buffer nothing else refers to.
pub fn owned(x: CubeTensor) -> CubeTensor {
    let x = contiguous(x);
    if x.can_mut() {
        x
    } else {
        // Burn's copy pads rows.
        contiguous(x.copy())
    }
}

/// Multiplies two matrices, or two batches of them, with operands in bfloat16 if the run asks for it. The result
/// always has 32 bits.
pub fn product(x: CubeTensor, y: CubeTensor) -> CubeTensor {
    match rounds_operands() {
        true => product_of([x, y], FloatDType::BF16),
        false => multiply::product(x, y),
    }
}

/// Converts a tensor to bfloat16, unless it already is.
pub fn rounded(x: CubeTensor) -> CubeTensor {
    in_format(x, FloatDType::BF16)
}

/// Prepares an operand of several products: it is rounded once for all of them if products round their operands.
pub fn operand(x: CubeTensor) -> CubeTensor {
    match rounds_operands() {
        true => rounded(x),
        false => x,
    }
}

fn in_format(x: CubeTensor, format: FloatDType) -> CubeTensor {
    match x.dtype() == format.into() {
        true => x,
        false => CubeBackend::float_cast(x, format),
    }
}

/// Multiplies operands converted to another format, with a 32-bit result.
fn product_of(operands: [CubeTensor; 2], format: FloatDType) -> CubeTensor {
    let [x, y] = operands.map(|x| in_format(x, format));
    multiply::product(x, y)
}

/// Returns the cube count and size for `work` units; kernels skip units beyond the work.
pub fn units(x: &CubeTensor, work: usize) -> (CubeCount, CubeDim) {
    let dim = CubeDim::new_1d(UNITS);
    (
        cubecl::calculate_cube_count_elemwise(&x.client, work, dim),
        dim,
    )
}

/// Returns a cube count and size with one cube per row of the given width, and the number of units of a cube, a power
/// of two.
pub fn cubes(x: &CubeTensor, rows: usize, width: usize) -> (CubeCount, CubeDim, u32) {
    let units = (width.next_power_of_two() as u32).clamp(32, UNITS);
    let single = CubeDim::new_single();
    let count = cubecl::calculate_cube_count_elemwise(&x.client, rows, single);
    (count, CubeDim::new_1d(units), units)
}

/// Returns the number of rows of a tensor and the size of its last dimension.
pub fn rows_of(x: &CubeTensor) -> [usize; 2] {
    let shape = x.shape();
    let width = shape.last().copied().unwrap_or(1);
    [shape.num_elements() / width.max(1), width]
}

/// A tensor whose rows are evenly spaced, and the distance between them.
pub type SpacedRows = (CubeTensor, usize);

/// Returns a tensor in evenly spaced rows; products return padded ones.
pub fn spaced_rows(x: CubeTensor) -> SpacedRows {
    let rank = x.rank();
    let (shape, strides) = (x.shape(), x.meta.strides().to_vec());
    let even = rank >= 2
        && !x.meta.is_tiled()
        && strides[rank - 1] == 1
        && (0..rank.saturating_sub(2)).all(|i| strides[i] == strides[i + 1] * shape[i + 1]);
    if even {
        let distance = strides[rank - 2];
        return (x, distance);
    }
    let width = shape.last().copied().unwrap_or(1);
    (contiguous(x), width)
}

/// Returns an optional vector, or `stand_in`, which the kernel then does not read, and whether the vector exists.
pub fn or_placeholder(x: Maybe<CubeBackend>, stand_in: &CubeTensor) -> (CubeTensor, bool) {
    match x {
        Maybe::Some(x) => (contiguous(x), true),
        Maybe::None => (stand_in.clone(), false),
    }
}

/// Sums a value over the units of a cube; every unit gets the sum. `shared` has one slot per unit; `units` is a power
/// of two.
#[cube]
pub fn cube_sum(value: f32, shared: &mut Shared<[f32]>, #[comptime] units: u32) -> f32 {
    let unit = UNIT_POS;
    shared[unit as usize] = value;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(units.ilog2()) {
        let half = comptime!(units >> (level + 1));
        if unit < half {
            let other = shared[(unit + half) as usize];
            shared[unit as usize] += other;
        }
        sync_cube();
    }
    let total = shared[0];
    sync_cube();
    total
}

/// Returns the maximum of a value over the units of a cube.
#[cube]
pub fn cube_max(value: f32, shared: &mut Shared<[f32]>, #[comptime] units: u32) -> f32 {
    let unit = UNIT_POS;
    shared[unit as usize] = value;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(units.ilog2()) {
        let half = comptime!(units >> (level + 1));
        if unit < half {
            let other = shared[(unit + half) as usize];
            if other > shared[unit as usize] {
                shared[unit as usize] = other;
            }
        }
        sync_cube();
    }
    let largest = shared[0];
    sync_cube();
    largest
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use super::*;
    use crate::device::DeviceName;
    use burn::tensor::{Device, Tensor};

    /// 200·(1 + 2⁻¹⁰) cannot be represented in 16 bits. WGSL has no bfloat16, so float16 stands in for it.
    #[test]
    fn products_of_halves_are_not_rounded() {
        let name: DeviceName = "wgpu".parse().unwrap();
        let device: Device = name.open().unwrap();
        let of = |value: f32, dims: [usize; 2]| {
            let x: Tensor<2> = Tensor::full(dims, value, &device);
            x.try_into_primitive::<CubeBackend>().unwrap()
        };
        let operands = [of(1.0 + 1.0 / 1024.0, [70, 200]), of(1.0, [200, 90])];
        let product = product_of(operands, FloatDType::F16);
        let product: Tensor<2> = Tensor::from_primitive::<CubeBackend>(product);
        let values = product.to_data().try_to_vec::<f32>().unwrap();
        assert!(values.iter().all(|x| *x == 200.0 * (1.0 + 1.0 / 1024.0)));
    }
}
