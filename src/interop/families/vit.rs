//! The vision transformer (Dosovitskiy et al. 2021) as an image classifier.

use super::add_classes;
use super::stack_summary::summarize;
use super::{Family, HfShape, layer_norm};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::vision::{PatchesConfig, Pooling, StemConfig};
use crate::model::{ModelConfig, VisionConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{NormPlacement, StackConfig};
use crate::task::{ImageClassificationConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "vit",
    summary: "ViT: a pre-norm encoder over the patches of an image",
    read,
    write,
    table,
    declined: None,
};

const CLASS: &str = "ViTForImageClassification";

fn read(hf: &HfConfig) -> HfShape {
    shape(hf, CLASS)
}

/// A classifier of this class; also used by DeiT, which has one more token.
pub(super) fn shape(hf: &HfConfig, class: &str) -> HfShape {
    for key in ["encoder_stride", "pooler_act", "pooler_output_size"] {
        // Keys of heads that a classifier does not have.
        hf.get(key);
    }
    super::image_heads::require(hf, class);
    let (config, image) = network(hf);
    HfShape {
        model: ModelConfig::Vision(config),
        task: TaskConfig::ImageClassification(ImageClassificationConfig::default()),
        shape: Shape {
            image: Some(image),
            classes: hf.classes(),
            ..Shape::default()
        },
    }
}

/// The default values of a family's class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub patch_size: usize,
    /// Epsilon of norms.
    pub eps: f64,
}

/// The network, and the shape of its images, `[channels, height, width]`.
pub(super) fn network(hf: &HfConfig) -> (VisionConfig, [usize; 3]) {
    let feed_forward = FeedForwardConfig::Dense(DenseConfig {
        d_ff: Some(hf.count(&["intermediate_size"], 3072)),
        activation: hf.activation("hidden_act", "gelu"),
        bias: true,
        ..DenseConfig::default()
    });
    let usual = Defaults {
        patch_size: 16,
        eps: 1e-12,
    };
    network_with(hf, usual, feed_forward)
}

/// Same as [`network`], with these defaults and feed-forward layers.
pub(super) fn network_with(
    hf: &HfConfig,
    usual: Defaults,
    feed_forward: FeedForwardConfig,
) -> (VisionConfig, [usize; 3]) {
    let [height, width] = sides(hf, "image_size", 224);
    let [size, other] = sides(hf, "patch_size", usual.patch_size);
    let fits = size == other && height.is_multiple_of(size) && width.is_multiple_of(size);
    // A placeholder for a faulty value would cause a fault of its own.
    if !fits && !hf.is_faulty() {
        hf.fault(format!(
            "`patch_size` = {size} by {other} must be a square that divides `image_size` = {height} by {width}"
        ));
    }
    let bias = hf.flag("qkv_bias", true);
    let config = VisionConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 12)),
        stem: StemConfig::Patches(PatchesConfig { size, bias: true }),
        pooling: Pooling::Class,
        stack: StackConfig {
            d_model: hf.count(&["hidden_size"], 768),
            norm: layer_norm(hf.real("layer_norm_eps", usual.eps)),
            norm_placement: NormPlacement::Pre,
            position: PositionConfig::Learned(LearnedConfig::default()),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_attention_heads"], 12),
                d_head: hf.count_if_any(&["head_dim"]),
                bias,
                out_bias: Some(true),
                ..MultiHeadConfig::default()
            }),
            feed_forward,
            dropout: hf.real("hidden_dropout_prob", 0.0),
            dropout_attention: Some(hf.real("attention_probs_dropout_prob", 0.0)),
            ..StackConfig::default()
        },
        ..VisionConfig::default()
    };
    (config, [hf.count(&["num_channels"], 3), height, width])
}

/// A height and a width: one number for both, or two numbers.
pub(super) fn sides(hf: &HfConfig, key: &str, default: usize) -> [usize; 2] {
    let pair = hf.get(key).and_then(|value| value.as_array()).map(|pair| {
        let numbers = pair.iter().map(|side| side.as_u64().unwrap_or(0) as usize);
        numbers.collect::<Vec<_>>()
    });
    match pair.as_deref() {
        None => [hf.count(&[key], default); 2],
        Some(&[height, width]) if [height, width].iter().all(|n| (1..1 << 14).contains(n)) => {
            [height, width]
        }
        Some(_) => {
            hf.fault(format!("`{key}` must be one side, or a height and a width"));
            [1, 1]
        }
    }
}

fn write(of: &HfShape) -> Option<Value> {
    write_as(of, CLASS)
}

