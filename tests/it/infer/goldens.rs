//! All outputs of the command for a tiny Llama, BERT, T5 and ViT against transformers (`tests/goldens/make_infer.py` makes the
//! oracles): logits, hidden states, attention weights, losses, gradients.

use super::{Given, Inputs, golden, golden_inputs, inferred, run_of};
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference};
use crate::transfer::{Arrays, at_tokens, lengths};
use formwork::interop::weights::Array;
use std::path::PathBuf;
use tempfile::TempDir;

const ALL: [&str; 3] = ["--hidden-states", "--attentions", "--gradients"];

/// A golden as a run.
struct Golden {
    oracle: Oracle,
    inputs: Inputs,
    run: PathBuf,
    _folder: TempDir,
}

fn open(name: &str) -> Golden {
    let oracle = Oracle::open(name);
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let (experiment, shape) = golden(&oracle);
    let weights = oracle.arrays(|name| name.strip_prefix("weight."));
    run_of(&run, &experiment, &shape, Some(&weights));
    Golden {
        inputs: golden_inputs(&oracle),
        oracle,
        run,
        _folder: folder,
    }
}

/// Returns an array with zeros at padding, as in the oracle.
fn without_padding(golden: &Golden, name: &str, array: &Array) -> Vec<f32> {
    let values = array.values.clone();
    let reads = name.starts_with("encoder_") || !golden.inputs.contains_key("decoder_input_ids");
    let mask = match reads {
        true => "attention_mask",
        false => "decoder_attention_mask",
    };
    if !golden.inputs.contains_key(mask) || name.starts_with("grad.") {
        return values;
    }
    let lengths = lengths(&golden.oracle, mask);
    match array.shape[..] {
        [_, positions, _] => at_tokens(values, &lengths, positions),
        [_, heads, queries, _] => {
            let each = lengths.iter().flat_map(|n| vec![*n; heads]);
            at_tokens(values, &each.collect::<Vec<_>>(), queries)
        }
        _ => values,
    }
}

/// Compares the command's outputs with the oracle's; both must have the same names except for those left out.
fn check(golden: &Golden, found: &Arrays, left_out: impl Fn(&str) -> bool) {
    let wanted = golden.oracle.arrays(|name| name.strip_prefix("expected."));
    let names: Vec<&String> = wanted.keys().filter(|name| !left_out(name)).collect();
    assert_eq!(found.keys().collect::<Vec<_>>(), names);
    let mut worst = (0.0, "");
    for (name, array) in found {
        assert_eq!(array.shape, wanted[name].shape, "{name}");
        let ours = without_padding(golden, name, array);
        let off = difference(&ours, &wanted[name].values);
        assert!(off < TOLERANCE, "{name} is off by {off:e}");
        if off > worst.0 {
            worst = (off, name);
        }
    }
    println!("{:.1e} at {}", worst.0, worst.1);
}

/// Checks all outputs at once, in batches of two and of one row, then with each flag alone.
fn hold(name: &str) {
    let golden = open(name);
    let all = inferred(
        &golden.run,
        &golden.inputs,
        &[&ALL[..], &["--batch-size", "2"]].concat(),
    );
    check(&golden, &all, |_| false);
    let plain = inferred(&golden.run, &golden.inputs, &[]);
    let hidden = |name: &str| name.contains("hidden_states.");
    let attention = |name: &str| name.contains("attentions.");
    let gradient = |name: &str| name.starts_with("grad.");
    check(&golden, &plain, |name| {
        hidden(name) || attention(name) || gradient(name)
    });
    let one = inferred(&golden.run, &golden.inputs, &["--hidden-states"]);
    check(&golden, &one, |name| attention(name) || gradient(name));
    let one = inferred(&golden.run, &golden.inputs, &["--attentions"]);
    check(&golden, &one, |name| hidden(name) || gradient(name));
    // Recording attention weights does not change the pass, bit for bit.
    assert_eq!(one["logits"].values, plain["logits"].values);
}

#[test]
fn a_decoder_is_transformers() {
    hold("infer_decoder");
}

#[test]
fn an_encoder_is_transformers() {
    hold("infer_encoder");
}

#[test]
fn an_encoder_decoder_is_transformers() {
    hold("infer_encoder_decoder");
}

#[test]
fn a_vision_transformer_is_transformers() {
    hold("infer_vision");
}

/// 32-bit integers are read like 64-bit ones; a mask of only ones changes nothing; labels only add a loss.
#[test]
fn formats_and_absent_arrays() {
    let golden = open("infer_decoder");
    let (shape, ids) = golden.oracle.integers("input_ids");
    let ones = vec![1; ids.len()];
    let mut inputs = Inputs::from([("input_ids".to_string(), Given::i32(&shape, &ids))]);
    let bare = inferred(&golden.run, &inputs, &[]);
    assert!(bare.keys().eq(["last_hidden_state", "logits"]));
    inputs.insert("attention_mask".into(), Given::i32(&shape, &ones));
    inputs.insert("labels".into(), Given::i64(&shape, &ids));
    let mut more = inferred(&golden.run, &inputs, &[]);
    assert!(more.remove("loss").unwrap().values[0] > 0.0);
    assert!(more == bare);
}

/// A parameter that the loss does not depend on has a gradient of zeros: the pooler, if pairs have no labels.
#[test]
fn what_the_loss_does_not_depend_on_has_zeros() {
    let mut golden = open("infer_encoder");
    golden.inputs.remove("next_sentence_label");
    let found = inferred(&golden.run, &golden.inputs, &["--gradients"]);
    let zeros: Vec<&str> = found
        .iter()
        .filter(|(name, array)| name.starts_with("grad.") && array.values.iter().all(|x| *x == 0.0))
        .map(|(name, _)| name.as_str())
        .collect();
    let untouched = [
        "pair_head.bias",
        "pair_head.weight",
        "model.pooler.bias",
        "model.pooler.weight",
    ];
    let mut untouched = untouched.map(|path| format!("grad.{path}"));
    untouched.sort();
    assert_eq!(zeros, untouched);
}

/// Frozen parameters have the gradients that they would have in training.
#[test]
fn frozen_parameters_have_gradients() {
    let golden = open("infer_decoder");
    let file = golden.run.join("resolved.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\n[init]\nfreeze = [\"embedding\"]\n")).unwrap();
    let found = inferred(&golden.run, &golden.inputs, &ALL);
    check(&golden, &found, |_| false);
}
