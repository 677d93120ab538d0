//! BigBird (Zaheer et al. 2020): BERT whose blocks of positions attend to their neighbours, the ends of the text and some
//! random blocks, or (`original_full`) to all positions.
//!
//! transformers draws random blocks only in training, from numpy's global state; in evaluation it uses block 0 in place of
//! each. Here they are drawn in both, so that outputs differ for texts of more than 5 + 2·random blocks; shorter texts have
//! full attention in both.

use super::{Family, HfShape, bert, text_heads};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::big_bird::BigBirdConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::task::TaskConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "big_bird",
    summary: "BigBird: BERT with attention to neighbouring, global and random blocks",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    let mut config = bert::post_norm(
        hf,
        &bert::Defaults {
            activation: "gelu_new",
            ..bert::Defaults::of([768, 12, 3072])
        },
    );
    hf.only("position_embedding_type", "absolute");
    hf.only("is_decoder", false);
    hf.only("add_cross_attention", false);
    config.n_layers = Some(hf.count(&["num_hidden_layers"], 12));
    config.segments = hf.count(&["type_vocab_size"], 2);
    config.embedding_scale = hf.flag("rescale_embeddings", false);
    let context = hf.count(&["max_position_embeddings"], 4096);
    config.stack.position = PositionConfig::Learned(LearnedConfig {
        max_len: Some(context),
        ..LearnedConfig::default()
    });
    config.stack.attention = attention(hf, config.stack.attention.heads(), context);
    let activation = config.head_activation;
    let vocab_size = hf.count(&["vocab_size"], 50358);
    let mut shape = bert::shape(hf, "BigBird", config, Shape::of_text(context, vocab_size));
    if text_heads::is_sequence_task(&shape.task) {
        // The classifier's first layer uses the activation of the blocks.
        bert::set_pooler(&mut shape.model, activation);
    }
    text_heads::refuse_spans(hf, &shape.task, "its head has additional layers");
    shape
}

/// Attention over blocks or over all positions.
fn attention(hf: &HfConfig, heads: MultiHeadConfig, context: usize) -> AttentionConfig {
    let bias = hf.flag("use_bias", true);
    let heads = MultiHeadConfig {
        bias,
        out_bias: (!bias).then_some(true),
        ..heads
    };
    let block = hf.count(&["block_size"], 64);
    let random = hf.count(&["num_random_blocks"], 3);
    match hf.word("attention_type", "block_sparse") {
        "block_sparse" => {
            let whole = block.saturating_mul(random.saturating_mul(2).saturating_add(5));
            if context > whole {
                hf.warn(format!(
                    "this model uses random blocks in evaluation and transformers does not: outputs differ for texts of more \
                     than {whole} tokens, (5 + 2 · `num_random_blocks`) · `block_size`"
                ));
            }
            AttentionConfig::BigBird(BigBirdConfig {
                heads,
                block,
                random,
                seed: 0,
            })
        }
        other => {
            if other != "original_full" {
                hf.fault(format!(
                    "`attention_type` = \"{other}\" is neither \"block_sparse\" nor \"original_full\""
                ));
            }
            AttentionConfig::MultiHead(heads)
        }
    }
}

fn write(of: &HfShape) -> Option<Value> {
    if let TaskConfig::QuestionAnswering(_) = &of.task {
        return None;
    }
    let mut written = bert::write_as(of, "BigBird")?;
    let config = of.encoder();
    let attention = config.stack.block(&config.depth(), 0).attention?;
    match attention {
        AttentionConfig::BigBird(c) => {
            written["attention_type"] = json!("block_sparse");
            written["block_size"] = json!(c.block);
            written["num_random_blocks"] = json!(c.random);
        }
        AttentionConfig::MultiHead(_) => written["attention_type"] = json!("original_full"),
        _ => return None,
    }
    written["use_bias"] = json!(attention.heads().bias);
    written["rescale_embeddings"] = json!(config.embedding_scale);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let mut table = Table::new("bert.");
    bert::add_body(&mut table, "bert", config);
    let whole = ["classifier.dense", "classifier.out_proj"];
    if !text_heads::add(&mut table, &of.task, whole) {
        bert::add_pretraining(&mut table, "bert.pooler", config.tie_embeddings);
    }
    // The classes for masked tokens, for classes of texts and for tags have a pooler that they do not use.
    table.ignored.push("bert.pooler.weight");
    table.ignored.push("bert.pooler.bias");
    table
}
