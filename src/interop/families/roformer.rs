//! RoFormer (Su et al. 2021): BERT with interleaved rotary positions instead of a position table. Some models also
//! rotate values, and some have embeddings narrower than their blocks.

use super::stack_summary::rotary;
use super::{Family, HfShape, bert, text_heads};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::nn::position::PositionConfig;
use crate::nn::position::rotary::{Pairing, RotaryConfig};
use crate::nn::position::sinusoidal::{Layout, table as sinusoids};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "roformer",
    summary: "RoFormer: BERT with interleaved rotary positions",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    // The class ignores this key.
    hf.only("position_embedding_type", "absolute");
    let mut config = bert::config(hf);
    let d_model = config.stack.d_model;
    // The class has no projection if the widths are equal.
    config.d_embedding = Some(hf.count(&["embedding_size"], d_model)).filter(|e| *e != d_model);
    config.stack.position = PositionConfig::Rotary(RotaryConfig {
        pairing: Pairing::Interleaved,
        rotate_values: hf.flag("rotary_value", false),
        ..RotaryConfig::default()
    });
    let context = hf.count(&["max_position_embeddings"], 1536);
    let vocab_size = hf.count(&["vocab_size"], 50000);
    let activation = config.head_activation;
    let mut shape = bert::shape(hf, "RoFormer", config, Shape::of_text(context, vocab_size));
    if text_heads::is_sequence_task(&shape.task) {
        // The classifier's first layer uses the activation of the blocks.
        bert::set_pooler(&mut shape.model, activation);
    }
    shape
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = bert::write_as(of, "RoFormer")?;
    let config = of.encoder();
    written["embedding_size"] = json!(config.d_embedding());
    written["rotary_value"] = json!(rotary(&config.stack)?.rotate_values);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let mut table = Table::new("roformer.");
    bert::add_body(&mut table, "roformer", config);
    let (theirs, ours) = ("roformer.embeddings_project", "model.projection");
    table.linear(theirs, ours, Orientation::OutIn);
    let whole = ["classifier.dense", "classifier.out_proj"];
    if !text_heads::add(&mut table, &of.task, whole) {
        bert::add_predictions(&mut table, config.tie_embeddings);
    }
    let heads = config.stack.attention.heads();
    let (rows, d_head) = (of.shape.context, heads.d_head(config.stack.d_model));
    let name = "roformer.encoder.embed_positions.weight".into();
    table.constant(name, vec![rows, d_head], true, move || {
        sinusoids(0, rows, d_head, 10_000.0, Layout::Halves)
    });
    table
}
