//! Triangular filters on Slaney's mel scale, each of unit area: librosa's `filters.mel` with its defaults,
//! which Whisper uses.
//!
//! ```text
//! mel(f) = 3 f / 200                              f < 1000 Hz
//! mel(f) = 15 + 27 ln(f / 1000) / ln 6.4          otherwise
//! ```
//!
//! Slaney 1998, Auditory Toolbox, Technical Report 1998-010.

use super::{N_FFT, RATE};

/// Point at which the scale becomes logarithmic, in Hz and in mels.
const LOGARITHMIC: [f64; 2] = [1000.0, 15.0];
/// Number of mels from there to 6.4 times its frequency.
const STEPS: f64 = 27.0;
/// Hz per mel below that point.
const LINEAR: f64 = 200.0 / 3.0;

/// A filter over the bins of a spectrum.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    /// Index of the first bin with a weight.
    pub(super) first: usize,
    /// Weights of the bins from there on.
    pub(super) weights: Vec<f64>,
}

fn to_mel(hertz: f64) -> f64 {
    let [from, mels] = LOGARITHMIC;
    match hertz < from {
        true => hertz / LINEAR,
        false => mels + (hertz / from).ln() * STEPS / 6.4f64.ln(),
    }
}

fn to_hertz(mel: f64) -> f64 {
    let [from, mels] = LOGARITHMIC;
    match mel < mels {
        true => mel * LINEAR,
        false => from * ((mel - mels) * 6.4f64.ln() / STEPS).exp(),
    }
}

/// Returns `n_mels` filters between 0 Hz and half the sampling rate.
pub(super) fn filters(n_mels: usize) -> Vec<Filter> {
    let highest = to_mel(RATE as f64 / 2.0);
    let step = highest / (n_mels + 1) as f64;
    let edges: Vec<f64> = (0..n_mels + 2).map(|i| to_hertz(i as f64 * step)).collect();
    let bin = RATE as f64 / N_FFT as f64;
    edges
        .windows(3)
        .map(|edges| {
            let (low, centre, high) = (edges[0], edges[1], edges[2]);
            let weight = |number: usize| {
                let hertz = number as f64 * bin;
                let (up, down) = (
                    (hertz - low) / (centre - low),
                    (high - hertz) / (high - centre),
                );
                up.min(down).max(0.0) * 2.0 / (high - low)
            };
            let all: Vec<f64> = (0..=N_FFT / 2).map(weight).collect();
            let first = all.iter().position(|w| *w > 0.0).unwrap_or(0);
            let end = all
                .iter()
                .rposition(|w| *w > 0.0)
                .map_or(first, |last| last + 1);
            Filter {
                first,
                weights: all[first..end].to_vec(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_triangles_of_unit_area() {
        for n_mels in [1, 40, 80, 128] {
            let all = filters(n_mels);
            assert_eq!(all.len(), n_mels);
            for filter in &all {
                assert!(!filter.weights.is_empty() && filter.weights.iter().all(|w| *w > 0.0));
            }
        }
        // A wide filter, sampled every 40 Hz.
        let area: f64 = filters(10)[8].weights.iter().sum::<f64>() * 40.0;
        assert!((area - 1.0).abs() < 0.01, "{area}");
        assert!((to_hertz(to_mel(440.0)) - 440.0).abs() < 1e-9);
        assert!((to_hertz(to_mel(4000.0)) - 4000.0).abs() < 1e-9);
        assert!((to_mel(1000.0) - 15.0).abs() < 1e-12);
    }
}
