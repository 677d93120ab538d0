//! The sound of a dialled number.

use super::DialledDigitsConfig;
use crate::data::speech::{HOP, RATE};
use crate::rng::Stream;
use std::f32::consts::TAU;

/// Frequencies of the rows and columns of the keys, in Hz.
const ROWS: [f32; 4] = [697.0, 770.0, 852.0, 941.0];
const COLUMNS: [f32; 3] = [1209.0, 1336.0, 1477.0];
/// Range of the level of a tone, and of the level of its column relative to its row.
const LEVEL: [f32; 2] = [0.05, 0.4];
const TWIST: [f32; 2] = [0.6, 1.6];

/// Draws uniformly between two bounds.
fn uniform([least, most]: [f32; 2], stream: &mut Stream) -> f32 {
    least + (most - least) * stream.uniform()
}

/// Draws a length in samples, uniformly between two bounds in seconds.
fn length(seconds: [f64; 2], stream: &mut Stream) -> usize {
    let seconds = uniform(seconds.map(|x| x as f32), stream);
    (f64::from(seconds) * RATE as f64) as usize
}

/// Returns the two frequencies of a digit's key.
fn frequencies(digit: u8) -> [f32; 2] {
    match digit {
        b'1'..=b'9' => {
            let place = usize::from(digit - b'1');
            [ROWS[place / 3], COLUMNS[place % 3]]
        }
        _ => [ROWS[3], COLUMNS[1]],
    }
}

impl DialledDigitsConfig {
    /// Returns the samples of a dialled number, at 16 kHz.
    pub(super) fn dialled(&self, number: &str, stream: &mut Stream) -> Vec<f32> {
        let level = uniform(LEVEL, stream);
        let lengths = |digit: u8| {
            let lengths = [self.tone, self.pause].map(|range| length(range, stream));
            (digit, lengths)
        };
        let keys: Vec<(u8, [usize; 2])> = number.bytes().map(lengths).collect();
        let len = self.shape().n_frames * HOP;
        let held: usize = keys.iter().flat_map(|(_, lengths)| lengths).sum();
        let mut at = stream.below(len.saturating_sub(held) as u64 + 1) as usize;
        let mut wave = vec![0.0; len];
        for (digit, [tone, pause]) in keys {
            let twist = uniform(TWIST, stream);
            let phases = [(); 2].map(|()| uniform([0.0, TAU], stream));
            let steps = frequencies(digit).map(|hertz| TAU * hertz / RATE as f32);
            for (n, sample) in wave.iter_mut().skip(at).take(tone).enumerate() {
                let [row, column] = [0, 1].map(|i| (steps[i] * n as f32 + phases[i]).sin());
                *sample = level * (row + twist * column) / (1.0 + twist);
            }
            at += tone + pause;
        }
        if self.noise > 0.0 {
            let noise = self.noise as f32;
            wave.iter_mut().for_each(|x| *x += noise * stream.normal());
        }
        wave
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    /// Returns the energy of a wave at one frequency (Goertzel).
    fn energy(wave: &[f32], hertz: f32) -> f32 {
        let step = TAU * hertz / RATE as f32;
        let both = wave.iter().enumerate().fold([0.0f32; 2], |sums, (n, x)| {
            let angle = step * n as f32;
            [sums[0] + x * angle.cos(), sums[1] + x * angle.sin()]
        });
        both.iter().map(|x| x * x).sum::<f32>() / (wave.len() as f32).powi(2)
    }

    #[test]
    fn a_digit_sounds_at_the_frequencies_of_its_key() {
        let config = DialledDigitsConfig::default();
        for digit in b'0'..=b'9' {
            let mut stream = Stream::new(1, Purpose::Synthetic, (u64::from(digit), 0, 0));
            let wave = config.dialled(&char::from(digit).to_string(), &mut stream);
            let loudest = |all: &[f32]| {
                let by = |a: &&f32, b: &&f32| energy(&wave, **a).total_cmp(&energy(&wave, **b));
                all.iter().max_by(by).copied().unwrap()
            };
            let found = [loudest(&ROWS), loudest(&COLUMNS)];
            assert_eq!(found, frequencies(digit), "{}", char::from(digit));
        }
        assert_eq!(frequencies(b'1'), [697.0, 1209.0]);
        assert_eq!(frequencies(b'9'), [852.0, 1477.0]);
        assert_eq!(frequencies(b'0'), [941.0, 1336.0]);
    }
}
