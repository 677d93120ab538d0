//! SmolLM3 (Bakouch et al. 2025): LLaMA some of whose layers turn no queries and keys by their positions (Yang et al. 2025,
//! "RoPE to NoPE and back again").

use super::layer_types::without_windows;
use super::llama::{self, table};
use super::{Family, HfShape, layer_types};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::{RotaryKeys, WHOLE_HEADS};
use crate::nn::position::PositionConfig;
use crate::nn::position::none::NoPositionConfig;
use crate::stack::LayerGroup;
use serde_json::{Value, json};

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "smollm3",
    summary: "SmolLM3: LLaMA with layers without positions between the others",
    read,
    write,
    table,
};

fn read(hf: &HfConfig) -> HfShape {
    without_windows(hf);
    let keys = RotaryKeys {
        usual_theta: 2e6,
        ..WHOLE_HEADS
    };
    let mut config = llama::rotated(hf, keys);
    let turned = turned(hf, config.n_layers());
    let stack = &mut config.stack;
    match layer_types::period(&turned) {
        [true] => {}
        [false] => stack.position = PositionConfig::None(NoPositionConfig {}),
        _ => {
            let (attention, feed_forward) = (&stack.attention, &stack.feed_forward);
            config.layers = layer_types::groups(&turned, |turned| LayerGroup {
                attention: Some(attention.clone()),
                feed_forward: Some(feed_forward.clone()),
                position: (!turned).then_some(PositionConfig::None(NoPositionConfig {})),
                ..LayerGroup::default()
            });
            stack.attention = Default::default();
            stack.feed_forward = Default::default();
        }
    }
    llama::shape(hf, config)
}

/// Whether positions turn the queries and keys of each layer: `no_rope_layers` has 1 for those that they do, and
/// `no_rope_layer_interval` stands in where it is absent.
fn turned(hf: &HfConfig, layers: usize) -> Vec<bool> {
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
    let mut written = llama::write_as(of, "SmolLM3ForCausalLM")?;
    written.as_object_mut()?.shift_remove("head_dim");
    let config = of.decoder_if_any()?;
    let depth = config.depth();
    let blocks = config.stack.blocks(&depth);
    let turned: Vec<u8> = blocks.map(|b| u8::from(b.position.is_none())).collect();
    written["no_rope_layers"] = json!(turned);
    written["use_sliding_window"] = json!(false);
    Some(written)
}
