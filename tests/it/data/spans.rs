//! Span corruption: masks and pairs against the T5 package (`tests/goldens/make_span_corruption.py`), and texts as pairs.

use super::masked::viewed;
use super::{Folder, prose};
use crate::oracle::Oracle;
use formwork::data::corrupted::spans::{self, SpanConfig};
use formwork::data::{CorruptedView, Data, Item, PairItem, Source, Split, View};
use formwork::tokenizer::Tokenizer;

pub(super) const TEXT: &str =
    "kind = \"text\"\npath = \"t.txt\"\ncontext = 64\nvalid_fraction = 0.1";

pub(super) fn view(share: f64, mean_span: f64) -> View {
    View::Corrupted(CorruptedView::Spans(SpanConfig { share, mean_span }))
}

pub(super) fn pair(source: &dyn Source, sample: u64, draw: u64) -> PairItem {
    match source.get(sample, draw).unwrap() {
        Item::Pair(pair) => pair,
        other => panic!("{other:?}"),
    }
}

/// Settings of the oracle.
fn settings(oracle: &Oracle) -> Vec<SpanConfig> {
    let values = oracle.doubles("settings");
    let settings = values.chunks(2);
    settings
        .map(|pair| SpanConfig {
            share: pair[0],
            mean_span: pair[1],
        })
        .collect()
}

#[test]
fn masks_are_those_of_the_t5_package_for_the_same_shuffles() {
    let oracle = Oracle::open("span_corruption");
    let (_, lengths) = oracle.integers("lengths");
    for (number, config) in settings(&oracle).into_iter().enumerate() {
        let flags = |name: &str| {
            let (_, flags) = oracle.bytes(&format!("{name}.{number}"));
            let flags: Vec<bool> = flags.into_iter().map(|flag| flag == 1).collect();
            flags
        };
        let (shuffled, theirs) = ([flags("noise"), flags("rest")], flags("mask"));
        let (mut used, mut at) = ([0, 0], 0);
        for length in lengths.iter().map(|length| *length as usize) {
            let mut side = 0;
            let counts = config.counts(length);
            let ours = spans::mask(counts, |flags| {
                let theirs = &shuffled[side][used[side]..used[side] + flags.len()];
                let cuts = |flags: &[bool]| flags.iter().filter(|cut| **cut).count();
                assert_eq!(cuts(flags), cuts(theirs), "{config:?}, {length} tokens");
                flags.copy_from_slice(theirs);
                used[side] += flags.len();
                side += 1;
            });
            let theirs = &theirs[at..at + length];
            assert_eq!(&ours[..length], theirs, "{config:?}, {length} tokens");
            at += length;
        }
        let all = [shuffled[0].len(), shuffled[1].len(), theirs.len()];
        assert_eq!([used[0], used[1], at], all);
    }
}

#[test]
fn pairs_are_those_of_the_t5_package() {
    let oracle = Oracle::open("span_corruption");
    let (_, lengths) = oracle.integers("lengths");
    let sentinels: Vec<i32> = (0..=999).rev().collect();
    for number in [0, settings(&oracle).len() - 1] {
        let (_, masks) = oracle.bytes(&format!("mask.{number}"));
        let theirs = ["source", "target"].map(|side| {
            let (_, ids) = oracle.integers(&format!("{side}.{number}"));
            let (_, lengths) = oracle.integers(&format!("{side}_lengths.{number}"));
            (ids, lengths)
        });
        let (mut at, mut read) = (0, [0, 0]);
        for (row, length) in lengths.iter().map(|length| *length as usize).enumerate() {
            let mask: Vec<bool> = masks[at..at + length].iter().map(|x| *x == 1).collect();
            let text: Vec<i32> = (0..length as i32).collect();
            let ours = spans::source_and_target(&text, &mask, &sentinels);
            for (side, (ids, lengths)) in theirs.iter().enumerate() {
                let end = read[side] + lengths[row] as usize;
                assert_eq!(ours[side], ids[read[side]..end], "{length} tokens");
                read[side] = end;
            }
            at += length;
        }
    }
}

