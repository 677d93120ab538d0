//! Runs through the command line: trained, resumed, evaluated, used, and taken as the start of a classifier.

use super::{DELTA, E};
use crate::binary::{failure, output};
use formwork::interop::weights::Array;
use formwork::tokenizer::Tokenizer;
use safetensors::tensor::SafeTensors;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const EXPERIMENT: &str = r#"
name = "electra"
seed = 3
[model]
kind = "encoder"
n_layers = 2
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
position = { kind = "learned", max_len = 64 }
dropout = 0.1
[data]
kind = "grammar"
documents = 40
valid_items = 4
[task]
kind = "replaced_token"
generator = { size = 0.5, n_layers = 1 }
[optimizer]
kind = "adamw"
lr = 1e-2
[schedule]
kind = "constant"
[train]
steps = 6
batch_size = 8
micro_batch_size = 4
eval_every = 3
checkpoint_every = 3
keep_last = 4
"#;

fn train(folder: &Path, run: &str, sets: &[&str]) -> String {
    let file = folder.join("electra.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    let (file, run) = (
        file.display().to_string(),
        folder.join(run).display().to_string(),
    );
    let mut arguments = vec!["train", &file, "--quiet", "--run", &run];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
    run
}

/// Both losses are means over the whole split, whatever the batch size.
#[test]
fn the_loss_of_an_evaluation_goes_by_no_batches() {
    let folder = tempfile::tempdir().unwrap();
    let losses = [1, 3, 4].map(|rows| {
        let rows = format!("train.eval_batch_size={rows}");
        let run = train(folder.path(), &rows, &[&rows, "train.steps=3"]);
        let lines = fs::read_to_string(Path::new(&run).join("metrics.jsonl")).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let valid: Vec<Value> = lines
            .filter(|line: &Value| line["split"] == "valid")
            .collect();
        let valid = valid.last().unwrap();
        let number = |key: &str| valid[key].as_f64().unwrap();
        let joint = number("mlm_loss") + 50.0 * number("rtd_loss");
        assert!((number("loss") / joint - 1.0).abs() < 1e-9, "{valid}");
        number("loss")
    });
    for loss in losses {
        assert!((loss / losses[0] - 1.0).abs() < 1e-6, "{losses:?}");
    }
}

fn weights(run: &str, step: u64) -> BTreeMap<String, Array> {
    let file = Path::new(run).join(format!("steps/{step:08}/model.safetensors"));
    let bytes = fs::read(file).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.tensors().into_iter();
    tensors
        .map(|(name, view)| {
            let values = view.data().as_chunks().0.iter();
            let values = values.map(|b| f32::from_le_bytes(*b)).collect();
            let shape = view.shape().to_vec();
            (name, Array { shape, values })
        })
        .collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap()
}

#[test]
fn a_resumed_run_ends_as_one_that_was_not_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for embeddings in ["shared", "disentangled"] {
        let key = format!("task.embeddings={embeddings:?}");
        let whole = train(at, &format!("whole-{embeddings}"), &[&key]);
        let part = train(at, &format!("part-{embeddings}"), &[&key, "train.steps=3"]);
        output(&["resume", &part, "--quiet", "--set", "train.steps=6"]);
        let (ours, theirs) = (weights(&part, 6), weights(&whole, 6));
        assert!(ours == theirs, "{embeddings}");
        assert!(ours != weights(&whole, 3));
    }
}

