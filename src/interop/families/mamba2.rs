//! Mamba-2 (Dao and Gu 2024): state spaces with heads after RMS norms, without positions and feed-forward layers.
//!
//! Initialisation (`time_step_min`, `initializer_range` and the like) and details of the computation (`chunk_size`,
//! `residual_in_fp32`) are not part of the model. The norm inside a layer has the epsilon of the norms between layers.

use super::{Family, HfShape, rms_norm};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::DecoderConfig;
use crate::nn::feed_forward::Activation;
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::none::NoPositionConfig;
use crate::nn::recurrent::MixerConfig;
use crate::nn::recurrent::mamba::INITIAL_STEPS;
use crate::nn::recurrent::mamba2::Mamba2Config;
use crate::stack::{LayerGroup, NormPlacement, StackConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "mamba2",
    summary: "Mamba-2: state spaces with heads instead of attention and feed-forward layers",
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
    // Keys of the authors' own files, and of the class's computation and initialisation; heads have no rank of steps here.
    for key in [
        "chunk_size",
        "d_model",
        "d_intermediate",
        "n_layer",
        "norm_before_gate",
        "rms_norm",
        "fused_add_norm",
        "pad_vocab_size_multiple",
        "residual_in_fp32",
        "ssm_cfg",
        "time_step_floor",
        "time_step_init_scheme",
        "time_step_rank",
        "time_step_scale",
    ] {
        hf.get(key);
    }
    super::mamba::warn_of_rescaling(hf);
    if hf.activation("hidden_act", "silu") != Activation::Silu {
        hf.fault(
            "`hidden_act` must be \"silu\": the gate always uses it, whatever config.json says",
        );
    }
    let d_model = hf.count(&["hidden_size"], 4096);
    let eps = hf.real("layer_norm_epsilon", EPS);
    // Initial step sizes no longer matter once there are weights.
    let step = |key, usual| {
        hf.real(key, usual)
            .clamp(*INITIAL_STEPS.start(), *INITIAL_STEPS.end())
    };
    let mixer = Mamba2Config {
        d_state: hf.count(&["state_size"], 128),
        d_head: Some(hf.count(&["head_dim"], 64)),
        n_groups: hf.count(&["n_groups"], 8),
        expand: hf.count(&["expand"], 2),
        d_conv: hf.count(&["conv_kernel"], 4),
        bias: hf.flag("use_bias", false),
        conv_bias: hf.flag("use_conv_bias", true),
        dt_min: step("time_step_min", 1e-3),
        dt_max: step("time_step_max", 0.1),
        dt_limit: limits(hf),
        norm_eps: eps,
    };
    let heads = hf.count(&["num_heads"], 128);
    if heads.checked_mul(mixer.d_head(d_model)) != mixer.expand.checked_mul(d_model) {
        hf.fault("`num_heads` times `head_dim` must be `expand` times `hidden_size`, as the class requires");
    }
    let group = LayerGroup {
        mixer: Some(MixerConfig::Mamba2(mixer)),
        ..LayerGroup::default()
    };
    let config = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 64)),
        layers: vec![group],
        tie_embeddings: hf.flag("tie_word_embeddings", false),
        stack: StackConfig {
            d_model,
            norm: rms_norm(eps),
            norm_placement: NormPlacement::Pre,
            position: PositionConfig::None(NoPositionConfig::default()),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    HfShape::language_model(config, hf.count(&["vocab_size"], 32768), CONTEXT)
}

/// The smallest and the largest step size; `None` if there is no limit.
fn limits(hf: &HfConfig) -> Option<[f64; 2]> {
    let read = |value: &Value| {
        let [least, most] = value.as_array()?.as_slice() else {
            return None;
        };
        let most = match most.get("__float__") {
            Some(word) => (word == "Infinity").then_some(f64::INFINITY)?,
            None => most.as_f64()?,
        };
        let least = least.as_f64()?;
        (least >= 0.0 && least < most).then_some([least, most])
    };
    let wanted = "a list of a smallest and a largest step";
    let [least, most] = hf.typed("time_step_limit", wanted, read)?;
    let unlimited = least == 0.0 && most == f64::INFINITY;
    (!unlimited).then_some([least, most.min(f64::from(f32::MAX))])
}

