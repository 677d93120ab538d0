//! Bilinear resizing with antialiasing: rows, then columns, each a weighted mean of its neighbours.
//!
//! The weight of a pixel falls linearly to 0 over one step of the coarser grid: the triangle widens where an
//! image shrinks, so that no pixel is passed over. As torchvision's `resize(antialias=True)` on tensors and PIL's
//! BILINEAR, up to rounding.

/// An image `[channels, height, width]` in another size `[height, width]`, rounded to the nearest.
pub fn resize(image: &[u8], from: [usize; 3], to: [usize; 2]) -> Vec<u8> {
    let [channels, height, width] = from;
    let [rows, columns] = to;
    let (across, down) = (taps(width, columns), taps(height, rows));
    let mut out = Vec::with_capacity(channels * rows * columns);
    let mut narrow = vec![0.0f32; height * columns];
    for plane in image.chunks_exact((height * width).max(1)) {
        let lines = plane.chunks_exact(width);
        for (line, narrow) in lines.zip(narrow.chunks_exact_mut(columns)) {
            for (value, (first, weights)) in narrow.iter_mut().zip(&across) {
                let pixels = line[*first..].iter().zip(weights);
                *value = pixels.map(|(p, w)| f32::from(*p) * w).sum();
            }
        }
        for (first, weights) in &down {
            for column in 0..columns {
                let lines = weights.iter().enumerate();
                let value: f32 = lines
                    .map(|(line, w)| narrow[(first + line) * columns + column] * w)
                    .sum();
                out.push(value.round_ties_even() as u8);
            }
        }
    }
    out
}

/// For each place of the new line: the first place of the old one that it sees, and the weights from there.
fn taps(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let scale = from as f32 / to as f32;
    let reach = scale.max(1.0);
    let of = |place: usize| {
        let centre = scale * (place as f32 + 0.5);
        let first = (centre - reach + 0.5).max(0.0) as usize;
        let end = ((centre + reach + 0.5) as usize).min(from);
        let weight = |at: usize| (1.0 - ((at as f32 - centre + 0.5) / reach).abs()).max(0.0);
        let weights: Vec<f32> = (first..end).map(weight).collect();
        let sum: f32 = weights.iter().sum();
        (first, weights.into_iter().map(|w| w / sum).collect())
    };
    (0..to).map(of).collect()
}
