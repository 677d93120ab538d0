//! Models whose networks each begin from another run: a decoder that reads images, and two towers.

use super::runs::CAPTIONS;
use crate::binary::{failure, output};
use crate::image_text::runs::SHAPES;
use crate::in_folder::{trained, written};
use safetensors::tensor::SafeTensors;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Returns the parameters of a checkpoint as bytes, by path.
fn weights(run: &str, step: u64) -> BTreeMap<String, Vec<u8>> {
    let path = Path::new(run).join(format!("steps/{step:08}/model.safetensors"));
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(name, view)| (name.to_string(), view.data().to_vec()))
        .collect()
}

/// Returns the parameters below a path, by the rest of their path.
fn below(all: &BTreeMap<String, Vec<u8>>, path: &str) -> BTreeMap<String, Vec<u8>> {
    let named = all.iter().filter_map(|(name, bytes)| {
        let rest = name.strip_prefix(path)?;
        Some((rest.to_string(), bytes.clone()))
    });
    named.collect()
}

/// Trains a language model of captions with the `tokenizer.json` of another run.
fn language_model(folder: &Path, words_of: &str) -> String {
    let tokenizer = format!("kind = \"pretrained\"\npath = \"{words_of}/tokenizer.json\"");
    language_model_of(folder, &tokenizer)
}

/// Trains the same language model with another tokenizer.
fn language_model_of(folder: &Path, tokenizer: &str) -> String {
    let lines: String = ["red", "green", "blue"]
        .iter()
        .flat_map(|colour| {
            ["circle", "square"].map(|shape| format!("a {colour} {shape} above a green circle\n"))
        })
        .collect();
    let text = written(folder, "captions.txt", &lines.repeat(20));
    let (_, part) = CAPTIONS.split_once("[model.text]\n").unwrap();
    let (part, _) = part.split_once("[data]").unwrap();
    let experiment = format!(
        "name = \"lm\"\n[model]\n{part}[data]\nkind = \"text\"\npath = {text:?}\ncontext = 10\nvalid_fraction = 0.2\n\
         [tokenizer]\n{tokenizer}\n[task]\nkind = \"causal_lm\"\n\
         [optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 4\nbatch_size = 4\n"
    );
    let file = written(folder, "lm.toml", &experiment);
    let run = folder.join("lm").display().to_string();
    output(&["train", &file, "--quiet", "--run", &run]);
    run
}

/// Trains two towers whose image network is that of [`CAPTIONS`].
fn towers(folder: &Path) -> String {
    let experiment = SHAPES
        .replace("embedding_norm = true\n", "")
        .replace("colours = 4", "colours = 3")
        .replace("\nsteps = 400", "\nsteps = 4")
        .replace("warmup_steps = 20", "warmup_steps = 1")
        .replace("checkpoint_every = 200\n", "");
    trained(folder, &experiment)
}

#[test]
fn both_networks_begin_from_a_run_each_and_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let sub = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let clip = towers(&sub("clip"));
    let lm = language_model(&sub("lm"), &clip);
    let init = format!(
        "[init]\nfreeze = [\"^model\\\\.image\\\\.\", \"^model\\\\.text\\\\.\"]\n[init.image]\nfrom = {clip:?}\n[init.text]\nfrom = {lm:?}\n"
    );
    let short = CAPTIONS
        .replace("steps = 300", "steps = 6")
        .replace("warmup_steps = 20", "warmup_steps = 1")
        .replace("checkpoint_every = 150", "checkpoint_every = 3");
    let experiment = short.replace("[optimizer]", &format!("{init}[optimizer]"));
    let run = trained(&sub("flamingo"), &experiment);
    let (begun, eye, tongue) = (weights(&run, 6), weights(&clip, 4), weights(&lm, 4));
    // Frozen networks equal those of their runs bit for bit, and the layers between them have learned.
    assert_eq!(below(&begun, "model.image."), below(&eye, "model.image."));
    assert_eq!(below(&begun, "model.text."), below(&tongue, "model."));
    let half = weights(&run, 3);
    for part in ["model.cross.", "model.resampler."] {
        let (one, other) = (below(&half, part), below(&begun, part));
        assert!(!one.is_empty() && one != other, "{part}");
    }
    let gates = below(&begun, "model.cross.0.");
    assert!(gates["attention_gate"] != [0; 4], "the gate has opened");
    // Paths to the runs are found from any working directory, and `compare` does not count them as changed keys.
    let compared = output(&["compare", &run]);
    assert!(!compared.contains("init."), "{compared}");
    // A resumed run needs neither of the other runs.
    fs::remove_dir_all(folder.path().join("clip")).unwrap();
    fs::remove_dir_all(folder.path().join("lm")).unwrap();
    output(&["resume", &run, "--quiet", "--set", "train.steps=8"]);
}

