//! Gemma 3 as a reader and writer of texts (Gemma Team 2025, arXiv:2503.19786): Gemma 2 with norms on queries and keys in
//! place of caps, five layers with a window to each that sees everything, and rotary positions of two bases.

use super::gemma::{self, Usual};
use super::gemma2;
use super::plain::{add_rotary, rotary};
use super::{Family, HfShape, layer_types};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};

use crate::nn::position::PositionConfig;
use crate::nn::position::rotary::{RotaryConfig, ScalingConfig};
use serde_json::{Value, json};

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gemma3_text",
    summary: "Gemma 3, texts alone: Gemma 2 with normalised queries and keys, rotary positions of two bases",
    read,
    write,
    table: gemma::sandwiched,
    declined: None,
};

const USUAL: Usual = Usual {
    vocab: 262_208,
    width: 2304,
    layers: 26,
    heads: [8, 4],
    d_ff: 9216,
    context: 131_072,
};

/// Bases of layers that see everything, and of those with a window.
const THETA: f64 = 1e6;
const LOCAL_THETA: f64 = 1e4;

fn read(hf: &HfConfig) -> HfShape {
    let norm = super::zero_centered(hf.real("rms_norm_eps", 1e-6));
    let mut config = gemma2::config(hf, &USUAL, norm, [None, None]);
    if let Some(cap) = super::heads(&mut config).softcap.take() {
        hf.warn(format!(
            "`attn_logit_softcapping` = {cap} has no effect: the class of transformers caps no scores of attention, and neither \
             does this model"
        ));
    }
    let context = hf.count(&["max_position_embeddings"], USUAL.context);
    let pattern = hf.count(&["sliding_window_pattern"], 6);
    // The class passes over its own copy.
    hf.get("_sliding_window_pattern");
    let usual = |layer: usize| !(layer + 1).is_multiple_of(pattern);
    let sliding = layer_types::sliding(hf, config.n_layers(), usual);
    let [global, local] = positions(hf, context).map(PositionConfig::Rotary);
    let alike = global == local;
    let window = gemma2::window(hf);
    if sliding.iter().all(|sliding| *sliding) {
        config.stack.position = local;
        config.layers = layer_types::in_windows(&mut config.stack, &sliding, window, None);
    } else {
        config.stack.position = global;
        let local = (!alike).then_some(local);
        config.layers = layer_types::in_windows(&mut config.stack, &sliding, window, local);
    }
    gemma::shape(hf, &USUAL, config)
}

/// The positions of layers that see everything, and of those with a window: an object for each since version 5.
fn positions(hf: &HfConfig, context: usize) -> [RotaryConfig; 2] {
    let by_kind = hf.get("rope_parameters").is_some_and(|object| {
        let kinds = ["full_attention", "sliding_attention"];
        kinds.iter().any(|kind| object.get(kind).is_some())
    });
    if by_kind {
        let objects = hf.nested("rope_parameters");
        let both = [
            objects.rotary_in("full_attention", THETA, context),
            objects.rotary_in("sliding_attention", LOCAL_THETA, context),
        ];
        hf.adopt(objects);
        // Copies for readers of earlier versions.
        hf.get("rope_theta");
        hf.get("rope_local_base_freq");
        return both;
    }
    let global = RotaryKeys {
        usual_theta: THETA,
        ..WHOLE_HEADS
    };
    let local = RotaryConfig {
        theta: hf.real("rope_local_base_freq", LOCAL_THETA),
        ..RotaryConfig::default()
    };
    [hf.rotary(global, context), local]
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
    written["rope_local_base_freq"] = json!(local.theta);
    if !matches!(local.scaling, ScalingConfig::None(_)) {
        // Beside each other, keys can stretch those of layers that see everything alone.
        written.as_object_mut()?.shift_remove("rope_scaling");
        written["rope_parameters"] = json!({
            "full_attention": object(global),
            "sliding_attention": object(local),
        });
    }
    Some(written)
}

/// The keys of one kind of layers in an object of their own.
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
