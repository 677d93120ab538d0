//! RoBERTa (Liu et al. 2019): BERT with positions counted from after the padding id, and a head with its own names.

use super::{Family, HfShape, bert, stack_summary, text_heads};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::nn::feed_forward::Activation;
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "roberta",
    summary: "RoBERTa: BERT with positions that start after the padding id",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    read_as(hf, "Roberta", 50265)
}

/// RoBERTa or a related family whose classes begin with `name`; `vocab` is the class's default vocabulary size.
pub(super) fn read_as(hf: &HfConfig, name: &str, vocab: usize) -> HfShape {
    hf.only("position_embedding_type", "absolute");
    let rows = hf.count(&["max_position_embeddings"], 512);
    // The padding's row of the table is never read; positions are counted from the next row.
    let padding = hf.typed("pad_token_id", "the id of a token", |id| id.as_u64());
    let first = padding.map_or(1, |id| id as usize).saturating_add(1);
    if first >= rows {
        hf.fault(format!(
            "`pad_token_id` = {} leaves no position of `max_position_embeddings` = {rows}",
            first - 1
        ));
    }
    let mut config = bert::config(hf);
    // The head always uses GELU, whatever activation the blocks have.
    config.head_activation = Activation::Gelu;
    config.stack.position = PositionConfig::Learned(LearnedConfig {
        max_len: Some(rows),
        first,
    });
    let vocab_size = hf.count(&["vocab_size"], vocab);
    let shape = Shape::of_text(rows.saturating_sub(first).max(1), vocab_size);
    bert::shape(hf, name, config, shape)
}

fn write(of: &HfShape) -> Option<Value> {
    write_as(of, "Roberta")
}

/// The keys of RoBERTa and related families; `name` is the prefix of the family's classes.
pub(super) fn write_as(of: &HfShape, name: &str) -> Option<Value> {
    let config = of.encoder_if_any()?;
    let PositionConfig::Learned(positions) = &config.stack.position else {
        return None;
    };
    let mut written = bert::write_as(of, name)?;
    written["pad_token_id"] = json!(positions.first.checked_sub(1)?);
    let longest = stack_summary::positions(&config.stack, of.shape.context);
    written["max_position_embeddings"] = json!(longest + positions.first);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    table_as(of, "roberta", "roberta.")
}

/// The table of RoBERTa and related families; names of the encoder begin with `body`, and `prefix` is `body` with a dot.
pub(super) fn table_as(of: &HfShape, body: &str, prefix: &'static str) -> Table {
    let config = of.encoder();
    let mut table = Table::new(prefix);
    bert::add_body(&mut table, body, config);
    // The first layer of the head for whole texts equals BERT's pooler: tanh of a dense layer on the first position.
    let whole = ["classifier.dense", "classifier.out_proj"];
    if !text_heads::add(&mut table, &of.task, whole) {
        table.linear("lm_head.dense", "head.transform", Orientation::OutIn);
        table.norm("lm_head.layer_norm", "head.norm");
        table.same("lm_head.bias", "head.bias");
        if config.tie_embeddings {
            table.ignored.push("lm_head.decoder.weight");
            table.ignored.push("lm_head.decoder.bias");
        } else {
            bert::add_untied(&mut table, "lm_head.decoder", "lm_head");
            table.ignored.push("lm_head.bias");
        }
    }
    if !text_heads::is_sequence_task(&of.task) {
        table.ignored.push("roberta.pooler.dense.weight");
        table.ignored.push("roberta.pooler.dense.bias");
    }
    table
}
