//! Pairs of segments: labels, balance, lengths, and independence of workers and micro-batches.

use std::collections::BTreeMap;

use super::masked::{near, original, text, view, viewed};
use super::{Folder, shared};
use formwork::data::files::documents::{self, Beginnings, DocumentFormat};
use formwork::data::loader::{BatchSize, Order, step_batches};
use formwork::data::masked::masking::{MaskingConfig, Pairs};
use formwork::data::{Content, Data, NOT_SCORED, Split, TextItem, View};
use formwork::tokenizer::Tokenizer;

/// Documents A, B … of numbered sentences: sentence 3 of document B is `B3B3B3`.
fn documents(count: u8) -> String {
    let document = |d: u8| {
        let line = |i: usize| format!("{}{i}", char::from(b'A' + d)).repeat(1 + i % 4) + "\n";
        (0..5 + usize::from(d) % 5).map(line).collect::<String>()
    };
    (0..count).map(document).collect::<Vec<_>>().join("\n")
}

/// Returns the sentences of both segments, as (document, number).
fn segments(item: &TextItem, tokenizer: &Tokenizer) -> [Vec<(char, u32)>; 2] {
    let ids = original(item);
    let parts = item.segments.as_ref().unwrap();
    [0, 1].map(|part| {
        let ids = ids.iter().zip(parts).filter(|(_, p)| **p == part);
        let ids: Vec<u32> = ids
            .map(|(id, _)| *id)
            .filter(|id| !tokenizer.is_special(*id))
            .collect();
        let text = tokenizer.decode(&ids);
        let lines = text.lines().filter(|l| l.len() >= 2);
        lines
            .map(|l| (l.chars().next().unwrap(), l[1..2].parse().unwrap()))
            .collect()
    })
}

fn paired(pairs: Pairs, context: usize) -> Data {
    paired_with(MaskingConfig::default(), pairs, context)
}

fn paired_with(masking: MaskingConfig, pairs: Pairs, context: usize) -> Data {
    let folder = Folder::with(&[("t.txt", documents(20).as_bytes())]);
    let data = format!(
        "kind = \"text\"\npath = \"t.txt\"\nvalid_fraction = 0.2\ncontext = {context}\ndocuments = \"blank_lines\""
    );
    let view = view(masking, pairs);
    viewed(&folder.places(), &data, Some("kind = \"byte\""), &view, 5).unwrap()
}

#[test]
fn next_sentences_follow_or_come_from_another_document() {
    // Documents have at most 46 tokens, so nothing is cut off.
    let data = paired(Pairs::NextSentence, 100);
    let tokenizer = data.tokenizers.text.clone().unwrap();
    let (mut random, mut all) = (0, 0);
    for draw in 0..2000 {
        let item = text(data.train.as_ref(), draw % data.train.len() as u64, draw);
        assert!(
            item.inputs.len() <= 100 && item.segments.as_ref().unwrap().len() == item.inputs.len()
        );
        let [first, second] = segments(&item, &tokenizer);
        let (a, b) = (first[first.len() - 1], second[0]);
        let consecutive = |s: &[(char, u32)]| {
            s.windows(2)
                .all(|w| w[0].0 == w[1].0 && w[0].1 + 1 == w[1].1)
        };
        assert!(consecutive(&first) && consecutive(&second));
        match item.label {
            Some(0) => assert_eq!((a.0, a.1 + 1), b),
            Some(1) => assert_ne!(a.0, b.0),
            other => panic!("{other:?}"),
        }
        random += item.label.unwrap() as usize;
        all += 1;
    }
    assert!(near(random, all, 0.5), "{random} of {all}");
}

#[test]
fn swapped_sentences_are_in_the_wrong_order() {
    let data = paired(Pairs::SentenceOrder, 100);
    let tokenizer = data.tokenizers.text.clone().unwrap();
    let (mut swapped, mut all) = (0, 0);
    for draw in 0..2000 {
        let item = text(data.train.as_ref(), draw % data.train.len() as u64, draw);
        let [first, second] = segments(&item, &tokenizer);
        let (before, after) = match item.label {
            Some(0) => (first, second),
            Some(1) => (second, first),
            other => panic!("{other:?}"),
        };
        let (a, b) = (before[before.len() - 1], after[0]);
        assert_eq!((a.0, a.1 + 1), b);
        swapped += item.label.unwrap() as usize;
        all += 1;
    }
    assert!(near(swapped, all, 0.5), "{swapped} of {all}");
}

