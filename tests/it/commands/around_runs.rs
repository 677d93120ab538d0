//! `runs`, `tokenize`, `completions` and `man`.

use std::fs;

use super::{json, run};
use crate::binary::{failure, output};

#[test]
fn runs_below_a_folder_with_their_states() {
    let folder = tempfile::tempdir().unwrap();
    let done = run(folder.path(), "deep/done", &[]);
    let stopped = folder.path().join("stopped");
    let copied = std::process::Command::new("cp")
        .args(["-r", &done])
        .arg(&stopped)
        .status();
    assert!(copied.unwrap().success());
    // A journal cut in half: a run that was killed.
    let journal = fs::read_to_string(stopped.join("metrics.jsonl")).unwrap();
    let half: Vec<&str> = journal.lines().take(3).collect();
    fs::write(stopped.join("metrics.jsonl"), half.join("\n") + "\n").unwrap();
    fs::remove_file(stopped.join("scores.json")).unwrap();
    // A full journal without a checkpoint: a run that was killed in its last evaluation.
    let unsaved = folder.path().join("unsaved");
    fs::create_dir_all(unsaved.join("steps")).unwrap();
    for name in ["resolved.toml", "metrics.jsonl"] {
        fs::copy(format!("{done}/{name}"), unsaved.join(name)).unwrap();
    }
    let broken = folder.path().join("broken");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("resolved.toml"), "name = [").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();

    let shown = folder.path().display().to_string();
    let all = json(&output(&["runs", &shown, "--json"]));
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 4, "{all:?}");
    let of = |ending: &str| {
        let mut found = all.iter();
        found
            .find(|r| r["run"].as_str().unwrap().ends_with(ending))
            .unwrap()
    };
    let scores = fs::read_to_string(format!("{done}/scores.json")).unwrap();
    let best = json(&scores)["valid"]["loss"].as_f64().unwrap();
    assert_eq!(of("done")["state"], "done");
    assert_eq!(
        (&of("done")["step"], &of("done")["steps"]),
        (&40.into(), &40.into())
    );
    assert_eq!(of("done")["metric"], "valid_loss");
    assert!((of("done")["score"].as_f64().unwrap() - best).abs() < 1e-9);
    assert_eq!(of("stopped")["state"], "stopped");
    assert!(of("stopped")["step"].as_u64().unwrap() < 40);
    assert_eq!(of("unsaved")["state"], "stopped");
    assert_eq!(of("broken")["state"], "unreadable");
    let table = output(&["runs", &shown]);
    assert!(table.starts_with("run "), "{table}");
    assert!(
        table.contains("40 of 40") && table.contains("unreadable: "),
        "{table}"
    );

    let again = format!("{done}/.");
    let (status, said) = failure(&["compare", &done, &again]);
    assert_eq!(status, 2);
    assert!(said.contains("are the same run: name it once"), "{said}");

    let (status, said) = failure(&["runs", &format!("{shown}/none")]);
    assert_eq!(status, 2);
    assert!(said.contains("no folder "), "{said}");
}

#[test]
fn pieces_and_ids_of_a_text() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "run", &[]);
    let all = json(&output(&["tokenize", &run, "abc=", "--json"]));
    assert_eq!(all["pieces"], serde_json::json!(["a", "b", "c", "="]));
    assert_eq!(all["text"], "abc=");
    let file = format!("{run}/tokenizer.json");
    let again = json(&output(&["tokenize", &file, "abc=", "--json"]));
    assert_eq!(all, again);
    // For an experiment, its run's tokenizer is built; a file's content is tokenized.
    let text = folder.path().join("text").display().to_string();
    std::fs::write(&text, "abc=\n").unwrap();
    let experiment = format!("{run}/experiment.toml");
    let made = json(&output(&["tokenize", &experiment, &text, "--json"]));
    assert_eq!(all, made);
    let words = folder.path().join("words.txt").display().to_string();
    std::fs::write(&words, "[UNK]\na\na\n").unwrap();
    let table = output(&["tokenize", &run, "ab"]);
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains("\"a\""), "{table}");
    for (arguments, why) in [
        (
            vec!["tokenize", "no-such-run", "a"],
            "no run or tokenizer no-such-run",
        ),
        (
            vec!["tokenize", run.as_str(), "a", "--target"],
            "has no target_tokenizer.json",
        ),
        (vec!["tokenize", words.as_str(), "a"], "occurs twice"),
    ] {
        let (status, said) = failure(&arguments);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn completions_and_pages_name_every_command() {
    let help = output(&["--help"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| !word.is_empty() && *word != "help")
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = output(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command), "{shell} lacks {command}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    output(&["man", &pages.display().to_string()]);
    assert!(pages.join("formwork.1").is_file());
    for command in &commands {
        let page = fs::read_to_string(pages.join(format!("formwork-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
}
