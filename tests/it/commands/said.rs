//! Messages of commands about input that is wrong in one place, and what they leave unsaid.

use super::json;
use crate::binary::{failure, formwork, output, shipped};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

/// Trains a shipped experiment for a few steps and returns the run's folder.
fn trained(folder: &Path, name: &str, sets: &[&str]) -> String {
    let run = folder
        .join(name.rsplit('/').next().unwrap())
        .display()
        .to_string();
    let file = shipped(&format!("experiments/{name}.toml"))
        .display()
        .to_string();
    let mut arguments = vec!["train", &file, "--run", &run, "--quiet"];
    for set in [
        "train.steps=2",
        "train.eval_every=2",
        "train.batch_size=4",
        "schedule.warmup_steps=1",
        "train.log_every=1",
    ]
    .iter()
    .chain(sets)
    {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
    run
}

fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = formwork(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn good_lines_are_translated_beside_bad_ones() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "translation/dates", &["data.valid_items=4"]);
    let good = with_input(&["translate", &run], b"5 May 2001\n4 June 1999\n");
    let good = String::from_utf8(good.stdout).unwrap();
    let good: Vec<&str> = good.lines().collect();
    let input = b"5 May 2001\n\xc3\xa9t\xc3\xa9\n\xff\n4 June 1999\n";
    let ended = with_input(&["translate", &run], input);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let written = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(
        written.lines().collect::<Vec<_>>(),
        [good[0], "", "", good[1]]
    );
    assert!(
        said.contains("error: standard input:2: the character 'é'"),
        "{said}"
    );
    assert!(
        said.contains("error: standard input:3: the line is not UTF-8"),
        "{said}"
    );
    assert!(said.contains("2 of 4 lines could not be read"), "{said}");
    // The input file is named, its results are written nevertheless, and with `--n-best` lines still correspond to inputs.
    let (from, to) = (folder.path().join("in.txt"), folder.path().join("out.txt"));
    fs::write(&from, input).unwrap();
    let shown = |path: &Path| path.display().to_string();
    let arguments = [
        "translate",
        &run,
        "--n-best",
        "2",
        "--input",
        &shown(&from),
        "--output",
        &shown(&to),
    ];
    let (status, said) = failure(&arguments);
    assert_eq!(status, 1);
    assert!(said.contains("in.txt:2: the character"), "{said}");
    let written = fs::read_to_string(&to).unwrap();
    assert_eq!(written.lines().count(), 8, "{written}");
    assert_eq!(
        written.lines().skip(2).take(4).collect::<Vec<_>>(),
        ["0.0000\t"; 4]
    );
}

#[test]
fn a_mark_of_byte_order_is_no_text_and_packed_sources_are_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "translation/dates", &["data.valid_items=4"]);
    let plain = with_input(&["translate", &run], b"5 May 2001\n4 June 1999\n");
    assert!(plain.status.success());
    let marked = "\u{FEFF}5 May 2001\r\n4 June 1999";
    let read = with_input(&["translate", &run], marked.as_bytes());
    assert!(read.status.success());
    assert_eq!(read.stdout, plain.stdout);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, marked.as_bytes()).unwrap();
    let file = folder.path().join("in.txt.gz");
    fs::write(&file, packed.finish().unwrap()).unwrap();
    let written = output(&["translate", &run, "--input", &file.display().to_string()]);
    assert_eq!(written.as_bytes(), plain.stdout);
}

#[test]
fn a_column_of_texts_is_no_column_of_labels() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |row: fn(usize) -> String| (0..3000).map(row).collect::<String>();
    let refused = |name: &str, table: String, more: &[&str]| {
        let path = folder.path().join(name);
        fs::write(&path, table).unwrap();
        let data = format!("data={{ kind = \"labelled_text\", path = {path:?}, context = 16 }}");
        let run = folder.path().join("run").display().to_string();
        let file = shipped("experiments/smoke/tiny.toml").display().to_string();
        let mut arguments = vec!["train", &file, "--run", &run];
        let sets = [
            &data,
            "task={ kind = \"text_classification\" }",
            "tokenizer={ kind = \"byte\" }",
            "model={ kind = \"encoder\", d_model = 8, n_layers = 1, attention = { kind = \"multi_head\", n_heads = 1 } }",
        ];
        for set in sets.iter().chain(more) {
            arguments.extend(["--set", set]);
        }
        let (status, said) = failure(&arguments);
        assert_eq!(status, 2, "{said}");
        said
    };
    let said = refused(
        "a.csv",
        rows(|n| format!("{},film number {n} was good\n", n % 2)),
        &[],
    );
    assert!(
        said.contains(
            "[data] label = 2: this column has 2700 different values in 2700 rows, too many for classes; column 1 has 2: \
             set `label = 1` and `text = 2`"
        ),
        "{said}"
    );
    let said = refused(
        "b.tsv",
        rows(|n| format!("text {n}\tanother {n}\t{}\n", n % 2)),
        &[],
    );
    assert!(
        said.contains("set `label` to the column of the class, for example `label = 1`"),
        "{said}"
    );
    let row = |n: usize| {
        format!(
            "{{\"text\": \"{}\", \"label\": \"film {}\"}}\n",
            n % 3,
            n % 1400
        )
    };
    let said = refused("c.jsonl", rows(row), &[]);
    assert!(
        said.contains("set `label = \"text\"` and `text = \"label\"`"),
        "{said}"
    );
}

