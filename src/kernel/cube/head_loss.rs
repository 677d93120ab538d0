//! The LM head's loss in chunks of rows. The logits of a chunk are computed, scored and, in training, multiplied into
//! the gradients before the next chunk. They take at most a 64th of the memory, or 256 MiB if that is more.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Slice;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::columns;
use super::cross_entropy::{Rows, Slopes, add_up};
use super::embedding::integers;
use super::launch::{empty, operand, product};
use crate::kernel::extension::{HeadLossSaved, Maybe};
use crate::kernel::rounds_operands;

/// Number of logits held if a device does not report its memory, and lower bound if it does: 256 MiB.
const MIN_LOGITS: usize = 1 << 26;

/// Upper bound of the number of logits held: 2 GiB.
const MAX_LOGITS: usize = 1 << 29;

/// The logits may take this fraction (1/64) of a device's memory.
const MEMORY_FRACTION: u64 = 64;

/// Chunks are multiples of this many rows, to suit the products.
const ROW_MULTIPLE: usize = 128;

/// The inputs of a head's loss.
pub struct Problem {
    /// Hidden states, `[N, d]`.
    pub hidden: CubeTensor,
    /// Weight of the head, `[V, d]`.
    pub weight: CubeTensor,
    /// Bias of the head, `[V]`.
    pub bias: Maybe<CubeBackend>,
    /// Targets, `[N]`.
    pub targets: CubeTensor,
    /// Label smoothing.
    pub smoothing: f64,
}

impl Problem {
    /// Returns the number of rows of a chunk.
    fn chunk(&self) -> usize {
        let vocab = self.weight.shape()[0].max(1);
        let memory = self.hidden.client.properties().memory.max_memory();
        let scores = memory.map_or(MIN_LOGITS, |bytes| (bytes / MEMORY_FRACTION / 4) as usize);
        let scores = scores.clamp(MIN_LOGITS, MAX_LOGITS);
        (scores / vocab / ROW_MULTIPLE * ROW_MULTIPLE).max(ROW_MULTIPLE)
    }

    /// Returns what the logits become. Gradients are rounded as they are computed, unless a bias has to sum them
    /// unrounded first.
    fn slopes(&self, gradient: bool) -> Slopes {
        let biased = matches!(self.bias, Maybe::Some(_));
        match gradient {
            true if rounds_operands() && !biased => Slopes::Rounded,
            true => Slopes::InPlace,
            false => Slopes::No,
        }
    }

    /// Returns hidden states and head weight as operands of products.
    fn operands(&self) -> [CubeTensor; 2] {
        [&self.hidden, &self.weight].map(|x| operand(x.clone()))
    }

    /// Calls `each` with the hidden states of every chunk and its logits, or their gradients with `gradient`. Returns
    /// the sum of the losses and the flags.
    fn in_chunks(
        &self,
        [hidden, weight]: &[CubeTensor; 2],
        chunk: usize,
        gradient: bool,
        mut each: impl FnMut(CubeTensor, CubeTensor),
    ) -> CubeTensor {
        let positions = self.hidden.shape()[0];
        let targets = integers(self.targets.clone());
        let losses = empty(&self.hidden, [positions]);
        let out = empty(&self.hidden, [1 + positions]);
        let rows = Rows {
            bias: self.bias.clone(),
            targets: &targets,
            losses: &losses,
            hits: Some(&out),
            smoothing: self.smoothing,
            slopes: self.slopes(gradient),
        };
        let weight = CubeBackend::float_swap_dims(weight.clone(), 0, 1);
        for first in (0..positions).step_by(chunk) {
            let hidden = rows_in(hidden, first..(first + chunk).min(positions));
            let scores = product(hidden.clone(), weight.clone());
            let scores = rows.score(scores, first);
            each(hidden, scores);
        }
        add_up(&losses, &out);
        out
    }

    /// Returns the sum of the losses, followed by the flags.
    pub fn forward(&self) -> CubeTensor {
        self.in_chunks(&self.operands(), self.chunk(), false, |_, _| ())
    }

