//! Rules of beam search: tokens that are never written, limits of length, ties, scores that are not finite, faults of keys.

use super::{END, Model, config, log, random, rules, sentence};
use formwork::generate::beam::{
    AverageConfig, BeamConfig, LengthLimit, LengthPenalty, TokenRules, search,
};
use formwork::tokenizer::{CharConfig, MarkNames, Tokenizer, TokenizerConfig};
use std::collections::BTreeSet;

#[test]
fn lengths_and_banned_tokens_are_kept_to() {
    for seed in 0..40 {
        let rules = TokenRules {
            ends: vec![END],
            banned: vec![3, 5, 999],
        };
        let config = BeamConfig {
            n_best: 4,
            min_len: 3,
            ..BeamConfig::default()
        };
        let mut model = Model::new(2, random(seed, 8, 3.0));
        let found = search(&mut model, &[sentence(6), sentence(2)], &rules, &config).unwrap();
        let lens = |of: usize| found[of].iter().map(|h| h.tokens.len());
        assert!(lens(0).all(|len| (3..=6).contains(&len)));
        assert!(lens(1).all(|len| len == 2));
        let mut tokens = found.iter().flatten().flat_map(|h| &h.tokens);
        assert!(tokens.all(|t| ![END, 3, 5].contains(t)));
    }
    // With settings: no text contains a suppressed token, begins with one of `suppress_first`, or is empty.
    for seed in 0..40 {
        let config = BeamConfig {
            n_best: 4,
            suppress: vec![4],
            suppress_first: vec![2, END],
            ..BeamConfig::default()
        };
        let mut model = Model::new(1, random(seed, 8, 3.0));
        let found = search(&mut model, &[sentence(5)], &rules(), &config).unwrap();
        for text in found[0].iter().map(|h| &h.tokens) {
            assert!(
                !text.contains(&4) && text.first().is_some_and(|first| *first != 2),
                "{text:?}"
            );
        }
    }
    // No token occurs twice while others are left, the one before the text included.
    for seed in 0..40 {
        let config = BeamConfig {
            n_best: 4,
            no_repeat_ngram_size: 1,
            suppress: vec![END],
            ..BeamConfig::default()
        };
        let mut model = Model::new(1, random(seed, 8, 3.0));
        let found = search(&mut model, &[sentence(9)], &rules(), &config).unwrap();
        for text in found[0].iter().map(|h| &h.tokens) {
            let once: BTreeSet<u32> = text.iter().take(6).copied().collect();
            assert_eq!((once.len(), text.len()), (6, 9), "{text:?}");
        }
    }
    let mut model = Model::new(1, random(1, 8, 3.0));
    let found = search(&mut model, &[sentence(0)], &rules(), &BeamConfig::default()).unwrap();
    assert!(found[0][0].tokens.is_empty());
    let config = BeamConfig {
        max_len_a: 1.5,
        max_len_b: 10,
        ..BeamConfig::default()
    };
    assert_eq!(config.max_len(7), 20);
}

#[test]
fn tokens_that_the_vocabulary_lacks_are_refused() {
    let usual = BeamConfig::default;
    for (config, told) in [
        (
            BeamConfig {
                first: Some(8),
                ..usual()
            },
            "[decode.search] first = 8 is not a token id: the vocabulary has 8 tokens, numbered from 0",
        ),
        (
            BeamConfig {
                suppress: vec![4, 999],
                ..usual()
            },
            "[decode.search] suppress: 999 is not a token id: the vocabulary has 8 tokens, numbered from 0",
        ),
        (
            BeamConfig {
                suppress_first: vec![9, 2],
                ..usual()
            },
            "[decode.search] suppress_first: 9 is not a token id: the vocabulary has 8 tokens, numbered from 0",
        ),
    ] {
        let mut model = Model::new(1, random(1, 8, 3.0));
        let found = search(&mut model, &[sentence(5)], &rules(), &config);
        assert_eq!(found.err().unwrap().to_string(), told);
    }
}

#[test]
fn equal_scores_are_decided_by_rank_then_by_token() {
    let flat = |read: &[u32]| match read.len() {
        1..3 => log(&[0.0, 0.25, 0.25, 0.25, 0.25]),
        _ => log(&[1.0, 0.0, 0.0, 0.0, 0.0]),
    };
    let config = config(3, 3, LengthPenalty::default());
    let mut model = Model::new(1, flat);
    let found = search(&mut model, &[sentence(9)], &rules(), &config).unwrap();
    let texts: Vec<_> = found[0].iter().map(|h| h.tokens.clone()).collect();
    assert_eq!(texts, [[1, 1], [1, 2], [1, 3]]);
}

