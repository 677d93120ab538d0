//! GPT (Radford et al. 2018): GPT-2's shapes with the norm after each residual sum, and no final norm.

use super::gpt2::{add_blocks, read_gpt};
use super::stack_summary::{positions, summarize};
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::nn::feed_forward::Activation;
use crate::stack::NormPlacement;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "openai-gpt",
    summary: "GPT: post-norm, learned positions",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    // HF's class uses the name "gelu" for the tanh approximation of GELU here.
    let activation = match hf.word("afn", "gelu") {
        "gelu" => Activation::GeluTanh,
        _ => hf.activation("afn", "gelu"),
    };
    let mut config = read_gpt(hf, NormPlacement::Post, activation);
    config.tie_embeddings = hf.flag("tie_word_embeddings", true);
    let vocab_size = hf.count(&["vocab_size"], 40478);
    HfShape::language_model(config, vocab_size, hf.count(&["n_positions"], 512))
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    Some(json!({
        "architectures": ["OpenAIGPTLMHeadModel"],
        "vocab_size": of.shape.vocab_size,
        "n_positions": positions(&config.stack, of.shape.context),
        "n_embd": config.stack.d_model,
        "n_layer": plain.layers,
        "n_head": plain.heads.n_heads,
        "afn": match plain.activation {
            "gelu_new" => "gelu",
            other => other,
        },
        "layer_norm_epsilon": plain.eps,
        "tie_word_embeddings": config.tie_embeddings,
        "embd_pdrop": plain.dropout.embedding,
        "attn_pdrop": plain.dropout.attention,
        "resid_pdrop": plain.dropout.residual,
    }))
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("transformer.");
    table.same("transformer.tokens_embed.weight", "embedding.weight");
    table.same("transformer.positions_embed.weight", "position.table");
    add_blocks(&mut table, config);
    table.linear("lm_head", "head", Orientation::OutIn);
    table.ignored = vec![".attn.bias", "position_ids"];
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