/// The keys that DeiT shares with ViT.
pub(super) fn write_as(of: &HfShape, class: &str) -> Option<Value> {
    let ModelConfig::Vision(config) = &of.model else {
        return None;
    };
    let StemConfig::Patches(patches) = &config.stem else {
        return None;
    };
    let plain = summarize(&config.stack, &config.depth())?;
    let [channels, height, width] = of.shape.image?;
    let mut written = json!({
        "architectures": [class],
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": plain.heads.n_heads,
        "intermediate_size": plain.d_ff,
        "hidden_act": plain.activation,
        "layer_norm_eps": plain.eps,
        "image_size": match height == width {
            true => json!(height),
            false => json!([height, width]),
        },
        "patch_size": patches.size,
        "num_channels": channels,
        "qkv_bias": plain.heads.bias,
        "hidden_dropout_prob": plain.dropout.residual,
        "attention_probs_dropout_prob": plain.dropout.attention,
    });
    add_classes(&mut written, &of.shape.classes);
    Some(written)
}

/// The table of ViT; DeiT uses it with another prefix.
pub(super) fn table(of: &HfShape) -> Table {
    let mut table = Table::new("vit.");
    let config = vision(of);
    let [_, height, width] = of.shape.image.unwrap_or_default();
    let positions = config.positions(height, width);
    embeddings(&mut table, "vit.embeddings", of, positions);
    for layer in 0..config.depth().blocks() {
        let theirs = format!("vit.encoder.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        block(&mut table, &theirs, &ours);
    }
    table.norm("vit.layernorm", "model.stack.final_norm");
    table.linear("classifier", "head", Orientation::OutIn);
    let blocks = [("vit.encoder.layer.", "vit.layers.")];
    table.aliases(&[&blocks[..], &BLOCK_OF_VERSION_5].concat());
    table
}

/// The network of a family that only has vision transformers.
pub(super) fn vision(of: &HfShape) -> &VisionConfig {
    match &of.model {
        ModelConfig::Vision(config) => config,
        _ => unreachable!("the family reads vision transformers alone"),
    }
}

/// Adds the class token, the table of `positions` positions and the patch projection.
pub(super) fn embeddings(table: &mut Table, theirs: &str, of: &HfShape, positions: usize) {
    token_and_patches(table, theirs, of);
    self::positions(table, theirs, vision(of), positions);
}

/// Adds the table of `positions` positions.
pub(super) fn positions(table: &mut Table, theirs: &str, config: &VisionConfig, positions: usize) {
    let places = format!("{theirs}.position_embeddings");
    let shape = vec![1, positions, config.stack.d_model];
    table.reshaped(places, "model.position.table", shape);
}

/// Adds the class token and the patch projection.
pub(super) fn token_and_patches(table: &mut Table, theirs: &str, of: &HfShape) {
    let config = vision(of);
    let [channels, ..] = of.shape.image.unwrap_or_default();
    let d = config.stack.d_model;
    let size = match &config.stem {
        StemConfig::Patches(patches) => patches.size,
        StemConfig::Resnet(_) => unreachable!("the family has patches"),
    };
    let token = format!("{theirs}.cls_token");
    table.reshaped(token, "model.class_token", vec![1, 1, d]);
    let patches = format!("{theirs}.patch_embeddings.projection");
    table.reshaped(
        format!("{patches}.weight"),
        "model.stem.projection.weight",
        vec![d, channels, size, size],
    );
    table.same(format!("{patches}.bias"), "model.stem.projection.bias");
}

/// The names of a block's modules in version 5 of transformers, by their names in files.
pub(super) const BLOCK_OF_VERSION_5: [(&str, &str); 6] = [
    ("attention.attention.query", "attention.q_proj"),
    ("attention.attention.key", "attention.k_proj"),
    ("attention.attention.value", "attention.v_proj"),
    ("attention.output.dense", "attention.o_proj"),
    ("intermediate.dense", "mlp.fc1"),
    ("output.dense", "mlp.fc2"),
];

/// Adds a block.
pub(super) fn block(table: &mut Table, theirs: &str, ours: &str) {
    attention(table, theirs, ours);
    table.linears(
        theirs,
        ours,
        &[
            ("intermediate.dense", "feed_forward.up"),
            ("output.dense", "feed_forward.down"),
        ],
    );
    table.norms(
        theirs,
        ours,
        &[
            ("layernorm_before", "attention_residual.norm"),
            ("layernorm_after", "feed_forward_residual.norm"),
        ],
    );
}

/// Adds a block's attention.
pub(super) fn attention(table: &mut Table, theirs: &str, ours: &str) {
    table.linears(
        theirs,
        ours,
        &[
            ("attention.attention.query", "attention.query"),
            ("attention.attention.key", "attention.key"),
            ("attention.attention.value", "attention.value"),
            ("attention.output.dense", "attention.output"),
        ],
    );
}
