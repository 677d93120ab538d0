//! ResNet (He et al. 2016) as an image classifier.

use super::add_classes;
use super::{Family, HfShape};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::resnet::{Blocks, StemSize};
use crate::model::{ModelConfig, ResnetConfig};
use crate::task::{ImageClassificationConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "resnet",
    summary: "ResNet: basic or bottleneck blocks, batch norm",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    super::image_heads::require(hf, "ResNetForImageClassification");
    hf.only("hidden_act", "relu");
    for key in ["out_features", "out_indices", "stage_names"] {
        // Keys of backbones within other models.
        hf.get(key);
    }
    let width = hf.count(&["embedding_size"], 64);
    let (blocks, expansion) = match hf.word("layer_type", "bottleneck") {
        "basic" => (Blocks::Basic, 1),
        "bottleneck" => (Blocks::Bottleneck, 4),
        other => {
            hf.fault(format!(
                "`layer_type` = \"{other}\" is neither \"basic\" nor \"bottleneck\""
            ));
            (Blocks::Basic, 1)
        }
    };
    let stages = numbers(hf, "depths", &[3, 4, 6, 3]);
    planes_of_stages(hf, expansion * width, &stages);
    HfShape {
        model: ModelConfig::Resnet(ResnetConfig {
            blocks,
            stages,
            width,
            stem: StemSize::Large,
            downsample_first_stage: hf.flag("downsample_in_first_stage", false),
            // For basic blocks, the class reads this key but does not use it.
            stride_in_1x1: hf.flag("downsample_in_bottleneck", false)
                && blocks == Blocks::Bottleneck,
            ..ResnetConfig::default()
        }),
        task: TaskConfig::ImageClassification(ImageClassificationConfig::default()),
        shape: Shape {
            // A residual network reads images of any size; the released models were trained on 224 by 224.
            image: Some([hf.count(&["num_channels"], 3), 224, 224]),
            classes: hf.classes(),
            ..Shape::default()
        },
    }
}

/// The planes of `stages` stages, doubling from one to the next.
pub(super) fn stage_planes(first: usize, stages: usize) -> Vec<usize> {
    (0..stages).map(|stage| first << stage).collect()
}

/// Checks the planes of stages, which must double from one to the next.
pub(super) fn planes_of_stages(hf: &HfConfig, first: usize, stages: &[usize]) {
    let planes = numbers(hf, "hidden_sizes", &[256, 512, 1024, 2048]);
    let doubled =
        |(stage, planes): (usize, &usize)| Some(*planes) == first.checked_shl(stage as u32);
    let double = planes.iter().enumerate().all(doubled);
    if stages.len() > 20 || planes.len() != stages.len() || !double {
        hf.fault(format!(
            "`hidden_sizes` = {planes:?} must be one number for each of `depths` = {stages:?}, starting at {first} and doubling \
             from stage to stage"
        ));
    }
}

/// A list of counts.
pub(super) fn numbers(hf: &HfConfig, key: &str, default: &[usize]) -> Vec<usize> {
    let Some(value) = hf.get(key) else {
        return default.to_vec();
    };
    let list = value.as_array().map(|list| list.iter().map(Value::as_u64));
    let list: Option<Vec<u64>> = list.and_then(Iterator::collect);
    match list {
        Some(list) if !list.is_empty() && list.iter().all(|n| (1..1 << 20).contains(n)) => {
            list.into_iter().map(|n| n as usize).collect()
        }
        _ => {
            hf.fault(format!(
                "`{key}` = {value} is not a list of whole numbers of at least 1"
            ));
            default.to_vec()
        }
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let ModelConfig::Resnet(config) = &of.model else {
        return None;
    };
    let (kind, expansion) = match config.blocks {
        Blocks::Basic => ("basic", 1),
        Blocks::Bottleneck => ("bottleneck", 4),
    };
    let mut written = json!({
        "architectures": ["ResNetForImageClassification"],
        "num_channels": of.shape.image?[0],
        "embedding_size": config.width,
        "hidden_sizes": stage_planes(expansion * config.width, config.stages.len()),
        "depths": config.stages,
        "layer_type": kind,
        "hidden_act": "relu",
        "downsample_in_first_stage": config.downsample_first_stage,
        "downsample_in_bottleneck": config.stride_in_1x1,
    });
    add_classes(&mut written, &of.shape.classes);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = Table::new("resnet.");
    let ModelConfig::Resnet(config) = &of.model else {
        unreachable!("the family reads residual networks alone")
    };
    add_layer(&mut table, "resnet.embedder.embedder", "model.stem");
    let layers = match config.blocks {
        Blocks::Basic => 2,
        Blocks::Bottleneck => 3,
    };
    for (stage, blocks) in config.stages.iter().enumerate() {
        for block in 0..*blocks {
            let theirs = format!("resnet.encoder.stages.{stage}.layers.{block}");
            let ours = format!("model.stages.{stage}.blocks.{block}");
            for layer in 0..layers {
                let name = format!("{theirs}.layer.{layer}");
                add_layer(&mut table, &name, &format!("{ours}.layers.{layer}"));
            }
            add_layer(
                &mut table,
                &format!("{theirs}.shortcut"),
                &format!("{ours}.shortcut"),
            );
        }
    }
    table.linear("classifier.1", "head", Orientation::OutIn);
    // Batch norm with a fixed momentum does not use its batch count.
    table.ignored = vec!["num_batches_tracked"];
    table
}

/// A convolution and its norm.
fn add_layer(table: &mut Table, theirs: &str, ours: &str) {
    table.same(
        format!("{theirs}.convolution.weight"),
        format!("{ours}.convolution.weight"),
    );
    let norm = format!("{theirs}.normalization");
    table.norm(&norm, &format!("{ours}.norm"));
    table.counts.push(format!("{norm}.num_batches_tracked"));
    for average in ["running_mean", "running_var"] {
        table.same(
            format!("{norm}.{average}"),
            format!("{ours}.norm.{average}"),
        );
    }
}
