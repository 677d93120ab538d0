//! Sweeps whose data, initial weights or teacher changed between two cells, and keys that change nothing.

use super::{Place, begun};
use crate::binary::output;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a file of words, and an experiment that trains on it with two arms and `seeds` seeds.
fn on_words(place: &Place, words: usize, seeds: u64) -> PathBuf {
    let text: String = (0..words)
        .map(|i| format!("{} and {}\n", i, i * i))
        .collect();
    fs::write(place.path("words.txt"), text).unwrap();
    let file = place.path("words.toml");
    let text = format!(
        r#"
name = "words"
seed = 3
[model]
kind = "decoder"
n_layers = 1
d_model = 16
attention = {{ kind = "multi_head", n_heads = 2 }}
[tokenizer]
kind = "char"
[data]
kind = "text"
path = "words.txt"
valid_fraction = 0.1
context = 16
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 4
batch_size = 2
eval_every = 4
[ablation]
seeds = {seeds}
[ablation.axes]
"model.n_layers" = [1, 2]
"#
    );
    fs::write(&file, text).unwrap();
    file
}

/// Returns the error of a sweep that is refused before it trains anything.
fn refused(place: &Place, file: &Path, folder: &str, more: &[&str]) -> String {
    let ended = place.sweep(file, folder, more).output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{told}");
    let errors = told.lines().filter(|line| line.starts_with("error: "));
    assert_eq!(errors.count(), 1, "{told}");
    assert!(begun(&told).is_empty(), "{told}");
    told
}

