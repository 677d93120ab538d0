//! Parts that the DeepSeek families share: latent attention, and shared and routed experts in layers above some dense ones.

use super::stack_summary::{activation_name, add_rotary, rotary};
use super::{HfShape, block, llama, rms_norm};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{WHOLE_HEADS, yarn_mscale};
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::latent::LatentConfig;
use crate::nn::feed_forward::moe::{ExpertConfig, MoeConfig};
use crate::nn::feed_forward::{FeedForwardConfig, GatedConfig};
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::rotary::{Pairing, RotaryConfig, ScalingConfig};
use crate::stack::{LayerGroup, StackConfig};
use serde_json::{Value, json};

/// The epsilon of the norms of latents, which the classes fix.
const LATENT_EPS: f64 = 1e-6;

/// Default sizes of a class.
pub(super) struct Defaults {
    pub context: usize,
    pub n_layers: usize,
    pub dense_layers: usize,
    pub n_heads: usize,
    pub d_model: usize,
    pub d_ff: usize,
    pub vocab_size: usize,
}

/// A model with these experts above its dense layers.
pub(super) fn shape(hf: &HfConfig, usual: &Defaults, pairing: Pairing, moe: MoeConfig) -> HfShape {
    let context = hf.count(&["max_position_embeddings"], usual.context);
    let n_layers = hf.count(&["num_hidden_layers"], usual.n_layers);
    // May be 0, which is not a valid count.
    let dense_layers = match hf.get("first_k_dense_replace").map(Value::as_u64) {
        None => usual.dense_layers,
        Some(Some(layers)) => usize::try_from(layers).unwrap_or(n_layers),
        Some(None) => {
            hf.fault("`first_k_dense_replace` must be a whole number of layers");
            0
        }
    };
    let attention = AttentionConfig::Latent(attention(hf, usual.n_heads));
    let dense = FeedForwardConfig::Gated(gated(hf, "intermediate_size", usual.d_ff));
    let moe = FeedForwardConfig::Moe(moe);
    let mut rotary = hf.rotary(WHOLE_HEADS, context);
    rotary.pairing = pairing;
    let mut config = DecoderConfig {
        tie_embeddings: hf.flag("tie_word_embeddings", false),
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], usual.d_model),
            norm: rms_norm(hf.real("rms_norm_eps", 1e-6)),
            position: PositionConfig::Rotary(rotary),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    match dense_layers.min(n_layers) {
        layers if layers == 0 || layers == n_layers => {
            config.n_layers = Some(n_layers);
            config.stack.attention = attention;
            config.stack.feed_forward = if layers == 0 { moe } else { dense };
        }
        layers => {
            let group = |repeat, feed_forward| LayerGroup {
                repeat,
                attention: Some(attention.clone()),
                feed_forward: Some(feed_forward),
                ..LayerGroup::default()
            };
            config.layers = vec![group(layers, dense), group(n_layers - layers, moe)];
        }
    }
    HfShape::language_model(config, hf.count(&["vocab_size"], usual.vocab_size), context)
}

fn attention(hf: &HfConfig, usual_heads: usize) -> LatentConfig {
    let n_heads = hf.count(&["num_attention_heads"], usual_heads);
    let (d_nope, d_rope) = (
        hf.count(&["qk_nope_head_dim"], 128),
        hf.count(&["qk_rope_head_dim"], 64),
    );
    hf.only("num_key_value_heads", n_heads);
    hf.only("head_dim", d_rope);
    hf.only("qk_head_dim", d_nope.saturating_add(d_rope));
    let q_rank = match hf.is_null("q_lora_rank") {
        true => None,
        false => Some(hf.count(&["q_lora_rank"], 1536)),
    };
    let plain = LatentConfig {
        n_heads,
        d_nope,
        d_rope,
        d_value: hf.count(&["v_head_dim"], 128),
        kv_rank: hf.count(&["kv_lora_rank"], 512),
        q_rank,
        bias: hf.flag("attention_bias", false),
        norm: rms_norm(LATENT_EPS),
        scale: None,
    };
    match hf.score_scale() {
        1.0 => plain,
        sharper => LatentConfig {
            scale: Some(usual_scale(&plain) * sharper),
            ..plain
        },
    }
}

