//! The Swin Transformer (Liu et al. 2021) as an image classifier.

use super::declined::{Declined, difference_unless};
use super::resnet::numbers;
use super::stack_summary::activation_name;
use super::vit::sides;
use super::{Family, HfShape, add_classes};
use crate::data::Shape;
use crate::faults::MAX_WIDTH;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::{ModelConfig, SwinConfig};
use crate::nn::norm::NormConfig;
use crate::task::{ImageClassificationConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "swin",
    summary: "Swin Transformer: attention in shifted windows, feature maps that become smaller and wider",
    read,
    write,
    table,
    declined: Some(declined),
};

const CLASS: &str = "SwinForImageClassification";

/// Epsilon of the norms of patches and of merged patches, for which the class has no key.
const EPS: f64 = 1e-5;

/// Maximum number of stages and of blocks.
const MOST: [usize; 2] = [8, 1024];

fn read(hf: &HfConfig) -> HfShape {
    let (config, image) = network(hf, CLASS);
    let [_, height, width] = image;
    if !hf.is_faulty()
        && let Some((stage, [rows, cols])) = window_beyond_map(&config, [height, width])
    {
        hf.fault(format!(
            "`window_size` = {} is larger than the smallest feature map, {rows} by {cols} in stage {stage}, for which {CLASS} \
             has no position table; the maximum is {}",
            config.window,
            rows.min(cols)
        ));
    }
    classifier(hf, config, image)
}

/// A classifier with this network.
pub(super) fn classifier(hf: &HfConfig, config: SwinConfig, image: [usize; 3]) -> HfShape {
    HfShape {
        model: ModelConfig::Swin(config),
        task: TaskConfig::ImageClassification(ImageClassificationConfig::default()),
        shape: Shape {
            image: Some(image),
            classes: hf.classes(),
            ..Shape::default()
        },
    }
}

/// The network of a class, also used by the second version, and the shape of its images, `[channels, height, width]`.
pub(super) fn network(hf: &HfConfig, class: &str) -> (SwinConfig, [usize; 3]) {
    super::image_heads::require(hf, class);
    for key in [
        // Keys of a decoder of masked patches, and of backbones within other models.
        "encoder_stride",
        "out_features",
        "out_indices",
        "stage_names",
        // Keys that follow from others.
        "hidden_size",
        "num_layers",
        // Whether there are norms of patches and of merged patches, in published folders: the class always has them.
        "path_norm",
    ] {
        hf.get(key);
    }
    hf.only("use_absolute_embeddings", false);
    let [height, width] = sides(hf, "image_size", 224);
    let [size, other] = sides(hf, "patch_size", 4);
    let fits = size == other && height.is_multiple_of(size) && width.is_multiple_of(size);
    // A placeholder for a faulty value would cause faults of its own, here and below.
    if !fits && !hf.is_faulty() {
        hf.fault(format!(
            "`patch_size` = {size} by {other} must be a square that divides `image_size` = {height} by {width}"
        ));
    }
    let eps = hf.real("layer_norm_eps", EPS);
    if eps != EPS {
        hf.fault(format!(
            "`layer_norm_eps` = {eps:?}: the norms of patches and of merged patches always use {EPS:?}, and all norms of a \
             model are alike here: it must be {EPS:?}"
        ));
    }
    let config = SwinConfig {
        patch_size: size,
        window: hf.count(&["window_size"], 7),
        stages: numbers(hf, "depths", &[2, 2, 6, 2]),
        d_model: hf.count(&["embed_dim"], 96),
        n_heads: numbers(hf, "num_heads", &[3, 6, 12, 24]),
        qkv_bias: hf.flag("qkv_bias", true),
        ff_ratio: hf.real("mlp_ratio", 4.0),
        activation: hf.activation("hidden_act", "gelu"),
        norm: super::layer_norm(EPS),
        dropout: hf.real("hidden_dropout_prob", 0.0),
        dropout_attention: Some(hf.real("attention_probs_dropout_prob", 0.0)),
        drop_path: hf.real("drop_path_rate", 0.1),
        ..SwinConfig::default()
    };
    if !hf.is_faulty() {
        stage_faults(hf, &config);
    }
    (config, [hf.count(&["num_channels"], 3), height, width])
}