/// Returns the lines of a run's journal for a split.
fn journal(run: &str, split: &str) -> Vec<Value> {
    let lines = fs::read_to_string(Path::new(run).join("metrics.jsonl")).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(json)
        .filter(|l| l["split"] == split)
        .collect();
    assert!(!lines.is_empty());
    lines
}

#[test]
fn perplexity_is_of_tokens_and_of_a_loss_without_smoothing() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("rows.tsv");
    let rows: String = (0..24)
        .map(|i| ["a red fox\tone\n", "two owls\tmany\n"][i % 2])
        .collect();
    fs::write(&table, rows).unwrap();
    let data = format!(
        "data={{ kind = \"labelled_text\", path = {table:?}, valid_fraction = 0.25, context = 16 }}"
    );
    let texts = [
        data.as_str(),
        "task={ kind = \"text_classification\" }",
        "tokenizer={ kind = \"byte\" }",
        "model={ kind = \"encoder\", d_model = 8, n_layers = 1, attention = { kind = \"multi_head\", n_heads = 1 } }",
    ];
    let has = |run: &str, split: &str| {
        journal(run, split)
            .iter()
            .all(|line| line["perplexity"].is_number())
    };
    let has_none = |run: &str, split: &str| {
        journal(run, split)
            .iter()
            .all(|line| line.get("perplexity").is_none())
    };
    let run = trained(folder.path(), "smoke/tiny", &texts);
    assert!(has_none(&run, "train") && has_none(&run, "valid"));
    fs::remove_dir_all(&run).unwrap();
    let run = trained(folder.path(), "smoke/tiny", &[]);
    assert!(has(&run, "train") && has(&run, "valid"));
    let smoothed = ["data.valid_items=4", "task.label_smoothing=0.1"];
    let run = trained(folder.path(), "translation/dates", &smoothed);
    assert!(has_none(&run, "train") && has(&run, "valid"));
}

#[test]
fn errors_name_the_flag_that_was_typed() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "smoke/tiny", &[]);
    let file = shipped("experiments/smoke/tiny.toml").display().to_string();
    for arguments in [
        vec!["train", &file],
        vec!["resume", &run],
        vec!["eval", &run],
        vec!["generate", &run, "--prompt", "a"],
        vec!["translate", &run],
        vec!["fill", &run, "--text", "a"],
        vec!["classify", &run, "--text", "a"],
        vec!["bench", "train", &file],
    ] {
        for (device, why) in [
            ("flax", "there is no device `flax`; did you mean `flex`?"),
            ("flex:1", "flex is a single device; remove the number"),
        ] {
            let (status, said) = failure(&[&arguments[..], &["--device", device]].concat());
            assert_eq!(status, 2, "{arguments:?}");
            assert!(
                said.contains("--device") && said.contains(why),
                "{arguments:?}: {said}"
            );
            assert!(!said.contains("--set"), "{arguments:?}: {said}");
        }
    }
    let (_, said) = failure(&["bench", "attention", "--heads", "0"]);
    assert!(said.contains("--heads 0 is not between 1 and"), "{said}");
    let (_, said) = failure(&["bench", "attention", "--context", "64,0"]);
    assert!(said.contains("--context 0 is not between 1 and"), "{said}");
    let (_, said) = failure(&["plan", "--preset", "gpt-2"]);
    assert!(
        said.contains("--preset gpt-2: there is no preset"),
        "{said}"
    );
}

#[test]
fn a_blank_before_a_mask_belongs_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.txt");
    fs::write(
        &text,
        "the cat sits on the mat, the dog sits there too\n".repeat(40),
    )
    .unwrap();
    let data = format!("data={{ kind = \"text\", path = {text:?}, context = 16 }}");
    for tokenizer in ["bpe", "unigram"] {
        let kind = format!("tokenizer={{ kind = \"{tokenizer}\", vocab_size = 290 }}");
        let sets = [
            data.as_str(),
            "task={ kind = \"masked_lm\" }",
            &kind,
            "model={ kind = \"encoder\", d_model = 8, n_layers = 1, attention = { kind = \"multi_head\", n_heads = 1 } }",
        ];
        let run = trained(folder.path(), "smoke/tiny", &sets);
        let filled = |text: &str| {
            let filled = json(&output(&["fill", &run, "--text", text, "--json"]));
            filled["masks"].clone()
        };
        assert_eq!(
            filled("the cat [MASK] on"),
            filled("the cat<mask> on"),
            "{tokenizer}"
        );
        assert_ne!(
            filled("the cat [MASK] on"),
            filled("the cat [MASK]on"),
            "{tokenizer}"
        );
        fs::remove_dir_all(&run).unwrap();
    }
}
