//! Qwen3-Next (Qwen Team 2025): three layers of gated delta networks for each layer of gated attention, and narrow experts beside
//! a gated expert that all tokens use.
//!
//! Only what the transformers class computes is imported: the modules that predict further tokens are not part of it.

use super::deepseek::{MATRICES, add_expert_matrices};
use super::{Family, HfShape, block, layer_types, llama};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::interop::rename::Table;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::attention::multi_head::gate::Gate;
use crate::nn::feed_forward::moe::{ExpertConfig, MoeConfig};
use crate::nn::feed_forward::{Activation, FeedForwardConfig, GatedConfig};
use crate::nn::norm::NormConfig;
use crate::nn::recurrent::MixerConfig;
use crate::nn::recurrent::gated_delta::GatedDeltaConfig;
use crate::stack::LayerGroup;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "qwen3_next",
    summary: "Qwen3-Next: gated delta networks, gated attention in every fourth layer, experts with a gated shared one",
    read,
    write,
    table,
    declined: None,
};

/// The kinds of layers in `layer_types`.
const LINEAR: &str = "linear_attention";
const FULL: &str = "full_attention";

fn read(hf: &HfConfig) -> HfShape {
    let keys = RotaryKeys {
        fraction: Some(("partial_rotary_factor", 0.25)),
        ..WHOLE_HEADS
    };
    llama::require_no_biases(hf, &["mlp_bias"]);
    let mut config = llama::config_with_rotary(hf, keys);
    if hf.activation("hidden_act", "silu") != Activation::Silu {
        hf.fault(
            "`hidden_act` must be \"silu\": the convolutions of the delta networks also use it",
        );
    }
    let eps = hf.real("rms_norm_eps", 1e-6);
    let norm = super::zero_centered(eps);
    let mut heads = super::multi_head(&config);
    heads.d_head = Some(hf.count(&["head_dim"], 256));
    heads.qk_norm = norm.clone();
    heads.gate = Some(Gate::Elementwise);
    let (attention, mixer) = (AttentionConfig::MultiHead(heads), mixer(hf, eps));
    let dense = config.stack.feed_forward.clone();
    let moe = FeedForwardConfig::Moe(experts(hf));
    let n_layers = config.n_layers();
    let (linear, routed) = (linear(hf, n_layers), routed(hf, n_layers));
    let layers: Vec<(bool, bool)> = linear.into_iter().zip(routed).collect();
    config.layers = layer_types::groups(&layers, |(linear, routed)| LayerGroup {
        attention: (!linear).then(|| attention.clone()),
        mixer: linear.then(|| MixerConfig::GatedDelta(mixer.clone())),
        feed_forward: Some(if *routed { &moe } else { &dense }.clone()),
        ..LayerGroup::default()
    });
    config.stack.norm = norm;
    config.stack.attention = AttentionConfig::default();
    config.stack.feed_forward = FeedForwardConfig::default();
    llama::shape(hf, config)
}

/// Whether each of `layers` layers is a gated delta network.
fn linear(hf: &HfConfig, layers: usize) -> Vec<bool> {
    let interval = hf.count(&["full_attention_interval"], 4);
    let Some(list) = hf.get("layer_types") else {
        let linear = |layer: usize| !(layer + 1).is_multiple_of(interval);
        return (0..layers).map(linear).collect();
    };
    let of = |kind: &Value| match kind.as_str()? {
        LINEAR => Some(true),
        FULL => Some(false),
        _ => None,
    };
    let list = list.as_array();
    let kinds: Option<Vec<bool>> = list.and_then(|list| list.iter().map(of).collect());
    kinds.filter(|kinds| kinds.len() == layers).unwrap_or_else(|| {
        hf.fault(format!(
            "`layer_types` must be a list of \"{LINEAR}\" and \"{FULL}\", one for each of the {layers} layers"
        ));
        vec![false; layers]
    })
}

/// Whether each of `layers` layers has experts.
fn routed(hf: &HfConfig, layers: usize) -> Vec<bool> {
    let step = hf.count(&["decoder_sparse_step"], 1);
    let dense = hf.typed(
        "mlp_only_layers",
        "a list of layer numbers",
        Value::as_array,
    );
    let is_dense = |layer: usize| dense.is_some_and(|list| list.contains(&json!(layer)));
    (0..layers)
        .map(|layer| !is_dense(layer) && (layer + 1).is_multiple_of(step))
        .collect()
}

