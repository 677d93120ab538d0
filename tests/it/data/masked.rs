//! Masked text: rates, whole words, spans, static masks, and what cannot be masked.

use super::{Folder, data_config, prose, tokenizer_config};
use formwork::data::masked::masking::{MaskedView, MaskingConfig, Pairs, Unit};
use formwork::data::{
    Data, NOT_SCORED, Request, SearchPath, Source, TextItem, Tokenizers, View, prepare,
};
use formwork::error::Result;
use formwork::tokenizer::Tokenizer;

/// Prepares data from `[data]` and `[tokenizer]` and reads it through a view.
pub(super) fn viewed(
    places: &SearchPath,
    data: &str,
    tokenizer: Option<&str>,
    view: &View,
    seed: u64,
) -> Result<Data> {
    let tokenizer = tokenizer.map(tokenizer_config);
    let request = Request {
        run_shape: None,
        tokenizer: tokenizer.as_ref(),
        saved_tokenizers: &Tokenizers::default(),
        places,
        seed,
        view,
        compares_answers: false,
        retrieval: None,
    };
    prepare(&data_config(data), &request)
}

pub(super) fn view(masking: MaskingConfig, pairs: Pairs) -> View {
    View::Masked(MaskedView {
        masking,
        pairs,
        class_token_last: false,
    })
}

pub(super) fn text(source: &dyn Source, sample: u64, draw: u64) -> TextItem {
    source.get(sample, draw).unwrap().text().unwrap()
}

/// Returns the tokens before masking.
pub(super) fn original(item: &TextItem) -> Vec<u32> {
    let both = item.inputs.iter().zip(&item.targets);
    both.map(|(input, target)| {
        if *target == NOT_SCORED {
            *input as u32
        } else {
            *target as u32
        }
    })
    .collect()
}

pub(super) fn scored(item: &TextItem) -> Vec<usize> {
    (0..item.targets.len())
        .filter(|i| item.targets[*i] != NOT_SCORED)
        .collect()
}

pub(super) const WORDPIECE: &str = "kind = \"wordpiece\"\nvocab_size = 200";
const TEXT: &str = "kind = \"text\"\npath = \"t.txt\"\ncontext = 130\nvalid_fraction = 0.1";

pub(super) fn of_prose(masking: MaskingConfig, tokenizer: &str) -> (Data, Tokenizer) {
    let folder = Folder::with(&[("t.txt", prose(3000).as_bytes())]);
    let view = view(masking, Pairs::None);
    let data = viewed(&folder.places(), TEXT, Some(tokenizer), &view, 7).unwrap();
    let tokenizer = data.tokenizers.text.clone().unwrap();
    (data, tokenizer)
}

/// Whether `count` of `n` is within four standard deviations of a share.
pub(super) fn near(count: usize, n: usize, share: f64) -> bool {
    let (count, n) = (count as f64, n as f64);
    (count - n * share).abs() <= 4.0 * (n * share * (1.0 - share)).sqrt()
}

#[test]
fn fifteen_per_cent_are_scored_and_eight_in_ten_of_them_are_hidden() {
    for tokenizer in [
        WORDPIECE,
        "kind = \"bpe\"\nvocab_size = 300",
        "kind = \"char\"",
    ] {
        let (data, tokenizer) = of_prose(MaskingConfig::default(), tokenizer);
        let (mask, frame) = (tokenizer.mask().unwrap() as i32, tokenizer.frame().unwrap());
        let (mut all, mut hidden, mut kept) = (0, 0, 0);
        for sample in 0..data.train.len() as u64 {
            let item = text(data.train.as_ref(), sample, 1000 + sample);
            let ids = original(&item);
            assert_eq!((ids[0], ids[ids.len() - 1]), (frame.begin, frame.end));
            let maskable = ids.iter().filter(|id| !tokenizer.is_special(**id)).count();
            let positions = scored(&item);
            assert_eq!(
                positions.len(),
                ((maskable as f64 * 0.15).round() as usize).max(1)
            );
            for at in positions {
                assert!(!tokenizer.is_special(ids[at]));
                let now = item.inputs[at];
                assert!(now == mask || !tokenizer.is_special(now as u32));
                all += 1;
                hidden += usize::from(now == mask);
                kept += usize::from(now == item.targets[at]);
            }
        }
        assert!(all > 500, "{all}");
        assert!(near(hidden, all, 0.8), "{hidden} of {all} hidden");
        // A random token may equal the original one.
        let chance = 0.1 / tokenizer.vocab_size() as f64;
        assert!(near(kept, all, 0.1 + chance), "{kept} of {all} kept");
    }
}

