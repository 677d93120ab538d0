//! The operations of RandAugment on bytes `[channels, height, width]`, of one channel or three.
//!
//! Cubuk et al. 2020, arXiv:1909.13719, with the operations, ranges and rounding of torchvision's
//! `RandAugment` on uint8 tensors: 14 operations of equal probability, 31 magnitudes, a random sign for those
//! that have one. Geometric operations take the nearest pixel, and black outside the image.

use std::f64::consts::PI;

use super::hue;
use crate::rng::Stream;

/// Number of operations that RandAugment draws from.
pub const COUNT: usize = 14;
/// Number of magnitudes.
pub const MAGNITUDES: usize = 31;

/// An operation with its strength.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// The image unchanged.
    Identity,
    /// Shifts rows sideways by this factor times their distance from the top.
    ShearX(f64),
    /// Shifts columns down by this factor times their distance from the left.
    ShearY(f64),
    /// Shifts the image right by this number of pixels.
    TranslateX(f64),
    /// Shifts the image down by this number of pixels.
    TranslateY(f64),
    /// Rotates the image counterclockwise about its middle by this number of degrees.
    Rotate(f64),
    /// Blends this share of the image with black.
    Brightness(f32),
    /// Blends this share of the image with its grey version; images of one channel stay unchanged.
    Color(f32),
    /// Blends this share of the image with its mean grey.
    Contrast(f32),
    /// Blends this share of the image with a blurred one.
    Sharpness(f32),
    /// Keeps this number of bits per value.
    Posterize(u32),
    /// Inverts values from this one up.
    Solarize(f32),
    /// Stretches each channel to the range 0 to 255.
    AutoContrast,
    /// Equalises the histogram of each channel.
    Equalize,
    /// Rotates hues by this share of the colour circle; used by jitter, not by RandAugment.
    Hue(f32),
}

impl Operation {
    /// Draws one of RandAugment's operations at a magnitude of 0 to 30, for images of this shape.
    pub fn draw(magnitude: usize, [_, height, width]: [usize; 3], stream: &mut Stream) -> Self {
        let share = magnitude as f64 / (MAGNITUDES - 1) as f64;
        // The paper's ImageNet images are 331 pixels wide and move by at most 150.
        let pixels = |size: usize| share * 150.0 / 331.0 * size as f64;
        let which = stream.below(COUNT as u64);
        let mut signed = |x: f64| if stream.next_u32() >> 31 == 0 { x } else { -x };
        match which {
            0 => Self::Identity,
            1 => Self::ShearX(signed(0.3 * share)),
            2 => Self::ShearY(signed(0.3 * share)),
            3 => Self::TranslateX(signed(pixels(width)).trunc()),
            4 => Self::TranslateY(signed(pixels(height)).trunc()),
            5 => Self::Rotate(signed(30.0 * share)),
            6 => Self::Brightness(1.0 + signed(0.9 * share) as f32),
            7 => Self::Color(1.0 + signed(0.9 * share) as f32),
            8 => Self::Contrast(1.0 + signed(0.9 * share) as f32),
            9 => Self::Sharpness(1.0 + signed(0.9 * share) as f32),
            10 => Self::Posterize(8 - (4.0 * share).round_ties_even() as u32),
            11 => Self::Solarize((255.0 * (1.0 - share)) as f32),
            12 => Self::AutoContrast,
            _ => Self::Equalize,
        }
    }

    /// Returns the changed image.
    #[must_use]
    pub fn apply(self, image: Vec<u8>, shape: [usize; 3]) -> Vec<u8> {
        let (down, right) = (shape[1] as f64 / 2.0, shape[2] as f64 / 2.0);
        match self {
            Self::Identity => image,
            Self::ShearX(s) => resampled(&image, shape, |x, y| (x + s * y, y)),
            Self::ShearY(s) => resampled(&image, shape, |x, y| (x, y + s * x)),
            Self::TranslateX(by) => resampled(&image, shape, |x, y| (x - by, y)),
            Self::TranslateY(by) => resampled(&image, shape, |x, y| (x, y - by)),
            Self::Rotate(degrees) => {
                let (sin, cos) = (degrees * PI / 180.0).sin_cos();
                resampled(&image, shape, |x, y| {
                    let (x, y) = (x - right, y - down);
                    (x * cos - y * sin + right, x * sin + y * cos + down)
                })
            }
            Self::Brightness(share) => blended(&image, share, |_| 0.0),
            Self::Color(_) if shape[0] == 1 => image,
            Self::Color(share) => {
                let grey = grey(&image, shape[0]);
                blended(&image, share, |at| f32::from(grey[at % grey.len()]))
            }
            Self::Contrast(share) => {
                let grey = grey(&image, shape[0]);
                let sum: u64 = grey.iter().map(|g| u64::from(*g)).sum();
                let mean = (sum as f64 / grey.len().max(1) as f64) as f32;
                blended(&image, share, |_| mean)
            }
            Self::Sharpness(_) if shape[1] <= 2 || shape[2] <= 2 => image,
            Self::Sharpness(share) => {
                let blurred = blurred(&image, shape);
                blended(&image, share, |at| f32::from(blurred[at]))
            }
            Self::Posterize(bits) => {
                let mask = !(0xFF_u32 >> bits.min(8)) as u8;
                image.into_iter().map(|p| p & mask).collect()
            }
            Self::Solarize(from) => {
                let inverted = |p: u8| if f32::from(p) >= from { 255 - p } else { p };
                image.into_iter().map(inverted).collect()
            }
            Self::AutoContrast => each_plane(image, shape, stretched),
            Self::Equalize => each_plane(image, shape, equalized),
            Self::Hue(by) => hue::rotate_hue(image, shape[0], by),
        }
    }
}