/// Lengths of texts and targets equal the package's, from the contexts in which rounding leaves a whole span. The package
/// computes lengths in double precision and masks in single precision, as this does: 0.3 of 175 tokens are 52 and 53. For half
/// of an odd number, the package's target length is an upper bound.
#[test]
fn texts_are_as_long_as_the_t5_package_says() {
    let oracle = Oracle::open("span_corruption");
    let (_, contexts) = oracle.integers("contexts");
    let (_, filling) = oracle.integers("filling");
    let mut theirs = filling.chunks(2);
    for config in settings(&oracle) {
        for context in contexts.iter().map(|context| *context as usize) {
            let theirs = theirs.next().unwrap();
            let ours = config.max_counts(context);
            let (text, target) = (
                ours.text as i32 - theirs[0],
                ours.target() as i32 - theirs[1],
            );
            let same = match config.share {
                0.3 => text == i32::from(context == 129),
                0.5 => text == 0 && (-1..=0).contains(&target),
                _ => (text, target) == (0, 0),
            };
            assert!(same, "{config:?}, context {context}: {ours:?}, {theirs:?}");
        }
    }
    assert_eq!(theirs.next(), None);
}

fn of_prose(view: &View, tokenizer: &str, seed: u64) -> (Data, Tokenizer) {
    let folder = Folder::with(&[("t.txt", prose(3000).as_bytes())]);
    let data = viewed(&folder.places(), TEXT, Some(tokenizer), view, seed).unwrap();
    let tokenizer = data.tokenizers.text.clone().unwrap();
    (data, tokenizer)
}

/// Returns the text from which a pair was made, and the lengths of its spans.
pub(super) fn whole(pair: &PairItem, tokenizer: &Tokenizer) -> (Vec<u32>, Vec<usize>) {
    let marks = tokenizer.marks().unwrap();
    let sentinels = tokenizer.sentinels(usize::MAX);
    let (begin, rest) = pair.target.split_first().unwrap();
    let (end, rest) = rest.split_last().unwrap();
    let (last, source) = pair.source.split_last().unwrap();
    assert_eq!(
        [*begin, *end, *last],
        [marks.begin, marks.end, marks.end].map(|id| id as i32)
    );
    let number = |id: &i32| {
        sentinels
            .iter()
            .position(|sentinel| *sentinel as i32 == *id)
    };
    let mut spans: Vec<Vec<u32>> = Vec::new();
    for id in rest {
        match number(id) {
            Some(number) => {
                assert_eq!(number, spans.len());
                spans.push(Vec::new());
            }
            None => spans.last_mut().unwrap().push(*id as u32),
        }
    }
    let mut text = Vec::new();
    let mut next = 0;
    for id in source {
        match number(id) {
            Some(number) => {
                assert_eq!(number, next);
                text.extend(&spans[number]);
                next += 1;
            }
            None => text.push(*id as u32),
        }
    }
    assert_eq!(next, spans.len());
    (text, spans.iter().map(Vec::len).collect())
}

#[test]
fn a_text_is_read_once_and_pairs_fill_the_context() {
    let prose = prose(3000);
    for tokenizer in [
        "kind = \"char\"",
        "kind = \"byte\"",
        "kind = \"word\"",
        "kind = \"bpe\"\nvocab_size = 300",
        "kind = \"wordpiece\"\nvocab_size = 200\nlowercase = false",
        "kind = \"unigram\"\nvocab_size = 100",
    ] {
        let (data, tokenizer) = of_prose(&view(0.15, 3.0), tokenizer, 7);
        assert_eq!(data.shape.context, 64);
        assert_eq!(data.shape.vocab_size, tokenizer.vocab_size());
        // As in T5's vocabulary, the first sentinel has the highest id.
        let sentinels = tokenizer.sentinels(usize::MAX);
        let ids: Vec<u32> = (0..tokenizer.vocab_size() as u32).rev().take(100).collect();
        assert_eq!(sentinels, ids);
        let (mut ids, mut noise, mut spans) = (Vec::new(), 0, 0);
        for source in [Some(&data.train), data.valid.as_ref()]
            .into_iter()
            .flatten()
        {
            for sample in 0..source.len() as u64 {
                let pair = pair(source.as_ref(), sample, 1000 + sample);
                let (text, lengths) = whole(&pair, &tokenizer);
                if sample + 1 < source.len() as u64 {
                    assert_eq!((text.len(), pair.source.len()), (70, 64));
                    assert_eq!((lengths.iter().sum::<usize>(), lengths.len()), (10, 3));
                    noise += 10;
                    spans += 3;
                }
                ids.extend(text);
            }
        }
        let count = ids.len() as f64;
        assert!((f64::from(noise) / count - 0.15).abs() < 0.01);
        assert!((f64::from(noise) / f64::from(spans) - 3.0).abs() < 0.4);
        assert_eq!(data.tokens.train + data.tokens.valid, ids.len() as u64);
        let read = tokenizer.decode(&ids);
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        let (read, prose) = (plain(&read.replace("##", "")), plain(&prose));
        // Words that the vocabulary lacks are in the validation part.
        let same = read.chars().zip(prose.chars()).take_while(|(a, b)| a == b);
        let (same, all) = (same.count(), prose.chars().count());
        assert!(2 * same > all, "{tokenizer:?}: {same} of {all}");
    }
}