#[test]
fn whole_words_are_never_split() {
    let masking = MaskingConfig {
        unit: Unit::Word,
        ..MaskingConfig::default()
    };
    for tokenizer in [
        WORDPIECE,
        "kind = \"bpe\"\nvocab_size = 300",
        "kind = \"unigram\"\nvocab_size = 200",
    ] {
        let (data, tokenizer) = of_prose(masking.clone(), tokenizer);
        let mut continued = 0;
        for sample in 0..data.train.len() as u64 {
            let item = text(data.train.as_ref(), sample, sample);
            let ids = original(&item);
            let positions = scored(&item);
            assert!(!positions.is_empty() && positions.len() <= 19);
            for at in 2..ids.len() - 1 {
                if !tokenizer.begins_word(Some(ids[at - 1]), ids[at]) {
                    let both = [at - 1, at].map(|at| item.targets[at] == NOT_SCORED);
                    assert_eq!(both[0], both[1]);
                    continued += usize::from(!both[0]);
                }
            }
        }
        assert!(continued > 100, "{continued}");
    }
}

/// Returns the lengths of runs of scored tokens.
pub(super) fn runs(item: &TextItem) -> Vec<usize> {
    let hidden: Vec<bool> = item.targets.iter().map(|t| *t != NOT_SCORED).collect();
    hidden
        .split(|h| !h)
        .map(<[bool]>::len)
        .filter(|n| *n > 0)
        .collect()
}

#[test]
fn spans_have_the_lengths_of_spanbert() {
    // One token per word, a long text and a small share: spans seldom meet.
    let folder = Folder::with(&[("t.txt", "a b c d e f g h ".repeat(3000).as_bytes())]);
    let data = "kind = \"text\"\npath = \"t.txt\"\ncontext = 2002\nvalid_fraction = 0.0";
    let mut means = Vec::new();
    for unit in [Unit::Span, Unit::Token] {
        let masking = MaskingConfig {
            share: 0.03,
            unit,
            ..MaskingConfig::default()
        };
        let view = view(masking, Pairs::None);
        let data = viewed(&folder.places(), data, Some(WORDPIECE), &view, 3).unwrap();
        let len = data.train.len() as u64;
        let items: Vec<TextItem> = (0..200)
            .map(|d| text(data.train.as_ref(), d % (len - 1), d))
            .collect();
        // The share is exact nevertheless.
        assert!(items.iter().all(|item| scored(item).len() == 60));
        let runs: Vec<usize> = items.iter().flat_map(runs).collect();
        means.push(runs.iter().sum::<usize>() as f64 / runs.len() as f64);
        if unit == Unit::Span {
            // All tokens of a span are replaced in the same way.
            let mask = data.tokenizers.text.unwrap().mask().unwrap() as i32;
            let mixed = items.iter().flat_map(|item| {
                let at = scored(item);
                let neighbours = at
                    .windows(2)
                    .filter(|w| w[1] == w[0] + 1)
                    .map(|w| (w[0], w[1]));
                let kinds =
                    neighbours.map(|(a, b)| (item.inputs[a] == mask) != (item.inputs[b] == mask));
                kinds.collect::<Vec<_>>()
            });
            let mixed: Vec<bool> = mixed.collect();
            assert!(mixed.iter().filter(|m| **m).count() * 20 < mixed.len());
        }
    }
    assert!((means[0] - 3.8).abs() < 0.35 && means[1] < 1.1, "{means:?}");
}

#[test]
fn dynamic_masks_differ_and_static_ones_come_again() {
    let (data, _) = of_prose(MaskingConfig::default(), WORDPIECE);
    let source = data.train.as_ref();
    let len = source.len() as u64;
    let drawn = |source: &dyn Source, epoch: u64| text(source, 3, epoch * len + 5);
    assert_ne!(drawn(source, 0), drawn(source, 1));
    assert_eq!(drawn(source, 4), drawn(source, 4));
    assert_eq!(original(&drawn(source, 0)), original(&drawn(source, 1)));
    let masking = MaskingConfig {
        copies: Some(2),
        ..MaskingConfig::default()
    };
    let (data, _) = of_prose(masking, WORDPIECE);
    let source = data.train.as_ref();
    assert_ne!(drawn(source, 0), drawn(source, 1));
    assert_eq!(drawn(source, 0), drawn(source, 2));
    assert_eq!(drawn(source, 1), text(source, 3, 3 * len + 8));
}

