//! Other kinds of runs: the command's outputs against the task's own loss, and against each other.

use super::{Given, Inputs, inferred, run_of, write_tokenizer};
use crate::batches;
use crate::transfer::Arrays;
use burn::module::Module;
use burn::train::InferenceStep;
use formwork::data::Shape;
use formwork::data::batch::{Content, PairBatch, TextBatch};
use formwork::task::Objective;
use formwork::train::parameters;
use std::path::PathBuf;
use tempfile::TempDir;

const REST: &str = "
[optimizer]
kind = \"adamw\"
[schedule]
kind = \"constant\"
[train]
steps = 1
batch_size = 2
";

pub const ALL: [&str; 3] = ["--hidden-states", "--attentions", "--gradients"];

pub struct Run {
    pub folder: PathBuf,
    model: Objective,
    _temporary: TempDir,
}

pub fn run(model: &str, data: &str, task: &str, shape: &Shape) -> Run {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("run");
    let text = format!(
        "name = \"run\"\nseed = 5\n[model]\n{model}\n[data]\n{data}\n[task]\n{task}\n{REST}"
    );
    Run {
        model: run_of(&folder, &text, shape, None),
        folder,
        _temporary: temporary,
    }
}

pub const ROWS: usize = 3;
pub const SOURCE: usize = 6;
const TARGET: usize = 5;
pub const SOURCES: [usize; ROWS] = [6, 3, 4];
pub const VOCAB: i32 = 11;

pub fn ids(cols: usize, from: i32) -> Vec<i32> {
    let count = (ROWS * cols) as i32;
    (0..count).map(|i| (from + i * i + 3 * i) % VOCAB).collect()
}

fn mask() -> Vec<i32> {
    let row = |n: &usize| (0..SOURCE).map(|i| i32::from(i < *n)).collect::<Vec<_>>();
    SOURCES.iter().flat_map(row).collect()
}

/// Decoder targets, some of them not scored.
fn targets() -> Vec<i32> {
    let mut targets = ids(TARGET, 4);
    targets[7] = -100;
    targets
}

pub fn pairs() -> Inputs {
    let matrix = |cols: usize, values: &[i32]| Given::i64(&[ROWS, cols], values);
    Inputs::from([
        ("input_ids".into(), matrix(SOURCE, &ids(SOURCE, 1))),
        ("attention_mask".into(), matrix(SOURCE, &mask())),
        ("decoder_input_ids".into(), matrix(TARGET, &ids(TARGET, 2))),
        ("labels".into(), matrix(TARGET, &targets())),
    ])
}

fn pair_batch() -> PairBatch {
    PairBatch {
        source: ids(SOURCE, 1),
        source_lengths: SOURCES.to_vec(),
        source_cols: SOURCE,
        inputs: ids(TARGET, 2),
        targets: targets(),
        target_lengths: vec![TARGET; ROWS],
        target_cols: TARGET,
    }
}

/// Returns the loss of the task's own evaluation.
pub fn own_loss(run: &Run, content: Content) -> f64 {
    let batch = batches::of(content, ROWS);
    let step = InferenceStep::step(&run.model.valid(), batch.into());
    step.loss.mean()
}

pub fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-5 * b.abs().max(1.0), "{a} is not {b}");
}

/// Checks that each parameter has a gradient of its shape, and that some gradient is not zero.
fn gradients(run: &Run, found: &Arrays) {
    let names: Vec<&str> = found
        .keys()
        .filter_map(|n| n.strip_prefix("grad."))
        .collect();
    let mut parameters = parameters::list(&run.model);
    parameters.sort_by(|a, b| a.path.cmp(&b.path));
    let paths: Vec<&str> = parameters.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(names, paths);
    for parameter in &parameters {
        let gradient = &found[&format!("grad.{}", parameter.path)];
        assert_eq!(gradient.shape, parameter.shape);
        assert!(
            gradient.values.iter().any(|x| *x != 0.0),
            "{}",
            parameter.path
        );
    }
}

fn shapes(found: &Arrays, wanted: &[(&str, &[usize])]) {
    let found: Vec<(&str, &[usize])> = found
        .iter()
        .filter(|(name, _)| !name.starts_with("grad."))
        .map(|(name, array)| (name.as_str(), array.shape.as_slice()))
        .collect();
    assert_eq!(found, wanted);
}

