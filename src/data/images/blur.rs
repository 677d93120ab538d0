//! Gaussian blur: each pixel becomes a mean of its neighbours, along rows and then along columns, with the
//! weights e^(−x²/2σ²) up to a distance of 3σ, divided by their sum. Beyond its edges an image is mirrored at
//! its last pixel.

/// Distance up to which neighbours count, in standard deviations.
const REACH: f32 = 3.0;

/// Returns the image `[channels, height, width]` blurred with the standard deviation `sigma` in pixels,
/// rounded once.
pub fn blurred(image: &[u8], [_, height, width]: [usize; 3], sigma: f32) -> Vec<u8> {
    let mut out = Vec::with_capacity(image.len());
    for plane in image.chunks_exact((height * width).max(1)) {
        let plane: Vec<f32> = plane.iter().map(|p| f32::from(*p)).collect();
        let across = blur_lines(&plane, [height, width], [width, 1], sigma);
        let both = blur_lines(&across, [width, height], [1, width], sigma);
        out.extend(both.iter().map(|x| x.round_ties_even() as u8));
    }
    out
}

/// Returns the weights of the distances 0, 1, …, which add up to 1 over both sides. Mirroring reaches no
/// further than the other end.
fn weights(length: usize, sigma: f32) -> Vec<f32> {
    let reach = ((REACH * sigma).ceil() as usize).min(length.saturating_sub(1));
    let weight = |x: usize| (-(x as f32).powi(2) / (2.0 * sigma * sigma)).exp();
    let one: Vec<f32> = (0..=reach).map(weight).collect();
    let sum = 2.0 * one.iter().sum::<f32>() - one[0];
    one.into_iter().map(|x| x / sum).collect()
}

/// Blurs every line of a plane of `lines` lines with `length` pixels each; `steps` holds the strides from
/// line to line and from pixel to pixel.
fn blur_lines(
    plane: &[f32],
    [lines, length]: [usize; 2],
    steps: [usize; 2],
    sigma: f32,
) -> Vec<f32> {
    let weights = weights(length, sigma);
    let last = length.saturating_sub(1);
    let mut out = vec![0.0; plane.len()];
    for line in 0..lines {
        let at = |pixel: usize| line * steps[0] + pixel * steps[1];
        for pixel in 0..length {
            let further = weights.iter().enumerate().skip(1);
            let both = further.map(|(distance, weight)| {
                let before = pixel.abs_diff(distance);
                let behind = last - last.abs_diff(pixel + distance);
                weight * (plane[at(before)] + plane[at(behind)])
            });
            out[at(pixel)] = weights[0] * plane[at(pixel)] + both.sum::<f32>();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_image_stays_and_a_point_spreads_evenly() {
        assert_eq!(blurred(&[7; 24], [2, 3, 4], 1.3), [7; 24]);
        assert_eq!(blurred(&[200], [1, 1, 1], 2.0), [200]);
        let mut point = vec![0; 25];
        point[12] = 255;
        let found = blurred(&point, [1, 5, 5], 0.5);
        // e⁻² and e⁻⁸ times the weight of the middle.
        let one = 1.0 / (1.0 + 2.0 * ((-2.0f32).exp() + (-8.0f32).exp()));
        assert_eq!(found[12], (255.0 * one * one).round() as u8);
        assert!([7, 11, 13, 17].iter().all(|at| found[*at] == found[7]));
    }
}