#[test]
fn a_run_is_evaluated_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let run = train(folder.path(), "run", &["diagnostics.every=3"]);
    let scores = json(&output(&["eval", &run, "--json"]));
    for metric in [
        "mlm_loss",
        "mlm_accuracy",
        "rtd_loss",
        "rtd_accuracy",
        "replaced",
        "f1",
        "mcc",
    ] {
        assert!(scores[metric].is_number(), "{metric}: {scores}");
    }
    assert!(scores["perplexity"].is_null(), "{scores}");
    assert_eq!(scores, json(&output(&["eval", &run, "--json"])));
    let told = json(&output(&["eval", &run, "--confusion", "--json"]));
    assert_eq!(told["classes"], serde_json::json!(["original", "replaced"]));
    let counts = told["confusion"].as_array().unwrap().iter();
    let counts = counts.flat_map(|row| row.as_array().unwrap());
    let tokens: u64 = counts.map(|n| n.as_u64().unwrap()).sum();
    assert!(tokens > 100, "{told}");
    let lines = formwork::train::journal::read(Path::new(&run).join("metrics.jsonl")).unwrap();
    assert!(
        format!("{:?}", lines[0]).contains("rtd_loss"),
        "{:?}",
        lines[0]
    );
    let diagnostics = fs::read_to_string(Path::new(&run).join("diagnostics.jsonl")).unwrap();
    let line = json(diagnostics.lines().next().unwrap());
    for (measure, part) in [
        ("gradient_norm", "generator.blocks.0"),
        ("gradient_norm", "blocks.1"),
        ("activation_rms", "generator.blocks.0"),
        ("attention_entropy", "blocks.1"),
    ] {
        assert!(line[measure][part].is_number(), "{measure} {part}: {line}");
    }
    let text = "there is a red fox and there are two blue owls .";
    let told = json(&output(&["fill", &run, "--text", text, "--json"]));
    let tokens = told["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 12);
    assert_eq!(tokens[3]["token"], "red");
    for token in tokens {
        let share = token["replaced"].as_f64().unwrap();
        assert!(share > 0.0 && share < 1.0);
    }
    // A special token written in the text is one of its tokens.
    let masked = json(&output(&[
        "fill",
        &run,
        "--text",
        "a red [MASK] .",
        "--json",
    ]));
    let tokens = masked["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 4, "{masked}");
    assert!(tokens[2]["id"].is_u64() && tokens[2]["piece"].is_string());
    let (status, said) = failure(&["fill", &run, "--text", text, "--top", "2"]);
    assert!(
        status == 2 && said.contains("--top 2 has no effect"),
        "{said}"
    );

    // As arrays: a row of eight tokens and one of five.
    let path = |name: &str| folder.path().join(name).display().to_string();
    let numbers =
        |values: &[i64]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let inputs = [
        (
            "input_ids",
            numbers(&[5, 6, 7, 8, 9, 10, 11, 12, 5, 6, 7, 8, 9, 0, 0, 0]),
        ),
        (
            "attention_mask",
            numbers(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]),
        ),
        (
            "labels",
            numbers(&[0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, -100, -100, -100]),
        ),
    ];
    let views = inputs.iter().map(|(name, bytes)| {
        let dtype = safetensors::Dtype::I64;
        let view = safetensors::tensor::TensorView::new(dtype, vec![2, 8], bytes).unwrap();
        (*name, view)
    });
    safetensors::serialize_to_file(views, None, Path::new(&path("in.safetensors"))).unwrap();
    let (given, found) = (path("in.safetensors"), path("out.safetensors"));
    output(&[
        "infer",
        &run,
        "--inputs",
        &given,
        "--outputs",
        &found,
        "--gradients",
        "--hidden-states",
    ]);
    let bytes = fs::read(&found).unwrap();
    let found = SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: &str| -> Vec<f32> {
        let view = found.tensor(name).unwrap();
        let values = view.data().as_chunks().0.iter();
        values.map(|b| f32::from_le_bytes(*b)).collect()
    };
    assert_eq!(found.tensor("logits").unwrap().shape(), [2, 8]);
    let labels = [
        0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0,
    ];
    let logits = floats("logits");
    let losses = logits.iter().zip(labels).map(|(x, y)| {
        let x = f64::from(*x);
        x.max(0.0) - x * y + (-x.abs()).exp().ln_1p()
    });
    let loss = losses.sum::<f64>() / 13.0;
    assert!((f64::from(floats("loss")[0]) - loss).abs() < 1e-5);
    assert!(floats("grad.head.product.weight").iter().any(|x| *x != 0.0));
    assert!(found.names().contains(&"hidden_states.2"));
}

