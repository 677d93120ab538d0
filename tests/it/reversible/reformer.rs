//! Hugging Face's Reformer as an oracle for reversible layers.

use super::{SEQ, VOCAB, base, ids, inputs};
use crate::batches;
use crate::oracle::Oracle;
use crate::transfer::{Against, Arrays, gradients_of, import};
use burn::module::Module;
use burn::tensor::Device;
use formwork::data::{NOT_SCORED, Shape};
use formwork::interop::rename::Table;
use formwork::model::decoder::DecoderInput;
use formwork::model::{Decoder, DecoderConfig, LanguageModel, ModelConfig};
use formwork::nn::pass::Pass;
use formwork::task::TaskConfig;
use formwork::train::gradients::accumulate;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::json;

/// Reformer's names for the parameters.
fn names(layers: usize) -> Table {
    let mut table = Table::default();
    let ours = |path: &str| format!("model.{path}");
    table.same(
        "reformer.embeddings.word_embeddings.weight",
        ours("embedding.weight"),
    );
    table.same(
        "reformer.embeddings.position_embeddings.embedding.weight",
        ours("position.table"),
    );
    for layer in 0..layers {
        let (theirs, block) = (
            format!("reformer.encoder.layers.{layer}"),
            format!("stack.blocks.{layer}"),
        );
        for (part, own) in [
            (
                "attention.self_attention.query.weight",
                "attention.query.weight",
            ),
            (
                "attention.self_attention.key.weight",
                "attention.key.weight",
            ),
            (
                "attention.self_attention.value.weight",
                "attention.value.weight",
            ),
            ("attention.output.dense.weight", "attention.output.weight"),
            (
                "attention.layer_norm.weight",
                "attention_residual.norm.gamma",
            ),
            ("attention.layer_norm.bias", "attention_residual.norm.beta"),
            (
                "feed_forward.layer_norm.weight",
                "feed_forward_residual.norm.gamma",
            ),
            (
                "feed_forward.layer_norm.bias",
                "feed_forward_residual.norm.beta",
            ),
            ("feed_forward.dense.dense.weight", "feed_forward.up.weight"),
            ("feed_forward.dense.dense.bias", "feed_forward.up.bias"),
            (
                "feed_forward.output.dense.weight",
                "feed_forward.down.weight",
            ),
            ("feed_forward.output.dense.bias", "feed_forward.down.bias"),
        ] {
            table.same(format!("{theirs}.{part}"), ours(&format!("{block}.{own}")));
        }
    }
    table.same(
        "reformer.encoder.layer_norm.weight",
        ours("stack.final_norm.gamma"),
    );
    table.same(
        "reformer.encoder.layer_norm.bias",
        ours("stack.final_norm.beta"),
    );
    table.same("lm_head.decoder.weight", ours("head.weight"));
    table
}

/// States, logits, loss and gradients from Reformer's own reversible backward pass, with feed-forward layers whole and in
/// chunks.
#[test]
fn reformers_reversible_layers_agree() {
    let oracle = Oracle::open("reversible");
    let (_, tokens) = oracle.integers("input_ids");
    let theirs: Arrays = oracle
        .arrays(|name| name.strip_prefix("weight."))
        .into_iter()
        .collect();
    let device = Device::flex().autodiff();
    let shape = Shape::of_text(SEQ, VOCAB);
    let chunked = json!({ "kind": "dense", "d_ff": 32, "activation": "relu", "chunk": 4 });
    for (name, keys) in [
        ("reversible", json!({ "n_layers": 2 })),
        (
            "reversible, chunks",
            json!({ "n_layers": 2, "feed_forward": chunked }),
        ),
    ] {
        let config: TaskConfig = serde_json::from_value(json!({ "kind": "causal_lm" })).unwrap();
        let model = ModelConfig::Decoder(base(&keys));
        let task = config
            .init(&model, &inputs(&shape, &device), false)
            .unwrap();
        let table = names(2);
        let task = import(materialize(name_parameters(task)), &table, &theirs);
        let mut against = Against::new(name, &oracle, 1e-4);

        let decoder = config_decoder(&base(&keys), &table, &theirs);
        let input = DecoderInput::new(ids(&tokens, 2, &Device::flex()));
        let hidden = decoder.forward(input, None, &Pass::evaluation());
        let logits = decoder.logits(hidden.clone());
        against.check(
            "hidden",
            &hidden.into_data().iter::<f32>().collect::<Vec<_>>(),
        );
        against.check(
            "logits",
            &logits.into_data().iter::<f32>().collect::<Vec<_>>(),
        );

        let mut targets: Vec<i32> = tokens.iter().skip(1).copied().chain([0]).collect();
        targets[SEQ - 1] = NOT_SCORED;
        targets[2 * SEQ - 1] = NOT_SCORED;
        let step = accumulate(&task, vec![batches::of_texts(&tokens, &targets, 2)]);
        against.check("loss", &[step.output.loss.mean() as f32]);
        against.check_gradients(&gradients_of(&task, &step.gradients), &table);
    }
}

fn config_decoder(config: &DecoderConfig, table: &Table, theirs: &Arrays) -> Decoder {
    let shape = Shape::of_text(SEQ, VOCAB);
    let decoder = config.init(&inputs(&shape, &Device::flex().autodiff()));
    import(decoder, &table.clone().below("model."), theirs).valid()
}
