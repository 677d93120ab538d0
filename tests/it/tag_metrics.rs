//! Metrics of tags, of numbers and of answers against seqeval's, SciPy's and torchmetrics' (`tests/goldens/make_tags.py`).

use crate::binary::shipped;
use formwork::evaluate::answers::{Answers, SpanPrediction};
use formwork::evaluate::correlation::NumberPairs;
use formwork::evaluate::tags::{TagCounts, are_entity_tags, entities};
use serde_json::Value;

fn golden(part: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(shipped("tests/goldens/tags.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    all[part].as_array().unwrap().clone()
}

fn words(value: &Value) -> Vec<&str> {
    let words = value.as_array().unwrap().iter();
    words.map(|word| word.as_str().unwrap()).collect()
}

fn near(ours: f64, theirs: &Value, what: &str) {
    // If SciPy's correlation is undefined, Formwork's is 0.
    let theirs = theirs.as_f64().unwrap_or(0.0);
    assert!((ours - theirs).abs() < 1e-9, "{what}: {ours} and {theirs}");
}

#[test]
fn entities_and_their_metrics_are_seqeval_s() {
    for (number, case) in golden("tagged").iter().enumerate() {
        let names: Vec<String> = words(&case["names"]).into_iter().map(Into::into).collect();
        assert!(are_entity_tags(&names));
        let mut tags = TagCounts::new(names.clone());
        let texts = case["truth"].as_array().unwrap().len();
        for text in 0..texts {
            let sides = ["truth", "predicted"].map(|side| words(&case[side][text]));
            for (side, found) in sides.iter().enumerate() {
                let ours: Vec<Value> = entities(found)
                    .into_iter()
                    .map(|one| serde_json::json!([one.kind, one.from, one.to - 1]))
                    .collect();
                assert_eq!(
                    Value::from(ours),
                    case["entities"][side][text],
                    "{number}: {found:?}"
                );
            }
            let numbers = sides.map(|side| -> Vec<usize> {
                let number = |tag: &&str| names.iter().position(|name| name == tag).unwrap();
                side.iter().map(number).collect()
            });
            tags.add(&numbers[0], &numbers[1]);
        }
        let all = tags.entities().unwrap();
        for (ours, theirs) in [all.precision, all.recall, all.f1].into_iter().zip(0..) {
            near(ours, &case["metrics"][theirs], &format!("case {number}"));
        }
    }
}

#[test]
fn parts_of_a_split_add_up() {
    let names: Vec<String> = ["O", "B-X", "I-X"].map(Into::into).to_vec();
    let of = |texts: &[[&[usize]; 2]]| {
        let mut tags = TagCounts::new(names.clone());
        for [truth, predicted] in texts {
            tags.add(truth, predicted);
        }
        tags
    };
    let first: [&[usize]; 2] = [&[1, 2, 0], &[1, 2, 0]];
    let second: [&[usize]; 2] = [&[0, 1], &[1, 0]];
    let mut sum = of(&[first]);
    sum.merge(&of(&[second]));
    assert_eq!(sum, of(&[first, second]));
    assert_eq!(sum.entities().unwrap().f1, 0.5);
}

#[test]
fn correlations_are_scipy_s() {
    for (number, case) in golden("numbers").iter().enumerate() {
        let side = |name: &str| case[name].as_array().unwrap().clone();
        let mut numbers = NumberPairs::default();
        for (truth, predicted) in side("truth").iter().zip(side("predicted")) {
            let value = |x: &Value| x.as_f64().unwrap() as f32;
            numbers.add(value(truth), value(&predicted));
        }
        let theirs = &case["correlations"];
        near(
            numbers.pearson(),
            &theirs[0],
            &format!("Pearson's of case {number}"),
        );
        near(
            numbers.spearman(),
            &theirs[1],
            &format!("Spearman's of case {number}"),
        );
    }
}

#[test]
fn answers_are_scored_as_squad_s() {
    let mut sums = [0.0; 2];
    let mut all = Answers::default();
    let cases = golden("answers");
    for (number, case) in cases.iter().enumerate() {
        let right: Vec<String> = words(&case["right"]).into_iter().map(Into::into).collect();
        let found = SpanPrediction {
            score: 0.0,
            none: 1.0,
            text: case["given"].as_str().unwrap(),
        };
        let mut one = Answers::default();
        one.add(0, found, &right, false);
        all.add(number as u64, found, &right, false);
        for (side, ours) in one.scores().into_iter().enumerate() {
            let theirs = case["scores"][side].as_f64().unwrap();
            assert!((ours - theirs).abs() < 1e-6, "{case}: {ours}");
            sums[side] += theirs;
        }
    }
    for (ours, sum) in all.scores().into_iter().zip(sums) {
        assert!((ours - sum / cases.len() as f64).abs() < 1e-6);
    }
}
