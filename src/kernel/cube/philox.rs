//! The random bits of [`crate::rng`] on the device: Philox 4×32-10, and the 64-bit mix that produces a row's counter,
//! as pairs of 32-bit words, since WebGPU shaders have no 64-bit integers.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::step_inputs;
use crate::kernel::DropKey;
use crate::rng::Purpose;

/// The four random words of a block.
#[derive(CubeType, Clone, Copy)]
pub struct Words {
    first: u32,
    second: u32,
    third: u32,
    fourth: u32,
}

/// A 64-bit number.
#[derive(CubeType, Clone, Copy)]
pub struct Wide {
    low: u32,
    high: u32,
}

/// A dropout's parameters as kernel arguments.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Drop {
    key_low: u32,
    key_high: u32,
    row_low: u32,
    row_high: u32,
    site_low: u32,
    site_high: u32,
    threshold: u32,
    /// Factor of kept elements.
    pub kept: f32,
    /// Offset of its key in the table of a replayed step.
    key_at: u32,
}

/// Returns the kernel arguments of a dropout, and the table with its key if the step is replayed.
pub fn drop_args(key: &DropKey, purpose: Purpose) -> (DropLaunch, Option<CubeTensor>) {
    let words = step_inputs::key_words(key.seed, purpose, key.step);
    let (row, site) = (key.first_row, key.site.rotate_left(32));
    let (table, key_at) = step_inputs::key_at(key.seed, purpose, key.step).unzip();
    let args = DropLaunch::new(
        words[0],
        words[1],
        row as u32,
        (row >> 32) as u32,
        site as u32,
        (site >> 32) as u32,
        key.threshold(),
        key.keep_scale(),
        key_at.unwrap_or(0),
    );
    (args, table)
}

/// Returns kernel arguments that drop nothing.
pub fn no_drop() -> DropLaunch {
    DropLaunch::new(0, 0, 0, 0, 0, 0, 0, 1.0, 0)
}

/// Returns the dropout with the key of the present step, read from the table if replayed.
#[cube]
pub fn keyed(drop: &Drop, table: &[u32], #[comptime] replayed: bool) -> Drop {
    let mut low = drop.key_low;
    let mut high = drop.key_high;
    if comptime!(replayed) {
        low = table[drop.key_at as usize];
        high = table[(drop.key_at + 1) as usize];
    }
    Drop {
        key_low: low,
        key_high: high,
        row_low: drop.row_low,
        row_high: drop.row_high,
        site_low: drop.site_low,
        site_high: drop.site_high,
        threshold: drop.threshold,
        kept: drop.kept,
        key_at: drop.key_at,
    }
}

#[cube]
fn plus(x: Wide, low: u32, high: u32) -> Wide {
    let sum = x.low + low;
    let carry = select(sum < low, 1u32, 0u32);
    Wide {
        low: sum,
        high: x.high + high + carry,
    }
}

#[cube]
fn times(x: Wide, low: u32, high: u32) -> Wide {
    Wide {
        low: x.low * low,
        high: x.low.mul_hi(low) + x.low * high + x.high * low,
    }
}

#[cube]
fn folded(x: Wide, #[comptime] by: u32) -> Wide {
    let rest = comptime!(32 - by);
    Wide {
        low: x.low ^ ((x.low >> by) | (x.high << rest)),
        high: x.high ^ (x.high >> by),
    }
}

/// [`crate::rng::mix`] on the device.
#[cube]
fn mix(x: Wide) -> Wide {
    let z = plus(x, 0x7F4A_7C15u32, 0x9E37_79B9u32);
    let z = times(folded(z, 30u32), 0x1CE4_E5B9u32, 0xBF58_476Du32);
    let z = times(folded(z, 27u32), 0x1331_11EBu32, 0x94D0_49BBu32);
    folded(z, 31u32)
}

/// Returns the upper half of the counters of a tensor's row, as [`Stream::new`] computes it.
#[cube]
pub fn counter_of(drop: &Drop, row: u32) -> Wide {
    let first = Wide {
        low: drop.row_low,
        high: drop.row_high,
    };
    let row = mix(plus(first, row, 0u32));
    mix(Wide {
        low: row.low ^ drop.site_low,
        high: row.high ^ drop.site_high,
    })
}

/// Returns block `index` of a row's stream, as [`crate::rng::philox`] does.
#[cube]
pub fn block_of(drop: &Drop, counter: &Wide, index: u32) -> Words {
    let mut c0 = index;
    let mut c1 = 0u32;
    let mut c2 = counter.low;
    let mut c3 = counter.high;
    let mut k0 = drop.key_low;
    let mut k1 = drop.key_high;
    #[unroll]
    for _ in 0..10u32 {
        let high_0 = c0.mul_hi(0xD251_1F53u32);
        let low_0 = c0 * 0xD251_1F53u32;
        let high_1 = c2.mul_hi(0xCD9E_8D57u32);
        let low_1 = c2 * 0xCD9E_8D57u32;
        c0 = high_1 ^ c1 ^ k0;
        c1 = low_1;
        c2 = high_0 ^ c3 ^ k1;
        c3 = low_0;
        k0 += 0x9E37_79B9u32;
        k1 += 0xBB67_AE85u32;
    }
    Words {
        first: c0,
        second: c1,
        third: c2,
        fourth: c3,
    }
}

/// Returns the factor of the element that uses word `number` of its block.
#[cube]
pub fn factor_of(drop: &Drop, words: &Words, #[comptime] number: u32) -> f32 {
    let word = if comptime!(number == 0) {
        words.first
    } else if comptime!(number == 1) {
        words.second
    } else if comptime!(number == 2) {
        words.third
    } else {
        words.fourth
    };
    select(word < drop.threshold, 0.0f32, drop.kept)
}
