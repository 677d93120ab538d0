//! Pairs with real vocabularies and real lengths: special tokens, exact round trips, batches by tokens.

use std::collections::BTreeSet;

use super::pairs::{Folder, LINES, owned, texts};
use formwork::data::Content;
use formwork::data::loader::{BatchSize, Order, step_batches};
use formwork::tokenizer::{
    BpeConfig, ByteConfig, CharConfig, MarkNames, Tokenizer, TokenizerConfig, UnigramConfig,
    WordpieceConfig,
};

fn built(config: TokenizerConfig) -> Tokenizer {
    let text = "a man is riding a horse. a woman is riding a bicycle. ein mann reitet.";
    Tokenizer::build(&config.with_marks(&MarkNames::default()), &[text]).unwrap()
}

#[test]
fn every_tokenizer_that_is_trained_gets_the_marks_that_it_lacks() {
    let kinds = [
        TokenizerConfig::Char(CharConfig::default()),
        TokenizerConfig::Byte(ByteConfig::default()),
        TokenizerConfig::Bpe(BpeConfig::default()),
        TokenizerConfig::Wordpiece(WordpieceConfig::default()),
        TokenizerConfig::Unigram(UnigramConfig::default()),
    ];
    let expected = [
        ["<s>", "</s>", "<sep>", "<pad>"],
        ["<s>", "</s>", "<sep>", "<pad>"],
        ["<s>", "<|endoftext|>", "<sep>", "<pad>"],
        ["[CLS]", "[SEP]", "[SEP]", "[PAD]"],
        ["<s>", "</s>", "<sep>", "<pad>"],
    ];
    for (config, names) in kinds.into_iter().zip(expected) {
        let kind = config.kind();
        let tokenizer = built(config);
        let marks = tokenizer.marks().unwrap();
        let ids = [
            marks.begin,
            marks.end,
            marks.separator().unwrap(),
            marks.pad.unwrap(),
        ];
        assert_eq!(ids.map(|id| tokenizer.token(id).unwrap()), names, "{kind}");
        assert!(
            ids.iter().all(|id| tokenizer.specials().contains(id)),
            "{kind}"
        );
        let mut framed = vec![marks.begin];
        framed.extend(tokenizer.encode("a man").unwrap());
        framed.push(marks.end);
        assert_eq!(tokenizer.decode_text(&framed), "a man", "{kind}");
    }
}

#[test]
fn names_that_are_given_stay_with_the_file() {
    let plain = Tokenizer::build(&TokenizerConfig::Bpe(BpeConfig::default()), &["a b"]);
    let plain = plain.unwrap();
    let why = plain.marks().unwrap_err().to_string();
    assert!(
        why.contains("begins a text") && why.contains("begin = "),
        "{why}"
    );
    let names = MarkNames {
        begin: Some("<|endoftext|>".into()),
        ..MarkNames::default()
    };
    let marked = plain.with_marks(&names).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    marked.save(&path).unwrap();
    let marks = Tokenizer::load(&path).unwrap().marks().unwrap();
    assert_eq!(marks.begin, marks.end);
    assert!(marks.separator().is_err());
    let unknown = MarkNames {
        end: Some("<nothing>".into()),
        ..MarkNames::default()
    };
    assert!(plain.with_marks(&unknown).is_err());
}

/// Every tokenizer that keeps blanks decodes a text that is in no file to itself.
#[test]
fn texts_come_back() {
    let lines = super::prose(300);
    let folder = Folder::with(&[("a.en", lines.as_bytes()), ("a.de", lines.as_bytes())]);
    for tokenizer in [
        "kind = \"bpe\"\nvocab_size = 400",
        "kind = \"unigram\"\nvocab_size = 120",
        "kind = \"byte\"",
    ] {
        let data = folder.prepare(LINES, tokenizer).unwrap();
        let expected: Vec<&str> = lines.lines().collect();
        let read = texts(&data, &data.train);
        assert!(read.iter().zip(expected).all(|(r, e)| r.0 == e && r.1 == e));
        assert_eq!(
            data.shape.vocab_size,
            data.tokenizers.text.unwrap().vocab_size()
        );
    }
}

const MULTI30K: &str = "kind = \"pairs\"\nsource = \"multi30k/train.en\"\ntarget = \"multi30k/train.de\"\n\
    valid_source = \"multi30k/val.en\"\nvalid_target = \"multi30k/val.de\"\n\
    test_source = [\"multi30k/test_2016_flickr.en\", \"multi30k/test_2017_flickr.en\"]\n\
    test_target = [\"multi30k/test_2016_flickr.de\", \"multi30k/test_2017_flickr.de\"]\n\
    max_len = 64";