#[test]
fn every_token_is_read_once_an_epoch() {
    let folder = Folder::with(&[("t.txt", b"abc--de--fghijklmn")]);
    let data = "kind = \"text\"\npath = \"t.txt\"\nvalid_path = \"t.txt\"\ncontext = 6\ndocument_separator = \"--\"";
    let view = view(MaskingConfig::default(), Pairs::None);
    let data = viewed(&folder.places(), data, Some("kind = \"byte\""), &view, 1).unwrap();
    let tokenizer = data.tokenizers.text.clone().unwrap();
    for source in [&data.train, data.valid.as_ref().unwrap()] {
        let read: Vec<String> = (0..source.len() as u64)
            .map(|s| tokenizer.decode(&original(&text(source.as_ref(), s, s))))
            .collect();
        assert_eq!(
            read,
            [
                "[CLS]abc[SEP][SEP]",
                "[CLS]de[SEP]f[SEP]",
                "[CLS]ghij[SEP]",
                "[CLS]klmn[SEP]",
                "[CLS][SEP][SEP]"
            ]
        );
        // A text of only special tokens has nothing to mask, so nothing is scored.
        assert!(scored(&text(source.as_ref(), 4, 0)).is_empty());
        assert_eq!((source.size(0), source.size(4)), (6, 3));
    }
    assert_eq!(data.tokens.train, 17);
}

#[test]
fn what_cannot_be_masked_says_why() {
    let folder = Folder::with(&[
        ("t.txt", b"A0.\nA1.\n\nB0.\nB1.\n"),
        ("one.txt", b"one line only"),
    ]);
    let data = "kind = \"text\"\npath = \"t.txt\"\nvalid_fraction = 0.0\n";
    let says =
        |data: &str, tokenizer: Option<&str>, masking: MaskingConfig, pairs: Pairs, part: &str| {
            let view = view(masking, pairs);
            let error = viewed(&folder.places(), data, tokenizer, &view, 1)
                .err()
                .expect(part)
                .to_string();
            assert!(error.contains(part), "{error}\nlacks {part}");
        };
    let fine = MaskingConfig::default;
    let chars = Some("kind = \"char\"");
    says(data, chars, fine(), Pairs::NextSentence, "single document");
    let one = data.replace("t.txt", "one.txt");
    says(
        &one,
        chars,
        fine(),
        Pairs::SentenceOrder,
        "has two sentences",
    );
    says(
        &format!("{data}context = 5"),
        chars,
        fine(),
        Pairs::SentenceOrder,
        "context = 5",
    );
    says(
        &format!("{data}windows = \"contiguous\""),
        chars,
        fine(),
        Pairs::None,
        "windows has no effect",
    );
    says(
        "kind = \"sort\"",
        None,
        fine(),
        Pairs::None,
        "no text in which tokens can be masked",
    );
    let zero = MaskingConfig {
        share: 0.0,
        ..fine()
    };
    says(data, chars, zero, Pairs::None, "share = 0");
    let long = MaskingConfig {
        mean_span: Some(3.0),
        ..fine()
    };
    says(data, chars, long, Pairs::None, "mean_span has no effect");
    let long = MaskingConfig {
        mean_span: Some(7.0),
        unit: Unit::Span,
        ..fine()
    };
    says(data, chars, long, Pairs::None, "at most 5.5");
    let ngrams = MaskingConfig {
        longest_ngram: Some(3),
        ..fine()
    };
    let rule = "longest_ngram has no effect: unit is not \"ngram\"";
    says(data, chars, ngrams, Pairs::None, rule);
    let none = MaskingConfig {
        longest_ngram: Some(0),
        unit: Unit::Ngram,
        ..fine()
    };
    says(data, chars, none, Pairs::None, "longest_ngram = 0");
    let small = Some("kind = \"bpe\"\nvocab_size = 258");
    says(
        data,
        small,
        fine(),
        Pairs::None,
        "5 special tokens need 261",
    );
    let vocab = "{\"a\": 0, \"<|endoftext|>\": 1}";
    folder.write("gpt/vocab.json", vocab.as_bytes());
    folder.write("gpt/merges.txt", b"");
    let gpt = Some("kind = \"pretrained\"\npath = \"gpt\"");
    says(
        data,
        gpt,
        fine(),
        Pairs::None,
        "no special tokens for the ends of a text",
    );
}
