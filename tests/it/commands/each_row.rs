//! Messages and results about one of several rows: the row's number, and the rows behind one that cannot be read.

use super::audited::CLASSES;
use super::{json, run};
use crate::binary::{failure, formwork, output, piped, shipped};
use crate::in_folder::{at, written};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Rows of two texts each, in a folder with two experiments whose networks encode the texts separately.
fn pairs(folder: &Path) -> [String; 2] {
    let mut table = String::from("label,text,other,much\n");
    for number in 0..40 {
        table += [
            "same,sun rises,sun rises,1\n",
            "not,sun sets,moon sets,-1\n",
        ][number % 2];
    }
    written(folder, "train.csv", &table);
    let pairs = CLASSES
        .replace("pooling = \"mean\"", "towers = true")
        .replace(
            "valid_fraction = 0.0",
            "valid_fraction = 0.2\npair = \"other\"\ncontext = 12",
        )
        .replace("steps = 40", "steps = 4");
    let numbers = pairs
        .replace("text_classification", "regression")
        .replace("pair = \"other\"", "pair = \"other\"\nscore = \"much\"");
    [("classes", pairs), ("numbers", numbers)].map(|(name, text)| {
        let file = written(folder, &format!("{name}.toml"), &text);
        let run = at(folder, name);
        output(&["train", &file, "--quiet", "--run", &run]);
        run
    })
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

/// Returns the scores of `eval` and the lines of its predictions.
fn predicted(run: &str, folder: &Path) -> (Value, Vec<Value>) {
    let file = at(folder, "predictions.jsonl");
    let scores = json(&output(&["eval", run, "--predictions", &file, "--json"]));
    (scores, lines(&fs::read_to_string(file).unwrap()))
}

#[test]
fn texts_that_are_read_alone_are_told_with_both_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let [classes, numbers] = pairs(folder.path());
    for run in [&classes, &numbers] {
        let all = ["classify", run, "--text", "sun", "--pair", "moon", "--json"];
        let told = json(&output(&all));
        assert_eq!(
            (&told["input"], &told["pair"]),
            (&"sun".into(), &"moon".into())
        );
    }
    let (scores, rows) = predicted(&classes, folder.path());
    let right = rows.iter().filter(|row| row["label"] == row["predicted"]);
    let share = right.count() as f64 / rows.len() as f64;
    assert!(
        (share - scores["accuracy"].as_f64().unwrap()).abs() < 1e-6,
        "{scores}"
    );
    // Each prediction has its texts and the line of the table that it was read from.
    let table = fs::read_to_string(at(folder.path(), "train.csv")).unwrap();
    let table: Vec<&str> = table.lines().collect();
    for row in &rows {
        assert!(
            row["file"].as_str().unwrap().ends_with("train.csv"),
            "{row}"
        );
        let line = row["line"].as_u64().unwrap() as usize;
        let [text, pair, label] = ["text", "pair", "label"].map(|key| row[key].as_str().unwrap());
        let begins = format!("{label},{text},{pair},");
        assert!(table[line - 1].starts_with(&begins), "{row}");
    }
    let file = at(folder.path(), "trained.jsonl");
    let train = ["eval", &classes, "--split", "train"];
    output(&[&train[..], &["--predictions", &file]].concat());
    let trained = lines(&fs::read_to_string(&file).unwrap());
    // Training texts are not kept beside their tokens.
    assert!(trained[0]["line"].is_u64() && trained[0]["text"].is_null());
    let (scores, rows) = predicted(&numbers, folder.path());
    assert_eq!(rows.len(), 8);
    let square = |row: &Value| {
        let [label, found] = ["label", "predicted"].map(|key| row[key].as_f64().unwrap());
        (label - found).powi(2)
    };
    let loss = rows.iter().map(square).sum::<f64>() / rows.len() as f64;
    let of_eval = scores["loss"].as_f64().unwrap();
    assert!(
        (loss - of_eval).abs() < 1e-4 * of_eval.max(1.0),
        "{loss} {scores}"
    );
}