    /// Returns the same with all gradients.
    pub fn saving(&self) -> HeadLossSaved<CubeBackend> {
        self.saving_in(self.chunk())
    }

    fn saving_in(&self, chunk: usize) -> HeadLossSaved<CubeBackend> {
        let mut hidden = Vec::new();
        let mut weight: Option<CubeTensor> = None;
        let mut bias: Option<CubeTensor> = None;
        let with_bias = matches!(self.bias, Maybe::Some(_));
        let operands = self.operands();
        let out = self.in_chunks(&operands, chunk, true, |rows, slopes| {
            let slopes = match with_bias {
                true => {
                    let [slopes, sum] = columns::summed_operand(slopes);
                    add(&mut bias, sum);
                    slopes
                }
                false => operand(slopes),
            };
            let transposed = CubeBackend::float_swap_dims(slopes.clone(), 0, 1);
            add(&mut weight, product(transposed, rows));
            hidden.push(product(slopes, operands[1].clone()));
        });
        let nothing = |of: &CubeTensor| CubeBackend::float_mul_scalar(of.clone(), 0.0f32.into());
        HeadLossSaved {
            out,
            hidden: match hidden.len() {
                0 => self.hidden.clone(),
                1 => hidden.remove(0),
                _ => CubeBackend::float_cat(hidden, 0),
            },
            weight: weight.unwrap_or_else(|| nothing(&self.weight)),
            bias,
        }
    }
}

/// Returns a range of rows of a matrix.
fn rows_in(x: &CubeTensor, range: std::ops::Range<usize>) -> CubeTensor {
    let [rows, width] = x.shape().dims();
    if range == (0..rows) {
        return x.clone();
    }
    let slices = [Slice::from(range), Slice::from(0..width)];
    CubeBackend::float_slice(x.clone(), &slices)
}

/// Adds to a sum that may still be empty.
fn add(sum: &mut Option<CubeTensor>, x: CubeTensor) {
    *sum = Some(match sum.take() {
        Some(sum) => CubeBackend::float_add(sum, x),
        None => x,
    });
}

#[cfg(test)]
mod tests {
    use burn::backend::ops::IntTensorOps;
    use burn::tensor::TensorData;
    use burn_cubecl::CubeDevice;
    use burn_cubecl::ops::into_data_sync;

    use super::*;
    use crate::rng::{Purpose, Stream};

    fn random(dims: [usize; 2], seed: u64) -> CubeTensor {
        let mut stream = Stream::new(seed, Purpose::Split, (0, 0, 0));
        let values: Vec<f32> = (0..dims[0] * dims[1]).map(|_| stream.normal()).collect();
        CubeBackend::float_from_data(TensorData::new(values, dims), &CubeDevice::default())
    }

    /// One chunk and three: the flags are equal; sums and gradients differ at most by the order of additions.
    #[test]
    fn chunks_change_nothing() {
        let [positions, width, vocab] = [300, 8, 13];
        let targets: Vec<i32> = (0..positions as i32).map(|i| i * i % 13).collect();
        let targets = TensorData::new(targets, [positions]);
        let problem = Problem {
            hidden: random([positions, width], 1),
            weight: random([vocab, width], 2),
            bias: Maybe::Some(CubeBackend::float_reshape(
                random([1, vocab], 3),
                [vocab].into(),
            )),
            targets: CubeBackend::int_from_data(targets, &CubeDevice::default()),
            smoothing: 0.1,
        };
        let [one, three] = [problem.saving_in(384), problem.saving_in(128)].map(|saved| {
            let bias = saved.bias.expect("there is a bias");
            [saved.out, saved.hidden, saved.weight, bias].map(|x| {
                let data = into_data_sync(x);
                data.try_to_vec::<f32>().expect("numbers of 32 bits")
            })
        });
        assert_eq!(one[0][1..], three[0][1..], "flags");
        for (one, three) in one.iter().zip(&three) {
            let size = one.iter().fold(0.5f32, |m, x| m.max(x.abs()));
            let far = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-5 * size;
            assert_eq!(one.len(), three.len());
            assert!(!one.iter().zip(three).any(far));
        }
    }
}
