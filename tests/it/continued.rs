//! The most likely continuations of prompts: against transformers' beam search (`tests/goldens/make_continued.py` makes the
//! oracle), against all continuations over a tiny vocabulary, and with every kind of layer state as rows change places.

use crate::binary::shipped;
use crate::contracts::plain;
use crate::kinds;
use crate::oracle::{Oracle, decoder_of};
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::generate::beam::{AtLimit, AverageConfig, DoneWhen};
use formwork::generate::{
    BeamConfig, Hypothesis, LengthPenalty, Sampling, TextGenerator, search_continuations,
};
use formwork::interop::read_hf;
use formwork::model::{BuildContext, Decoder, DecoderConfig};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of tokens in the oracle's continuations.
const LIMIT: usize = 7;

/// A search with the conventions of transformers.
fn search(beam: usize, alpha: f64, done_when: DoneWhen) -> BeamConfig {
    BeamConfig {
        beam,
        n_best: beam,
        length_penalty: LengthPenalty::Average(AverageConfig { alpha }),
        at_limit: AtLimit::Any,
        done_when,
        ..BeamConfig::default()
    }
}

/// Returns the tokens of a text of at most `most` tokens, followed by its end token if that is known: if `ends` has only one.
fn with_end(found: &Hypothesis, most: usize, ends: &[u32]) -> Vec<u32> {
    let mut tokens = found.tokens.clone();
    if let ([end], true) = (ends, tokens.len() < most) {
        tokens.push(*end);
    }
    tokens
}

/// Returns the settings of a set by its name: beam width, length penalty and stopping rule; the number of end tokens; repetition
/// penalty and size of n-grams that are not repeated.
fn named(way: &str) -> (BeamConfig, usize, Sampling) {
    let parts: Vec<&str> = way.split('_').collect();
    let [beam, alpha, early, ends, repetition, ngram] = parts[..] else {
        panic!("{way} is no set");
    };
    let done_when = match early {
        "full" => DoneWhen::Full,
        "unlikely" => DoneWhen::Unlikely,
        _ => DoneWhen::Settled,
    };
    let config = search(beam.parse().unwrap(), alpha.parse().unwrap(), done_when);
    let sampling = Sampling {
        repetition_penalty: repetition.parse().unwrap(),
        no_repeat_ngram_size: ngram.parse().unwrap(),
        ..Sampling::default()
    };
    (config, ends.parse().unwrap(), sampling)
}

/// Rows of tokens padded with -1.
fn texts(oracle: &Oracle, name: &str) -> Vec<Vec<u32>> {
    let (shape, flat) = oracle.integers(name);
    let rows = flat.chunks(shape[shape.len() - 1]);
    rows.map(|row| {
        let tokens = row.iter().filter(|token| **token >= 0);
        tokens.map(|token| *token as u32).collect()
    })
    .collect()
}

