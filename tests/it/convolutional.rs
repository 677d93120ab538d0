//! The convolutional text encoder: torch's outputs and gradients, padding that changes nothing, a run with its commands, faults
//! reported at their lines.

use crate::batches;
use crate::binary::{failure, output};
use crate::oracle::{Oracle, values};
use crate::transfer::{Against, Arrays, at_tokens, gradients_of, put};
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::data::batch::{Content, TextBatch};
use formwork::interop::weights::Array;
use formwork::model::encoder::EncoderInput;
use formwork::model::{BuildContext, ConvolutionalConfig, ModelConfig, TextModel};
use formwork::nn::pass::Pass;
use formwork::task::{Objective, TaskConfig};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const TOLERANCE: f64 = 1e-5;

fn lengths(oracle: &Oracle) -> Vec<usize> {
    let config: Value = serde_json::from_str(&oracle.config()).unwrap();
    serde_json::from_value(config["lengths"].clone()).unwrap()
}

/// The oracle's network and head, as in a run on texts of three classes.
fn classifier(oracle: &Oracle, device: &Device) -> Objective {
    let config: Value = serde_json::from_str(&oracle.config()).unwrap();
    let (shape, _) = oracle.integers("ids");
    let vocab = oracle.array("weight.embedding.weight").shape[0];
    let shape = Shape {
        classes: ["a", "b", "c"].map(Into::into).to_vec(),
        ..Shape::of_text(shape[1], vocab)
    };
    let model = json!({ "kind": "convolutional", "d_model": config["d_model"], "widths": config["widths"],
        "filters": config["filters"] });
    let model: ModelConfig = serde_json::from_value(model).unwrap();
    let task: TaskConfig =
        serde_json::from_value(json!({ "kind": "text_classification" })).unwrap();
    let inputs = BuildContext {
        shape: &shape,
        seed: 1,
        device,
    };
    let objective = task.init(&model, &inputs, false).unwrap();
    put(
        materialize(name_parameters(objective)),
        &ours(oracle, "weight."),
    )
}

/// The oracle's arrays under Formwork's names: convolution weights `[filters, d, width]` are stored position by position here.
fn ours(oracle: &Oracle, prefix: &str) -> Arrays {
    let arrays = oracle.arrays(|name| name.strip_prefix(prefix));
    let named = arrays.into_iter().map(|(name, array)| {
        let path = match name.starts_with("head.") {
            true => name,
            false => format!("model.{name}"),
        };
        let array = match array.shape[..] {
            [filters, d, width] => {
                let at = |n: usize| {
                    let (filter, token, number) = (n / (width * d), n / d % width, n % d);
                    array.values[(filter * d + number) * width + token]
                };
                Array {
                    shape: vec![filters, width * d],
                    values: (0..filters * width * d).map(at).collect(),
                }
            }
            _ => array,
        };
        (path, array)
    });
    named.collect()
}

#[test]
fn features_scores_loss_and_gradients_are_torchs() {
    let oracle = Oracle::open("convolutional");
    let mut against = Against::new("convolutional", &oracle, TOLERANCE);
    let device = Device::flex().autodiff();
    let objective = classifier(&oracle, &device);
    let (shape, ids) = oracle.integers("ids");
    let (_, labels) = oracle.integers("labels");
    let lengths = lengths(&oracle);
    let texts = TextBatch {
        inputs: ids,
        labels: Some(labels),
        lengths: Some(lengths.clone()),
        cols: shape[1],
        ..TextBatch::default()
    };
    let task = objective.networks().text_classifier.unwrap();
    let input = EncoderInput {
        ids: Tensor::<2, Int>::from_data(
            TensorData::new(texts.inputs.clone(), [shape[0], shape[1]]),
            &device,
        ),
        segments: None,
        lengths: Some(lengths.clone()),
        globals: None,
    };
    let pass = Pass::evaluation();
    let hidden = task.model.forward(input, &pass);
    let pooled = task.model.pooled(hidden.clone(), Some(&lengths));
    against.check("hidden", &at_tokens(values(hidden), &lengths, shape[1]));
    against.check("pooled", &values(pooled));
    against.check("logits", &values(task.scores(&texts, &device, &pass)));
    let batch = batches::of(Content::Text(texts), shape[0]);
    let (loss, gradients) = objective.loss_and_gradients(&batch);
    let theirs = oracle.array("loss").values[0];
    assert!((loss - f64::from(theirs)).abs() < 1e-5, "{loss}, {theirs}");
    let found = gradients_of(&objective, &gradients);
    for (path, theirs) in ours(&oracle, "grad.") {
        let off = crate::oracle::difference(&found[&path].values, &theirs.values);
        assert!(off < TOLERANCE, "{path} is off by {off:e}");
    }
}

