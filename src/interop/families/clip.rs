//! CLIP (Radford et al. 2021): a vision transformer and a causal text transformer, compared by cosine similarity.

use super::declined::{Declined, difference_unless, tower_differences};
use super::stack_summary::{StackSummary, positions, summarize};
use super::{Family, HfShape, layer_norm};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::vision::{PatchesConfig, Pooling, StemConfig};
use crate::model::{DecoderConfig, ModelConfig, TwoTowersConfig, VisionConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{NormPlacement, StackConfig};
use crate::task::image_text::{EndToken, LargestId, TextEnd};
use crate::task::whole_text::Pooling as Stands;
use crate::task::{ImageTextConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "clip",
    summary: "CLIP: a vision transformer and a text transformer, compared by cosine similarity",
    read,
    write,
    table,
    declined: Some(declined),
};

/// The end token id by which the class recognises its first files, in which the end is the position of a text's largest id.
const LEGACY_END: u32 = 2;
/// `logit_scale_init_value` of the class.
const LOGIT_SCALE: f64 = 2.6592;

/// The sizes of a tower: width, number of blocks, number of heads, inner width.
pub(super) type Sizes = [usize; 4];

const TEXT_DEFAULTS: Defaults = Defaults {
    sizes: [512, 12, 8, 2048],
    eps: 1e-5,
    activation: "quick_gelu",
};
const IMAGE_DEFAULTS: Defaults = Defaults {
    sizes: [768, 12, 12, 3072],
    ..TEXT_DEFAULTS
};

/// The defaults of the class of a tower.
#[derive(Clone, Copy)]
pub(super) struct Defaults {
    pub sizes: Sizes,
    pub eps: f64,
    pub activation: &'static str,
}

fn read(hf: &HfConfig) -> HfShape {
    super::bart::require_class(hf, &["CLIPModel"]);
    let (text, vision) = (tower(hf, "text_config"), tower(hf, "vision_config"));
    let context = text.count(&["max_position_embeddings"], 77);
    let decoder = DecoderConfig {
        n_layers: Some(text.count(&["num_hidden_layers"], TEXT_DEFAULTS.sizes[1])),
        stack: StackConfig {
            position: PositionConfig::Learned(LearnedConfig {
                max_len: Some(context),
                ..LearnedConfig::default()
            }),
            ..stack(&text, TEXT_DEFAULTS)
        },
        ..DecoderConfig::default()
    };
    let [side, size] = patches(&vision, 32);
    let network = VisionConfig {
        n_layers: Some(vision.count(&["num_hidden_layers"], IMAGE_DEFAULTS.sizes[1])),
        stem: StemConfig::Patches(PatchesConfig { size, bias: false }),
        embedding_norm: true,
        pooling: Pooling::Class,
        stack: stack(&vision, IMAGE_DEFAULTS),
        ..VisionConfig::default()
    };
    let shape = Shape {
        image: Some([vision.count(&["num_channels"], 3), side, side]),
        ..Shape::of_text(context, text.count(&["vocab_size"], 49408))
    };
    let end = end(&text);
    hf.merge_faults(text);
    hf.merge_faults(vision);
    HfShape {
        model: ModelConfig::TwoTowers(TwoTowersConfig {
            image: Box::new(ModelConfig::Vision(network)),
            text: Box::new(ModelConfig::Decoder(decoder)),
            d_joint: hf.count(&["projection_dim"], 512),
            image_projection: true,
            projection_bias: false,
            temperature: temperature(hf.real("logit_scale_init_value", LOGIT_SCALE)),
            logit_bias: None,
        }),
        task: TaskConfig::ImageText(ImageTextConfig {
            end: Some(end),
            ..ImageTextConfig::default()
        }),
        shape,
    }
}

/// The initial temperature that divides cosines: at least 1/100, since the scale of trained weights is bounded.
fn temperature(logit_scale: f64) -> f64 {
    (-logit_scale).exp().clamp(1e-2, f64::MAX)
}

/// The object of a tower. If the file has `…_config_dict` of the first versions, the class takes all keys from there.
fn tower<'a>(hf: &HfConfig<'a>, key: &str) -> HfConfig<'a> {
    let older = format!("{key}_dict");
    let named = match hf.get(&older) {
        Some(_) => older.as_str(),
        None => key,
    };
    hf.get(key);
    let tower = hf.nested(named);
    for key in ["is_decoder", "add_cross_attention"] {
        tower.only(key, false);
    }
    for key in ["tie_word_embeddings", "projection_dim"] {
        // Keys of other classes: neither tower has an LM head, and the width of both projections is set for the whole model.
        tower.get(key);
    }
    tower
}

