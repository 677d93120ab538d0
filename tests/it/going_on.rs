//! What a resumed run remembers, refuses and repairs.

use crate::binary::{failure, formwork, output};
use formwork::train::{journal, run_manifest};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

const TINY: &str = "experiments/smoke/tiny.toml";

/// Arguments of `train` or `resume`, with `--set`s.
fn command(words: &[&str], sets: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = words.iter().map(|w| (*w).to_string()).collect();
    all.push("--quiet".into());
    for set in sets {
        all.extend(["--set".into(), (*set).to_string()]);
    }
    all
}

/// A temporary folder, the path of a run in it, and that path as text.
fn place() -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let shown = run.display().to_string();
    (folder, run, shown)
}

fn evaluations(run: &Path) -> Vec<journal::Line> {
    let lines = journal::read(run.join("metrics.jsonl")).unwrap();
    lines.into_iter().filter(|l| l.split == "valid").collect()
}

fn valid_loss(run: &Path) -> f64 {
    let scores = fs::read(run.join("scores.json")).unwrap();
    let scores: serde_json::Value = serde_json::from_slice(&scores).unwrap();
    scores["valid"]["loss"].as_f64().unwrap()
}

#[test]
fn changes_are_kept_unless_they_make_another_run() {
    let (_folder, run, shown) = place();
    output(&command(&["train", TINY, "--run", &shown], &[]));
    let resolved = || fs::read_to_string(run.join("resolved.toml")).unwrap();
    let before = resolved();
    for set in [
        "seed=4",
        "train.batch_size=4",
        "data.length=7",
        "model.d_model=64",
        "optimizer.kind=lion",
    ] {
        let key = set.split('=').next().unwrap();
        for words in [
            vec!["resume", &shown],
            vec!["train", TINY, "--resume", "--run", &shown],
        ] {
            let (status, said) = failure(&command(&words, &[set]));
            assert_eq!(status, 2, "{said}");
            assert!(said.contains(&format!("error: {key} is ")), "{said}");
            assert!(said.contains("start a new run"), "{said}");
        }
    }
    assert_eq!(resolved(), before);
    output(&command(&["resume", &shown], &["train.steps=60"]));
    assert_eq!(resolved(), before.replace("steps = 40", "steps = 60"));
    let printed = output(&command(&["resume", &shown], &[]));
    assert!(printed.contains("done after 60 steps"), "{printed}");
    let (status, said) = failure(&command(&["resume", &shown], &["train.steps=50"]));
    assert_eq!(status, 2, "{said}");
    assert!(resolved().contains("steps = 60"));
}

#[test]
fn a_run_whose_end_was_cut_gets_its_scores() {
    let (_folder, run, shown) = place();
    output(&command(&["train", TINY, "--run", &shown], &[]));
    let (scores, lines) = (
        fs::read(run.join("scores.json")).unwrap(),
        fs::read(run.join("metrics.jsonl")).unwrap(),
    );
    fs::remove_file(run.join("scores.json")).unwrap();
    let printed = output(&command(&["resume", &shown], &[]));
    assert!(printed.contains("done after 40 steps"), "{printed}");
    assert_eq!(fs::read(run.join("scores.json")).unwrap(), scores);
    assert_eq!(fs::read(run.join("metrics.jsonl")).unwrap(), lines);
}

/// If a process dies after its last checkpoint, before the links are moved, they still point to earlier steps.
#[cfg(unix)]
#[test]
fn links_that_were_left_behind_are_put_right() {
    let (_folder, run, shown) = place();
    let sets = ["train.keep_last=8"];
    output(&command(&["train", TINY, "--run", &shown], &sets));
    let led = || ["best", "latest"].map(|link| fs::read_link(run.join(link)).unwrap());
    let before = led();
    for link in ["best", "latest"] {
        fs::remove_file(run.join(link)).unwrap();
        std::os::unix::fs::symlink("steps/00000010", run.join(link)).unwrap();
    }
    assert_ne!(led(), before);
    output(&command(&["resume", &shown], &[]));
    assert_eq!(led(), before);
}

#[test]
fn an_early_stop_outlives_a_resume_and_is_scored_on_the_whole_split() {
    let (_folder, run, shown) = place();
    // With a learning rate of almost zero, nothing improves after the first evaluation.
    let sets = [
        "optimizer.lr=1e-30",
        "train.patience=1",
        "train.eval_every=2",
        "train.eval_batches=1",
    ];
    let printed = output(&command(&["train", TINY, "--run", &shown], &sets));
    assert!(printed.contains("stopped early"), "{printed}");
    let lines = evaluations(&run);
    let last = lines.last().unwrap();
    let loss = valid_loss(&run);
    assert_eq!(last.loss, Some(loss));
    assert_ne!(lines[0].loss, Some(loss), "the first was whole, too");
    let scored = output(&["eval", &shown, "--json"]);
    let scored: serde_json::Value = serde_json::from_str(&scored).unwrap();
    assert!((scored["loss"].as_f64().unwrap() - loss).abs() < 1e-6);
    fs::remove_file(run.join("scores.json")).unwrap();
    let printed = output(&command(&["resume", &shown], &[]));
    let ended = format!("no longer improve after {} steps", last.step);
    assert!(printed.contains(&ended), "{printed}");
    assert_eq!(valid_loss(&run), loss);
    let printed = output(&command(&["resume", &shown], &["train.patience=50"]));
    assert!(printed.contains("done after 40 steps"), "{printed}");
}

