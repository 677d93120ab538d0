//! The cost of a training step on several ranks: bytes exchanged, memory per rank, expected efficiency.
//!
//! Gradients of `G` bytes are exchanged as an all-reduce in two halves: each rank sends every other one the chunk that the other
//! adds (all-to-all), then its own sum (all-gather), so `2 (N - 1) / N · G` bytes leave each rank and as many arrive
//! (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms": no all-reduce sends less). They are exchanged in buckets,
//! each with `2 (N - 1)` messages per rank. With a sharded optimizer (Rajbhandari et al. 2020, ZeRO, section 5.1), each rank also
//! sends the weights that it has updated: half as many bytes again. It keeps `1 / N` of the moments, but at least those of
//! the largest parameter that is updated as a whole, if the optimizer has such parameters.
//!
//! A step on `N` ranks is its share of the work, `T / N`, followed by the exchange,
//! `X = bytes / bandwidth + messages · latency`; efficiency is `T / (N · (T / N + X))`. Adding, evaluations and the wait for the
//! slowest rank are not included.

use super::ModelCost;
use serde::Serialize;

/// Size of a bucket: bytes of gradients that are exchanged at once.
const BUCKET: u64 = 1 << 25;

/// Number of copies of a bucket that an exchange holds: the bytes sent, the chunks of all ranks, the sums.
const COPIES: u64 = 3;

/// The network link between two ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes per second that a rank sends while it receives as many.
    pub bytes_per_s: f64,
    /// Seconds that a message takes in addition to the transfer of its bytes.
    pub latency_s: f64,
}

/// The cost of a run on a number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DistributedCost {
    /// Number of ranks.
    pub ranks: usize,
    /// Bytes that a rank sends in a step; it receives as many.
    pub sent_bytes: u64,
    /// Bytes sent with `train.shard_optimizer`, which sends weights in addition to gradients.
    pub sharded_sent_bytes: u64,
    /// Bytes of memory per rank.
    pub memory_bytes: u64,
    /// Bytes of memory per rank with `train.shard_optimizer`, which divides the optimizer's moments among ranks.
    pub sharded_memory_bytes: u64,
    /// Milliseconds of the exchange; absent without a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange_ms: Option<f64>,
    /// Milliseconds of a step; absent without a link or the step time on one rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_ms: Option<f64>,
    /// Fraction of all ranks' time that is not spent on exchanges; absent without `step_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
}