#[test]
fn tags_and_written_texts_are_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let sentences = "anna\tperson\nsits\tother\n\nben\tperson\nruns\tother\n\n".repeat(8);
    written(folder.path(), "train.conll", &sentences);
    let head = CLASSES.split("[data]").next().unwrap();
    let tail = CLASSES.split("[optimizer]").nth(1).unwrap();
    let experiment = format!(
        "{head}[data]\nkind = \"tagged_text\"\npath = \"train.conll\"\nvalid_path = \"train.conll\"\ncontext = 8\n\
         [tokenizer]\nkind = \"word\"\n[task]\nkind = \"token_classification\"\n[optimizer]{tail}"
    );
    let file = written(folder.path(), "tags.toml", &experiment);
    let run = at(folder.path(), "tags");
    output(&["train", &file, "--quiet", "--run", &run]);
    let (scores, rows) = predicted(&run, folder.path());
    assert_eq!(rows.len(), 16);
    assert_eq!(rows[0]["words"], serde_json::json!(["anna", "sits"]));
    assert_eq!(rows[1]["label"], serde_json::json!(["person", "other"]));
    let both = |key: &str| -> Vec<Value> {
        let all = rows
            .iter()
            .flat_map(|row| row[key].as_array().unwrap().clone());
        all.collect()
    };
    let (label, found) = (both("label"), both("predicted"));
    let right = label.iter().zip(&found).filter(|(a, b)| a == b).count();
    let share = right as f64 / label.len() as f64;
    assert!(
        (share - scores["accuracy"].as_f64().unwrap()).abs() < 1e-6,
        "{scores}"
    );

    let dates = shipped("experiments/translation/dates.toml")
        .display()
        .to_string();
    let run = at(folder.path(), "dates");
    let mut train = vec!["train", &dates, "--quiet", "--run", &run];
    for set in [
        "train.steps=2",
        "train.batch_size=4",
        "schedule.warmup_steps=1",
        "data.valid_items=5",
    ] {
        train.extend(["--set", set]);
    }
    output(&train);
    let (scores, rows) = predicted(&run, folder.path());
    assert_eq!(rows.len(), 5);
    assert!(
        scores["bleu"].is_number() || scores["exact_match"].is_number(),
        "{scores}"
    );
    let sources: String = rows
        .iter()
        .map(|row| format!("{}\n", row["source"].as_str().unwrap()))
        .collect();
    let written = piped(&["translate", &run], &sources);
    for (row, line) in rows.iter().zip(written.lines()) {
        assert_eq!(row["hypothesis"].as_str().unwrap().trim(), line);
        assert_eq!(row["references"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn texts_to_train_on_are_not_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let both = written(folder.path(), "both.txt", &"ab\nba\n".repeat(10));
    let data =
        format!("data={{ kind = \"pairs\", source = {both:?}, target = {both:?}, max_len = 8 }}");
    let dates = shipped("experiments/translation/dates.toml")
        .display()
        .to_string();
    let run = at(folder.path(), "pairs");
    let mut train = vec!["train", &dates, "--quiet", "--run", &run];
    for set in [
        "train.steps=2",
        "train.batch_size=4",
        "schedule.warmup_steps=1",
        "tokenizer={ kind = \"char\" }",
        &data,
    ] {
        train.extend(["--set", set]);
    }
    output(&train);
    let file = at(folder.path(), "train.jsonl");
    let split = ["eval", &run, "--split", "train", "--predictions", &file];
    let (status, said) = failure(&split);
    assert!(
        status == 2 && said.contains("--split valid or test"),
        "{said}"
    );
}

#[test]
fn equal_prompts_are_continued_each_in_its_own_way() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(
        folder.path(),
        "run",
        &["train.steps=2", "schedule.warmup_steps=1"],
    );
    let hot = ["--tokens", "12", "--temperature", "2", "--json"];
    let input = written(folder.path(), "equal.txt", &"ab=\n".repeat(4));
    let text = |row: &Value| row["text"].as_str().unwrap().to_string();
    let all = [&["generate", run.as_str(), "--input", &input], &hot[..]].concat();
    let made: Vec<String> = lines(&output(&all)).iter().map(text).collect();
    let alone = [&["generate", run.as_str(), "--prompt", "ab="], &hot[..]].concat();
    assert_eq!(made[0], text(&json(&output(&alone))));
    let different: std::collections::BTreeSet<&String> = made.iter().collect();
    assert_eq!(different.len(), 4, "{made:?}");
    assert_eq!(
        made,
        lines(&output(&all)).iter().map(text).collect::<Vec<_>>()
    );

    // A line that cannot be read is named, and the others are continued.
    let input = written(folder.path(), "bad.txt", "ab=\n\u{17f}\nc=\n\n");
    let arguments = [
        "generate", &run, "--input", &input, "--tokens", "2", "--json",
    ];
    let ended = formwork(&arguments).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let made = lines(&String::from_utf8(ended.stdout).unwrap());
    let prompts: Vec<&Value> = made.iter().map(|row| &row["prompt"]).collect();
    assert_eq!(prompts, ["ab=", "c="]);
    for part in [
        "bad.txt:2: ",
        "bad.txt:4: the prompt is empty",
        "2 of 4 lines could not be read",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (status, said) = failure(&["generate", &run, "--prompt", "ab=", "--prompt", "\u{17f}"]);
    assert!(status == 2 && said.contains("prompt 2: "), "{said}");
}

#[test]
fn lines_are_filled_and_encoded_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = shipped("experiments/masked_lm/grammar.toml")
        .display()
        .to_string();
    let run = at(folder.path(), "grammar");
    let mut train = vec!["train", &file, "--quiet", "--run", &run];
    for set in [
        "train.steps=2",
        "train.eval_every=2",
        "train.batch_size=4",
        "schedule.warmup_steps=1",
        "data.documents=40",
        "data.valid_items=4",
    ] {
        train.extend(["--set", set]);
    }
    output(&train);
    let (one, two) = ("a red [MASK] .", "two blue [MASK] and [MASK] .");
    let texts = format!("{one}\n{two}\n");
    let filled = lines(&piped(&["fill", &run, "--input", "-", "--json"], &texts));
    let alone = |text: &str| json(&output(&["fill", &run, "--text", text, "--json"]));
    assert_eq!(filled, [alone(one), alone(two)]);
    let input = written(folder.path(), "texts.txt", &format!("no mask\n{texts}"));
    let ended = formwork(&["fill", &run, "--input", &input, "--top", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("texts.txt:1: the text has no mask"), "{said}");
    let told = String::from_utf8(ended.stdout).unwrap();
    assert!(
        told.starts_with(one) && told.contains(&format!("\n{two}\nmask 1\n")),
        "{told}"
    );
    let (status, said) = failure(&["fill", &run]);
    assert!(status == 2 && said.contains("--text"), "{said}");

    let [of_file, of_stdin] = ["file.jsonl", "stdin.jsonl"].map(|name| at(folder.path(), name));
    let plain = "a red owl .\ntwo blue owls .\n";
    let input = written(folder.path(), "plain.txt", plain);
    output(&["encode", &run, &input, "--out", &of_file]);
    piped(&["encode", &run, "-", "--out", &of_stdin], plain);
    assert_eq!(fs::read(of_file).unwrap(), fs::read(&of_stdin).unwrap());
}
