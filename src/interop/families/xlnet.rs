//! XLNet (Yang et al. 2019): a post-norm encoder with signed distances and segments in its attention scores. Its tasks are tokens
//! in a permuted order, classification or regression of texts (read at their last token), tags of tokens, and answers to
//! questions.
//!
//! Its matrices are `[in, heads, d_head]`, the last one `[out, heads, d_head]`. The class always has `mask_emb`, the initial
//! vector of the query stream; models for other tasks than permuted language modelling lack it, and their exported folders have
//! zeros. The class can tell any number of segments apart, ours the three that its tokenizer makes.

use super::stack_summary::activation_name;
use super::{Family, HfShape, layer_norm, text_heads};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::encoder::pooler::PoolerInput;
use crate::model::{EncoderConfig, ModelConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::transformer_xl::TransformerXlConfig;
use crate::stack::{NormPlacement, StackConfig};
use crate::task::{PermutedLmConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "xlnet",
    summary: "XLNet: post-norm encoder, distances and segments in scores, two-stream attention",
    read,
    write,
    table,
    declined: None,
};

/// Two texts, and the token after them.
const SEGMENTS: usize = 3;
/// The class ending for questions whose head is a single projection. The other class has three chained heads and searches for
/// answers.
const QUESTIONS: &str = "ForQuestionAnsweringSimple";
/// The class ending for language modelling.
const TOKENS_IN_ORDER: &str = "LMHeadModel";

fn read(hf: &HfConfig) -> HfShape {
    hf.only("attn_type", "bi");
    hf.only("bi_data", false);
    hf.only("summary_type", "last");
    hf.only("summary_use_proj", true);
    hf.only("summary_activation", "tanh");
    // Keys of memories, which are passed from call to call, of a search for answers, and of the first files; every layer has its
    // own biases.
    for key in [
        "mem_len",
        "reuse_len",
        "use_mems",
        "use_mems_eval",
        "use_mems_train",
        "same_length",
        "start_n_top",
        "end_n_top",
        "untie_r",
        "d_head",
    ] {
        hf.get(key);
    }
    let d_model = hf.count(&["d_model", "hidden_size"], 1024);
    let dropout = hf.real("dropout", 0.1);
    let clamped = hf.get("clamp_len").and_then(Value::as_i64);
    let config = EncoderConfig {
        n_layers: Some(hf.count(&["n_layer", "num_hidden_layers"], 24)),
        segments: 0,
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        head_transform: false,
        stack: StackConfig {
            d_model,
            norm: layer_norm(hf.real("layer_norm_eps", 1e-12)),
            norm_placement: NormPlacement::Post,
            position: PositionConfig::TransformerXl(TransformerXlConfig {
                untie_r: true,
                clamp_len: clamped
                    .and_then(|most| usize::try_from(most).ok())
                    .filter(|most| *most > 0),
                segments: SEGMENTS,
                ..TransformerXlConfig::default()
            }),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["n_head", "num_attention_heads"], 16),
                bias: false,
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(hf.count(&["d_inner"], 4096)),
                activation: hf.activation("ff_activation", "gelu"),
                bias: true,
                ..DenseConfig::default()
            }),
            dropout,
            dropout_feed_forward: Some(dropout),
            dropout_output: Some(dropout),
            ..StackConfig::default()
        },
        ..EncoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 32000);
    with_head(hf, config, Shape::of_text(CONTEXT, vocab_size))
}

/// Maximum length in tokens in the training of the released models; the positions have no limit.
const CONTEXT: usize = 512;

