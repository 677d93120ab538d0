//! DINOv2 (Oquab et al. 2024) as an image classifier: ViT with a learned gain for each channel of each layer's output. The
//! classifier reads the class token's hidden state and the mean of the patches'.
//!
//! Files have a vector for masked patches (`mask_token`), used only in training without labels. It is ignored here, and written
//! as zeros, its initial value in the transformers class.

use super::declined::{Declined, difference_unless, difference_unless_square};
use super::vit::{self, Defaults};
use super::{Family, HfShape};
use crate::data::Shape;
use crate::faults::MAX_WIDTH;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::vision::Pooling;
use crate::model::{ModelConfig, VisionConfig};
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig, GatedConfig};
use crate::stack::ResidualScaleConfig;
use crate::stack::residual_scale::layer_scale::LayerScaleConfig;
use crate::task::{ImageClassificationConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "dinov2",
    summary: "DINOv2: ViT with layer scale, a learned factor for each output channel of a layer",
    read,
    write,
    table,
    declined: Some(declined),
};

const CLASS: &str = "Dinov2ForImageClassification";

/// Default epsilon of norms.
const EPS: f64 = 1e-6;

fn read(hf: &HfConfig) -> HfShape {
    shape(hf, CLASS, 14)
}

/// A classifier of this class; also used by the variant with registers.
pub(super) fn shape(hf: &HfConfig, class: &str, patch_size: usize) -> HfShape {
    super::image_heads::require(hf, class);
    for key in [
        // Keys of backbones within other models.
        "apply_layernorm",
        "out_features",
        "out_indices",
        "reshape_hidden_states",
        "stage_names",
        // Keys for images of another size than the position table's.
        "interpolate_antialias",
        "interpolate_offset",
        // A key of training without labels.
        "use_mask_token",
    ] {
        hf.get(key);
    }
    let usual = Defaults {
        patch_size,
        eps: EPS,
    };
    let (mut config, image) = vit::network_with(hf, usual, feed_forward(hf));
    let [_, height, width] = image;
    if height != width {
        hf.fault(format!(
            "`image_size` = {height} by {width} must be square: {class} has positions for square images only"
        ));
    }
    config.pooling = Pooling::ClassAndMean;
    config.stack.residual_scale = ResidualScaleConfig::LayerScale(layer_scale(hf));
    config.stack.drop_path = drop_path(hf);
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

/// The initial gains.
pub(super) fn layer_scale(hf: &HfConfig) -> LayerScaleConfig {
    let init = hf.real("layerscale_value", 1.0);
    if init <= 0.0 {
        hf.fault(format!("`layerscale_value` = {init:?} must be above 0"));
    }
    LayerScaleConfig { init }
}

/// The probability that an image skips a layer, which is the same for all layers in the class.
pub(super) fn drop_path(hf: &HfConfig) -> f64 {
    let rate = hf.real("drop_path_rate", 0.0);
    if rate > 0.0 {
        hf.warn(format!(
            "`drop_path_rate` = {rate:?}: in training, the class of transformers skips every layer with this probability; here \
             the probability rises linearly and reaches this value at the last layer"
        ));
    }
    rate
}

/// Dense feed-forward layers, or gated ones, whose gate always has SiLU, whatever `hidden_act` says.
fn feed_forward(hf: &HfConfig) -> FeedForwardConfig {
    let inner = inner(hf);
    if hf.flag("use_swiglu_ffn", false) {
        hf.get("hidden_act");
        return FeedForwardConfig::Gated(GatedConfig {
            d_ff: Some(gated_width(inner)),
            activation: Activation::Silu,
            bias: true,
            ..GatedConfig::default()
        });
    }
    FeedForwardConfig::Dense(DenseConfig {
        d_ff: Some(inner),
        activation: hf.activation("hidden_act", "gelu"),
        bias: true,
        ..DenseConfig::default()
    })
}

/// The inner width, `mlp_ratio` times the width. The class of transformers 5 only accepts whole ratios, earlier ones any.
fn inner(hf: &HfConfig) -> usize {
    let d_model = hf.count(&["hidden_size"], 768);
    let ratio = hf.real("mlp_ratio", 4.0);
    let inner = ratio * d_model as f64;
    if (1.0..=MAX_WIDTH as f64).contains(&inner) {
        return inner as usize;
    }
    hf.fault(format!(
        "`mlp_ratio` = {ratio:?} times `hidden_size` = {d_model} must be between 1 and {MAX_WIDTH}"
    ));
    d_model
}

/// The width of gated layers, which have a third matrix, in place of dense layers of width `inner`: two thirds, as a multiple of
/// 8.
fn gated_width(inner: usize) -> usize {
    (2 * inner / 3).max(1).next_multiple_of(8)
}

/// The whole `mlp_ratio` that gives feed-forward layers of this width, if there is one.
fn ratio(config: &VisionConfig) -> Option<usize> {
    let d_model = config.stack.d_model;
    match config.stack.block(&config.depth(), 0).feed_forward? {
        FeedForwardConfig::Dense(c) => {
            let d_ff = c.d_ff(d_model);
            d_ff.is_multiple_of(d_model).then_some(d_ff / d_model)
        }
        FeedForwardConfig::Gated(c) => {
            let d_ff = c.d_ff(d_model);
            let most = 3 * d_ff / (2 * d_model) + 1;
            let mut ratios = (1..=most).rev();
            ratios.find(|ratio| gated_width(ratio * d_model) == d_ff)
        }
        FeedForwardConfig::Moe(_) | FeedForwardConfig::Rwkv(_) | FeedForwardConfig::Rwkv7(_) => {
            None
        }
    }
}

/// The differences from what the keys can express.
fn declined(of: &HfShape) -> Declined {
    declined_with(of, false)
}

/// The differences from a class with registers, or from one without.
pub(super) fn declined_with(of: &HfShape, registers: bool) -> Declined {
    let (ModelConfig::Vision(config), TaskConfig::ImageClassification(_)) = (&of.model, &of.task)
    else {
        return Declined::default();
    };
    let ResidualScaleConfig::LayerScale(_) = &config.stack.residual_scale else {
        let scale = &config.stack.residual_scale;
        let scale = difference_unless(false, "model.residual_scale", scale, "a \"layer_scale\"");
        return declined_for(of, registers, scale);
    };
    let count = config.n_registers;
    let counted = difference_unless(
        registers == (count > 0),
        "model.n_registers",
        count,
        if registers { "1 or more" } else { "0" },
    );
    let wide = ratio(config).is_some();
    let feed_forward = difference_unless(
        wide,
        "model.feed_forward",
        &config.stack.feed_forward,
        "dense or gated layers whose width follows from a whole multiple of model.d_model",
    );
    let differences = [counted, feed_forward, difference_unless_square(of)];
    declined_for(of, registers, differences.into_iter().flatten())
}

/// These differences, and the model without them.
fn declined_for(of: &HfShape, registers: bool, why: impl IntoIterator<Item = String>) -> Declined {
    Declined {
        differences: why.into_iter().collect(),
        nearest: Some(Box::new(nearest(of, registers))),
        ..Declined::default()
    }
}

/// The nearest model that the keys can express: square images, gains on layer outputs, with or without registers, and
/// feed-forward layers of a width that follows from a whole ratio.
fn nearest(of: &HfShape, registers: bool) -> HfShape {
    let mut near = of.clone();
    near.shape.image = of.shape.image.map(|[c, height, _]| [c, height, height]);
    let ModelConfig::Vision(config) = &mut near.model else {
        return near;
    };
    config.n_registers = match registers {
        true => config.n_registers.max(1),
        false => 0,
    };
    if !matches!(
        config.stack.residual_scale,
        ResidualScaleConfig::LayerScale(_)
    ) {
        config.stack.residual_scale = ResidualScaleConfig::LayerScale(LayerScaleConfig::default());
    }
    if ratio(config).is_some() {
        return near;
    }
    let d_model = config.stack.d_model;
    match &mut config.stack.feed_forward {
        FeedForwardConfig::Dense(c) => {
            let ratio = c.d_ff(d_model).div_ceil(d_model).max(1);
            c.d_ff = Some(ratio * d_model);
        }
        FeedForwardConfig::Gated(c) => {
            let ratio = (3 * c.d_ff(d_model)).div_ceil(2 * d_model).max(1);
            c.d_ff = Some(gated_width(ratio * d_model));
        }
        others => *others = FeedForwardConfig::Dense(DenseConfig::default()),
    }
    near
}

fn write(of: &HfShape) -> Option<Value> {
    write_as(of, CLASS).filter(|_| vit::vision(of).n_registers == 0)
}

/// The keys shared with the class with registers.
pub(super) fn write_as(of: &HfShape, class: &str) -> Option<Value> {
    let ModelConfig::Vision(config) = &of.model else {
        return None;
    };
    let ResidualScaleConfig::LayerScale(scale) = &config.stack.residual_scale else {
        return None;
    };
    let ratio = ratio(config)?;
    let [_, height, width] = of.shape.image?;
    if height != width {
        return None;
    }
    let mut written = vit::write_as(of, class)?;
    written.as_object_mut()?.shift_remove("intermediate_size");
    let layers = config.stack.block(&config.depth(), 0).feed_forward;
    let keys = [
        ("mlp_ratio", json!(ratio)),
        (
            "use_swiglu_ffn",
            json!(matches!(layers, Some(FeedForwardConfig::Gated(_)))),
        ),
        ("layerscale_value", json!(scale.init)),
        ("drop_path_rate", json!(config.stack.drop_path)),
    ];
    for (key, value) in keys {
        written[key] = value;
    }
    Some(written)
}

fn table(of: &HfShape) -> Table {
    named(of, "dinov2.")
}

/// The table with this prefix.
pub(super) fn named(of: &HfShape, prefix: &'static str) -> Table {
    let mut table = Table::new(prefix);
    let config = vit::vision(of);
    let d_model = config.stack.d_model;
    let [_, height, width] = of.shape.image.unwrap_or_default();
    let positions = config.grid(height, width).positions();
    vit::embeddings(&mut table, &format!("{prefix}embeddings"), of, positions);
    table.constant(
        format!("{prefix}embeddings.mask_token"),
        vec![1, d_model],
        true,
        move || vec![0.0; d_model],
    );
    table.ignored = vec!["embeddings.mask_token"];
    for layer in 0..config.depth().blocks() {
        let theirs = format!("{prefix}encoder.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        add_block(&mut table, config, &theirs, &ours);
    }
    table.norm(&format!("{prefix}layernorm"), "model.stack.final_norm");
    table.linear("classifier", "head", Orientation::OutIn);
    let down = [("mlp.weights_out", "mlp.down_proj")];
    table.aliases(&[&vit::BLOCK_OF_VERSION_5[..], &down].concat());
    table
}

/// A block: attention and a feed-forward layer, their norms, and the gains of their outputs.
fn add_block(table: &mut Table, config: &VisionConfig, theirs: &str, ours: &str) {
    vit::attention(table, theirs, ours);
    if let FeedForwardConfig::Gated(gated) = &config.stack.feed_forward {
        let d_ff = gated.d_ff(config.stack.d_model);
        add_branches(table, theirs, &format!("{ours}.feed_forward"), d_ff);
    } else {
        let dense = [
            ("mlp.fc1", "feed_forward.up"),
            ("mlp.fc2", "feed_forward.down"),
        ];
        table.linears(theirs, ours, &dense);
    }
    for (number, residual) in [(1, "attention_residual"), (2, "feed_forward_residual")] {
        table.norm(
            &format!("{theirs}.norm{number}"),
            &format!("{ours}.{residual}.norm"),
        );
        table.same(
            format!("{theirs}.layer_scale{number}.lambda1"),
            format!("{ours}.{residual}.scale.gain"),
        );
    }
}

/// A gated layer: one matrix with the gate's rows before those of the linear branch; files of version 5 may have a matrix for
/// each.
fn add_branches(table: &mut Table, theirs: &str, ours: &str, d_ff: usize) {
    let [gate, up] = ["gate", "up"].map(|part| format!("{ours}.{part}"));
    let branches = [(gate.as_str(), d_ff), (up.as_str(), d_ff)];
    table.stacked(&format!("{theirs}.mlp.weights_in"), branches);
    table.linears(theirs, ours, &[("mlp.weights_out", "down")]);
    for (name, path) in [("gate_proj", gate), ("up_proj", up)] {
        for kind in ["weight", "bias"] {
            table.alias(
                format!("{theirs}.mlp.{name}.{kind}"),
                format!("{path}.{kind}"),
            );
        }
    }
}
