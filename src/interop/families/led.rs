//! LED (Beltagy et al. 2020, section 7): BART with a Longformer as encoder, with positions for 16,384 source tokens and
//! 1,024 target tokens.

use super::{Family, HfShape, bart, windows};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::{GlobalTokens, ModelConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::task::{TaskConfig, TranslationConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "led",
    summary: "LED: BART with sliding windows and global tokens in the encoder",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    bart::require_class(hf, &["LEDForConditionalGeneration", "LEDModel"]);
    // A key of BART, which the class ignores.
    hf.only("scale_embedding", false);
    let context = hf.count(&["max_encoder_position_embeddings"], 16384);
    let written = hf.count(&["max_decoder_position_embeddings"], 1024);
    let mut config = bart::config(hf);
    let encoder = config.encoder_depth();
    let windows = windows::read(hf, encoder.blocks());
    let block = config.stack.block(&encoder, 0);
    if let (Some(attention), Some(feed_forward)) = (block.attention, block.feed_forward) {
        config.encoder_layers = windows::groups(&attention.heads(), feed_forward, &windows);
    }
    config.embedding_norm = true;
    config.stack.position = PositionConfig::Learned(LearnedConfig {
        max_len: Some(context),
        first: 0,
    });
    config.target_max_len = (written != context).then_some(written);
    let tied = bart::tied(hf, "led.");
    config.share_embeddings = tied;
    config.tie_embeddings = tied;
    config.head_bias = hf.has_tensor("final_logits_bias");
    let vocab_size = hf.count(&["vocab_size"], 50265);
    HfShape {
        model: ModelConfig::EncoderDecoder(config),
        task: TaskConfig::Translation(TranslationConfig {
            global_tokens: Some(GlobalTokens::None),
            ..TranslationConfig::default()
        }),
        shape: Shape::of_text(context, vocab_size),
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let ModelConfig::EncoderDecoder(config) = &of.model else {
        return None;
    };
    if config.embedding_scale {
        return None;
    }
    let windows = windows::write_windows(&config.stack, &config.encoder_depth())?;
    let mut written = bart::write_as(of, "LEDForConditionalGeneration")?;
    let keys = written.as_object_mut()?;
    keys.remove("max_position_embeddings");
    let rows = config.position_rows(of.shape.context)?;
    written["max_encoder_position_embeddings"] = json!(rows[0]);
    written["max_decoder_position_embeddings"] = json!(rows[1]);
    written["attention_window"] = json!(windows);
    written["tie_word_embeddings"] = json!(config.tie_embeddings);
    Some(written)
}

/// BART's table with another prefix, and the encoder's attention.
fn table(of: &HfShape) -> Table {
    let mut table = bart::table(of);
    table.prefix = "led.";
    let renamed = |name: &str| match name.strip_prefix("model.") {
        Some(rest) => format!("led.{rest}"),
        None => name.to_string(),
    };
    let in_encoder = |name: &str| {
        let Some((layer, rest)) = name
            .strip_prefix("led.encoder.layers.")
            .and_then(|rest| rest.split_once(".self_attn."))
        else {
            return name.to_string();
        };
        let (part, kind) = rest.split_once('.').unwrap_or((rest, ""));
        let part = match part {
            "q_proj" => "longformer_self_attn.query",
            "k_proj" => "longformer_self_attn.key",
            "v_proj" => "longformer_self_attn.value",
            _ => "output",
        };
        format!("led.encoder.layers.{layer}.self_attn.{part}.{kind}")
    };
    for rule in &mut table.rules {
        for name in &mut rule.theirs {
            *name = in_encoder(&renamed(name));
        }
    }
    for (copy, original) in &mut table.copies {
        (*copy, *original) = (renamed(copy), renamed(original));
    }
    table.ignored.iter_mut().for_each(|name| {
        if *name == "model.shared.weight" {
            *name = "led.shared.weight";
        }
    });
    for layer in 0..of.encoder_decoder().encoder_depth().blocks() {
        for part in ["query", "key", "value"] {
            let theirs =
                format!("led.encoder.layers.{layer}.self_attn.longformer_self_attn.{part}_global");
            let ours = format!("model.encoder.stack.blocks.{layer}.attention.global.{part}");
            table.linear(&theirs, &ours, Orientation::OutIn);
        }
    }
    table
}