/// The encoder with the head of its class.
fn with_head(hf: &HfConfig, mut config: EncoderConfig, mut shape: Shape) -> HfShape {
    let class = hf.architecture().unwrap_or("XLNetLMHeadModel");
    let ending = match text_heads::ending_of(class, "XLNet") {
        QUESTIONS => text_heads::SPAN_ENDING,
        // This class searches for answers, which is not supported.
        text_heads::SPAN_ENDING => "",
        ending => ending,
    };
    let dropout = match ending {
        text_heads::SEQUENCE_ENDING => hf.real("summary_last_dropout", 0.1),
        _ => 0.0,
    };
    hf.get("summary_last_dropout");
    let task = match ending {
        TOKENS_IN_ORDER => Some(TaskConfig::PermutedLm(PermutedLmConfig::default())),
        _ => text_heads::task(hf, ending, dropout, &mut config, &mut shape),
    };
    if config.pooler {
        config.pooler_input = PoolerInput::Last;
    }
    let task = task.unwrap_or_else(|| {
        hf.fault(format!(
            "`architectures` = [\"{class}\"] has no head that can be imported; the classes with one are XLNetLMHeadModel, \
             XLNetForSequenceClassification, XLNetForTokenClassification and XLNetForQuestionAnsweringSimple; XLNetModel can be \
             imported without one"
        ));
        TaskConfig::PermutedLm(PermutedLmConfig::default())
    });
    HfShape {
        model: ModelConfig::Encoder(config),
        task,
        shape,
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.encoder_if_any()?;
    let (stack, depth) = (&config.stack, config.depth());
    let PositionConfig::TransformerXl(position) = &stack.position else {
        return None;
    };
    let block = stack.block(&depth, 0);
    let (Some(attention), Some(FeedForwardConfig::Dense(dense)), NormConfig::Layer(norm)) =
        (block.attention, block.feed_forward, &stack.norm)
    else {
        return None;
    };
    let class = match &of.task {
        TaskConfig::PermutedLm(_) => TOKENS_IN_ORDER,
        task => match text_heads::ending(task)? {
            text_heads::SPAN_ENDING => QUESTIONS,
            ending => ending,
        },
    };
    let heads = attention.heads();
    let mut written = json!({
        "architectures": [format!("XLNet{class}")],
        "vocab_size": of.shape.vocab_size,
        "d_model": stack.d_model,
        "n_layer": depth.blocks(),
        "n_head": heads.n_heads,
        "d_inner": dense.d_ff(stack.d_model),
        "ff_activation": activation_name(dense.activation),
        "attn_type": "bi",
        "clamp_len": position.clamp_len.map_or(-1, |most| most as i64),
        "layer_norm_eps": norm.eps,
        "dropout": stack.dropouts().residual,
        "tie_word_embeddings": config.tie_embeddings,
        "summary_type": "last",
        "summary_use_proj": true,
        "summary_activation": "tanh",
    });
    if heads.memory > 0 {
        written["mem_len"] = json!(heads.memory);
    }
    if let TaskConfig::PermutedLm(PermutedLmConfig {
        reuse_len: Some(reused),
        ..
    }) = of.task
    {
        written["reuse_len"] = json!(reused);
    }
    if let Some(dropout) =
        text_heads::dropout(&of.task).filter(|_| class == text_heads::SEQUENCE_ENDING)
    {
        written["summary_last_dropout"] = json!(dropout);
    }
    text_heads::write(&mut written, of);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let mut table = Table::new("transformer.");
    table.same(
        "transformer.word_embedding.weight",
        "model.embedding.weight",
    );
    let d = config.stack.d_model;
    for layer in 0..config.n_layers() {
        let theirs = format!("transformer.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        add_attention(&mut table, config, layer);
        table.linears(
            &theirs,
            &ours,
            &[
                ("ff.layer_1", "feed_forward.up"),
                ("ff.layer_2", "feed_forward.down"),
            ],
        );
        table.norms(
            &theirs,
            &ours,
            &[
                ("rel_attn.layer_norm", "attention_residual.norm"),
                ("ff.layer_norm", "feed_forward_residual.norm"),
            ],
        );
    }
    let query = "transformer.mask_emb";
    match &of.task {
        TaskConfig::PermutedLm(_) => {
            table.reshaped(query, "query", vec![1, 1, d]);
            // Folders of a body, or of another head, lack it.
            table.optional.push("query");
            match config.tie_embeddings {
                true => {
                    table.same("lm_loss.bias", "head.bias");
                    table.ignored.push("lm_loss.weight");
                }
                false => table.linear("lm_loss", "head.product", Orientation::OutIn),
            }
        }
        task => {
            table.constant(query.into(), vec![1, 1, d], true, move || vec![0.0; d]);
            table.ignored = vec!["mask_emb", "lm_loss.weight", "lm_loss.bias"];
            text_heads::add(
                &mut table,
                task,
                ["sequence_summary.summary", "logits_proj"],
            );
        }
    }
    table
}

/// The matrices and vectors of a layer's attention, which the class stores as `[in, heads, d_head]`, and those of its positions.
fn add_attention(table: &mut Table, config: &EncoderConfig, layer: usize) {
    let stack = &config.stack;
    let heads = stack
        .block(&config.depth(), layer)
        .attention
        .map(AttentionConfig::heads);
    let heads = heads.unwrap_or_default();
    let (d, n, d_head) = (stack.d_model, heads.n_heads, heads.d_head(stack.d_model));
    let theirs = format!("transformer.layer.{layer}.rel_attn");
    let attention = format!("model.stack.blocks.{layer}.attention");
    for (name, path) in [
        ("q", format!("{attention}.query.weight")),
        ("k", format!("{attention}.key.weight")),
        ("v", format!("{attention}.value.weight")),
        ("r", format!("model.position.projections.{layer}.weight")),
    ] {
        table.projection_to_heads(format!("{theirs}.{name}"), path, [d, n, d_head]);
    }
    table.reshaped(
        format!("{theirs}.o"),
        format!("{attention}.output.weight"),
        vec![d, n, d_head],
    );
    for (name, path) in [
        ("r_w_bias", "content_bias"),
        ("r_r_bias", "distance_bias"),
        ("r_s_bias", "segment_bias"),
    ] {
        table.same(
            format!("{theirs}.{name}"),
            format!("model.position.{path}.{layer}"),
        );
    }
    let vectors = format!("model.position.segment_vectors.{layer}");
    table.reshaped(format!("{theirs}.seg_embed"), vectors, vec![2, n, d_head]);
}