#[test]
fn the_best_is_chosen_by_the_items_that_all_evaluations_read() {
    let (_folder, run, shown) = place();
    let sets = ["optimizer.lr=1e-30", "train.eval_batches=1"];
    output(&command(&["train", TINY, "--run", &shown], &sets));
    let lines = evaluations(&run);
    assert_ne!(lines[0].loss, lines.last().unwrap().loss);
    // The weights do not change, so no later evaluation is better, whatever it reads.
    let best = fs::read_link(run.join("best")).unwrap();
    assert!(best.ends_with("00000010"), "{}", best.display());
}

#[test]
fn faults_that_only_the_model_shows_leave_no_folder() {
    let (_folder, run, shown) = place();
    for (set, named) in [
        ("train.sample={prompt=\"é\"}", "sample.prompt"),
        (
            "optimizer.groups=[{match=\"nowhere\",lr_scale=0.1}]",
            "nowhere",
        ),
    ] {
        let (status, said) = failure(&command(&["train", TINY, "--run", &shown], &[set]));
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(named), "{said}");
        assert!(!run.exists(), "{set} left a folder");
    }
    output(&command(&["train", TINY, "--run", &shown], &[]));
}

#[cfg(unix)]
#[test]
fn a_signal_breaks_an_evaluation_off_and_it_is_made_after_all() {
    let (folder, run, shown) = place();
    let sets = [
        "train.steps=20",
        "train.log_every=10",
        "train.checkpoint_every=1000",
        "data.valid_items=20000",
    ];
    let mut child = formwork(&command(&["train", TINY, "--run", &shown], &sets))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The journal's line of step 10 is written just before the evaluation.
    let begun = || fs::read_to_string(run.join("metrics.jsonl")).is_ok_and(|t| t.ends_with('\n'));
    while !begun() {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(20));
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let state = fs::read_to_string(run.join("latest/state.json")).unwrap();
    assert!(state.contains("\"evaluation_due\": true"), "{state}");
    assert_eq!(evaluations(&run), []);
    output(&command(&["resume", &shown], &[]));
    let whole = folder.path().join("whole");
    let shown = whole.display().to_string();
    output(&command(&["train", TINY, "--run", &shown], &sets));
    let timeless = |run: &Path| -> Vec<String> {
        let lines = journal::read(run.join("metrics.jsonl")).unwrap();
        let lines = lines.into_iter().map(journal::Line::without_timing);
        lines.map(|line| format!("{line:?}")).collect()
    };
    assert_eq!(timeless(&run), timeless(&whole));
    let weights = |run: &Path| fs::read(run.join("latest/model.safetensors")).unwrap();
    assert!(weights(&run) == weights(&whole), "the weights differ");
}

#[test]
fn more_steps_than_can_be_counted_are_not_measured() {
    let warmup = usize::MAX.to_string();
    let (status, said) = failure(&["bench", "train", TINY, "--warmup", &warmup]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("cannot be measured"), "{said}");
}

/// Trains for 4 steps on the test's own text, in `stem.txt`.
fn on_text(stem: &Path, shown: &str) {
    let text: String = (0..400).map(|i| format!("{} and {}\n", i, i * i)).collect();
    fs::write(stem.join("words.txt"), text).unwrap();
    let experiment = stem.join("words.toml");
    let from = "name = \"words\"\n[model]\nkind = \"decoder\"\nn_layers = 1\nd_model = 16\nattention = { kind = \
                \"multi_head\", n_heads = 2 }\n[tokenizer]\nkind = \"char\"\n[data]\nkind = \"text\"\npath = \
                \"words.txt\"\ncontext = 16\n[task]\nkind = \"causal_lm\"\n[optimizer]\nkind = \"adamw\"\nlr = \
                1e-3\n[train]\nsteps = 4\nbatch_size = 2\n";
    fs::write(&experiment, from).unwrap();
    let experiment = experiment.display().to_string();
    output(&command(&["train", &experiment, "--run", shown], &[]));
}

