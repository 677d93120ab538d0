//! Lanes: rows that continue from step to step, for networks that carry their state.
//!
//! Row b reads the b-th share of the examples in order, one example per step, and starts again from the
//! beginning of its share after the last one (as in Dai et al. 2019, and Mikolov et al. 2010 with one lane).
//! Shares differ by at most one example, so that every example is read.

use super::order::SampleRef;

/// Returns the examples that step `step` takes from `len` examples in `count` lanes; `count` must not exceed
/// `len`.
pub(super) fn step(len: u64, count: u64, step: u64) -> Vec<SampleRef> {
    let each = (0..count).map(|lane| {
        let (from, to) = (lane * len / count, (lane + 1) * len / count);
        let at = step % (to - from);
        SampleRef {
            sample: from + at,
            draw: step * count + lane,
            begins_text: Some(at == 0),
        }
    });
    each.collect()
}

/// Returns the example of each lane in batch `number` of one pass over `len` examples. Lanes with one example
/// more come first, so that the last batch holds only the first lanes.
pub(super) fn pass_batch(len: u64, count: u64, number: u64) -> Vec<SampleRef> {
    let count = count.clamp(1, len.max(1));
    let (share, longer) = (len / count, len % count);
    let reading = (0..count).take_while(|lane| number < share + u64::from(*lane < longer));
    reading
        .map(|lane| {
            let sample = lane * share + lane.min(longer) + number;
            SampleRef {
                sample,
                draw: sample,
                begins_text: Some(number == 0),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_read_their_shares_in_order_and_begin_them_anew() {
        let samples = |step| -> Vec<(u64, bool)> {
            let taken = super::step(11, 3, step).into_iter();
            taken.map(|t| (t.sample, t.begins_text.unwrap())).collect()
        };
        assert_eq!(samples(0), [(0, true), (3, true), (7, true)]);
        assert_eq!(samples(2), [(2, false), (5, false), (9, false)]);
        assert_eq!(samples(3), [(0, true), (6, false), (10, false)]);
        assert_eq!(samples(4), [(1, false), (3, true), (7, true)]);
        let draws: Vec<u64> = super::step(11, 3, 4).iter().map(|t| t.draw).collect();
        assert_eq!(draws, [12, 13, 14]);
    }

    #[test]
    fn one_pass_in_lanes_reads_every_example_once() {
        for len in [1, 5, 11, 12] {
            for count in [1, 3, 4, 20] {
                let mut seen = Vec::new();
                let mut rows = usize::MAX;
                for number in 0.. {
                    let batch = pass_batch(len, count, number);
                    if batch.is_empty() {
                        break;
                    }
                    assert!(
                        batch.len() <= rows
                            && batch.iter().all(|t| t.begins_text == Some(number == 0))
                    );
                    rows = batch.len();
                    seen.push(batch);
                }
                // Row b continues where row b ended.
                for pair in seen.windows(2) {
                    let rows = pair[0].iter().zip(&pair[1]);
                    assert!(rows.clone().all(|(a, b)| a.sample + 1 == b.sample));
                }
                let mut samples: Vec<u64> = seen.iter().flatten().map(|t| t.sample).collect();
                samples.sort_unstable();
                assert_eq!(samples, (0..len).collect::<Vec<u64>>(), "{len} in {count}");
            }
        }
    }
}
