//! GPT (Radford et al. 2018): GPT-2's shapes with the norm after each sum, and no final one.

use super::gpt2::{add_blocks, read_gpt};
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::DecoderConfig;
use crate::nn::feed_forward::Activation;
use crate::stack::NormPlacement;

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "openai-gpt",
    summary: "GPT: post-norm, learned positions",
    read,
    table,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("tie_word_embeddings", true);
    // HF's class calls GELU's tanh form plainly "gelu" here.
    let activation = match hf.word("afn", "gelu") {
        "gelu" => Activation::GeluTanh,
        _ => hf.activation("afn", "gelu"),
    };
    let mut shape = read_gpt(hf, NormPlacement::Post, activation);
    shape.context = hf.count(&["n_positions"], 512);
    shape.vocab_size = hf.count(&["vocab_size"], 40478);
    shape
}

fn table(config: &DecoderConfig) -> Table {
    let mut table = Table::new("transformer.");
    table.same("transformer.tokens_embed.weight", "embedding.weight");
    table.same("transformer.positions_embed.weight", "position.table");
    add_blocks(&mut table, config);
    table.ignored = vec![".attn.bias", "lm_head.weight", "position_ids"];
    table
}
