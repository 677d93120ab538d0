//! Length of a run: `train.epochs` beside `train.steps`, and the two steps of `--smoke`.

use std::fs;
use std::path::Path;

use crate::binary::{failure, output};

const TINY: &str = "experiments/smoke/tiny.toml";

/// An experiment on a text of 4,000 bytes to train on and 1,000 to evaluate, in windows of 16.
fn text_experiment(folder: &Path, train: &str) -> String {
    let line = "the quick brown fox jumps over the lazy dog or stays where it is.\n";
    let text: String = line.chars().cycle().take(5000).collect();
    fs::write(folder.join("text.txt"), text).unwrap();
    let tiny = fs::read_to_string(TINY).unwrap();
    let (model, rest) = tiny.split_once("[data]").unwrap();
    let (_, rest) = rest.split_once("[task]").unwrap();
    let (rest, _) = rest.split_once("[train]").unwrap();
    let file = folder.join("text.toml");
    let data = "[tokenizer]\nkind = \"byte\"\n[data]\nkind = \"text\"\npath = \"text.txt\"\ncontext = 16\n\
                windows = \"contiguous\"\nvalid_fraction = 0.2\n";
    let train = format!("[train]\nlog_every = 1\n{train}\n");
    fs::write(&file, format!("{model}{data}[task]{rest}{train}")).unwrap();
    file.display().to_string()
}

/// Returns the number of steps that `check` reports.
fn steps(arguments: &[&str]) -> u64 {
    let checked = output(&[&["check"], arguments].concat());
    assert!(!checked.contains("\nepochs"), "{checked}");
    let line = checked.lines().find(|line| line.starts_with("steps = "));
    let value = line.unwrap().trim_start_matches("steps = ");
    let digits = value.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap()
}

#[test]
fn epochs_become_steps_once_the_data_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = text_experiment(folder.path(), "epochs = 2\nbatch_size = 10");
    // 249 windows of 16, each with the token behind it: 25 steps for a pass in batches of 10.
    assert_eq!(steps(&[&file]), 50);
    assert_eq!(steps(&[&file, "--set", "train.epochs=0.4"]), 10);
    // The later of the two keys counts.
    assert_eq!(steps(&[&file, "--set", "train.steps=7"]), 7);
    let run = folder.path().join("run").display().to_string();
    output(&["train", &file, "--quiet", "--run", &run]);
    let resolved = fs::read_to_string(format!("{run}/resolved.toml")).unwrap();
    assert!(
        resolved.contains("steps = 50") && !resolved.contains("epochs"),
        "{resolved}"
    );
    let journal = fs::read_to_string(format!("{run}/metrics.jsonl")).unwrap();
    assert!(journal.contains("\"step\":50"));
    // The run is complete by its own file, and can be continued to more steps.
    let again = output(&["train", &file, "--resume", "--run", &run]);
    assert!(again.contains("done after 50 steps"), "{again}");
    output(&["resume", &run, "--quiet", "--set", "train.steps=52"]);
    // A file given with another one is no split of this run.
    let rows = folder.path().join("rows.jsonl").display().to_string();
    fs::write(&rows, "no json\n").unwrap();
    let arguments = ["eval", &run, "--data", &rows, "--set", "data.field=text"];
    let (status, said) = failure(&arguments);
    assert!(
        status == 2 && said.contains("rows.jsonl:1") && !said.contains("train text"),
        "{said}"
    );
}

#[test]
fn faults_of_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let both = text_experiment(folder.path(), "epochs = 2\nsteps = 5");
    let (status, said) = failure(&["check", &both]);
    assert_eq!(status, 2);
    assert!(
        said.contains("steps and epochs both set the length of training"),
        "{said}"
    );
    for (wrong, why) in [
        ("0", "epochs = 0.0 must be above 0 and at most 1000000"),
        ("-1", "epochs = "),
        ("1e9", "epochs = "),
        ("nan", "not a finite number"),
        ("inf", "not a finite number"),
    ] {
        let file = text_experiment(folder.path(), &format!("epochs = {wrong}"));
        let (status, said) = failure(&["check", &file]);
        assert_eq!(status, 2);
        assert!(said.contains("text.toml:") && said.contains(why), "{said}");
    }
    // The message about a schedule that does not fit gives the steps that the epochs amount to.
    let file = text_experiment(folder.path(), "epochs = 0.1\nbatch_size = 10");
    let (status, said) = failure(&["train", &file, "--run", &format!("{file}.run")]);
    assert_eq!(status, 2);
    assert!(
        said.contains("warmup_steps = 5 is more than [train] steps = 3"),
        "{said}"
    );
    assert!(!Path::new(&format!("{file}.run")).exists());
}

#[test]
fn a_sweep_in_epochs_plans_steps() {
    let folder = tempfile::tempdir().unwrap();
    let train = "epochs = 1\nbatch_size = 10\n[ablation]\nseeds = 1\naxes = { \"train.batch_size\" = [10, 20] }";
    let file = text_experiment(folder.path(), train);
    let plan = output(&["sweep", &file, "--dry-run"]);
    assert!(plan.contains("25") && plan.contains("13"), "{plan}");
}

#[test]
fn a_smoke_test_takes_two_steps_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let said = output(&["train", TINY, "--smoke", "--quiet", "--run", &run]);
    assert!(
        said.contains("two steps, an evaluation and a checkpoint"),
        "{said}"
    );
    assert!(said.contains("valid loss"), "{said}");
    assert!(!Path::new(&run).exists());
    // A folder that is no run is left alone.
    fs::create_dir(&run).unwrap();
    fs::write(format!("{run}/notes.txt"), "mine").unwrap();
    let (status, _) = failure(&["train", TINY, "--smoke", "--run", &run]);
    assert_ne!(status, 0);
    assert!(Path::new(&format!("{run}/notes.txt")).exists());
}
