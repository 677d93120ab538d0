//! 2-D convolution as matrix products over unfolded images (im2col), forward and backward.
//!
//! Images with few positions are processed in groups, so that a product has enough columns to pay for packing the
//! weights. Nothing unfolded is kept for the backward pass: it would take nine times the memory of the image, and
//! recomputing it costs a tenth of the product.

use std::ops::Range;

use burn_flex::FlexTensor;

use super::buffer::{build_zeroed_with, contiguous, dims, slice, tensor, zeros};
use super::linear::Sum;
use super::product::{Matrix, WriteMode, product};
use super::simd::map_in_place;
use super::threads;
use crate::kernel::ConvolutionSettings;

/// Minimum number of columns of a product, if there are enough images.
const MIN_COLUMNS: usize = 256;

/// Maximum number of partial sums of the weight gradient; fixed, so that the order of additions is.
const MAX_PARTIAL_SUMS: usize = 8;

/// The sizes of a convolution.
struct Geometry {
    images: usize,
    /// Channels, height and width of an image.
    input: [usize; 3],
    /// Channels, height and width of an output.
    output: [usize; 3],
    /// Height and width of the kernel window.
    window: [usize; 2],
    settings: ConvolutionSettings,
}

impl Geometry {
    fn new(input: [usize; 4], weight: [usize; 4], settings: ConvolutionSettings) -> Self {
        let [images, planes, height, width] = input;
        let [outputs, inner, rows, columns] = weight;
        assert_eq!(planes, inner, "planes of the image and of the weights");
        let [height_out, width_out] = settings.sides([height, width], [rows, columns]);
        Self {
            images,
            input: [planes, height, width],
            output: [outputs, height_out, width_out],
            window: [rows, columns],
            settings,
        }
    }

    /// Returns the number of elements of an image.
    fn image(&self) -> usize {
        self.input.iter().product()
    }

    /// Returns the number of positions of an output.
    fn positions(&self) -> usize {
        self.output[1] * self.output[2]
    }

    /// Returns the number of elements of an output.
    fn result(&self) -> usize {
        self.output[0] * self.positions()
    }

    /// Returns the number of weights of one output channel.
    fn taps(&self) -> usize {
        self.input[0] * self.window[0] * self.window[1]
    }

    /// Returns the number of images whose products are computed together.
    fn group(&self) -> usize {
        (MIN_COLUMNS / self.positions().max(1)).clamp(1, self.images.max(1))
    }

    /// Returns the image row that output row `y` reads through row `tap` of the window, if it is inside the image.
    fn row(&self, y: usize, tap: usize) -> Option<usize> {
        let row = (y * self.settings.stride + tap).checked_sub(self.settings.padding)?;
        (row < self.input[1]).then_some(row)
    }

    /// Returns the output columns that read inside the image through column `tap`, and the image column that the
    /// first one reads.
    fn columns(&self, tap: usize) -> (Range<usize>, usize) {
        let (stride, padding) = (self.settings.stride, self.settings.padding);
        let first = padding.saturating_sub(tap).div_ceil(stride);
        let end = (self.input[2] + padding)
            .saturating_sub(tap)
            .div_ceil(stride);
        let end = end.min(self.output[2]);
        (first.min(end)..end, first * stride + tap - padding)
    }

    /// Calls `each` for every contiguous part of a row, with its offset in the image, its offset in the unfolded
    /// matrix of `across` columns starting at column `at`, and its length.
    fn stretches(&self, across: usize, at: usize, mut each: impl FnMut(usize, usize, usize)) {
        let [planes, height, width] = self.input;
        let mut tap = 0;
        for plane in 0..planes {
            for (down, right) in
                (0..self.window[0]).flat_map(|d| (0..self.window[1]).map(move |r| (d, r)))
            {
                let (columns, from) = self.columns(right);
                for y in 0..self.output[1] {
                    if let (Some(row), false) = (self.row(y, down), columns.is_empty()) {
                        let image = (plane * height + row) * width + from;
                        let place = tap * across + at + y * self.output[2] + columns.start;
                        each(image, place, columns.len());
                    }
                }
                tap += 1;
            }
        }
    }

    /// Writes every window of an image as a column: `[taps, across]` starting at column `at`; elements outside the
    /// image are not written.
    fn unfold(&self, image: &[f32], unfolded: &mut [f32], across: usize, at: usize) {
        let stride = self.settings.stride;
        self.stretches(across, at, |from, to, n| {
            let to = &mut unfolded[to..to + n];
            if stride == 1 {
                to.copy_from_slice(&image[from..from + n]);
            } else {
                let read = image[from..].iter().step_by(stride);
                to.iter_mut().zip(read).for_each(|(to, x)| *to = *x);
            }
        });
    }

    /// The inverse of unfolding: adds columns to the image where their windows are.
    fn fold(&self, unfolded: &[f32], image: &mut [f32], across: usize, at: usize) {
        let stride = self.settings.stride;
        self.stretches(across, at, |to, from, n| {
            let read = &unfolded[from..from + n];
            if stride == 1 {
                let written = image[to..to + n].iter_mut();
                written.zip(read).for_each(|(to, x)| *to += *x);
            } else {
                let written = image[to..].iter_mut().step_by(stride);
                written.zip(read).for_each(|(to, x)| *to += *x);
            }
        });
    }