/// A CLIP tower begins from a network that was trained as a classifier (Zhai et al. 2022, LiT), or from a tower of another
/// pair.
#[test]
fn a_tower_begins_from_a_classifier_and_from_another_tower() {
    let folder = tempfile::tempdir().unwrap();
    let sub = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let (_, vision) = SHAPES.split_once("[model.image]\n").unwrap();
    let (vision, _) = vision.split_once("[model.text]").unwrap();
    let images = crate::image_text::runs::pictures(
        &sub("pictures"),
        "kind = \"captioned_shapes\"\nsize = 16\ncolours = 2\nshapes = 2\nalone = 1.0\nvalid_items = 0\n",
        40,
    );
    assert_eq!(images.len(), 40);
    let pictures = folder.path().join("pictures");
    let classifier = format!(
        "name = \"classes\"\n[model]\n{vision}[data]\nkind = \"images\"\npath = {pictures:?}\n\
         [task]\nkind = \"image_classification\"\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 3\nbatch_size = 4\n"
    );
    let classifier = trained(&sub("classifier"), &classifier);
    let short = SHAPES
        .replace("\nsteps = 400", "\nsteps = 4")
        .replace("warmup_steps = 20", "warmup_steps = 1")
        .replace("checkpoint_every = 200\n", "");
    let towers = trained(&sub("towers"), &short);
    let init = format!(
        "[init]\nfreeze = [\"^model\\\\.image\\\\.\"]\n[init.image]\nfrom = {classifier:?}\n[init.text]\nfrom = {towers:?}\npart = \"text\"\n"
    );
    let run = trained(
        &sub("tuned"),
        &short.replace("[optimizer]", &format!("{init}[optimizer]")),
    );
    let (tuned, eye, other) = (
        weights(&run, 4),
        weights(&classifier, 3),
        weights(&towers, 4),
    );
    let mut eye = below(&eye, "model.");
    eye.retain(|path, _| !path.starts_with("head"));
    assert_eq!(below(&tuned, "model.image."), eye);
    let (own, theirs) = (below(&tuned, "model.text."), below(&other, "model.text."));
    assert!(
        own.keys().eq(theirs.keys()) && own != theirs,
        "it goes on learning"
    );
}

#[test]
fn what_cannot_begin_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let clip = towers(folder.path());
    let letters = language_model_of(folder.path(), "kind = \"char\"");
    let with = |init: &str| CAPTIONS.replace("[optimizer]", &format!("{init}\n[optimizer]"));
    let of_text = "[model]\nkind = \"vision_language\"";
    assert!(CAPTIONS.contains(of_text));
    for (experiment, told) in [
        (
            with(&format!(
                "[init]\nfrom = {clip:?}\n[init.image]\nfrom = {clip:?}"
            )),
            "[init.image] from has no effect together with [init] from",
        ),
        (
            with("[init.image]\nfrom = \"nowhere\""),
            "[init.image] from = \"nowhere\"",
        ),
        (
            with(&format!("[init.image]\nfrom = {clip:?}\nnew = [\"(\"]")),
            "[init.image] new: `(` is not a regular expression",
        ),
        (
            with(&format!("[init.image]\nfrom = {clip:?}\npart = \"images\"")),
            "part = \"images\" is not known; did you mean `image`?",
        ),
        (
            with(&format!("[init.image]\nfrom = {clip:?}\npart = \"text\"")),
            "its network is of kind = \"decoder\", but [model.image] is of kind = \"vision\"",
        ),
        (
            with(&format!("[init.image]\nfrom = {clip:?}")).replace("d_model = 32", "d_model = 16"),
            "has the shape",
        ),
        (
            with(&format!("[init.text]\nfrom = {letters:?}")),
            "needs a vocabulary with special tokens for the ends of a text, but that of the run has none",
        ),
        (
            with(&format!(
                "[init.text]\nfrom = {clip:?}\nskip = [\"nothing\"]"
            )),
            "`nothing`",
        ),
        (
            SHAPES.replace(
                "[optimizer]",
                &format!("[init.image]\nfrom = {clip:?}\n[optimizer]"),
            ),
            "`model.image.embedding_norm",
        ),
    ] {
        let file = written(folder.path(), "x.toml", &experiment);
        let run = folder.path().join("refused").display().to_string();
        let (status, said) = failure(&["train", &file, "--quiet", "--run", &run]);
        assert!(
            status == 2 && said.contains(told),
            "{told}: {status} {said}"
        );
        assert!(!Path::new(&run).exists(), "{told}");
    }
    let decoder = format!(
        "name = \"x\"\n[model]\nkind = \"decoder\"\n[data]\nkind = \"copy\"\n[task]\nkind = \"causal_lm\"\n[optimizer]\nkind = \"adamw\"\n\
         lr = 1e-3\n[train]\nsteps = 1\nbatch_size = 2\n[init.text]\nfrom = {clip:?}\n"
    );
    let file = written(folder.path(), "x.toml", &decoder);
    let (status, said) = failure(&["check", &file]);
    assert!(
        status == 2
            && said.contains("text has no effect: [model] kind = \"decoder\" is one network"),
        "{said}"
    );
}