#[test]
fn static_masks_are_those_of_the_same_pairs() {
    let masking = MaskingConfig {
        copies: Some(3),
        ..MaskingConfig::default()
    };
    let data = paired_with(masking, Pairs::NextSentence, 40);
    let len = data.train.len() as u64;
    let drawn = |epoch: u64| -> Vec<TextItem> {
        let item = |sample| text(data.train.as_ref(), sample, epoch * len + sample);
        (0..len).map(item).collect()
    };
    assert_eq!(drawn(1), drawn(4));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn long_pairs_are_cut_to_the_context() {
    for pairs in [Pairs::NextSentence, Pairs::SentenceOrder] {
        let data = paired(pairs, 16);
        let mut full = 0;
        for draw in 0..1000 {
            let sample = draw % data.train.len() as u64;
            let item = text(data.train.as_ref(), sample, draw);
            assert!(item.inputs.len() <= 16 && data.train.size(sample) == 16);
            full += usize::from(item.inputs.len() == 16);
            let segments = item.segments.unwrap();
            let second = segments.iter().filter(|s| **s == 1).count();
            assert!(second >= 2 && segments.len() - second >= 3);
        }
        assert!(full > 500, "{full}");
    }
}

/// Inputs, targets, segments and label of a row.
type Row = (Vec<i32>, Vec<i32>, Option<Vec<i32>>, Option<i32>);

fn rows(data: &Data, micro: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut order = Order::new(9, BatchSize::Items(8));
    for step in 0..6 {
        for batch in step_batches(data.train.as_ref(), &mut order, micro, step).unwrap() {
            let Content::Text(c) = batch.content else {
                panic!("texts")
            };
            for row in 0..batch.rows {
                let cut = |all: &Vec<i32>| all[row * c.cols..(row + 1) * c.cols].to_vec();
                let label = c.labels.as_ref().map(|l| l[row]);
                rows.push((
                    cut(&c.inputs),
                    cut(&c.targets),
                    c.segments.as_ref().map(cut),
                    label,
                ));
            }
        }
    }
    rows
}

#[test]
fn neither_micro_batches_nor_threads_change_an_example() {
    for pairs in [Pairs::None, Pairs::NextSentence, Pairs::SentenceOrder] {
        let prepared = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| paired(pairs, 32))
        };
        let (one, four) = (prepared(1), prepared(4));
        let reference = rows(&one, 8);
        assert_eq!(reference.len(), 48);
        for micro in [1, 3, 5] {
            assert!(rows(&four, micro) == reference, "{pairs:?} {micro}");
        }
    }
}

#[test]
fn evaluations_are_the_same_for_every_seed() {
    let folder = Folder::with(&[("t.txt", documents(20).as_bytes())]);
    let data = "kind = \"text\"\npath = \"t.txt\"\nvalid_fraction = 0.2\ncontext = 32\ndocuments = \"blank_lines\"";
    let view = view(MaskingConfig::default(), Pairs::NextSentence);
    let items = |seed: u64, split: Split| -> Vec<TextItem> {
        let data = viewed(&folder.places(), data, Some("kind = \"byte\""), &view, seed).unwrap();
        let source = data.source(split).unwrap();
        (0..source.len() as u64)
            .map(|s| text(source.as_ref(), s, s))
            .collect()
    };
    assert_eq!(items(1, Split::Valid), items(2, Split::Valid));
    assert_ne!(items(1, Split::Train), items(2, Split::Train));
}

