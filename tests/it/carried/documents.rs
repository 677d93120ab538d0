//! State carried over windows in which documents begin and end: every document is read as if it stood alone.

use super::accumulate;
use burn::module::Module;
use burn::tensor::Device;
use formwork::data::loader::{Order, step_batches};
use formwork::data::text::ids::InMemoryIds;
use formwork::data::text::windows::{Layout, TextSource};
use formwork::data::{self, Shape};
use formwork::model::{AnyLanguageModel, BuildContext, ModelConfig};
use formwork::nn::recurrent::{self, mixer};
use formwork::task::{CausalLm, CausalLmConfig, Objective, TrainableModel};
use formwork::train::evaluation::{Split, evaluate};
use formwork::train::gradients::accumulate_from;
use std::sync::Arc;

const VOCAB: usize = 11;
const CONTEXT: usize = 6;
/// Documents that end inside a window and at the end of one, one that spans several windows, two in one window.
const STARTS: [usize; 6] = [0, 4, 12, 22, 24, 25];
const WINDOWS: usize = 5;

fn ids() -> Vec<i32> {
    (0..=(WINDOWS * CONTEXT) as i32)
        .map(|i| (i * i + 3 * i) % VOCAB as i32)
        .collect()
}

fn source(ids: Vec<i32>, starts: Vec<usize>, context: usize, blocked: bool) -> TextSource {
    let tokens = Arc::new(InMemoryIds { ids, starts });
    TextSource::new(tokens, context, Layout::Whole, blocked, data::Split::Train)
}

/// Decoders with a memory of earlier segments.
const REMEMBERING: [&str; 2] = [
    "kind = \"decoder\"\nn_layers = 2\nd_model = 8\nposition = { kind = \"alibi\" }\ninit = { kind = \"xavier\" }\nattention = { kind = \
     \"multi_head\", n_heads = 2, memory = 40 }",
    "kind = \"decoder\"\nd_model = 8\nposition = { kind = \"rotary\" }\ninit = { kind = \"xavier\" }\n[[layers]]\nattention = { kind = \
     \"multi_head\", n_heads = 2, memory = 40 }\n[[layers]]\nmixer = { kind = \"gru\" }",
];

/// Recurrent networks of every cell, decoders with a recurrent cell in place of attention, and decoders with memory.
fn networks() -> Vec<(String, Objective<CausalLm>)> {
    let mut texts = REMEMBERING.map(String::from).to_vec();
    for kind in recurrent::KINDS {
        let kind = kind.kind;
        texts.push(format!(
            "kind = \"recurrent\"\nn_layers = 2\nd_model = 8\ncell = {{ kind = \"{kind}\" }}\ninit = {{ kind = \"truncated_normal\", std = 0.5 }}"
        ));
    }
    for kind in mixer::KINDS.iter().filter(|kind| kind.kind != "fourier") {
        let kind = kind.kind;
        let feed_forward = match kind {
            "rwkv" | "rwkv7" => kind,
            _ => "dense",
        };
        texts.push(format!(
            "kind = \"decoder\"\nd_model = 8\nposition = {{ kind = \"none\" }}\ninit = {{ kind = \"xavier\" }}\n[[layers]]\nrepeat = 2\nmixer = {{ \
             kind = \"{kind}\" }}\nfeed_forward = {{ kind = \"{feed_forward}\" }}"
        ));
    }
    let each = texts.into_iter().map(|text| {
        let model: ModelConfig = toml::from_str(&text).unwrap();
        let inputs = BuildContext {
            shape: &Shape::of_text(CONTEXT, VOCAB),
            seed: 3,
            device: &Device::flex().autodiff(),
        };
        let network = AnyLanguageModel::new(&model, &inputs).unwrap();
        let task = CausalLm::new(network, &CausalLmConfig::default(), 1, false);
        (text, Objective(task))
    });
    each.collect()
}

/// Returns the summed loss of the documents, each alone in one window.
fn alone(task: &Objective<CausalLm>) -> f64 {
    let ids = ids();
    let ends = STARTS[1..].iter().copied().chain([ids.len()]);
    let documents = STARTS.iter().zip(ends).filter(|(from, to)| to - **from > 1);
    let losses = documents.map(|(from, to)| {
        let one = source(ids[*from..to].to_vec(), vec![0], to - from - 1, false);
        let batches = step_batches(&one, &mut Order::lanes(1), 1, 0).unwrap();
        accumulate(task, batches).output.loss.sum
    });
    losses.sum()
}

/// Returns the summed loss of the windows in order, with the state carried or not.
fn in_windows(task: &Objective<CausalLm>, carried: bool) -> f64 {
    let source = source(ids(), STARTS.to_vec(), CONTEXT, true);
    let mut state = task.empty_state();
    let mut sum = 0.0;
    for step in 0..WINDOWS as u64 {
        let batches = step_batches(&source, &mut Order::lanes(1), 1, step).unwrap();
        let gradient = accumulate_from(task, batches, state.as_ref());
        sum += gradient.output.loss.sum;
        state = match carried {
            true => gradient.output.state,
            false => task.empty_state(),
        };
    }
    sum
}

#[test]
fn documents_in_windows_are_documents_alone() {
    for (name, task) in networks() {
        let wanted = alone(&task);
        let found = in_windows(&task, true);
        assert!(
            (found / wanted - 1.0).abs() < 1e-6,
            "{name}: {found} {wanted}"
        );
        let without = in_windows(&task, false);
        assert!(
            (without / wanted - 1.0).abs() > 1e-5,
            "{name}: {without} {wanted}"
        );
        // An evaluation gives the same loss.
        let split = Split {
            source: Arc::new(source(ids(), STARTS.to_vec(), CONTEXT, true)),
            bytes_per_token: None,
            carries_state: true,
            groups: 1,
            contrasts_rows: false,
        };
        let scored = WINDOWS * CONTEXT + 1 - STARTS.len();
        let mean = evaluate(&task.valid(), &split, 1).unwrap().loss;
        assert!((mean * scored as f64 / wanted - 1.0).abs() < 1e-6, "{name}");
    }
}
