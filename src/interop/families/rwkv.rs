//! RWKV, version 4 (Peng et al. 2023): weighted averages with decaying weights, and channel mixing, both on mixes of neighbouring
//! tokens.
//!
//! In evaluation, the class halves the residual stream every `rescale_every` blocks and scales weights to match, against overflow
//! in half precision. The model is the same except for the effect on the epsilon of norms. `context_length` is the limit of the
//! class's kernel. The class's decoding states are as wide as the model: if the averages have another width, transformers can
//! score texts, but generate only with `use_cache=False`.

use super::{Family, HfShape, block, layer_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::feed_forward::rwkv::RwkvMixConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::none::NoPositionConfig;
use crate::nn::recurrent::MixerConfig;
use crate::nn::recurrent::rwkv::RwkvConfig;
use crate::stack::{LayerGroup, NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "rwkv",
    summary: "RWKV version 4: averages with decaying weights instead of attention",
    read,
    write,
    table,
    declined: None,
};

/// Epsilon of the class's last norm, which does not depend on config.json.
const EPS: f64 = 1e-5;

fn read(hf: &HfConfig) -> HfShape {
    hf.get("rescale_every");
    let context = hf.count(&["context_length", "max_position_embeddings"], 1024);
    let eps = hf.real("layer_norm_epsilon", EPS);
    if eps != EPS {
        hf.fault(format!(
            "`layer_norm_epsilon` = {eps:?} must be {EPS:?}: the class's last norm always uses it, and all norms of a model are alike here"
        ));
    }
    let d_model = hf.count(&["hidden_size"], 4096);
    let group = LayerGroup {
        mixer: Some(MixerConfig::Rwkv(RwkvConfig {
            width: hf.count_if_any(&["attention_hidden_size"]),
        })),
        feed_forward: Some(FeedForwardConfig::Rwkv(RwkvMixConfig {
            d_ff: hf.count_if_any(&["intermediate_size"]),
        })),
        ..LayerGroup::default()
    };
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 32)),
        layers: vec![group],
        embedding_norm: true,
        tie_embeddings: hf.flag("tie_word_embeddings", false),
        stack: StackConfig {
            d_model,
            norm: layer_norm(eps),
            norm_placement: NormPlacement::Pre,
            position: PositionConfig::None(NoPositionConfig::default()),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    HfShape::language_model(config, hf.count(&["vocab_size"], 50277), context)
}

fn write(of: &HfShape) -> Option<Value> {
    let (config, block) = of.mixing_decoder_if_any()?;
    let (Some(MixerConfig::Rwkv(mixer)), Some(FeedForwardConfig::Rwkv(feed_forward))) =
        (block.mixer, block.feed_forward)
    else {
        return None;
    };
    let d_model = config.stack.d_model;
    let width = mixer.width(d_model);
    Some(json!({
        "architectures": ["RwkvForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "context_length": of.shape.context,
        "hidden_size": d_model,
        "attention_hidden_size": width,
        "intermediate_size": feed_forward.d_ff(d_model),
        "num_hidden_layers": config.n_layers(),
        "layer_norm_epsilon": EPS,
        "rescale_every": 0,
        // The class's decoding states are as wide as the model.
        "use_cache": width == d_model,
        "tie_word_embeddings": config.tie_embeddings,
    }))
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let d_model = config.stack.d_model;
    let mut table = Table::new("rwkv.");
    table.same("rwkv.embeddings.weight", "embedding.weight");
    table.norm("rwkv.blocks.0.pre_ln", "embedding.norm");
    for layer in 0..config.n_layers() {
        let theirs = format!("rwkv.blocks.{layer}");
        let ours = block(layer);
        table.norm(&format!("{theirs}.ln1"), &ours.attention_norm);
        table.norm(&format!("{theirs}.ln2"), &ours.feed_forward_norm);
        let mut mixes = |theirs: &str, ours: &str, names: &[&str]| {
            for name in names {
                let share = format!("{ours}.mix_{name}.share");
                table.reshaped(
                    format!("{theirs}.time_mix_{name}"),
                    share,
                    vec![1, 1, d_model],
                );
            }
        };
        let attention = format!("{theirs}.attention");
        let mixer = format!("stack.blocks.{layer}.mixer");
        mixes(&attention, &mixer, &["key", "value", "receptance"]);
        let feed_forward = format!("{theirs}.feed_forward");
        mixes(&feed_forward, &ours.feed_forward, &["key", "receptance"]);
        table.same(format!("{attention}.time_decay"), format!("{mixer}.decay"));
        table.same(format!("{attention}.time_first"), format!("{mixer}.first"));
        for name in ["key", "value", "receptance", "output"] {
            table.linears(&attention, &mixer, &[(name, name)]);
        }
        for name in ["key", "receptance", "value"] {
            table.linears(&feed_forward, &ours.feed_forward, &[(name, name)]);
        }
    }
    table.norm("rwkv.ln_out", "stack.final_norm");
    table.linear("head", "head", Orientation::OutIn);
    if config.tie_embeddings {
        table.ignored.push("head.weight");
    }
    table.within("model.")
}