fn write(of: &HfShape) -> Option<Value> {
    let (config, block) = of.mixing_decoder_if_any()?;
    let (Some(MixerConfig::Mamba2(mixer)), None) = (block.mixer, block.feed_forward) else {
        return None;
    };
    // Other norms are found when the config is read back and compared.
    let eps = match &config.stack.norm {
        NormConfig::Rms(norm) => norm.eps,
        NormConfig::Layer(norm) => norm.eps,
        NormConfig::Scale(_) | NormConfig::DynamicTanh(_) | NormConfig::None(_) => EPS,
    };
    let d_model = config.stack.d_model;
    let mut value = json!({
        "architectures": ["Mamba2ForCausalLM"],
        "vocab_size": of.shape.vocab_size,
        "hidden_size": d_model,
        "num_hidden_layers": config.n_layers(),
        "state_size": mixer.d_state,
        "expand": mixer.expand,
        "num_heads": mixer.n_heads(d_model),
        "head_dim": mixer.d_head(d_model),
        "n_groups": mixer.n_groups,
        "conv_kernel": mixer.d_conv,
        "time_step_min": mixer.dt_min,
        "time_step_max": mixer.dt_max,
        "use_bias": mixer.bias,
        "use_conv_bias": mixer.conv_bias,
        "hidden_act": "silu",
        "layer_norm_epsilon": eps,
        "tie_word_embeddings": config.tie_embeddings,
    });
    if let Some(limits) = mixer.dt_limit {
        value["time_step_limit"] = json!(limits);
    }
    Some(value)
}

fn table(of: &HfShape) -> Table {
    let config = of.decoder();
    let mut table = Table::new("backbone.");
    table.same("backbone.embeddings.weight", "embedding.weight");
    table.alias(
        "backbone.embedding.weight".into(),
        "embedding.weight".into(),
    );
    let block = config.stack.block(&config.depth(), 0);
    let Some(MixerConfig::Mamba2(mixer)) = block.mixer else {
        unreachable!("the family reads and writes this mixer alone")
    };
    let d_model = config.stack.d_model;
    let (channels, mixed) = (mixer.channels(d_model), mixer.convolution_channels(d_model));
    for layer in 0..config.n_layers() {
        let theirs = format!("backbone.layers.{layer}");
        let ours = format!("stack.blocks.{layer}");
        let norm = format!("{ours}.attention_residual.norm");
        table.norm(&format!("{theirs}.norm"), &norm);
        let (theirs, ours) = (format!("{theirs}.mixer"), format!("{ours}.mixer"));
        let [gate, input, step] = ["gate", "input", "step"].map(|name| format!("{ours}.{name}"));
        let parts = [
            (&gate[..], channels),
            (&input[..], mixed),
            (&step[..], mixer.n_heads(d_model)),
        ];
        table.stacked(&format!("{theirs}.in_proj"), parts);
        let taps = vec![mixed, 1, mixer.d_conv];
        table.reshaped(
            format!("{theirs}.conv1d.weight"),
            format!("{ours}.conv"),
            taps,
        );
        for (name, path) in [
            ("conv1d.bias", "conv_bias"),
            ("dt_bias", "step_bias"),
            ("A_log", "a_log"),
            ("D", "skip"),
        ] {
            table.same(format!("{theirs}.{name}"), format!("{ours}.{path}"));
        }
        table.norm(&format!("{theirs}.norm"), &format!("{ours}.norm"));
        table.linear(
            &format!("{theirs}.out_proj"),
            &format!("{ours}.output"),
            Orientation::OutIn,
        );
    }
    table.norm("backbone.norm_f", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    if config.tie_embeddings {
        table.ignored.push("lm_head.weight");
    }
    table.within("model.")
}
