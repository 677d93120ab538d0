//! What a machine or an attacker does to a run: signals at bad moments, paths that are no files, too little memory, endless
//! keys and layers.

use crate::binary::{failure, formwork, output};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// An experiment on the test's own text.
fn experiment(folder: &Path, model: &str, train: &str) -> String {
    let text = folder.join("text.txt");
    if !text.exists() {
        fs::write(
            &text,
            "a text of some length, again and again. ".repeat(200),
        )
        .unwrap();
    }
    let file = folder.join("x.toml");
    let content = format!(
        "name = \"x\"\n[model]\nkind = \"decoder\"\nn_layers = 1\n{model}\n\
         [tokenizer]\nkind = \"byte\"\n[data]\nkind = \"text\"\npath = {text:?}\ncontext = 32\nvalid_fraction = 0.2\n\
         [task]\nkind = \"causal_lm\"\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\n{train}\n"
    );
    fs::write(&file, content).unwrap();
    file.display().to_string()
}

const SMALL: &str = "d_model = 16\nattention = { kind = \"multi_head\", n_heads = 2 }";

#[cfg(unix)]
mod signals {
    use super::*;
    use std::process::{Child, Stdio};
    use std::time::Instant;

    fn signal(child: &Child) {
        send(child, "-TERM");
    }

