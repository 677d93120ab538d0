//! `inspect`, `eval --stride` and `bench evaluate` as a user runs them.

use super::looked::json;
use crate::binary::{failure, output};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Trains a few steps on some text with windows of 16, and returns the run's folder.
fn run(folder: &Path, name: &str, model: &str, train: &str) -> String {
    let text: String = (0..300).map(|i| format!("{} and {}\n", i, i * i)).collect();
    fs::write(folder.join("text.txt"), text).unwrap();
    let file = folder.join(format!("{name}.toml"));
    let experiment = format!(
        "name = \"{name}\"\n[model]\n{model}\n[tokenizer]\nkind = \"char\"\n[data]\nkind = \"text\"\n\
         path = \"text.txt\"\nvalid_fraction = 0.1\nwindows = \"contiguous\"\ncontext = 16\n[task]\n\
         kind = \"causal_lm\"\n[optimizer]\nkind = \"adamw\"\nlr = 1e-2\n[train]\nsteps = 5\nbatch_size = 4\n{train}\n"
    );
    fs::write(&file, experiment).unwrap();
    let run = folder.join("runs").join(name).display().to_string();
    output(&[
        "train",
        &file.display().to_string(),
        "--quiet",
        "--run",
        &run,
    ]);
    run
}

const ROTARY: &str = "kind = \"decoder\"\nn_layers = 1\nd_model = 16\nposition = { kind = \"rotary\" }\n\
                      attention = { kind = \"multi_head\", n_heads = 2 }";
const LSTM: &str = "kind = \"recurrent\"\nn_layers = 1\nd_model = 16\ncell = { kind = \"lstm\" }";

#[test]
fn context_of_a_group_and_attention_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let rotary = run(folder.path(), "rotary", ROTARY, "");
    let lstm = run(folder.path(), "lstm", LSTM, "carry_state = true");
    let out = folder.path().join("figures").display().to_string();
    let arguments = ["inspect", &rotary, &lstm, "context", "--out", &out];
    let found = json(&output(&[&arguments[..], &["--json"]].concat()));
    assert_eq!(found["windows"], 64);
    // The LSTM reads four segments of 16.
    assert_eq!(found["contexts"].as_array().unwrap().len(), 8);
    assert_eq!(found["contexts"][7], 64);
    let last = |run: usize| {
        found["runs"][run]["positions"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()["to"]
            .clone()
    };
    assert_eq!((last(0), last(1)), (16.into(), 64.into()));
    for run in found["runs"].as_array().unwrap() {
        let shares: Vec<f64> = run["recl"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["r"].as_f64().unwrap())
            .collect();
        assert_eq!(shares, [0.1, 0.5, 1.0]);
    }
    // A transformer with a context of 16 tokens gains nothing from more.
    assert!(
        found["runs"][0]["recl"][2]["recl"].as_u64().unwrap() <= 16,
        "{found}"
    );
    let files = [
        "context.svg",
        "context.png",
        "context_length.svg",
        "context_length.png",
    ];
    let read = || files.map(|file| fs::read(Path::new(&out).join(file)).unwrap());
    let before = read();
    let shown = output(&arguments);
    assert!(
        shown.contains("RECL, r = 0.1") && shown.contains("rotary"),
        "{shown}"
    );
    assert!(before == read(), "figures are the same bytes again");

    let found = json(&output(&["inspect", &rotary, "attention", "--json"]));
    let heads = found["heads"].as_array().unwrap();
    assert_eq!((heads.len(), &found["memory_weight"]), (2, &Value::Null));
    for head in heads {
        assert_eq!(head["weight_by_distance"].as_array().unwrap().len(), 16);
        assert!(head["mean_distance"].as_f64().unwrap() > 0.0, "{head}");
    }
    assert!(Path::new(&rotary).join("inspect/attention.png").exists());

    let told = |arguments: &[&str], expected: &str| {
        let (status, said) = failure(arguments);
        assert!(
            status == 2 && said.contains(expected),
            "{arguments:?}: {said}"
        );
    };
    told(&["inspect", &lstm, "attention"], "no attention");
    told(&["inspect", &rotary, &lstm, "context"], "--out");
    told(&["inspect", &rotary, &lstm, "attention"], "one run");
    told(
        &["inspect", &rotary, "atention"],
        "did you mean `attention`",
    );
    told(
        &["inspect", &rotary, "context", "--step", "17"],
        "--step 17",
    );
    let other = folder.path().join("other").display().to_string();
    output(&[
        "train",
        "experiments/smoke/tiny.toml",
        "--quiet",
        "--run",
        &other,
    ]);
    told(
        &["inspect", &other, "context"],
        "inspect context needs a language model",
    );
}

/// With a memory, the attention length is that of memory and segment together.
#[test]
fn a_memory_is_inspected_and_evaluated_at_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let model = ROTARY.replace("n_heads = 2", "n_heads = 2, memory = 16");
    let run = run(folder.path(), "memory", &model, "carry_state = true");
    let found = json(&output(&["inspect", &run, "attention", "--json"]));
    assert_eq!(found["context"], 64);
    for head in found["heads"].as_array().unwrap() {
        assert_eq!(head["weight_by_distance"].as_array().unwrap().len(), 32);
        let weight = head["memory_weight"].as_f64().unwrap();
        assert!(weight > 0.0 && weight < 1.0, "{head}");
    }
    assert!(output(&["inspect", &run, "attention"]).contains("of the memory's keys"));
    let scores = |more: &[&str]| json(&output(&[&["eval", &run, "--json"], more].concat()));
    let longer = scores(&["--attention-length", "40"]);
    assert_eq!(longer["split"], "valid+24");
    assert_eq!(longer["loss"], scores(&["--memory", "24"])["loss"]);
    let shorter = scores(&["--attention-length", "24", "--context", "8"]);
    assert_eq!(shorter["split"], "valid@8+16");
    let (status, said) = failure(&["eval", &run, "--attention-length", "16"]);
    assert!(
        status == 2 && said.contains("leaves no room for a memory"),
        "{said}"
    );
}