/// The sides of an image and of its patches, in pixels.
pub(super) fn patches(vision: &HfConfig, usual: usize) -> [usize; 2] {
    let side = vision.count(&["image_size"], 224);
    let size = vision.count(&["patch_size"], usual);
    if !side.is_multiple_of(size) {
        vision.fault(format!(
            "`patch_size` = {size} must divide `image_size` = {side}"
        ));
    }
    [side, size]
}

/// The stack of either tower.
pub(super) fn stack(hf: &HfConfig, usual: Defaults) -> StackConfig {
    let [width, _, heads, inner] = usual.sizes;
    StackConfig {
        d_model: hf.count(&["hidden_size"], width),
        norm: layer_norm(hf.real("layer_norm_eps", usual.eps)),
        norm_placement: NormPlacement::Pre,
        position: PositionConfig::Learned(LearnedConfig::default()),
        attention: AttentionConfig::MultiHead(MultiHeadConfig {
            n_heads: hf.count(&["num_attention_heads"], heads),
            bias: true,
            out_bias: Some(true),
            ..MultiHeadConfig::default()
        }),
        feed_forward: FeedForwardConfig::Dense(DenseConfig {
            d_ff: Some(hf.count(&["intermediate_size"], inner)),
            activation: hf.activation("hidden_act", usual.activation),
            bias: true,
            ..DenseConfig::default()
        }),
        dropout: 0.0,
        dropout_attention: Some(hf.real("attention_dropout", 0.0)),
        ..StackConfig::default()
    }
}

/// The token that ends a text.
fn end(text: &HfConfig) -> TextEnd {
    let id = text.typed("eos_token_id", "the id of a token", |value| {
        value.as_u64().and_then(|id| u32::try_from(id).ok())
    });
    match id.unwrap_or(49407) {
        LEGACY_END => TextEnd::LargestId(LargestId {}),
        id => TextEnd::Token(EndToken { id }),
    }
}

/// The differences from what the keys can express: the class reads a text up to its end token, and uses the hidden state
/// there.
fn declined(of: &HfShape) -> Declined {
    let TaskConfig::ImageText(task) = &of.task else {
        return Declined::default();
    };
    let mut found = tower_differences(of, "decoder");
    let last = matches!(task.pooling, None | Some(Stands::Last));
    let pooling = difference_unless(last, "task.pooling", task.pooling, "\"last\"");
    let fill = difference_unless(task.fill.is_none(), "task.fill", task.fill, "absent");
    found.differences.extend(pooling.into_iter().chain(fill));
    found
}

fn write(of: &HfShape) -> Option<Value> {
    let (ModelConfig::TwoTowers(towers), TaskConfig::ImageText(task)) = (&of.model, &of.task)
    else {
        return None;
    };
    let (ModelConfig::Vision(image), ModelConfig::Decoder(text)) =
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
    let mut text_config = sizes(text.stack.d_model, &summarize(&text.stack, &text.depth())?);
    text_config["model_type"] = json!("clip_text_model");
    text_config["vocab_size"] = json!(of.shape.vocab_size);
    text_config["max_position_embeddings"] = json!(positions(&text.stack, of.shape.context));
    text_config["projection_dim"] = json!(towers.d_joint);
    // If texts end with their last token, the export adds the end token.
    if let Some(end) = task.end {
        text_config["eos_token_id"] = match end {
            TextEnd::Token(EndToken { id }) => json!(id),
            TextEnd::LargestId(_) => json!(LEGACY_END),
        };
    }
    let mut vision_config = sizes(
        image.stack.d_model,
        &summarize(&image.stack, &image.depth())?,
    );
    vision_config["model_type"] = json!("clip_vision_model");
    vision_config["image_size"] = json!(height);
    vision_config["patch_size"] = json!(patches.size);
    vision_config["num_channels"] = json!(channels);
    vision_config["projection_dim"] = json!(towers.d_joint);
    Some(json!({
        "architectures": ["CLIPModel"],
        "projection_dim": towers.d_joint,
        "logit_scale_init_value": -towers.temperature.ln(),
        "text_config": text_config,
        "vision_config": vision_config,
    }))
}

