//! Swin V2 (Liu et al. 2022) as an image classifier: [`swin`] with cosine attention scores, a network that computes position
//! biases instead of tables, keys without biases, and norms on the outputs of layers.

use super::declined::Declined;
use super::swin;
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::swin::StageShape;
use crate::model::swin::bias::PositionBias;
use crate::model::swin::cosines::Scores;
use crate::model::{ModelConfig, SwinConfig};
use crate::stack::NormPlacement;
use crate::task::TaskConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "swinv2",
    summary: "Swin V2: cosine attention, a network for position biases, norms after the layers",
    read,
    write,
    table,
    declined: Some(declined),
};

const CLASS: &str = "Swinv2ForImageClassification";

/// The largest window with which a position bias network may have been trained.
const MOST_WINDOW: u64 = 256;

/// Sets the parts in which the second version differs from the first.
fn to_version_2(config: SwinConfig) -> SwinConfig {
    SwinConfig {
        key_bias: !config.qkv_bias,
        scores: Scores::Cosines,
        position_bias: PositionBias::Continuous,
        norm_placement: NormPlacement::ResPost,
        ..config
    }
}

fn read(hf: &HfConfig) -> HfShape {
    let (config, image) = swin::network(hf, CLASS);
    let config = SwinConfig {
        trained_windows: trained_windows(hf, &config),
        ..to_version_2(config)
    };
    let [_, height, width] = image;
    if !hf.is_faulty()
        && let Some(stage) = other_windows(&config, [height, width])
    {
        hf.fault(format!(
            "`image_size` = {height} by {width} makes {CLASS} divide the feature map of stage {stage} into other windows than \
             `window_size` = {} does here: the class rounds odd sides down and takes the size of windows only from the rows",
            config.window
        ));
    }
    swin::classifier(hf, config, image)
}

/// The window with which the position bias network of each stage was trained; empty if each was trained with its own.
fn trained_windows(hf: &HfConfig, config: &SwinConfig) -> Vec<usize> {
    const KEY: &str = "pretrained_window_sizes";
    let wanted = "a list of window sizes, each 0 or from 2 to 256";
    let sound = |side: &u64| *side != 1 && *side <= MOST_WINDOW;
    let side = |value: &Value| value.as_u64().filter(sound).map(|side| side as usize);
    let list = |value: &Value| {
        value
            .as_array()?
            .iter()
            .map(side)
            .collect::<Option<Vec<usize>>>()
    };
    let Some(mut sides) = hf.typed(KEY, wanted, list) else {
        return Vec::new();
    };
    let stages = config.stages.len();
    if sides.len() < stages {
        hf.fault(format!(
            "`{KEY}` = {sides:?} must be one size for each of `depths` = {:?}",
            config.stages
        ));
    }
    // The class reads one entry per stage, and its own default has four.
    sides.truncate(stages);
    match sides.iter().all(|side| *side == 0) {
        true => Vec::new(),
        false => sides,
    }
}

/// Finds a stage whose map the class cuts into other windows: it halves the sides of maps rounding down, and only uses the rows.
fn other_windows(config: &SwinConfig, [height, width]: [usize; 2]) -> Option<usize> {
    let [rows, _] = config.first_map(height, width);
    let shapes = config.shapes(height, width);
    let differs = |(number, stage): &(usize, &StageShape)| {
        let rows = rows >> number;
        let window = rows.min(config.window);
        let whole = rows <= window;
        window != stage.window || whole != stage.unshifted && stage.blocks > 1
    };
    let mut stages = shapes.iter().enumerate();
    stages.find(differs).map(|(number, _)| number)
}

/// The differences from what the keys can express.
fn declined(of: &HfShape) -> Declined {
    let (ModelConfig::Swin(config), TaskConfig::ImageClassification(_)) = (&of.model, &of.task)
    else {
        return Declined::default();
    };
    let version = swin::version_differences(config, &to_version_2(config.clone()));
    let [_, height, width] = of.shape.image.unwrap_or_default();
    let windows = other_windows(config, [height, width]).map(|stage| {
        format!(
            "images are {height} by {width} instead of a size with equal windows in stage {stage}"
        )
    });
    let why = version.into_iter().flatten();
    Declined {
        differences: why
            .chain(swin::norm_difference(config))
            .chain(windows)
            .collect(),
        ..Declined::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let ModelConfig::Swin(config) = &of.model else {
        return None;
    };
    let [_, height, width] = of.shape.image?;
    let unlike = swin::version_differences(config, &to_version_2(config.clone()));
    if unlike.iter().any(Option::is_some) || other_windows(config, [height, width]).is_some() {
        return None;
    }
    let mut written = swin::write_as(of, CLASS)?;
    let sides = match config.trained_windows.as_slice() {
        [] => vec![0; config.stages.len().max(4)],
        sides => sides.to_vec(),
    };
    written["pretrained_window_sizes"] = json!(sides);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = swin::named(of, "swinv2.");
    let ModelConfig::Swin(config) = &of.model else {
        unreachable!("the family reads Swin Transformers alone")
    };
    for (stage, blocks) in config.stages.iter().enumerate() {
        for block in 0..*blocks {
            let theirs = format!("swinv2.encoder.layers.{stage}.blocks.{block}.attention.self");
            let ours = format!("model.stages.{stage}.blocks.{block}");
            let heads = config.n_heads.get(stage).copied().unwrap_or(1);
            table.reshaped(
                format!("{theirs}.logit_scale"),
                format!("{ours}.cosines.logit_scale"),
                vec![heads, 1, 1],
            );
            let network = format!("{theirs}.continuous_position_bias_mlp");
            let maps = [("0", "up"), ("2", "down")];
            table.linears(&network, &format!("{ours}.position"), &maps);
        }
    }
    // Tensors that follow from the windows.
    table.ignored.extend(["relative_coords_table", "attn_mask"]);
    table
}
