//! `eval` and `generate` on runs in all conditions: damaged, edited by hand, called from odd places.

use super::{json, run};
use crate::binary::{failure, formwork, output};
use std::path::{Path, PathBuf};

fn finished() -> (tempfile::TempDir, String, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(folder.path(), "run", &[]);
    let path = PathBuf::from(&shown);
    (folder, shown, path)
}

/// Other commands refuse such a run; a comparison notes that its settings were changed.
#[test]
fn a_comparison_names_settings_that_were_changed_by_hand() {
    let (_folder, run, path) = finished();
    let note = "resolved.toml was changed";
    assert!(!output(&["compare", &run]).contains(note));
    let file = path.join("resolved.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("lr = 0.003", "lr = 0.001")).unwrap();
    let told = output(&["compare", &run]);
    assert!(told.contains(note), "{told}");
    let (status, said) = failure(&["inspect", &run, "attentoin"]);
    assert_eq!(status, 2);
    assert!(said.ends_with("; did you mean `attention`?\n"), "{said}");
}

/// The best checkpoint is kept after those around it are deleted, so it does not count as a neighbour of the newest.
#[cfg(unix)]
#[test]
fn a_mean_leaves_out_a_checkpoint_that_only_the_best_link_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let stopped = run(folder.path(), "run", &["train.eval_every=40"]);
    let early = folder.path().join("early").display().to_string();
    let tiny = "experiments/smoke/tiny.toml";
    let begun = ["train", tiny, "--quiet", "--run", &early];
    output(&[&begun[..], &["--pause-at", "10"]].concat());
    // As if step 5 had been the best.
    let path = PathBuf::from(&stopped);
    let old = path.join("steps/00000005");
    std::fs::rename(PathBuf::from(&early).join("steps/00000005"), &old).unwrap();
    let mean = |of: &str| ["eval", &stopped, "--checkpoint", of].map(String::from);
    // If another checkpoint is the best, it counts like the others.
    output(&mean("average:3"));
    std::fs::remove_file(path.join("best")).unwrap();
    std::os::unix::fs::symlink("steps/00000005", path.join("best")).unwrap();
    let (status, said) = failure(&mean("average:3"));
    assert_eq!(status, 2, "{said}");
    let why = "has 2 checkpoints besides the best one: too few for a mean of 3";
    assert!(said.contains(why), "{said}");
    output(&mean("average:2"));
}

#[test]
fn a_damaged_best_checkpoint_names_a_whole_one() {
    let (_folder, run, path) = finished();
    let weights = path.join("best/model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let newest = formwork::train::checkpoint::newest_complete(&path).found;
    let step = newest.unwrap().state().step.to_string();
    for command in [
        &["eval", &run][..],
        &["generate", &run, "--prompt", "abcdef="],
        &["eval", &run, "--checkpoint", "latest"],
    ] {
        let (status, said) = failure(command);
        assert_eq!(status, 1);
        assert!(said.contains(&format!("--checkpoint {step}")), "{said}");
    }
    let scores = json(&output(&["eval", &run, "--checkpoint", &step, "--json"]));
    assert_eq!(scores["step"].to_string(), step);
    let mut command = formwork(&["eval", &run, "--checkpoint", &step]);
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(said.starts_with("the scores are not saved: "), "{said}");
    // An evaluation that tries another checkpoint does not replace the run's own scores.
    let kept = std::fs::read_to_string(path.join("scores.json")).unwrap();
    assert_eq!(json(&kept)["valid"]["step"].to_string(), "40");
    let (status, said) = failure(&["eval", &run, "--checkpoint", "7"]);
    assert_eq!(status, 2);
    assert!(
        said.contains("no checkpoint of step 7; available steps: "),
        "{said}"
    );
    let (status, said) = failure(&["eval", &run, "--checkpoint", "worst"]);
    assert_eq!(status, 2);
    assert!(
        said.contains("give `best`, `latest`, the number of a step, or `average:5`"),
        "{said}"
    );
}

#[test]
fn scores_are_printed_where_they_cannot_be_kept() {
    let (_folder, run, path) = finished();
    std::fs::write(path.join("scores.json"), "{ no json").unwrap();
    let ended = formwork(&["eval", &run]).output().unwrap();
    assert!(ended.status.success());
    assert!(String::from_utf8_lossy(&ended.stdout).starts_with("valid loss "));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        said.starts_with("the scores were not saved: ") && said.contains("scores.json is damaged"),
        "{said}"
    );
    assert_eq!(
        std::fs::read(path.join("scores.json")).unwrap(),
        b"{ no json"
    );
}

