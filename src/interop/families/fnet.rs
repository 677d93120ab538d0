//! FNet (Lee-Thorp et al. 2021): BERT with Fourier transforms in place of attention. Its class projects the sum of the embeddings
//! to the width of the blocks, even if both are equal, and has no dropout on the output of a transform.
//!
//! The class transforms padding like text, while here only the text is transformed: results of padded sequences differ.

use super::bert::{self, post_norm_stack};
use super::stack_summary::{activation_name, positions};
use super::{Family, HfShape, text_heads};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::EncoderConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::nn::recurrent::MixerConfig;
use crate::nn::recurrent::fourier::FourierConfig;
use crate::stack::{LayerGroup, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "fnet",
    summary: "FNet: post-norm encoder with Fourier transforms instead of attention",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    // With this option the matrices are those of `tpu_short_seq_length` positions, cut to shorter texts.
    hf.only("use_tpu_fourier_optimizations", false);
    // Keys of these matrices, and of the script that converted the weights.
    for key in [
        "tpu_short_seq_length",
        "actual_seq_length",
        "use_fft",
        "use_latest",
    ] {
        hf.get(key);
    }
    let context = hf.count(&["max_position_embeddings"], 512);
    let d_model = hf.count(&["hidden_size"], 768);
    let activation = hf.activation("hidden_act", "gelu_new");
    let feed_forward = FeedForwardConfig::Dense(DenseConfig {
        d_ff: Some(hf.count(&["intermediate_size"], 3072)),
        activation,
        bias: true,
        ..DenseConfig::default()
    });
    let config = EncoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 12)),
        layers: vec![LayerGroup {
            mixer: Some(MixerConfig::Fourier(FourierConfig::default())),
            feed_forward: Some(feed_forward),
            ..LayerGroup::default()
        }],
        d_embedding: Some(d_model),
        dropout_after_projection: true,
        embedding_norm: true,
        segments: hf.count(&["type_vocab_size"], 4),
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        head_activation: activation,
        stack: StackConfig {
            position: PositionConfig::Learned(LearnedConfig {
                max_len: Some(context),
                ..LearnedConfig::default()
            }),
            ..post_norm_stack(hf, d_model, 1e-12, 0.1)
        },
        ..EncoderConfig::default()
    };
    let vocab_size = hf.count(&["vocab_size"], 32000);
    bert::shape(hf, "FNet", config, Shape::of_text(context, vocab_size))
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.encoder_if_any()?;
    let (stack, depth) = (&config.stack, config.depth());
    let block = stack.block(&depth, 0);
    let (Some(MixerConfig::Fourier(_)), Some(FeedForwardConfig::Dense(dense))) =
        (block.mixer, block.feed_forward)
    else {
        return None;
    };
    let NormConfig::Layer(norm) = &stack.norm else {
        return None;
    };
    let class = bert::class_ending(of, "FNet")?;
    let mut written = json!({
        "architectures": [format!("FNet{class}")],
        "vocab_size": of.shape.vocab_size,
        "hidden_size": stack.d_model,
        "num_hidden_layers": depth.blocks(),
        "intermediate_size": dense.d_ff(stack.d_model),
        "hidden_act": activation_name(dense.activation),
        "type_vocab_size": config.segments,
        "layer_norm_eps": norm.eps,
        "max_position_embeddings": positions(stack, of.shape.context),
        "tie_word_embeddings": config.tie_embeddings,
        "hidden_dropout_prob": stack.dropouts().residual,
        "use_tpu_fourier_optimizations": false,
    });
    text_heads::write(&mut written, of);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let mut table = Table::new("fnet.");
    let embeddings = "fnet.embeddings";
    bert::add_embeddings(&mut table, embeddings);
    let projection = format!("{embeddings}.projection");
    table.linear(&projection, "model.projection", Orientation::OutIn);
    for layer in 0..config.n_layers() {
        let theirs = format!("fnet.encoder.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        table.linears(
            &theirs,
            &ours,
            &[
                ("intermediate.dense", "feed_forward.up"),
                ("output.dense", "feed_forward.down"),
            ],
        );
        table.norms(
            &theirs,
            &ours,
            &[
                ("fourier.output.LayerNorm", "attention_residual.norm"),
                ("output.LayerNorm", "feed_forward_residual.norm"),
            ],
        );
    }
    table.ignored = vec!["embeddings.position_ids", "embeddings.token_type_ids"];
    let pooler = "fnet.pooler.dense";
    if !text_heads::add(&mut table, &of.task, [pooler, "classifier"]) {
        bert::add_pretraining(&mut table, pooler, config.tie_embeddings);
    }
    if !text_heads::is_sequence_task(&of.task) {
        table.ignored.push("fnet.pooler.dense.weight");
        table.ignored.push("fnet.pooler.dense.bias");
    }
    table
}