#[test]
fn cells_are_not_added_to_those_of_other_data() {
    let place = Place::new();
    let file = on_words(&place, 400, 1);
    let (fine, said, told) = place.swept(&file, "words", &[]);
    assert!(fine, "{said}{told}");
    let plan = fs::read_to_string(place.path("words/sweep.json")).unwrap();
    // The data changed, but no cell is left to train on it: the table is printed, and the plan keeps the sizes of its arms.
    let file = on_words(&place, 401, 1);
    let text = fs::read_to_string(place.path("words.txt")).unwrap();
    fs::write(place.path("words.txt"), format!("#{text}")).unwrap();
    let (fine, said, told) = place.swept(&file, "words", &["--retry"]);
    assert!(fine, "{said}{told}");
    assert!(begun(&told).is_empty(), "{told}");
    let now = fs::read_to_string(place.path("words/sweep.json")).unwrap();
    assert_eq!(now, plan);
    let file = on_words(&place, 401, 2);
    for more in [&[][..], &["--dry-run", "--no-probe"]] {
        let told = refused(&place, &file, "words", more);
        for wanted in [
            "cell n_layers_1.seed-3: [data] path = ",
            "words.txt differs from the one that the run began with",
            "give the sweep another name",
            "--fresh",
        ] {
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
        assert!(!told.contains("--other-data"), "{told}");
    }
    assert!(!place.path("words/cells/n_layers_1/seed-4").exists());
    let now = fs::read_to_string(place.path("words/sweep.json")).unwrap();
    assert_eq!(now, plan);
    // Given the folder, with a cell left to train; without one, the data is not checked.
    let folder = place.path("words").display().to_string();
    output(&["sweep", &folder]);
    let end = place.path("words/ledger/n_layers_2.seed-3.end.json");
    let text = fs::read(&end).unwrap();
    fs::remove_file(&end).unwrap();
    let (status, told) = crate::binary::failure(&["sweep", &folder]);
    assert_eq!(status, 2, "{told}");
    assert!(told.contains("cell n_layers_1.seed-3: [data]"), "{told}");
    assert!(!told.contains("--other-data"), "{told}");
    fs::write(&end, text).unwrap();
    // The file is restored.
    let file = on_words(&place, 400, 2);
    let (fine, said, told) = place.swept(&file, "words", &[]);
    assert!(fine, "{said}{told}");
    assert_eq!(begun(&told), ["n_layers_1.seed-4", "n_layers_2.seed-4"]);
}

/// A sweep's file is planned on its data; its folder is not.
#[test]
fn a_finished_sweep_whose_data_is_gone_is_shown_by_its_folder() {
    let place = Place::new();
    let file = on_words(&place, 400, 1);
    let (fine, table, told) = place.swept(&file, "words", &[]);
    assert!(fine, "{table}{told}");
    let gone = || fs::remove_file(place.path("words.txt")).unwrap();
    gone();
    let (fine, said, told) = place.swept(&file, "words", &[]);
    assert!(fine, "{said}{told}");
    let rows = |table: &str| {
        let rows = table.lines().filter(|line| line.contains("n_layers"));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(!rows(&table).is_empty(), "{table}");
    assert_eq!(rows(&said), rows(&table));
    assert!(
        told.contains("is made from its runs only") && told.contains("words.txt"),
        "{told}"
    );
    let folder = place.path("words").display().to_string();
    assert!(output(&["sweep", &folder]).contains("done, 0 diverged"));
    // If the file describes another sweep, the results of this one are not shown.
    let way = format!("is finished; its table: formwork sweep {folder}");
    for set in [
        "train.steps=5",
        "train.epochs=2",
        "model.d_model=32",
        "seed=4",
        "data.path=\"other.txt\"",
        "ablation.halving={ first = 2, eta = 2 }",
    ] {
        let (fine, said, told) = place.swept(&file, "words", &["--set", set]);
        assert!(!fine && told.contains(&way), "{set}: {said}{told}");
    }
    let file = on_words(&place, 400, 2);
    gone();
    let (fine, said, told) = place.swept(&file, "words", &[]);
    assert!(!fine && told.contains(&way), "{said}{told}");
    // A sweep with `--fresh` starts again, so it is not finished.
    let (fine, said, told) = place.swept(&file, "words", &["--fresh"]);
    assert!(!fine && !told.contains(&way), "{said}{told}");
}

#[test]
fn cells_are_not_added_to_those_of_other_weights() {
    let place = Place::new();
    let base = place.path("base.toml").display().to_string();
    let source = place.path("source").display().to_string();
    let train = |seed: &str| {
        let steps = ["--quiet", "--fresh", "--set", "train.steps=10", "--set"];
        output(&[&["train", &base, "--run", &source], &steps[..], &[seed]].concat());
    };
    let begins = format!("init.from={source}");
    let learns = format!(
        "task={{ kind = \"distillation\", teacher = {source:?}, of = {{ kind = \"causal_lm\" }} }}"
    );
    for (name, set, kept, wanted) in [
        (
            "begins",
            &begins,
            "init.json",
            "no longer has the weights that the run started from",
        ),
        (
            "learns",
            &learns,
            "teacher.json",
            "no longer has the weights that the run learned from",
        ),
    ] {
        train("seed=5");
        let axis = "[ablation.axes]\n\"optimizer.lr\" = [1e-3]\n";
        let file = place.file(name, &format!("seeds = 1\n{axis}"));
        let (fine, said, told) = place.swept(&file, name, &["--set", set]);
        assert!(fine, "{said}{told}");
        let run = place.path(&format!("{name}/cells/lr_0-001/seed-3"));
        let print = fs::read_to_string(run.join(kept)).unwrap();
        for key in ["\"step\": ", "\"sha256\": "] {
            assert!(print.contains(key), "{print}");
        }
        output(&["eval", &run.display().to_string()]);
        train("seed=6");
        let (fine, said, told) = place.swept(&file, name, &["--set", set]);
        assert!(fine, "{said}{told}");
        assert!(begun(&told).is_empty(), "{told}");
        let file = place.file(name, &format!("seeds = 2\n{axis}"));
        let told = refused(&place, &file, name, &["--set", set]);
        assert!(told.contains(wanted), "{told}");
        assert!(told.contains("cell lr_0-001.seed-3: "), "{told}");
        train("seed=5");
        let (fine, said, told) = place.swept(&file, name, &["--set", set]);
        assert!(fine, "{said}{told}");
        assert_eq!(begun(&told), ["lr_0-001.seed-4"]);
    }
}

/// Keys by which `report` does not distinguish arms do not make another sweep.
#[test]
fn keys_of_what_is_written_down_may_change_while_a_sweep_grows() {
    let place = Place::new();
    let axis = "[ablation.axes]\n\"model.n_layers\" = [1]\n";
    let file = place.file("grown", &format!("seeds = 1\n{axis}"));
    let (fine, said, told) = place.swept(&file, "grown", &[]);
    assert!(fine, "{said}{told}");
    let file = place.file("grown", &format!("seeds = 2\n{axis}"));
    let harmless = ["--set", "train.log_every=2", "--set", "journal.csv=true"];
    let other = [&harmless[..], &["--set", "model.dropout=0.2"]].concat();
    let told = refused(&place, &file, "grown", &other);
    assert!(
        told.contains(
            "arm `n_layers=1` was trained with `[model] dropout = 0.1` but now has `[model] dropout = 0.2`; give"
        ),
        "{told}"
    );
    let (fine, said, told) = place.swept(&file, "grown", &harmless);
    assert!(fine, "{said}{told}");
    assert_eq!(begun(&told), ["n_layers_1.seed-4"]);
    assert!(
        place
            .path("grown/cells/n_layers_1/seed-4/metrics.csv")
            .exists()
    );
}
