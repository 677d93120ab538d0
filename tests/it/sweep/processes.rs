//! Processes that train the cells of one sweep: killed, concurrent, failing.

use super::{Place, begun, entries, measured};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const NORMS: &str =
    "seeds = 5\n[ablation.axes]\n\"model.norm_placement\" = [\"pre\", \"post\", \"sandwich\"]\n";

/// Kills every process whose command line contains `folder`, as the system does if memory is exhausted.
pub(super) fn kill_all(folder: &Path) {
    let needle = folder.display().to_string();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let pid = entry.file_name().into_string().unwrap();
        let ours = pid == std::process::id().to_string();
        if !ours && String::from_utf8_lossy(&command).contains(&needle) {
            // The process may have ended by now.
            drop(Command::new("kill").args(["-9", &pid]).status());
        }
    }
}

/// Three arms with five seeds, killed entirely three times, give the numbers of an undisturbed sweep.
#[test]
#[cfg(target_os = "linux")]
fn killed_three_times_it_ends_with_the_same_numbers() {
    let place = Place::new();
    let file = place.file("norms", NORMS);
    let (fine, said, _) = place.swept(&file, "whole", &["--jobs", "2"]);
    assert!(
        fine && said.starts_with("15 cells done, 0 diverged, 0 failed"),
        "{said}"
    );
    let folder = place.path("killed");
    for _ in 0..3 {
        let ends = || {
            entries(&folder)
                .iter()
                .any(|p| p.ends_with("ledger"))
                .then(|| entries(&folder.join("ledger")))
        };
        let ended = |n: &Option<Vec<_>>| {
            let n = n.iter().flatten();
            n.filter(|p: &&std::path::PathBuf| p.display().to_string().ends_with(".end.json"))
                .count()
        };
        let before = if folder.exists() { ended(&ends()) } else { 0 };
        let mut sweep = place.sweep(&file, "killed", &["--jobs", "2"]);
        let mut sweep = sweep
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        // In the middle of cells: three more have ended, and others are running.
        while (!folder.join("ledger").exists() || ended(&ends()) < before + 3)
            && begun.elapsed() < Duration::from_secs(120)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(150));
        kill_all(&folder);
        sweep.wait().unwrap();
    }
    let (fine, said, told) = place.swept(&file, "killed", &["--jobs", "2"]);
    assert!(
        fine && said.starts_with("15 cells done, 0 diverged, 0 failed"),
        "{said}{told}"
    );
    assert!(
        !begun(&told).is_empty() || told.contains(": resumed, attempt"),
        "{told}"
    );
    assert_eq!(measured(&folder), measured(&place.path("whole")));
}

#[test]
fn two_sweeps_at_once_share_the_cells() {
    let place = Place::new();
    let file = place.file("norms", NORMS);
    let start = || place.sweep(&file, "shared", &[]).spawn().unwrap();
    let outputs = [start(), start()].map(|child| child.wait_with_output().unwrap());
    let mut cells = Vec::new();
    for output in outputs {
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        assert!(!told.contains(": resumed, attempt"), "{told}");
        let said = String::from_utf8(output.stdout).unwrap();
        // Each sweep waits until the other's last cell has ended.
        assert!(
            said.starts_with("15 cells done, 0 diverged, 0 failed, 0 with"),
            "{said}"
        );
        cells.extend(begun(&told));
    }
    cells.sort();
    let mut once = cells.clone();
    once.dedup();
    assert_eq!(cells, once, "a cell was trained twice");
    assert_eq!(cells.len(), 15);
}

/// The steps that a time budget allows are measured once, by the sweep that writes the plan.
#[test]
fn sweeps_that_begin_together_have_one_plan() {
    let place = Place::new();
    let arms =
        "seeds = 1\nbudget = { minutes = 0.002 }\n[ablation.axes]\n\"model.n_layers\" = [1, 2]\n";
    let file = place.file("timed", arms);
    // Without warmup, the schedule fits however few steps the time allows.
    let sets = ["--set", "schedule.warmup_steps=0"];
    for round in ["timed-1", "timed-2"] {
        let start = || place.sweep(&file, round, &sets).spawn().unwrap();
        let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
        for output in both {
            let told = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{told}");
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(
                said.starts_with("2 cells done, 0 diverged, 0 failed, 0 with"),
                "{said}"
            );
        }
    }
}

