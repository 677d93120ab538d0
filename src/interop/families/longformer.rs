//! Longformer (Beltagy et al. 2020): RoBERTa with sliding windows, and with global tokens, which have their own projections.

use super::{Family, HfShape, roberta, text_heads, windows};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::{GlobalTokens, ModelConfig};
use crate::task::TaskConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "longformer",
    summary: "Longformer: RoBERTa with sliding windows and global tokens",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("ignore_attention_mask", false);
    hf.only("attention_mode", "longformer");
    let mut of = roberta::read_as(hf, "Longformer", 30522);
    if let ModelConfig::Encoder(config) = &mut of.model {
        let windows = windows::read(hf, config.n_layers());
        let heads = config.stack.attention.heads();
        match windows.first() {
            Some(first) if windows.iter().all(|window| window == first) => {
                config.stack.attention = windows::attention(&heads, *first);
            }
            _ => config.layers = windows::groups(&heads, &config.stack.feed_forward, &windows),
        }
    }
    // The global tokens that the transformers classes use if no mask of them is given.
    match &mut of.task {
        TaskConfig::MaskedLm(task) => task.global_tokens = Some(GlobalTokens::None),
        TaskConfig::TextClassification(task) => task.global_tokens = Some(GlobalTokens::First),
        TaskConfig::MultiLabel(task) => task.global_tokens = Some(GlobalTokens::First),
        TaskConfig::Regression(task) => task.global_tokens = Some(GlobalTokens::First),
        TaskConfig::TokenClassification(task) => task.global_tokens = Some(GlobalTokens::None),
        TaskConfig::TextEmbedding(task) => task.global_tokens = Some(GlobalTokens::None),
        _ => {}
    }
    let why = "its global tokens are those before the first separator of a row";
    text_heads::refuse_spans(hf, &of.task, why);
    of
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.encoder_if_any()?;
    match &of.task {
        TaskConfig::QuestionAnswering(_) => return None,
        // The class itself makes no token global.
        TaskConfig::TextEmbedding(c) if c.global_tokens != Some(GlobalTokens::None) => return None,
        _ => {}
    }
    let windows = windows::write_windows(&config.stack, &config.depth())?;
    let mut written = roberta::write_as(of, "Longformer")?;
    written["attention_window"] = json!(windows);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = roberta::table_as(of, "longformer", "longformer.");
    for layer in 0..of.encoder().n_layers() {
        for part in ["query", "key", "value"] {
            let theirs = format!("longformer.encoder.layer.{layer}.attention.self.{part}_global");
            let ours = format!("model.stack.blocks.{layer}.attention.global.{part}");
            table.linear(&theirs, &ours, Orientation::OutIn);
        }
    }
    table.ignored.push("longformer.pooler.dense.weight");
    table.ignored.push("longformer.pooler.dense.bias");
    table
}
