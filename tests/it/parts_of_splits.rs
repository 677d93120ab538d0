//! Values are labelled with their step, their split, and whether they cover all of it.

use crate::binary::output;
use serde_json::Value;
use std::fs;
use std::path::Path;

const TINY: &str = "experiments/smoke/tiny.toml";

fn lines(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["split"] == "valid").collect()
}

#[test]
fn a_part_of_a_split_is_drawn_and_said_to_be_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let shown = run.display().to_string();
    let mut words = vec!["train", TINY, "--quiet", "--run", &shown];
    // The weights do not change, so evaluations differ only in what they read.
    for set in [
        "optimizer.lr=1e-30",
        "data.valid_items=60",
        "train.eval_batch_size=4",
        "train.eval_batches=3",
    ] {
        words.extend(["--set", set]);
    }
    let printed = output(&words);
    assert!(
        printed.contains("at step 10 (3 of 15 batches, drawn at random)"),
        "{printed}"
    );
    let lines = lines(&run);
    let loss = |value: &Value| value["loss"].as_f64().unwrap();
    for line in &lines[..lines.len() - 1] {
        assert_eq!(line["part"], "3 of 15 batches, drawn at random");
        assert_eq!(loss(line), loss(&lines[0]));
    }
    let last = lines.last().unwrap();
    assert!(last.get("part").is_none(), "{last}");
    // The part that evaluations during training read is contained in the whole split.
    assert!(
        (loss(&last["of_part"]) - loss(&lines[0])).abs() < 1e-6,
        "{last}"
    );
    let whole: Value = serde_json::from_str(&output(&["eval", &shown, "--json"])).unwrap();
    assert!((loss(&whole) - loss(last)).abs() < 1e-6, "{whole}");
    assert!(
        (loss(&whole) - loss(&lines[0])).abs() > 1e-4,
        "the part is the whole"
    );
    let text = output(&["compare", &shown, "--wide"]);
    assert!(text.contains("best valid loss (part)"), "{text}");
    assert!(text.contains("3 of 15 batches, drawn at random"), "{text}");
}

/// A run that finished at step 40, was tested there, and continues to step 60.
fn gone_on(folder: &Path) -> String {
    let run = folder.join("run");
    fs::create_dir(&run).unwrap();
    let resolved = "name = \"run\"\nseed = 1\n[train]\nsteps = 80\neval_batches = 2\n";
    fs::write(run.join("resolved.toml"), resolved).unwrap();
    let journal = [
        r#"{"step":20,"split":"train","loss":2.5}"#,
        r#"{"step":20,"split":"valid","loss":2.0,"accuracy":0.5,"part":"2 of 9 batches, drawn at random"}"#,
        r#"{"step":40,"split":"valid","loss":1.5,"accuracy":0.8,"of_part":{"loss":1.8,"accuracy":0.55}}"#,
        r#"{"step":60,"split":"valid","loss":1.9,"accuracy":0.7,"part":"2 of 9 batches, drawn at random"}"#,
    ];
    fs::write(run.join("metrics.jsonl"), journal.join("\n") + "\n").unwrap();
    let scores =
        r#"{"valid":{"step":40,"loss":1.5},"test":{"step":40,"loss":1.6,"accuracy":0.58}}"#;
    fs::write(run.join("scores.json"), scores).unwrap();
    run.display().to_string()
}

/// Returns the cell of the terminal's table under this column title.
fn cell(text: &str, title: &str) -> String {
    let mut lines = text.lines().filter(|line| line.contains(title));
    let header = lines
        .next()
        .unwrap_or_else(|| panic!("no {title} in {text}"));
    let at = header.find(title).unwrap();
    let row = text
        .lines()
        .skip_while(|line| *line != header)
        .nth(1)
        .unwrap();
    let end = (at + title.len() + 8).min(row.len());
    row.get(at.saturating_sub(6)..end)
        .unwrap_or(row)
        .trim()
        .to_string()
}

#[test]
fn a_value_says_its_step_and_split() {
    let folder = tempfile::tempdir().unwrap();
    let run = gone_on(folder.path());
    let json = |more: &[&str]| -> Value {
        let words = [&["compare", &run, "--json"], more].concat();
        let whole: Value = serde_json::from_str(&output(&words)).unwrap();
        whole["arms"][0]["runs"][0].clone()
    };
    let found = json(&[]);
    // Evaluations are compared by the part that all of them read.
    assert_eq!(found["best"], serde_json::json!({"step": 40, "value": 1.8}));
    assert_eq!(
        found["final"],
        serde_json::json!({"step": 60, "value": 1.9})
    );
    assert_eq!(found["final_is_of_part"], true);
    assert_eq!(found["best_is_of_part"], true);
    assert_eq!(found["scored_at"]["test"], 40);
    // The loss beside an accuracy belongs to the same checkpoint.
    let found = json(&["--metric", "accuracy"]);
    assert_eq!(found["best"], serde_json::json!({"step": 60, "value": 0.7}));
    assert_eq!(found["metrics"]["loss"], 1.9);
    // A metric of another split than that of the curves.
    let found = json(&["--metric", "test_accuracy"]);
    assert_eq!(
        found["final"],
        serde_json::json!({"step": 40, "value": 0.58})
    );
    let text = output(&["compare", &run, "--wide"]);
    assert!(cell(&text, "test loss").contains("1.600 at 40"), "{text}");
    assert!(
        cell(&text, "final valid loss").contains("1.900 part"),
        "{text}"
    );
    assert!(
        text.contains("best valid loss (part)") && text.contains("accuracy at best"),
        "{text}"
    );
    // Without the later lines, the last value covers the whole split.
    let journal = Path::new(&run).join("metrics.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = lines.lines().take(3).collect();
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    let found = json(&["--metric", "accuracy"]);
    assert_eq!(
        found["best"],
        serde_json::json!({"step": 40, "value": 0.55})
    );
    assert_eq!(
        found["final"],
        serde_json::json!({"step": 40, "value": 0.8})
    );
    assert_eq!(found["final_is_of_part"], false);
    assert_eq!(found["metrics"]["loss"], 1.8);
    assert_eq!(found["final_metrics"]["loss"], 1.5);
    // A curve reaches its own final value, whatever the whole split gives.
    let found = json(&[]);
    assert_eq!(found["final"]["value"], 1.5);
    assert_eq!(found["steps_to_reach"], 40.0);
    let text = output(&["compare", &run, "--markdown"]);
    assert!(
        text.contains("| 1.600 |"),
        "a mark without a reason: {text}"
    );
    let out = folder.path().join("report").display().to_string();
    output(&["report", &run, "--metric", "accuracy", "--out", &out]);
    let table = fs::read_to_string(Path::new(&out).join("table.md")).unwrap();
    assert!(
        table.contains("loss at final") && table.contains("1.500"),
        "{table}"
    );
}
