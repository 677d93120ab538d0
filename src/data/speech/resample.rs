//! Resamples recordings of other sampling rates to 16 kHz, by Fourier transforms with an anti-aliasing
//! filter.

use super::RATE;
use rubato::audioadapter_buffers::owned::InterleavedOwned;
use rubato::{Fft, FixedSync, Resampler};
use std::ops::RangeInclusive;

/// Plausible sampling rates; others mean that a file is damaged.
const RATES: RangeInclusive<u32> = 1_000..=768_000;
/// Approximate number of samples that are transformed together.
const CHUNK: usize = 1024;

/// Resamples one channel to 16 kHz.
///
/// # Errors
/// If no recording has such a sampling rate.
pub(super) fn resampled(samples: Vec<f32>, rate: u32) -> Result<Vec<f32>, String> {
    if rate as usize == RATE {
        return Ok(samples);
    }
    if !RATES.contains(&rate) {
        return Err(format!(
            "its sampling rate of {rate} Hz cannot be converted to {RATE} Hz: it must be between {} and {} Hz",
            RATES.start(),
            RATES.end()
        ));
    }
    let wrong = |why: &dyn std::fmt::Display| {
        format!("its sampling rate of {rate} Hz cannot be converted to {RATE} Hz: {why}")
    };
    let mut resampler =
        Fft::<f32>::new(rate as usize, RATE, CHUNK, 1, FixedSync::Input).map_err(|e| wrong(&e))?;
    let len = samples.len();
    let input = InterleavedOwned::new_from(samples, 1, len).map_err(|e| wrong(&e))?;
    let output = resampler
        .process_all(&input, len, None)
        .map_err(|e| wrong(&e))?;
    Ok(output.take_data())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    #[test]
    fn a_tone_stays_the_same_tone_and_what_16_khz_cannot_hold_is_gone() {
        // Phases within a second reach thousands of turns, where f32 is off by hundredths of a turn.
        let tone = |rate: u32, hertz: f64| -> Vec<f32> {
            let step = TAU * hertz / f64::from(rate);
            (0..rate)
                .map(|n| (step * f64::from(n)).sin() as f32)
                .collect()
        };
        for rate in [8_000, 22_050, 44_100, 48_000] {
            let made = resampled(tone(rate, 440.0), rate).unwrap();
            assert_eq!(made.len(), RATE, "{rate}");
            let inner = made
                .iter()
                .zip(tone(RATE as u32, 440.0))
                .skip(2000)
                .take(12000);
            let most = inner.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            // The delay of the filter is compensated in whole output samples: for rates that are no fraction
            // or multiple of the output rate, up to half a sample remains.
            let left = match rate {
                8_000 | 48_000 => 1e-5,
                _ => (TAU * 440.0 * 0.5 / RATE as f64) as f32,
            };
            assert!(most < left, "{rate}: {most}");
        }
        let high = resampled(tone(48_000, 12_000.0), 48_000).unwrap();
        let most = high[2000..14000]
            .iter()
            .fold(0.0, |a: f32, b| a.max(b.abs()));
        assert!(most < 1e-5, "{most}");
        assert!(resampled(vec![0.0; 10], 3).unwrap_err().contains("3 Hz"));
        assert_eq!(resampled(Vec::new(), 8_000).unwrap(), Vec::<f32>::new());
    }
}
