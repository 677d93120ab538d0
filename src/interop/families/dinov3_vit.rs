//! DINOv3's vision transformers (Siméoni et al. 2025): rotary positions from the centres of patches, keys without biases, a
//! learned gain for each channel of each layer's output, registers.
//!
//! transformers has no class with a classifier for them. A folder is still imported as a classifier, initialised randomly, which
//! reads the class token's hidden state and the mean of the patches', like the authors' linear heads; exported folders lack the
//! classifier.

use super::declined::{Declined, difference_unless};
use super::image_heads::{self, HEADS};
use super::stack_summary::summarize;
use super::{Family, HfShape, add_classes, dinov2, layer_norm, vit};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::vision::{PatchesConfig, Pooling, StemConfig};
use crate::model::{ModelConfig, VisionConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig, GatedConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::rotary_centred::{KIND, RotaryCentredConfig};
use crate::stack::{NormPlacement, ResidualScaleConfig, StackConfig};
use crate::task::{ImageClassificationConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "dinov3_vit",
    summary: "DINOv3: ViT with rotary positions of patch centres, and registers",
    read,
    write,
    table,
    declined: Some(declined),
};

const CLASS: &str = "DINOv3ViTModel";

/// Default epsilon of norms.
const EPS: f64 = 1e-5;

/// Default range of `pos_embed_rescale`.
const RESCALE: f64 = 2.0;

fn read(hf: &HfConfig) -> HfShape {
    image_heads::require_body(hf, CLASS);
    for key in [
        // Keys of backbones within other models.
        "apply_layernorm",
        "out_features",
        "out_indices",
        "reshape_hidden_states",
        "stage_names",
    ] {
        hf.get(key);
    }
    let [height, width] = vit::sides(hf, "image_size", 224);
    let [size, other] = vit::sides(hf, "patch_size", 16);
    let fits = size == other && height.is_multiple_of(size) && width.is_multiple_of(size);
    // A placeholder for a faulty value would cause a fault of its own.
    if !fits && !hf.is_faulty() {
        hf.fault(format!(
            "`patch_size` = {size} by {other} must be a square that divides `image_size` = {height} by {width}"
        ));
    }
    let config = VisionConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 12)),
        stem: StemConfig::Patches(PatchesConfig { size, bias: true }),
        pooling: Pooling::ClassAndMean,
        n_registers: registers(hf),
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 384),
            norm: layer_norm(hf.real("layer_norm_eps", EPS)),
            norm_placement: NormPlacement::Pre,
            residual_scale: ResidualScaleConfig::LayerScale(dinov2::layer_scale(hf)),
            position: PositionConfig::RotaryCentred(position(hf)),
            attention: AttentionConfig::MultiHead(attention(hf)),
            feed_forward: feed_forward(hf),
            dropout_attention: Some(hf.real("attention_dropout", 0.0)),
            drop_path: dinov2::drop_path(hf),
            ..StackConfig::default()
        },
        ..VisionConfig::default()
    };
    if !hf.is_faulty() {
        head_faults(hf, &config);
    }
    HfShape {
        model: ModelConfig::Vision(config),
        task: TaskConfig::ImageClassification(ImageClassificationConfig::default()),
        shape: Shape {
            image: Some([hf.count(&["num_channels"], 3), height, width]),
            classes: hf.classes(),
            ..Shape::default()
        },
    }
}

/// The number of registers, which may be 0.
fn registers(hf: &HfConfig) -> usize {
    match hf.get("num_register_tokens").and_then(Value::as_u64) {
        Some(0) => 0,
        _ => hf.count_if_any(&["num_register_tokens"]).unwrap_or(0),
    }
}

/// Reports a fault if the rotated pairs of a head cannot be split equally between rows and columns.
fn head_faults(hf: &HfConfig, config: &VisionConfig) {
    let (d_model, heads) = (config.stack.d_model, config.stack.attention.heads().n_heads);
    let d_head = d_model / heads.max(1);
    if d_model.is_multiple_of(heads) && !d_head.is_multiple_of(4) {
        hf.fault(format!(
            "`hidden_size` = {d_model} over `num_attention_heads` = {heads} makes heads of {d_head} elements, which must be a multiple of 4"
        ));
    }
}

