//! SmolLM3 (Bakouch et al. 2025): LLaMA without rotary positions in some of its layers (Yang et al. 2025, "RoPE to
//! NoPE and back again").

use super::llama::{self, table};
use super::{Family, HfShape, layer_types};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::model::ModelConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::sliding_window::SlidingWindowConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::none::NoPositionConfig;
use crate::nn::position::rotary::RotaryConfig;
use crate::stack::LayerGroup;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "smollm3",
    summary: "SmolLM3: LLaMA with some layers without positions",
    read,
    write,
    table,
    declined: None,
};

/// Default rotary base.
const THETA: f64 = 2e6;

fn read(hf: &HfConfig) -> HfShape {
    let keys = RotaryKeys {
        default_theta: THETA,
        ..WHOLE_HEADS
    };
    let mut config = llama::config_with_rotary(hf, keys);
    config.tie_embeddings = hf.flag("tie_word_embeddings", true);
    let layers = config.n_layers();
    let turned = rotary_layers(hf, layers);
    let window = layer_types::window_if_used(hf, None);
    // Layers without positions have the window, unless the file names others.
    let sliding = match window {
        Some(_) => layer_types::sliding(hf, layers, |layer| !turned[layer]),
        None => vec![false; layers],
    };
    let stack = &mut config.stack;
    let full = stack.attention.clone();
    let windowed = window.map_or_else(
        || full.clone(),
        |window| {
            AttentionConfig::SlidingWindow(SlidingWindowConfig::with_window(full.heads(), window))
        },
    );
    let without = PositionConfig::None(NoPositionConfig {});
    let kinds: Vec<(bool, bool)> = turned.into_iter().zip(sliding).collect();
    match layer_types::period(&kinds) {
        [(turned, sliding)] => {
            if *sliding {
                stack.attention = windowed;
            }
            if !turned {
                stack.position = without;
            }
        }
        _ => {
            let feed_forward = &stack.feed_forward;
            config.layers = layer_types::groups(&kinds, |(turned, sliding)| LayerGroup {
                attention: Some(if *sliding { &windowed } else { &full }.clone()),
                feed_forward: Some(feed_forward.clone()),
                position: (!turned).then(|| without.clone()),
                ..LayerGroup::default()
            });
            stack.attention = Default::default();
            stack.feed_forward = Default::default();
        }
    }
    llama::shape(hf, config)
}

/// Whether each layer has rotary positions: `no_rope_layers` is 1 for layers that have them;
/// `no_rope_layer_interval` is used if it is absent.
fn rotary_layers(hf: &HfConfig, layers: usize) -> Vec<bool> {
    let interval = hf.count(&["no_rope_layer_interval"], 4);
    let Some(list) = hf.get("no_rope_layers") else {
        let turned = |layer: usize| !(layer + 1).is_multiple_of(interval);
        return (0..layers).map(turned).collect();
    };
    let of = |value: &Value| match value.as_u64()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    let list: Option<Vec<bool>> = list
        .as_array()
        .and_then(|list| list.iter().map(of).collect());
    match list.filter(|list| list.len() >= layers) {
        Some(list) => list[..layers].to_vec(),
        None => {
            hf.fault(format!(
                "`no_rope_layers` must be a list of 0 and 1, one for each of the {layers} layers"
            ));
            vec![true; layers]
        }
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = llama::write_as(&with_rotary(of), "SmolLM3ForCausalLM")?;
    llama::remove_default_head_dim(&mut written);
    let config = of.decoder_if_any()?;
    let (stack, depth) = (&config.stack, config.depth());
    let turned = |position: Option<&PositionConfig>| {
        let position = position.unwrap_or(&stack.position);
        u8::from(!matches!(position, PositionConfig::None(_)))
    };
    let turned: Vec<u8> = stack.blocks(&depth).map(|b| turned(b.position)).collect();
    written["no_rope_layers"] = json!(turned);
    layer_types::add_windows(&mut written, stack, &depth);
    Some(written)
}

/// The same model with rotary positions, which no layer uses, instead of none: the class always has their keys.
fn with_rotary(of: &HfShape) -> HfShape {
    let mut of = of.clone();
    if let ModelConfig::Decoder(config) = &mut of.model
        && let PositionConfig::None(_) = config.stack.position
    {
        config.stack.position = PositionConfig::Rotary(RotaryConfig {
            theta: THETA,
            ..RotaryConfig::default()
        });
    }
    of
}
