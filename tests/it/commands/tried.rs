//! Finished runs whose keys are tried out, several prompts, and option names of other programs that lead to those of Formwork.

use super::audited::CLASSES;
use super::json;
use crate::binary::{failure, formwork, output, shipped, shown};
use crate::in_folder::{at, written};
use std::fs;
use std::path::Path;

#[test]
fn a_search_is_tried_out_on_a_finished_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = shipped("experiments/translation/dates.toml")
        .display()
        .to_string();
    let run = at(folder.path(), "run");
    let sets = [
        "--set",
        "train.steps=2",
        "--set",
        "schedule.warmup_steps=1",
        "--set",
        "train.batch_size=4",
        "--set",
        "data.valid_items=4",
    ];
    let short = [
        "--set",
        "decode.search.max_len_a=0",
        "--set",
        "decode.search.max_len_b=2",
    ];
    // Training warns, as `eval` does, that texts which it evaluated may be cut at the limit.
    let other = at(folder.path(), "short");
    let train = [&["train", &file, "--run", &other], &sets[..], &short].concat();
    let said = shown(&formwork(&train).output().unwrap());
    let limit =
        "of 4 texts reached the length limit (decode.search.max_len_b = 2) and may be incomplete";
    assert_eq!(said.matches(limit).count(), 1, "{said}");
    output(&[&["train", &file, "--quiet", "--run", &run], &sets[..]].concat());
    let source = written(folder.path(), "source.txt", "3 May 2012\n");
    let short = output(&[
        "translate",
        &run,
        "--input",
        &source,
        "--set",
        "decode.search.max_len_a=0",
        "--set",
        "decode.search.max_len_b=2",
    ]);
    assert!(short.trim_end().chars().count() <= 2, "{short}");
    let penalised = [
        "--set",
        "decode.search.length_penalty.alpha=2.0",
        "--beam",
        "2",
    ];
    output(&[&["translate", &run, "--input", &source], &penalised[..]].concat());
    let kept = fs::read_to_string(Path::new(&run).join("scores.json")).unwrap();
    output(&[&["eval", &run], &penalised[..]].concat());
    assert_eq!(
        fs::read_to_string(Path::new(&run).join("scores.json")).unwrap(),
        kept
    );
    let (status, said) = failure(&["translate", &run, "--set", "decode.search.beem=2"]);
    assert!(
        status == 2 && said.contains("did you mean `beam`?"),
        "{said}"
    );
    let (status, said) = failure(&["translate", &run, "--set", "model.n_layers=2"]);
    assert!(
        status == 2 && said.contains("begin with `decode.`"),
        "{said}"
    );
}

#[test]
fn names_of_other_programs_lead_to_ours() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "train.csv", "text,label\na,up\nb,down\n");
    let file = written(folder.path(), "x.toml", CLASSES);
    for (set, says) in [
        (
            "train.learning_rate=1e-3",
            "did you mean `lr` of [optimizer]?",
        ),
        ("train.lr=1e-3", "did you mean `lr` of [optimizer]?"),
        (
            "train.seed=3",
            "did you mean `seed`, at the top of the file?",
        ),
        ("model.hidden_size=3", "did you mean `d_model`?"),
        ("train.max_steps=3", "did you mean `steps`?"),
        ("train.grad_clip=1.0", "did you mean `clip_norm`?"),
        ("epochs=3", "did you mean `epochs` of [train]?"),
        ("train.num_epochs=3", "did you mean `epochs`?"),
        (
            "train.gradient_accumulation_steps=2",
            "did you mean `micro_batch_size`?",
        ),
        ("train.eval_steps=5", "did you mean `eval_every`?"),
        ("train.save_steps=5", "did you mean `checkpoint_every`?"),
        ("train.logging_steps=5", "did you mean `log_every`?"),
        (
            "train.lr_scheduler_type=\"cosine\"",
            "did you mean `kind` of [schedule]?",
        ),
        ("model.position={kind=\"rope\"}", "did you mean `rotary`?"),
        ("task.kind=\"mlm\"", "did you mean `masked_lm`?"),
        (
            "schedule.kind=\"cosine_with_restarts\"",
            "did you mean `cosine_restarts`?",
        ),
        (
            "decode.max_len_b=50",
            "did you mean `max_len_b` of [decode.search]?",
        ),
        (
            "decode.max_length=50",
            "did you mean `max_length` of [decode.sampling]?",
        ),
        (
            "decode.lenpen=1.0",
            "did you mean `length_penalty` of [decode.search]?",
        ),
        (
            "decode.nbest=2",
            "did you mean `n_best` of [decode.search]?",
        ),
        ("decode.search.max_length=50", "did you mean `max_len_b`?"),
        (
            "decode.search.early_stopping=true",
            "did you mean `done_when`?",
        ),
        ("train.max_tokens=4096", "did you mean `batch_tokens`?"),
        ("train.max_update=9", "did you mean `steps`?"),
        (
            "tokenizer.kind=\"sentencepiece\"",
            "is not known; kind = \"pretrained\" with path = \"tokenizer.model\" reads a SentencePiece model, and `unigram` and \
             `bpe` train a new one",
        ),
        (
            "tokenizer.kind=\"huggingface\"",
            "is not known; kind = \"pretrained\" reads the tokenizer from the folder or file in `path`",
        ),
    ] {
        let (status, said) = failure(&["check", &file, "--set", set]);
        assert!(status == 2 && said.contains(says), "{set}: {said}");
    }
    // A single key can be set in a table whose kind is the default.
    let told = output(&[
        "check",
        &file,
        "--keys-only",
        "--set",
        "model.feed_forward.activation=relu",
    ]);
    assert!(told.contains("activation = \"relu\""), "{told}");
    // A checkpoint may be given by its step as a number: the only fault is that the run does not exist.
    for table in ["init", "init.text"] {
        let checked = |step: &str| {
            let (from, step) = (
                format!("{table}.from=none"),
                format!("{table}.checkpoint={step}"),
            );
            failure(&["check", &file, "--set", &from, "--set", &step]).1
        };
        let said = checked("180");
        assert!(said.contains("no run folder none"), "{said}");
        let said = checked("true");
        assert!(said.contains("a string or a whole number"), "{said}");
    }
    let (_, said) = failure(&["check", &file, "--set", "schedule.warmup=3"]);
    assert!(said.contains("warmup_steps"), "{said}");
    let keys = output(&["list", "keys", "lr"]);
    assert!(
        keys.contains("optimizer.lr") && !keys.contains("2085"),
        "{keys}"
    );
    assert!(keys.contains("1e-37 to 1e37"), "{keys}");
    for extends in ["extends", "base"] {
        let told = output(&["list", "keys", extends]);
        assert!(told.contains("that this file extends"), "{told}");
    }
    let heads = output(&["list", "keys", "model.attention.n_heads"]);
    assert_eq!(heads.matches("Query heads.").count(), 1, "{heads}");
}

