//! Experiments, commands and runs in a folder of their own, as a person has them: files beside each other, runs in `checkpoints`.

use crate::binary::formwork;
use std::fs;
use std::path::Path;
use std::process::Output;

/// A decoder of one layer; keys of `[model]` may follow.
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

/// Writes an experiment from the parts of its text.
pub fn experiment(folder: &Path, name: &str, parts: &[&str]) {
    let text = format!("name = \"{name}\"\n{}", parts.concat());
    fs::write(folder.join(format!("{name}.toml")), text).unwrap();
}

/// A command, however it ends.
pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = formwork(arguments);
    command.current_dir(folder).output().unwrap()
}

/// Standard output of a command that must succeed.
pub fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a command that must fail.
pub fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?}");
    said
}

/// The text of a file.
pub fn text(folder: &Path, path: &str) -> String {
    fs::read_to_string(folder.join(path)).unwrap()
}

/// The weights of a run's checkpoint.
pub fn weights(folder: &Path, run: &str, step: usize) -> Vec<u8> {
    let path = format!("checkpoints/{run}/steps/{step:08}/model.safetensors");
    fs::read(folder.join(path)).unwrap()
}

/// Trains an experiment up to the last of these steps, and once more as the run `resumed`, which ends at the first of them and is
/// resumed: both have the same weights.
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
