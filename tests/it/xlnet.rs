//! XLNet: a token order against transformers' class (`tests/goldens/make_xlnet.py`), where segments and orders are allowed, and
//! runs from training to a classifier.

use crate::binary::{output, shipped};
use crate::diagnostics::{judged, says};
use crate::goldens_encoders;
use crate::oracle::{Oracle, difference, values};
use crate::transfer::{Against, gradients_of, opened};
use burn::optim::GradientsParams;
use formwork::interop::read_hf;
use formwork::nn::pass::Pass;
use formwork::task::permuted_lm::order::FactorizationOrder;
use safetensors::tensor::SafeTensors;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Largest difference, relative to the largest value of the oracle's tensor.
const TOLERANCE: f64 = 1e-5;

/// Logits, loss and gradients for a given order, on texts with segments and padding.
#[test]
fn an_order_has_the_losses_and_gradients_of_transformers() {
    let oracle = Oracle::open("xlnet_order");
    let hf = read_hf(&shipped("tests/fixtures/hf/xlnet_1"), &[]).unwrap();
    let task = opened(&hf);
    let network = task.networks().permuted_lm.unwrap();
    let texts = goldens_encoders::texts(&oracle);
    let (_, ranks) = oracle.integers("ranks");
    let ranks = ranks.into_iter().map(|rank| rank as u32).collect();
    let order = FactorizationOrder::new(ranks, texts.cols);
    let mut against = Against::new("xlnet_order", &oracle, TOLERANCE);
    let places: Vec<i32> = (0..texts.targets.len() as i32)
        .filter(|place| texts.targets[*place as usize] >= 0)
        .collect();
    let scores = network.scores(&texts, &places, &order);
    against.check("logits", &values(scores));
    let loss = network.loss(&texts, &order, &Pass::evaluation(), None).sum / places.len() as f64;
    against.check("loss", &values(loss.clone()));
    let gradients = GradientsParams::from_grads(loss.backward(), &task);
    against.check_gradients(&gradients_of(&task, &gradients), &hf.table());
}

/// If all tokens are in one segment, the segment term is the same for all keys, and attention weights do not change.
#[test]
fn one_segment_is_as_none() {
    let oracle = Oracle::open("xlnet_order");
    let hf = read_hf(&shipped("tests/fixtures/hf/xlnet_1"), &[]).unwrap();
    let task = opened(&hf);
    let network = task.networks().permuted_lm.unwrap();
    let mut texts = goldens_encoders::texts(&oracle);
    let scores = |texts: &_| values(network.scores_at(texts, &[1, 14, 25]));
    let told = scores(&texts);
    texts.segments = None;
    let without = scores(&texts);
    texts.segments = Some(vec![1; texts.inputs.len()]);
    assert!(difference(&scores(&texts), &without) < 1e-5);
    assert!(difference(&told, &without) > 1e-2);
}

const EXPERIMENT: &str = r#"
name = "xlnet"
seed = 3
[model]
kind = "encoder"
n_layers = 2
d_model = 16
norm_placement = "post"
segments = 0
pooler = true
pooler_input = "last"
head_transform = false
position = { kind = "transformer_xl", untie_r = true, segments = 3 }
attention = { kind = "multi_head", n_heads = 2, bias = false }
dropout = 0.1
[data]
kind = "grammar"
documents = 40
valid_items = 4
[task]
kind = "permuted_lm"
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
    let file = folder.join("xlnet.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    let [file, run] = [file, folder.join(run)].map(|path| path.display().to_string());
    let mut arguments = vec!["train", &file, "--quiet", "--run", &run];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
    run
}

/// Reads the bytes of a step's weights.
fn weights(run: &str, step: u64) -> Vec<u8> {
    fs::read(Path::new(run).join(format!("steps/{step:08}/model.safetensors"))).unwrap()
}

/// Reads the values of one parameter.
fn parameter(bytes: &[u8], path: &str) -> Vec<u8> {
    let file = SafeTensors::deserialize(bytes).unwrap();
    file.tensor(path).unwrap().data().to_vec()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap()
}

