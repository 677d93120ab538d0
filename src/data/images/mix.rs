//! Mixup and cutmix: two images are mixed into one, and the label gets the share of the first.
//!
//! Mixup (Zhang et al. 2018, arXiv:1710.09412): λ·x + (1 − λ)·y with λ from Beta(α, α). Cutmix (Yun et al.
//! 2019, arXiv:1905.04899): a rectangle of y is pasted into x; its sides are √(1 − λ) of the image's, its
//! middle is anywhere, and it is cut off at the border. λ is then the share of x that is left. With both,
//! each image takes one or the other with probability 1/2, like timm's `switch_prob`.

use crate::rng::Stream;

/// How images are mixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mixing {
    /// Mixup with this α.
    Mixup(f64),
    /// Cutmix with this α.
    Cutmix(f64),
    /// Mixup or cutmix, each with its α.
    Either(f64, f64),
}

impl Mixing {
    /// Mixes `other` into `image`, both `[channels, height, width]`, and returns the share of `image`.
    pub fn mix(
        &self,
        image: &mut [f32],
        other: &[f32],
        shape: [usize; 3],
        stream: &mut Stream,
    ) -> f32 {
        match *self {
            Self::Mixup(alpha) => blend(image, other, beta(alpha, stream)),
            Self::Cutmix(alpha) => paste(image, other, shape, beta(alpha, stream), stream),
            Self::Either(mixup, cutmix) => {
                if stream.uniform() < 0.5 {
                    blend(image, other, beta(mixup, stream))
                } else {
                    paste(image, other, shape, beta(cutmix, stream), stream)
                }
            }
        }
    }
}

fn blend(image: &mut [f32], other: &[f32], share: f64) -> f32 {
    let share = share as f32;
    for (x, y) in image.iter_mut().zip(other) {
        *x = share * *x + (1.0 - share) * y;
    }
    share
}

fn paste(
    image: &mut [f32],
    other: &[f32],
    [_, height, width]: [usize; 3],
    share: f64,
    stream: &mut Stream,
) -> f32 {
    let side = (1.0 - share).sqrt();
    let mut range = |size: usize| {
        let middle = stream.below(size as u64) as usize;
        let half = (size as f64 * side) as usize / 2;
        (middle.saturating_sub(half), (middle + half).min(size))
    };
    let (rows, columns) = (range(height), range(width));
    let planes = image.chunks_exact_mut(height * width);
    for (plane, other) in planes.zip(other.chunks_exact(height * width)) {
        for row in rows.0..rows.1 {
            let line = row * width + columns.0..row * width + columns.1;
            plane[line.clone()].copy_from_slice(&other[line]);
        }
    }
    let pasted = (rows.1 - rows.0) * (columns.1 - columns.0);
    1.0 - pasted as f32 / (height * width) as f32
}

/// Draws from Beta(α, α): X / (X + Y) of two draws of Gamma(α).
pub fn beta(alpha: f64, stream: &mut Stream) -> f64 {
    let (x, y) = (log_gamma_draw(alpha, stream), log_gamma_draw(alpha, stream));
    // In logarithms, since for small α both draws may underflow.
    1.0 / (1.0 + (y - x).exp())
}

/// Draws the logarithm of a Gamma(α) variable: Marsaglia and Tsang, "A simple method for generating gamma
/// variables", ACM TOMS 26 (2000); below α = 1 by their last remark, Gamma(α + 1) · U^(1/α).
fn log_gamma_draw(alpha: f64, stream: &mut Stream) -> f64 {
    if alpha < 1.0 {
        let boost = open_unit(stream).ln() / alpha;
        return log_gamma_draw(alpha + 1.0, stream) + boost;
    }
    let d = alpha - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = f64::from(stream.normal());
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && open_unit(stream).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return (d * v).ln();
        }
    }
}

/// Draws uniformly from the open interval (0, 1).
fn open_unit(stream: &mut Stream) -> f64 {
    (f64::from(stream.next_u32()) + 0.5) / 4_294_967_296.0
}
