//! Walks along positions, which carry a state for each channel: in chunks at once, and then from chunk to chunk. A unit walks the
//! positions of a chunk of one channel, the first time from a state of nothing; what it ends with is carried along the chunks, and
//! the second time it begins with the state that reaches it (Blelloch 1990, "Prefix sums and their applications", section 1.4).

use burn_cubecl::CubeDevice;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::noted;
use crate::kernel::recurrent::{Sequences, Step};

/// Positions of a chunk.
pub const CHUNK: u32 = 16;

/// Channels of a cube whose units add over channels.
pub const TILE: u32 = 32;

/// Whether kernels count all positions, and `per` numbers for each chunk of a channel, in 32 bits.
pub fn are_counted([batch, seq, channels]: [usize; 3], per: usize) -> bool {
    let chunks = batch.saturating_mul(seq.div_ceil(CHUNK as usize));
    let numbers = per.saturating_add(CHUNK as usize);
    chunks.saturating_mul(channels).saturating_mul(numbers) <= u32::MAX as usize
}

/// How many rows, positions and channels are walked.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Rows of the batch.
    pub batch: usize,
    /// Positions of a row.
    pub seq: usize,
    /// Channels.
    pub channels: usize,
}

impl Sizes {
    /// Chunks of a row.
    pub fn chunks(self) -> usize {
        self.seq.div_ceil(CHUNK as usize)
    }

    /// Chunks of all channels: units of a walk.
    pub fn walks(self) -> usize {
        self.batch * self.chunks() * self.channels
    }

    /// Results: one of each channel of each position.
    pub fn results(self) -> usize {
        self.batch * self.seq * self.channels
    }

    /// The sizes as an argument of a kernel that so many units take part in.
    pub fn extent(self, units: usize) -> ExtentLaunch {
        let sizes = [self.seq, self.channels, self.chunks(), units];
        let [seq, channels, chunks, units] = sizes.map(|x| x as u32);
        ExtentLaunch::new(seq, channels, chunks, units)
    }
}

/// How states are carried along the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Direction {
    /// From the last chunk to the first: gradients.
    pub back: bool,
    /// Whether there is a state before the first chunk.
    pub given: bool,
    /// Whether the state behind the last chunk is kept.
    pub last: bool,
}

impl Direction {
    /// From the first chunk to the last.
    pub fn forward(given: bool, last: bool) -> Self {
        Self {
            back: false,
            given,
            last,
        }
    }

    /// From the last chunk to the first, for gradients: they begin with nothing, and nothing is kept of them.
    pub fn backward() -> Self {
        Self {
            back: true,
            given: false,
            last: false,
        }
    }
}

/// The channels of positions, in chunks.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Extent {
    /// Positions of a row.
    pub seq: u32,
    /// Channels.
    pub channels: u32,
    /// Chunks of a row.
    pub chunks: u32,
    /// Units that compute: a launch has a multiple of the units of a cube, and those beyond this number return at once.
    pub units: u32,
}

/// A chunk of a row's channel.
#[derive(CubeType, Clone, Copy)]
pub struct Place {
    /// Row of the batch.
    pub row: u32,
    /// Chunk of the row.
    pub chunk: u32,
    /// The channel.
    pub channel: u32,
}

/// The place of a unit: channels lie side by side.
#[cube]
pub fn place_of(unit: u32, extent: &Extent) -> Place {
    Place {
        row: unit / extent.channels / extent.chunks,
        chunk: unit / extent.channels % extent.chunks,
        channel: unit % extent.channels,
    }
}

/// The place of a unit of a cube for [`TILE`] channels of a chunk; the channel may be behind the last.
#[cube]
pub fn place_in_tile(cube: u32, tiles: u32, extent: &Extent) -> Place {
    Place {
        row: cube / tiles / extent.chunks,
        chunk: cube / tiles % extent.chunks,
        channel: cube % tiles * TILE + UNIT_POS,
    }
}

/// The step at a position, as [`Codes`] has them: [`HOLD`] behind a row's last position.
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

/// The same in a row of so many positions.
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

/// Whether a sequence begins with a step.
#[cube]
pub fn begins(step: u32) -> bool {
    step == 1u32
}

/// Whether a step is taken: not behind a row's end.
#[cube]
pub fn is_taken(step: u32) -> bool {
    step < 2u32
}

/// The steps of all positions on the device: 0 where a state is carried on, 1 where it begins, 2 where it stays.
pub struct Codes {
    /// The numbers; one zero where every step carries on.
    pub numbers: CubeTensor,
    /// Whether they are read.
    pub read: bool,
}

impl Codes {
    /// Of the rows of a batch.
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
                noted::numbers(rows.collect(), device)
            }
            false => noted::numbers(vec![0], device),
        };
        Self { numbers, read }
    }
}

/// ln(1 + eˣ): max(x, 0) + 2·artanh(e/(2 + e)) with e = e^(−|x|), by the series of artanh, as on flex.
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
