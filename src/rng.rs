//! Counter-based random numbers: every draw is a function of (seed, purpose, coordinates).
//!
//! Philox 4×32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
//! section 5.3). There is no state to save: a run that resumes at step n draws what it would have drawn,
//! independent of the number of workers, prefetching and micro-batches.

/// The purpose of a draw. Two purposes never share a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Initial weights: (matrix of a part, part, 0).
    Init = 1,
    /// Order of the items of an epoch: (epoch, 0, 0).
    Order = 2,
    /// Start of a random window: (sample, 0, 0); choice of a corpus in a mixture for the window: (sample, 1, 0).
    Window = 3,
    /// Dropout: (step, row of the batch, part of the network).
    Dropout = 4,
    /// Drop path: (step, row of the batch, part of the network).
    DropPath = 5,
    /// Built-in generated data: (sample, split, 0).
    Synthetic = 6,
    /// Token sampling in generation: (token, row, 0).
    Sampling = 7,
    /// Splitting data by fraction, and tests.
    Split = 8,
    /// Masking for masked language models: (sample, draw, split), or (sample, copy, 8 + split) for static masks.
    Masking = 9,
    /// Augmentation of images: (draw, n, 0), where n is 0 for the image, 1 for the one it is mixed with and 2 for the mixing; of
    /// their views: (draw, view, 1).
    Augment = 10,
    /// Samples drawn by a task inside a step: (step, row of the batch, part of the network).
    Sampled = 11,
    /// Corruption of texts into source-target pairs: (sample, draw, split).
    Corrupting = 12,
    /// Random features of attention: (number of the draw, part of the network, 0).
    Features = 17,
    /// Values of the arms of a random search: (draw, name of the key, 0).
    Ablation = 15,
    /// Pairs of segments: (sample, draw, split); chunking of documents: (document, 2⁶⁴ − 1, split).
    Pairing = 14,
    /// Random blocks of block-sparse attention, a fixed structure: (layer, head, block of queries).
    Blocks = 16,
    /// Rotations for hashing: (step, 0, part of the network).
    Hashing = 18,
    /// Perturbation of patch coordinates in training: (step, 0, part of the network).
    Coordinates = 19,
    /// Bootstrap resamples of statistics: (0, 0, 0).
    Resampling = 20,
}

/// Computes one block of Philox 4×32-10: four words from a counter and a key.
#[inline]
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    const M0: u64 = 0xD251_1F53;
    const M1: u64 = 0xCD9E_8D57;
    const W0: u32 = 0x9E37_79B9;
    const W1: u32 = 0xBB67_AE85;
    let (mut c, mut k) = (counter, key);
    for _ in 0..10 {
        let (p0, p1) = (M0 * u64::from(c[0]), M1 * u64::from(c[2]));
        c = [
            (p1 >> 32) as u32 ^ c[1] ^ k[0],
            p1 as u32,
            (p0 >> 32) as u32 ^ c[3] ^ k[1],
            p0 as u32,
        ];
        k = [k[0].wrapping_add(W0), k[1].wrapping_add(W1)];
    }
    c
}

/// Mixes 64 bits (SplitMix64's finalizer), to fold seed and purpose, or wide coordinates, into a key.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The coordinate of a part of a network: its path of names, folded from the outermost part (0) inwards, name by name.
pub fn part_coordinate(outer: u64, name: &str) -> u64 {
    // Including the length distinguishes "a", "bc" from "ab", "c".
    let start = mix(outer ^ name.len() as u64);
    name.bytes()
        .fold(start, |hash, byte| mix(hash ^ u64::from(byte)))
}

/// The stream of random numbers at one coordinate.
#[derive(Clone, Debug)]
pub struct Stream {
    key: [u32; 2],
    at: [u32; 2],
    block: u64,
    words: [u32; 4],
    used: usize,
}

