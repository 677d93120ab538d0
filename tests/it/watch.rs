//! `formwork watch` as seen by a browser and a script: over a socket, from the built binary.

mod client;
mod guarded;
mod live;

use client::{Watch, get};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes a run folder whose journal has `lines` lines on steps; every tenth step is evaluated.
fn write_run(folder: &Path, name: &str, lines: u64, steps: u64) -> PathBuf {
    let run = folder.join(name);
    fs::create_dir_all(&run).unwrap();
    let title = toml::Value::String(name.rsplit('/').next().unwrap().to_string());
    let text = format!(
        "name = {title}\nseed = 7\n[task]\nkind = \"causal_lm\"\n[train]\nsteps = {steps}\neval_every = 10\nbest_by = \"valid_accuracy\"\n"
    );
    fs::write(run.join("resolved.toml"), text).unwrap();
    fs::write(run.join("metrics.jsonl"), "").unwrap();
    grow(&run, 1, lines);
    run
}

/// Appends the lines of these steps to the run's journal.
fn grow(run: &Path, from: u64, to: u64) {
    let mut text = String::new();
    for step in from..=to {
        let loss = 4.0 / (step as f64).sqrt();
        let line = json!({"step": step, "split": "train", "loss": loss, "lr": 0.001, "grad_norm": 1.5, "items": step * 64,
                          "items_per_s": 640.0, "elapsed_s": step as f64 / 10.0});
        text.push_str(&format!("{line}\n"));
        if step % 10 == 0 {
            let line = json!({"step": step, "split": "valid", "loss": loss + 0.25, "accuracy": 1.0 - loss / 8.0,
                              "elapsed_s": step as f64 / 10.0});
            text.push_str(&format!("{line}\n"));
        }
    }
    let mut journal = fs::OpenOptions::new();
    let mut journal = journal
        .append(true)
        .open(run.join("metrics.jsonl"))
        .unwrap();
    journal.write_all(text.as_bytes()).unwrap();
}

fn row<'a>(runs: &'a Value, id: &str) -> &'a Value {
    let mut all = runs["runs"].as_array().unwrap().iter();
    all.find(|run| run["id"] == id)
        .unwrap_or_else(|| panic!("no {id} in {runs}"))
}

#[test]
fn the_list_says_what_runs_says() {
    let folder = tempfile::tempdir().unwrap();
    write_run(folder.path(), "deep/done", 20, 20);
    write_run(folder.path(), "half", 15, 40);
    fs::create_dir(folder.path().join("broken")).unwrap();
    fs::write(folder.path().join("broken/resolved.toml"), "name = [").unwrap();
    let watch = Watch::start(folder.path(), &[]);
    let all = watch.runs(3);
    let done = row(&all, "deep/done");
    assert_eq!(
        (&done["state"], &done["step"], &done["steps"], &done["name"]),
        (&json!("done"), &json!(20), &json!(20), &json!("done"))
    );
    assert_eq!(done["metric"]["name"], "accuracy");
    assert_eq!(done["metric"]["higher"], true);
    assert_eq!(done["best_by"]["step"], 20);
    assert!((done["valid_loss"].as_f64().unwrap() - (4.0 / 20f64.sqrt() + 0.25)).abs() < 1e-9);
    assert_eq!(row(&all, "half")["state"], "stopped");
    let broken = row(&all, "broken");
    assert_eq!(broken["state"], "unreadable");
    assert!(
        broken["error"]
            .as_str()
            .unwrap()
            .contains("resolved.toml:1"),
        "{broken}"
    );

    let shown = folder.path().display().to_string();
    let runs: Value =
        serde_json::from_str(&crate::binary::output(&["runs", &shown, "--json"])).unwrap();
    for run in runs.as_array().unwrap() {
        let id = Path::new(run["run"].as_str().unwrap())
            .strip_prefix(folder.path())
            .unwrap();
        let listed = row(&all, id.to_str().unwrap());
        assert_eq!(
            (&run["state"], &run["step"]),
            (&listed["state"], listed.get("step").unwrap_or(&Value::Null))
        );
        assert_eq!(
            run["score"],
            *listed["best_by"].get("value").unwrap_or(&Value::Null)
        );
    }
}

