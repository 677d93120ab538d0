//! mBART and mBART-50 (Liu et al. 2020, arXiv:2001.08210; Tang et al. 2020, arXiv:2008.00401): BART with norms before the layers,
//! and one after the last layer of each side.

use super::{Family, HfShape, bart};
use crate::interop::HfConfig;
use crate::stack::NormPlacement;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "mbart",
    summary: "mBART: pre-norm encoder-decoder, learned positions, layer norm on the embeddings",
    read,
    write,
    table: bart::table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("normalize_embedding", true);
    hf.only("static_position_embeddings", false);
    hf.only("extra_pos_embeddings", 2);
    bart::require_class(hf, &["MBartForConditionalGeneration", "MBartModel"]);
    let context = hf.count(&["max_position_embeddings"], 1024);
    let mut config = bart::config_with_norms(hf, NormPlacement::Pre);
    config.embedding_norm = true;
    config.stack.position = bart::learned(context);
    bart::shape(hf, config, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = bart::write_as(of, "MBartForConditionalGeneration")?;
    written["tie_word_embeddings"] = json!(of.encoder_decoder().tie_embeddings);
    Some(written)
}
