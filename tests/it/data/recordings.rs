//! WAV files of every format, made byte by byte, and the recordings of a folder.

use std::f32::consts::TAU;
use std::path::PathBuf;

/// Format of the samples in a WAV file.
#[derive(Clone, Copy)]
pub enum Sort {
    Whole(u16),
    Float(u16),
}

/// A tone of this frequency at 16 kHz, with values from -0.5 to 0.5.
pub fn tone(hertz: f32, samples: usize) -> Vec<f32> {
    let step = TAU * hertz / 16_000.0;
    (0..samples)
        .map(|n| 0.5 * (step * n as f32).sin())
        .collect()
}

/// A WAV file of these samples, with interleaved channels.
pub fn wav(samples: &[f32], (rate, channels): (u32, u16), sort: Sort) -> Vec<u8> {
    let (format, bits): (u16, u16) = match sort {
        Sort::Whole(bits) => (1, bits),
        Sort::Float(bits) => (3, bits),
    };
    let mut data = Vec::new();
    for x in samples {
        let scaled = f64::from(*x) * 2f64.powi(i32::from(bits) - 1);
        match sort {
            Sort::Whole(8) => data.push((scaled + 128.0).round() as u8),
            Sort::Whole(bits) => {
                let bytes = (scaled.round() as i32).to_le_bytes();
                data.extend(&bytes[..usize::from(bits / 8)]);
            }
            Sort::Float(32) => data.extend(x.to_le_bytes()),
            Sort::Float(_) => data.extend(f64::from(*x).to_le_bytes()),
        }
    }
    let block = channels * bits / 8;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + data.len() as u32).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16u32.to_le_bytes());
    file.extend(format.to_le_bytes());
    file.extend(channels.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * u32::from(block)).to_le_bytes());
    file.extend(block.to_le_bytes());
    file.extend(bits.to_le_bytes());
    file.extend(b"data");
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file
}

/// The most common file: one channel of 16 bits at 16 kHz.
pub fn plain(samples: &[f32]) -> Vec<u8> {
    wav(samples, (16_000, 1), Sort::Whole(16))
}

/// The file `tests/goldens/speech.flac`, written by libFLAC.
pub fn flac() -> Vec<u8> {
    std::fs::read(golden("speech.flac")).unwrap()
}

pub fn golden(name: &str) -> PathBuf {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("tests/goldens").join(name)
}
