//! `plan` and similar commands say which experiment of a sweep's file they take, and `plan` says as which model its model
//! exports.

use super::json;
use crate::binary::{failure, formwork, output, shipped};
use std::fs;
use std::path::Path;

const TINY: &str = "experiments/smoke/tiny.toml";

/// Writes the smoke test's experiment followed by these lines.
fn file(folder: &Path, name: &str, more: &str) -> String {
    let path = folder.join(name);
    let base = shipped(TINY).display().to_string();
    fs::write(
        &path,
        format!("base = {base:?}\nname = \"planned\"\n{more}"),
    )
    .unwrap();
    path.display().to_string()
}

/// Returns standard error of a command that must succeed.
fn told(arguments: &[&str]) -> String {
    let ended = formwork(arguments).output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{told}");
    told
}

#[test]
fn what_takes_the_base_of_a_sweep_says_so_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let axes = "[ablation.axes]\n\"model.norm\" = [\"layer\", { kind = \"rms\", eps = 1e-5 }]\n\"model.n_layers\" = [1, 2]\n";
    let sweep = file(folder.path(), "sweep.toml", axes);
    let wanted = format!(
        "{sweep} has [ablation]; this command uses its base, without the settings of its 4 arms; arm `norm=layer, n_layers=1` \
         adds: --set 'model.norm=\"layer\"' --set model.n_layers=1; list all arms with: formwork sweep {sweep} --dry-run\n"
    );
    for command in [
        &["plan", &sweep, "--no-probe"][..],
        &["lr-find", &sweep, "--steps", "10"],
        &["bench", "train", &sweep, "--steps", "1", "--warmup", "0"],
    ] {
        assert_eq!(told(command), wanted, "{command:?}");
    }
    // Without changes it is the sweep's base; with the changes of an arm it is that arm.
    let plan = |file: &str, more: &[&str]| output(&[&["plan", file, "--no-probe"], more].concat());
    let plain = file(folder.path(), "plain.toml", "");
    assert_eq!(plan(&sweep, &[]), plan(&plain, &[]));
    assert_eq!(told(&["plan", &plain, "--no-probe"]), "");
    let arm = ["--set", "model.norm=\"layer\"", "--set", "model.n_layers=1"];
    let dry = output(&["sweep", &sweep, "--dry-run", "--no-probe"]);
    let of_arm = dry
        .lines()
        .find(|line| line.contains("norm=layer, n_layers=1"));
    let params = json(&plan(&sweep, &[&arm[..], &["--json"]].concat()))["params"].to_string();
    let shown = of_arm.unwrap().replace(',', "");
    assert!(shown.contains(&params), "{params}: {dry}");
}

#[test]
fn a_plan_says_what_a_model_is_exported_as() {
    let folder = tempfile::tempdir().unwrap();
    let planned = |what: &str, sets: &[&str]| {
        let mut arguments = vec!["plan", what, "--no-probe", "--json"];
        sets.iter().for_each(|set| arguments.extend(["--set", set]));
        json(&output(&arguments))["export"].clone()
    };
    let run = super::run(folder.path(), "run", &["train.steps=6"]);
    let made = folder.path().join("folder").display().to_string();
    let exported = output(&["export", &run, &made]);
    for what in [TINY, &run] {
        let family = planned(what, &[])["family"].clone();
        let family = family.as_str().unwrap();
        assert!(
            exported.contains(&format!(": {family} with ")),
            "{exported}"
        );
    }
    assert!(output(&["plan", TINY, "--no-probe"]).contains("exports to Hugging Face as `llama`"));
    // The reason is the one that `export` gives, only its first difference.
    let none = ["model.position=sinusoidal", "train.steps=6"];
    let reason = planned(TINY, &none)["reason"].clone();
    let reason = reason.as_str().unwrap();
    let said = output(&["plan", TINY, "--no-probe", "--set", none[0]]);
    assert!(
        said.contains(&format!("\ndoes not export to Hugging Face: {reason}\n")),
        "{said}"
    );
    // The reason names the file's task, not the task that its pairs are trained by.
    let decoder = "model={ kind = \"decoder\", n_layers = 1, d_model = 32, position = { kind = \"rotary\" } }";
    let spans = shipped("experiments/smoke/spans.toml")
        .display()
        .to_string();
    let named = planned(&spans, &[decoder])["reason"].to_string();
    assert!(
        named.contains("span_corruption") && !named.contains("translation"),
        "{named}"
    );
    let run = super::run(folder.path(), "none", &none);
    let (status, refused) = failure(&["export", &run, &format!("{made}-2")]);
    let first = reason.split("; and ").next().unwrap();
    assert!(status == 2 && refused.contains(first), "{refused}{reason}");
    assert_eq!(reason.matches(" instead of ").count(), 1, "{reason}");
    // A preset without an experiment has no objective and no data.
    let preset = json(&output(&["plan", "--preset", "gpt2", "--json"]));
    assert!(preset["export"].is_null(), "{preset}");
}

/// Sizes that no machine can hold are refused before anything is allocated.
#[test]
fn absurd_sizes_are_refused_at_once() {
    for (file, set, says) in [
        (
            "experiments/systems/electra.toml",
            "model.n_layers=1000000000000",
            "n_layers = 1000000000000 is not between 1 and 1000",
        ),
        (
            "experiments/systems/bert.toml",
            "data.test_items=400000",
            "make 5713400 sentences; the maximum is 4000000",
        ),
        (
            "experiments/smoke/tiny.toml",
            "data.valid_items=131073",
            "valid_items = 131073 must be at most 131072",
        ),
    ] {
        let (status, said) = failure(&["plan", file, "--set", set]);
        assert!(status == 2 && said.contains(says), "{said}");
    }
}

/// A checkpoint's files have a few hundred bytes for each tensor besides its values.
#[test]
fn the_size_of_a_checkpoint_and_what_is_frozen() {
    let folder = tempfile::tempdir().unwrap();
    let wide = ["model.d_model=128", "train.steps=8"];
    let run = super::run(folder.path(), "wide", &wide);
    let from = format!("init.from={run}");
    let frozen = "init.freeze=[\"feed_forward\"]";
    let held = super::run(
        folder.path(),
        "held",
        &[&wide[..], &[&from, frozen]].concat(),
    );
    let of = |run: &str| {
        let files = fs::read_dir(format!("{run}/steps/00000008")).unwrap();
        let size: u64 = files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        let plan = json(&output(&["plan", run, "--json"]));
        let planned = plan["checkpoint_bytes"].as_u64().unwrap();
        assert!(planned <= size, "{planned} of {size}");
        assert!(
            (size - planned) as f64 <= 0.01 * size as f64,
            "{planned} of {size}"
        );
        [&plan["params"], &plan["trained_params"]].map(|n| n.as_u64().unwrap())
    };
    let [params, trained] = of(&run);
    assert_eq!(params, trained);
    // Two blocks, each with three matrices of 344 rows or columns and the norm before them.
    assert_eq!(of(&held), [params, params - 2 * (3 * 128 * 344 + 128)]);
    let shown = output(&["plan", &held]);
    assert!(
        shown.contains("100736 of them are trained (27.58 %), the others are frozen\n"),
        "{shown}"
    );
    assert!(
        shown.contains("3.7 MB on disk for a checkpoint\n"),
        "{shown}"
    );
}
