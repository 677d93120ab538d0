//! The noises of denoising: against their definition for the same draws (`tests/goldens/make_denoising.py` is the oracle), and
//! their statistics over 10,000 documents.

use super::masked::near;
use formwork::data::corrupted::denoising::{NoiseConfig, Noiser};
use formwork::data::corrupted::noises::{self, Replacement};
use formwork::rng::{Purpose, Stream};
use formwork::tokenizer::Tokenizer;
use serde::Deserialize;
use serde_json::json;
use std::ops::Range;
use std::path::Path;

#[derive(Deserialize)]
struct Golden {
    infilling: Infilling,
    cases: Vec<Case>,
}

/// Mean and standard deviation per text.
type Measured = (f64, f64);

#[derive(Deserialize)]
struct Infilling {
    hidden: Measured,
    masks: Measured,
    bare: Measured,
    lengths: Vec<Measured>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Case {
    noise: String,
    seed: u64,
    sample: u64,
    ids: Vec<i32>,
    ends: Vec<usize>,
    words: Vec<(usize, usize)>,
    places: Vec<usize>,
    share: f64,
    mean_span: f64,
    random: f64,
    expected: Vec<i32>,
}

fn golden() -> Golden {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/denoising.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn noises_are_their_definition() {
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for case in golden().cases {
        let Case { ids, share, .. } = &case;
        let stand = Replacement {
            mask: 3,
            random: case.random,
            ordinary: (4..100).collect(),
        };
        let words: Vec<Range<usize>> = case.words.iter().map(|(a, b)| *a..*b).collect();
        let at = (case.sample, 0, 0);
        let mut stream = Stream::new(case.seed, Purpose::Corrupting, at);
        let stream = &mut stream;
        let ours = match case.noise.as_str() {
            "permute_sentences" => noises::permute_sentences(ids, &case.ends, *share, stream),
            "infill" => noises::infill(ids, &words, (*share, case.mean_span), &stand, stream),
            "mask" => noises::mask_tokens(ids, &case.places, *share, &stand, stream),
            "delete" => noises::delete_tokens(ids, &case.places, *share, stream),
            "rotate" => noises::rotate(ids, stream),
            other => panic!("{other}"),
        };
        assert_eq!(
            ours, case.expected,
            "{} of sample {}",
            case.noise, case.sample
        );
        *seen.entry(case.noise).or_default() += 1;
    }
    assert!(seen.len() == 5 && seen["infill"] >= 100, "{seen:?}");
}

/// Number of documents in a statistic.
const DOCUMENTS: usize = 10_000;
/// Number of words in a document.
const WORDS: usize = 100;
/// The first id that is a word.
const FIRST: i32 = 5;

/// A vocabulary of words; the ids of a document are consecutive, so that an id shows its position.
fn vocabulary() -> Tokenizer {
    let words: Vec<String> = (0..WORDS).map(|n| format!("w{n}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let tokenizer = Tokenizer::of_words(&words).unwrap();
    assert_eq!(tokenizer.id("w0"), Some(FIRST as u32));
    tokenizer
}

/// A noise config; noises that are not named are off.
fn noise(keys: serde_json::Value) -> NoiseConfig {
    let mut all = json!({ "permute_sentences": 0.0, "infill": 0.0 });
    for (key, value) in keys.as_object().unwrap() {
        all[key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

/// Passes the clean text and the source of many documents, each of 100 words in ten sentences, to `look`.
fn corrupted(keys: serde_json::Value, mut look: impl FnMut(&[i32], &[i32])) {
    let tokenizer = vocabulary();
    let noiser = Noiser::new(&noise(keys), &tokenizer).unwrap();
    let text: Vec<i32> = (FIRST..FIRST + WORDS as i32).collect();
    let ends: Vec<usize> = (1..=10).map(|n| n * WORDS / 10).collect();
    for document in 0..DOCUMENTS as u64 {
        let mut stream = Stream::new(11, Purpose::Corrupting, (document, 0, 0));
        look(&text, &noiser.corrupt(&text, &ends, &mut stream));
    }
}

fn mask() -> i32 {
    vocabulary().mask().unwrap() as i32
}

/// Whether each count of `n` is within five standard deviations of a share; among a hundred counts, one may well exceed four.
fn all_near(counts: &[usize], n: usize, share: f64) -> bool {
    let (mean, n) = (n as f64 * share, n as f64);
    let most = 5.0 * (n * share * (1.0 - share)).sqrt();
    counts
        .iter()
        .all(|count| (*count as f64 - mean).abs() <= most)
}

#[test]
fn tokens_are_masked_for_themselves() {
    let (mask, mut places, mut random) = (mask(), [0; WORDS], 0);
    corrupted(json!({ "mask": 0.155, "random": 0.25 }), |text, source| {
        let changed: Vec<usize> = (0..WORDS).filter(|i| source[*i] != text[*i]).collect();
        assert_eq!(source.len(), WORDS);
        // A random token may equal the original one.
        assert!(changed.len() <= 16 && changed.len() > 12);
        changed.iter().for_each(|at| places[*at] += 1);
        random += changed.iter().filter(|at| source[**at] != mask).count();
    });
    let total: usize = places.iter().sum();
    // 16 of 100, of which one in four is random, and one in a hundred of these equals the original.
    let itself = 0.25 / WORDS as f64;
    assert!(near(total, 16 * DOCUMENTS, 1.0 - itself), "{total}");
    assert!(
        near(random, total, (0.25 - itself) / (1.0 - itself)),
        "{random} of {total}"
    );
    assert!(
        all_near(&places, DOCUMENTS, 0.16 * (1.0 - itself)),
        "{places:?}"
    );
}

#[test]
fn deletion_leaves_a_subsequence() {
    let mut places = [0; WORDS];
    corrupted(json!({ "delete": 0.3 }), |text, source| {
        assert_eq!(source.len(), 70);
        assert!(source.is_sorted_by(|a, b| a < b));
        for (place, id) in text.iter().enumerate() {
            places[place] += usize::from(source.binary_search(id).is_err());
        }
    });
    assert!(all_near(&places, DOCUMENTS, 0.3), "{places:?}");
}

/// Compares a mean over the documents with the oracle's, within four and a half standard errors of both.
fn agrees(name: &str, sum: usize, (mean, deviation): Measured) {
    let ours = sum as f64 / DOCUMENTS as f64;
    let error = deviation * (1.5 / DOCUMENTS as f64).sqrt();
    println!("{name}: {ours:.4}, {mean:.4} of the definition");
    assert!((ours - mean).abs() < 4.5 * error, "{name}: {ours}, {mean}");
}

#[test]
fn infilling_hides_spans_of_poisson_lengths() {
    let golden = golden().infilling;
    let mask = mask();
    let (mut hidden, mut masks, mut bare) = (0, 0, 0);
    let mut lengths = vec![0; golden.lengths.len()];
    corrupted(json!({ "infill": 0.3 }), |_, source| {
        let (mut before, mut here) = (FIRST - 1, 0);
        for id in source.iter().chain([&(FIRST + WORDS as i32)]) {
            if *id == mask {
                here += 1;
                continue;
            }
            // Kept words stay in order.
            assert!(*id > before);
            let gap = (*id - before - 1) as usize;
            assert!(gap == 0 || here > 0, "words are gone without a mask");
            hidden += gap;
            masks += here;
            match (gap, here) {
                (0, here) => bare += here,
                (gap, 1) if gap <= lengths.len() => lengths[gap - 1] += 1,
                _ => {}
            }
            (before, here) = (*id, 0);
        }
    });
    agrees("hidden", hidden, golden.hidden);
    agrees("masks", masks, golden.masks);
    agrees("bare", bare, golden.bare);
    for (length, (count, expected)) in lengths.into_iter().zip(golden.lengths).enumerate() {
        agrees(&format!("spans of {}", length + 1), count, expected);
    }
}

#[test]
fn sentences_change_places() {
    for (share, moved) in [(1.0, 10), (0.35, 4)] {
        let mut places = [[0; 10]; 10];
        corrupted(json!({ "permute_sentences": share }), |_, source| {
            let mut there = 0;
            let mut sentences = Vec::new();
            for (place, sentence) in source.chunks(10).enumerate() {
                let number = (sentence[0] - FIRST) / 10;
                let whole: Vec<i32> = (FIRST + 10 * number..).take(10).collect();
                assert_eq!(sentence, whole);
                there += usize::from(number as usize == place);
                places[number as usize][place] += 1;
                sentences.push(number);
            }
            sentences.sort_unstable();
            assert_eq!(sentences, (0..10).collect::<Vec<_>>());
            assert!(there >= 10 - moved);
        });
        // A sentence that is moved takes each position of the moved ones with equal probability.
        let away = share_of(moved) * (1.0 - 1.0 / moved as f64) / 9.0;
        for (number, row) in places.iter().enumerate() {
            for (place, count) in row.iter().enumerate() {
                let expected = match number == place {
                    true => 1.0 - 9.0 * away,
                    false => away,
                };
                assert!(
                    all_near(&[*count], DOCUMENTS, expected),
                    "{number} at {place}: {count}"
                );
            }
        }
    }
}

fn share_of(moved: usize) -> f64 {
    moved as f64 / 10.0
}

#[test]
fn rotation_is_a_rotation() {
    let mut starts = [0; WORDS];
    corrupted(json!({ "rotate": 0.6 }), |text, source| {
        let start = (source[0] - FIRST) as usize;
        assert_eq!(source, [&text[start..], &text[..start]].concat());
        starts[start] += 1;
    });
    let every = 0.6 / WORDS as f64;
    assert!(near(starts[0], DOCUMENTS, 0.4 + every), "{starts:?}");
    assert!(all_near(&starts[1..], DOCUMENTS, every), "{starts:?}");
}

/// The next noise does not count masks of an earlier noise as words.
#[test]
fn noises_are_mixed() {
    let mask = mask();
    let keys = json!({
        "permute_sentences": 1.0, "infill": 0.2, "mask": 0.1, "delete": 0.1, "rotate": 0.5,
    });
    let (mut masks, mut words) = (0, 0);
    corrupted(keys, |_, source| {
        let mut kept: Vec<i32> = source.iter().copied().filter(|id| *id != mask).collect();
        masks += source.len() - kept.len();
        words += kept.len();
        kept.sort_unstable();
        assert!(kept.is_sorted_by(|a, b| a < b), "a word stands there twice");
    });
    // 20 words or somewhat fewer in spans; a tenth of the rest is masked, then a tenth of the rest of that deleted.
    let [masks, words] = [masks, words].map(|n| n as f64 / DOCUMENTS as f64);
    assert!((64.0..69.0).contains(&words), "{words}");
    assert!((12.0..16.5).contains(&masks), "{masks}");
}
