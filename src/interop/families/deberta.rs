//! DeBERTa (He et al. 2021): a post-norm encoder with disentangled attention to content and distance. Its queries,
//! keys and values lie in one matrix, head after head, and keys have no bias.

use super::disentangled::{add_rest, config, positions, shape, write_as};
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::interop::rename::{Fused, Orientation, Table};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::position::PositionConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "deberta",
    summary: "DeBERTa: post-norm encoder, disentangled attention",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("talking_head", false);
    hf.get("padding_idx");
    let mut config = config(hf, [12, 768, 12, 3072, 50265]);
    config.stack.attention = AttentionConfig::MultiHead(MultiHeadConfig {
        key_bias: Some(false),
        ..config.stack.attention.heads()
    });
    config.stack.position = PositionConfig::Disentangled(positions(hf));
    shape(hf, "Deberta", config, 50265)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = write_as(of, "Deberta")?;
    let PositionConfig::Disentangled(positions) = &of.encoder().stack.position else {
        return None;
    };
    written["pos_att_type"] = json!(positions.terms);
    written["max_relative_positions"] = json!(positions.max_distance);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let heads = config.stack.attention.heads();
    let mut table = Table::new("deberta.");
    let fused = Fused {
        groups: heads.n_heads,
        query: 1,
        key_value: 1,
        d_head: heads.d_head(config.stack.d_model),
    };
    for layer in 0..config.n_layers() {
        let theirs = format!("deberta.encoder.layer.{layer}.attention.self");
        let ours = format!("model.stack.blocks.{layer}.attention");
        table.fused(
            &format!("{theirs}.in_proj"),
            &ours,
            Orientation::OutIn,
            fused,
        );
        for (name, path) in [("q_bias", "query.bias"), ("v_bias", "value.bias")] {
            table.same(format!("{theirs}.{name}"), format!("{ours}.{path}"));
        }
        for (name, path) in [("pos_proj", "keys"), ("pos_q_proj", "queries")] {
            let path = format!("model.position.{path}.{layer}");
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
    }
    add_rest(&mut table, of);
    table
}