/// A range in which coordinates are varied in training; the value `none` leaves them unchanged.
fn range(hf: &HfConfig, key: &str, default: Option<f64>, none: f64) -> Option<f64> {
    let range = match hf.is_null(key) {
        true => None,
        false => hf.get(key).map(|_| hf.real(key, none)).or(default),
    };
    if let Some(least) = range.filter(|range| *range < none) {
        hf.fault(format!("`{key}` = {least:?} must be at least {none:?}"));
    }
    range.filter(|range| *range > none)
}

fn position(hf: &HfConfig) -> RotaryCentredConfig {
    let theta = hf.real("rope_theta", 100.0);
    if theta <= 0.0 {
        hf.fault(format!("`rope_theta` = {theta:?} must be above 0"));
    }
    RotaryCentredConfig {
        theta,
        shift: range(hf, "pos_embed_shift", None, 0.0),
        jitter: range(hf, "pos_embed_jitter", None, 1.0),
        rescale: range(hf, "pos_embed_rescale", Some(RESCALE), 1.0),
    }
}

fn attention(hf: &HfConfig) -> MultiHeadConfig {
    let [query, value] = ["query_bias", "value_bias"].map(|key| hf.flag(key, true));
    if query != value {
        hf.fault(format!(
            "`query_bias` = {query} and `value_bias` = {value}: both must be true or both false"
        ));
    }
    MultiHeadConfig {
        n_heads: hf.count(&["num_attention_heads"], 6),
        bias: query,
        key_bias: Some(hf.flag("key_bias", false)),
        out_bias: Some(hf.flag("proj_bias", true)),
        ..MultiHeadConfig::default()
    }
}

fn feed_forward(hf: &HfConfig) -> FeedForwardConfig {
    let d_ff = Some(hf.count(&["intermediate_size"], 1536));
    let activation = hf.activation("hidden_act", "gelu");
    let bias = hf.flag("mlp_bias", true);
    match hf.flag("use_gated_mlp", false) {
        true => FeedForwardConfig::Gated(GatedConfig {
            d_ff,
            activation,
            bias,
            ..GatedConfig::default()
        }),
        false => FeedForwardConfig::Dense(DenseConfig {
            d_ff,
            activation,
            bias,
            ..DenseConfig::default()
        }),
    }
}

