//! Big Transfer (Kolesnikov et al. 2020): the residual network with norms before its convolutions, as an image classifier.

use super::declined::{Declined, difference_unless};
use super::resnet::{numbers, planes_of_stages, stage_planes};
use super::{Family, HfShape, add_classes};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::resnet::{Blocks, StemSize};
use crate::model::{ModelConfig, ResnetConfig};
use crate::nn::channel_norm::{ChannelNormConfig, GroupNormConfig};
use crate::nn::convolution::Padding;
use crate::task::{ImageClassificationConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "bit",
    summary: "BiT: ResNet v2, group norm, standardised weights",
    read,
    write,
    table,
    declined: Some(declined),
};

/// The class's only norm: it has no key for another epsilon.
fn norm(groups: usize) -> ChannelNormConfig {
    ChannelNormConfig::Group(GroupNormConfig { groups, eps: 1e-5 })
}

fn read(hf: &HfConfig) -> HfShape {
    super::image_heads::require(hf, "BitForImageClassification");
    hf.only("hidden_act", "relu");
    hf.only("width_factor", 1);
    for key in ["out_features", "out_indices", "stage_names"] {
        // Keys of backbones within other models.
        hf.get(key);
    }
    let preactivation = match hf.word("layer_type", "preactivation") {
        "preactivation" => true,
        "bottleneck" => false,
        other => {
            hf.fault(format!(
                "`layer_type` = \"{other}\" is neither \"preactivation\" nor \"bottleneck\""
            ));
            true
        }
    };
    let same = padding(hf, preactivation);
    if hf.real("drop_path_rate", 0.0) != 0.0 {
        hf.fault("`drop_path_rate` must be 0: residual networks do not support drop path here");
    }
    let width = hf.count(&["embedding_size"], 64);
    if !width.is_multiple_of(8) {
        hf.fault(format!(
            "`embedding_size` = {width} must be a multiple of 8: the class rounds the channels inside a block to multiples of 8"
        ));
    }
    let stages = numbers(hf, "depths", &[3, 4, 6, 3]);
    planes_of_stages(hf, 4 * width, &stages);
    // Stages that would reduce a feature map further are dilated by the class instead.
    let halved = 4usize << stages.len().clamp(1, 20).saturating_sub(1);
    if hf.count(&["output_stride"], 32) < halved {
        hf.fault(format!("`output_stride` must be at least {halved}: lower values dilate kernels, which is not supported"));
    }
    HfShape {
        model: ModelConfig::Resnet(ResnetConfig {
            blocks: Blocks::Bottleneck,
            stages,
            width,
            stem: StemSize::Large,
            preactivation,
            padding: same,
            norm: norm(hf.count(&["num_groups"], 32)),
            standardized: true,
            ..ResnetConfig::default()
        }),
        task: TaskConfig::ImageClassification(ImageClassificationConfig::default()),
        shape: Shape {
            // The network reads images of any size; the released models were trained on 224 by 224.
            image: Some([hf.count(&["num_channels"], 3), 224, 224]),
            classes: hf.classes(),
            ..Shape::default()
        },
    }
}

/// The padding of convolutions. The two keys must agree; and without SAME, the norm of a post-norm stem would include padding
/// zeros.
fn padding(hf: &HfConfig, preactivation: bool) -> Padding {
    let same = match hf.get("global_padding").and_then(Value::as_str) {
        None => false,
        Some(word) if word.eq_ignore_ascii_case("same") => true,
        Some(other) => {
            hf.fault(format!(
                "`global_padding` = \"{other}\" is neither \"same\" nor null"
            ));
            false
        }
    };
    if hf.flag("embedding_dynamic_padding", false) != same {
        hf.fault("`embedding_dynamic_padding` must be true with `global_padding` = \"same\" and false without it");
    }
    if !same && !preactivation {
        hf.fault("`layer_type` = \"bottleneck\" needs `global_padding` = \"same\": its first norm would include the zero \
                  padding of the feature map");
    }
    if same {
        Padding::Same
    } else {
        Padding::Symmetric
    }
}

/// The differences from what the keys can express.
fn declined(of: &HfShape) -> Declined {
    let (ModelConfig::Resnet(config), TaskConfig::ImageClassification(_)) = (&of.model, &of.task)
    else {
        return Declined::default();
    };
    let group = matches!(config.norm, ChannelNormConfig::Group(_));
    let norm = json!(config.norm);
    let norm = difference_unless(group, "model.norm.kind", &norm["kind"], "\"group\"");
    Declined {
        differences: norm.into_iter().collect(),
        ..Declined::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let ModelConfig::Resnet(config) = &of.model else {
        return None;
    };
    let ChannelNormConfig::Group(group) = &config.norm else {
        return None;
    };
    let same = config.padding == Padding::Same;
    let kind = match config.preactivation {
        true => "preactivation",
        false => "bottleneck",
    };
    let mut written = json!({
        "architectures": ["BitForImageClassification"],
        "num_channels": of.shape.image?[0],
        "embedding_size": config.width,
        "hidden_sizes": stage_planes(4 * config.width, config.stages.len()),
        "depths": config.stages,
        "layer_type": kind,
        "hidden_act": "relu",
        "global_padding": same.then_some("SAME"),
        "embedding_dynamic_padding": same,
        "num_groups": group.groups,
        "output_stride": (4usize << config.stages.len().saturating_sub(1)).max(32),
    });
    add_classes(&mut written, &of.shape.classes);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = Table::new("bit.");
    let ModelConfig::Resnet(config) = &of.model else {
        unreachable!("the family reads residual networks alone")
    };
    let weight = |table: &mut Table, theirs: &str, ours: &str| {
        let ours = format!("{ours}.convolution.weight");
        table.same(format!("{theirs}.weight"), ours);
    };
    weight(&mut table, "bit.embedder.convolution", "model.stem");
    if config.preactivation {
        table.norm("bit.norm", "model.norm");
    } else {
        table.norm("bit.embedder.norm", "model.stem.norm");
    }
    for (stage, blocks) in config.stages.iter().enumerate() {
        for block in 0..*blocks {
            let theirs = format!("bit.encoder.stages.{stage}.layers.{block}");
            let ours = format!("model.stages.{stage}.blocks.{block}");
            for layer in 0..3 {
                let ours = format!("{ours}.layers.{layer}");
                weight(&mut table, &format!("{theirs}.conv{}", layer + 1), &ours);
                table.norm(
                    &format!("{theirs}.norm{}", layer + 1),
                    &format!("{ours}.norm"),
                );
            }
            if block == 0 {
                let ours = format!("{ours}.shortcut");
                weight(&mut table, &format!("{theirs}.downsample.conv"), &ours);
                if !config.preactivation {
                    let theirs = format!("{theirs}.downsample.norm");
                    table.norm(&theirs, &format!("{ours}.norm"));
                }
            }
        }
    }
    table.linear("classifier.1", "head", Orientation::OutIn);
    table
}
