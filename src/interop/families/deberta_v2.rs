//! DeBERTa-v2 and v3 (He et al. 2021, 2023): DeBERTa with logarithmic buckets of distances, a norm on the distance
//! embeddings, and attention's own projections for these embeddings instead of separate ones.

use super::disentangled::{self, add_rest};
use super::{Family, HfShape, layer_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::disentangled::{DisentangledConfig, Term};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "deberta-v2",
    summary: "DeBERTa-v2 and v3: DeBERTa with distance buckets and shared projections",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    let mut config = disentangled::config(hf, [24, 1536, 24, 6144, 128_100]);
    let heads = config.stack.attention.heads();
    hf.only("attention_head_size", heads.d_head(config.stack.d_model));
    let kernel = hf.typed("conv_kernel_size", "a whole number", Value::as_u64);
    if let Some(kernel @ 1..) = kernel {
        hf.fault(format!(
            "`conv_kernel_size` = {kernel} adds a convolution next to the first block, which is not supported; models without \
             it can be imported (all of version 3)"
        ));
    }
    for key in ["conv_act", "conv_groups"] {
        hf.get(key);
    }
    let buckets = match hf.typed("position_buckets", "a whole number", Value::as_i64) {
        Some(1..) => Some(hf.count(&["position_buckets"], 256)),
        _ => None,
    };
    config.stack.position = PositionConfig::Disentangled(DisentangledConfig {
        buckets,
        shared_projections: hf.flag("share_att_key", false),
        norm: norm(hf),
        ..disentangled::positions(hf)
    });
    disentangled::shape(hf, "DebertaV2", config, 128_100)
}

/// The norm in `norm_rel_ebd`, a list of names between bars.
fn norm(hf: &HfConfig) -> NormConfig {
    let names = hf.word("norm_rel_ebd", "none").to_lowercase();
    match names.split('|').any(|name| name.trim() == "layer_norm") {
        true => layer_norm(hf.real("layer_norm_eps", 1e-7)),
        false => NormConfig::none(),
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = disentangled::write_as(of, "DebertaV2")?;
    let PositionConfig::Disentangled(positions) = &of.encoder().stack.position else {
        return None;
    };
    written["pos_att_type"] = json!(positions.terms);
    written["max_relative_positions"] = json!(positions.max_distance);
    written["position_buckets"] = match positions.buckets {
        Some(buckets) => json!(buckets),
        None => json!(-1),
    };
    written["share_att_key"] = json!(positions.shared_projections);
    written["norm_rel_ebd"] = match positions.norm.is_none() {
        true => json!("none"),
        false => json!("layer_norm"),
    };
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let width = config.stack.d_model;
    let mut table = Table::new("deberta.");
    let own_keys = match &config.stack.position {
        PositionConfig::Disentangled(c) => !c.shared_projections && c.terms.contains(&Term::C2p),
        _ => false,
    };
    for layer in 0..config.n_layers() {
        let theirs = format!("deberta.encoder.layer.{layer}.attention.self");
        let ours = format!("model.stack.blocks.{layer}.attention");
        let pairs = [
            ("query_proj", "query"),
            ("key_proj", "key"),
            ("value_proj", "value"),
        ];
        table.linears(&theirs, &ours, &pairs);
        for (name, path) in [("pos_key_proj", "keys"), ("pos_query_proj", "queries")] {
            let path = format!("model.position.{path}.{layer}");
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
        if own_keys {
            // A bias of these keys adds the same number to all scores of a query, so it has no effect.
            let name = format!("{theirs}.pos_key_proj.bias");
            table.constant(name, vec![width], true, move || vec![0.0; width]);
        }
    }
    table.norm("deberta.encoder.LayerNorm", "model.position.norm");
    add_rest(&mut table, of);
    table.ignored.push("pos_key_proj.bias");
    table
}
