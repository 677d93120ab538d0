//! gpt-oss (OpenAI 2025, model card): learned attention sinks, windows in every other layer, and experts whose branches are
//! clamped.

use super::llama;
use super::{Family, HfShape, block, layer_types, multi_head_mut};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::interop::rename::{Orientation, Table};
use crate::nn::attention::multi_head::sinks::Sinks;
use crate::nn::feed_forward::moe::{ExpertConfig, MoeConfig};
use crate::nn::feed_forward::{Activation, FeedForwardConfig, GatedConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gpt_oss",
    summary: "gpt-oss: learned attention sinks, sliding windows in every other layer, clamped experts",
    read,
    write,
    table,
    declined: None,
};

/// The factor inside the gate's sigmoid, which the class fixes.
const STEEPNESS: f64 = 1.702;

fn read(hf: &HfConfig) -> HfShape {
    let keys = RotaryKeys {
        default_theta: 150_000.0,
        ..WHOLE_HEADS
    };
    // Both keys repeat other keys.
    for copy in ["experts_per_token", "initial_context_length"] {
        hf.get(copy);
    }
    if ["rope_scaling", "rope_parameters"]
        .iter()
        .all(|key| hf.get(key).is_none())
    {
        hf.fault(
            "`rope_scaling` is missing, and the class then scales positions with its own defaults; add it, or {\"rope_type\": \
             \"default\"} for unscaled positions",
        );
    }
    // The class uses `swiglu_alpha` for the gate and ignores this key.
    hf.get("hidden_act");
    let mut config = llama::config_with_rotary(hf, keys);
    let bias = hf.flag("attention_bias", true);
    let d_head = hf.count(&["head_dim"], 64);
    let attention = multi_head_mut(&mut config);
    attention.sinks = Sinks::Learned;
    attention.bias = bias;
    attention.d_head = Some(d_head);
    config.stack.norm = super::rms_norm(hf.real("rms_norm_eps", 1e-5));
    config.stack.feed_forward = FeedForwardConfig::Moe(experts(hf));
    let sliding = layer_types::sliding(hf, config.n_layers(), |layer| layer % 2 == 0);
    let window = hf.count(&["sliding_window"], 128);
    config.layers = layer_types::windowed_groups(&mut config.stack, &sliding, window, None);
    llama::shape(hf, config)
}

fn experts(hf: &HfConfig) -> MoeConfig {
    hf.only("swiglu_alpha", STEEPNESS);
    let n_experts = hf.count(&["num_local_experts", "num_experts"], 128);
    let top_k = hf.count(&["num_experts_per_tok"], 4);
    if top_k > n_experts {
        hf.fault(format!(
            "`num_experts_per_tok` = {top_k} is more than `num_local_experts` = {n_experts}"
        ));
    }
    let clamp = hf.real("swiglu_limit", 7.0);
    if clamp <= 0.0 {
        hf.fault(format!("`swiglu_limit` = {clamp} must be above 0"));
    }
    MoeConfig {
        n_experts,
        top_k,
        router_bias: true,
        expert: ExpertConfig::Gated(GatedConfig {
            d_ff: Some(hf.count(&["intermediate_size"], 2880)),
            activation: Activation::QuickGelu,
            bias: true,
            clamp: Some(clamp),
            linear_offset: 1.0,
            ..GatedConfig::default()
        }),
        normalize_weights: Some(true),
        ..MoeConfig::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let depth = config.depth();
    let FeedForwardConfig::Moe(moe) = config.stack.block(&depth, 0).feed_forward? else {
        return None;
    };
    let ExpertConfig::Gated(expert) = &moe.expert else {
        return None;
    };
    let (types, window) = layer_types::write_layer_types(&config.stack, &depth)?;
    let mut written = llama::write_as(of, "GptOssForCausalLM")?;
    let keys = written.as_object_mut()?;
    for key in ["mlp_bias", "hidden_act"] {
        keys.shift_remove(key);
    }
    written["num_local_experts"] = json!(moe.n_experts);
    written["num_experts_per_tok"] = json!(moe.top_k);
    written["swiglu_limit"] = json!(expert.clamp?);
    written["sliding_window"] = json!(window.unwrap_or(128));
    written["layer_types"] = types;
    if written.get("rope_scaling").is_none() {
        written["rope_scaling"] = json!({"rope_type": "default"});
    }
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = llama::table(of);
    let config = of.decoder();
    let d_model = config.stack.d_model;
    let depth = config.depth();
    for (layer, of_block) in config.stack.blocks(&depth).enumerate() {
        let (theirs, ours) = (format!("model.layers.{layer}"), block(layer));
        let (attention, mlp) = (ours.attention, ours.feed_forward);
        let model = |path: String| format!("model.{path}");
        table.same(
            format!("{theirs}.self_attn.sinks"),
            model(format!("{attention}.sinks")),
        );
        let Some(FeedForwardConfig::Moe(moe)) = of_block.feed_forward else {
            continue;
        };
        table.linear(
            &format!("{theirs}.mlp.router"),
            &model(format!("{mlp}.router")),
            Orientation::OutIn,
        );
        let (experts, d_ff) = (moe.n_experts, moe.expert.d_ff(d_model));
        for (name, parts, [d_in, d_out]) in [
            (
                "gate_up_proj",
                ["gate", "up"].as_slice(),
                [d_model, 2 * d_ff],
            ),
            ("down_proj", &["down"], [d_ff, d_model]),
        ] {
            let theirs = format!("{theirs}.mlp.experts.{name}");
            let ours = |kind: &str| {
                let path = |part: &&str| model(format!("{mlp}.experts.{part}.{kind}"));
                parts.iter().map(path).collect()
            };
            let bias = format!("{theirs}_bias");
            table.experts_in_out(theirs, vec![experts, d_in, d_out], ours("weight"));
            table.experts_in_out(bias, vec![experts, d_out], ours("bias"));
        }
    }
    table
}