#[test]
fn evaluations_slide() {
    let folder = tempfile::tempdir().unwrap();
    let rotary = run(folder.path(), "rotary", ROTARY, "");
    let scores = |more: &[&str]| json(&output(&[&["eval", &rotary, "--json"], more].concat()));
    let own = scores(&[]);
    let same = scores(&["--stride", "16"]);
    assert_eq!(
        (&same["split"], &same["loss"]),
        (&"valid/16".into(), &own["loss"])
    );
    let sliding = scores(&["--stride", "1", "--context", "8"]);
    assert_eq!(sliding["split"], "valid@8/1");
    assert_ne!(sliding["loss"], scores(&["--context", "8"])["loss"]);
    assert_eq!(
        scores(&["--attention-length", "8"])["loss"],
        scores(&["--context", "8"])["loss"]
    );
    let kept = fs::read_to_string(Path::new(&rotary).join("scores.json")).unwrap();
    assert_eq!(json(&kept)["valid@8/1"]["loss"], sliding["loss"]);
    let (status, said) = failure(&["eval", &rotary, "--stride", "17"]);
    assert!(status == 2 && said.contains("--stride 17"), "{said}");
    let lstm = run(folder.path(), "lstm", LSTM, "carry_state = true");
    let (status, said) = failure(&["eval", &lstm, "--stride", "4"]);
    assert!(status == 2 && said.contains("carry_state"), "{said}");
    let (status, said) = failure(&["eval", &lstm, "--attention-length", "64"]);
    assert!(status == 2 && said.contains("--attention-length"), "{said}");
    let file = folder.path().join("rotary.toml").display().to_string();
    for (stride, expected) in [("0", "eval_stride = 0"), ("17", "eval_stride = 17 is more")] {
        let set = format!("data.eval_stride={stride}");
        let (status, said) = failure(&["check", &file, "--set", &set]);
        assert!(status == 2 && said.contains(expected), "{said}");
    }
}

#[test]
fn evaluation_is_timed_with_a_state_and_with_windows_that_slide() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, model: &str| {
        let file = folder.path().join(name);
        let rest = "[data]\nkind = \"random_tokens\"\nvocab_size = 32\ncontext = 16\n[task]\nkind = \"causal_lm\"\n\
                    [optimizer]\nkind = \"adamw\"\n[train]\nsteps = 1\nbatch_size = 1\n";
        fs::write(&file, format!("name = \"x\"\n[model]\n{model}\n{rest}")).unwrap();
        file.display().to_string()
    };
    let (lstm, rotary) = (write("lstm.toml", LSTM), write("rotary.toml", ROTARY));
    let remembering = folder.path().join("memory.toml");
    let model = ROTARY.replace("n_heads = 2", "n_heads = 2, memory = 8");
    let text = format!(
        "name = \"x\"\n[model]\n{model}\n[tokenizer]\nkind = \"byte\"\n[data]\nkind = \"text\"\npath = \"text.txt\"\n\
         windows = \"contiguous\"\ncontext = 16\n[task]\nkind = \"causal_lm\"\n[optimizer]\nkind = \"adamw\"\n\
         [train]\nsteps = 1\nbatch_size = 1\ncarry_state = true\n"
    );
    fs::write(&remembering, text).unwrap();
    let memory = remembering.display().to_string();
    let lengths = [
        "--attention-length",
        "24,48",
        "--segment",
        "8",
        "--tokens",
        "4",
        "--json",
    ];
    let said = output(&[&["bench", "evaluate", &memory, &rotary], &lengths[..]].concat());
    let lines: Vec<Value> = said.lines().map(json).collect();
    assert_eq!(lines.len(), 2, "{said}");
    for (line, length) in lines.iter().zip([24, 48]) {
        assert_eq!(line["attention_length"], length);
        let [memory, sliding, speedup] = ["memory_s_per_token", "sliding_s_per_token", "speedup"]
            .map(|key| line[key].as_f64().unwrap());
        assert!(memory > 0.0 && sliding > 0.0, "{line}");
        assert!(
            (speedup - sliding / memory).abs() < 1e-9 * speedup,
            "{line}"
        );
    }
    // A recurrent network keeps a state, so attention lengths do not apply to it.
    let (status, said) = failure(&[&["bench", "evaluate", &lstm, &rotary], &lengths[..]].concat());
    assert!(status == 2 && said.contains("lstm.toml"), "{said}");
    let (status, said) = failure(&[
        "bench",
        "evaluate",
        &rotary,
        &rotary,
        "--attention-length",
        "24",
        "--segment",
        "8",
    ]);
    assert!(status == 2 && said.contains("rotary.toml"), "{said}");
    let (status, said) = failure(&[
        "bench",
        "evaluate",
        "--attention-length",
        "100",
        "--segment",
        "128",
    ]);
    assert!(status == 2 && said.contains("segments of 128"), "{said}");
}