#[test]
fn a_stopped_sweep_saves_its_cells_and_goes_on() {
    let place = Place::new();
    let file = place.file(
        "long",
        "seeds = 1\n[ablation.axes]\n\"model.n_layers\" = [1, 2]\n",
    );
    let whole = ["--set", "train.steps=400"];
    let mut sweep = place.sweep(&file, "stopped", &whole).spawn().unwrap();
    let run = place.path("stopped/cells/n_layers_1/seed-3");
    let begun = Instant::now();
    while !run.join("latest").exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = sweep.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let status = sweep.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let lines = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert!(lines.lines().count() < 400 / 3, "it was stopped too late");
    let (fine, said, told) = place.swept(&file, "stopped", &whole);
    assert!(fine && said.starts_with("2 cells done"), "{said}");
    assert!(
        told.contains("n_layers_1.seed-3: resumed, attempt 2"),
        "{told}"
    );
}

#[test]
fn cells_that_fail_or_diverge_do_not_stop_the_others() {
    let place = Place::new();
    let arms = "seeds = 2\n[[ablation.arms]]\nname = \"sound\"\n[[ablation.arms]]\nname = \"wild\"\n\
                set = { \"optimizer.lr\" = 1e30, \"train.clip_norm\" = 0.0 }\n";
    let file = place.file("wild", arms);
    let blocked = place.path("wild/cells/sound/seed-3");
    fs::create_dir_all(blocked.parent().unwrap()).unwrap();
    fs::write(&blocked, "in the way").unwrap();
    let (fine, said, told) = place.swept(&file, "wild", &[]);
    assert!(!fine);
    assert!(
        said.starts_with("1 cell done, 2 diverged, 1 failed, 0 with"),
        "{said}{told}"
    );
    assert!(told.contains("wild.seed-3: diverged: "), "{told}");
    assert!(
        told.contains("train them again with: formwork sweep"),
        "{told}"
    );
    let on = " of 4); the same command with --retry trains failed cells again\n";
    assert_eq!(told.matches(on).count(), 1, "{told}");
    // Without `--retry` no cell is left; with it, only the failed cell is trained.
    assert_eq!(
        begun(&place.swept(&file, "wild", &[]).2),
        Vec::<String>::new()
    );
    fs::remove_file(&blocked).unwrap();
    let (fine, said, told) = place.swept(&file, "wild", &["--retry"]);
    assert!(
        fine && said.starts_with("2 cells done, 2 diverged, 0 failed"),
        "{said}{told}"
    );
    assert_eq!(told.matches(": resumed, attempt").count(), 1, "{told}");
}

#[test]
fn seeds_and_axes_extend_a_finished_sweep() {
    let place = Place::new();
    let axes = |seeds: u32, more: &str| {
        format!(
            "seeds = {seeds}\n[ablation.axes]\n\"model.norm_placement\" = [\"pre\", \"post\"]\n{more}"
        )
    };
    let run = |ablation: &str| {
        let file = place.file("grows", ablation);
        let (fine, said, told) = place.swept(&file, "grows", &["--jobs", "2"]);
        assert!(fine, "{said}{told}");
        begun(&told)
    };
    assert_eq!(run(&axes(1, "")).len(), 2);
    let pre = place.path("grows/cells/norm_placement_pre/seed-3/metrics.jsonl");
    let before = fs::read_to_string(&pre).unwrap();
    let added = run(&axes(2, ""));
    assert_eq!(
        added,
        ["norm_placement_post.seed-4", "norm_placement_pre.seed-4"]
    );
    // Arms with the base's depth are those that already exist.
    let added = run(&axes(2, "\"model.n_layers\" = [2, 1]\n"));
    assert_eq!(
        added,
        [
            "norm_placement_post-n_layers_1.seed-3",
            "norm_placement_post-n_layers_1.seed-4",
            "norm_placement_pre-n_layers_1.seed-3",
            "norm_placement_pre-n_layers_1.seed-4"
        ]
    );
    assert_eq!(fs::read_to_string(&pre).unwrap(), before);
    // Another learning rate makes another sweep.
    let file = place.file("grows", &axes(2, "\"model.n_layers\" = [2, 1]\n"));
    let (fine, _, told) = place.swept(&file, "grows", &["--set", "optimizer.lr=0.5"]);
    assert!(!fine);
    assert!(
        told.contains(
            "arm `norm_placement=pre, n_layers=2` was trained with `[optimizer] lr = 0.003` but now has `[optimizer] lr = 0.5`"
        ),
        "{told}"
    );
}

