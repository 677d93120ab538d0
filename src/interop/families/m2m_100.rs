//! M2M-100 and NLLB-200's dense models (Fan et al. 2020, arXiv:2010.11125; NLLB Team 2022, arXiv:2207.04672): BART's stacks with
//! norms before the layers and after the last one, without a norm on the embeddings. Positions are fairseq's sinusoids: all sines
//! before all cosines, counted from the position after the padding id. Folders have no table of them.
//!
//! NLLB's mixture of experts (`nllb-moe`) is not supported.

use super::{Family, HfShape, bart};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::ModelConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::sinusoidal::{Layout, SinusoidalConfig};
use crate::stack::NormPlacement;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "m2m_100",
    summary: "M2M-100 and NLLB-200: pre-norm encoder-decoder, fairseq's sinusoidal positions",
    read,
    write,
    table,
    declined: None,
};

const CLASS: &str = "M2M100ForConditionalGeneration";
/// Default padding id.
const PADDING: u64 = 1;

fn read(hf: &HfConfig) -> HfShape {
    hf.only("normalize_embedding", false);
    hf.only("static_position_embeddings", true);
    bart::require_class(hf, &[CLASS, "M2M100Model"]);
    for key in ["encoder_layerdrop", "decoder_layerdrop"] {
        let rate = hf.real(key, 0.0);
        if rate > 0.0 {
            hf.warn(format!(
                "`{key}` = {rate:?}: in training, the class of transformers skips a layer with this probability; a run that \
                 starts from the imported one skips none"
            ));
        }
    }
    let context = hf.count(&["max_position_embeddings"], 1024);
    let mut config = bart::config_with_activation(hf, NormPlacement::Pre, "relu");
    let d_model = config.stack.d_model;
    if d_model % 2 == 1 {
        hf.fault(format!(
            "`d_model` = {d_model} must be even: the class pads its sinusoids with a zero at odd sizes, which is not supported here"
        ));
    }
    config.embedding_scale = hf.flag("scale_embedding", true);
    config.stack.dropout_attention = Some(hf.real("attention_dropout", 0.1));
    config.stack.position = PositionConfig::Sinusoidal(SinusoidalConfig {
        layout: Layout::Halves,
        endpoint: true,
        first: padding(hf) + 1,
        ..SinusoidalConfig::default()
    });
    let mut of = bart::shape(hf, config, context);
    of.shape.vocab_size = hf.count(&["vocab_size"], 128_112);
    if let ModelConfig::EncoderDecoder(config) = &mut of.model {
        config.head_bias = false;
    }
    of
}

/// The padding id; positions are counted from the next one.
fn padding(hf: &HfConfig) -> usize {
    let said = hf.get("pad_token_id").map_or(Some(PADDING), Value::as_u64);
    match said.and_then(|id| u32::try_from(id).ok()) {
        Some(id) => id as usize,
        None => {
            hf.fault("`pad_token_id` is not the id of a token");
            0
        }
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = bart::write_as(of, CLASS)?;
    let ModelConfig::EncoderDecoder(config) = &of.model else {
        return None;
    };
    let PositionConfig::Sinusoidal(SinusoidalConfig { first, .. }) = config.stack.position else {
        return None;
    };
    written["tie_word_embeddings"] = json!(config.tie_embeddings);
    written["pad_token_id"] = json!(first.checked_sub(1)?);
    Some(written)
}

/// BART's table. The first files have tensors of positions that no class reads.
fn table(of: &HfShape) -> Table {
    let mut table = bart::table(of);
    table.ignored.extend([
        "encoder.embed_positions.weights",
        "decoder.embed_positions.weights",
    ]);
    table
}
