//! Gemma 3, the text model only (Gemma Team 2025, arXiv:2503.19786): Gemma 2 with norms on queries and keys in place of
//! soft caps, five layers with a window for each layer with full attention, and rotary positions with two bases.

use super::gemma::{self, Defaults};
use super::gemma2;
use super::stack_summary::{add_rotary, rotary};
use super::{Family, HfShape, layer_types};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS, fits_per_layer_kind};

use crate::nn::position::PositionConfig;
use crate::nn::position::rotary::{RotaryConfig, ScalingConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gemma3_text",
    summary: "Gemma 3, text only: Gemma 2 with normalised queries and keys, rotary positions with two bases",
    read,
    write,
    table: gemma::sandwiched,
    declined: None,
};

const DEFAULTS: Defaults = Defaults {
    vocab: 262_208,
    width: 2304,
    layers: 26,
    heads: [8, 4],
    d_ff: 9216,
    context: 131_072,
};

/// Default rotary bases of layers with full attention, and of those with a window.
const THETA: f64 = 1e6;
const LOCAL_THETA: f64 = 1e4;

/// The objects in `rope_parameters` for layers with full attention, and for those with a window.
const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];

fn read(hf: &HfConfig) -> HfShape {
    let norm = super::zero_centered(hf.real("rms_norm_eps", 1e-6));
    let mut config = gemma2::config(hf, &DEFAULTS, norm, [None, None]);
    if let Some(cap) = super::multi_head_mut(&mut config).softcap.take() {
        hf.warn(format!(
            "`attn_logit_softcapping` = {cap} has no effect: the class of transformers does not cap attention scores, and \
             neither does this model"
        ));
    }
    let context = hf.count(&["max_position_embeddings"], DEFAULTS.context);
    let pattern = hf.count(&["sliding_window_pattern"], 6);
    // The class ignores its own copy of this key.
    hf.get("_sliding_window_pattern");
    let usual = |layer: usize| !(layer + 1).is_multiple_of(pattern);
    let sliding = layer_types::sliding(hf, config.n_layers(), usual);
    let [global, local] = positions(hf, context).map(PositionConfig::Rotary);
    let alike = global == local;
    let window = gemma2::window(hf);
    if sliding.iter().all(|sliding| *sliding) {
        config.stack.position = local;
        config.layers = layer_types::windowed_groups(&mut config.stack, &sliding, window, None);
    } else {
        config.stack.position = global;
        let local = (!alike).then_some(local);
        config.layers = layer_types::windowed_groups(&mut config.stack, &sliding, window, local);
    }
    gemma::shape(hf, &DEFAULTS, config)
}

/// The positions of layers with full attention, and of those with a window: one object each since version 5. A base that an
/// object lacks is read outside of it.
fn positions(hf: &HfConfig, context: usize) -> [RotaryConfig; 2] {
    let object = hf.get("rope_parameters").and_then(Value::as_object);
    let local_theta = hf.real("rope_local_base_freq", LOCAL_THETA);
    if object.is_some_and(|object| KINDS.iter().any(|kind| object.contains_key(*kind))) {
        let usual = [hf.real("rope_theta", THETA), local_theta];
        let objects = hf.nested("rope_parameters");
        let both = [0, 1].map(|kind| objects.rotary_in(KINDS[kind], usual[kind], context));
        hf.merge_faults(objects);
        return both;
    }
    if object.is_some_and(|object| !object.is_empty()) {
        hf.fault(format!(
            "`rope_parameters` has neither `{}` nor `{}`, and the class of transformers ignores its other keys: add an object \
             for each, or pass --ignore-key rope_parameters",
            KINDS[0], KINDS[1]
        ));
    }
    let global = RotaryKeys {
        default_theta: THETA,
        ..WHOLE_HEADS
    };
    let local = RotaryConfig {
        theta: local_theta,
        ..RotaryConfig::default()
    };
    let global = hf.rotary(global, context);
    [hf.for_layer_kind(global, "rope_scaling"), local]
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = gemma2::written(of, "Gemma3ForCausalLM")?;
    let config = of.decoder_if_any()?;
    let global = rotary(&config.stack)?;
    let depth = config.depth();
    let mut blocks = config.stack.blocks(&depth);
    let local = match blocks.find_map(|block| block.position) {
        Some(PositionConfig::Rotary(local)) => local,
        Some(_) => return None,
        None => global,
    };
    if !fits_per_layer_kind(global) || !fits_per_layer_kind(local) {
        return None;
    }
    written["rope_local_base_freq"] = json!(local.theta);
    if !matches!(local.scaling, ScalingConfig::None(_)) {
        // Top-level keys can only scale the positions of layers with full attention.
        written.as_object_mut()?.shift_remove("rope_scaling");
        written["rope_parameters"] = json!({
            "full_attention": object(global),
            "sliding_attention": object(local),
        });
    }
    Some(written)
}

/// The keys of one kind of layers, as an object.
fn object(rotary: &RotaryConfig) -> Value {
    let mut keys = json!({});
    add_rotary(&mut keys, rotary, "rope_theta");
    let mut object = match keys.get("rope_scaling") {
        Some(scaling) => scaling.clone(),
        None => json!({"rope_type": "default"}),
    };
    object["rope_theta"] = json!(rotary.theta);
    object
}
