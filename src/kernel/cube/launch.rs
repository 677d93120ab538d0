//! What every kernel's launch needs: contiguous buffers, numbers of cubes, sums over a cube.

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

/// Units of a cube that works on single elements.
const UNITS: u32 = 256;

/// An unwritten tensor beside another.
pub fn empty(beside: &CubeTensor, shape: impl Into<Shape>) -> CubeTensor {
    let (client, device) = (beside.client.clone(), beside.device.clone());
    empty_device_contiguous_dtype(client, device, shape.into(), DType::F32)
}

/// An unwritten tensor of another's shape.
pub fn empty_like(x: &CubeTensor) -> CubeTensor {
    empty(x, x.shape())
}

/// An unwritten tensor of another's shape in bfloat16.
pub fn empty_rounded(x: &CubeTensor) -> CubeTensor {
    let (client, device) = (x.client.clone(), x.device.clone());
    empty_device_contiguous_dtype(client, device, x.shape(), DType::BF16)
}

/// An unwritten matrix in bfloat16, an operand of products, and the distance between its rows: CUDA pads them to where wide
/// reads may begin.
pub fn empty_operand(beside: &CubeTensor, sizes: [usize; 2]) -> InRows {
    let (client, device) = (beside.client.clone(), beside.device.clone());
    in_rows(empty_device_dtype(
        client,
        device,
        Shape::from(sizes),
        DType::BF16,
    ))
}

/// Zeros beside another tensor. CUDA's come with padded rows.
pub fn zeros(beside: &CubeTensor, shape: impl Into<Shape>) -> CubeTensor {
    let zeros = CubeBackend::float_zeros(shape.into(), &beside.device, FloatDType::F32);
    contiguous(zeros)
}

/// A tensor without gaps, whose buffer ends where it does: kernels take the one for the other. CUDA pads the rows of data that
/// comes from the host, also where there is one row, whose padding Burn takes for no gap.
pub fn contiguous(x: CubeTensor) -> CubeTensor {
    let mut x = into_contiguous(x);
    let bytes = x.shape().num_elements() * x.dtype.size();
    let padding = x.handle.size_in_used().saturating_sub(bytes as u64);
    if padding > 0 {
        x.handle = x.handle.offset_end(padding);
    }
    x
}

/// A contiguous tensor whose buffer nothing else holds.
pub fn owned(x: CubeTensor) -> CubeTensor {
    let x = contiguous(x);
    if x.can_mut() {
        x
    } else {
        // Burn's copy pads rows.
        contiguous(x.copy())
    }
}

/// The product of two matrices, or of two batches of them. Where a run asks for it, of operands in bfloat16; the result has 32 bits
/// all the same.
pub fn product(x: CubeTensor, y: CubeTensor) -> CubeTensor {
    match rounds_operands() {
        true => product_of([x, y], FloatDType::BF16),
        false => multiply::product(x, y),
    }
}

/// A tensor in bfloat16, which it may be already.
pub fn rounded(x: CubeTensor) -> CubeTensor {
    in_format(x, FloatDType::BF16)
}

/// An operand of several products, rounded once for all of them where they round it.
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

/// The product of operands in another format, in 32 bits.
fn product_of(operands: [CubeTensor; 2], format: FloatDType) -> CubeTensor {
    let [x, y] = operands.map(|x| in_format(x, format));
    multiply::product(x, y)
}

/// Cubes and their size for so many units of work; kernels leave out units beyond the work.
pub fn units(x: &CubeTensor, work: usize) -> (CubeCount, CubeDim) {
    let dim = CubeDim::new_1d(UNITS);
    (
        cubecl::calculate_cube_count_elemwise(&x.client, work, dim),
        dim,
    )
}

/// A cube for each of so many rows of a width. The third is the units of a cube: a power of two.
pub fn cubes(x: &CubeTensor, rows: usize, width: usize) -> (CubeCount, CubeDim, u32) {
    let units = (width.next_power_of_two() as u32).clamp(32, UNITS);
    let single = CubeDim::new_single();
    let count = cubecl::calculate_cube_count_elemwise(&x.client, rows, single);
    (count, CubeDim::new_1d(units), units)
}

/// The last dimension of a tensor, and how many rows of it there are.
pub fn rows_of(x: &CubeTensor) -> [usize; 2] {
    let shape = x.shape();
    let width = shape.last().copied().unwrap_or(1);
    [shape.num_elements() / width.max(1), width]
}

/// A tensor whose rows lie at one distance from each other, and that distance.
pub type InRows = (CubeTensor, usize);

/// A tensor in rows: products come with padded ones.
pub fn in_rows(x: CubeTensor) -> InRows {
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

/// An optional vector of a norm or a map, or `stand_in` for it, which the kernel does not read; and whether there is one.
pub fn or_stand_in(x: Maybe<CubeBackend>, stand_in: &CubeTensor) -> (CubeTensor, bool) {
    match x {
        Maybe::Some(x) => (contiguous(x), true),
        Maybe::None => (stand_in.clone(), false),
    }
}

/// The sum of a value over the units of a cube, for each of them. `shared` has a place a unit; `units` is a power of two.
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

/// The largest of a value over the units of a cube.
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

    /// 200·(1 + 2⁻¹⁰) is no number of 16 bits. WGSL has no bfloat16, so halves stand for it.
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
