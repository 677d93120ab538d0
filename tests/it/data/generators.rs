//! Generated problems: right answers, held-out problems never trained on, fixed validation sets.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{get, items, prepared};
use formwork::data::{Data, ExampleForm, Item, KINDS, NOT_SCORED, SearchPath, Source, TextItem};

fn generated(config: &str, seed: u64) -> Data {
    let places = SearchPath::with_folders(None, Vec::new(), "none".into());
    prepared(config, None, &places, seed).unwrap()
}

/// The text of an item, and the scored part of it.
fn texts(data: &Data, item: &TextItem) -> (String, String) {
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let of = |ids: &mut dyn Iterator<Item = &i32>| {
        tokenizer.decode(
            &ids.filter(|i| **i != NOT_SCORED)
                .map(|i| *i as u32)
                .collect::<Vec<_>>(),
        )
    };
    (of(&mut item.inputs.iter()), of(&mut item.targets.iter()))
}

#[test]
fn every_answer_is_right_and_only_it_is_scored() {
    let arithmetic = "kind = \"arithmetic\"\ndigits = 3\noperations = [\"+\", \"-\", \"*\"]";
    let data = generated(arithmetic, 1);
    for sample in 0..2000 {
        let (text, answer) = texts(&data, &get(&data.train, sample));
        let (question, shown) = text.split_once('=').unwrap();
        assert_eq!(format!("{}\n", shown), answer);
        let (a, b) = (
            question[..3].parse::<i64>().unwrap(),
            question[4..].parse::<i64>().unwrap(),
        );
        let result = match &question[3..4] {
            "+" => a + b,
            "-" => a - b,
            _ => a * b,
        };
        assert_eq!(answer.trim().parse::<i64>().unwrap(), result);
    }
    let data = generated("kind = \"arithmetic\"\nreversed = true", 1);
    let (text, _) = texts(&data, &get(&data.train, 0));
    let answer: String = text[6..].chars().rev().collect();
    let sum = text[..2].parse::<u32>().unwrap() + text[3..5].parse::<u32>().unwrap();
    assert_eq!(answer.parse::<u32>().unwrap(), sum);
    assert_eq!((data.shape.context, data.shape.vocab_size), (9, 13));
}

#[test]
fn strings() {
    for (kind, right) in [
        ("copy", (|s| s) as fn(String) -> String),
        ("reverse", |s| s.chars().rev().collect()),
        ("sort", |s| {
            let mut c: Vec<char> = s.chars().collect();
            c.sort_unstable();
            c.into_iter().collect()
        }),
    ] {
        let data = generated(
            &format!("kind = \"{kind}\"\nlength = 6\nmin_length = 3\nsymbols = 20"),
            1,
        );
        let mut lengths = BTreeSet::new();
        for sample in 0..300 {
            let item = get(&data.train, sample);
            assert_eq!((item.inputs.len(), item.targets.len()), (13, 13));
            let (text, answer) = texts(&data, &item);
            let string = text.split_once('=').unwrap().0.to_owned();
            lengths.insert(string.len());
            assert_eq!(answer, right(string) + "\n");
        }
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
    }
}

#[test]
fn held_out_problems_are_never_trained_on() {
    for config in [
        "kind = \"arithmetic\"\ntest_items = 500",
        "kind = \"copy\"\nlength = 4\nsymbols = 5\ntest_items = 100",
        "kind = \"sort\"\nlength = 3\nmin_length = 1\nsymbols = 9\ntest_items = 100",
    ] {
        let data = generated(config, 1);
        let question = |item: &TextItem| {
            let text = texts(&data, item).0;
            let question = text.split_once('=').unwrap().0.to_owned();
            // A sum and its mirror image are one problem.
            match question.split_once('+') {
                Some((a, b)) => format!("{}+{}", a.min(b), a.max(b)),
                None => question,
            }
        };
        let set =
            |source: &Arc<dyn Source>| items(source).iter().map(question).collect::<BTreeSet<_>>();
        let (valid, test) = (
            set(data.valid.as_ref().unwrap()),
            set(data.test.as_ref().unwrap()),
        );
        assert!(
            valid.len() > 20 && test.len() > 20 && valid.is_disjoint(&test),
            "{config}"
        );
        let train: BTreeSet<String> = (0..20_000)
            .map(|s| question(&get(&data.train, s)))
            .collect();
        assert!(
            train.is_disjoint(&valid) && train.is_disjoint(&test),
            "{config}"
        );
        // Another seed gives other training data and the same validation data.
        let other = generated(config, 2);
        assert_eq!(
            items(other.valid.as_ref().unwrap()),
            items(data.valid.as_ref().unwrap())
        );
        assert_ne!(get(&other.train, 0).inputs, get(&data.train, 0).inputs);
    }
}

#[test]
fn random_tokens() {
    let data = generated(
        "kind = \"random_tokens\"\nvocab_size = 70000\ncontext = 32\nvalid_items = 3",
        1,
    );
    let item = get(&data.train, 5);
    assert_eq!(item, get(&data.train, 5));
    assert_eq!(item.inputs[1..], item.targets[..31]);
    assert!(
        item.inputs.iter().any(|i| *i > 65535)
            && item.inputs.iter().all(|i| (0..70000).contains(i))
    );
    assert_eq!(data.valid.unwrap().len(), 3);
}

#[test]
fn every_example_of_the_table_is_a_configuration() {
    for kind in KINDS {
        let table: toml::Table = toml::from_str(kind.example).unwrap();
        let config: formwork::data::DataConfig = table["data"].clone().try_into().unwrap();
        assert_eq!(config.kind(), kind.kind);
        // Kinds that need no file and no tokenizer can be prepared from their example.
        let has_examples = kind.kind != "none";
        if has_examples
            && config.data_set().paths().is_empty()
            && !config.data_set().needs_tokenizer()
        {
            assert!(config.faults(None).is_empty());
            let data = generated(&toml::to_string(&config).unwrap(), 3);
            assert_eq!(data.shape.context, config.context());
            let size = match data.train.get(0, 0).unwrap() {
                Item::Text(item) => {
                    let pairs = config.data_set().example_form() == ExampleForm::Preferences;
                    let longest = data.shape.context * if pairs { 2 } else { 1 };
                    assert!(item.inputs.len() <= longest, "{}", kind.kind);
                    (1, 1)
                }
                Item::Pair(item) => (item.source.len().min(1), 1),
                Item::Captioned(item) => {
                    assert!(item.caption.len() <= data.shape.context, "{}", kind.kind);
                    (
                        item.image.pixels.len(),
                        data.shape.image.unwrap().iter().product(),
                    )
                }
                Item::Spoken(item) => {
                    assert!(item.transcript.len() < data.shape.context, "{}", kind.kind);
                    let shape = data.shape.speech.unwrap();
                    (item.speech.features.len(), shape.n_mels * shape.n_frames)
                }
                Item::Image(item) => (
                    item.pixels.len(),
                    data.shape.image.unwrap().iter().product(),
                ),
            };
            assert_eq!(size.0, size.1);
        }
    }
}
