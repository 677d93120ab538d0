//! Mixtral (Jiang et al. 2024): Mistral with experts in every layer, a few of which each token uses.

use super::{Family, HfShape, llama, mistral};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::interop::rename::{Orientation, Table};
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::feed_forward::moe::{ExpertConfig, MoeConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "mixtral",
    summary: "Mixtral: Mistral with experts",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    let keys = RotaryKeys {
        default_theta: 1e6,
        ..WHOLE_HEADS
    };
    llama::require_no_biases(hf, &["attention_bias", "mlp_bias"]);
    let mut config = mistral::windowed(hf, llama::config_with_rotary(hf, keys));
    config.stack.norm = super::rms_norm(hf.real("rms_norm_eps", 1e-5));
    let n_experts = hf.count(&["num_local_experts"], 8);
    let top_k = hf.count(&["num_experts_per_tok"], 2);
    if top_k > n_experts {
        hf.fault(format!(
            "`num_experts_per_tok` = {top_k} is more than `num_local_experts` = {n_experts}"
        ));
    }
    if let FeedForwardConfig::Gated(expert) = config.stack.feed_forward {
        config.stack.feed_forward = FeedForwardConfig::Moe(MoeConfig {
            n_experts,
            top_k,
            expert: ExpertConfig::Gated(expert),
            // A single chosen probability is also normalised, and becomes 1.
            normalize_weights: Some(true),
            ..MoeConfig::default()
        });
    }
    llama::shape(hf, config)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let FeedForwardConfig::Moe(moe) = config.stack.block(&config.depth(), 0).feed_forward? else {
        return None;
    };
    let mut written = llama::write_as(of, "MixtralForCausalLM")?;
    let keys = written.as_object_mut()?;
    for key in ["attention_bias", "mlp_bias"] {
        keys.shift_remove(key);
    }
    written["num_local_experts"] = json!(moe.n_experts);
    written["num_experts_per_tok"] = json!(moe.top_k);
    written["sliding_window"] = json!(llama::window(of));
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = llama::table(of);
    let config = of.decoder();
    let FeedForwardConfig::Moe(moe) = &config.stack.feed_forward else {
        return table;
    };
    for layer in 0..config.n_layers() {
        let theirs = format!("model.layers.{layer}.block_sparse_moe");
        let ours = format!("model.stack.blocks.{layer}.feed_forward");
        table.linear(
            &format!("{theirs}.gate"),
            &format!("{ours}.router"),
            Orientation::OutIn,
        );
        for (name, part) in [("w1", "gate"), ("w3", "up"), ("w2", "down")] {
            let names = (0..moe.n_experts)
                .map(|expert| format!("{theirs}.experts.{expert}.{name}.weight"))
                .collect();
            table.experts(names, format!("{ours}.experts.{part}.weight"));
        }
        // The names in version 5's own modules.
        let theirs = format!("model.layers.{layer}.mlp");
        let expert = |part: &str| format!("{ours}.experts.{part}.weight");
        table.alias(
            format!("{theirs}.gate.weight"),
            format!("{ours}.router.weight"),
        );
        table.or_fused_experts(
            format!("{theirs}.experts.gate_up_proj"),
            [expert("gate"), expert("up")],
        );
        table.alias(format!("{theirs}.experts.down_proj"), expert("down"));
    }
    table
}
