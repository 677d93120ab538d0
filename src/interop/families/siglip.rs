//! SigLIP (Zhai et al. 2023): a vision transformer that pools by attention, and a bidirectional text transformer that represents
//! a text, padded to a fixed length, by its last position. Each image-text pair is scored by itself.
//!
//! The class attends to padding, since its tokenizer makes no mask, and reads the last position even if a mask is given. For
//! masked batches its text embeddings therefore differ from those here, where texts are padded again from their lengths.

use super::clip::{self, Defaults};
use super::declined::{Declined, difference_unless, tower_differences};
use super::stack_summary::{positions, summarize};
use super::{Family, HfShape};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::vision::{PatchesConfig, Pooling, StemConfig};
use crate::model::{EncoderConfig, ModelConfig, TwoTowersConfig, VisionConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::StackConfig;
use crate::task::image_text::ImageTextLoss;
use crate::task::whole_text::Pooling as Stands;
use crate::task::{ImageTextConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "siglip",
    summary: "SigLIP: a vision transformer and a bidirectional text transformer, with a sigmoid loss over pairs",
    read,
    write,
    table,
    declined: Some(declined),
};

/// The defaults of both towers.
const DEFAULTS: Defaults = Defaults {
    sizes: [768, 12, 12, 3072],
    eps: 1e-6,
    activation: "gelu_pytorch_tanh",
};
/// The initial temperature that divides cosines: the class has no key for it. Source: Zhai et al. 2023, section 3.2.
const TEMPERATURE: f64 = 0.1;

/// The class's default of `pad_token_id`.
const FILL: u32 = 1;

fn read(hf: &HfConfig) -> HfShape {
    super::bart::require_class(hf, &["SiglipModel"]);
    let [text, vision] = ["text_config", "vision_config"].map(|key| hf.nested(key));
    for tower in [&text, &vision] {
        for key in ["is_decoder", "add_cross_attention"] {
            tower.only(key, false);
        }
        // Neither tower has an LM head.
        tower.get("tie_word_embeddings");
    }
    vision.only("vision_use_head", true);
    let context = text.count(&["max_position_embeddings"], 64);
    let encoder = EncoderConfig {
        n_layers: Some(text.count(&["num_hidden_layers"], DEFAULTS.sizes[1])),
        segments: 0,
        stack: StackConfig {
            position: PositionConfig::Learned(LearnedConfig {
                max_len: Some(context),
                ..LearnedConfig::default()
            }),
            ..clip::stack(&text, DEFAULTS)
        },
        ..EncoderConfig::default()
    };
    let [side, size] = clip::patches(&vision, 16);
    let network = VisionConfig {
        n_layers: Some(vision.count(&["num_hidden_layers"], DEFAULTS.sizes[1])),
        stem: StemConfig::Patches(PatchesConfig { size, bias: true }),
        pooling: Pooling::Attention,
        stack: clip::stack(&vision, DEFAULTS),
        ..VisionConfig::default()
    };
    let d_joint = network.stack.d_model;
    let projected = text.count(&["projection_size"], encoder.stack.d_model);
    if projected != d_joint {
        text.fault(format!(
            "`projection_size` = {projected} must be the size of image embeddings, `hidden_size` = {d_joint} of `vision_config`"
        ));
    }
    let fill = text.typed("pad_token_id", "the id of a token", |value| {
        value.as_u64().and_then(|id| u32::try_from(id).ok())
    });
    let shape = Shape {
        image: Some([vision.count(&["num_channels"], 3), side, side]),
        ..Shape::of_text(context, text.count(&["vocab_size"], 32000))
    };
    hf.merge_faults(text);
    hf.merge_faults(vision);
    HfShape {
        model: ModelConfig::TwoTowers(TwoTowersConfig {
            image: Box::new(ModelConfig::Vision(network)),
            text: Box::new(ModelConfig::Encoder(encoder)),
            d_joint,
            image_projection: false,
            projection_bias: true,
            temperature: TEMPERATURE,
            logit_bias: None,
        }),
        task: TaskConfig::ImageText(ImageTextConfig {
            loss: ImageTextLoss::Sigmoid,
            pooling: Some(Stands::Last),
            fill: Some(fill.unwrap_or(FILL)),
            ..ImageTextConfig::default()
        }),
        shape,
    }
}

/// The differences from what the keys can express: the class reads the last position of a padded text.
fn declined(of: &HfShape) -> Declined {
    let TaskConfig::ImageText(task) = &of.task else {
        return Declined::default();
    };
    let mut found = tower_differences(of, "encoder");
    let (last, token) = (task.pooling == Some(Stands::Last), "the id of a token");
    let more = [
        difference_unless(last, "task.pooling", task.pooling, "\"last\""),
        difference_unless(task.end.is_none(), "task.end", task.end, "absent"),
        difference_unless(task.fill.is_some(), "task.fill", task.fill, token),
    ];
    found.differences.extend(more.into_iter().flatten());
    found
}

fn write(of: &HfShape) -> Option<Value> {
    let (ModelConfig::TwoTowers(towers), TaskConfig::ImageText(task)) = (&of.model, &of.task)
    else {
        return None;
    };
    let (ModelConfig::Vision(image), ModelConfig::Encoder(text)) =
        (towers.image.as_ref(), towers.text.as_ref())
    else {
        return None;
    };
    let StemConfig::Patches(patches) = &image.stem else {
        return None;
    };
    let [channels, height, _] = of.shape.image?;
    if !declined(of).differences.is_empty() {
        return None;
    }
    let mut text_config = clip::sizes(text.stack.d_model, &summarize(&text.stack, &text.depth())?);
    text_config["model_type"] = json!("siglip_text_model");
    text_config["vocab_size"] = json!(of.shape.vocab_size);
    text_config["max_position_embeddings"] = json!(positions(&text.stack, of.shape.context));
    text_config["projection_size"] = json!(towers.d_joint);
    text_config["pad_token_id"] = json!(task.fill?);
    let mut vision_config = clip::sizes(
        image.stack.d_model,
        &summarize(&image.stack, &image.depth())?,
    );
    vision_config["model_type"] = json!("siglip_vision_model");
    vision_config["image_size"] = json!(height);
    vision_config["patch_size"] = json!(patches.size);
    vision_config["num_channels"] = json!(channels);
    Some(json!({
        "architectures": ["SiglipModel"],
        "text_config": text_config,
        "vision_config": vision_config,
    }))
}

fn table(of: &HfShape) -> Table {
    let ModelConfig::TwoTowers(towers) = &of.model else {
        unreachable!("the family reads two towers alone")
    };
    let (ModelConfig::Vision(image), ModelConfig::Encoder(text)) =
        (towers.image.as_ref(), towers.text.as_ref())
    else {
        unreachable!("the family reads a vision transformer and an encoder")
    };
    let mut table = Table::new("");
    add_vision(&mut table, image, of.shape.image.unwrap_or_default()[0]);
    let embeddings = "text_model.embeddings";
    table.same(
        format!("{embeddings}.token_embedding.weight"),
        "model.text.embedding.weight",
    );
    table.same(
        format!("{embeddings}.position_embedding.weight"),
        "model.text.position.table",
    );
    clip::add_blocks(&mut table, ["text_model", "model.text"], text.n_layers());
    table.norm("text_model.final_layer_norm", "model.text.stack.final_norm");
    table.linear(
        "text_model.head",
        "model.text_projection",
        Orientation::OutIn,
    );
    for scale in ["logit_scale", "logit_bias"] {
        table.same(scale, format!("model.sigmoid.{scale}"));
    }
    table.ignored = vec![".position_ids"];
    table
}

/// Adds the image network.
fn add_vision(table: &mut Table, image: &VisionConfig, channels: usize) {
    let size = match &image.stem {
        StemConfig::Patches(patches) => patches.size,
        StemConfig::Resnet(_) => unreachable!("the family has patches"),
    };
    let d = image.stack.d_model;
    let (theirs, ours) = ("vision_model", "model.image");
    table.same(
        format!("{theirs}.embeddings.position_embedding.weight"),
        format!("{ours}.position.table"),
    );
    table.reshaped(
        format!("{theirs}.embeddings.patch_embedding.weight"),
        format!("{ours}.stem.projection.weight"),
        vec![d, channels, size, size],
    );
    table.same(
        format!("{theirs}.embeddings.patch_embedding.bias"),
        format!("{ours}.stem.projection.bias"),
    );
    clip::add_blocks(table, [theirs, ours], image.depth().blocks());
    table.norm(
        &format!("{theirs}.post_layernorm"),
        &format!("{ours}.stack.final_norm"),
    );
    let (theirs, ours) = ("vision_model.head", "model.image.attention_pooling");
    table.reshaped(
        format!("{theirs}.probe"),
        format!("{ours}.probe"),
        vec![1, 1, d],
    );
    table.in_proj(
        &format!("{theirs}.attention"),
        &format!("{ours}.attention"),
        d,
    );
    table.linears(
        theirs,
        ours,
        &[
            ("attention.out_proj", "attention.output"),
            ("mlp.fc1", "feed_forward.up"),
            ("mlp.fc2", "feed_forward.down"),
        ],
    );
    table.norms(theirs, ours, &[("layernorm", "feed_forward_residual.norm")]);
}
