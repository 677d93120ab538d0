//! Which keys a query sees, against the rules written out pair by pair.

use burn::tensor::Device;
use formwork::kernel::{Documents, KeyPattern, Pattern, Query, Span, Visibility, Window};
use formwork::rng::{Purpose, Stream};
use std::ops::Range;

/// Draws a random combination of rules for `rows` rows, `heads` heads and a span.
pub fn drawn(stream: &mut Stream, [rows, heads]: [usize; 2], span: Span) -> Visibility {
    let mut below = |n: usize| stream.below(n as u64) as usize;
    let keys = span.keys;
    let each = |below: &mut dyn FnMut(usize) -> usize| (0..rows).map(|_| below(keys + 1)).collect();
    let causal = below(2) == 0;
    let inside = span.offset + span.queries <= keys;
    let documents = (inside && below(3) == 0).then(|| {
        let width = 1 + below(keys);
        let numbers: Vec<i32> = (0..rows * keys)
            .map(|i| ((i % keys + i / keys) / width) as i32)
            .collect();
        Documents::new(&numbers, keys)
    });
    Visibility {
        causal,
        lengths: (below(3) == 0).then(|| each(&mut below)),
        documents,
        prefix: (causal && below(3) == 0).then(|| each(&mut below)),
        window: (below(2) == 0).then(|| Window {
            before: below(keys + 1),
            after: below(20),
            dilation: match below(2) {
                0 => [].into(),
                _ => (0..heads).map(|_| 1 + below(4)).collect(),
            },
        }),
        pattern: bands(rows, span),
        globals: None,
    }
}

/// Draws bands for a third of the spans, from a stream of its own.
fn bands(rows: usize, span: Span) -> Option<Pattern> {
    let sizes = (rows as u64, span.queries as u64, span.keys as u64);
    let mut stream = Stream::new(3, Purpose::Split, sizes);
    let mut below = |n: u64| stream.below(n) as usize;
    (below(3) == 0).then(|| {
        Pattern::new(Bands {
            every: 2 + below(90),
            width: 1 + below(20),
        })
    })
}

/// Bands of keys, shifted in each head by its number, and the query's own key.
#[derive(Debug)]
struct Bands {
    every: usize,
    width: usize,
}

impl KeyPattern for Bands {
    fn keys_of_query(&self, query: Query, keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        let mut next = 0;
        for band in (query.head..keys).step_by(self.every) {
            let end = (band + self.width.min(self.every)).min(keys);
            if (next..band).contains(&query.position) {
                see(query.position..query.position + 1);
            }
            see(band..end);
            next = end;
        }
        if (next..keys).contains(&query.position) {
            see(query.position..query.position + 1);
        }
    }

    fn by_head(&self) -> bool {
        true
    }
}

/// Whether a pattern shows a key, according to the ranges that it gives.
fn shows(pattern: &Pattern, query: Query, keys: usize, key: usize) -> bool {
    let mut found = false;
    pattern.for_each_range(query, keys, &mut |range| found |= range.contains(&key));
    found
}

/// The rules for one pair; documents are given by number.
fn sees(
    rules: &Visibility,
    numbers: Option<&[i32]>,
    [row, head]: [usize; 2],
    query: usize,
    [key, keys]: [usize; 2],
) -> bool {
    let shown = rules.pattern.as_ref().is_none_or(|pattern| {
        let position = query;
        let query = Query {
            row,
            head,
            position,
        };
        shows(pattern, query, keys, key)
    });
    let before = rules
        .prefix
        .as_ref()
        .is_some_and(|prefix| key < prefix[row]);
    let in_time = !rules.causal || key <= query || before;
    let real = rules
        .lengths
        .as_ref()
        .is_none_or(|lengths| key < lengths[row]);
    let together = numbers.is_none_or(|numbers| numbers[query] == numbers[key]);
    let near = rules.window.as_ref().is_none_or(|window| {
        let step = window.dilation.get(head).copied().unwrap_or(1);
        let distance = key.abs_diff(query);
        let most = if key > query {
            window.after
        } else {
            window.before
        };
        distance.is_multiple_of(step) && distance / step <= most
    });
    in_time && real && together && near && shown
}