/// The factor on attention scores without YaRN.
fn usual_scale(attention: &LatentConfig) -> f64 {
    1.0 / (attention.d_key() as f64).sqrt()
}

pub(super) fn gated(hf: &HfConfig, width: &str, usual: usize) -> GatedConfig {
    GatedConfig {
        d_ff: Some(hf.count(&[width], usual)),
        activation: hf.activation("hidden_act", "silu"),
        ..GatedConfig::default()
    }
}

/// The config.json without the keys for choosing experts, and the routed experts, if there are any.
pub(super) fn written<'a>(of: &'a HfShape, class: &str) -> Option<(Value, Option<&'a MoeConfig>)> {
    let config = of.decoder_if_any()?;
    let (depth, stack) = (config.depth(), &config.stack);
    let AttentionConfig::Latent(attention) = stack.block(&depth, 0).attention? else {
        return None;
    };
    let layers = || stack.blocks(&depth).filter_map(|block| block.feed_forward);
    let dense = layers().find_map(|layer| match layer {
        FeedForwardConfig::Gated(c) => Some(c),
        _ => None,
    });
    let routed = layers().find_map(|layer| match layer {
        FeedForwardConfig::Moe(c) => Some(c),
        _ => None,
    });
    let activation = match (dense, routed.map(|moe| &moe.expert)) {
        (Some(c), _) | (None, Some(ExpertConfig::Gated(c))) => c.activation,
        (None, _) => return None,
    };
    let is_dense = |layer: &&FeedForwardConfig| !matches!(layer, FeedForwardConfig::Moe(_));
    let d_model = stack.d_model;
    let NormConfig::Rms(norm) = &stack.norm else {
        return None;
    };
    let mut written = json!({
        "architectures": [class],
        "vocab_size": of.shape.vocab_size,
        "max_position_embeddings": of.shape.context,
        "hidden_size": d_model,
        "num_hidden_layers": depth.blocks(),
        "num_attention_heads": attention.n_heads,
        "num_key_value_heads": attention.n_heads,
        "qk_nope_head_dim": attention.d_nope,
        "qk_rope_head_dim": attention.d_rope,
        "v_head_dim": attention.d_value,
        "kv_lora_rank": attention.kv_rank,
        "q_lora_rank": attention.q_rank,
        "attention_bias": attention.bias,
        "attention_dropout": stack.dropouts().attention,
        "first_k_dense_replace": layers().take_while(is_dense).count(),
        "hidden_act": activation_name(activation),
        "rms_norm_eps": norm.eps,
        "tie_word_embeddings": config.tie_embeddings,
    });
    if let Some(dense) = dense {
        written["intermediate_size"] = json!(dense.d_ff(d_model));
    }
    if let Some(moe) = routed {
        add_experts(&mut written, moe, d_model);
    }
    let rotary = rotary(stack)?;
    add_rotary(&mut written, rotary, "rope_theta");
    add_sharpening(&mut written, attention, rotary);
    Some((written, routed))
}

fn add_experts(written: &mut Value, moe: &MoeConfig, d_model: usize) {
    for (key, value) in [
        ("n_routed_experts", json!(moe.n_experts)),
        ("num_experts_per_tok", json!(moe.top_k)),
        ("n_shared_experts", json!(moe.shared)),
        ("moe_intermediate_size", json!(moe.expert.d_ff(d_model))),
        ("routed_scaling_factor", json!(moe.scale)),
    ] {
        written[key] = value;
    }
}

/// If positions are scaled by YaRN, adds the key from which the class derives the factor on attention scores.
fn add_sharpening(written: &mut Value, attention: &LatentConfig, rotary: &RotaryConfig) {
    let (ScalingConfig::Yarn(yarn), Some(scale)) = (&rotary.scaling, attention.scale) else {
        return;
    };
    let usual = usual_scale(attention);
    let exact = ((scale / usual).sqrt() - 1.0) / (0.1 * yarn.factor.ln());
    let rounded = (exact * 1e9).round() / 1e9;
    let gives = |all: f64| usual * yarn_mscale(yarn.factor, all).powi(2) == scale;
    let all = if gives(rounded) { rounded } else { exact };
    written["rope_scaling"]["mscale_all_dim"] = json!(all);
}