#[test]
fn a_run_does_not_go_on_with_other_data_by_itself() {
    let (folder, run, shown) = place();
    on_text(folder.path(), &shown);
    // With a learning rate of almost zero, nothing improves.
    let more = ["train.steps=6", "optimizer.lr=1e-30"];
    let file = folder.path().join("words.txt");
    let text = fs::read(&file).unwrap();
    // The same text, gzipped, counts as unchanged.
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut zipped, &text).unwrap();
    fs::write(folder.path().join("words.txt.gz"), zipped.finish().unwrap()).unwrap();
    fs::remove_file(&file).unwrap();
    output(&command(&["resume", &shown], &["train.steps=5"]));
    fs::remove_file(folder.path().join("words.txt.gz")).unwrap();
    // A text one letter longer, and one of the same length with another letter.
    let mut longer = text.clone();
    longer.push(b'1');
    let mut other = text.clone();
    other[3] = b'7';
    for changed in [longer, other] {
        fs::write(&file, changed).unwrap();
        let journal = fs::read(run.join("metrics.jsonl")).unwrap();
        let (status, said) = failure(&command(&["resume", &shown], &more));
        assert_eq!(status, 2, "{said}");
        assert!(
            said.contains("words.txt differs from the one that the run began with"),
            "{said}"
        );
        assert!(said.contains("--other-data"), "{said}");
        assert_eq!(fs::read(run.join("metrics.jsonl")).unwrap(), journal);
    }
    let printed = output(&command(&["resume", &shown, "--other-data"], &more));
    assert!(printed.contains("done after 6 steps"), "{printed}");
    // The loss on other examples is no longer the best of these.
    let state = fs::read(run.join("latest/state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
    assert_eq!(state["best"]["step"], 6);
    // The run records what it read before.
    let files = fs::read_to_string(run.join("files.json")).unwrap();
    let files: serde_json::Value = serde_json::from_str(&files).unwrap();
    assert_eq!(files[0]["earlier"][0]["until"], 5, "{files}");
    let told = output(&["compare", &shown]);
    assert!(
        told.contains("data.path: words.txt (") && told.contains(" at 5"),
        "{told}"
    );
    let taken = fs::read(&file).unwrap();
    fs::write(&file, &text).unwrap();
    let (_, said) = failure(&command(&["resume", &shown], &["train.steps=7"]));
    assert!(
        said.contains("differs from the one that the run read last"),
        "{said}"
    );
    fs::write(&file, taken).unwrap();
    // The new data is known from now on.
    output(&command(&["resume", &shown], &["train.steps=7"]));
    // A run of an earlier version has no record of its files.
    fs::remove_file(run.join("files.json")).unwrap();
    run_manifest::seal(&run).unwrap();
    output(&command(&["resume", &shown], &["train.steps=8"]));
    assert!(run.join("files.json").exists());
}

/// Before its first checkpoint, a run has only the weights that it began from.
#[test]
fn a_run_begun_from_another_keeps_its_beginning_when_it_has_no_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let shown = |name: &str| path(name).display().to_string();
    output(&command(&["train", TINY, "--run", &shown("first")], &[]));
    let from = format!("init.from={:?}", shown("first"));
    let whole = ["train", TINY, "--run", &shown("whole")];
    output(&command(&whole, &[&from, "seed=4", "train.steps=6"]));
    // The files that a run leaves if it is killed before its first checkpoint.
    let killed = path("killed");
    fs::create_dir_all(killed.join("steps")).unwrap();
    for entry in fs::read_dir(path("whole")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let later = ["scores.json", "metrics.jsonl"].map(std::ffi::OsStr::new);
        if entry.file_type().unwrap().is_file() && !later.contains(&name.as_os_str()) {
            fs::copy(entry.path(), killed.join(&name)).unwrap();
        }
    }
    let other = failure(&command(
        &["resume", &shown("killed")],
        &["init.new=[\".\"]"],
    ));
    assert_eq!(other.0, 2, "{}", other.1);
    assert!(other.1.contains("error: init.new is unset"), "{}", other.1);
    output(&command(&["resume", &shown("killed")], &[]));
    for name in ["model.safetensors", "ema.safetensors"] {
        let [ours, theirs] = [&killed, &path("whole")]
            .map(|run| fs::read(run.join("steps/00000006").join(name)).unwrap());
        assert!(ours == theirs, "{name} of the run that was killed");
    }
    // A run that has begun cannot change which of its weights came from another run.
    for (run, set) in [("whole", "init.new=[\".\"]"), ("first", &from)] {
        let (status, said) = failure(&command(&["resume", &shown(run)], &[set]));
        assert_eq!(status, 2, "{said}");
        assert!(
            said.contains("this key cannot change when a run is resumed"),
            "{said}"
        );
    }
    // Once there is a checkpoint, the other run is no longer needed.
    fs::remove_dir_all(path("first")).unwrap();
    let more = ["train.steps=8", "init.from=elsewhere"];
    output(&command(&["resume", &shown("killed")], &more));
}
