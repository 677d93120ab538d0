//! Metrics against scikit-learn's (`tests/goldens/make_multi_label.py`).

use formwork::evaluate::multi_label::MultiLabelScores;
use serde_json::Value;

fn floats(row: &Value) -> Vec<f32> {
    let row = row.as_array().unwrap().iter();
    row.map(|x| x.as_f64().unwrap() as f32).collect()
}

#[test]
fn metrics_are_scikit_learn_s() {
    let golden = include_str!("../../goldens/multi_label.json");
    let cases: Value = serde_json::from_str(golden).unwrap();
    for (name, case) in cases.as_object().unwrap() {
        let scores: Vec<Vec<f32>> = case["scores"]
            .as_array()
            .unwrap()
            .iter()
            .map(floats)
            .collect();
        let threshold = case["threshold"].as_f64().unwrap() as f32;
        let mut all = MultiLabelScores::new(scores[0].len(), threshold);
        for (scores, truth) in scores.iter().zip(case["truth"].as_array().unwrap()) {
            let truth: Vec<i32> = floats(truth).iter().map(|x| *x as i32).collect();
            all.add(scores, &truth);
        }
        for (metric, ours) in [
            ("micro_f1", all.micro_f1()),
            ("macro_f1", all.macro_f1()),
            ("exact_match", all.exact_match()),
            ("roc_auc", all.roc_auc()),
        ] {
            let theirs = case[metric].as_f64().unwrap();
            assert!(
                (ours - theirs).abs() < 1e-12,
                "{name}: {metric} is {ours}, there {theirs}"
            );
        }
    }
}