/// A cell of a process on another machine is taken over when its heartbeat stops, not before.
#[test]
fn cells_of_a_dead_machine_are_taken_over() {
    let place = Place::new();
    let file = place.file(
        "far",
        "seeds = 1\n[ablation.axes]\n\"model.n_layers\" = [1]\n",
    );
    let ledger = place.path("far/ledger");
    fs::create_dir_all(place.path("far/cells")).unwrap();
    assert!(place.swept(&file, "far", &[]).0);
    let cell = ledger.join("n_layers_1.seed-3");
    let named = |what: &str| cell.with_file_name(format!("n_layers_1.seed-3.{what}"));
    fs::remove_file(named("end.json")).unwrap();
    let holder = r#"{"host":"far","system":"another boot","pid":1,"started":1,"serial":1}"#;
    fs::write(named("claim.2"), holder).unwrap();
    let begun = Instant::now();
    let (fine, said, told) = place.swept(&file, "far", &["--lease", "2"]);
    assert!(fine && said.starts_with("1 cell done"), "{said}{told}");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert!(
        told.contains("waiting for 1 cell of other processes"),
        "{told}"
    );
    assert!(
        told.contains("n_layers_1.seed-3: resumed, attempt 3"),
        "{told}"
    );
}

/// The folder of a removed arm is not given to another arm of the same name.
#[test]
fn results_are_never_credited_to_another_arm() {
    let place = Place::new();
    let arms = |big: &str| {
        let file = place.file(
            "stale",
            &format!("seeds = 1\n[[ablation.arms]]\nname = \"small\"\n{big}"),
        );
        let (fine, said, told) = place.swept(&file, "stale", &[]);
        assert!(fine, "{said}{told}");
        (begun(&told), told)
    };
    let big = |layers: u32| {
        format!("[[ablation.arms]]\nname = \"big\"\nset = {{ \"model.n_layers\" = {layers} }}\n")
    };
    assert_eq!(arms(&big(4)).0, ["big.seed-3", "small.seed-3"]);
    let (none, told) = arms("");
    assert!(none.is_empty());
    assert!(
        told.contains("1 arms and 0 seeds are no longer part of the sweep"),
        "{told}"
    );
    assert_eq!(arms(&big(3)).0, ["big-2.seed-3"]);
    let resolved =
        fs::read_to_string(place.path("stale/cells/big-2/seed-3/resolved.toml")).unwrap();
    assert!(resolved.contains("n_layers = 3"));
}

#[test]
fn a_fresh_sweep_deletes_what_a_sweep_wrote_and_nothing_else() {
    let place = Place::new();
    let file = place.file(
        "own/exp",
        "seeds = 1\n[ablation.axes]\n\"model.n_layers\" = [1]\n",
    );
    fs::copy(place.path("base.toml"), place.path("own/base.toml")).unwrap();
    assert!(
        !place.swept(&file, "own", &[]).0,
        "the folder holds something else"
    );
    let (fine, _, told) = place.swept(&file, "sweep", &[]);
    assert!(fine, "{told}");
    fs::write(place.path("sweep/notes.txt"), "mine").unwrap();
    let (fine, said, told) = place.swept(&file, "sweep", &["--fresh", "--dry-run", "--no-probe"]);
    assert!(fine && said.contains("n_layers=1"), "{told}");
    assert!(
        begun(&place.swept(&file, "sweep", &[]).2).is_empty(),
        "a dry run deletes nothing"
    );
    let (fine, _, told) = place.swept(&file, "sweep", &["--fresh"]);
    assert!(fine, "{told}");
    assert_eq!(begun(&told), ["n_layers_1.seed-3"]);
    assert_eq!(
        fs::read_to_string(place.path("sweep/notes.txt")).unwrap(),
        "mine"
    );
}