/// Checks that each query's weights sum to one.
fn sums_to_one(found: &Arrays, name: &str) {
    let array = &found[name];
    for row in array.values.chunks(array.shape[3]) {
        let sum: f32 = row.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "{name}: {sum}");
    }
}

#[test]
fn recurrent_language_models() {
    let shape = Shape::of_text(SOURCE, VOCAB as usize);
    let model = "kind = \"recurrent\"\nn_layers = 2\nd_model = 8\ncell = { kind = \"lstm\" }";
    let data = "kind = \"random_tokens\"\nvocab_size = 11\ncontext = 6";
    let run = run(model, data, "kind = \"causal_lm\"", &shape);
    let mut inputs = pairs();
    inputs.retain(|name, _| ["input_ids", "attention_mask"].contains(&&name[..]));
    let (ids, mask) = (ids(SOURCE, 1), mask());
    let tokens = |i: usize| if mask[i] == 1 { ids[i] } else { -100 };
    let labels: Vec<i32> = (0..ids.len()).map(tokens).collect();
    inputs.insert("labels".into(), Given::i64(&[ROWS, SOURCE], &labels));
    let found = inferred(&run.folder, &inputs, &ALL);
    let stream: &[usize] = &[ROWS, SOURCE, 8];
    let wanted: [(&str, &[usize]); 6] = [
        ("hidden_states.0", stream),
        ("hidden_states.1", stream),
        ("hidden_states.2", stream),
        ("last_hidden_state", stream),
        ("logits", &[ROWS, SOURCE, 11]),
        ("loss", &[]),
    ];
    shapes(&found, &wanted);
    assert_eq!(found["hidden_states.2"], found["last_hidden_state"]);
    gradients(&run, &found);
    let next = |row: &[i32]| row[1..].iter().copied().chain([-100]).collect::<Vec<_>>();
    let texts = TextBatch {
        targets: labels.chunks(SOURCE).flat_map(next).collect(),
        inputs: ids,
        lengths: Some(SOURCES.to_vec()),
        cols: SOURCE,
        ..TextBatch::default()
    };
    near(
        f64::from(found["loss"].values[0]),
        own_loss(&run, Content::Text(texts)),
    );
}

#[test]
fn recurrent_encoder_decoders() {
    let shape = Shape::of_text(SOURCE, VOCAB as usize);
    let model = "kind = \"recurrent\"\nn_layers = 2\nd_model = 8\ncell = { kind = \"gru\" }";
    let data = "kind = \"random_pairs\"\nvocab_size = 11\nsource_len = 6\ntarget_len = 5";
    let run = run(model, data, "kind = \"translation\"", &shape);
    let found = inferred(
        &run.folder,
        &pairs(),
        &[&ALL[..], &["--batch-size", "2"]].concat(),
    );
    let (reads, writes): (&[usize], &[usize]) = (&[ROWS, SOURCE, 8], &[ROWS, TARGET, 8]);
    let wanted: [(&str, &[usize]); 11] = [
        ("cross_attentions.0", &[ROWS, 1, TARGET, SOURCE]),
        ("decoder_hidden_states.0", writes),
        ("decoder_hidden_states.1", writes),
        ("decoder_hidden_states.2", writes),
        ("encoder_hidden_states.0", reads),
        ("encoder_hidden_states.1", reads),
        ("encoder_hidden_states.2", reads),
        ("encoder_last_hidden_state", reads),
        ("last_hidden_state", writes),
        ("logits", &[ROWS, TARGET, 11]),
        ("loss", &[]),
    ];
    shapes(&found, &wanted);
    sums_to_one(&found, "cross_attentions.0");
    gradients(&run, &found);
    near(
        f64::from(found["loss"].values[0]),
        own_loss(&run, Content::Pairs(pair_batch())),
    );
}