/// The table of both families; DeepSeek-V2's experts have no correction biases.
pub(super) fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let depth = config.depth();
    let mut table = Table::new("model.");
    table.same("model.embed_tokens.weight", "embedding.weight");
    for (layer, of_block) in config.stack.blocks(&depth).enumerate() {
        let theirs = format!("model.layers.{layer}");
        let ours = block(layer);
        table.norm(&format!("{theirs}.input_layernorm"), &ours.attention_norm);
        let norm = format!("{theirs}.post_attention_layernorm");
        table.norm(&norm, &ours.feed_forward_norm);
        if let Some(AttentionConfig::Latent(c)) = of_block.attention {
            let theirs = format!("{theirs}.self_attn");
            add_attention(&mut table, &theirs, &ours.attention, c);
        }
        let theirs = format!("{theirs}.mlp");
        match of_block.feed_forward {
            Some(FeedForwardConfig::Moe(c)) => {
                add_routed(&mut table, &theirs, &ours.feed_forward, c.n_experts);
            }
            _ => table.linears(&theirs, &ours.feed_forward, &MATRICES),
        }
    }
    llama::with_norm_and_head(table, config.tie_embeddings)
}

/// The matrices of a gated layer: HF's names and ours.
pub(super) const MATRICES: [(&str, &str); 3] = [
    ("gate_proj", "gate"),
    ("up_proj", "up"),
    ("down_proj", "down"),
];

fn add_attention(table: &mut Table, theirs: &str, ours: &str, config: &LatentConfig) {
    let queries = match config.q_rank {
        Some(_) => [("q_a_proj", "query_latent"), ("q_b_proj", "query")].as_slice(),
        None => &[("q_proj", "query")],
    };
    table.linears(theirs, ours, queries);
    table.linears(theirs, ours, &[("o_proj", "output")]);
    let norms = [
        ("q_a_layernorm", "query_norm"),
        ("kv_a_layernorm", "latent_norm"),
    ];
    table.norms(theirs, ours, &norms);
    let path = |part: &str| format!("{ours}.{part}");
    let down = [
        (&*path("latent"), config.kv_rank),
        (&*path("shared_key"), config.d_rope),
    ];
    table.stacked(&format!("{theirs}.kv_a_proj_with_mqa"), down);
    let up = [
        (&*path("key"), config.d_nope),
        (&*path("value"), config.d_value),
    ];
    table.stacked_by(config.n_heads, &format!("{theirs}.kv_b_proj"), up);
}

fn add_routed(table: &mut Table, theirs: &str, ours: &str, n_experts: usize) {
    table.linear(
        &format!("{theirs}.gate"),
        &format!("{ours}.router"),
        Orientation::OutIn,
    );
    table.same(
        format!("{theirs}.gate.e_score_correction_bias"),
        format!("{ours}.correction"),
    );
    let shared = format!("{theirs}.shared_experts");
    table.linears(&shared, &format!("{ours}.shared"), &MATRICES);
    add_expert_matrices(table, theirs, ours, n_experts);
}

/// The matrices of `n_experts` gated experts of a layer.
pub(super) fn add_expert_matrices(table: &mut Table, theirs: &str, ours: &str, n_experts: usize) {
    let expert = |part: &str| format!("{ours}.experts.{part}.weight");
    for (name, part) in MATRICES {
        let names = (0..n_experts).map(|number| format!("{theirs}.experts.{number}.{name}.weight"));
        table.experts(names.collect(), expert(part));
    }
    // The names in version 5's own modules.
    table.or_fused_experts(
        format!("{theirs}.experts.gate_up_proj"),
        [expert("gate"), expert("up")],
    );
    table.alias(format!("{theirs}.experts.down_proj"), expert("down"));
}