    fn send(child: &Child, signal: &str) {
        let pid = child.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &pid])
            .status();
        assert!(sent.unwrap().success());
    }

    fn wait_for(path: &Path, what: &str) {
        let begun = Instant::now();
        while !fs::read_to_string(path).is_ok_and(|text| text.contains(what)) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no {what} in {}",
                path.display()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM once the journal contains `after`; returns the seconds until the end, and standard error.
    fn interrupted(file: &str, run: &Path, after: &str, sets: &[&str]) -> (f64, String) {
        let mut arguments = vec!["train", file, "--plain", "--run", run.to_str().unwrap()];
        for set in sets {
            arguments.extend(["--set", set]);
        }
        let child = formwork(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for(&run.join("metrics.jsonl"), after);
        std::thread::sleep(Duration::from_millis(300));
        let sent = Instant::now();
        signal(&child);
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(130), "{said}");
        (sent.elapsed().as_secs_f64(), said)
    }

    fn journal(run: &Path) -> Vec<String> {
        let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let plain = |line: &str| -> String {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            for timed in ["items_per_s", "elapsed_s", "memory_mb", "time"] {
                line.as_object_mut().unwrap().remove(timed);
            }
            line.to_string()
        };
        text.lines()
            .filter(|line| !line.contains("note"))
            .map(plain)
            .collect()
    }

    /// An endless sample in an evaluation is interrupted, and made again when the run is resumed.
    #[test]
    fn a_sample_is_left_within_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let train = "steps = 4\nbatch_size = 2\nlog_every = 1\neval_every = 2\ncheckpoint_every = 1000\n\
                     sample = { prompt = \"a\", tokens = 16000000 }";
        let file = experiment(folder.path(), SMALL, train);
        let run = folder.path().join("run");
        let (seconds, said) = interrupted(&file, &run, "\"step\":2", &[]);
        assert!(seconds < 2.0, "{seconds} s");
        assert!(said.contains("interrupted at step 2"), "{said}");
        let state = fs::read(run.join("latest/state.json")).unwrap();
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
        assert_eq!(state["evaluation_due"], true, "{state}");
    }

    /// A step of ten thousand micro-batches, which lasts seconds even on a fast machine, is interrupted between two of them,
    /// and repeated from its beginning.
    #[test]
    fn a_step_is_left_between_micro_batches() {
        let folder = tempfile::tempdir().unwrap();
        let train = "steps = 2\nbatch_size = 2\nmicro_batch_size = 1\nlog_every = 1\neval_every = 1000\ncheckpoint_every = 1000";
        let file = experiment(folder.path(), SMALL, train);
        let (run, whole) = (folder.path().join("run"), folder.path().join("whole"));
        let large = ["train.batch_size=10000"];
        let (seconds, said) = interrupted(&file, &run, "\"step\":1", &large);
        assert!(seconds < 2.0, "{seconds} s");
        assert!(said.contains("interrupted at step 1"), "{said}");
        output(&["resume", run.to_str().unwrap(), "--quiet"]);
        output(&[
            "train",
            &file,
            "--quiet",
            "--run",
            whole.to_str().unwrap(),
            "--set",
            large[0],
        ]);
        assert_eq!(journal(&run), journal(&whole));
        let weights = |run: &Path| fs::read(run.join("latest/model.safetensors")).unwrap();
        assert!(weights(&run) == weights(&whole));
    }

    /// If a terminal or a connection closes, the run saves; under `nohup` it continues.
    #[test]
    fn a_run_saves_when_its_terminal_closes() {
        let folder = tempfile::tempdir().unwrap();
        let train = "steps = 400\nbatch_size = 300\nlog_every = 1\neval_every = 1000\ncheckpoint_every = 1000";
        let file = experiment(folder.path(), SMALL, train);
        // A child of a process that ignores SIGHUP cannot stop ignoring it before it starts.
        let always = formwork::stop::is_ignored(1) == Some(true);
        for ignored in [false, true].into_iter().skip(usize::from(always)) {
            let run = folder.path().join(format!("run-{ignored}"));
            let steps = if ignored { "60" } else { "400" };
            let before = if ignored { "trap '' HUP;" } else { "" };
            let command = format!(
                "{before} exec {} train {file} --plain --run {} --set train.steps={steps}",
                env!("CARGO_BIN_EXE_formwork"),
                run.display()
            );
            let child = std::process::Command::new("sh")
                .args(["-c", &command])
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            wait_for(&run.join("metrics.jsonl"), "\"step\":1");
            send(&child, "-HUP");
            let ended = child.wait_with_output().unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            let wanted = if ignored { 0 } else { 130 };
            assert_eq!(ended.status.code(), Some(wanted), "{said}");
            assert_eq!(said.contains("interrupted at step"), !ignored, "{said}");
            assert!(run.join("latest/manifest.json").exists(), "{ignored}");
        }
    }

    /// As when SLURM stops a sweep: during a step, the child's input ends and it gets SIGTERM, in either order.
    #[test]
    fn a_signal_and_the_end_of_the_input_save_once() {
        let folder = tempfile::tempdir().unwrap();
        let train = "steps = 100\nbatch_size = 600\nmicro_batch_size = 600\nlog_every = 1\neval_every = 1000\n\
                     checkpoint_every = 1000";
        let file = experiment(folder.path(), SMALL, train);
        for input_first in [true, false] {
            let run = folder.path().join(format!("run-{input_first}"));
            let arguments = [
                "train",
                &file,
                "--plain",
                "--while-input-open",
                "--run",
                run.to_str().unwrap(),
            ];
            let mut child = formwork(&arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            wait_for(&run.join("metrics.jsonl"), "\"step\":1");
            if input_first {
                drop(child.stdin.take());
                std::thread::sleep(Duration::from_millis(10));
                signal(&child);
            } else {
                signal(&child);
                std::thread::sleep(Duration::from_millis(10));
                drop(child.stdin.take());
            }
            let ended = child.wait_with_output().unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(130), "{said}");
            assert!(
                said.contains("interrupted at step"),
                "{input_first}: {said}"
            );
            assert!(run.join("latest/manifest.json").exists(), "{input_first}");
        }
    }
}