#[test]
fn multi30k_in_batches_of_tokens() {
    if super::shared("multi30k/train.en").is_none() {
        return;
    }
    let folder = Folder::with(&[]);
    let data = folder
        .prepare(MULTI30K, "kind = \"bpe\"\nvocab_size = 8000")
        .unwrap();
    assert_eq!(data.train.len() + data.left_out, 29_000);
    assert!(data.left_out < 30, "{}", data.left_out);
    assert_eq!(data.valid.as_ref().unwrap().len(), 1014);
    let test = data.pairs.test.as_ref().unwrap();
    assert_eq!(
        (test.len(), data.test.as_ref().unwrap().len()),
        (2000, 2000)
    );
    assert_eq!(data.shape.vocab_size, 8000);
    let held_out = texts(&data, data.test.as_ref().unwrap());
    let same =
        |i: usize| held_out[i].0 == test.sources[i] && held_out[i].1 == test.references[i][0];
    assert!((0..2000).all(same));
    // Batches of 2048 tokens: every pair once per epoch, with little padding.
    let mut order = Order::new(1, BatchSize::Tokens(2048));
    let (mut seen, mut cells, mut tokens, mut step) = (BTreeSet::new(), 0, 0, 0);
    let mut count = 0;
    while count < data.train.len() {
        for batch in step_batches(data.train.as_ref(), &mut order, 1 << 20, step).unwrap() {
            let Content::Pairs(c) = &batch.content else {
                panic!("no pairs")
            };
            assert!(batch.rows * c.source_cols.max(c.target_cols + 1) <= 2048);
            cells += c.source.len() + c.inputs.len();
            tokens += c
                .source_lengths
                .iter()
                .chain(&c.target_lengths)
                .sum::<usize>();
            count += batch.rows;
            seen.extend(batch.samples);
        }
        step += 1;
    }
    assert_eq!((seen.len(), count), (data.train.len(), data.train.len()));
    let padding = 1.0 - tokens as f64 / cells as f64;
    eprintln!("multi30k: {step} batches, {tokens} tokens, {padding:.3} of the cells are padding");
    assert!(padding < 0.16, "{padding}");
}

#[test]
fn scitldr() {
    if super::shared("scitldr/train.jsonl").is_none() {
        return;
    }
    let folder = Folder::with(&[]);
    let keys = "kind = \"pairs\"\npath = \"scitldr/train.jsonl\"\nvalid_path = \"scitldr/dev.jsonl\"\n\
                test_path = \"scitldr/test.jsonl\"\nmax_len = 512\ntruncate = true";
    let data = folder
        .prepare(keys, "kind = \"bpe\"\nvocab_size = 8000")
        .unwrap();
    assert_eq!((data.train.len(), data.left_out), (1992, 0));
    assert_eq!(data.valid.unwrap().len(), 619);
    assert_eq!(data.test.unwrap().len(), 618);
    let references = &data.pairs.test.unwrap().references;
    assert!(references.iter().map(Vec::len).max() > Some(1));
}

#[test]
fn pretrained_vocabularies_have_marks_or_are_told_them() {
    if super::shared("tokenizers/gpt2").is_none() {
        return;
    }
    let folder = Folder::with(&[("a.en", b"one two\n"), ("a.de", b"eins zwei\n")]);
    let gpt2 = "kind = \"pretrained\"\npath = \"tokenizers/gpt2\"";
    let why = folder.refused(LINES, gpt2);
    assert!(
        why.contains("begins a text") && why.contains("marks = {"),
        "{why}"
    );
    let keys = format!("{LINES}\nmarks = {{ begin = \"<|endoftext|>\" }}");
    let data = folder.prepare(&keys, gpt2).unwrap();
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    assert_eq!(
        texts(&data, &data.train),
        owned(&[("one two", "eins zwei")])
    );
    let marks = tokenizer.marks().unwrap();
    assert_eq!(
        (marks.begin, marks.end, marks.separator),
        (50256, 50256, None)
    );
    assert!(
        tokenizer
            .with_marks(&MarkNames {
                pad: Some("?no?".into()),
                ..MarkNames::default()
            })
            .is_err()
    );
    let t5 = format!("{LINES}\nmarks = {{ begin = \"<pad>\" }}");
    let data = folder
        .prepare(&t5, "kind = \"pretrained\"\npath = \"tokenizers/t5\"")
        .unwrap();
    let marks = data.tokenizers.text.unwrap().marks().unwrap();
    assert_eq!((marks.begin, marks.end, marks.pad), (0, 1, Some(0)));
}
