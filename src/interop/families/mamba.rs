//! Mamba (Gu and Dao 2023): selective state spaces after RMS norms, without positions and feed-forward layers.
//!
//! The class allows any expansion factor; here it must be whole. Initialisation (`time_step_*`, `initializer_range`)
//! and details of the computation (`use_mambapy`, `residual_in_fp32`) are not part of the model.

use super::{Family, HfShape, rms_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::feed_forward::Activation;
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::none::NoPositionConfig;
use crate::nn::recurrent::MixerConfig;
use crate::nn::recurrent::mamba::{INITIAL_STEPS, MambaConfig};
use crate::stack::{LayerGroup, NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "mamba",
    summary: "Mamba: selective state spaces instead of attention and feed-forward layers",
    read,
    write,
    table,
    declined: None,
};

/// Default epsilon of norms.
const EPS: f64 = 1e-5;

/// Context length of the published models in tokens; config.json has no such key.
const CONTEXT: usize = 2048;

fn read(hf: &HfConfig) -> HfShape {
    // Keys of the authors' own files, and of the class's computation and initialisation.
    for key in [
        "d_model",
        "d_inner",
        "n_layer",
        "ssm_cfg",
        "rms_norm",
        "fused_add_norm",
        "pad_vocab_size_multiple",
        "residual_in_fp32",
        "time_step_floor",
        "time_step_init_scheme",
        "time_step_scale",
        "use_associative_scan",
        "use_mambapy",
    ] {
        hf.get(key);
    }
    warn_of_rescaling(hf);
    if hf.activation("hidden_act", "silu") != Activation::Silu {
        hf.fault(
            "`hidden_act` must be \"silu\": the gate always uses it, whatever config.json says",
        );
    }
    let d_model = hf.count(&["hidden_size"], 768);
    let given = hf.count_if_any(&["expand"]);
    let expand = given.unwrap_or(2);
    let channels = hf.count_if_any(&["intermediate_size"]);
    let other = channels.is_some_and(|channels| channels != expand.saturating_mul(d_model));
    if other && (given.is_some() || hf.get("expand").is_none()) {
        hf.fault("`intermediate_size` must be `expand` times `hidden_size`, as in the class");
    }
    let automatic = hf.get("time_step_rank").is_none_or(|rank| rank == "auto");
    // Initial step sizes no longer matter once there are weights.
    let step = |key, usual| {
        hf.real(key, usual)
            .clamp(*INITIAL_STEPS.start(), *INITIAL_STEPS.end())
    };
    let mixer = MambaConfig {
        d_state: hf.count(&["state_size"], 16),
        expand,
        d_conv: hf.count(&["conv_kernel"], 4),
        dt_rank: match automatic {
            true => None,
            false => hf.count_if_any(&["time_step_rank"]),
        },
        bias: hf.flag("use_bias", false),
        conv_bias: hf.flag("use_conv_bias", true),
        dt_min: step("time_step_min", 1e-3),
        dt_max: step("time_step_max", 0.1),
    };
    let group = LayerGroup {
        mixer: Some(MixerConfig::Mamba(mixer)),
        ..LayerGroup::default()
    };
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 32)),
        layers: vec![group],
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        stack: StackConfig {
            d_model,
            norm: rms_norm(hf.real("layer_norm_epsilon", EPS)),
            norm_placement: NormPlacement::Pre,
            position: PositionConfig::None(NoPositionConfig::default()),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    HfShape::language_model(config, hf.count(&["vocab_size"], 50280), CONTEXT)
}

/// Warns about weights that the class changes when it loads them.
pub(super) fn warn_of_rescaling(hf: &HfConfig) {
    if hf.flag("rescale_prenorm_residual", false) {
        hf.warn(
            "`rescale_prenorm_residual` = true: `from_pretrained` of transformers divides the loaded `out_proj.weight` by the \
             square root of the number of layers; this model uses the values in the file",
        );
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let (config, block) = of.mixing_decoder_if_any()?;
    let (Some(MixerConfig::Mamba(mixer)), None) = (block.mixer, block.feed_forward) else {
        return None;
    };
    // Other norms are found when the config is read back and compared.
    let eps = match &config.stack.norm {
        NormConfig::Rms(norm) => norm.eps,
        NormConfig::Layer(norm) => norm.eps,
        NormConfig::Scale(_) | NormConfig::DynamicTanh(_) | NormConfig::None(_) => EPS,
    };
    let d_model = config.stack.d_model;
    Some(json!({
        "architectures": ["MambaForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "hidden_size": d_model,
        "intermediate_size": mixer.channels(d_model),
        "num_hidden_layers": config.n_layers(),
        "state_size": mixer.d_state,
        "expand": mixer.expand,
        "conv_kernel": mixer.d_conv,
        "time_step_rank": mixer.dt_rank(d_model),
        "time_step_min": mixer.dt_min,
        "time_step_max": mixer.dt_max,
        "use_bias": mixer.bias,
        "use_conv_bias": mixer.conv_bias,
        "hidden_act": "silu",
        "layer_norm_epsilon": eps,
        "tie_word_embeddings": config.tie_embeddings,
    }))
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("backbone.");
    let embeddings = "backbone.embeddings.weight";
    table.same(embeddings, "embedding.weight");
    table.alias(
        "backbone.embedding.weight".into(),
        "embedding.weight".into(),
    );
    let block = config.stack.block(&config.depth(), 0);
    let Some(MixerConfig::Mamba(mixer)) = block.mixer else {
        unreachable!("the family reads and writes this mixer alone")
    };
    let channels = mixer.channels(config.stack.d_model);
    for layer in 0..config.n_layers() {
        let theirs = format!("backbone.layers.{layer}");
        let ours = format!("stack.blocks.{layer}");
        let norm = format!("{ours}.attention_residual.norm");
        table.norm(&format!("{theirs}.norm"), &norm);
        let (theirs, ours) = (format!("{theirs}.mixer"), format!("{ours}.mixer"));
        let (input, gate) = (format!("{ours}.input"), format!("{ours}.gate"));
        let both = [(&input[..], channels), (&gate[..], channels)];
        table.stacked(&format!("{theirs}.in_proj"), both);
        let taps = vec![channels, 1, mixer.d_conv];
        table.reshaped(
            format!("{theirs}.conv1d.weight"),
            format!("{ours}.conv"),
            taps,
        );
        table.same(format!("{theirs}.conv1d.bias"), format!("{ours}.conv_bias"));
        let decay = vec![channels, mixer.d_state];
        table.reshaped(format!("{theirs}.A_log"), format!("{ours}.a_log"), decay);
        table.same(format!("{theirs}.D"), format!("{ours}.skip"));
        let maps = [
            ("x_proj", "parameters"),
            ("dt_proj", "step"),
            ("out_proj", "output"),
        ];
        table.linears(&theirs, &ours, &maps);
    }
    table.norm("backbone.norm_f", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
