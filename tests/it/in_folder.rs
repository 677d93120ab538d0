//! Experiments and runs in a temporary folder: writing files, running commands in the folder or with paths into it, and
//! checking that an interrupted run gives the same bits.

use crate::binary::{formwork, output};
use std::fs;
use std::path::Path;
use std::process::Output;

/// A decoder of one layer; further keys of `[model]` may follow.
pub const DECODER: &str = r#"
[model]
kind = "decoder"
n_layers = 1
d_model = 16
norm = { kind = "layer", eps = 1e-5 }
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 2 }
feed_forward = { kind = "dense", activation = "gelu_tanh" }
"#;

/// A path in the folder as a command-line argument.
pub fn at(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// Writes a file and returns its path.
pub fn written(folder: &Path, name: &str, text: &str) -> String {
    fs::write(folder.join(name), text).unwrap();
    at(folder, name)
}

/// Trains an experiment and returns the run's folder.
pub fn trained(folder: &Path, experiment: &str) -> String {
    let file = written(folder, "experiment.toml", experiment);
    let run = at(folder, "run");
    output(&["train", &file, "--quiet", "--run", &run]);
    run
}

/// Trains an experiment up to the last of these steps, and a second time with a pause after the first of them; checks that both
/// runs have the same weights. Returns the folder of the run without a pause.
pub fn goes_on_to_the_same_bits(
    folder: &Path,
    experiment: &str,
    [first, last]: [usize; 2],
) -> String {
    let whole = trained(folder, experiment);
    let (file, half) = (at(folder, "experiment.toml"), at(folder, "half"));
    let pause = first.to_string();
    let train = [
        "train",
        &file,
        "--quiet",
        "--run",
        &half,
        "--pause-at",
        &pause,
    ];
    output(&train);
    output(&["resume", &half, "--quiet"]);
    let weights = |run: &str| {
        let path = format!("steps/{last:08}/model.safetensors");
        fs::read(Path::new(run).join(path)).unwrap()
    };
    assert!(weights(&whole) == weights(&half), "other bits");
    whole
}

/// Writes the experiment `name` from the parts of its text.
pub fn experiment(folder: &Path, name: &str, parts: &[&str]) {
    let text = format!("name = \"{name}\"\n{}", parts.concat());
    fs::write(folder.join(format!("{name}.toml")), text).unwrap();
}

/// Runs a command, whatever its exit status.
pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = formwork(arguments);
    command.current_dir(folder).output().unwrap()
}

/// Returns standard output of a command that must succeed.
pub fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns standard error of a command that must fail.
pub fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?}");
    said
}

/// Reads the text of a file.
pub fn text(folder: &Path, path: &str) -> String {
    fs::read_to_string(folder.join(path)).unwrap()
}

/// Reads the weights of a run's checkpoint.
pub fn weights(folder: &Path, run: &str, step: usize) -> Vec<u8> {
    let path = format!("checkpoints/{run}/steps/{step:08}/model.safetensors");
    fs::read(folder.join(path)).unwrap()
}

/// Trains an experiment up to the last of these steps, and a second time as the run `resumed`, which stops at the first of them
/// and is resumed; checks that both have the same weights.
pub fn resumes_exactly(folder: &Path, name: &str, [first, last]: [usize; 2]) {
    let file = format!("{name}.toml");
    let train = ["train", &file, "--quiet"];
    good(folder, &train);
    let [first, steps] = [first, last].map(|steps| format!("train.steps={steps}"));
    let short = ["--set", "name=resumed", "--set", &first];
    good(folder, &[&train[..], &short].concat());
    let more = ["resume", "checkpoints/resumed", "--quiet", "--set", &steps];
    good(folder, &more);
    assert!(
        weights(folder, name, last) == weights(folder, "resumed", last),
        "other bits"
    );
}
