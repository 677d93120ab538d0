//! BEiT (Bao et al. 2022) as an image classifier: ViT with biases for distances by rows and columns, keys without biases, a
//! learned gain for each channel of each layer's output, and the mean of the patches followed by its own norm.
//!
//! The vector of masked patches (`mask_token`), which only training by image tokens uses, is ignored and not written.

use super::declined::{Declined, difference_unless, difference_unless_square};
use super::vit;
use super::{Family, HfShape};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::vision::Pooling;
use crate::model::{ModelConfig, VisionConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::nn::position::none::NoPositionConfig;
use crate::nn::position::relative_bias_2d::RelativeBias2dConfig;
use crate::nn::position::relative_bias_2d_per_layer::RelativeBias2dPerLayerConfig;
use crate::stack::ResidualScaleConfig;
use crate::stack::residual_scale::layer_scale::LayerScaleConfig;
use crate::task::{ImageClassificationConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "beit",
    summary: "BEiT: ViT with relative position biases for rows and columns, and layer scale",
    read,
    write,
    table,
    declined: Some(declined),
};

const CLASS: &str = "BeitForImageClassification";

/// The keys of the three position schemes.
const SCHEMES: [&str; 3] = [
    "use_relative_position_bias",
    "use_shared_relative_position_bias",
    "use_absolute_position_embeddings",
];

fn read(hf: &HfConfig) -> HfShape {
    super::image_heads::require(hf, CLASS);
    for key in [
        // Keys of segmentation, and of backbones within other models.
        "add_fpn",
        "auxiliary_channels",
        "auxiliary_concat_input",
        "auxiliary_loss_weight",
        "auxiliary_num_convs",
        "out_features",
        "out_indices",
        "pool_scales",
        "reshape_hidden_states",
        "segmentation_indices",
        "semantic_loss_ignore_index",
        "stage_names",
        "use_auxiliary_head",
        // Keys of training by image tokens.
        "use_mask_token",
        "vocab_size",
    ] {
        hf.get(key);
    }
    let (mut config, image) = vit::network(hf);
    let [_, height, width] = image;
    if height != width {
        hf.fault(format!(
            "`image_size` = {height} by {width} must be square: {CLASS} confuses the rows and columns of distances in other images"
        ));
    }
    if let AttentionConfig::MultiHead(heads) = &mut config.stack.attention {
        (heads.bias, heads.key_bias) = (true, Some(false));
    }
    config.stack.position = position(hf);
    config.stack.residual_scale = residual_scale(hf);
    config.stack.drop_path = hf.real("drop_path_rate", 0.1);
    if hf.flag("use_mean_pooling", true) {
        config.pooling = Pooling::MeanThenNorm;
        config.stack.final_norm = Some(false);
    }
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

fn position(hf: &HfConfig) -> PositionConfig {
    match SCHEMES.map(|key| hf.flag(key, false)) {
        [false, false, false] => PositionConfig::None(NoPositionConfig {}),
        [true, false, false] => {
            PositionConfig::RelativeBias2dPerLayer(RelativeBias2dPerLayerConfig {})
        }
        [false, true, false] => PositionConfig::RelativeBias2d(RelativeBias2dConfig {}),
        [false, false, true] => PositionConfig::Learned(LearnedConfig::default()),
        _ => {
            let [own, shared, absolute] = SCHEMES;
            hf.fault(format!(
                "more than one of `{own}`, `{shared}` and `{absolute}` is true; a model has only one kind of positions here"
            ));
            PositionConfig::default()
        }
    }
}

/// The gains of layer outputs; no gains if they begin at 0, as in the class.
fn residual_scale(hf: &HfConfig) -> ResidualScaleConfig {
    let init = hf.real("layer_scale_init_value", 0.1);
    match init > 0.0 {
        true => ResidualScaleConfig::LayerScale(LayerScaleConfig { init }),
        false => ResidualScaleConfig::default(),
    }
}

/// The differences from what the keys can express, for a model with BEiT's positions or pooling.
fn declined(of: &HfShape) -> Declined {
    let (ModelConfig::Vision(config), TaskConfig::ImageClassification(_)) = (&of.model, &of.task)
    else {
        return Declined::default();
    };
    let distances = match &config.stack.position {
        PositionConfig::RelativeBias2d(_) | PositionConfig::RelativeBias2dPerLayer(_) => true,
        _ => config.pooling == Pooling::MeanThenNorm,
    };
    if !distances {
        return Declined::default();
    }
    let (position, scale) = (&config.stack.position, &config.stack.residual_scale);
    let why = [
        difference_unless(
            schemes(position).is_some(),
            "model.position.kind",
            position.facts().kind().kind,
            "\"relative_bias_2d_per_layer\", \"relative_bias_2d\", \"learned\" or \"none\"",
        ),
        difference_unless(
            gain(scale).is_some(),
            "model.residual_scale",
            scale,
            "a \"layer_scale\" or none",
        ),
        difference_unless_square(of),
    ];
    Declined {
        differences: why.into_iter().flatten().collect(),
        ..Declined::default()
    }
}

/// The values of the three keys of position schemes.
fn schemes(position: &PositionConfig) -> Option<[bool; 3]> {
    match position {
        PositionConfig::None(_) => Some([false, false, false]),
        PositionConfig::RelativeBias2dPerLayer(_) => Some([true, false, false]),
        PositionConfig::RelativeBias2d(_) => Some([false, true, false]),
        PositionConfig::Learned(_) => Some([false, false, true]),
        _ => None,
    }
}

/// The initial gain, as the value of its key.
fn gain(scale: &ResidualScaleConfig) -> Option<f64> {
    match scale {
        ResidualScaleConfig::LayerScale(c) => Some(c.init),
        ResidualScaleConfig::None(_) => Some(0.0),
        ResidualScaleConfig::Rezero(_) | ResidualScaleConfig::Admin(_) => None,
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let ModelConfig::Vision(config) = &of.model else {
        return None;
    };
    let schemes = schemes(&config.stack.position)?;
    let gain = gain(&config.stack.residual_scale)?;
    let [_, height, width] = of.shape.image?;
    if height != width {
        return None;
    }
    let mut written = vit::write_as(of, CLASS)?;
    written.as_object_mut()?.shift_remove("qkv_bias");
    for (key, value) in SCHEMES.iter().zip(schemes) {
        written[key] = json!(value);
    }
    written["layer_scale_init_value"] = json!(gain);
    written["drop_path_rate"] = json!(config.stack.drop_path);
    written["use_mean_pooling"] = json!(config.pooling == Pooling::MeanThenNorm);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = Table::new("beit.");
    let config = vit::vision(of);
    vit::token_and_patches(&mut table, "beit.embeddings", of);
    add_positions(&mut table, config, of);
    for layer in 0..config.depth().blocks() {
        let theirs = format!("beit.encoder.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        vit::block(&mut table, &theirs, &ours);
        for (number, residual) in [(1, "attention_residual"), (2, "feed_forward_residual")] {
            table.same(
                format!("{theirs}.lambda_{number}"),
                format!("{ours}.{residual}.scale.gain"),
            );
        }
    }
    table.norm("beit.layernorm", "model.stack.final_norm");
    table.norm("beit.pooler.layernorm", "model.pooled_norm");
    table.linear("classifier", "head", Orientation::OutIn);
    // Indices into the bias tables of distances, and the vector of masked patches.
    table.ignored = vec!["relative_position_index", "embeddings.mask_token"];
    let own = [
        (
            "attention.attention.relative_position_bias",
            "relative_position_bias",
        ),
        (
            "beit.encoder.relative_position_bias",
            "beit.shared_position_bias",
        ),
        ("beit.encoder.layer.", "beit.layers."),
    ];
    table.aliases(&[&own[..], &vit::BLOCK_OF_VERSION_5].concat());
    table
}

/// Adds the tables of the position scheme.
fn add_positions(table: &mut Table, config: &VisionConfig, of: &HfShape) {
    let bias = "relative_position_bias.relative_position_bias_table";
    match &config.stack.position {
        PositionConfig::RelativeBias2d(_) => {
            table.same(format!("beit.encoder.{bias}"), "model.position.table");
        }
        PositionConfig::RelativeBias2dPerLayer(_) => {
            for layer in 0..config.depth().blocks() {
                table.same(
                    format!("beit.encoder.layer.{layer}.attention.attention.{bias}"),
                    format!("model.position.layers.{layer}.table"),
                );
            }
        }
        _ => {
            let [_, height, width] = of.shape.image.unwrap_or_default();
            let positions = config.positions(height, width);
            vit::positions(table, "beit.embeddings", config, positions);
        }
    }
}
