//! Masked n-grams: the distribution of their lengths, whole words, the budget.

use super::Folder;
use super::masked::{WORDPIECE, of_prose, original, runs, scored, text, view, viewed};
use formwork::data::masked::masking::{MaskingConfig, Pairs, Unit};
use formwork::data::{NOT_SCORED, TextItem};

/// Lan et al. 2019, section 4.1: n-grams of up to three words, p(n) ∝ 1/n, 15 % of the tokens.
#[test]
fn ngrams_have_the_lengths_of_albert() {
    // One token per word, a long text and a small share: n-grams seldom meet, so that a run is one n-gram.
    let folder = Folder::with(&[("t.txt", "a b c d e f g h ".repeat(3000).as_bytes())]);
    let data = "kind = \"text\"\npath = \"t.txt\"\ncontext = 2002\nvalid_fraction = 0.0";
    let drawn = |share: f64, longest_ngram: Option<usize>| {
        let masking = MaskingConfig {
            share,
            unit: Unit::Ngram,
            longest_ngram,
            ..MaskingConfig::default()
        };
        let view = view(masking, Pairs::None);
        let data = viewed(&folder.places(), data, Some(WORDPIECE), &view, 3).unwrap();
        let len = data.train.len() as u64;
        let item = |d: u64| text(data.train.as_ref(), d % (len - 1), d);
        (0..400).map(item).collect::<Vec<TextItem>>()
    };
    // The share is exact: the last n-gram is cut to fit.
    assert!(
        drawn(0.15, None)
            .iter()
            .all(|item| scored(item).len() == 300)
    );
    let few = drawn(0.02, None);
    assert!(few.iter().all(|item| scored(item).len() == 40));
    let runs: Vec<usize> = few.iter().flat_map(runs).collect();
    let mut counts = [0; 3];
    for run in runs.iter().filter(|run| **run <= 3) {
        counts[run - 1] += 1;
    }
    // The last n-gram is sometimes cut, which turns long ones into short ones, and two in a hundred touch another.
    for (count, of_eleven) in counts.iter().zip([6.0, 3.0, 2.0]) {
        let share = *count as f64 / runs.len() as f64;
        assert!((share - of_eleven / 11.0).abs() < 0.025, "{counts:?}");
    }
    let single: Vec<usize> = drawn(0.02, Some(1))
        .iter()
        .flat_map(super::masked::runs)
        .collect();
    let alone = single.iter().filter(|run| **run == 1).count();
    assert!(
        alone * 100 > 95 * single.len(),
        "{alone} of {}",
        single.len()
    );
}

/// Each token of an n-gram is replaced independently, as in ALBERT's code; words stay whole.
#[test]
fn ngrams_are_of_whole_words() {
    let masking = MaskingConfig {
        unit: Unit::Ngram,
        ..MaskingConfig::default()
    };
    let (data, tokenizer) = of_prose(masking, WORDPIECE);
    let mask = tokenizer.mask().unwrap() as i32;
    let (mut continued, mut mixed) = (0, 0);
    for sample in 0..data.train.len() as u64 {
        let item = text(data.train.as_ref(), sample, sample);
        let ids = original(&item);
        for at in 2..ids.len() - 1 {
            let both = [at - 1, at].map(|at| item.targets[at] == NOT_SCORED);
            if !tokenizer.begins_word(Some(ids[at - 1]), ids[at]) {
                assert_eq!(both[0], both[1]);
                continued += usize::from(!both[0]);
            }
            if both == [false; 2] {
                let hidden = [at - 1, at].map(|at| item.inputs[at] == mask);
                mixed += usize::from(hidden[0] != hidden[1]);
            }
        }
    }
    assert!(continued > 100 && mixed > 20, "{continued} {mixed}");
}