#[test]
fn a_run_with_its_curves_words_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = write_run(folder.path(), "a b/run", 25, 40);
    let mut journal = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    journal.push_str("{\"step\":25,\"split\":\"note\",\"note\":\"optimizer.lr: 1 → 2\"}\n");
    journal.push_str("{\"step\":26,\"split\":\"train\",\"loss\":null,\"skipped\":true,\"samples\":[1]}\n{\"step\":27,\"spl");
    fs::write(run.join("metrics.jsonl"), journal).unwrap();
    fs::write(
        run.join("samples.jsonl"),
        "{\"step\":20,\"text\":\"<b>one</b>\\ntwo\\u001b[2J\"}\n",
    )
    .unwrap();
    fs::write(
        run.join("diagnostics.jsonl"),
        "{\"step\":10,\"gradient_norm\":{\"blocks.0\":1.5}}\n",
    )
    .unwrap();
    fs::write(run.join("machine.json"), "{\"cores\":2}").unwrap();
    fs::write(run.with_file_name("run.log"), "step 1\nwarning: slow\n").unwrap();
    let watch = Watch::start(folder.path(), &[]);
    watch.runs(1);

    let curves = watch.json("/api/curves/a%20b/run");
    let loss = curves["splits"]["train"]["loss"]["points"]
        .as_array()
        .unwrap();
    assert_eq!((loss.len(), &loss[24][0]), (25, &json!(25)));
    assert_eq!(
        curves["splits"]["valid"]["accuracy"]["points"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // Neighbouring points are merged in groups of two, four, eight.
    let few = watch.json("/api/curves/a%20b/run?points=5");
    let loss = few["splits"]["train"]["loss"]["points"].as_array().unwrap();
    assert_eq!(loss.len(), 4);
    for points in ["abc", "0", "-1"] {
        let path = format!("/api/curves/a%20b/run?points={points}");
        let answer = client::ask(watch.port, "GET", &path, &[]);
        assert_eq!(answer.status, 400, "{points}");
    }
    let key = curves["key"].as_str().unwrap();
    grow(&run, 28, 30);
    let more = watch.json(&format!("/api/curves/a%20b/run?key={key}&after=26"));
    assert_eq!(more["whole"], false);
    // The text written next completed the torn line, which makes it no valid line of a journal.
    let grown = &more["splits"]["train"]["loss"];
    assert_eq!(
        (&grown["from"], grown["points"].as_array().unwrap().len()),
        (&json!(25), 2)
    );

    let detail = watch.json("/api/run/a%20b/run");
    assert_eq!(detail["run"]["id"], "a b/run");
    let notes = detail["notes"].as_array().unwrap();
    assert_eq!(
        (notes.len(), &notes[0]["text"]),
        (2, &json!("optimizer.lr: 1 → 2"))
    );
    assert_eq!(notes[1]["kind"], "warning");
    assert_eq!(
        detail["samples"][0][1],
        json!(["text", "<b>one</b>\ntwo\u{fffd}[2J"])
    );
    assert_eq!(detail["log"]["text"], "step 1\nwarning: slow");
    let settings = watch.json("/api/settings/a%20b/run");
    assert!(
        settings["resolved"]
            .as_str()
            .unwrap()
            .contains("steps = 40")
    );
    assert_eq!(settings["machine"]["cores"], 2);
    let inside = watch.json("/api/diagnostics/a%20b/run");
    assert_eq!(inside["gradient_norm"]["values"], json!([[1.5]]));
}

#[test]
fn a_sweep_with_cells_that_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = folder.path().join("study");
    let arm = |name: &str| json!({"name": name, "folder": name, "settings": {"norm": name}, "steps": 20, "params": 10, "flops_per_item": 1.0});
    let plan = json!({"name": "study", "metric": "accuracy", "baseline": "pre", "axes": ["norm"], "seeds": [1, 2], "arms": [arm("pre"), arm("post")]});
    fs::create_dir_all(sweep.join("ledger")).unwrap();
    fs::write(sweep.join("sweep.json"), plan.to_string()).unwrap();
    write_run(&sweep, "cells/pre/seed-1", 20, 20);
    write_run(&sweep, "cells/pre/seed-2", 5, 20);
    let end = json!({"state": "failed", "reason": "out of memory", "attempts": 1});
    fs::write(sweep.join("ledger/pre.seed-2.end.json"), end.to_string()).unwrap();
    let watch = Watch::start(folder.path(), &[]);
    // Sweeps are read after the runs.
    let all = watch.until(|all| !all["sweeps"].as_array().unwrap().is_empty());
    let study = &all["sweeps"][0];
    assert_eq!(
        (&study["id"], &study["higher"]),
        (&json!("study"), &json!(true))
    );
    let states = |arm: usize| -> Vec<&Value> {
        study["arms"][arm]["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| &cell["state"])
            .collect()
    };
    assert_eq!(states(0), ["done", "failed"]);
    assert_eq!(states(1), ["missing", "missing"]);
    assert_eq!(
        study["arms"][0]["cells"][0]["run"],
        "study/cells/pre/seed-1"
    );
    assert_eq!(
        row(&all, "study/cells/pre/seed-2")["error"],
        "out of memory"
    );
}

#[test]
fn the_page_takes_everything_from_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Watch::start(folder.path(), &[]);
    let page = watch.get("/");
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("cache-control"), Some("no-store"));
    for (path, kind) in [
        ("/page.js", "text/javascript"),
        ("/page.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let answer = watch.get(path);
        assert!(
            answer.header("content-type").unwrap().starts_with(kind),
            "{path}"
        );
        for elsewhere in ["http://", "https://", "@import", "url(//"] {
            let text = answer.body.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains(elsewhere), "{path} names {elsewhere}");
        }
    }
    assert!(!page.body.contains("style=") && !page.body.contains("onclick"));
    let script = watch.get("/page.js").body;
    for word in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
    ] {
        assert!(!script.contains(word), "{word}");
    }
}

#[test]
fn what_cannot_be_watched_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().display().to_string();
    let (status, said) = crate::binary::failure(&["watch", &format!("{shown}/none")]);
    assert_eq!(status, 2);
    assert!(
        said.starts_with("error: there is no folder ") && said.lines().count() == 1,
        "{said}"
    );
    let watch = Watch::start(folder.path(), &[]);
    let port = watch.port.to_string();
    let (status, said) = crate::binary::failure(&["watch", &shown, "--port", &port]);
    assert_eq!(status, 2);
    assert!(
        said.contains("is in use; choose another port with --port N") && said.lines().count() == 1,
        "{said}"
    );
    let (status, said) = crate::binary::failure(&["watch", &shown, "--host", "192.0.2.1"]);
    assert_eq!(status, 2);
    assert!(said.contains("not an address of this machine"), "{said}");
    assert_eq!(get(watch.port, "/", &[]).status, 200);
}