/// Reports faults of the stages and their heads.
fn stage_faults(hf: &HfConfig, config: &SwinConfig) {
    let (stages, heads) = (&config.stages, &config.n_heads);
    let [most_stages, most_blocks] = MOST;
    if stages.len() != heads.len() || stages.len() > most_stages || config.blocks() > most_blocks {
        hf.fault(format!(
            "`num_heads` = {heads:?} must be one number for each of `depths` = {stages:?}, with at most {most_stages} stages \
             and {most_blocks} blocks"
        ));
        return;
    }
    let inner = config.ff_ratio * config.d_model as f64;
    if !(1.0..=MAX_WIDTH as f64).contains(&inner) {
        hf.fault(format!(
            "`mlp_ratio` = {:?} times `embed_dim` = {} must be between 1 and {MAX_WIDTH}",
            config.ff_ratio, config.d_model
        ));
    }
    for (stage, heads) in heads.iter().enumerate() {
        let width = config.width(stage);
        if !width.is_multiple_of(*heads) {
            hf.fault(format!(
                "`num_heads` has {heads} for stage {stage}, which does not divide its width {width}, `embed_dim` doubled {stage} times"
            ));
        }
    }
}

/// The stage with the smallest map, and its rows and columns, if the window is larger than that map: the class then builds a bias
/// table for the whole window, and cannot run.
fn window_beyond_map(
    config: &SwinConfig,
    [height, width]: [usize; 2],
) -> Option<(usize, [usize; 2])> {
    let shapes = config.shapes(height, width).into_iter().enumerate();
    let smaller = shapes.filter(|(_, stage)| stage.window < config.window);
    let smallest = smaller.min_by_key(|(_, stage)| stage.window);
    smallest.map(|(number, stage)| (number, stage.map))
}

/// Whether norms are those of the class.
pub(super) fn has_class_norm(norm: &NormConfig) -> bool {
    *norm == super::layer_norm(EPS)
}

/// The differences of a network from `other` in the parts that distinguish the two versions.
pub(super) fn version_differences(config: &SwinConfig, other: &SwinConfig) -> [Option<String>; 4] {
    let both = |of: fn(&SwinConfig) -> Value| [of(config), of(other)];
    let told = |key: &str, [own, theirs]: [Value; 2]| {
        difference_unless(own == theirs, key, &own, &theirs.to_string())
    };
    let biased = |c: &SwinConfig| c.qkv_bias && c.key_bias;
    let keys = config.qkv_bias && config.key_bias != biased(other);
    [
        told("model.scores", both(|c| json!(c.scores))),
        told("model.position_bias", both(|c| json!(c.position_bias))),
        told("model.norm_placement", both(|c| json!(c.norm_placement))),
        keys.then(|| told("model.key_bias", both(|c| json!(c.key_bias))))
            .flatten(),
    ]
}

/// The difference of norms from those of the classes.
pub(super) fn norm_difference(config: &SwinConfig) -> Option<String> {
    let theirs = format!("{{ kind = \"layer\", eps = {EPS:?} }}");
    difference_unless(
        has_class_norm(&config.norm),
        "model.norm",
        &config.norm,
        &theirs,
    )
}

