//! Marian (Junczys-Dowmunt et al. 2018) as in the OPUS-MT models: BART's stacks without a norm on the embeddings,
//! with sinusoids whose sines all precede their cosines.

use super::{Family, HfShape, bart};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::ModelConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::sinusoidal::{Layout, SinusoidalConfig, table as sinusoids};
use crate::task::{TaskConfig, TranslationConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "marian",
    summary: "Marian: post-norm encoder-decoder, sinusoidal positions",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("normalize_embedding", false);
    hf.only("static_position_embeddings", true);
    // Written by Marian's converter, without an effect on sinusoids.
    hf.get("extra_pos_embeddings");
    bart::require_class(hf, &["MarianMTModel"]);
    let context = hf.count(&["max_position_embeddings"], 1024);
    let source = hf.count(&["vocab_size"], 58101);
    let target = hf.count(&["decoder_vocab_size"], source);
    let shared = hf.flag("share_encoder_decoder_embeddings", true);
    let tied = bart::tied(hf, "model.");
    if shared && source != target {
        hf.fault(format!(
            "`decoder_vocab_size` = {target} must be `vocab_size` = {source}, because encoder and decoder share their embeddings"
        ));
    }
    let mut config = bart::config(hf);
    config.share_embeddings = shared && tied;
    config.tie_embeddings = tied;
    config.head_bias = hf.has_tensor("final_logits_bias");
    config.stack.position = PositionConfig::Sinusoidal(SinusoidalConfig {
        layout: Layout::Halves,
        ..SinusoidalConfig::default()
    });
    let mut shape = Shape::of_text(context, target);
    shape.source_vocab_size = (!config.share_embeddings).then_some(source);
    HfShape {
        model: ModelConfig::EncoderDecoder(config),
        task: TaskConfig::Translation(TranslationConfig::default()),
        shape,
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = bart::write_as(of, "MarianMTModel")?;
    let config = of.encoder_decoder();
    written["decoder_vocab_size"] = json!(of.shape.vocab_size);
    written["tie_word_embeddings"] = json!(config.tie_embeddings);
    written["share_encoder_decoder_embeddings"] =
        json!(config.share_embeddings || of.shape.source_vocab_size.is_none());
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = bart::table(of);
    if of.shape.source_vocab_size.is_some() {
        // Separate tables have no common copy.
        table.copies.clear();
    }
    let (rows, d_model) = (of.shape.context, of.encoder_decoder().stack.d_model);
    for side in ["encoder", "decoder"] {
        let name = format!("model.{side}.embed_positions.weight");
        table.constant(name, vec![rows, d_model], false, move || {
            sinusoids(0, rows, d_model, 10_000.0, Layout::Halves)
        });
    }
    table
}
