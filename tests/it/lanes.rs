//! Runs whose rows carry a state from step to step: their folders for commands, and their steps without commands.

use burn::module::Module;
use formwork::data::Source;
use formwork::data::loader::{Order, step_batches};
use formwork::task::{Objective, Task, TrainableModel};
use formwork::train::gradients::{Gradient, accumulate_from};
use std::fs;
use std::path::Path;

/// The rest of an experiment after `[model]`: nine steps with three rows over segments of eight bytes.
const REST: &str = r#"
[tokenizer]
kind = "byte"
[data]
kind = "text"
path = "text.txt"
context = 8
windows = "contiguous"
valid_fraction = 0.4
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-2
[schedule]
kind = "constant"
[train]
steps = 9
batch_size = 3
micro_batch_size = 2
eval_batch_size = 1
carry_state = true
"#;

/// A folder with the experiment of a model, `x.toml`, after some edits, and its text.
pub fn folder(model: &str, edits: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // Eight windows for three lanes: every lane starts again within nine steps.
    let letter = |i: usize| char::from(b'a' + ((i * 7 + i / 5) % 17) as u8);
    let text: String = (0..120).map(letter).collect();
    fs::write(folder.path().join("text.txt"), text).unwrap();
    let whole = format!("{model}{REST}");
    let toml = edits.iter().fold(whole, |toml, (from, to)| {
        assert!(toml.contains(from), "{from}");
        toml.replace(from, to)
    });
    fs::write(folder.path().join("x.toml"), toml).unwrap();
    folder
}

/// The command that trains a run of the folder's experiment with some keys changed.
pub fn train(folder: &Path, run: &str, sets: &[&str]) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let start = ["train", &path("x.toml"), "--quiet", "--run", &path(run)].map(String::from);
    let sets = sets
        .iter()
        .flat_map(|set| ["--set".to_string(), (*set).to_string()]);
    start.into_iter().chain(sets).collect()
}

/// Reads weights, optimizer and carried state of a run's last step.
pub fn files(folder: &Path, run: &str) -> [Vec<u8>; 3] {
    let step = folder.join(run).join("steps/00000009");
    ["model.safetensors", "optimizer.bpk", "state.safetensors"]
        .map(|name| fs::read(step.join(name)).unwrap())
}

/// Runs steps with this number of lanes and rows per micro-batch, each with the state of the step before.
pub fn steps<T: Task + Module + std::fmt::Display + 'static>(
    task: &Objective<T>,
    source: &dyn Source,
    [lanes, micro]: [usize; 2],
    count: u64,
) -> Vec<Gradient> {
    let mut state = task.empty_state();
    let mut order = Order::lanes(lanes);
    let each = (0..count).map(|step| {
        let batches = step_batches(source, &mut order, micro, step).unwrap();
        let gradient = accumulate_from(task, batches, state.as_ref());
        state.clone_from(&gradient.output.state);
        gradient
    });
    each.collect()
}