impl Stream {
    /// Creates the stream for `purpose` at the coordinates `(a, b, c)`.
    pub fn new(seed: u64, purpose: Purpose, (a, b, c): (u64, u64, u64)) -> Self {
        let key = mix(mix(mix(seed) ^ purpose as u64) ^ a);
        let at = mix(mix(b) ^ c.rotate_left(32));
        Self {
            key: [key as u32, (key >> 32) as u32],
            at: [at as u32, (at >> 32) as u32],
            block: 0,
            words: [0; 4],
            used: 4,
        }
    }

    /// Returns block `index` of the stream, four words, without advancing the stream. Parallel fills use it.
    #[inline]
    pub fn block(&self, index: u64) -> [u32; 4] {
        philox(
            [index as u32, (index >> 32) as u32, self.at[0], self.at[1]],
            self.key,
        )
    }

    /// Returns the arguments of Philox in [`Self::block`]: the key and the upper half of the counter. For fills that run
    /// the rounds in registers.
    #[inline]
    pub fn key_and_counter(&self) -> ([u32; 2], [u32; 2]) {
        (self.key, self.at)
    }

    /// Returns the next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.words = self.block(self.block);
            self.block += 1;
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// Returns a uniform number in [0, 1) with 24 bits.
    #[inline]
    pub fn uniform(&mut self) -> f32 {
        unit(self.next_u32())
    }

    /// Returns a uniform integer in [0, n); `n` must not be 0. The bias is below 2⁻⁶⁴·n (Lemire's product).
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "an empty range has no element");
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a standard normal number (Box and Muller).
    pub fn normal(&mut self) -> f32 {
        let u = (f64::from(self.next_u32()) + 1.0) / (f64::from(u32::MAX) + 2.0);
        let v = f64::from(self.next_u32()) / (f64::from(u32::MAX) + 1.0);
        ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Converts 32 random bits to a uniform number in [0, 1).
#[inline]
pub fn unit(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// A random permutation of `0..len` that is computed one element at a time, without a table: a balanced
/// Feistel network over the next power of four, repeated until the result is below `len`. Seeking is O(1).
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u32; 4],
}

impl Permutation {
    /// Creates the permutation of the items of `epoch`.
    pub fn new(seed: u64, epoch: u64, len: u64) -> Self {
        let mut stream = Stream::new(seed, Purpose::Order, (epoch, 0, 0));
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        Self {
            len,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| stream.next_u32()),
        }
    }

    /// Returns the position of element `i`; `i` must be below the length.
    pub fn at(&self, i: u64) -> u64 {
        assert!(i < self.len, "index {i} of a permutation of {}", self.len);
        let mut x = i;
        loop {
            x = self.rounds(x);
            if x < self.len {
                return x;
            }
        }
    }

    fn rounds(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (x >> self.half_bits, x & mask);
        for key in self.keys {
            let f = mix(right ^ (u64::from(key) << 32)) & mask;
            (left, right) = (right, left ^ f);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the reference implementation (Random123, kat_vectors).
    #[test]
    fn philox_known_answers() {
        assert_eq!(
            philox([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn permutations_are_permutations_and_differ() {
        for len in [1u64, 2, 3, 5, 16, 17, 1000] {
            let p = Permutation::new(7, 0, len);
            let mut seen: Vec<u64> = (0..len).map(|i| p.at(i)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..len).collect::<Vec<_>>());
        }
        let order = |seed, epoch| {
            let p = Permutation::new(seed, epoch, 1000);
            (0..1000).map(|i| p.at(i)).collect::<Vec<_>>()
        };
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }

    #[test]
    fn moments() {
        let mut s = Stream::new(1, Purpose::Split, (0, 0, 0));
        let n = 100_000;
        let (mut sum, mut sq) = (0.0f64, 0.0f64);
        for _ in 0..n {
            let x = f64::from(s.normal());
            sum += x;
            sq += x * x;
        }
        assert!((sum / f64::from(n)).abs() < 0.02);
        assert!((sq / f64::from(n) - 1.0).abs() < 0.02);
        let mean: f32 = (0..n).map(|_| s.uniform()).sum::<f32>() / n as f32;
        assert!((mean - 0.5).abs() < 0.01);
    }
}