#[test]
fn scores_that_are_no_log_probabilities_are_errors() {
    for (bad, expected) in [
        (vec![f32::NAN, -1.0], "not log-probabilities"),
        (vec![-1.0, f32::INFINITY], "not log-probabilities"),
        (vec![-1.0, 5.0], "not log-probabilities"),
        (vec![f32::NEG_INFINITY; 2], "no allowed token"),
    ] {
        let scores = move |read: &[u32]| match read.len() {
            1 => log(&[0.1, 0.9]),
            _ => bad.clone(),
        };
        let mut model = Model::new(1, scores);
        let why = search(&mut model, &[sentence(9)], &rules(), &BeamConfig::greedy());
        let why = why.unwrap_err().to_string();
        assert!(why.contains(expected) && why.contains("1 token"), "{why}");
    }
}

#[test]
fn keys_and_their_faults() {
    let read: BeamConfig =
        toml::from_str("beam = 5\nlength_penalty = { kind = \"average\", alpha = 0.8 }").unwrap();
    let penalty = LengthPenalty::Average(AverageConfig { alpha: 0.8 });
    assert_eq!(read, config(5, 1, penalty));
    assert!(read.faults("task.search").is_empty());
    assert!(toml::from_str::<BeamConfig>("beams = 5").is_err());
    assert!(
        toml::from_str::<BeamConfig>("length_penalty = { kind = \"none\", alpha = 1 }").is_err()
    );
    for (keys, expected) in [
        ("beam = 0", "beam = 0"),
        (
            "beam = 2\nn_best = 3",
            "n_best = 3 must be between 1 and beam = 2",
        ),
        ("max_len_a = -1.0", "max_len_a = -1"),
        ("max_len_a = nan", "max_len_a = NaN"),
        ("max_len_a = 0.0\nmax_len_b = 0", "both 0"),
        (
            "length_penalty = { kind = \"gnmt\", alpha = inf }",
            "alpha = inf",
        ),
    ] {
        let faults = toml::from_str::<BeamConfig>(keys)
            .unwrap()
            .faults("task.search");
        assert_eq!(faults.len(), 1, "{keys}: {faults:?}");
        assert!(
            faults[0].starts_with("[task.search] ") && faults[0].contains(expected),
            "{faults:?}"
        );
    }
}

/// The error names the smaller of two limits: the one of the search, and the positions of the model.
#[test]
fn a_text_has_one_limit() {
    let config = BeamConfig {
        max_len_a: 0.5,
        max_len_b: 4,
        ..BeamConfig::default()
    };
    assert_eq!(config.limited_len(6, None), (7, LengthLimit::Search));
    assert_eq!(config.limited_len(6, Some(7)), (7, LengthLimit::Search));
    assert_eq!(config.limited_len(6, Some(5)), (5, LengthLimit::Model));
    assert_eq!(config.limited_len(6, Some(0)), (1, LengthLimit::Model));
    assert_eq!(
        config.describe_limit(LengthLimit::Model),
        "the number of positions of the model"
    );
    assert_eq!(
        config.describe_limit(LengthLimit::Search),
        "decode.search.max_len_a = 0.5 and max_len_b = 4"
    );
    let alone = BeamConfig {
        max_len_a: 0.0,
        ..config
    };
    assert_eq!(
        alone.describe_limit(LengthLimit::Search),
        "decode.search.max_len_b = 4"
    );
}

#[test]
fn a_text_has_no_special_token_but_its_end() {
    let characters = TokenizerConfig::Char(CharConfig {
        unknown: Some("<unk>".into()),
        ..CharConfig::default()
    });
    let tokenizer = Tokenizer::build(&characters.with_marks(&MarkNames::default()), &["ab"]);
    let tokenizer = tokenizer.unwrap();
    let rules = TokenRules::of(&tokenizer).unwrap();
    assert_eq!(tokenizer.token(rules.ends[0]).unwrap(), "</s>");
    let banned = rules.banned.iter().map(|id| tokenizer.token(*id).unwrap());
    let mut banned: Vec<String> = banned.collect();
    banned.sort();
    assert_eq!(banned, ["<pad>", "<s>", "<sep>", "<unk>"]);
    let unmarked = Tokenizer::build(&TokenizerConfig::Char(CharConfig::default()), &["ab"]);
    assert!(TokenRules::of(&unmarked.unwrap()).is_err());
}