#[test]
fn an_experiment_that_was_edited_into_nonsense_is_refused() {
    let (_folder, run, path) = finished();
    let file = path.join("resolved.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("n_heads = 4"));
    std::fs::write(&file, text.replace("n_heads = 4", "n_heads = 0")).unwrap();
    let (status, said) = failure(&["eval", &run]);
    assert_eq!(status, 1);
    assert!(said.contains("resolved.toml was changed"), "{said}");
    formwork::train::run_manifest::seal(&path).unwrap();
    let (status, said) = failure(&["eval", &run]);
    assert_eq!(status, 2);
    assert!(
        said.contains("n_heads = 0 is not between 1 and 4096"),
        "{said}"
    );
}

#[test]
fn a_missing_tokenizer_is_said_to_be_missing() {
    let (_folder, run, path) = finished();
    std::fs::remove_file(path.join("tokenizer.json")).unwrap();
    let (_, said) = failure(&["generate", &run, "--prompt", "abcdef="]);
    assert!(said.contains("tokenizer.json is missing"), "{said}");
}

#[test]
fn flags_of_generate() {
    let (_folder, run, _) = finished();
    let wrong = |more: &[&str], says: &str| {
        let mut arguments = vec!["generate", &run, "--prompt", "abcdef="];
        arguments.extend(more);
        let (status, said) = failure(&arguments);
        assert_eq!((status, said.trim_end()), (2, says), "{more:?}");
    };
    let below = "error: --temperature -1 must be 0 (the most likely token) or more";
    wrong(&["--temperature", "-1"], below);
    wrong(&["--top-p", "-0.5"], "error: --top-p -0.5 is not in (0, 1]");
    let penalty = "is not a number above 0; 1 switches it off";
    wrong(
        &["--repetition-penalty", "inf"],
        &format!("error: --repetition-penalty inf {penalty}"),
    );
    wrong(
        &["--repetition-penalty", "-2"],
        &format!("error: --repetition-penalty -2 {penalty}"),
    );
    wrong(
        &["--stop", ""],
        "error: --stop \"\" stops before anything is generated; give a text",
    );
    wrong(
        &["--samples", "0"],
        "error: --samples 0 generates nothing; give at least 1",
    );
    let no_tokens = "error: --tokens 0 generates nothing; give at least 1";
    wrong(&["--tokens", "0"], no_tokens);
    let (status, said) = failure(&["chat", &run, "--message", "a", "--tokens", "0"]);
    assert_eq!((status, said.trim_end()), (2, no_tokens));
    for flag in [["--top-k", "3"], ["--top-p", "0.5"], ["--min-p", "0.5"]] {
        let idle = format!(
            "error: {0} has no effect: --temperature 0 selects the most likely token; set --temperature above 0, or remove {0}",
            flag[0]
        );
        wrong(&["--temperature", "0", flag[0], flag[1]], &idle);
    }
    let several = ["--samples", "3", "--tokens", "5", "--seed", "1"];
    let shown = output(&[&["generate", &run, "--prompt", "abcdef="], &several[..]].concat());
    assert!(shown.contains("--- 3 of 3\nabcdef="), "{shown}");
    // A prompt may begin with a hyphen; that this model's vocabulary lacks it is another matter.
    let (_, said) = failure(&["generate", &run, "--prompt", "-5"]);
    assert!(!said.contains("unexpected argument"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_whose_name_is_no_text() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join("text.txt"), "to be or not to be. ".repeat(100)).unwrap();
    let experiment = "name = \"odd\"\n[model]\nkind = \"decoder\"\nd_model = 16\nn_layers = 1\n\
        [tokenizer]\nkind = \"char\"\n[data]\nkind = \"text\"\npath = \"text.txt\"\ncontext = 16\n\
        [task]\nkind = \"causal_lm\"\n[optimizer]\nkind = \"adamw\"\n[schedule]\nkind = \"constant\"\n\
        [train]\nsteps = 2\nbatch_size = 2\n";
    std::fs::write(odd.join("x.toml"), experiment).unwrap();
    let here = |arguments: &[&str]| {
        let ended = formwork(arguments).current_dir(&odd).output().unwrap();
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
        String::from_utf8(ended.stdout).unwrap()
    };
    here(&["train", "x.toml", "--quiet"]);
    let resolved = std::fs::read_to_string(odd.join(Path::new("checkpoints/odd/resolved.toml")));
    assert!(resolved.unwrap().contains("path = \"text.txt\""));
    here(&["eval", "checkpoints/odd", "--json"]);
    let text = here(&[
        "generate",
        "checkpoints/odd",
        "--prompt",
        "to be",
        "--tokens",
        "3",
    ]);
    assert!(text.starts_with("to be"), "{text}");
}

/// The validation text passed as other data gives the validation loss and stores no score; a run's model can be planned.
#[test]
fn a_run_is_evaluated_on_other_text_and_planned() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("a.txt"), "the cat sat on the mat\n".repeat(20)).unwrap();
    std::fs::write(path("b.txt"), "the mat sat on the cat\n".repeat(5)).unwrap();
    let text = "name = \"x\"\ntask = { kind = \"causal_lm\" }\n\
                model = { kind = \"decoder\", n_layers = 1, d_model = 16, position = { kind = \"rotary\" } }\n\
                tokenizer = { kind = \"char\" }\noptimizer = { kind = \"adamw\", lr = 1e-3 }\n\
                train = { steps = 2, batch_size = 2 }\n\
                data = { kind = \"text\", path = [\"a.txt\", \"b.txt\"], weights = [3.0, 1.0], valid_path = \"b.txt\", context = 16 }\n";
    std::fs::write(path("x.toml"), text).unwrap();
    let (file, run, other) = (path("x.toml"), path("run"), path("b.txt"));
    output(&["train", &file, "--run", &run, "--quiet"]);
    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_str(&output(&[words, &["--json"]].concat())).unwrap()
    };
    let own = json(&["eval", &run]);
    let kept = std::fs::read(path("run/scores.json")).unwrap();
    let found = json(&["eval", &run, "--data", &other]);
    assert_eq!(found["loss"], own["loss"]);
    assert_eq!(found["split"], other);
    assert_eq!(std::fs::read(path("run/scores.json")).unwrap(), kept);
    // Links are followed, but not in circles.
    std::fs::create_dir_all(path("texts/deep")).unwrap();
    std::fs::create_dir(path("all")).unwrap();
    std::fs::copy(path("b.txt"), path("texts/deep/b.txt")).unwrap();
    std::os::unix::fs::symlink(path("texts"), path("all/linked")).unwrap();
    assert_eq!(
        json(&["eval", &run, "--data", &path("all")])["loss"],
        own["loss"]
    );
    std::os::unix::fs::symlink(path("all"), path("all/again")).unwrap();
    let (status, said) = failure(&["eval", &run, "--data", &path("all")]);
    assert!(
        status == 2 && said.contains("is a link to a folder that contains it"),
        "{said}"
    );
    // A text shorter than a window is one partial window: every token except the first is scored, as with windows of its
    // length.
    std::fs::write(path("short.txt"), "the mat").unwrap();
    let short = json(&["eval", &run, "--data", &path("short.txt")]);
    let whole = json(&["eval", &run, "--data", &path("short.txt"), "--context", "6"]);
    let (a, b) = (
        short["loss"].as_f64().unwrap(),
        whole["loss"].as_f64().unwrap(),
    );
    assert!((a - b).abs() < 1e-6, "{a} {b}");
    let (status, said) = failure(&["eval", &run, "--data", &path("gone.txt")]);
    assert!(status == 2 && said.contains("gone.txt"), "{said}");
    let (of_run, of_file) = (json(&["plan", &run]), json(&["plan", &file, "--no-probe"]));
    assert_eq!(of_run["params"], of_file["params"]);
}
