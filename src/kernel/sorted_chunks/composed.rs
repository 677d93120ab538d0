//! Sorted chunks from plain tensor operations: gathered, divided into chunks, weighted round by round, put back in
//! order and summed by the rounds' log-sum-exps. They serve devices without kernels and are the reference for the
//! kernel.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData, activation};

use super::{ChunkSizes, SELF_SCORE, SortedSettings};
use crate::kernel::composed::{drop_elements, to_f32};

/// Attention in sorted chunks.
pub fn sorted_chunks(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    settings: &SortedSettings,
) -> Tensor<4> {
    let sizes = settings.plan.sizes();
    let ChunkSizes {
        rows,
        heads,
        tokens,
        rounds,
        chunk,
        ..
    } = sizes;
    let (padded, chunks, window) = (sizes.padded(), sizes.chunks(), sizes.window());
    let ([.., queries, d_head], device) = (q.dims(), q.device());
    let order = PlanTensors::new(settings, &device);
    let q = match tokens - queries {
        0 => q,
        before => {
            let zeros = Tensor::zeros([rows, heads, before, d_head], (&device, q.dtype()));
            Tensor::cat(vec![zeros, q], 2)
        }
    };
    let sorted = |x: Tensor<4>| {
        let x = match padded - tokens {
            0 => x,
            more => {
                let dtype = x.dtype();
                let zeros = Tensor::zeros([rows, heads, more, d_head], (&device, dtype));
                Tensor::cat(vec![x, zeros], 2)
            }
        };
        let x = x.gather(2, expand_indices(order.places.clone(), d_head));
        x.reshape([rows, heads, chunks, chunk, d_head])
    };
    let (q, k, v) = (
        sorted(q),
        concat_window(sorted(k), sizes),
        concat_window(sorted(v), sizes),
    );
    // In single precision: half precision cannot represent the fill values, and sums of exponentials need the digits.
    let (scores, dtype) = (to_f32(q.matmul(k.transpose())) * settings.scale, v.dtype());
    let scores = scores.mask_fill(order.hidden, -1e9);
    let scores = scores.mask_fill(order.own, SELF_SCORE);
    let largest = scores.clone().detach().max_dim(4);
    let sums = (scores.clone() - largest.clone()).exp().sum_dim(4);
    let weights = activation::softmax(scores, 4).cast(dtype);
    let weights = match settings.dropout {
        Some(key) => {
            let flat = weights.reshape([rows, heads, chunks * chunk, window]);
            let dropped = drop_elements(flat, key);
            dropped.reshape([rows, heads, chunks, chunk, window])
        }
        None => weights,
    };
    let y = weights
        .matmul(v)
        .reshape([rows, heads, rounds * padded, d_head]);
    let back = |x: Tensor<4>| {
        let [.., width] = x.dims();
        let x = x.gather(2, expand_indices(order.back.clone(), width));
        x.reshape([rows, heads, rounds, padded, width])
    };
    // Per round, the sum of its exponentials: the log-sum-exp would lose digits for a query that is alone.
    let of_rounds = |x: Tensor<5>| back(x.reshape([rows, heads, rounds * padded, 1]));
    let largest = of_rounds(largest);
    let sums = of_rounds(sums) * (largest.clone() - largest.max_dim(2)).exp();
    let shares = sums.clone() / sums.sum_dim(2);
    let y = (to_f32(back(y)) * shares).sum_dim(2).cast(dtype);
    let y = y.reshape([rows, heads, padded, d_head]);
    y.narrow(2, settings.first, settings.wanted_queries().len())
}

/// Repeats each index for all of `width` elements.
fn expand_indices(places: Tensor<3, Int>, width: usize) -> Tensor<4, Int> {
    let [rows, heads, len] = places.dims();
    let places: Tensor<4, Int> = places.reshape([rows, heads, len, 1]);
    places.expand([rows, heads, len, width])
}

/// Concatenates the chunks of each chunk's window: those before it, itself, those after it.
fn concat_window(x: Tensor<5>, sizes: ChunkSizes) -> Tensor<5> {
    let chunks = x.dims()[2];
    let around = -(sizes.back as isize)..=sizes.ahead as isize;
    let turned = around.map(|distance| {
        let first = distance.rem_euclid(chunks as isize) as usize;
        if first == 0 {
            return x.clone();
        }
        let tail = x.clone().narrow(2, first, chunks - first);
        Tensor::cat(vec![tail, x.clone().narrow(2, 0, first)], 2)
    });
    Tensor::cat(turned.collect(), 3)
}

/// The plan as tensors.
struct PlanTensors {
    /// Position at each place, `[B, H, rounds·padded]`.
    places: Tensor<3, Int>,
    /// Place of each position in each round.
    back: Tensor<3, Int>,
    /// Whether a query does not see a key, `[B, H, chunks, chunk, window]`.
    hidden: Tensor<5, Bool>,
    /// Whether a key is the query itself.
    own: Tensor<5, Bool>,
}

impl PlanTensors {
    fn new(settings: &SortedSettings, device: &Device) -> Self {
        let (plan, sizes) = (&settings.plan, settings.plan.sizes());
        let (padded, chunks, window) = (sizes.padded(), sizes.chunks(), sizes.window());
        let len = sizes.rounds * padded;
        let all = sizes.rows * sizes.heads * len;
        let (mut places, mut back) = (Vec::with_capacity(all), vec![0i32; all]);
        let mut hidden = Vec::with_capacity(all * window);
        let mut own = Vec::with_capacity(all * window);
        for (part, back) in back.chunks_exact_mut(len.max(1)).enumerate() {
            let (row, head) = (part / sizes.heads, part % sizes.heads);
            let order = plan.order(row, head);
            places.extend(order.iter().map(|position| *position as i32));
            for (place, position) in order.iter().enumerate() {
                back[place / padded * padded + *position as usize] = place as i32;
            }
            let documents = settings.documents(row);
            for (place, query) in order.iter().enumerate() {
                let query = *query as usize;
                let limit = settings.limit(row, query);
                let around = -(sizes.back as isize)..=sizes.ahead as isize;
                for distance in around {
                    let chunk = plan.neighbour(place / sizes.chunk, distance);
                    for key in &order[chunk * sizes.chunk..][..sizes.chunk] {
                        let key = *key as usize;
                        let other = |numbers: &[i32]| {
                            query < numbers.len() && numbers[key] != numbers[query]
                        };
                        hidden.push(key >= limit || documents.is_some_and(other));
                        own.push(key == query);
                    }
                }
            }
        }
        let [rows, heads] = [sizes.rows, sizes.heads];
        let ints = |x: Vec<i32>| Tensor::from_data(TensorData::new(x, [rows, heads, len]), device);
        let pairs = |x: Vec<bool>| {
            let dims = [rows, heads, chunks, sizes.chunk, window];
            Tensor::from_data(TensorData::new(x, dims), device)
        };
        Self {
            places: ints(places),
            back: ints(back),
            hidden: pairs(hidden),
            own: pairs(own),
        }
    }
}
