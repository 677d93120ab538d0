//! Every training loop with its shipped experiment on built-in data, cut short: training, evaluation and use of the run.

use super::json;
use crate::binary::{failure, formwork, output, piped, shipped};
use safetensors::SafeTensors;
use std::fs;
use std::path::Path;

/// Returns the message with which training a shipped experiment with changes is refused; no file is left behind.
fn refused(folder: &Path, file: &str, sets: &[&str]) -> String {
    let run = folder.join("refused");
    let shown = run.display().to_string();
    let file = shipped(file).display().to_string();
    let mut arguments = vec!["train", &file, "--run", &shown, "--quiet"];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    let (status, said) = failure(&arguments);
    assert_eq!(status, 2, "{said}");
    assert!(!run.exists());
    said
}

/// Trains a shipped experiment with changes and returns the run's folder.
fn trained(folder: &Path, name: &str, file: &str, sets: &[&str]) -> String {
    let run = folder.join(name).display().to_string();
    let file = shipped(file).display().to_string();
    let mut arguments = vec!["train", &file, "--run", &run, "--quiet"];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
    run
}

const SHORT: [&str; 4] = [
    "train.steps=4",
    "train.eval_every=4",
    "train.batch_size=8",
    "schedule.warmup_steps=1",
];

fn short(more: &[&'static str]) -> Vec<&'static str> {
    [&SHORT[..], more].concat()
}

#[test]
fn dates_are_translated() {
    let folder = tempfile::tempdir().unwrap();
    let sets = short(&[
        "data.valid_items=12",
        "train.keep_last=3",
        "train.checkpoint_every=1",
    ]);
    let file = "experiments/translation/dates.toml";
    let run = trained(folder.path(), "dates", file, &sets);
    let scores = json(&output(&["eval", &run, "--beam", "2", "--json"]));
    for metric in ["loss", "accuracy", "exact_match"] {
        assert!(scores[metric].is_number(), "{metric}: {scores}");
    }
    let average = ["eval", &run, "--checkpoint", "average:3", "--json"];
    assert_ne!(json(&output(&average))["loss"], scores["loss"]);
    let (status, said) = failure(&["eval", &run, "--checkpoint", "average:9"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("too few for a mean of 9"), "{said}");
    // One output line for each input line, the same from standard input as from a file.
    let input = "the 3rd of May 1998\n5 May 2001\n";
    let written = piped(&["translate", &run, "--beam", "3"], input);
    assert_eq!(written.lines().count(), 2, "{written}");
    let (from, to) = (folder.path().join("in.txt"), folder.path().join("out.txt"));
    std::fs::write(&from, input).unwrap();
    let (from, to) = (from.display().to_string(), to.display().to_string());
    output(&[
        "translate",
        &run,
        "--beam",
        "3",
        "--input",
        &from,
        "--output",
        &to,
    ]);
    assert_eq!(std::fs::read_to_string(&to).unwrap(), written);
    let best = output(&["translate", &run, "--n-best", "2", "--input", &from]);
    assert_eq!(best.lines().count(), 4, "{best}");
    let long = "5 May 2001 ".repeat(60);
    std::fs::write(&from, long.trim()).unwrap();
    let ended = formwork(&["translate", &run, "--input", &from])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("1 text had more than"), "{said}");
    let (status, said) = failure(&["generate", &run, "--prompt", "x"]);
    assert_eq!(status, 2);
    assert!(
        said.contains("was trained for translation, which does not continue text"),
        "{said}"
    );
}

#[test]
fn a_decoder_alone_translates_after_the_source() {
    let folder = tempfile::tempdir().unwrap();
    for (name, whole) in [("causal", false), ("prefix", true)] {
        let task = format!("task={{ kind = \"translation\", bidirectional_source = {whole} }}");
        let mut sets = short(&[
            "data.valid_items=6",
            "model={ kind = \"decoder\", n_layers = 2, d_model = 32, position = { kind = \"rotary\" } }",
        ]);
        sets.push(&task);
        let file = "experiments/translation/dates.toml";
        let run = trained(folder.path(), name, file, &sets);
        let scores = json(&output(&["eval", &run, "--json"]));
        assert!(scores["exact_match"].is_number(), "{scores}");
    }
    let table = folder.path().join("pairs.tsv");
    std::fs::write(&table, "a b\tc d\n").unwrap();
    let pairs =
        format!("data={{ kind = \"pairs\", path = {table:?}, separate_vocabularies = true }}");
    let mut sets = short(&["tokenizer={ kind = \"char\" }"]);
    sets.push(&pairs);
    sets.push("model={ kind = \"decoder\", n_layers = 2, d_model = 32, position = { kind = \"rotary\" } }");
    let said = refused(folder.path(), "experiments/translation/dates.toml", &sets);
    assert!(said.contains("a decoder has one"), "{said}");
    sets.pop();
    sets.push("model.share_embeddings=true");
    let said = refused(folder.path(), "experiments/translation/dates.toml", &sets);
    assert!(
        said.contains("share_embeddings = true needs one vocabulary"),
        "{said}"
    );
}

#[test]
fn masks_are_filled_and_a_classifier_begins_from_the_encoder() {
    let folder = tempfile::tempdir().unwrap();
    let sets = short(&["data.documents=40", "data.valid_items=4"]);
    let file = "experiments/masked_lm/grammar.toml";
    let run = trained(folder.path(), "grammar", file, &sets);
    let scores = json(&output(&["eval", &run, "--json"]));
    for metric in ["mlm_accuracy", "nsp_accuracy", "nsp_loss", "perplexity"] {
        assert!(scores[metric].is_number(), "{metric}: {scores}");
    }
    let text = "there is a red [MASK] and there are two blue owls .";
    let filled = json(&output(&[
        "fill", &run, "--text", text, "--top", "3", "--json",
    ]));
    assert_eq!(filled["masks"][0].as_array().unwrap().len(), 3);
    let first = &filled["masks"][0][0];
    assert!(
        first["id"].is_u64() && first["piece"].is_string(),
        "{first}"
    );
    let (status, said) = failure(&["fill", &run, "--text", "no mask"]);
    assert_eq!(status, 2);
    assert!(
        said.contains("the text has no mask; write [MASK]"),
        "{said}"
    );
    // A tiny set of labelled sentences in words of the grammar.
    let rows: String = (0..24)
        .map(|i| ["a red fox\tone\n", "two blue owls\tmany\n"][i % 2].to_string())
        .collect();
    let table = folder.path().join("rows.tsv");
    std::fs::write(&table, rows).unwrap();
    let data = format!(
        "data={{ kind = \"labelled_text\", path = {:?}, valid_fraction = 0.25, context = 16, text = 1, label = 2 }}",
        table.display().to_string()
    );
    let from = format!("init.from={run:?}");
    let base = [
        "task={ kind = \"text_classification\" }",
        "model.position.max_len=64",
        &data,
        &from,
    ];
    let said = refused(folder.path(), file, &[&short(&[])[..], &base].concat());
    assert!(
        said.contains("`head.weight` is not in the file (list it in `new` to initialise it)"),
        "{said}"
    );
    assert!(said.contains("(list it in `skip` to ignore it)"), "{said}");
    let other = ["tokenizer={ kind = \"wordpiece\", vocab_size = 40 }"];
    let said = refused(
        folder.path(),
        file,
        &[&short(&[])[..], &base, &other].concat(),
    );
    assert!(
        said.contains("the other run has a different vocabulary"),
        "{said}"
    );
    assert!(
        said.contains("add \"model.embedding.weight\" to new"),
        "{said}"
    );
    // Following the advice works; a pattern whose text merely contains "embedding" is not enough.
    let skip = "init.skip=[\"^head\", \"^pair_head\"]";
    let anew = |new: &'static str| [&short(&[])[..], &base, &other, &[skip, new]].concat();
    let wrong = anew("init.new=[\"^head\", \"embedding_norm|segments\"]");
    let said = refused(folder.path(), file, &wrong);
    assert!(
        said.contains("the other run has a different vocabulary"),
        "{said}"
    );
    let right = anew("init.new=[\"^head\", \"model.embedding.weight\"]");
    trained(folder.path(), "other words", file, &right);
    let mut sets = short(&[]);
    sets.extend(base);
    sets.extend([
        "init.new=[\"^head\"]",
        "init.skip=[\"^head\", \"^pair_head\"]",
        "init.freeze=[\"^model.embedding\"]",
        "init.layer_lr_decay=0.5",
    ]);
    let tuned = trained(folder.path(), "tuned", file, &sets);
    let scores = json(&output(&["eval", &tuned, "--json"]));
    assert!(
        scores["accuracy"].is_number() && scores["f1"].is_number(),
        "{scores}"
    );
    let (status, said) = failure(&["resume", &tuned, "--set", "train.batch_tokens=64"]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("train.batch_tokens is unset in the run"),
        "{said}"
    );
    let shown = output(&["eval", &tuned, "--confusion"]);
    assert!(shown.contains("many") && shown.contains("one"), "{shown}");
    let class = output(&["classify", &tuned, "--text", "a red fox", "--top", "2"]);
    assert!(
        class.starts_with("a red fox: ") && class.contains('%'),
        "{class}"
    );
    // Frozen parameters are unchanged; the rest has learned.
    let read = |run: &str| {
        let file = Path::new(run).join("latest/model.safetensors");
        fs::read(file).unwrap()
    };
    let (before, after) = (read(&run), read(&tuned));
    let [before, after] = [&before, &after].map(|b| SafeTensors::deserialize(b).unwrap());
    let same = |name: &str| before.tensor(name).unwrap() == after.tensor(name).unwrap();
    assert!(same("model.embedding.weight"));
    assert!(!same("model.stack.blocks.0.attention.query.weight"));
}

#[test]
fn shapes_are_classified() {
    let folder = tempfile::tempdir().unwrap();
    let sets = short(&["data.valid_items=16"]);
    let file = "experiments/image_classification/shapes.toml";
    let run = trained(folder.path(), "shapes", file, &sets);
    let scores = json(&output(&["eval", &run, "--json"]));
    assert!(scores["accuracy"].is_number(), "{scores}");
    let picture = folder.path().join("a.png");
    image::GrayImage::from_fn(28, 28, |x, y| image::Luma([((x * y) % 256) as u8]))
        .save(&picture)
        .unwrap();
    let picture = picture.display().to_string();
    let shown = json(&output(&[
        "classify", &run, &picture, "--json", "--top", "4",
    ]));
    let sum: f64 = shown["classes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["probability"].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-4, "{shown}");
    // At twice the resolution there are more patches, and their positions are resampled if that is asked for.
    let from = format!("init.from={run:?}");
    let mut sets = short(&["data.valid_items=8", "data.size=56"]);
    sets.push(&from);
    let said = refused(folder.path(), file, &sets);
    assert!(said.contains("cuts images into a different grid"), "{said}");
    sets.push("init.resample=[\"position\"]");
    trained(folder.path(), "larger", file, &sets);
    sets.retain(|set| *set != "data.size=56");
    let said = refused(folder.path(), file, &sets);
    assert!(said.contains("resample has no effect"), "{said}");
    let (status, said) = failure(&["classify", &run, "--text", "a"]);
    assert_eq!(status, 2);
    assert!(
        said.contains("which predicts neither classes nor numbers for texts"),
        "{said}"
    );
}

#[test]
fn runs_of_every_loop_go_on_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().unwrap();
    for (file, more) in [
        (
            "experiments/translation/dates.toml",
            &["data.valid_items=4", "train.batch_tokens=128"][..],
        ),
        (
            "experiments/masked_lm/grammar.toml",
            &["data.documents=40", "data.valid_items=4"],
        ),
        (
            "experiments/image_classification/shapes.toml",
            &["data.valid_items=8"],
        ),
        (
            "experiments/text_classification/listops.toml",
            &["data.valid_items=8"],
        ),
        (
            "experiments/text_classification/lra_pathfinder.toml",
            &[
                "data.valid_items=8",
                "data.size=16",
                "data.length=2",
                "data.distractor_length=1",
                "data.distractors=0",
            ],
        ),
    ] {
        let name = file.rsplit('/').next().unwrap();
        let tokens = more.iter().any(|set| set.contains("batch_tokens"));
        let mut sets = vec!["schedule={ kind = \"constant\" }", "train.eval_every=3"];
        sets.extend((!tokens).then_some("train.batch_size=8"));
        sets.extend(more);
        let with = |steps: &'static str| [&sets[..], &[steps]].concat();
        let whole = trained(
            folder.path(),
            &format!("{name}-whole"),
            file,
            &with("train.steps=6"),
        );
        let part = trained(
            folder.path(),
            &format!("{name}-part"),
            file,
            &with("train.steps=3"),
        );
        output(&["resume", &part, "--set", "train.steps=6", "--quiet"]);
        let read = |run: &str, file: &str| {
            std::fs::read(Path::new(run).join("latest").join(file)).unwrap()
        };
        for file in ["model.safetensors", "optimizer.bpk"] {
            assert!(read(&whole, file) == read(&part, file), "{name}: {file}");
        }
    }
}
