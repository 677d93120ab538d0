//! DistilBERT (Sanh et al. 2019): BERT with half of its layers, without segments and without a pooler; its classifier has
//! its own dense layer with ReLU. The class fixes the epsilon of all norms at 1e-12, whatever a file says.

use super::stack_summary::{positions, summarize};
use super::{Family, HfShape, bert, layer_norm, text_heads};
use crate::data::Shape;
use crate::data::masked::masking::Pairs;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::EncoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{NormPlacement, StackConfig};
use crate::task::TaskConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "distilbert",
    summary: "DistilBERT: BERT without segments and without a pooler",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    // Sinusoidal positions are stored in the file like a learned table.
    hf.get("sinusoidal_pos_embds");
    hf.only("tie_weights_", true);
    hf.only("position_embedding_type", "absolute");
    let asked = hf.real("qa_dropout", 0.1);
    let classified = hf.real("seq_classif_dropout", 0.2);
    let context = hf.count(&["max_position_embeddings"], 512);
    let activation = hf.activation("activation", "gelu");
    let config = EncoderConfig {
        n_layers: Some(hf.count(&["n_layers", "num_hidden_layers"], 6)),
        embedding_norm: true,
        segments: 0,
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        head_activation: activation,
        stack: StackConfig {
            d_model: hf.count(&["dim", "hidden_size"], 768),
            norm: layer_norm(1e-12),
            norm_placement: NormPlacement::Post,
            position: PositionConfig::Learned(LearnedConfig {
                max_len: Some(context),
                ..LearnedConfig::default()
            }),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["n_heads", "num_attention_heads"], 12),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(hf.count(&["hidden_dim"], 3072)),
                activation,
                bias: true,
                ..DenseConfig::default()
            }),
            dropout: hf.real("dropout", 0.1),
            dropout_attention: Some(hf.real("attention_dropout", 0.1)),
            ..StackConfig::default()
        },
        ..EncoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 30522);
    let mut shape = bert::shape(
        hf,
        "DistilBert",
        config,
        Shape::of_text(context, vocab_size),
    );
    match &mut shape.task {
        TaskConfig::TextClassification(task) => task.dropout = classified,
        TaskConfig::MultiLabel(task) => task.dropout = classified,
        TaskConfig::Regression(task) => task.dropout = classified,
        TaskConfig::QuestionAnswering(task) => task.dropout = asked,
        _ => {}
    }
    if text_heads::is_sequence_task(&shape.task) {
        bert::set_pooler(&mut shape.model, Activation::Relu);
    }
    shape
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.encoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let class = match (&of.task, text_heads::ending(&of.task)) {
        (_, Some(ending)) => ending,
        (TaskConfig::MaskedLm(task), None) if task.pairs == Pairs::None => "ForMaskedLM",
        (_, None) => return None,
    };
    let whole = text_heads::dropout(&of.task).filter(|_| text_heads::is_sequence_task(&of.task));
    let mut written = json!({
        "architectures": [format!("DistilBert{class}")],
        "vocab_size": of.shape.vocab_size,
        "dim": config.stack.d_model,
        "n_layers": plain.layers,
        "n_heads": plain.heads.n_heads,
        "hidden_dim": plain.d_ff,
        "activation": plain.activation,
        "max_position_embeddings": positions(&config.stack, of.shape.context),
        "sinusoidal_pos_embds": false,
        "tie_word_embeddings": config.tie_embeddings,
        "dropout": plain.dropout.residual,
        "attention_dropout": plain.dropout.attention,
        "seq_classif_dropout": whole.unwrap_or(0.2),
    });
    text_heads::write(&mut written, of);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let mut table = Table::new("distilbert.");
    let embeddings = "distilbert.embeddings";
    for (name, path) in [
        ("word_embeddings", "model.embedding.weight"),
        ("position_embeddings", "model.position.table"),
    ] {
        table.same(format!("{embeddings}.{name}.weight"), path);
    }
    table.norm(&format!("{embeddings}.LayerNorm"), "model.embedding_norm");
    for layer in 0..config.n_layers() {
        let theirs = format!("distilbert.transformer.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        table.linears(&theirs, &ours, LAYERS);
        table.norms(&theirs, &ours, NORMS);
    }
    table.ignored = vec!["embeddings.position_ids"];
    let whole = ["pre_classifier", "classifier"];
    if !text_heads::add(&mut table, &of.task, whole) {
        table.linear("vocab_transform", "head.transform", Orientation::OutIn);
        table.norm("vocab_layer_norm", "head.norm");
        bert::add_product(&mut table, "vocab_projector", config.tie_embeddings);
        if config.tie_embeddings {
            table.ignored.push("vocab_projector.weight");
        }
    }
    table
}

const LAYERS: &[(&str, &str)] = &[
    ("attention.q_lin", "attention.query"),
    ("attention.k_lin", "attention.key"),
    ("attention.v_lin", "attention.value"),
    ("attention.out_lin", "attention.output"),
    ("ffn.lin1", "feed_forward.up"),
    ("ffn.lin2", "feed_forward.down"),
];
const NORMS: &[(&str, &str)] = &[
    ("sa_layer_norm", "attention_residual.norm"),
    ("output_layer_norm", "feed_forward_residual.norm"),
];