#[test]
fn a_run_is_resumed_evaluated_and_fills_masks() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let whole = train(at, "whole", &[]);
    let part = train(at, "part", &["train.steps=3"]);
    output(&["resume", &part, "--quiet", "--set", "train.steps=6"]);
    assert!(weights(&part, 6) == weights(&whole, 6));
    let scores = json(&output(&["eval", &whole, "--json"]));
    // The token stream is read in two places, whose gradients are added in another order.
    let recomputed = train(at, "recomputed", &["train.recompute=true"]);
    let recomputed = json(&output(&["eval", &recomputed, "--json"]));
    let [ours, theirs] = [&recomputed, &scores].map(|scores| scores["loss"].as_f64().unwrap());
    assert!((ours / theirs - 1.0).abs() < 1e-3, "{ours} {theirs}");
    assert!(scores["plm_accuracy"].is_number(), "{scores}");
    assert!(scores["perplexity"].is_number(), "{scores}");
    assert_eq!(scores, json(&output(&["eval", &whole, "--json"])));
    let text = "there is a red [MASK] and there are two [MASK] owls .";
    let filled = json(&output(&["fill", &whole, "--text", text, "--json"]));
    assert_eq!(filled["masks"].as_array().unwrap().len(), 2, "{filled}");
    // Two segments, of which the task predicts nothing.
    let pairs = train(
        at,
        "pairs",
        &["task.pairs=\"next_sentence\"", "train.steps=3"],
    );
    let scores = json(&output(&["eval", &pairs, "--json"]));
    assert!(scores["nsp_accuracy"].is_null(), "{scores}");
}

/// A classifier frames texts as the run that it begins from, and reads the last token; the query stream is dropped.
#[test]
fn a_classifier_begins_from_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let source = train(at, "source", &["train.steps=3"]);
    let rows: String = (0..24)
        .map(|i| ["a red fox\tone\n", "two blue owls\tmany\n"][i % 2])
        .collect();
    let table = at.join("rows.tsv");
    fs::write(&table, rows).unwrap();
    let data = format!(
        "data={{ kind = \"labelled_text\", path = {table:?}, valid_fraction = 0.25, context = 16, text = 1, label = 2 }}"
    );
    let from = format!("init.from={source:?}");
    let tuned = train(
        at,
        "tuned",
        &[
            "task={ kind = \"text_classification\" }",
            &data,
            &from,
            "init.checkpoint=\"latest\"",
            "init.new=[\"^head\", \"^model.pooler\"]",
            "init.skip=[\"^head\", \"^query\"]",
            "init.freeze=[\"^model.stack\"]",
            "train.steps=3",
        ],
    );
    let path = "model.stack.blocks.0.attention.query.weight";
    let [theirs, ours] = [&source, &tuned].map(|run| parameter(&weights(run, 3), path));
    assert!(ours == theirs);
    let saved = fs::read_to_string(Path::new(&tuned).join("tokenizer.json")).unwrap();
    let template = &json(&saved)["post_processor"]["single"];
    let kinds: Vec<&Value> = template.as_array().unwrap().iter().collect();
    assert_eq!(kinds.len(), 3, "{template}");
    assert!(kinds[0]["Sequence"].is_object(), "{template}");
    assert_eq!(kinds[2]["SpecialToken"]["type_id"], 2, "{template}");
    let told = output(&["classify", &tuned, "--text", "a red fox"]);
    assert!(told.contains("one") || told.contains("many"), "{told}");
}

/// An experiment with these keys of the model, and this task.
fn text(model: &str, task: &str) -> String {
    format!(
        "name = \"x\"\n[model]\nkind = \"encoder\"\nd_model = 16\n{model}\n[task]\n{task}\n[data]\nkind = \"grammar\"\n\
         [optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 1\n"
    )
}

#[test]
fn orders_and_segments_stand_where_they_can() {
    let order = "kind = \"permuted_lm\"";
    let told = "position = { kind = \"transformer_xl\", segments = 3 }";
    judged(&text(told, order), &[]).unwrap();
    judged(&text("position = { kind = \"learned\" }", order), &[]).unwrap();
    for (model, task, rule) in [
        (
            "attention = { kind = \"sliding_window\", window = 2 }",
            order,
            "hides keys according to a random order, but attention of kind = \"sliding_window\" chooses its own keys",
        ),
        (
            "mask_decoder = {}",
            order,
            "mask_decoder cannot be combined with the query stream of [task] kind = \"permuted_lm\"; remove it",
        ),
        (
            told,
            "kind = \"permuted_lm\"\nshare = 1.0",
            "share = 1 must be above 0 and below 1",
        ),
        (
            told,
            "kind = \"permuted_lm\"\npairs = \"sentence_order\"",
            "pairs = \"sentence_order\" needs a task that predicts the order",
        ),
        (
            "position = { kind = \"transformer_xl\", segments = 1 }",
            order,
            "segments = 1 must be 0 or from 2 to 8",
        ),
        (
            "pooler_input = \"last\"",
            order,
            "pooler_input = \"last\" has no effect without a pooler; set pooler = true or remove it",
        ),
    ] {
        says(&text(model, task), rule);
    }
    let decoder = text(told, "kind = \"causal_lm\"").replace("\"encoder\"", "\"decoder\"");
    says(
        &decoder,
        "segments = 3 has no effect: a stack that reads from left to right has no segments",
    );
}
