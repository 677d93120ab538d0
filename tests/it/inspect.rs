//! Measurements of `inspect`, against brute force over single passes and against closed forms; evaluation by sliding windows,
//! against one pass for each token.

mod command;
mod goldens;
pub mod looked;
mod parts;
mod pictures;
mod registers;
mod stages;
mod windows;

use crate::contracts::ids;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::inspect::attention::by_head;
use formwork::inspect::context::by_position;
use formwork::inspect::effective_context::losses;
use formwork::inspect::{Reader, Window};
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel, RecurrentModelConfig};
use formwork::nn::pass::Pass;
use formwork::nn::position::alibi::slopes;

const VOCAB: usize = 17;

fn inputs<T>(build: impl FnOnce(&BuildContext) -> T) -> T {
    build(&BuildContext {
        shape: &Shape::of_text(64, VOCAB),
        seed: 5,
        device: &Device::flex(),
    })
}

fn decoder(keys: &str) -> Decoder {
    let config: DecoderConfig = toml::from_str(keys).unwrap();
    inputs(|inputs| config.init(inputs))
}

fn tokens(from: usize, count: usize) -> Vec<i32> {
    let token = |i: usize| ((i * i * 7 + i / 3) % VOCAB) as i32;
    (from..from + count).map(token).collect()
}

fn texts(count: usize, length: usize) -> Vec<Window> {
    let text = |number| Window {
        tokens: tokens(31 * number, length + 1),
        documents: None,
    };
    (0..count).map(text).collect()
}

fn reader(network: &dyn LanguageModel, segment: usize, carries: bool) -> Reader<'_> {
    Reader {
        network,
        segment,
        carries_state: carries,
        rows: 2,
    }
}

/// Returns −log softmax at `next` of the logits after `read`, in 64 bits.
fn loss(network: &dyn LanguageModel, read: &[i32], next: i32) -> f64 {
    let hidden = network.forward(DecoderInput::new(ids(read, 1)), None, &Pass::evaluation());
    let logits = crate::oracle::values(network.logits(hidden));
    let last = &logits[logits.len() - VOCAB..];
    let sum: f64 = last.iter().map(|x| f64::from(*x).exp()).sum();
    sum.ln() - f64::from(last[next as usize])
}

fn close(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() < 2e-5, "{what}: {a} against {b}");
}

#[test]
fn losses_by_position_are_those_of_single_passes() {
    let model = decoder("n_layers = 2\nd_model = 16\nposition = { kind = \"rotary\" }");
    let windows = texts(5, 12);
    let found = by_position(&reader(&model, 12, false), &windows);
    let bounds: Vec<_> = found.iter().map(|b| (b.from, b.to)).collect();
    assert_eq!(
        bounds,
        [
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 4),
            (5, 6),
            (7, 8),
            (9, 11),
            (12, 12)
        ]
    );
    for bucket in found {
        let all: Vec<f64> = (bucket.from..=bucket.to)
            .flat_map(|n| windows.iter().map(move |w| (n, w)))
            .map(|(n, w)| loss(&model, &w.tokens[..n], w.tokens[n]))
            .collect();
        assert_eq!(bucket.tokens, all.len());
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        close(bucket.loss, mean, &format!("{bucket:?}"));
    }
}

/// A document that begins inside a window restarts its positions, and its first token is not scored.
#[test]
fn positions_are_counted_in_documents() {
    let model = decoder("n_layers = 1\nd_model = 16\nposition = { kind = \"rotary\" }");
    let mut window = texts(1, 6).remove(0);
    window.documents = Some(vec![0, 0, 0, 0, 1, 1]);
    let found = by_position(&reader(&model, 6, false), std::slice::from_ref(&window));
    let counts: Vec<usize> = found.iter().map(|b| b.tokens).collect();
    assert_eq!(counts, [2, 2, 1, 0, 0]);
    let second = loss(&model, &window.tokens[4..6], window.tokens[6]);
    let first = loss(&model, &window.tokens[..2], window.tokens[2]);
    close(found[1].loss, (first + second) / 2.0, "position 2");
}

#[test]
fn a_state_that_is_carried_gives_what_one_pass_gives() {
    let keys = "n_layers = 1\nd_model = 10\ncell = { kind = \"lstm\" }";
    let config: RecurrentModelConfig = toml::from_str(keys).unwrap();
    let model = inputs(|inputs| config.language_model(inputs));
    let windows = texts(3, 11);
    let whole = reader(&model, 11, false).losses(&windows, 11, 11);
    let parts = reader(&model, 4, true).losses(&windows, 11, 11);
    for (whole, parts) in whole.iter().flatten().zip(parts.iter().flatten()) {
        close(*parts, *whole, "in segments of 4");
    }
    assert_eq!(parts.len(), 3);
    let last = reader(&model, 4, true).losses(&windows, 7, 2);
    assert_eq!(last[0].len(), 2);
    let brute = loss(&model, &windows[0].tokens[4..11], windows[0].tokens[11]);
    close(last[0][1], brute, "of the last 7 tokens");
}

