//! The tokens that sampling keeps and their probabilities, against transformers' logits processors
//! (`tests/goldens/make_warpers.py` makes the oracle).

use crate::oracle::Oracle;
use formwork::generate::Sampling;

const VOCAB: usize = 40;

/// Returns the rules of a set by its name; 0 for top-k and n-grams, 1 for top-p and 0 for min-p mean that the rule is off.
fn named(way: &str) -> Sampling {
    let parts = way.split('_').map(|part| part.parse::<f64>().unwrap());
    let parts: Vec<f64> = parts.collect();
    Sampling {
        temperature: parts[0],
        top_k: Some(parts[1] as usize).filter(|k| *k > 0),
        top_p: Some(parts[2]).filter(|p| *p < 1.0),
        min_p: Some(parts[3]).filter(|p| *p > 0.0),
        repetition_penalty: parts[4],
        no_repeat_ngram_size: parts[5] as usize,
        seed: 0,
    }
}

#[test]
fn draws_are_among_the_tokens_that_transformers_keeps() {
    let oracle = Oracle::open("warpers");
    let logits = oracle.array("logits").values;
    let (shape, tokens) = oracle.integers("tokens");
    let mut compared = 0;
    for way in oracle.names() {
        if way == "logits" || way == "tokens" {
            continue;
        }
        let (sampling, theirs) = (named(&way), oracle.array(&way).values);
        let rows = logits.chunks(VOCAB).zip(tokens.chunks(shape[1]));
        for ((logits, tokens), theirs) in rows.zip(theirs.chunks(VOCAB)) {
            let tokens: Vec<u32> = tokens.iter().map(|token| *token as u32).collect();
            let mut ours = [0.0; VOCAB];
            let (weighed, total) = sampling.candidates(logits, &tokens);
            for (token, weight) in &weighed {
                ours[*token as usize] = weight / total;
            }
            for (token, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                let off = (ours - f64::from(*theirs)).abs();
                assert!(off < 1e-6, "{way}, token {token}: {ours} and {theirs}");
            }
            assert!(weighed.is_sorted_by(|a, b| a.1 >= b.1), "{way}");
            let kept = theirs.iter().filter(|chance| **chance > 0.0).count();
            assert_eq!(weighed.len(), kept, "{way}");
            for seed in 0..20 {
                let sampling = Sampling {
                    seed,
                    ..sampling.clone()
                };
                let drawn = sampling.draw(logits, &tokens, 0);
                assert!(theirs[drawn as usize] > 0.0, "{way}: token {drawn}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 14 * 6);
}

#[test]
fn of_a_temperature_of_zero_one_token_is_left() {
    let greedy = Sampling {
        temperature: 0.0,
        repetition_penalty: 2.0,
        ..Sampling::default()
    };
    assert_eq!(greedy.draw(&[3.0, 2.0], &[0], 0), 1);
    assert!(greedy.candidates(&[f32::NAN; 2], &[]).0.is_empty());
    assert_eq!(greedy.draw(&[f32::NAN; 2], &[], 0), 0);
}
