//! PEGASUS (Zhang et al. 2020, arXiv:1912.08777): BART's stacks with norms before the layers and after the last one, without a
//! norm on the embeddings, with sinusoids whose sines all precede their cosines.

use super::{Family, HfShape, bart};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::nn::position::PositionConfig;
use crate::nn::position::sinusoidal::{Layout, SinusoidalConfig, table as sinusoids};
use crate::stack::NormPlacement;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "pegasus",
    summary: "PEGASUS: pre-norm encoder-decoder, sinusoidal positions",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("normalize_embedding", false);
    hf.only("static_position_embeddings", true);
    hf.only("force_bos_token_to_be_generated", false);
    // Written by the converter of the released weights, without an effect on sinusoids.
    hf.get("extra_pos_embeddings");
    bart::require_class(hf, &["PegasusForConditionalGeneration", "PegasusModel"]);
    let context = hf.count(&["max_position_embeddings"], 1024);
    let mut config = bart::config_with_norms(hf, NormPlacement::Pre);
    config.stack.position = PositionConfig::Sinusoidal(SinusoidalConfig {
        layout: Layout::Halves,
        ..SinusoidalConfig::default()
    });
    bart::shape(hf, config, context)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = bart::write_as(of, "PegasusForConditionalGeneration")?;
    written["tie_word_embeddings"] = json!(of.encoder_decoder().tie_embeddings);
    Some(written)
}

/// BART's table. Files have the sinusoids, which follow from the shape.
fn table(of: &HfShape) -> Table {
    let mut table = bart::table(of);
    let (rows, d_model) = (of.shape.context, of.encoder_decoder().stack.d_model);
    for side in ["encoder", "decoder"] {
        let name = format!("model.{side}.embed_positions.weight");
        table.constant(name, vec![rows, d_model], true, move || {
            sinusoids(0, rows, d_model, 10_000.0, Layout::Halves)
        });
    }
    table
}