/// A memory that holds everything gives the result of a single pass.
#[test]
fn a_memory_gives_what_one_pass_gives() {
    let keys = "n_layers = 2\nd_model = 16\nposition = { kind = \"rotary\" }\n";
    let attention =
        |memory| format!("attention = {{ kind = \"multi_head\", n_heads = 2, memory = {memory} }}");
    let model = decoder(&format!("{keys}{}", attention(12)));
    let windows = texts(3, 12);
    let whole = reader(&model, 12, false).losses(&windows, 12, 12);
    let parts = reader(&model, 4, true).losses(&windows, 12, 12);
    for (whole, parts) in whole.iter().flatten().zip(parts.iter().flatten()) {
        close(*parts, *whole, "in segments of 4");
    }
}

/// Weights of linear biases over a memory: a query of the last segment sees all keys of the memory before its own.
#[test]
fn weights_on_a_memory_have_a_closed_form() {
    let attention = "attention = { kind = \"multi_head\", n_heads = 2, scale = 1e-30, memory = 6 }";
    let keys = "n_layers = 2\nd_model = 16\nposition = { kind = \"alibi\", max_exponent = 1.0 }\n";
    let model = decoder(&format!("{keys}{attention}"));
    for head in by_head(&reader(&model, 4, true), &texts(2, 12)) {
        let slope = slopes(2, 1.0)[head.head];
        let weights = |query: usize| -> Vec<f64> {
            let all: Vec<f64> = (0..=6 + query).map(|d| (-slope * d as f64).exp()).collect();
            let sum: f64 = all.iter().sum();
            all.iter().map(|weight| weight / sum).collect()
        };
        assert_eq!(head.by_distance.len(), 10);
        let last = weights(3);
        close(head.by_distance[9], last[9], "the furthest key");
        let of_memory = |query: usize| weights(query)[query + 1..].to_vec();
        let memory = head.memory.unwrap();
        let weight: f64 = (0..4).map(|q| of_memory(q).iter().sum::<f64>()).sum();
        close(memory.weight, weight / 4.0, "weight on the memory");
        let high = (0..4).flat_map(|q| {
            of_memory(q)
                .into_iter()
                .map(move |w| w > 2.0 / (7 + q) as f64)
        });
        let high = high.filter(|high| *high).count();
        close(
            memory.high,
            high as f64 / 24.0,
            "share of high keys of the memory",
        );
    }
}

/// With one layer that sees 4 keys, a context beyond 4 changes nothing.
#[test]
fn a_window_bounds_the_effective_context() {
    let window = "attention = { kind = \"sliding_window\", n_heads = 2, window = 4 }";
    let keys = "n_layers = 1\nd_model = 16\nposition = { kind = \"rotary\" }\n";
    let (near, far) = (decoder(&format!("{keys}{window}")), decoder(keys));
    let windows = texts(6, 12);
    let group = [reader(&near, 12, false), reader(&far, 12, false)];
    let found = losses(&group, &windows, 2);
    assert_eq!(found.contexts, [2, 4, 6, 8, 10, 12]);
    for (model, network) in [&near, &far].into_iter().enumerate() {
        for (number, context) in found.contexts.iter().enumerate() {
            for (token, window) in windows.iter().enumerate() {
                let read = &window.tokens[12 - context..12];
                let brute = loss(network, read, window.tokens[12]);
                close(found.values[model][number][token], brute, "a context");
            }
        }
    }
    let bounded = found.effective(0, 1.0, 1e-4);
    assert!(bounded.length <= 4 && !bounded.at_least, "{bounded:?}");
    assert!(bounded.gains[2..].iter().all(|gain| *gain < 1e-4));
    // A model that reads no more than its window gains nothing from longer contexts.
    let short = losses(&[reader(&far, 6, false)], &windows, 2);
    assert_eq!(short.values[0][2], short.values[0][5]);
    assert_ne!(short.values[0][1], short.values[0][2]);
}

/// If scores are only −slope·distance, the weight at distance d of a query with n keys is e^(−s·d) / Σ e^(−s·e), e < n.
#[test]
fn linear_biases_alone_have_a_closed_form() {
    let attention = "attention = { kind = \"multi_head\", n_heads = 2, scale = 1e-30 }";
    let keys = "n_layers = 2\nd_model = 16\nposition = { kind = \"alibi\" }\n";
    let model = decoder(&format!("{keys}{attention}"));
    let length = 10;
    let found = by_head(&reader(&model, length, false), &texts(3, length));
    assert_eq!(found.len(), 4);
    for head in found {
        let slope = slopes(2, 8.0)[head.head];
        let at = |d: usize| (-slope * d as f64).exp();
        let sums: Vec<f64> = (1..=length).map(|n| (0..n).map(at).sum()).collect();
        let (mut distance, mut high) = (0.0, 0);
        for d in 0..length {
            let each = sums[d..].iter().map(|sum| at(d) / sum);
            let weights: Vec<f64> = each.collect();
            let mean = weights.iter().sum::<f64>() / weights.len() as f64;
            close(head.by_distance[d], mean, &format!("{head:?} at {d}"));
            distance += d as f64 * weights.iter().sum::<f64>() / length as f64;
            let keys = d + 1..=length;
            high += keys
                .zip(&weights)
                .filter(|(n, w)| **w > 2.0 / *n as f64)
                .count();
        }
        close(head.distance, distance, "mean distance");
        close(head.high, high as f64 / 55.0, "share of high weights");
        assert!(head.memory.is_none());
    }
}