/// The differences from what the keys can express.
fn declined(of: &HfShape) -> Declined {
    let (ModelConfig::Swin(config), TaskConfig::ImageClassification(_)) = (&of.model, &of.task)
    else {
        return Declined::default();
    };
    let version = version_differences(config, &SwinConfig::default())
        .into_iter()
        .flatten();
    let norm = norm_difference(config);
    let [_, height, width] = of.shape.image.unwrap_or_default();
    let window = window_beyond_map(config, [height, width]).map(|(stage, [rows, cols])| {
        format!(
            "model.window is {} instead of at most {} for the feature map of {rows} by {cols} in stage {stage}",
            config.window,
            rows.min(cols)
        )
    });
    Declined {
        differences: version.chain(norm).chain(window).collect(),
        ..Declined::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let ModelConfig::Swin(config) = &of.model else {
        return None;
    };
    let [_, height, width] = of.shape.image?;
    let unlike = version_differences(config, &SwinConfig::default());
    if unlike.iter().any(Option::is_some) || window_beyond_map(config, [height, width]).is_some() {
        return None;
    }
    write_as(of, CLASS)
}

/// The keys that both versions have.
pub(super) fn write_as(of: &HfShape, class: &str) -> Option<Value> {
    let ModelConfig::Swin(config) = &of.model else {
        return None;
    };
    let [channels, height, width] = of.shape.image?;
    if !has_class_norm(&config.norm) {
        return None;
    }
    let mut written = json!({
        "architectures": [class],
        "image_size": match height == width {
            true => json!(height),
            false => json!([height, width]),
        },
        "patch_size": config.patch_size,
        "num_channels": channels,
        "embed_dim": config.d_model,
        "depths": config.stages,
        "num_heads": config.n_heads,
        "window_size": config.window,
        "mlp_ratio": config.ff_ratio,
        "qkv_bias": config.qkv_bias,
        "hidden_act": activation_name(config.activation),
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout(),
        "drop_path_rate": config.drop_path,
        "layer_norm_eps": EPS,
        "use_absolute_embeddings": false,
    });
    add_classes(&mut written, &of.shape.classes);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    named(of, "swin.")
}

/// The table with this prefix.
pub(super) fn named(of: &HfShape, prefix: &'static str) -> Table {
    let mut table = Table::new(prefix);
    let ModelConfig::Swin(config) = &of.model else {
        unreachable!("the family reads Swin Transformers alone")
    };
    let [channels, ..] = of.shape.image.unwrap_or_default();
    let size = config.patch_size;
    let patches = format!("{prefix}embeddings.patch_embeddings.projection");
    table.reshaped(
        format!("{patches}.weight"),
        "model.stem.projection.weight",
        vec![config.d_model, channels, size, size],
    );
    table.same(format!("{patches}.bias"), "model.stem.projection.bias");
    table.norm(&format!("{prefix}embeddings.norm"), "model.stem_norm");
    for (stage, blocks) in config.stages.iter().enumerate() {
        let theirs = format!("{prefix}encoder.layers.{stage}");
        let ours = format!("model.stages.{stage}");
        for block in 0..*blocks {
            let part = format!("blocks.{block}");
            add_block(
                &mut table,
                &format!("{theirs}.{part}"),
                &format!("{ours}.{part}"),
            );
        }
        if stage + 1 < config.stages.len() {
            let (theirs, ours) = (format!("{theirs}.downsample"), format!("{ours}.merging"));
            table.norm(&format!("{theirs}.norm"), &format!("{ours}.norm"));
            table.linear(
                &format!("{theirs}.reduction"),
                &format!("{ours}.reduction"),
                Orientation::OutIn,
            );
        }
    }
    table.norm(&format!("{prefix}layernorm"), "model.norm");
    table.linear("classifier", "head", Orientation::OutIn);
    // Indices into the bias table, which follow from the window.
    table.ignored = vec!["relative_position_index"];
    // The names in version 5's own modules.
    table.aliases(&[
        (
            "attention.self.relative_position_bias_table",
            "attention.relative_position_bias.relative_position_bias_table",
        ),
        ("attention.self.query", "attention.q_proj"),
        ("attention.self.key", "attention.k_proj"),
        ("attention.self.value", "attention.v_proj"),
        ("attention.output.dense", "attention.o_proj"),
        ("intermediate.dense", "mlp.fc1"),
        ("output.dense", "mlp.fc2"),
    ]);
    table
}

/// A block: attention with its bias table, a feed-forward layer, and their norms.
fn add_block(table: &mut Table, theirs: &str, ours: &str) {
    table.linears(
        theirs,
        ours,
        &[
            ("attention.self.query", "attention.query"),
            ("attention.self.key", "attention.key"),
            ("attention.self.value", "attention.value"),
            ("attention.output.dense", "attention.output"),
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
    table.same(
        format!("{theirs}.attention.self.relative_position_bias_table"),
        format!("{ours}.position.table"),
    );
}
