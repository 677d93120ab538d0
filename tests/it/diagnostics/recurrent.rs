//! Messages about keys that recurrent cells do not support.

use super::{judged, says};
use formwork::nn::recurrent;

/// An experiment with this model, task and data.
fn text(model: &str, task: &str, data: &str) -> String {
    format!(
        "name = \"x\"\n[model]\n{model}\n[task]\n{task}\n[data]\n{data}\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n\
         [train]\nsteps = 1\nbatch_size = 1\n"
    )
}

const TOKENS: &str = "kind = \"random_tokens\"\nvocab_size = 7\ncontext = 8";
const LM: &str = "kind = \"causal_lm\"";

/// A decoder whose layers are these groups.
fn grouped(kind: &str, keys: &str, groups: &str) -> String {
    format!("kind = \"{kind}\"\nd_model = 16\n{keys}\n{groups}")
}

#[test]
fn every_cell_stands_in_a_network_and_in_a_group() {
    for kind in recurrent::KINDS {
        let model = format!("kind = \"recurrent\"\ncell = {}", kind.example);
        judged(&text(&model, LM, TOKENS), &[]).unwrap();
        let groups = format!("[[model.layers]]\nmixer = {}", kind.example);
        let model = grouped("decoder", "", &groups);
        judged(&text(&model, LM, TOKENS), &[]).unwrap();
    }
    let unknown = text(
        "kind = \"recurrent\"\ncell = { kind = \"lstn\" }",
        LM,
        TOKENS,
    );
    says(
        &unknown,
        "kind = \"lstn\" is not known; did you mean `lstm`?",
    );
}

#[test]
fn mixers_that_go_with_nothing() {
    let lstm = "mixer = { kind = \"lstm\" }";
    let heads = "attention = { kind = \"multi_head\", n_heads = 2 }";
    let both = grouped("decoder", "", &format!("[[model.layers]]\n{lstm}\n{heads}"));
    says(
        &text(&both, LM, TOKENS),
        "a group has both attention and a mixer",
    );
    let none = grouped("decoder", "", "[[model.layers]]\nrepeat = 2");
    says(
        &text(&none, LM, TOKENS),
        "a group has no layer that mixes positions",
    );
    let alone = format!("[[model.layers]]\n{lstm}");
    let rotary = grouped("decoder", "position = { kind = \"rotary\" }", &alone);
    says(
        &text(&rotary, LM, TOKENS),
        "this position scheme acts in attention, but no layer has attention",
    );
    let dropped = grouped("decoder", "dropout_attention = 0.1", &alone);
    says(
        &text(&dropped, LM, TOKENS),
        "dropout_attention = 0.1 has no effect: no layer has attention",
    );
    let encoder = grouped("encoder", "", &alone);
    says(
        &text(
            &encoder,
            "kind = \"text_classification\"",
            "kind = \"listops\"",
        ),
        "mixer = { kind = \"lstm\" } reads from left to right, but this stack reads both ways",
    );
}

#[test]
fn heads_of_a_delta_rule_that_do_not_fit() {
    for (keys, rule) in [
        (
            "n_key_heads = 3",
            "n_heads = 4 is not a multiple of n_key_heads = 3",
        ),
        (
            "n_heads = 3, d_key = 5",
            ":7: [[model.layers]] 1 mixer: d_model = 16 is not a multiple of n_heads = 3; change one, or set d_value",
        ),
        ("n_heads = 0", "n_heads = 0 is not between 1 and 1024"),
        ("norm_eps = 0.0", "norm_eps = 0.0 must be above 0"),
    ] {
        let group = format!("[[model.layers]]\nmixer = {{ kind = \"gated_delta\", {keys} }}");
        says(&text(&grouped("decoder", "", &group), LM, TOKENS), rule);
    }
}

#[test]
fn heads_of_a_retention_that_do_not_fit() {
    for (keys, rule) in [
        ("n_heads = 19", "n_heads = 19 is not between 1 and 18"),
        (
            "d_key = 3",
            "rotation acts on pairs of elements, but d_key = 3 is odd; change it, or set rotation = false",
        ),
        (
            "n_heads = 3, d_key = 4",
            ":7: [[model.layers]] 1 mixer: d_model = 16 is not a multiple of n_heads = 3; change one, or set d_value",
        ),
        ("theta = 0.0", "theta = 0.0 must be above 0"),
    ] {
        let group = format!("[[model.layers]]\nmixer = {{ kind = \"retention\", {keys} }}");
        says(&text(&grouped("decoder", "", &group), LM, TOKENS), rule);
    }
}

#[test]
fn keys_of_rwkv7_that_do_not_fit() {
    for (keys, rule) in [
        (
            "d_head = 5",
            ":7: [[model.layers]] 1 mixer: d_model = 16 is not a multiple of d_head = 5; change one",
        ),
        ("gate_rank = 0", "gate_rank = 0 is not between 1 and 1024"),
        (
            "value_rank = 4, value_residual = false",
            "value_rank = 4 has no effect: value_residual is false; remove it",
        ),
        ("norm_eps = 0.0", "norm_eps = 0.0 must be above 0"),
    ] {
        let group = format!("[[model.layers]]\nmixer = {{ kind = \"rwkv7\", {keys} }}");
        says(&text(&grouped("decoder", "", &group), LM, TOKENS), rule);
    }
    let group =
        "[[model.layers]]\nmixer = { kind = \"rwkv7\" }\nfeed_forward = { kind = \"rwkv7\" }";
    let reversible = grouped("decoder", "reversible = {}", group);
    says(
        &text(&reversible, LM, TOKENS),
        "mixer = { kind = \"rwkv7\" } reads the values of an earlier layer; give it value_residual = false",
    );
}

#[test]
fn keys_without_effect() {
    let recurrent = |keys: &str| format!("kind = \"recurrent\"\n{keys}");
    for (keys, rule) in [
        (
            "cell = { kind = \"lstm\", bias = false, forget_bias = 1.0 }",
            "forget_bias = 1.0 has no effect: bias is false",
        ),
        (
            "share_embeddings = true",
            "share_embeddings = true has no effect: the task has no separate source text",
        ),
        (
            "head_bias = true",
            "head_bias = true has no effect: the head is the embedding table",
        ),
        ("n_layers = 0", "n_layers = 0 is not between 1 and"),
        (
            "dropout = 1.5",
            "dropout = 1.5 must be at least 0 and below 1",
        ),
    ] {
        says(&text(&recurrent(keys), LM, TOKENS), rule);
    }
    let classes = "kind = \"text_classification\"";
    says(
        &text(
            &recurrent("tie_embeddings = false"),
            classes,
            "kind = \"listops\"",
        ),
        "tie_embeddings = false has no effect: the task predicts no tokens",
    );
    says(
        &text(
            &recurrent(""),
            "kind = \"text_classification\"\npooling = \"first\"",
            "kind = \"listops\"",
        ),
        "pooling = \"first\" needs an encoder",
    );
    says(
        &text(
            &recurrent(""),
            "kind = \"translation\"\nbidirectional_source = true",
            "kind = \"dates\"",
        ),
        "bidirectional_source = true is only for decoders",
    );
}