#[test]
fn several_prompts_are_continued_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = shipped("experiments/smoke/tiny.toml").display().to_string();
    let run = at(folder.path(), "run");
    output(&[
        "train",
        &file,
        "--quiet",
        "--run",
        &run,
        "--set",
        "train.steps=2",
        "--set",
        "schedule.warmup_steps=1",
        "--set",
        "data.valid_items=8",
    ]);
    let lines = |arguments: &[&str]| -> Vec<serde_json::Value> {
        output(arguments).lines().map(json).collect()
    };
    let two = [
        "generate",
        &run,
        "--prompt",
        "ab=",
        "--prompt",
        "c=",
        "--tokens",
        "3",
        "--samples",
        "2",
        "--json",
    ];
    let made = lines(&two);
    let told: Vec<(&str, u64)> = made
        .iter()
        .map(|line| {
            (
                line["prompt"].as_str().unwrap(),
                line["sample"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [("ab=", 0), ("ab=", 1), ("c=", 0), ("c=", 1)]);
    // A prompt gives the same text alone.
    let alone = output(&[
        "generate",
        &run,
        "--prompt",
        "c=",
        "--tokens",
        "3",
        "--samples",
        "2",
        "--json",
    ]);
    assert_eq!(
        lines(&two)[2..],
        alone.lines().map(json).collect::<Vec<_>>()
    );
    let input = written(folder.path(), "prompts.txt", "ab=\nc=\n");
    let of_file = lines(&[
        "generate",
        &run,
        "--input",
        &input,
        "--tokens",
        "3",
        "--samples",
        "2",
        "--json",
    ]);
    assert_eq!(of_file, made);
    // So do prompts of one length, several of which are continued side by side, and some end before others.
    let prompts = "ab=\nc=\nba=\nab=\nd=\ncc=\n";
    let prompts = written(folder.path(), "many.txt", prompts);
    let many = |more: &[&str]| {
        let all = [
            "generate", &run, "--input", &prompts, "--tokens", "12", "--json",
        ];
        lines(&[&all[..], &["--stop", "\\n", "--seed", "5"], more].concat())
    };
    let alone = many(&["--batch-size", "1"]);
    assert_eq!(alone.len(), 6);
    assert_eq!(many(&[]), alone);
    assert_eq!(
        many(&["--samples", "2"]),
        many(&["--samples", "2", "--batch-size", "1"])
    );
    let (status, said) = failure(&["generate", &run, "--input", &prompts, "--batch-size", "0"]);
    assert!(
        status == 2 && said.contains("--batch-size 0 is not between 1 and 4096"),
        "{said}"
    );
    let plain = output(&["generate", &run, "--input", &input, "--tokens", "3"]);
    assert!(
        plain.contains("--- 1 of 2\nab=") && plain.contains("--- 2 of 2\nc="),
        "{plain}"
    );
    // A line break in a stop text is written as in a prompt.
    let whole = output(&[
        "generate",
        &run,
        "--prompt",
        "ab=\\nc",
        "--tokens",
        "9",
        "--temperature",
        "0",
    ]);
    assert!(whole.starts_with("ab=\nc"), "{whole}");
    let (status, said) = failure(&["generate", &run, "--input", &input, "--prompt", "a="]);
    assert!(status == 2 && said.contains("--prompt"), "{said}");
    let empty = written(folder.path(), "empty.txt", "");
    let (status, said) = failure(&["generate", &run, "--input", &empty]);
    assert!(status == 2 && said.contains("contains no lines"), "{said}");
    let (status, _) = failure(&["generate", &run]);
    assert_eq!(status, 2);
}
