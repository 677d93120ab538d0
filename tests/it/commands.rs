//! Every command once, on a small run, called as scripts would.

mod around_runs;
mod audited;
mod begun_translation;
mod bench;
mod bounds;
mod checked;
mod context;
mod copied;
mod corrupted;
mod data_faults;
mod denoising;
mod each_row;
mod extended;
mod instruction_sets;
mod keys;
mod lengths;
mod lr_find;
mod named_keys;
mod named_runs;
mod of_images;
mod other_tasks;
mod other_tools;
mod pipes;
mod plan_ranks;
mod planned;
mod said;
mod submit;
mod told;
mod tried;
mod unset;
mod use_of_runs;

use crate::binary::{experiments, failure, formwork, output, shipped};
use serde_json::Value;
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Trains the smoke experiment with this name and changes, and returns the run's folder.
fn run(folder: &Path, name: &str, sets: &[&str]) -> String {
    let shown = folder.join(name).display().to_string();
    let mut arguments = vec![
        "train",
        "experiments/smoke/tiny.toml",
        "--quiet",
        "--run",
        &shown,
    ];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
    shown
}

#[test]
fn train_writes_the_run_folder_of_the_interface() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "run", &[]);
    for file in [
        "experiment.toml",
        "resolved.toml",
        "tokenizer.json",
        "machine.json",
        "metrics.jsonl",
        "scores.json",
        "steps/00000040/model.safetensors",
        "steps/00000040/manifest.json",
        "latest/state.json",
        "best/state.json",
    ] {
        assert!(Path::new(&run).join(file).exists(), "{file} is missing");
    }
    let lines = std::fs::read_to_string(Path::new(&run).join("metrics.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(json).collect();
    let train = lines.iter().find(|l| l["split"] == "train").unwrap();
    for key in [
        "step",
        "loss",
        "lr",
        "grad_norm",
        "items",
        "items_per_s",
        "elapsed_s",
    ] {
        assert!(train[key].is_number(), "{key}: {train}");
    }
    let valid = lines.iter().find(|l| l["split"] == "valid").unwrap();
    for key in ["step", "loss", "perplexity", "exact_match"] {
        assert!(valid[key].is_number(), "{key}: {valid}");
    }
}

#[test]
fn reports_are_lines_in_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().join("run").display().to_string();
    let ended = formwork(&["train", "experiments/smoke/tiny.toml", "--run", &shown])
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let line = said.lines().find(|l| l.contains("train")).unwrap();
    for word in [
        "step",
        "loss",
        "perplexity",
        "lr",
        "grad_norm",
        "tokens/s",
        "left",
    ] {
        assert!(said.contains(word), "no {word} in: {line}");
    }
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert!(printed.contains("done after 40 steps"), "{printed}");
    assert!(printed.contains("next: formwork"), "{printed}");
}

#[test]
fn eval_and_plan_print_one_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "run", &[]);
    let scores = json(&output(&["eval", &run, "--json"]));
    let journal = formwork::train::journal::read(Path::new(&run).join("metrics.jsonl")).unwrap();
    let best = journal
        .iter()
        .filter(|l| l.split == "valid")
        .filter_map(|l| l.loss)
        .fold(f64::INFINITY, f64::min);
    assert_eq!(scores["loss"].as_f64().unwrap(), best, "{scores}");
    assert_eq!(scores["split"], "valid");
    let plan = json(&output(&["plan", "--preset", "gpt2", "--json"]));
    assert_eq!(plan["params"], 124_439_808);
    let plan = json(&output(&["plan", "experiments/smoke/tiny.toml", "--json"]));
    assert!(plan["probe"]["step_ms"].as_f64().unwrap() > 0.0, "{plan}");
}

#[test]
fn generate_is_a_function_of_its_seed_and_stops_where_told() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "run", &[]);
    let text = |more: &[&str]| {
        let mut arguments = vec!["generate", &run, "--prompt", "abcd=", "--tokens", "30"];
        arguments.extend(more);
        output(&arguments)
    };
    assert_eq!(text(&["--seed", "1"]), text(&["--seed", "1"]));
    assert_ne!(text(&["--seed", "1"]), text(&["--seed", "2"]));
    let greedy = text(&["--temperature", "0"]);
    assert_eq!(greedy, text(&["--temperature", "0", "--seed", "9"]));
    assert!(greedy.starts_with("abcd="), "{greedy}");
    let drawn = text(&["--seed", "1"]);
    // The last generated character, and the position where it first occurs.
    let answer = &drawn["abcd=".len()..];
    let stop = answer.chars().next().unwrap().to_string();
    let stopped = text(&["--seed", "1", "--stop", &stop]);
    assert_eq!(stopped.trim_end_matches('\n'), "abcd=", "{drawn}");
}

#[test]
fn compare_shows_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let pre = run(folder.path(), "pre", &["name=pre"]);
    let post = run(
        folder.path(),
        "post",
        &["name=post", "model.norm_placement=post"],
    );
    let table = output(&["compare", &pre, &post]);
    assert!(table.contains("norm_placement"), "{table}");
    assert!(!table.contains("d_model"), "{table}");
    let page = folder.path().join("page.html").display().to_string();
    output(&["compare", &pre, &post, "--html", &page]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("norm_placement"));
    // The name of SVG's namespace looks like an address but is never fetched.
    let addresses = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!addresses.contains("http://") && !addresses.contains("https://"));
}

