//! A chunk of positions of a head: the layout of its elements, its steps, and how far states decay within it.
//!
//! Logarithms of decays are added, never subtracted, so no long sum cancels. Where a sequence begins, the logarithm
//! is [`BEGUN`], so that nothing of earlier positions remains.

use cubecl::prelude::*;

use crate::kernel::cube::chunks::{begins, is_taken, softplus, step_of};
use crate::kernel::cube::square::{Part, SIDE, UNITS, at};

/// In effect the logarithm of zero. As many of them as a chunk has positions can be added without overflow.
const BEGUN: f32 = -1e30;

/// The source of steps and decays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gates {
    /// Steps are the softplus of the raw inputs, and each head has one decay.
    Softplus,
    /// Each position is given a step and the logarithm of a decay; there is no skip past the states.
    Given,
}

/// Compile-time parameters of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// Number of heads.
    pub heads: u32,
    /// Number of channels of a head.
    pub d_head: u32,
    /// Number of groups of heads.
    pub groups: u32,
    /// Number of rows of a head's state.
    pub n: u32,
    /// Whether step codes are read, which tell where sequences begin and end.
    pub coded: bool,
    /// Source of steps and decays.
    pub gates: Gates,
}

impl Form {
    /// Returns the number of channels of all heads.
    pub fn channels(self) -> u32 {
        self.heads * self.d_head
    }

    /// Returns the number of elements of a position: x, b and c.
    pub fn mixed(self) -> u32 {
        self.channels() + 2 * self.groups * self.n
    }

    /// Returns the number of squares next to each other in the channels of a head.
    pub fn tiles(self) -> u32 {
        self.d_head.div_ceil(SIDE)
    }

    /// Returns the number of squares below each other in a head's state.
    pub fn slices(self) -> u32 {
        self.n.div_ceil(SIDE)
    }

    /// Returns whether steps and decays are given for each position.
    pub fn is_given(self) -> bool {
        self.gates == Gates::Given
    }

    /// Returns the number of heads of a group.
    pub fn per(self) -> u32 {
        self.heads / self.groups
    }
}

/// Sizes that are known only at run time.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Extent {
    /// Number of positions of a row.
    pub seq: u32,
    /// Number of chunks of a row.
    pub chunks: u32,
    /// Number of working cubes, or units; those beyond return at once.
    pub work: u32,
    /// Minimum step.
    pub least: f32,
    /// Maximum step.
    pub most: f32,
}

/// The part of the work that a cube does.
#[derive(CubeType, Clone, Copy)]
pub struct Place {
    /// Index of the row in the batch.
    pub row: u32,
    /// Index of the chunk in the row.
    pub chunk: u32,
    /// The head.
    pub head: u32,
    /// Index of the square of the head's channels.
    pub tile: u32,
}

/// Returns the place of a cube, for `heads` heads of `tiles` squares each.
#[cube]
pub fn place_of(
    cube: u32,
    extent: &Extent,
    #[comptime] heads: u32,
    #[comptime] tiles: u32,
) -> Place {
    let line = cube / comptime!(heads * tiles);
    Place {
        row: line / extent.chunks,
        chunk: line % extent.chunks,
        head: cube / tiles % heads,
        tile: cube % tiles,
    }
}

/// Returns the place of a cube that works on a group, of `tiles` squares: the group's first head.
#[cube]
pub fn place_of_group(
    cube: u32,
    extent: &Extent,
    #[comptime] tiles: u32,
    #[comptime] form: Form,
) -> Place {
    let own = place_of(cube, extent, form.groups, tiles);
    Place {
        row: own.row,
        chunk: own.chunk,
        head: own.head * comptime!(form.per()),
        tile: own.tile,
    }
}

/// Returns the index of a chunk among those of all rows.
#[cube]
pub fn number_of(place: &Place, extent: &Extent) -> u32 {
    place.row * extent.chunks + place.chunk
}

/// Returns the index of a chunk's first position among those of all rows.
#[cube]
pub fn line_of(place: &Place, extent: &Extent) -> u32 {
    place.row * extent.seq + place.chunk * SIDE
}

/// Returns how many positions of a chunk, always the first ones, are before the row's end.
#[cube]
pub fn taken_of(codes: &[i32], place: &Place, extent: &Extent, #[comptime] form: Form) -> u32 {
    let mut taken = 0u32;
    for i in 0..SIDE {
        let position = place.chunk * SIDE + i;
        let step = step_of(codes, position, place.row, extent.seq, form.coded);
        taken += select(is_taken(step), 1u32, 0u32);
    }
    taken
}

/// Returns a square of a head's channels at a chunk's positions, in a tensor of `width` elements per position.
#[cube]
pub fn channels_at(
    place: &Place,
    taken: u32,
    extent: &Extent,
    #[comptime] width: u32,
    #[comptime] form: Form,
) -> Part {
    let of_head = place.head * form.d_head + place.tile * SIDE;
    Part {
        first: line_of(place, extent) * width + of_head,
        distance: width.runtime(),
        rows: taken,
        columns: min(form.d_head - place.tile * SIDE, SIDE),
    }
}

