//! Scans along positions that carry a state for each channel, split into chunks. A unit first scans the positions of
//! one chunk of one channel from a zero state. The resulting states are then carried from chunk to chunk, and a
//! second scan of each chunk starts from the state that arrives at it (Blelloch 1990, "Prefix sums and their
//! applications", section 1.4).

use burn_cubecl::CubeDevice;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::step_inputs;
use crate::kernel::recurrent::{Sequences, Step};

/// Number of positions of a chunk.
pub const CHUNK: u32 = 16;

/// Number of channels of a cube whose units sum over channels.
pub const TILE: u32 = 32;

/// Returns whether all positions, and `per` numbers for each chunk of a channel, fit 32-bit indices.
pub fn fits_indices([batch, seq, channels]: [usize; 3], per: usize) -> bool {
    let chunks = batch.saturating_mul(seq.div_ceil(CHUNK as usize));
    let numbers = per.saturating_add(CHUNK as usize);
    chunks.saturating_mul(channels).saturating_mul(numbers) <= u32::MAX as usize
}

/// Numbers of rows, positions and channels of a scan.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Number of rows of the batch.
    pub batch: usize,
    /// Number of positions of a row.
    pub seq: usize,
    /// Number of channels.
    pub channels: usize,
}

impl Sizes {
    /// Returns the number of chunks of a row.
    pub fn chunks(self) -> usize {
        self.seq.div_ceil(CHUNK as usize)
    }

    /// Returns the number of chunks of all channels: the units of a scan.
    pub fn walks(self) -> usize {
        self.batch * self.chunks() * self.channels
    }

    /// Returns the number of results: one per channel and position.
    pub fn results(self) -> usize {
        self.batch * self.seq * self.channels
    }

    /// Converts the sizes to a kernel argument for a launch of `units` working units.
    pub fn extent(self, units: usize) -> ExtentLaunch {
        let sizes = [self.seq, self.channels, self.chunks(), units];
        let [seq, channels, chunks, units] = sizes.map(|x| x as u32);
        ExtentLaunch::new(seq, channels, chunks, units)
    }
}

/// How states are carried from chunk to chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Direction {
    /// Whether states go from the last chunk to the first, as gradients do.
    pub back: bool,
    /// Whether a state before the first chunk is given.
    pub given: bool,
    /// Whether the state after the last chunk is kept.
    pub last: bool,
}

impl Direction {
    /// Carries states from the first chunk to the last.
    pub fn forward(given: bool, last: bool) -> Self {
        Self {
            back: false,
            given,
            last,
        }
    }

    /// Carries gradients from the last chunk to the first: they start at zero, and the final one is not kept.
    pub fn backward() -> Self {
        Self {
            back: true,
            given: false,
            last: false,
        }
    }
}

/// Sizes of a scan in chunks, as a kernel argument.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Extent {
    /// Number of positions of a row.
    pub seq: u32,
    /// Number of channels.
    pub channels: u32,
    /// Number of chunks of a row.
    pub chunks: u32,
    /// Number of working units. A launch has a multiple of the cube's units; those beyond this number return at once.
    pub units: u32,
}

/// One chunk of one channel of a row.
#[derive(CubeType, Clone, Copy)]
pub struct Place {
    /// Index of the row in the batch.
    pub row: u32,
    /// Index of the chunk in the row.
    pub chunk: u32,
    /// The channel.
    pub channel: u32,
}

/// Returns the place of a unit: adjacent units have adjacent channels.
#[cube]
pub fn place_of(unit: u32, extent: &Extent) -> Place {
    Place {
        row: unit / extent.channels / extent.chunks,
        chunk: unit / extent.channels % extent.chunks,
        channel: unit % extent.channels,
    }
}

/// Returns the place of a unit in a cube for [`TILE`] channels of a chunk; the channel may be past the last one.
#[cube]
pub fn place_in_tile(cube: u32, tiles: u32, extent: &Extent) -> Place {
    Place {
        row: cube / tiles / extent.chunks,
        chunk: cube / tiles % extent.chunks,
        channel: cube % tiles * TILE + UNIT_POS,
    }
}

/// Reads the step code at a position, as encoded by [`Codes`]: 2 (hold) past a row's last position.
#[cube]
pub fn step_at(
    codes: &[i32],
    position: u32,
    place: &Place,
    extent: &Extent,
    #[comptime] coded: bool,
) -> u32 {
    step_of(codes, position, place.row, extent.seq, coded)
}

/// Reads the step code at a position of a row of `seq` positions.
#[cube]
pub fn step_of(codes: &[i32], position: u32, row: u32, seq: u32, #[comptime] coded: bool) -> u32 {
    let mut step = 2u32;
    if position < seq {
        step = 0u32;
        if comptime!(coded) {
            step = codes[(row * seq + position) as usize] as u32;
        }
    }
    step
}

/// Returns whether a sequence begins at a step.
#[cube]
pub fn begins(step: u32) -> bool {
    step == 1u32
}

/// Returns whether a step is taken, that is, not past a row's end.
#[cube]
pub fn is_taken(step: u32) -> bool {
    step < 2u32
}

/// Step codes of all positions on the device: 0 if the state is carried on, 1 if a sequence begins, 2 if the state is
/// held.
pub struct Codes {
    /// The codes; a single zero if every step carries on.
    pub numbers: CubeTensor,
    /// Whether kernels read the codes.
    pub read: bool,
}

impl Codes {
    /// Encodes the steps of the rows of a batch.
    pub fn of(sequences: &Sequences, [batch, seq]: [usize; 2], device: &CubeDevice) -> Self {
        let read = sequences.begins.is_some() || sequences.lengths.is_some();
        let numbers = match read {
            true => {
                let rows = (0..batch).flat_map(|row| {
                    (0..seq).map(move |at| match sequences.step(row, seq, at) {
                        Step::Next => 0,
                        Step::Begin => 1,
                        Step::Hold => 2,
                    })
                });
                step_inputs::numbers(rows.collect(), device)
            }
            false => step_inputs::numbers(vec![0], device),
        };
        Self { numbers, read }
    }
}

/// ln(1 + eˣ), computed as max(x, 0) + 2·artanh(e/(2 + e)) with e = e^(−|x|), by the series of artanh, as on flex.
#[cube]
pub fn softplus(x: f32) -> f32 {
    let e = (-x.abs()).exp();
    let s = e / (e + 2.0f32);
    let square = s * s;
    let mut series = 0.066_666_67f32;
    series = series * square + 0.076_923_08f32;
    series = series * square + 0.090_909_09f32;
    series = series * square + 0.111_111_11f32;
    series = series * square + 0.142_857_15f32;
    series = series * square + 0.2f32;
    series = series * square + 0.333_333_34f32;
    series = series * square + 1.0f32;
    max(x, 0.0f32) + 2.0f32 * s * series
}

/// 1/(1 + e⁻ˣ).
#[cube]
pub fn sigmoid(x: f32) -> f32 {
    1.0f32 / (1.0f32 + (-x).exp())
}