#[test]
fn verify_holds_results_against_expectations() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().display().to_string();
    let verify = |expect: &str| {
        formwork(&[
            "verify",
            "experiments/smoke/tiny.toml",
            "--runs",
            &runs,
            "--set",
            expect,
        ])
        .output()
        .unwrap()
    };
    let kept = verify("expect.valid_loss.at_most=3.0");
    assert!(kept.status.success());
    assert!(String::from_utf8_lossy(&kept.stdout).contains("holds"));
    let missed = verify("expect.valid_loss={ at_most = 0.1, at_least = 0.05 }");
    assert_eq!(missed.status.code(), Some(1));
    let said = String::from_utf8_lossy(&missed.stdout);
    assert!(said.contains("MISSED"), "{said}");
    assert!(
        said.contains("(expected at most 0.1, at least 0.05; not at most 0.1)"),
        "{said}"
    );
    let told = String::from_utf8_lossy(&missed.stderr);
    assert!(told.contains("1 expectation was missed"), "{told}");
}

#[test]
fn wrong_arguments_exit_with_2_and_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing").display().to_string();
    for (arguments, expected) in [
        (
            vec!["generate", &missing, "--prompt", "x"],
            "there is no run folder",
        ),
        (vec!["eval", &missing], "there is no run folder"),
        (vec!["resume", &missing], "there is no run folder"),
        (
            vec!["resume", "experiments/quickstart.toml"],
            "is a file, but `resume` expects the folder of a run",
        ),
        (vec!["plan"], "<FILE>"),
        (vec!["plan", "--preset", "gpt3"], "gpt3"),
        (
            vec!["train", "experiments/quickstart.toml", "--device", "tpu"],
            "there is no device `tpu`",
        ),
        (
            vec!["train", "experiments/quickstart.toml", "--device", "flex:1"],
            "is a single device",
        ),
        (
            vec!["verify", "experiments/bench/lm_s.toml"],
            "no [expect] table",
        ),
        (
            vec!["import", "google/none", &missing],
            "there is no folder google/none; `import` reads a folder on disk; download a model of the hub with: hf download \
             google/none --local-dir none",
        ),
        (vec!["trian"], "unrecognized subcommand"),
    ] {
        let (status, said) = failure(&arguments);
        assert_eq!(status, 2, "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

/// The runs that an experiment begins from or learns from, with the keys that name them.
fn other_runs(
    experiment: &formwork::experiment::Experiment,
) -> Vec<(&'static str, std::path::PathBuf)> {
    let begun = experiment.init.initial_runs().into_iter();
    let from = begun.map(|one| ("from", one.from));
    let frozen = experiment.task.frozen_run();
    let frozen = frozen.and_then(|run| Some((run.role, run.path?.to_path_buf())));
    from.chain(frozen).collect()
}

/// Checks that the experiment's only fault is that other runs are missing, and that these are runs of shipped experiments.
fn needs_shipped_ones(shown: &str, others: &[(&str, std::path::PathBuf)]) {
    let named = |file: &std::path::PathBuf| {
        formwork::experiment::load(file, &[])
            .unwrap()
            .experiment
            .name
    };
    let shipped: Vec<String> = experiments().iter().map(named).collect();
    let elsewhere = tempfile::tempdir().unwrap();
    let found = formwork(&["check", shown])
        .current_dir(elsewhere.path())
        .output()
        .unwrap();
    let said = String::from_utf8(found.stderr).unwrap();
    assert_eq!(found.status.code(), Some(2), "{shown}: {said}");
    let faults: Vec<&str> = said.lines().filter(|l| l.starts_with("error: ")).collect();
    assert_eq!(faults.len(), others.len(), "{shown}: {said}");
    for (key, from) in others {
        // Or a run of an arm of a shipped sweep, in the sweep's folder.
        let arm = from.parent().filter(|cells| cells.ends_with("cells"));
        let run = arm.and_then(Path::parent).unwrap_or(from);
        let name = run.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(
            run,
            formwork::experiment::run::default_folder(&name),
            "{shown}"
        );
        assert!(shipped.contains(&name), "{shown}: {name}");
        let tells = |fault: &&&str| fault.contains(key) && fault.contains(&*name);
        assert!(faults.iter().any(|fault| tells(&fault)), "{shown}: {said}");
    }
}

#[test]
fn every_shipped_experiment_is_right_and_planned_as_it_is_built() {
    let has_data = std::env::var_os("FORMWORK_DATA").is_some();
    for file in experiments() {
        let shown = file.display().to_string();
        let loaded = formwork::experiment::load(&file, &[]).unwrap();
        if !loaded.experiment.data.data_set().paths().is_empty() && !has_data {
            eprintln!("skipped without FORMWORK_DATA: {shown}");
            continue;
        }
        let others = other_runs(&loaded.experiment);
        if !others.is_empty() {
            needs_shipped_ones(&shown, &others);
            continue;
        }
        output(&["check", &shown]);
        let plan = json(&output(&["plan", &shown, "--no-probe", "--json"]));
        let device = burn::tensor::Device::flex();
        let places = loaded.places();
        let data = formwork::experiment::assemble::data(
            &loaded.experiment,
            &places,
            &Default::default(),
            None,
        )
        .unwrap();
        let built =
            formwork::experiment::assemble::objective(&loaded.experiment, &data.shape, &device);
        let built = formwork::train::parameters::count(&built.unwrap());
        assert_eq!(plan["params"].as_u64().unwrap(), built as u64, "{shown}");
    }
    assert!(shipped("experiments/quickstart.toml").exists());
}