fn mixer(hf: &HfConfig, eps: f64) -> GatedDeltaConfig {
    GatedDeltaConfig {
        n_heads: hf.count(&["linear_num_value_heads"], 32),
        n_key_heads: Some(hf.count(&["linear_num_key_heads"], 16)),
        d_key: Some(hf.count(&["linear_key_head_dim"], 128)),
        d_value: Some(hf.count(&["linear_value_head_dim"], 128)),
        d_conv: hf.count(&["linear_conv_kernel_dim"], 4),
        norm_eps: eps,
        ..GatedDeltaConfig::default()
    }
}

fn experts(hf: &HfConfig) -> MoeConfig {
    let width = hf.count(&["moe_intermediate_size"], 512);
    let shared = hf.count(&["shared_expert_intermediate_size"], 512);
    if !shared.is_multiple_of(width) {
        hf.fault(format!(
            "`shared_expert_intermediate_size` = {shared} is not a multiple of `moe_intermediate_size` = {width}"
        ));
    }
    let n_experts = hf.count(&["num_experts"], 512);
    let top_k = hf.count(&["num_experts_per_tok"], 10);
    if top_k > n_experts {
        hf.fault(format!(
            "`num_experts_per_tok` = {top_k} is more than `num_experts` = {n_experts}"
        ));
    }
    MoeConfig {
        n_experts,
        top_k,
        shared: shared / width,
        shared_gate: true,
        expert: ExpertConfig::Gated(GatedConfig {
            d_ff: Some(width),
            ..GatedConfig::default()
        }),
        normalize_weights: Some(hf.flag("norm_topk_prob", true)),
        ..MoeConfig::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let (depth, stack) = (config.depth(), &config.stack);
    let blocks = || stack.blocks(&depth);
    let mixer = blocks().find_map(|block| match block.mixer {
        Some(MixerConfig::GatedDelta(mixer)) => Some(mixer),
        _ => None,
    });
    let heads = blocks().find_map(|block| block.attention)?.heads();
    let moe = blocks().find_map(|block| match block.feed_forward {
        Some(FeedForwardConfig::Moe(moe)) => Some(moe),
        _ => None,
    });
    let dense = blocks().find_map(|block| match block.feed_forward {
        Some(FeedForwardConfig::Gated(dense)) => Some(dense),
        _ => None,
    });
    let kinds = blocks().map(|block| if block.mixer.is_some() { LINEAR } else { FULL });
    let is_dense = |block: &crate::stack::BlockConfig| {
        !matches!(block.feed_forward, Some(FeedForwardConfig::Moe(_)))
    };
    let only = blocks().enumerate().filter(|(_, block)| is_dense(block));
    let NormConfig::Rms(norm) = &stack.norm else {
        return None;
    };
    let rotary = super::stack_summary::rotary(stack)?;
    let mut written = json!({
        "architectures": ["Qwen3NextForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": of.shape.context,
        "hidden_size": stack.d_model,
        "num_hidden_layers": depth.blocks(),
        "num_attention_heads": heads.n_heads,
        "num_key_value_heads": heads.n_kv_heads(),
        "head_dim": heads.d_head(stack.d_model),
        "attention_bias": heads.bias,
        "attention_dropout": stack.dropouts().attention,
        "hidden_act": "silu",
        "rms_norm_eps": norm.eps,
        "tie_word_embeddings": config.tie_embeddings,
        "layer_types": kinds.collect::<Vec<_>>(),
        "decoder_sparse_step": 1,
        "mlp_only_layers": only.map(|(layer, _)| layer).collect::<Vec<_>>(),
        "partial_rotary_factor": rotary.fraction,
    });
    if let Some(dense) = dense {
        written["intermediate_size"] = json!(dense.d_ff(stack.d_model));
    }
    if let Some(mixer) = mixer {
        write_mixer(&mut written, mixer, stack.d_model);
    }
    if let Some(moe) = moe {
        let width = moe.expert.d_ff(stack.d_model);
        written["num_experts"] = json!(moe.n_experts);
        written["num_experts_per_tok"] = json!(moe.top_k);
        written["moe_intermediate_size"] = json!(width);
        written["shared_expert_intermediate_size"] = json!(moe.shared * width);
        written["norm_topk_prob"] = json!(moe.normalizes());
    }
    super::stack_summary::add_rotary(&mut written, rotary, "rope_theta");
    Some(written)
}

fn write_mixer(written: &mut Value, mixer: &GatedDeltaConfig, d_model: usize) {
    for (key, value) in [
        ("linear_num_value_heads", mixer.n_heads),
        ("linear_num_key_heads", mixer.n_key_heads()),
        ("linear_key_head_dim", mixer.d_key(d_model)),
        ("linear_value_head_dim", mixer.d_value(d_model)),
        ("linear_conv_kernel_dim", mixer.d_conv),
    ] {
        written[key] = json!(value);
    }
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let d_model = config.stack.d_model;
    let depth = config.depth();
    let mut table = Table::new("model.");
    table.same("model.embed_tokens.weight", "embedding.weight");
    for (layer, of_block) in config.stack.blocks(&depth).enumerate() {
        let theirs = format!("model.layers.{layer}");
        let ours = block(layer);
        table.norm(&format!("{theirs}.input_layernorm"), &ours.attention_norm);
        let norm = format!("{theirs}.post_attention_layernorm");
        table.norm(&norm, &ours.feed_forward_norm);
        if let Some(MixerConfig::GatedDelta(mixer)) = of_block.mixer {
            let ours = format!("stack.blocks.{layer}.mixer");
            add_mixer(
                &mut table,
                &format!("{theirs}.linear_attn"),
                &ours,
                (mixer, d_model),
            );
        }
        if let Some(attention) = of_block.attention {
            let theirs = format!("{theirs}.self_attn");
            add_attention(
                &mut table,
                &theirs,
                &ours.attention,
                (&attention.heads(), d_model),
            );
        }
        let theirs = format!("{theirs}.mlp");
        match of_block.feed_forward {
            Some(FeedForwardConfig::Moe(moe)) => {
                add_routed(&mut table, &theirs, &ours.feed_forward, moe.n_experts);
            }
            _ => table.linears(&theirs, &ours.feed_forward, &MATRICES),
        }
    }
    llama::with_norm_and_head(table, config.tie_embeddings)
}

fn add_attention(
    table: &mut Table,
    theirs: &str,
    ours: &str,
    (heads, d_model): (&MultiHeadConfig, usize),
) {
    let path = |part: &str| format!("{ours}.{part}");
    let d_head = heads.d_head(d_model);
    let both = [(&*path("query"), d_head), (&*path("gate"), d_head)];
    table.stacked_by(heads.n_heads, &format!("{theirs}.q_proj"), both);
    let rest = [("k_proj", "key"), ("v_proj", "value"), ("o_proj", "output")];
    table.linears(theirs, ours, &rest);
    table.norms(
        theirs,
        ours,
        &[("q_norm", "query_norm"), ("k_norm", "key_norm")],
    );
}

/// The projections of a gated delta network, which HF stores by key heads.
fn add_mixer(
    table: &mut Table,
    theirs: &str,
    ours: &str,
    (mixer, d_model): (&GatedDeltaConfig, usize),
) {
    let path = |part: &str| format!("{ours}.{part}");
    let (groups, d_key) = (mixer.n_key_heads(), mixer.d_key(d_model));
    let heads = mixer.n_heads / groups;
    let values = heads * mixer.d_value(d_model);
    let mixed = [
        (&*path("input"), vec![d_key, d_key, values]),
        (&*path("gate"), vec![values]),
    ];
    table.stacked_in_sections(groups, &format!("{theirs}.in_proj_qkvz"), mixed);
    let numbers = [(&*path("beta"), heads), (&*path("decay.step"), heads)];
    table.stacked_by(groups, &format!("{theirs}.in_proj_ba"), numbers);
    for (name, part) in [("dt_bias", "decay.step.bias"), ("A_log", "decay.a_log")] {
        table.same(format!("{theirs}.{name}"), path(part));
    }
    let taps = vec![mixer.convolution_channels(d_model), 1, mixer.d_conv];
    table.reshaped(format!("{theirs}.conv1d.weight"), path("conv"), taps);
    table.norm(&format!("{theirs}.norm"), &path("norm"));
    table.linears(theirs, ours, &[("out_proj", "output")]);
}

fn add_routed(table: &mut Table, theirs: &str, ours: &str, n_experts: usize) {
    table.linears(
        theirs,
        ours,
        &[("gate", "router"), ("shared_expert_gate", "shared_gate")],
    );
    let shared = format!("{theirs}.shared_expert");
    table.linears(&shared, &format!("{ours}.shared"), &MATRICES);
    add_expert_matrices(table, theirs, ours, n_experts);
}