/// Returns a square of b, or with `part` 1 of c, of a group at a chunk's positions.
#[cube]
pub fn directions_at(
    place: &Place,
    taken: u32,
    slice: u32,
    extent: &Extent,
    #[comptime] part: u32,
    #[comptime] form: Form,
) -> Part {
    let group = place.head / comptime!(form.per());
    let first = comptime!(form.channels() + part * form.groups * form.n);
    let within = first + group * form.n + slice * SIDE;
    Part {
        first: line_of(place, extent) * comptime!(form.mixed()) + within,
        distance: comptime!(form.mixed()).runtime(),
        rows: taken,
        columns: min(form.n - slice * SIDE, SIDE),
    }
}

/// Returns a square of a head's state before a chunk in `[batch, chunks, n, channels]`.
#[cube]
pub fn states_at(place: &Place, slice: u32, extent: &Extent, #[comptime] form: Form) -> Part {
    state_at(number_of(place, extent), place, slice, form)
}

/// Returns a square of a head's state in matrix `number` of a sequence of matrices `[n, channels]`.
#[cube]
pub fn state_at(number: u32, place: &Place, slice: u32, #[comptime] form: Form) -> Part {
    let line = number * form.n + slice * SIDE;
    let of_head = place.head * form.d_head + place.tile * SIDE;
    Part {
        first: line * comptime!(form.channels()) + of_head,
        distance: comptime!(form.channels()).runtime(),
        rows: min(form.n - slice * SIDE, SIDE),
        columns: min(form.d_head - place.tile * SIDE, SIDE),
    }
}

/// Returns square `own` of a chunk in a tensor with `each` squares per chunk.
#[cube]
pub fn pairs_at(place: &Place, own: u32, extent: &Extent, #[comptime] each: u32) -> Part {
    let number = number_of(place, extent) * each + own;
    Part {
        first: number * comptime!(SIDE * SIDE),
        distance: SIDE.runtime(),
        rows: SIDE.runtime(),
        columns: SIDE.runtime(),
    }
}

/// Clamps a step to its limits. NaN stays NaN.
#[cube]
fn limited(free: f32, extent: &Extent) -> f32 {
    let above = select(free < extent.least, extent.least, free);
    select(above > extent.most, extent.most, above)
}

/// Returns whether a step is within its limits, so that a gradient passes.
#[cube]
pub fn is_free(raw: f32, extent: &Extent) -> bool {
    let free = softplus(raw);
    free >= extent.least && free <= extent.most
}

/// Loads the steps of a chunk's positions and the logarithms of their decays into shared memory: zeros past the row's
/// end.
#[cube]
pub fn bring_steps(
    steps: &mut Shared<[f32]>,
    logarithms: &mut Shared<[f32]>,
    raw: &[f32],
    decay: &[f32],
    codes: &[i32],
    place: &Place,
    extent: &Extent,
    #[comptime] form: Form,
) {
    if UNIT_POS < SIDE {
        let position = place.chunk * SIDE + UNIT_POS;
        let code = step_of(codes, position, place.row, extent.seq, form.coded);
        let mut step = 0.0f32;
        let mut logarithm = 0.0f32;
        if is_taken(code) {
            let line = place.row * extent.seq + position;
            let of_head = (line * form.heads + place.head) as usize;
            let mut decays = decay[place.head as usize];
            if comptime!(form.is_given()) {
                step = raw[of_head];
                decays = decay[of_head];
            } else {
                step = limited(softplus(raw[of_head]), extent);
                decays *= step;
            }
            logarithm = select(begins(code), f32::new(BEGUN), decays);
        }
        steps[UNIT_POS as usize] = step;
        logarithms[UNIT_POS as usize] = logarithm;
    }
}

/// Returns the fraction of the state before the chunk that remains at its position `t`.
#[cube]
pub fn since(logarithms: &Shared<[f32]>, t: u32) -> f32 {
    let mut sum = 0.0f32;
    for i in 0..t + 1 {
        sum += logarithms[i as usize];
    }
    sum.exp()
}

/// Returns the fraction of what position `s` writes that remains at the chunk's end.
#[cube]
pub fn left_of(logarithms: &Shared<[f32]>, s: u32) -> f32 {
    let mut sum = 0.0f32;
    for i in s + 1..SIDE {
        sum += logarithms[i as usize];
    }
    sum.exp()
}

/// Stores in shared memory the fraction of what position s (the column) wrote that remains at position t (the row).
/// It is zero for later s, and if `strictly` also for s = t.
#[cube]
pub fn bring_decays(
    to: &mut Shared<[f32]>,
    logarithms: &Shared<[f32]>,
    #[comptime] strictly: bool,
) {
    let rows = comptime!(SIDE * SIDE / UNITS as u32);
    let s = UNIT_POS % SIDE;
    let first = UNIT_POS / SIDE * rows;
    let mut sum = 0.0f32;
    for t in s + 1..first {
        sum += logarithms[t as usize];
    }
    for i in 0..rows {
        let t = first + i;
        sum += select(t > s, logarithms[t as usize], 0.0f32);
        let mut is_seen = t >= s;
        if comptime!(strictly) {
            is_seen = t > s;
        }
        to[at(t, s)] = select(is_seen, sum.exp(), 0.0f32);
    }
}