/// The differences from what the keys can express, for a model with these positions.
fn declined(of: &HfShape) -> Declined {
    let (ModelConfig::Vision(config), TaskConfig::ImageClassification(_)) = (&of.model, &of.task)
    else {
        return Declined::default();
    };
    if config.stack.position.facts().kind() != KIND {
        return Declined::default();
    }
    let scale = &config.stack.residual_scale;
    let scaled = matches!(scale, ResidualScaleConfig::LayerScale(_));
    let patches = config.stem.patch_size().is_some();
    let why = [
        difference_unless(patches, "model.stem.kind", "resnet", "\"patches\""),
        difference_unless(scaled, "model.residual_scale", scale, "a \"layer_scale\""),
    ];
    Declined {
        differences: why.into_iter().flatten().collect(),
        ..Declined::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let ModelConfig::Vision(config) = &of.model else {
        return None;
    };
    let (StemConfig::Patches(patches), PositionConfig::RotaryCentred(position)) =
        (&config.stem, &config.stack.position)
    else {
        return None;
    };
    let ResidualScaleConfig::LayerScale(scale) = &config.stack.residual_scale else {
        return None;
    };
    let plain = summarize(&config.stack, &config.depth())?;
    let [channels, height, width] = of.shape.image?;
    let (heads, bias) = (&plain.heads, plain.heads.bias);
    let mut written = json!({
        "architectures": [CLASS],
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": heads.n_heads,
        "intermediate_size": plain.d_ff,
        "hidden_act": plain.activation,
        "use_gated_mlp": plain.gated,
        "mlp_bias": plain.bias,
        "layer_norm_eps": plain.eps,
        "rope_theta": position.theta,
        "pos_embed_shift": position.shift,
        "pos_embed_jitter": position.jitter,
        "pos_embed_rescale": position.rescale,
        "image_size": match height == width {
            true => json!(height),
            false => json!([height, width]),
        },
        "patch_size": patches.size,
        "num_channels": channels,
        "query_bias": bias,
        "key_bias": heads.key_bias.unwrap_or(bias),
        "value_bias": bias,
        "proj_bias": heads.out_bias.unwrap_or(bias),
        "layerscale_value": scale.init,
        "drop_path_rate": config.stack.drop_path,
        "attention_dropout": plain.dropout.attention,
        "num_register_tokens": config.n_registers,
    });
    add_classes(&mut written, &of.shape.classes);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = Table::new("");
    let config = vit::vision(of);
    let [channels, ..] = of.shape.image.unwrap_or_default();
    let (d, registers) = (config.stack.d_model, config.n_registers);
    let size = config.stem.patch_size().unwrap_or(1);
    let mut reshaped = |theirs: &str, ours: &str, shape: Vec<usize>| {
        table.reshaped(format!("embeddings.{theirs}"), ours, shape);
    };
    reshaped("cls_token", "model.class_token", vec![1, 1, d]);
    reshaped("register_tokens", "model.registers", vec![1, registers, d]);
    let kernel = vec![d, channels, size, size];
    let projection = "model.stem.projection";
    reshaped(
        "patch_embeddings.weight",
        &format!("{projection}.weight"),
        kernel,
    );
    table.same(
        "embeddings.patch_embeddings.bias",
        format!("{projection}.bias"),
    );
    // The vector for masked patches, used only in training without labels.
    table.constant(
        "embeddings.mask_token".into(),
        vec![1, 1, d],
        true,
        move || vec![0.0; d],
    );
    if registers == 0 {
        // An empty tensor.
        table.constant(
            "embeddings.register_tokens".into(),
            vec![1, 0, d],
            true,
            Vec::new,
        );
    }
    table.ignored = vec!["embeddings.mask_token"];
    table.optional.extend(HEADS);
    for layer in 0..config.depth().blocks() {
        let theirs = format!("layer.{layer}");
        add_block(
            &mut table,
            &theirs,
            &format!("model.stack.blocks.{layer}"),
            config,
        );
    }
    table.norm("norm", "model.stack.final_norm");
    // The prefix of the stack in version 5.
    table.aliases(&[("layer.", "model.layer.")]);
    table
}

/// A block: attention and a feed-forward layer, their norms, and the gains of their outputs.
fn add_block(table: &mut Table, theirs: &str, ours: &str, config: &VisionConfig) {
    for (name, path) in [
        ("attention.q_proj", "attention.query"),
        ("attention.k_proj", "attention.key"),
        ("attention.v_proj", "attention.value"),
        ("attention.o_proj", "attention.output"),
        ("mlp.up_proj", "feed_forward.up"),
        ("mlp.down_proj", "feed_forward.down"),
    ] {
        let (name, path) = (format!("{theirs}.{name}"), format!("{ours}.{path}"));
        table.linear(&name, &path, Orientation::OutIn);
    }
    if matches!(config.stack.feed_forward, FeedForwardConfig::Gated(_)) {
        table.linears(theirs, ours, &[("mlp.gate_proj", "feed_forward.gate")]);
    }
    for (number, residual) in [(1, "attention_residual"), (2, "feed_forward_residual")] {
        let (norm, gain) = (
            format!("{theirs}.norm{number}"),
            format!("{ours}.{residual}"),
        );
        table.norm(&norm, &format!("{gain}.norm"));
        table.same(
            format!("{theirs}.layer_scale{number}.lambda1"),
            format!("{gain}.scale.gain"),
        );
    }
}
