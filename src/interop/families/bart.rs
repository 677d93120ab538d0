//! BART (Lewis et al. 2019): the post-norm Transformer with learned positions, a norm on the embeddings and a constant
//! bias on the logits. The models of Marian, mBART, PEGASUS and M2M-100 use the same names.

use super::stack_summary::{positions, summarize};
use super::{Family, HfShape, layer_norm};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::{EncoderDecoderConfig, ModelConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{Depth, LayerGroup, NormPlacement, StackConfig};
use crate::task::{TaskConfig, TranslationConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "bart",
    summary: "BART: post-norm encoder-decoder, learned positions, layer norm on the embeddings",
    read,
    write,
    table,
    declined: None,
};

/// Rows of the position table before the first position.
const FIRST: usize = 2;

fn read(hf: &HfConfig) -> HfShape {
    hf.only("normalize_embedding", true);
    hf.only("static_position_embeddings", false);
    hf.only("extra_pos_embeddings", 2);
    require_class(hf, &["BartForConditionalGeneration", "BartModel"]);
    let context = hf.count(&["max_position_embeddings"], 1024);
    let mut config = config(hf);
    config.embedding_norm = true;
    config.stack.position = learned(context);
    shape(hf, config, context)
}

/// Learned positions for texts of up to `context` tokens.
pub(super) fn learned(context: usize) -> PositionConfig {
    PositionConfig::Learned(LearnedConfig {
        max_len: Some(context.saturating_add(FIRST)),
        first: FIRST,
    })
}

/// A model with these stacks and the file's single vocabulary.
pub(super) fn shape(hf: &HfConfig, mut config: EncoderDecoderConfig, context: usize) -> HfShape {
    let tied = tied(hf, "model.");
    config.share_embeddings = tied;
    config.tie_embeddings = tied;
    config.head_bias = hf.has_tensor("final_logits_bias");
    let vocab_size = hf.count(&["vocab_size"], 50265);
    HfShape {
        model: ModelConfig::EncoderDecoder(config),
        task: TaskConfig::Translation(TranslationConfig::default()),
        shape: Shape::of_text(context, vocab_size),
    }
}

/// Reads `tie_word_embeddings`, which also shares one embedding table between the sides. If it is false, each side must
/// have a table, or the class would initialise it randomly. `body` is the prefix of their names.
pub(super) fn tied(hf: &HfConfig, body: &str) -> bool {
    let tied = hf.flag("tie_word_embeddings", true);
    for side in ["encoder", "decoder"] {
        let short = format!("{side}.embed_tokens.weight");
        let name = format!("{body}{short}");
        if !tied && !hf.has_tensor(&name) && !hf.has_tensor(&short) {
            hf.fault(format!(
                "`tie_word_embeddings` = false needs the tensor `{name}`, which the weights lack"
            ));
        }
    }
    tied
}

/// Reports a fault if the file names a class other than these.
pub(super) fn require_class(hf: &HfConfig, classes: &[&str]) {
    if let Some(class) = hf.architecture().filter(|class| !classes.contains(class)) {
        hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported; {} can",
            classes[0]
        ));
    }
}

/// The two stacks of BART and Marian, without positions and vocabulary.
pub(super) fn config(hf: &HfConfig) -> EncoderDecoderConfig {
    config_with_norms(hf, NormPlacement::Post)
}

/// Same as [`config`], with this placement of norms: after the layers, or before them and after the last one.
pub(super) fn config_with_norms(
    hf: &HfConfig,
    norm_placement: NormPlacement,
) -> EncoderDecoderConfig {
    config_with_activation(hf, norm_placement, "gelu")
}

