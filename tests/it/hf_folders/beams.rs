//! `generate --beam` with an imported decoder: texts and scores of transformers (`tests/goldens/make_continued.py` makes the
//! oracle), their display, and flags that do not go with a search.

use super::settings::gpt2;
use super::shown;
use super::ties::import;
use crate::binary::{failure, output};
use crate::oracle::Oracle;
use serde_json::{Value, json};
use std::path::Path;

/// Writes tokens as words.
fn words(tokens: &[i32]) -> String {
    let words = tokens.iter().filter(|token| **token >= 0);
    let words: Vec<String> = words.map(|token| format!("w{token}")).collect();
    words.join(" ")
}

/// Returns the lines of `generate --json` for these prompts.
fn found(run: &Path, prompts: &[String], flags: &[&str]) -> Vec<Value> {
    let run = shown(run);
    let mut all = vec!["generate", run.as_str(), "--json", "--tokens", "7"];
    for prompt in prompts {
        all.extend(["--prompt", prompt.as_str()]);
    }
    let lines = output(&[&all[..], flags].concat());
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_command_finds_the_texts_and_scores_of_hugging_face() {
    let oracle = Oracle::open("continued");
    let (shape, flat) = oracle.integers("gpt2_1.prompts");
    let prompts: Vec<String> = flat.chunks(shape[1]).map(words).collect();
    let ends = oracle.integers("gpt2_1.ends").1;
    let work = tempfile::tempdir().unwrap();
    for (way, count, flags) in [
        (
            "3_1.0_unlikely_1_1.0_0",
            1,
            &["--beam", "3", "--n-best", "3"][..],
        ),
        (
            "3_2.0_settled_3_1.0_0",
            3,
            &[
                "--beams",
                "3",
                "--n-best",
                "3",
                "--length-penalty",
                "2",
                "--done-when",
                "settled",
            ],
        ),
        (
            "4_0.5_full_3_1.0_0",
            3,
            &[
                "--beam",
                "4",
                "--n-best",
                "4",
                "--length-penalty",
                "0.5",
                "--done-when",
                "full",
            ],
        ),
        (
            "3_-0.5_unlikely_1_1.0_0",
            1,
            &["--beam", "3", "--n-best", "3", "--length-penalty", "-0.5"],
        ),
        (
            "3_1.0_unlikely_1_1.3_0",
            1,
            &[
                "--beam",
                "3",
                "--n-best",
                "3",
                "--repetition-penalty",
                "1.3",
            ],
        ),
        (
            "2_0.0_unlikely_1_1.2_2",
            1,
            &[
                "--beam",
                "2",
                "--n-best",
                "2",
                "--length-penalty",
                "0",
                "--repetition-penalty",
                "1.2",
                "--no-repeat-ngram-size",
                "2",
            ],
        ),
    ] {
        // Settings of sampling have no effect on a search.
        let said = json!({
            "eos_token_id": ends[..count].to_vec(), "do_sample": true, "temperature": 0.7, "top_k": 3, "min_p": 0.1,
        });
        let (folder, run) = (gpt2(&said), work.path().join(way));
        import(folder.path(), &run);
        let (shape, texts) = oracle.integers(&format!("gpt2_1.{way}"));
        let scores = oracle.array(&format!("gpt2_1.scores.{way}")).values;
        let lines = found(&run, &prompts, flags);
        assert_eq!(lines.len(), scores.len(), "{way}");
        for (number, (line, text)) in lines.iter().zip(texts.chunks(shape[2])).enumerate() {
            assert_eq!(line["prompt"], prompts[number / shape[1]], "{way}");
            assert_eq!(line["sample"], number % shape[1], "{way}");
            let new: Vec<i32> = text.iter().copied().filter(|token| *token >= 0).collect();
            assert_eq!(line["tokens"], new.len(), "{way}: {line}");
            let last = new.last().filter(|last| ends[..count].contains(last));
            let without_end = &new[..new.len() - last.iter().count()];
            assert_eq!(
                line["text"].as_str().unwrap().trim(),
                words(without_end),
                "{way}"
            );
            let off = line["score"].as_f64().unwrap() - f64::from(scores[number]);
            assert!(off.abs() < 2e-5, "{way}: {line} and {}", scores[number]);
        }
    }
}

#[test]
fn texts_that_were_found_are_shown_and_draws_beside_them_refused() {
    let (folder, work) = (
        gpt2(&json!({ "eos_token_id": 36 })),
        tempfile::tempdir().unwrap(),
    );
    let run = work.path().join("run");
    import(folder.path(), &run);
    let run = shown(&run);
    let with = |flags: &[&str]| {
        let all = ["generate", &run, "--prompt", "w3 w4", "--tokens", "5"];
        [&all[..], flags]
            .concat()
            .iter()
            .map(|flag| flag.to_string())
            .collect::<Vec<_>>()
    };
    let one = output(&with(&["--beam", "3"]));
    assert!(
        one.starts_with("w3 w4 ") && one.lines().count() == 1,
        "{one}"
    );
    let several = output(&with(&["--beam", "3", "--n-best", "2"]));
    let lines: Vec<&str> = several.lines().collect();
    assert!(lines[0].starts_with("--- 1 of 2, score -"), "{several}");
    assert!(lines[2].starts_with("--- 2 of 2, score -"), "{several}");
    assert_eq!((lines[1], lines.len()), (one.trim_end(), 4));
    let greedy = output(&with(&["--temperature", "0"]));
    assert_eq!(output(&with(&["--beam", "1"])), greedy);
    for (flags, told) in [
        (
            &["--temperature", "0.5"][..],
            "--temperature has no effect: --beam searches",
        ),
        (&["--top-k", "3"], "--top-k has no effect: --beam searches"),
        (
            &["--top-p", "0.5"],
            "--top-p has no effect: --beam searches",
        ),
        (
            &["--min-p", "0.5"],
            "--min-p has no effect: --beam searches",
        ),
        (&["--seed", "3"], "--seed has no effect: --beam searches"),
        (
            &["--samples", "3"],
            "for several continuations use --n-best",
        ),
        (&["--stop", "w5"], "--stop does not work with --beam"),
        (
            &["--n-best", "4"],
            "--n-best 4 must be between 1 and --beam 3",
        ),
        (
            &["--length-penalty", "11"],
            "--length-penalty 11 must be between -10 and 10",
        ),
        (
            &["--done-when", "never"],
            "possible values: settled, unlikely, full",
        ),
    ] {
        let (status, said) = failure(&with(&[&["--beam", "3"][..], flags].concat()));
        assert!(status == 2 && said.contains(told), "{flags:?}: {said}");
    }
    for (flags, told) in [
        (&["--beam", "0"][..], "--beam 0 is not between 1 and 4096"),
        (&["--n-best", "2"], "--beam <B>"),
        (&["--length-penalty", "2"], "--beam <B>"),
        (&["--min-p", "1.5"], "--min-p 1.5 must be between 0 and 1"),
        (
            &["--min-p", "0.1", "--temperature", "0"],
            "--min-p has no effect: --temperature 0",
        ),
    ] {
        let (status, said) = failure(&with(flags));
        assert!(status == 2 && said.contains(told), "{flags:?}: {said}");
    }
    let nothing = [
        "generate", &run, "--prompt", "w3", "--beam", "2", "--tokens", "0",
    ];
    let (status, said) = failure(&nothing);
    assert!(
        status == 2 && said.contains("--tokens 0 generates nothing"),
        "{said}"
    );
}

#[test]
fn a_run_searches_as_its_folder_or_its_file_says() {
    let work = tempfile::tempdir().unwrap();
    let prompts = ["w3 w4".to_owned(), "w9 w1".to_owned()];
    let (plain, searching) = (work.path().join("plain"), work.path().join("searching"));
    import(gpt2(&json!({ "eos_token_id": 36 })).path(), &plain);
    let said = json!({
        "eos_token_id": 36, "num_beams": 4, "num_return_sequences": 3, "length_penalty": 0.5, "early_stopping": true,
    });
    let told = import(gpt2(&said).path(), &searching);
    assert!(!told.contains("num_beams"), "{told}");
    let flags = [
        "--beam",
        "4",
        "--n-best",
        "3",
        "--length-penalty",
        "0.5",
        "--done-when",
        "full",
    ];
    let wanted = found(&plain, &prompts, &flags);
    assert_eq!(found(&searching, &prompts, &[]), wanted);
    assert_eq!(wanted.len(), 6);
    // Each flag overrides its own setting.
    let single = found(&searching, &prompts, &["--n-best", "1"]);
    assert_eq!(single.len(), 2);
    let narrow = [
        "--beam",
        "2",
        "--length-penalty",
        "0.5",
        "--done-when",
        "full",
        "--n-best",
        "2",
    ];
    assert_eq!(
        found(&searching, &prompts, &["--beam", "2"]),
        found(&plain, &prompts, &narrow)
    );
    let draws = ["--temperature", "0.7", "--seed", "3"];
    assert_eq!(
        found(&searching, &prompts, &draws),
        found(&plain, &prompts, &draws)
    );
    let run = shown(&searching);
    for (flags, told) in [
        (
            &["--stop", "w5"][..],
            "--stop does not work with the search of the run",
        ),
        (
            &["--samples", "2", "--n-best", "2"],
            "--n-best has no effect with --samples",
        ),
    ] {
        let all = ["generate", &run, "--prompt", "w3", "--tokens", "5"];
        let (status, said) = failure(&[&all[..], flags].concat());
        assert!(status == 2 && said.contains(told), "{flags:?}: {said}");
    }
}