/// Mirrors the image left to right.
pub fn mirror(image: &mut [u8], width: usize) {
    image
        .chunks_exact_mut(width.max(1))
        .for_each(<[u8]>::reverse);
}

/// Takes each pixel from the one nearest to where `place` maps it; coordinates refer to pixel centres.
fn resampled(image: &[u8], shape: [usize; 3], place: impl Fn(f64, f64) -> (f64, f64)) -> Vec<u8> {
    let [_, height, width] = shape;
    let nearest = |at: f64, size: usize| {
        let at = (at - 0.5).round_ties_even();
        (at >= 0.0 && at < size as f64).then_some(at as usize)
    };
    let mut out = vec![0; image.len()];
    for row in 0..height {
        for column in 0..width {
            let (x, y) = place(column as f64 + 0.5, row as f64 + 0.5);
            let (Some(from_row), Some(from_column)) = (nearest(y, height), nearest(x, width))
            else {
                continue;
            };
            let (to, from) = (row * width + column, from_row * width + from_column);
            let planes = out.chunks_exact_mut(height * width);
            for (out, image) in planes.zip(image.chunks_exact(height * width)) {
                out[to] = image[from];
            }
        }
    }
    out
}

/// Blends `share` of the image with the rest of another one, truncated to whole numbers from 0 to 255.
fn blended(image: &[u8], share: f32, other: impl Fn(usize) -> f32) -> Vec<u8> {
    let rest = 1.0 - share;
    let blend = |(at, p): (usize, &u8)| share * f32::from(*p) + rest * other(at);
    // `as` truncates the fraction and saturates to the range.
    image.iter().enumerate().map(|p| blend(p) as u8).collect()
}

/// Returns the grey version of the image, truncated to whole numbers.
fn grey(image: &[u8], channels: usize) -> Vec<u8> {
    if channels == 1 {
        return image.to_vec();
    }
    let (red, rest) = image.split_at(image.len() / 3);
    let (green, blue) = rest.split_at(rest.len() / 2);
    let luma = |((r, g), b): ((&u8, &u8), &u8)| {
        (0.2989 * f32::from(*r) + 0.587 * f32::from(*g) + 0.114 * f32::from(*b)) as u8
    };
    red.iter().zip(green).zip(blue).map(luma).collect()
}

/// Returns the rounded mean of each pixel's 3 × 3 neighbourhood, with the middle counted five times; the
/// border stays unchanged.
fn blurred(image: &[u8], [_, height, width]: [usize; 3]) -> Vec<u8> {
    let mut out = image.to_vec();
    let planes = out.chunks_exact_mut(height * width);
    for (out, plane) in planes.zip(image.chunks_exact(height * width)) {
        for row in 1..height - 1 {
            for column in 1..width - 1 {
                let line = |row: usize| {
                    let pixels = &plane[row * width + column - 1..][..3];
                    pixels.iter().map(|p| u32::from(*p)).sum::<u32>()
                };
                let middle = 4 * u32::from(plane[row * width + column]);
                let sum = line(row - 1) + line(row) + line(row + 1) + middle;
                // Multiples of 1/13 never fall midway between whole numbers.
                out[row * width + column] = ((2 * sum + 13) / 26) as u8;
            }
        }
    }
    out
}

fn each_plane(
    mut image: Vec<u8>,
    [_, height, width]: [usize; 3],
    table: impl Fn(&[u8]) -> [u8; 256],
) -> Vec<u8> {
    for plane in image.chunks_exact_mut(height * width) {
        let table = table(plane);
        plane.iter_mut().for_each(|p| *p = table[usize::from(*p)]);
    }
    image
}

/// Returns the table that stretches values so that the smallest becomes 0 and the largest 255; the identity
/// if they are equal.
fn stretched(plane: &[u8]) -> [u8; 256] {
    let least = plane.iter().copied().min().unwrap_or(0);
    let most = plane.iter().copied().max().unwrap_or(0);
    if least == most {
        return std::array::from_fn(|p| p as u8);
    }
    let scale = 255.0 / f32::from(most - least);
    std::array::from_fn(|p| ((p as f32 - f32::from(least)) * scale) as u8)
}

/// Returns the table that equalises the histogram as PIL does.
fn equalized(plane: &[u8]) -> [u8; 256] {
    let mut counts = [0usize; 256];
    plane.iter().for_each(|p| counts[usize::from(*p)] += 1);
    let last = counts.iter().rev().find(|c| **c > 0).copied().unwrap_or(0);
    let step = (plane.len() - last) / 255;
    if step == 0 {
        return std::array::from_fn(|p| p as u8);
    }
    let mut below = 0;
    std::array::from_fn(|p| {
        let value = (below + step / 2) / step;
        below += counts[p];
        value.min(255) as u8
    })
}