#[cfg(unix)]
#[test]
fn devices_pipes_and_folders_are_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    let file = experiment(folder.path(), SMALL, "steps = 1");
    let run = folder.path().join("run").display().to_string();
    let pipe = pipe.display().to_string();
    for (special, kind) in [("/dev/zero", "a device"), (pipe.as_str(), "a pipe")] {
        let data = format!("data.path={special}");
        let (status, said) = failure(&["train", &file, "--run", &run, "--set", &data]);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(special) && said.contains(kind), "{said}");
        let extending = folder.path().join("extending.toml");
        fs::write(
            &extending,
            format!("name = \"y\"\nextends = \"{special}\"\n"),
        )
        .unwrap();
        let (status, said) = failure(&["check", extending.to_str().unwrap()]);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(kind), "{said}");
        let (status, said) = failure(&["check", special]);
        assert_eq!(status, 2, "{said}");
        let tokenizer = format!("tokenizer={{ kind = \"pretrained\", path = \"{special}\" }}");
        let (status, said) = failure(&["train", &file, "--run", &run, "--set", &tokenizer]);
        assert_eq!(status, 2, "{said}");
    }
}

#[test]
fn a_model_that_no_memory_holds_is_refused_before_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let huge = "d_model = 100000\nattention = { kind = \"multi_head\", n_heads = 100 }";
    let file = experiment(folder.path(), huge, "steps = 1\nbatch_size = 1");
    let run = folder.path().join("run").display().to_string();
    let (status, said) = failure(&["train", &file, "--run", &run]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("GiB") && said.contains("FORMWORK_MEMORY"),
        "{said}"
    );
    assert!(!Path::new(&run).exists());
    let file = experiment(folder.path(), SMALL, "steps = 1\nbatch_size = 1");
    for (limit, status) in [("1K", Some(2)), ("1G", Some(0)), ("much", Some(2))] {
        let ended = formwork(&["train", &file, "--fresh", "--quiet", "--run", &run])
            .env("FORMWORK_MEMORY", limit)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), status, "{limit}: {said}");
        let small = said.contains("KiB of memory") && said.contains("allows 1.00 KiB;");
        assert!(small || limit != "1K", "{said}");
    }
}

#[test]
fn keys_and_layers_without_end_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("many.toml");
    let base = fs::read_to_string("experiments/smoke/tiny.toml").unwrap();
    let keys: String = (0..80_000).map(|i| format!("key{i} = {i}\n")).collect();
    fs::write(&file, keys + &base).unwrap();
    let begun = std::time::Instant::now();
    let (status, said) = failure(&["check", file.to_str().unwrap()]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("there is no key `key0`"), "{said}");
    // It took 14 s when each key was searched among all others.
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    let deep = [
        "check",
        "experiments/smoke/tiny.toml",
        "--set",
        "model.n_layers=2000",
    ];
    let (status, said) = failure(&deep);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("n_layers"), "{said}");
}

/// A line without any end, half of it a single word.
#[test]
fn a_long_line_is_cut_where_tokens_end() {
    use formwork::tokenizer::{BpeConfig, Tokenizer, TokenizerConfig};
    let words = "the cat's 12 lines, and more words follow in a row ".repeat(60_000);
    let config = TokenizerConfig::Bpe(BpeConfig {
        vocab_size: 400,
        ..BpeConfig::default()
    });
    let tokenizer = Tokenizer::build(&config, &[&words[..100_000]]).unwrap();
    assert!(words.len() > 2 << 20 && words.len() < 4 << 20);
    // The whole line is short enough to be encoded in one piece.
    let whole = tokenizer.encode(&words).unwrap();
    assert_eq!(tokenizer.encode_long(words.as_bytes()).unwrap(), whole);
    let word = "abc".repeat(2_000_000);
    let ids = tokenizer.encode(&word).unwrap();
    assert_eq!(tokenizer.decode(&ids), word);
}

#[cfg(unix)]
#[test]
fn a_full_disk_for_caches_is_a_fault_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let file = experiment(folder.path(), SMALL, "steps = 1\nbatch_size = 1");
    let run = folder.path().join("run").display().to_string();
    // Every file written there fails, since its folder is a file.
    let cache = folder.path().join("x.toml").join("cache");
    let bpe = "tokenizer={ kind = \"bpe\", vocab_size = 300 }";
    for tokenizer in ["tokenizer={ kind = \"byte\" }", bpe] {
        let ended = formwork(&["train", &file, "--run", &run, "--set", tokenizer])
            .env("FORMWORK_CACHE", &cache)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{tokenizer}: {said}");
    }
}
