//! Texts of files as denoising reads them: pairs with every vocabulary, and the dependence of draws on seeds.

use super::masked::viewed;
use super::{Folder, prose};
use formwork::data::{CorruptedView, Data, Item, PairItem, Source, View};
use formwork::tokenizer::Tokenizer;
use serde_json::json;

const TEXT: &str = "kind = \"text\"\npath = \"t.txt\"\ncontext = 40\nvalid_fraction = 0.2\ndocuments = \"wikitext\"";

/// Two articles made of sentences.
fn articles() -> String {
    let lines = prose(200);
    let (one, two) = lines.split_at(lines.len() / 2);
    let sentences = |text: &str| -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        let sentences = words.chunks(3).map(|s| format!("{} . ", s.join(" ")));
        sentences.collect()
    };
    (0..6)
        .map(|_| format!(" = Title = \n {}\n {}\n", sentences(one), sentences(two)))
        .collect()
}

fn read(keys: serde_json::Value, tokenizer: &str, seed: u64) -> (Data, Tokenizer) {
    let folder = Folder::with(&[("t.txt", articles().as_bytes())]);
    let config = serde_json::from_value(keys).unwrap();
    let view = View::Corrupted(CorruptedView::Denoising(config));
    let data = viewed(&folder.places(), TEXT, Some(tokenizer), &view, seed).unwrap();
    let tokenizer = data.tokenizers.text.clone().unwrap();
    (data, tokenizer)
}

fn pair(source: &dyn Source, sample: u64, draw: u64) -> PairItem {
    match source.get(sample, draw).unwrap() {
        Item::Pair(pair) => pair,
        other => panic!("{other:?}"),
    }
}

const TOKENIZERS: [&str; 6] = [
    "kind = \"char\"",
    "kind = \"byte\"",
    "kind = \"word\"",
    "kind = \"wordpiece\"\nvocab_size = 200",
    "kind = \"bpe\"\nvocab_size = 300",
    "kind = \"unigram\"\nvocab_size = 200",
];

#[test]
fn targets_are_the_text_with_every_vocabulary() {
    for kind in TOKENIZERS {
        let (data, tokenizer) = read(json!({}), kind, 7);
        let (frame, mask) = (tokenizer.frame().unwrap(), tokenizer.mask().unwrap() as i32);
        assert_eq!(tokenizer.marks().unwrap().begin, frame.begin, "{kind}");
        let (mut tokens, mut masks, mut whole) = (0, 0, 0);
        for sample in 0..data.train.len() as u64 {
            let PairItem { source, target } = pair(data.train.as_ref(), sample, 100 + sample);
            let ends = [frame.begin as i32, frame.end as i32];
            for side in [&source, &target] {
                assert!(side.len() <= 40, "{kind}");
                assert_eq!([side[0], side[side.len() - 1]], ends, "{kind}");
            }
            let inside = &target[1..target.len() - 1];
            assert!(!inside.contains(&mask), "{kind}");
            tokens += inside.len() as u64;
            masks += source.iter().filter(|id| **id == mask).count();
            let text: Vec<u32> = inside.iter().map(|id| *id as u32).collect();
            whole += usize::from(tokenizer.decode(&text).trim().ends_with('.'));
        }
        assert_eq!(
            tokens, data.tokens.train,
            "{kind}: an epoch reads every token once"
        );
        assert!(
            masks as u64 > tokens / 200,
            "{kind}: {masks} masks in {tokens} tokens"
        );
        // If sentences are shorter than the context, most texts end with a sentence.
        let short = !matches!(kind, "kind = \"char\"" | "kind = \"byte\"");
        assert!(!short || whole > data.train.len() / 2, "{kind}: {whole}");
    }
}

#[test]
fn draws_are_functions_of_seed_sample_and_draw() {
    let read = |seed| read(json!({}), TOKENIZERS[4], seed).0;
    let (one, two) = (read(1), read(2));
    let train = |data: &Data, draw| pair(data.train.as_ref(), 3, draw);
    assert_eq!(train(&one, 5), train(&one, 5));
    assert_ne!(train(&one, 5).source, train(&one, 6).source);
    assert_ne!(train(&one, 5).source, train(&two, 5).source);
    assert_eq!(train(&one, 5).target, train(&two, 6).target);
    // Evaluations have the same noise for every seed.
    let valid = |data: &Data, sample| pair(data.valid.as_ref().unwrap().as_ref(), sample, sample);
    assert!((0..4).all(|sample| valid(&one, sample) == valid(&two, sample)));
}