#[test]
fn rules_hold_for_every_pair_and_hulls_hold_all_that_is_seen() {
    let mut stream = Stream::new(8, Purpose::Split, (0, 0, 0));
    for case in 0..200 {
        let mut pick = |choices: &[usize]| choices[stream.below(choices.len() as u64) as usize];
        let (rows, heads) = (pick(&[1, 2, 3]), pick(&[1, 2]));
        let (queries, offset) = (pick(&[1, 5, 70]), pick(&[0, 3, 130]));
        let keys = offset + queries;
        let span = Span {
            queries,
            keys,
            offset,
        };
        let mut rules = drawn(&mut stream, [rows, heads], span);
        // Document numbers chosen by the test; one document occurs twice.
        let numbers: Option<Vec<i32>> = rules.documents.as_ref().map(|_| {
            (0..rows * keys)
                .map(|i| [0, 1, 0, 7, -2][i % keys * 5 / keys.max(5)])
                .collect()
        });
        rules.documents = numbers.as_ref().map(|n| Documents::new(n, keys));
        let hidden = rules.dense_mask([rows, heads], span, &Device::flex());
        let hidden = hidden.map(|hidden| {
            let all = hidden.expand([rows, heads, queries, keys]);
            all.into_data().iter::<bool>().collect::<Vec<bool>>()
        });
        for (row, head) in (0..rows).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            let own = numbers.as_ref().map(|n| &n[row * keys..][..keys]);
            let hull = rules.ranges([row, head], offset..keys, keys);
            let apart = hull.windows(2).all(|two| two[0].end < two[1].start);
            assert!(apart, "case {case}: {hull:?}");
            for (i, key) in (0..queries).flat_map(|i| (0..keys).map(move |key| (i, key))) {
                let wanted = sees(&rules, own, [row, head], offset + i, [key, keys]);
                let at = ((row * heads + head) * queries + i) * keys + key;
                let found = hidden.as_ref().is_none_or(|hidden| !hidden[at]);
                assert_eq!(
                    found, wanted,
                    "case {case}: {rules:?} {row} {head} {i} {key}"
                );
                assert!(
                    !wanted || hull.iter().any(|range| range.contains(&key)),
                    "case {case}: {rules:?} {hull:?} {key}"
                );
            }
        }
    }
}

/// Tiles in which nothing is visible are skipped.
#[test]
fn hulls_are_narrow() {
    let hull = |rules: &Visibility, positions| rules.enclosing_range([0, 0], positions, 1000);
    let causal = Visibility::causal();
    assert_eq!(hull(&causal, 64..128), 0..128);
    let window = Window {
        before: 100,
        after: 100,
        dilation: [].into(),
    };
    let near = Visibility {
        window: Some(window),
        ..causal.clone()
    };
    assert_eq!(hull(&near, 640..704), 540..704);
    let both = Visibility {
        causal: false,
        ..near
    };
    assert_eq!(hull(&both, 640..704), 540..804);
    assert_eq!(hull(&Visibility::from_lengths(&[300]), 640..704), 0..300);
    let numbers: Vec<i32> = (0..1000).map(|i| i / 250).collect();
    let packed = Visibility {
        documents: Some(Documents::new(&numbers, 1000)),
        ..causal
    };
    // Whole blocks of 64 keys.
    assert_eq!(hull(&packed, 640..704), 448..704);
}

/// Keys that a cache dropped are left out of every rule.
#[test]
fn rules_without_the_first_keys() {
    let mut stream = Stream::new(9, Purpose::Split, (0, 0, 0));
    for _ in 0..50 {
        let span = Span {
            queries: 4,
            keys: 20,
            offset: 16,
        };
        let rules = drawn(&mut stream, [2, 2], span);
        let fewer = Span {
            keys: 13,
            offset: 9,
            ..span
        };
        for place in [[0, 0], [1, 1]] {
            let all = rules.mask_of_queries(place, &[0, 3], span);
            let rest = rules
                .without_first(7)
                .mask_of_queries(place, &[0, 3], fewer);
            let kept: Vec<bool> = all.chunks(20).flat_map(|row| row[7..].to_vec()).collect();
            assert_eq!(rest, kept, "{rules:?}");
        }
    }
}