/// Same as [`placed`], with this default activation.
pub(super) fn config_with_activation(
    hf: &HfConfig,
    norm_placement: NormPlacement,
    activation: &str,
) -> EncoderDecoderConfig {
    for key in ["is_decoder", "add_cross_attention", "add_bias_logits"] {
        hf.only(key, false);
    }
    for key in ["normalize_before", "add_final_layer_norm"] {
        hf.only(key, norm_placement == NormPlacement::Pre);
    }
    let d_model = hf.count(&["d_model"], 1024);
    let activation = hf.activation("activation_function", activation);
    let (reads, writes) = (
        side(hf, "encoder", activation),
        side(hf, "decoder", activation),
    );
    let n = hf.count(&["encoder_layers", "num_hidden_layers"], 12);
    let m = hf.count(&["decoder_layers"], 12);
    // `num_hidden_layers` is another name of `encoder_layers`, which takes precedence in the class.
    hf.only("num_hidden_layers", n);
    let alike = reads == writes;
    let group = |side: &(AttentionConfig, FeedForwardConfig), cross, repeat| LayerGroup {
        repeat,
        attention: Some(side.0.clone()),
        feed_forward: Some(side.1.clone()),
        cross,
        ..LayerGroup::default()
    };
    EncoderDecoderConfig {
        n_encoder_layers: Some(n),
        n_decoder_layers: Some(m),
        encoder_layers: match alike {
            true => Vec::new(),
            false => vec![group(&reads, None, n)],
        },
        decoder_layers: match alike {
            true => Vec::new(),
            false => vec![group(&writes, Some(writes.0.clone()), m)],
        },
        embedding_scale: hf.flag("scale_embedding", false),
        stack: StackConfig {
            d_model,
            norm: layer_norm(1e-5),
            norm_placement,
            attention: reads.0.clone(),
            feed_forward: reads.1.clone(),
            dropout: hf.real("dropout", 0.1),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            dropout_feed_forward: Some(hf.real("activation_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..EncoderDecoderConfig::default()
    }
}

/// The attention and feed-forward layers of one side.
fn side(hf: &HfConfig, name: &str, activation: Activation) -> (AttentionConfig, FeedForwardConfig) {
    let attention = AttentionConfig::MultiHead(MultiHeadConfig {
        n_heads: hf.count(&[&format!("{name}_attention_heads")], 16),
        ..MultiHeadConfig::default()
    });
    let feed_forward = FeedForwardConfig::Dense(DenseConfig {
        d_ff: Some(hf.count(&[&format!("{name}_ffn_dim")], 4096)),
        activation,
        bias: true,
        ..DenseConfig::default()
    });
    (attention, feed_forward)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = write_as(of, "BartForConditionalGeneration")?;
    written["tie_word_embeddings"] = json!(of.encoder_decoder().tie_embeddings);
    Some(written)
}

/// The keys that Marian, mBART, PEGASUS and M2M-100 share with BART.
pub(super) fn write_as(of: &HfShape, class: &str) -> Option<Value> {
    let ModelConfig::EncoderDecoder(config) = &of.model else {
        return None;
    };
    let reads = summarize(&config.stack, &config.encoder_depth())?;
    let writes = summarize(&config.stack, &config.decoder_depth())?;
    Some(json!({
        "architectures": [class],
        "vocab_size": of.shape.source_vocab_size.unwrap_or(of.shape.vocab_size),
        "max_position_embeddings": positions(&config.stack, of.shape.context),
        "d_model": config.stack.d_model,
        "encoder_layers": reads.layers,
        "decoder_layers": writes.layers,
        "encoder_attention_heads": reads.heads.n_heads,
        "decoder_attention_heads": writes.heads.n_heads,
        "encoder_ffn_dim": reads.d_ff,
        "decoder_ffn_dim": writes.d_ff,
        "activation_function": reads.activation,
        "scale_embedding": config.embedding_scale,
        "dropout": reads.dropout.residual,
        "attention_dropout": reads.dropout.attention,
        "activation_dropout": reads.dropout.feed_forward,
        "is_encoder_decoder": true,
    }))
}

/// The table of BART, also used by Marian, mBART, PEGASUS and M2M-100; rules whose parameters a model lacks are
/// skipped.
pub(super) fn table(of: &HfShape) -> Table {
    let config = of.encoder_decoder();
    let mut table = Table::new("model.");
    let shared = config.share_embeddings;
    if shared {
        table.same("model.shared.weight", "model.embedding.weight");
    } else {
        let (source, target) = ("model.encoder", "model.decoder");
        let tokens = "embed_tokens.weight";
        table.same(
            format!("{source}.{tokens}"),
            "model.source_embedding.weight",
        );
        table.same(format!("{target}.{tokens}"), "model.embedding.weight");
        if of
            .shape
            .source_vocab_size
            .is_none_or(|n| n == of.shape.vocab_size)
        {
            // Files with a shared table and a separate head lack the tables of the two sides.
            let shared = || "model.shared.weight".to_string();
            table.alias(shared(), "model.source_embedding.weight".into());
            table.alias(shared(), "model.embedding.weight".into());
        }
    }
    stacks(&mut table, [config.encoder_depth(), config.decoder_depth()]);
    table.same("lm_head.weight", "model.head.weight");
    let bias = match config.tie_embeddings {
        true => "model.head_bias",
        false => "model.head.bias",
    };
    let vocab = of.shape.vocab_size;
    table.reshaped("final_logits_bias", bias, vec![1, vocab]);
    table.ignored = vec!["encoder.version", "decoder.version"];
    if shared {
        table.ignored.push("encoder.embed_tokens.weight");
        table.ignored.push("decoder.embed_tokens.weight");
    } else {
        let target = "model.decoder.embed_tokens.weight".to_string();
        table.copies.push(("model.shared.weight".into(), target));
        table.ignored.push("model.shared.weight");
    }
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table
}

/// Adds the names of both stacks with their positions; also used by Whisper.
pub(super) fn stacks(table: &mut Table, [reads, writes]: [Depth; 2]) {
    let cross = Some(("encoder_attn", "cross"));
    for (side, depth, cross) in [("encoder", reads, None), ("decoder", writes, cross)] {
        let (theirs, ours) = (format!("model.{side}"), format!("model.{side}"));
        let positions = format!("{ours}.position.table");
        table.same(format!("{theirs}.embed_positions.weight"), positions);
        let norm = format!("{ours}.embedding_norm");
        table.norm(&format!("{theirs}.layernorm_embedding"), &norm);
        let norm = format!("{ours}.stack.final_norm");
        table.norm(&format!("{theirs}.layer_norm"), &norm);
        for block in 0..depth.blocks() {
            let theirs = format!("{theirs}.layers.{block}");
            let ours = format!("{ours}.stack.blocks.{block}");
            let attention = format!("{theirs}.self_attn");
            table.linears(&attention, &format!("{ours}.attention"), ATTENTION);
            let norm = format!("{ours}.attention_residual.norm");
            table.norm(&format!("{attention}_layer_norm"), &norm);
            if let Some((name, path)) = cross {
                let (attention, path) = (format!("{theirs}.{name}"), format!("{ours}.{path}"));
                table.linears(&attention, &format!("{path}.attention"), ATTENTION);
                let norm = format!("{path}.residual.norm");
                table.norm(&format!("{attention}_layer_norm"), &norm);
            }
            let mlp = format!("{ours}.feed_forward");
            table.linears(&theirs, &mlp, &[("fc1", "up"), ("fc2", "down")]);
            let norm = format!("{ours}.feed_forward_residual.norm");
            table.norm(&format!("{theirs}.final_layer_norm"), &norm);
        }
    }
}

pub(super) const ATTENTION: &[(&str, &str)] = &[
    ("q_proj", "query"),
    ("k_proj", "key"),
    ("v_proj", "value"),
    ("out_proj", "output"),
];