/// Computes the cost of a run on `ranks` ranks, if a step takes one rank `step_ms` milliseconds.
///
/// `together` is the number of bytes of moments that one rank keeps undivided ([`super::Largest::whole_update_bytes`]).
pub fn distributed_cost(
    cost: &ModelCost,
    together: u64,
    ranks: usize,
    link: Option<Link>,
    step_ms: Option<f64>,
) -> DistributedCost {
    assert!(ranks > 0, "a run has a rank");
    let part = |name: &str| cost.memory_bytes.get(name).copied().unwrap_or(0);
    let (gradients, moments) = (part("gradients"), part("optimizer"));
    let others = ranks as u64 - 1;
    let sent = 2 * u128::from(gradients) * u128::from(others) / ranks as u128;
    let sent_bytes = u64::try_from(sent).unwrap_or(u64::MAX);
    let buffers = match ranks {
        1 => 0,
        _ => COPIES * gradients.min(BUCKET),
    };
    let memory_bytes = cost.memory().saturating_add(buffers);
    let exchange_ms = link.map(|link| {
        let messages = 2.0 * others as f64 * gradients.div_ceil(BUCKET) as f64;
        1e3 * (sent_bytes as f64 / link.bytes_per_s + messages * link.latency_s)
    });
    let times = exchange_ms.zip(step_ms).map(|(exchange, alone)| {
        let step = alone / ranks as f64 + exchange;
        (step, alone / (ranks as f64 * step))
    });
    DistributedCost {
        ranks,
        sent_bytes,
        sharded_sent_bytes: sent_bytes.saturating_add(sent_bytes / 2),
        memory_bytes,
        sharded_memory_bytes: memory_bytes.saturating_sub(moments)
            + moments.div_ceil(ranks as u64).max(together),
        exchange_ms,
        step_ms: times.map(|(step, _)| step),
        efficiency: times.map(|(_, efficiency)| efficiency),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Largest;
    use crate::train::optim::{Moments, UpdatedWhole};
    use std::collections::BTreeMap;

    /// A model of a million float32 parameters under AdamW.
    fn cost() -> ModelCost {
        let memory = [
            ("parameters", 4_000_000),
            ("gradients", 4_000_000),
            ("optimizer", 8_000_000),
            ("activations", 1_000_000),
        ];
        ModelCost {
            params: 1_000_000,
            kept: 1_000_000,
            trained: 1_000_000,
            active: 1_000_000,
            parts: BTreeMap::new(),
            flops_per_item: 6e6,
            item: "token",
            memory_bytes: BTreeMap::from(memory),
            checkpoint_bytes: 12_000_000,
            largest: Largest {
                preconditioners: 0,
                matrices: 100_000,
                others: 400_000,
            },
        }
    }

    #[test]
    fn one_rank_exchanges_nothing() {
        let link = Link {
            bytes_per_s: 1e9,
            latency_s: 1e-3,
        };
        let one = distributed_cost(&cost(), 0, 1, Some(link), Some(100.0));
        assert_eq!((one.sent_bytes, one.exchange_ms), (0, Some(0.0)));
        assert_eq!((one.step_ms, one.efficiency), (Some(100.0), Some(1.0)));
        assert_eq!(one.memory_bytes, 17_000_000);
        assert_eq!(one.sharded_memory_bytes, 17_000_000);
    }

    /// By hand: of 4 MB, a rank of 4 sends three quarters twice, 6 MB: 6 ms at 1 GB/s, and 6 messages of 0.5 ms.
    #[test]
    fn four_ranks_by_hand() {
        let link = Link {
            bytes_per_s: 1e9,
            latency_s: 5e-4,
        };
        let four = distributed_cost(&cost(), 0, 4, Some(link), Some(100.0));
        assert_eq!(four.sent_bytes, 6_000_000);
        assert_eq!(four.sharded_sent_bytes, 9_000_000);
        let exchange = four.exchange_ms.unwrap();
        assert!((exchange - 9.0).abs() < 1e-9, "{exchange}");
        let step = four.step_ms.unwrap();
        assert!((step - 34.0).abs() < 1e-9, "{step}");
        let efficiency = four.efficiency.unwrap();
        assert!((efficiency - 25.0 / 34.0).abs() < 1e-12, "{efficiency}");
        // A bucket of all gradients, three times; and a quarter of 8 MB of moments.
        assert_eq!(four.memory_bytes, 29_000_000);
        assert_eq!(four.sharded_memory_bytes, 23_000_000);
    }

    /// Of 8 MB of moments, one rank keeps 3.2 MB, those of the largest parameter.
    #[test]
    fn a_parameter_that_moves_as_a_whole_bounds_the_share() {
        let moments = Moments {
            matrices: 2,
            others: 2,
        };
        let largest = cost().largest;
        let of = |matrices, others| {
            largest.whole_update_bytes(moments, UpdatedWhole { matrices, others })
        };
        assert_eq!(
            [of(false, false), of(true, false), of(true, true)],
            [0, 800_000, 3_200_000]
        );
        let sharded = |ranks| {
            distributed_cost(&cost(), of(true, true), ranks, None, None).sharded_memory_bytes
        };
        assert_eq!([sharded(2), sharded(4)], [25_000_000, 24_200_000]);
    }

    /// 70 MB of gradients are sent in three buckets of up to 33,554,432 bytes.
    #[test]
    fn buckets_bound_memory_and_count_messages() {
        let mut large = cost();
        large.memory_bytes.insert("gradients", 70_000_000);
        let link = Link {
            bytes_per_s: 1e9,
            latency_s: 1e-3,
        };
        let two = distributed_cost(&large, 0, 2, Some(link), None);
        assert_eq!(two.sent_bytes, 70_000_000);
        let exchange = two.exchange_ms.unwrap();
        assert!((exchange - (70.0 + 3.0 * 2.0)).abs() < 1e-9, "{exchange}");
        assert_eq!(two.memory_bytes, large.memory() + 3 * 33_554_432);
    }

    #[test]
    fn what_is_not_given_is_not_computed() {
        let two = distributed_cost(&cost(), 0, 2, None, Some(100.0));
        assert_eq!(
            (two.exchange_ms, two.step_ms, two.efficiency),
            (None, None, None)
        );
        assert_eq!(two.sent_bytes, 4_000_000);
        let mut vast = cost();
        vast.memory_bytes.insert("gradients", u64::MAX);
        let row = distributed_cost(&vast, 0, 1024, None, None);
        assert_eq!((row.memory_bytes, row.sent_bytes), (u64::MAX, u64::MAX));
    }
}