/// Without decoder ids, a decoder reads the labels behind the begin token, with padding at positions that are not scored.
#[test]
fn decoders_read_labels_shifted_right() {
    let shape = Shape::of_text(SOURCE, VOCAB as usize);
    let model = "kind = \"recurrent\"\nn_layers = 1\nd_model = 8\ncell = { kind = \"gru\" }";
    let data = "kind = \"random_pairs\"\nvocab_size = 11\nsource_len = 6\ntarget_len = 5";
    let run = run(model, data, "kind = \"translation\"", &shape);
    let tokenizer = write_tokenizer(&run.folder);
    let marks = tokenizer.marks().unwrap();
    let (begin, pad) = (marks.begin as i32, marks.pad.unwrap() as i32);
    let read = |row: &[i32]| {
        let before_last = row[..TARGET - 1].iter();
        let shifted = before_last.map(|x| if *x == -100 { pad } else { *x });
        [begin].into_iter().chain(shifted).collect::<Vec<_>>()
    };
    let shifted: Vec<i32> = targets().chunks(TARGET).flat_map(read).collect();
    let mut inputs = pairs();
    inputs.insert(
        "decoder_input_ids".into(),
        Given::i64(&[ROWS, TARGET], &shifted),
    );
    let given = inferred(&run.folder, &inputs, &ALL);
    inputs.remove("decoder_input_ids");
    assert!(inferred(&run.folder, &inputs, &ALL) == given);
}

#[test]
fn decoders_that_translate_alone() {
    let shape = Shape::of_text(SOURCE, VOCAB as usize);
    let model = "kind = \"decoder\"\nn_layers = 2\nd_model = 8\nposition = { kind = \"learned\" }\n\
                 attention = { kind = \"multi_head\", n_heads = 2 }\nfeed_forward = { kind = \"dense\" }";
    let data = "kind = \"random_pairs\"\nvocab_size = 11\nsource_len = 6\ntarget_len = 5";
    for bidirectional in ["false", "true"] {
        let task = format!("kind = \"translation\"\nbidirectional_source = {bidirectional}");
        let run = run(model, data, &task, &shape);
        let found = inferred(&run.folder, &pairs(), &ALL);
        let row = SOURCE + TARGET;
        let (stream, weights): (&[usize], &[usize]) = (&[ROWS, row, 8], &[ROWS, 2, row, row]);
        let wanted: [(&str, &[usize]); 8] = [
            ("attentions.0", weights),
            ("attentions.1", weights),
            ("hidden_states.0", stream),
            ("hidden_states.1", stream),
            ("hidden_states.2", stream),
            ("last_hidden_state", stream),
            ("logits", &[ROWS, TARGET, 11]),
            ("loss", &[]),
        ];
        shapes(&found, &wanted);
        sums_to_one(&found, "attentions.1");
        // Whether the first token of a source sees the second one.
        let sees = found["attentions.0"].values[1] > 0.0;
        assert_eq!(sees, bidirectional == "true");
        near(
            f64::from(found["loss"].values[0]),
            own_loss(&run, Content::Pairs(pair_batch())),
        );
        // Every parameter has a gradient that is not all zeros.
        let unread = found
            .iter()
            .filter(|(n, x)| n.starts_with("grad.") && x.values.iter().all(|x| *x == 0.0));
        assert_eq!(unread.count(), 0);
    }
}

/// Source and target are joined into one row, which must have a position for each of their tokens.
#[test]
fn decoders_that_translate_alone_place_both() {
    let shape = Shape::of_text(4, VOCAB as usize);
    let model = "kind = \"decoder\"\nn_layers = 1\nd_model = 8\nposition = { kind = \"learned\" }";
    let data = "kind = \"random_pairs\"\nvocab_size = 11\nsource_len = 4\ntarget_len = 4";
    let run = run(model, data, "kind = \"translation\"", &shape);
    let folder = tempfile::tempdir().unwrap();
    let given = folder.path().join("in");
    super::write_inputs(&given, &pairs());
    let arguments = super::arguments(&run.folder, &given, &folder.path().join("out"));
    let (status, said) = crate::binary::failure(&arguments);
    assert_eq!(status, 2, "{said}");
    let wanted = "`decoder_input_ids` has rows of 11 tokens, including those of `input_ids`; the model has positions for 8";
    assert!(said.contains(wanted), "{said}");
}