    /// Unfolds the images of a group into a buffer whose elements outside the images are 0.
    fn unfolded<'a>(&self, images: &[f32], buffer: &'a mut Vec<f32>) -> Matrix<'a> {
        let positions = self.positions();
        let across = images.len() / self.image().max(1) * positions;
        let len = self.taps() * across;
        if buffer.len() != len {
            buffer.clear();
            buffer.resize(len, 0.0);
        }
        for (i, image) in images.chunks_exact(self.image().max(1)).enumerate() {
            self.unfold(image, buffer, across, i * positions);
        }
        Matrix::rows(buffer, [self.taps(), across])
    }
}

/// Transposes `[n, outputs, positions]` to `[outputs, n·positions]`, or back.
fn transpose_images(from: &[f32], to: &mut [f32], [n, outputs, positions]: [usize; 3], back: bool) {
    for (i, o) in (0..n).flat_map(|i| (0..outputs).map(move |o| (i, o))) {
        let (apart, beside) = ((i * outputs + o) * positions, (o * n + i) * positions);
        let (read, write) = if back {
            (beside, apart)
        } else {
            (apart, beside)
        };
        to[write..write + positions].copy_from_slice(&from[read..read + positions]);
    }
}

/// Convolves `[images, channels, height, width]` with `[outputs, channels, rows, columns]` into
/// `[images, outputs, height', width']`.
pub fn forward(x: FlexTensor, weight: FlexTensor, settings: ConvolutionSettings) -> FlexTensor {
    let (x, weight) = (contiguous(x), contiguous(weight));
    let g = Geometry::new(dims(&x), dims(&weight), settings);
    let left = Matrix::rows(slice(&weight), [g.output[0], g.taps()]);
    let work =
        |(columns, beside): &mut (Vec<f32>, Vec<f32>), images: &[f32], [out]: [&mut [f32]; 1]| {
            let right = g.unfolded(images, columns);
            let n = images.len() / g.image();
            if n == 1 {
                return product(out, left, right, WriteMode::TILE);
            }
            beside.resize(out.len(), 0.0);
            product(beside, left, right, WriteMode::TILE);
            transpose_images(beside, out, [n, g.output[0], g.positions()], true);
        };
    let len = g.images * g.result();
    let out = match len > 0 && g.image() > 0 {
        true => {
            let images = slice(&x).chunks(g.group() * g.image());
            let piece = g.group() * g.result();
            let [out] = build_zeroed_with([len], [piece], images, Default::default, work);
            out
        }
        // Empty sums, such as those of an image that has no columns besides its padding.
        false => zeros(len),
    };
    tensor(out, [g.images, g.output[0], g.output[1], g.output[2]])
}

/// Returns the gradient of the input.
pub fn input_gradient(
    weight: FlexTensor,
    grad: FlexTensor,
    input: [usize; 4],
    settings: ConvolutionSettings,
) -> FlexTensor {
    let (weight, grad) = (contiguous(weight), contiguous(grad));
    let g = Geometry::new(input, dims(&weight), settings);
    let left = Matrix::rows(slice(&weight), [g.output[0], g.taps()]).transposed();
    let mut out = vec![0.0; g.images * g.image()];
    let work = |(columns, beside): &mut (Vec<f32>, Vec<f32>),
                (images, grads): (&mut [f32], &[f32])| {
        let n = images.len() / g.image();
        let across = n * g.positions();
        beside.resize(grads.len(), 0.0);
        transpose_images(grads, beside, [n, g.output[0], g.positions()], false);
        columns.resize(g.taps() * across, 0.0);
        let right = Matrix::rows(beside, [g.output[0], across]);
        product(columns, left, right, WriteMode::TILE);
        for (i, image) in images.chunks_exact_mut(g.image()).enumerate() {
            g.fold(columns, image, across, i * g.positions());
        }
    };
    if !out.is_empty() && g.result() > 0 {
        let groups = out.chunks_mut(g.group() * g.image());
        let groups = groups.zip(slice(&grad).chunks(g.group() * g.result()));
        threads::for_each_with(groups, Default::default, work);
    }
    tensor(out, input)
}

/// Returns the gradient of the weight.
pub fn weight_gradient(
    x: FlexTensor,
    grad: FlexTensor,
    weight: [usize; 4],
    settings: ConvolutionSettings,
) -> FlexTensor {
    let (x, grad) = (contiguous(x), contiguous(grad));
    let g = Geometry::new(dims(&x), weight, settings);
    let elements = g.output[0] * g.taps();
    if g.images * g.image() * g.result() == 0 {
        return tensor(vec![0.0; elements], weight);
    }
    let part = g
        .images
        .div_ceil(MAX_PARTIAL_SUMS)
        .next_multiple_of(g.group());
    let partial = |(images, grads): (&[f32], &[f32])| {
        let mut sum = vec![0.0; elements];
        let (mut columns, mut beside) = (Vec::new(), Vec::new());
        let groups = images.chunks(g.group() * g.image());
        for (images, grads) in groups.zip(grads.chunks(g.group() * g.result())) {
            let right = g.unfolded(images, &mut columns).transposed();
            let n = images.len() / g.image();
            beside.resize(grads.len(), 0.0);
            transpose_images(grads, &mut beside, [n, g.output[0], g.positions()], false);
            let left = Matrix::rows(&beside, [g.output[0], right.shape[0]]);
            product(&mut sum, left, right, WriteMode::ADD_TILE);
        }
        sum
    };
    let images = slice(&x).chunks(part * g.image());
    let parts = images.zip(slice(&grad).chunks(part * g.result()));
    let mut partials: Vec<Vec<f32>> = threads::map(parts, partial);
    let rest = partials.split_off(1);
    let mut sum = partials.swap_remove(0);
    for part in &rest {
        map_in_place(Sum, &mut sum, [part]);
    }
    tensor(sum, weight)
}