/// The keys that both towers have.
pub(super) fn sizes(width: usize, plain: &StackSummary) -> Value {
    json!({
        "hidden_size": width,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": plain.heads.n_heads,
        "intermediate_size": plain.d_ff,
        "hidden_act": plain.activation,
        "layer_norm_eps": plain.eps,
        "attention_dropout": plain.dropout.attention,
    })
}

fn table(of: &HfShape) -> Table {
    let mut table = Table::new("");
    let ModelConfig::TwoTowers(towers) = &of.model else {
        unreachable!("the family reads two towers alone")
    };
    let (ModelConfig::Vision(image), ModelConfig::Decoder(text)) =
        (towers.image.as_ref(), towers.text.as_ref())
    else {
        unreachable!("the family reads a vision transformer and a decoder")
    };
    let size = match &image.stem {
        StemConfig::Patches(patches) => patches.size,
        StemConfig::Resnet(_) => unreachable!("the family has patches"),
    };
    let [channels, ..] = of.shape.image.unwrap_or_default();
    let embeddings = "vision_model.embeddings";
    table.same(
        format!("{embeddings}.class_embedding"),
        "model.image.class_token",
    );
    table.same(
        format!("{embeddings}.position_embedding.weight"),
        "model.image.position.table",
    );
    table.reshaped(
        format!("{embeddings}.patch_embedding.weight"),
        "model.image.stem.projection.weight",
        vec![image.stack.d_model, channels, size, size],
    );
    table.norm("vision_model.pre_layrnorm", "model.image.embedding_norm");
    add_blocks(
        &mut table,
        ["vision_model", "model.image"],
        image.depth().blocks(),
    );
    table.norm(
        "vision_model.post_layernorm",
        "model.image.stack.final_norm",
    );
    let embeddings = "text_model.embeddings";
    table.same(
        format!("{embeddings}.token_embedding.weight"),
        "model.text.embedding.weight",
    );
    table.same(
        format!("{embeddings}.position_embedding.weight"),
        "model.text.position.table",
    );
    add_blocks(&mut table, ["text_model", "model.text"], text.n_layers());
    table.norm("text_model.final_layer_norm", "model.text.stack.final_norm");
    table.same("visual_projection.weight", "model.image_projection.weight");
    table.same("text_projection.weight", "model.text_projection.weight");
    table.reshaped("logit_scale", "model.logit_scale", Vec::new());
    table.ignored = vec![".position_ids"];
    table
}

/// Adds the blocks of a tower.
pub(super) fn add_blocks(table: &mut Table, [theirs, ours]: [&str; 2], layers: usize) {
    for layer in 0..layers {
        let theirs = format!("{theirs}.encoder.layers.{layer}");
        let ours = format!("{ours}.stack.blocks.{layer}");
        table.linears(
            &theirs,
            &ours,
            &[
                ("self_attn.q_proj", "attention.query"),
                ("self_attn.k_proj", "attention.key"),
                ("self_attn.v_proj", "attention.value"),
                ("self_attn.out_proj", "attention.output"),
                ("mlp.fc1", "feed_forward.up"),
                ("mlp.fc2", "feed_forward.down"),
            ],
        );
        table.norms(
            &theirs,
            &ours,
            &[
                ("layer_norm1", "attention_residual.norm"),
                ("layer_norm2", "feed_forward_residual.norm"),
            ],
        );
    }
}
