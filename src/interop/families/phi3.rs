//! Phi-3 and Phi-4 (Abdin et al. 2024, arXiv:2404.14219): LLaMA with queries, keys and values in one matrix, and both branches of
//! its gated layers in another. Releases with long contexts scale each rotary wavelength by its own factor (LongRoPE).

use super::stack_summary::rotary;
use super::{Family, HfShape, block, fused_in_thirds, llama, mistral};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::interop::rename::{Orientation, Table};
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::position::rotary::ScalingConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "phi3",
    summary: "Phi-3 and 4: LLaMA with fused matrices, some with a sliding window",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    let keys = RotaryKeys {
        fraction: Some(("partial_rotary_factor", 1.0)),
        original_context: Some(4096),
        ..WHOLE_HEADS
    };
    let mut config = mistral::windowed(hf, llama::config_with_rotary(hf, keys));
    let scaled = rotary(&config.stack).map(|rotary| &rotary.scaling);
    if !matches!(
        scaled,
        Some(ScalingConfig::None(_) | ScalingConfig::Longrope(_))
    ) {
        hf.fault("rope scaling must be \"default\" or \"longrope\": the class of transformers supports no other kind");
    }
    // The class has no such biases, whatever a file says.
    llama::require_no_biases(hf, &["attention_bias", "mlp_bias", "lm_head_bias"]);
    // Keys of Phi-4-mini's own code, which has no layer that they would change.
    for key in ["full_attn_mod", "interpolate_factor"] {
        hf.only(key, 1);
    }
    config.stack.norm = super::rms_norm(hf.real("rms_norm_eps", 1e-5));
    config.stack.dropout_residual = Some(hf.real("resid_pdrop", 0.0));
    llama::shape(hf, config)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = llama::write_as(of, "Phi3ForCausalLM")?;
    let keys = written.as_object_mut()?;
    for key in ["attention_bias", "mlp_bias"] {
        keys.shift_remove(key);
    }
    let stack = &of.decoder_if_any()?.stack;
    let rotary = rotary(stack)?;
    written["partial_rotary_factor"] = json!(rotary.fraction);
    if let ScalingConfig::Longrope(c) = &rotary.scaling {
        // The class ignores the key inside the object.
        written["original_max_position_embeddings"] = json!(c.original_context);
    }
    written["sliding_window"] = json!(llama::window(of));
    written["resid_pdrop"] = json!(stack.dropouts().residual);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("model.");
    table.same("model.embed_tokens.weight", "embedding.weight");
    let fused = fused_in_thirds(config);
    for layer in 0..config.n_layers() {
        let theirs = format!("model.layers.{layer}");
        let ours = block(layer);
        table.norm(&format!("{theirs}.input_layernorm"), &ours.attention_norm);
        let norm = format!("{theirs}.post_attention_layernorm");
        table.norm(&norm, &ours.feed_forward_norm);
        let qkv = format!("{theirs}.self_attn.qkv_proj");
        table.fused(&qkv, &ours.attention, Orientation::OutIn, fused);
        let output = [("self_attn.o_proj", "output")];
        table.linears(&theirs, &ours.attention, &output);
        add_branches(&mut table, of, &theirs, &ours.feed_forward);
    }
    llama::with_norm_and_head(table, config.tie_embeddings)
}

/// The gated layer of a block: one matrix with the gate's rows before those of the linear branch.
fn add_branches(table: &mut Table, of: &HfShape, theirs: &str, ours: &str) {
    let stack = &of.decoder().stack;
    if let FeedForwardConfig::Gated(gated) = &stack.feed_forward {
        let d_ff = gated.d_ff(stack.d_model);
        let path = |part: &str| format!("{ours}.{part}");
        let branches = [(&*path("gate"), d_ff), (&*path("up"), d_ff)];
        table.stacked(&format!("{theirs}.mlp.gate_up_proj"), branches);
        table.linears(theirs, ours, &[("mlp.down_proj", "down")]);
    }
}