#[test]
fn the_files_of_roberta_have_its_frame() {
    let folder = Folder::new();
    let mut vocab: BTreeMap<String, u32> = BTreeMap::new();
    for name in ["<s>", "<pad>", "</s>", "<unk>"] {
        vocab.insert(name.into(), vocab.len() as u32);
    }
    for byte in 33..127u8 {
        vocab.insert(char::from(byte).into(), vocab.len() as u32);
    }
    for name in ["Ġ", "Ċ", "<mask>"] {
        vocab.insert(name.into(), vocab.len() as u32);
    }
    folder.write(
        "r/vocab.json",
        serde_json::to_string(&vocab).unwrap().as_bytes(),
    );
    folder.write("r/merges.txt", b"#version: 0.2\n");
    folder.write("t.txt", b"one two\nthree four\n");
    let view = view(MaskingConfig::default(), Pairs::SentenceOrder);
    let data = "kind = \"text\"\npath = \"t.txt\"\nvalid_fraction = 0.0\ncontext = 40";
    let data = viewed(
        &folder.places(),
        data,
        Some("kind = \"pretrained\"\npath = \"r\""),
        &view,
        1,
    )
    .unwrap();
    let tokenizer = data.tokenizers.text.clone().unwrap();
    assert_eq!((tokenizer.mask(), tokenizer.pad()), (Some(100), Some(1)));
    let item = (0..9)
        .map(|d| text(data.train.as_ref(), 0, d))
        .find(|i| i.label == Some(0))
        .unwrap();
    assert_eq!(
        tokenizer.decode(&original(&item)),
        "<s>one two\n</s></s>three four\n</s>"
    );
}

#[test]
fn the_articles_of_wikitext() {
    let Some(valid) = shared("wikitext2/valid.txt") else {
        return;
    };
    let test = shared("wikitext2/test.txt").unwrap();
    let reading = DocumentFormat {
        beginnings: Beginnings::Wikitext,
        ..DocumentFormat::default()
    };
    let train = shared("wikitext2/train.txt").unwrap();
    let articles = [&train, &valid, &test].map(|path| {
        let mut count = 0;
        documents::each(std::slice::from_ref(path), &reading, |_| {
            count += 1;
            Ok(())
        })
        .unwrap();
        count
    });
    assert_eq!(articles, [600, 60, 60]);
    let folder = Folder::new();
    let data = format!(
        "kind = \"text\"\npath = \"{}\"\nvalid_path = \"{}\"\ncontext = 128\ndocuments = \"wikitext\"",
        valid.display(),
        test.display()
    );
    let tokenizer = "kind = \"wordpiece\"\nvocab_size = 4000";
    let view = view(MaskingConfig::default(), Pairs::NextSentence);
    let data = viewed(&folder.places(), &data, Some(tokenizer), &view, 1).unwrap();
    let source = data.train.as_ref();
    let (mut tokens, mut random) = (0, 0);
    let len = source.len() as u64;
    for sample in 0..len {
        let item = text(source, sample, sample);
        tokens += item.inputs.len();
        random += item.label.unwrap() as usize;
    }
    assert!(near(random, len as usize, 0.5), "{random} of {len}");
    // Nine in ten examples are nearly full.
    assert!(tokens as f64 / len as f64 > 100.0, "{tokens} in {len}");
}

#[test]
fn the_grammar_needs_no_file() {
    let folder = Folder::new();
    let data = "kind = \"grammar\"\ndocuments = 50\nvalid_items = 10\ncontext = 48";
    let places = folder.places();
    for pairs in [Pairs::None, Pairs::NextSentence, Pairs::SentenceOrder] {
        let view = view(MaskingConfig::default(), pairs);
        let data = viewed(&places, data, None, &view, 1).unwrap();
        let tokenizer = data.tokenizers.text.clone().unwrap();
        let valid = data.valid.unwrap();
        let item = text(valid.as_ref(), 0, 0);
        let written = tokenizer.decode(&original(&item));
        assert!(
            written.starts_with("[CLS] ") && written.ends_with(" [SEP]"),
            "{written}"
        );
        assert!(!written.contains("[UNK]") && item.inputs.len() <= 48);
        assert_eq!(item.label.is_some(), pairs != Pairs::None);
    }
    let data = viewed(&places, data, None, &View::Plain, 1).unwrap();
    let item = text(data.train.as_ref(), 0, 0);
    assert_eq!(item.inputs[1..], item.targets[..47]);
}

#[test]
fn random_tokens_are_scored_at_a_share_of_the_positions() {
    let data = "kind = \"random_tokens\"\nvocab_size = 8000\ncontext = 128";
    let view = view(MaskingConfig::default(), Pairs::None);
    let data = viewed(&Folder::new().places(), data, None, &view, 1).unwrap();
    for sample in 0..20 {
        let item = text(data.train.as_ref(), sample, sample);
        let scored = item.targets.iter().filter(|t| **t != NOT_SCORED).count();
        assert_eq!((item.inputs.len(), scored), (128, 19));
    }
}