#[test]
fn imported_decoders_find_the_texts_and_scores_of_hugging_face() {
    let (oracle, device) = (Oracle::open("continued"), Device::flex());
    let names = oracle.names();
    let mut compared = 0;
    for folder in names
        .iter()
        .filter_map(|name| name.strip_suffix(".prompts"))
    {
        let hf = read_hf(&shipped("tests/fixtures/hf").join(folder), &[]).unwrap();
        let model = decoder_of(&hf, &device).unwrap();
        let prompts = texts(&oracle, &format!("{folder}.prompts"));
        let all_ends = texts(&oracle, &format!("{folder}.ends")).concat();
        let of_folder = names
            .iter()
            .filter_map(|name| name.strip_prefix(folder)?.strip_prefix('.'));
        for way in of_folder.filter(|way| way.starts_with(|c: char| c.is_ascii_digit())) {
            let (config, ends, sampling) = named(way);
            let ends = &all_ends[..ends];
            let theirs = texts(&oracle, &format!("{folder}.{way}"));
            let scores = oracle.array(&format!("{folder}.scores.{way}")).values;
            let theirs = theirs.chunks(config.beam).zip(scores.chunks(config.beam));
            for (prompt, (theirs, scores)) in prompts.iter().zip(theirs) {
                let generator = TextGenerator::new(&model, 32, &[prompt]).unwrap();
                let found =
                    search_continuations(generator, LIMIT, ends, &sampling, &config).unwrap();
                assert_eq!(found[0].len(), config.beam);
                for ((ours, theirs), score) in found[0].iter().zip(theirs).zip(scores) {
                    // With several end tokens, a hypothesis does not say which one ended it.
                    let last = theirs.last().filter(|last| ends.contains(last));
                    let end: Vec<u32> = last.copied().into_iter().collect();
                    let place = format!("{folder}, {way}, behind {prompt:?}");
                    assert_eq!(with_end(ours, theirs.len(), &end), *theirs, "{place}");
                    let off = (ours.score - f64::from(*score)).abs();
                    assert!(off < 2e-5, "{place}: off by {off:e}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 7 * 6 * (2 + 3 + 4 + 4 + 3 + 4 + 3 + 3 + 3 + 2));
}

/// A small decoder with these keys and vocabulary size.
fn decoder(keys: &Value, vocab_size: usize) -> Decoder {
    let mut config =
        json!({ "n_layers": 2, "d_model": 16, "init": { "kind": "gpt2", "std": 0.4 } });
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    let config: DecoderConfig = serde_json::from_value(config).unwrap();
    built(&config, vocab_size)
}

fn built(config: &DecoderConfig, vocab_size: usize) -> Decoder {
    materialize(name_parameters(config.init(&BuildContext {
        shape: &Shape::of_text(9, vocab_size),
        seed: 5,
        device: &Device::flex(),
    })))
}

fn log_prob(logits: &[f32], token: u32) -> f64 {
    let sum: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
    f64::from(logits[token as usize]) - sum.ln()
}

/// Returns every continuation of up to `most` tokens with its log-probability, from full passes; token 0 ends a text.
fn enumerated(model: &Decoder, prompt: &[u32], most: usize, vocab: u32) -> BTreeMap<Vec<u32>, f64> {
    let mut all = BTreeMap::new();
    let mut open: Vec<(Vec<u32>, f64)> = vec![(Vec::new(), 0.0)];
    while let Some((text, sum)) = open.pop() {
        let read = [prompt, &text[..]].concat();
        let read: Vec<i32> = read.iter().map(|token| *token as i32).collect();
        let logits = plain(model, &read, 1);
        let next = &logits[logits.len() - vocab as usize..];
        for token in 0..vocab {
            let (longer, sum) = ([&text[..], &[token]].concat(), sum + log_prob(next, token));
            if token == 0 || longer.len() == most {
                all.insert(longer, sum);
            } else {
                open.push((longer, sum));
            }
        }
    }
    all
}

#[test]
fn a_beam_that_holds_everything_finds_every_continuation_in_order() {
    let attention = json!({ "kind": "multi_head", "n_heads": 4 });
    let mixer = json!([{ "mixer": { "kind": "mamba", "dt_rank": 3 } }]);
    for keys in [
        json!({ "attention": attention }),
        json!({ "attention": { "kind": "sliding_window", "n_heads": 4, "window": 2 } }),
        json!({ "layers": mixer, "position": { "kind": "none" } }),
    ] {
        let model = decoder(&keys, 5);
        let prompt = [3, 1, 4, 1];
        let all = enumerated(&model, &prompt, 3, 5);
        // The end at once, after one token, and after two, where the third token may be any.
        assert_eq!(all.len(), 1 + 4 + 16 * 5);
        for alpha in [0.0, 1.0, -0.5] {
            let config = search(100, alpha, DoneWhen::Settled);
            let generator = TextGenerator::new(&model, 9, &[&prompt]).unwrap();
            let found =
                search_continuations(generator, 3, &[0], &Sampling::default(), &config).unwrap();
            assert_eq!(found[0].len(), all.len(), "{keys}");
            let mut texts = BTreeSet::new();
            for ours in &found[0] {
                let text = with_end(ours, 3, &[0]);
                let sum = all[&text];
                assert!((ours.log_prob - sum).abs() < 1e-4, "{keys}: {text:?}");
                let score = sum / (text.len() as f64).powf(alpha);
                assert!((ours.score - score).abs() < 1e-4, "{keys}: {text:?}");
                texts.insert(text);
            }
            assert_eq!(texts.len(), all.len(), "{keys}: each once");
            assert!(found[0].is_sorted_by(|a, b| a.score >= b.score), "{keys}");
        }
    }
}

/// Returns the log-probability of a text behind a prompt, read token by token in a row of its own.
fn alone(model: &Decoder, prompt: &[u32], text: &[u32]) -> f64 {
    let mut generator = TextGenerator::new(model, 9, &[prompt]).unwrap();
    let mut sum = 0.0;
    for (place, token) in text.iter().enumerate() {
        if place > 0 {
            generator.push(&text[place - 1..place]);
        }
        sum += log_prob(generator.logits(0), *token);
    }
    sum
}

/// Also beyond the end of the context.
#[test]
fn hypotheses_of_every_kind_go_on_from_the_state_of_the_one_they_follow() {
    const MOST: usize = 11;
    let prompts: [&[u32]; 2] = [&[3, 1, 4], &[2, 6, 5]];
    let kinds = kinds::all().into_iter().chain(kinds::regrouping());
    for (name, config) in kinds {
        let model = built(&config, 17);
        let generator = TextGenerator::new(&model, 9, &prompts).unwrap();
        let config = search(3, 1.0, DoneWhen::Settled);
        let found =
            search_continuations(generator, MOST, &[0], &Sampling::default(), &config).unwrap();
        for (prompt, found) in prompts.iter().zip(&found) {
            assert_eq!(found.len(), 3, "{name}");
            for ours in found {
                let text = with_end(ours, MOST, &[0]);
                let off = (ours.log_prob - alone(&model, prompt, &text)).abs();
                assert!(off < 1e-3, "{name}: {text:?} is off by {off:e}");
            }
        }
    }
}

#[test]
fn texts_without_an_end_stop_at_their_limit() {
    let model = decoder(
        &json!({ "attention": { "kind": "multi_head", "n_heads": 4 } }),
        17,
    );
    let greedy = Sampling {
        temperature: 0.0,
        ..Sampling::default()
    };
    for most in [1, 6, 20] {
        // An id outside the vocabulary ends no text.
        for ends in [&[][..], &[17, 99999]] {
            let begun = || TextGenerator::new(&model, 9, &[&[3, 1, 4]]).unwrap();
            let found = |beam| {
                let config = search(beam, 1.0, DoneWhen::Unlikely);
                let found =
                    search_continuations(begun(), most, ends, &Sampling::default(), &config);
                found.unwrap().remove(0)
            };
            assert!(found(4).iter().all(|text| text.tokens.len() == most));
            let mut generator = begun();
            (0..most).for_each(|_| drop(generator.next(&greedy)));
            assert_eq!(found(1)[0].tokens, generator.tokens(0)[3..]);
        }
    }
}