#[test]
fn places_of_spans_are_drawn_evenly() {
    let (data, tokenizer) = of_prose(&view(0.15, 3.0), "kind = \"char\"", 7);
    let mut longest = 0;
    let mut lengths = [0usize; 9];
    let draws = 4000;
    for draw in 0..draws {
        let pair = pair(data.train.as_ref(), 3, draw);
        let (text, spans) = whole(&pair, &tokenizer);
        assert_eq!(text.len(), 70);
        longest = longest.max(*spans.iter().max().unwrap());
        lengths[spans[0]] += 1;
    }
    // 10 tokens in 3 spans: in 9 − k of the 36 divisions, the first span has k tokens.
    assert_eq!(longest, 8);
    for (k, found) in lengths.into_iter().enumerate().skip(1) {
        let share = (9 - k) as f64 / 36.0;
        let n = draws as f64;
        let off = (found as f64 - n * share).abs();
        assert!(
            off < 4.0 * (n * share * (1.0 - share)).sqrt(),
            "{k}: {found} of {draws}"
        );
    }
}

#[test]
fn evaluations_are_corrupted_alike_for_every_seed() {
    let tokenizer = "kind = \"char\"";
    let (one, _) = of_prose(&view(0.15, 3.0), tokenizer, 1);
    let (two, _) = of_prose(&view(0.15, 3.0), tokenizer, 2);
    let pairs = |source: &dyn Source| -> Vec<PairItem> {
        (0..4).map(|sample| pair(source, sample, sample)).collect()
    };
    let valid = |data: &Data| pairs(data.valid.as_ref().unwrap().as_ref());
    assert_eq!(valid(&one), valid(&two));
    assert_eq!(one.source(Split::Valid).unwrap().split(), Split::Valid);
    assert_ne!(pairs(one.train.as_ref()), pairs(two.train.as_ref()));
    let train = one.train.as_ref();
    assert_eq!(pair(train, 2, 9), pair(train, 2, 9));
    assert_ne!(pair(train, 2, 9), pair(train, 2, 10));
}

#[test]
fn a_last_token_alone_is_kept() {
    let folder = Folder::with(&[("t.txt", &[b'a'; 71][..])]);
    let data = "kind = \"text\"\npath = \"t.txt\"\ncontext = 64\nvalid_fraction = 0.0";
    let data = viewed(
        &folder.places(),
        data,
        Some("kind = \"byte\""),
        &view(0.15, 3.0),
        1,
    )
    .unwrap();
    let tokenizer = data.tokenizers.text.clone().unwrap();
    assert_eq!(data.train.len(), 2);
    let marks = tokenizer.marks().unwrap();
    let first = tokenizer.sentinels(1)[0];
    let ids = |ids: &[u32]| ids.iter().map(|id| *id as i32).collect::<Vec<_>>();
    let pair = pair(data.train.as_ref(), 1, 0);
    assert_eq!(pair.source, ids(&[u32::from(b'a'), marks.end]));
    assert_eq!(pair.target, ids(&[marks.begin, first, marks.end]));
    assert_eq!(tokenizer.token(marks.begin).as_deref(), Some("<pad>"));
}