#[test]
fn tokens_behind_a_text_change_nothing() {
    let shape = Shape::of_text(9, 11);
    let inputs = BuildContext {
        shape: &shape,
        seed: 4,
        device: &Device::flex(),
    };
    let config: ConvolutionalConfig =
        serde_json::from_value(json!({ "widths": [2, 5], "d_model": 8, "activation": "gelu" }))
            .unwrap();
    let model = TextModel::new(&ModelConfig::Convolutional(config), &inputs).unwrap();
    let vector = |ids: &[i32], length: usize| {
        let data = TensorData::new(ids.to_vec(), [1, ids.len()]);
        let lengths = vec![length];
        let input = EncoderInput {
            ids: Tensor::from_data(data, &Device::flex()),
            segments: None,
            lengths: Some(lengths.clone()),
            globals: None,
        };
        let hidden = model.forward(input, &Pass::evaluation());
        values(model.pooled(hidden, Some(&lengths)))
    };
    let alone = vector(&[3, 1, 4], 3);
    assert_eq!(alone, vector(&[3, 1, 4, 9, 2], 3));
    assert_ne!(alone, vector(&[3, 1, 4, 9, 2], 4));
}

const THEMES: &str = r#"name = "x"
seed = 2
[model]
kind = "convolutional"
d_model = 24
widths = [1, 2]
filters = 16
[data]
kind = "themes"
valid_items = 200
[task]
kind = "multi_label_classification"
dropout = 0.1
[optimizer]
kind = "adamw"
lr = 5e-3
[schedule]
kind = "constant"
[train]
steps = 500
batch_size = 32
eval_every = 500
"#;

#[test]
fn themes_are_learned_and_vectors_are_the_largest_features() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("x.toml"), THEMES).unwrap();
    let run = at("run");
    output(&["train", &at("x.toml"), "--quiet", "--run", &run]);
    let scores: Value = serde_json::from_str(&output(&["eval", &run, "--json"])).unwrap();
    let f1 = scores["micro_f1"].as_f64();
    assert!(f1.is_some_and(|f1| f1 > 0.9), "{scores}");
    let text = "the otter near the harbour with a tide and a heron";
    let told = output(&["classify", &run, "--text", text]);
    assert!(told.contains("animals") && told.contains("sea"), "{told}");

    fs::write(at("texts.txt"), format!("{text}\n")).unwrap();
    let vectors = |pool: &str| -> Vec<Vec<f64>> {
        let out = at("vectors.jsonl");
        output(&[
            "encode",
            &run,
            &at("texts.txt"),
            "--pool",
            pool,
            "--out",
            &out,
        ]);
        let lines = fs::read_to_string(&out).unwrap();
        fs::remove_file(&out).unwrap();
        let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        numbers(&line)
    };
    let (each, largest) = (vectors("none"), vectors("max"));
    let width = largest[0].len();
    assert_eq!(width, 32);
    let most = |n: usize| each.iter().map(|v| v[n]).fold(f64::MIN, f64::max);
    assert_eq!(largest[0], (0..width).map(most).collect::<Vec<_>>());
}

/// Returns the vectors of an output line, whether it has one or one for each position.
fn numbers(line: &Value) -> Vec<Vec<f64>> {
    let object = line.as_object().unwrap();
    let arrays = object.values().find(|value| value.is_array()).unwrap();
    match arrays[0].is_array() {
        true => serde_json::from_value(arrays.clone()).unwrap(),
        false => vec![serde_json::from_value(arrays.clone()).unwrap()],
    }
}

fn says(folder: &Path, from: &str, to: &str, wanted: &str) {
    assert!(THEMES.contains(from), "{from}");
    let file = folder.join("x.toml");
    fs::write(&file, THEMES.replacen(from, to, 1)).unwrap();
    let (status, message) = failure(&["check", &file.display().to_string()]);
    assert_eq!(status, 2, "{message}");
    assert!(message.contains(wanted), "{message}");
}

#[test]
fn faults_stand_at_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let task = "kind = \"multi_label_classification\"";
    says(
        folder,
        "widths = [1, 2]",
        "widths = [0]",
        "x.toml:6: [model] widths contains 0, which is not between 1 and 1024",
    );
    says(folder, "widths = [1, 2]", "widths = []", "x.toml:6: ");
    says(folder, "filters = 16", "filters = 0", "x.toml:7: ");
    says(folder, "filters = 16", "filter = 16", "`filters`");
    says(
        folder,
        task,
        &format!("{task}\npooling = \"first\""),
        "remove it for \"max\"",
    );
    let dropped = format!("{task}\ndropout = 0.1");
    says(
        folder,
        &dropped,
        "kind = \"causal_lm\"",
        "\"convolutional\"",
    );
}