/// A classifier that begins from a disentangled run gets the table E + Δ, and the generator is left out; in the reverse case,
/// the table is taken unchanged.
#[test]
fn a_classifier_begins_from_the_discriminator() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: String = (0..24)
        .map(|i| ["a red fox\tone\n", "two blue owls\tmany\n"][i % 2].to_string())
        .collect();
    let table = at.join("rows.tsv");
    fs::write(&table, rows).unwrap();
    let data = format!(
        "data={{ kind = \"labelled_text\", path = {table:?}, valid_fraction = 0.25, context = 16, text = 1, label = 2 }}"
    );
    for embeddings in ["shared", "unshared", "disentangled"] {
        let key = format!("task.embeddings={embeddings:?}");
        let source = train(
            at,
            &format!("source-{embeddings}"),
            &[&key, "train.steps=3"],
        );
        let from = format!("init.from={source:?}");
        let sets = [
            "task={ kind = \"text_classification\" }",
            &data,
            &from,
            "init.checkpoint=\"latest\"",
            "init.new=[\"^head\"]",
            "init.skip=[\"^head\"]",
            "init.freeze=[\"^model\"]",
            "train.steps=3",
        ];
        let tuned = train(at, &format!("tuned-{embeddings}"), &sets);
        let (theirs, ours) = (weights(&source, 3), weights(&tuned, 3));
        assert!(ours.keys().all(|path| !path.starts_with("generator.")));
        let sum: Vec<f32> = match embeddings {
            "disentangled" => {
                let pairs = theirs[DELTA].values.iter().zip(&theirs[E].values);
                assert!(theirs[DELTA].values.iter().any(|x| *x != 0.0));
                pairs.map(|(delta, e)| delta + e).collect()
            }
            _ => theirs[DELTA].values.clone(),
        };
        assert_eq!(ours[DELTA].values, sum, "{embeddings}");
        let path = "model.stack.blocks.0.attention.query.weight";
        assert!(ours[path] == theirs[path]);
        // If the tokenizer has further tokens, the sums come first and the rows of further tokens are initialised.
        let tokens = Tokenizer::load(&Path::new(&source).join("tokenizer.json")).unwrap();
        let more = ["<sea>", "<tide>"].into_iter().map(String::from);
        let longer = at.join("longer.json");
        tokens.with_tokens(more).unwrap().save(&longer).unwrap();
        let longer = format!("tokenizer={{ kind = \"pretrained\", path = {longer:?} }}");
        let sets = [&sets[..], &[longer.as_str()]].concat();
        let tuned = train(at, &format!("longer-{embeddings}"), &sets);
        let table = &weights(&tuned, 3)[DELTA];
        let shape = &theirs[DELTA].shape;
        assert_eq!(table.shape, [shape[0] + 2, shape[1]], "{embeddings}");
        assert_eq!(table.values[..sum.len()], sum, "{embeddings}");
    }
    // A run that begins from one of its own kind takes both summands unchanged.
    let from = format!("init.from={:?}", at.join("source-disentangled"));
    let sets = [
        "task.embeddings=\"disentangled\"",
        &from,
        "init.checkpoint=\"latest\"",
        "init.freeze=[\"embedding\"]",
        "train.steps=3",
    ];
    let again = train(at, "again", &sets);
    let source = at.join("source-disentangled").display().to_string();
    let (theirs, ours) = (weights(&source, 3), weights(&again, 3));
    assert!(ours[DELTA] == theirs[DELTA] && ours[E] == theirs[E]);
}

/// Adapters and layer-wise learning rates cover both networks.
#[test]
fn adapters_and_rates_by_layer_know_the_generator() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = train(at, "lora", &["lora={ rank = 2 }", "train.steps=3"]);
    let adapters = |path: &&String| path.contains(".lora.");
    let found = weights(&run, 3);
    let of = |beginning: &str| {
        let found = found.keys().filter(adapters);
        found.filter(|path| path.starts_with(beginning)).count()
    };
    // Queries and values of two blocks and of one, with two factors each.
    assert_eq!((of("model."), of("generator.")), (8, 4));
    let from = format!("init.from={:?}", train(at, "whole", &["train.steps=3"]));
    train(
        at,
        "decayed",
        &[&from, "init.layer_lr_decay=0.8", "train.steps=3"],
    );
}
