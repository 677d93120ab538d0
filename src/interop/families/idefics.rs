//! Idefics (Laurençon et al. 2023, OBELICS, appendix): Flamingo with a LLaMA that attends to CLIP's patches, either through a
//! Perceiver resampler or directly.

mod names;

use super::declined::{Declined, difference_unless, difference_unless_square};
use super::stack_summary::{add_rotary, rotary, summarize};
use super::{Family, HfShape, layer_norm, rms_norm};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::hf_rotary::WHOLE_HEADS;
use crate::model::vision::{PatchesConfig, Pooling, StemConfig};
use crate::model::vision_language::{CrossConfig, Gate, ResamplerConfig};
use crate::model::{DecoderConfig, ModelConfig, VisionConfig, VisionLanguageConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig, GatedConfig};
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{NormPlacement, StackConfig};
use crate::task::{CaptioningConfig, TaskConfig};
use names::table;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "idefics",
    summary: "Idefics: Flamingo with a LLaMA that attends to CLIP's patches",
    read,
    write,
    table,
    declined: Some(declined),
};

const CLASS: &str = "IdeficsForVisionText2Text";
/// Epsilon of the resampler's layer norms: PyTorch's default.
const EPS: f64 = 1e-5;

fn read(hf: &HfConfig) -> HfShape {
    super::bart::require_class(hf, &[CLASS]);
    hf.only("additional_vocab_size", 0);
    hf.only("alpha_type", "float");
    // Keys of initialisation, and of parts that are frozen in training.
    for key in [
        "alpha_initializer",
        "alphas_initializer_range",
        "freeze_text_layers",
        "freeze_text_module_exceptions",
        "freeze_lm_head",
        "freeze_vision_layers",
        "freeze_vision_module_exceptions",
    ] {
        hf.get(key);
    }
    let context = hf.count(&["max_position_embeddings"], 2048);
    let width = hf.count(&["hidden_size"], 4096);
    let norm = rms_norm(hf.real("rms_norm_eps", 1e-6));
    let heads = MultiHeadConfig {
        n_heads: hf.count(&["num_attention_heads"], 32),
        bias: false,
        ..MultiHeadConfig::default()
    };
    let feed_forward = FeedForwardConfig::Gated(GatedConfig {
        d_ff: Some(hf.count(&["intermediate_size"], 11008)),
        activation: hf.activation("hidden_act", "silu"),
        bias: false,
        ..GatedConfig::default()
    });
    let text = DecoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], 32)),
        tie_embeddings: hf.flag("tie_word_embeddings", false),
        stack: StackConfig {
            d_model: width,
            norm: norm.clone(),
            position: PositionConfig::Rotary(hf.rotary(WHOLE_HEADS, context)),
            attention: AttentionConfig::MultiHead(heads.clone()),
            feed_forward: feed_forward.clone(),
            dropout: hf.real("dropout", 0.0),
            dropout_embedding: Some(0.0),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let qk_norm = match hf.flag("qk_layer_norms", false) {
        true => norm,
        false => NormConfig::none(),
    };
    let (layers, every) = (text.n_layers(), hf.count(&["cross_layer_interval"], 1));
    if !layers.is_multiple_of(every) {
        hf.fault(format!(
            "`cross_layer_interval` = {every} must divide `num_hidden_layers` = {layers}"
        ));
    }
    let cross = CrossConfig {
        every,
        gate: Gate::Tanh,
        attention: Some(AttentionConfig::MultiHead(MultiHeadConfig {
            qk_norm,
            ..heads
        })),
        feed_forward: Some(feed_forward),
    };
    let (image, shape) = vision(hf);
    let resampler = resampler(hf, image.stack.d_model);
    HfShape {
        model: ModelConfig::VisionLanguage(VisionLanguageConfig {
            image: Box::new(ModelConfig::Vision(image)),
            text: Box::new(ModelConfig::Decoder(text)),
            cross_attention: cross,
            resampler,
        }),
        task: TaskConfig::Captioning(CaptioningConfig::default()),
        shape: Shape {
            image: Some(shape),
            ..Shape::of_text(context, hf.count(&["vocab_size"], 32000))
        },
    }
}

/// The image network, and the channels, height and width of its images.
fn vision(hf: &HfConfig) -> (VisionConfig, [usize; 3]) {
    let vision = hf.nested("vision_config");
    let side = vision.count(&["image_size"], 224);
    let size = vision.count(&["patch_size"], 14);
    if !side.is_multiple_of(size) {
        vision.fault(format!(
            "`patch_size` = {size} must divide `image_size` = {side}"
        ));
    }
    let network = VisionConfig {
        n_layers: Some(vision.count(&["num_hidden_layers"], 32)),
        stem: StemConfig::Patches(PatchesConfig { size, bias: false }),
        embedding_norm: true,
        pooling: Pooling::Class,
        stack: StackConfig {
            d_model: vision.count(&["embed_dim", "hidden_size"], 768),
            norm: layer_norm(vision.real("layer_norm_eps", 1e-5)),
            norm_placement: NormPlacement::Pre,
            // The class reads the patches before the norm that follows the last block.
            final_norm: Some(false),
            position: PositionConfig::Learned(LearnedConfig::default()),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: vision.count(&["num_attention_heads"], 16),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(vision.count(&["intermediate_size"], 5120)),
                activation: vision.activation("hidden_act", "gelu"),
                bias: true,
                ..DenseConfig::default()
            }),
            dropout: 0.0,
            dropout_attention: Some(vision.real("attention_dropout", 0.0)),
            ..StackConfig::default()
        },
        ..VisionConfig::default()
    };
    let shape = [vision.count(&["num_channels"], 3), side, side];
    hf.merge_faults(vision);
    (network, shape)
}

fn resampler(hf: &HfConfig, width: usize) -> Option<ResamplerConfig> {
    let perceiver = hf.nested("perceiver_config");
    let used = hf.flag("use_resampler", false);
    perceiver.get("use_resampler");
    let qk_norm = match perceiver.flag("qk_layer_norms_perceiver", false) {
        true => layer_norm(EPS),
        false => NormConfig::none(),
    };
    let config = ResamplerConfig {
        n_latents: perceiver.count(&["resampler_n_latents"], 64),
        n_layers: perceiver.count(&["resampler_depth"], 6),
        attention: AttentionConfig::MultiHead(MultiHeadConfig {
            n_heads: perceiver.count(&["resampler_n_heads"], 16),
            d_head: Some(perceiver.count(&["resampler_head_dim"], 96)),
            bias: false,
            qk_norm,
            ..MultiHeadConfig::default()
        }),
        feed_forward: FeedForwardConfig::Dense(DenseConfig {
            d_ff: Some(4 * width),
            activation: Activation::Relu,
            bias: false,
            ..DenseConfig::default()
        }),
        norm: layer_norm(EPS),
    };
    hf.merge_faults(perceiver);
    used.then_some(config)
}

/// Both networks of the model, if it is one of this family.
fn parts(of: &HfShape) -> Option<(&VisionLanguageConfig, &VisionConfig, &DecoderConfig)> {
    let ModelConfig::VisionLanguage(model) = &of.model else {
        return None;
    };
    match (model.image.as_ref(), model.text.as_ref()) {
        (ModelConfig::Vision(image), ModelConfig::Decoder(text)) => Some((model, image, text)),
        _ => None,
    }
}

/// The differences from what the keys can express.
fn declined(of: &HfShape) -> Declined {
    let Some((model, _, text)) = parts(of) else {
        return Declined::default();
    };
    let cross = &model.cross_attention;
    // The class has one gated block for each complete group of blocks.
    let groups = text.n_layers().is_multiple_of(cross.every.max(1));
    let divisor = format!("a divisor of model.text.n_layers = {}", text.n_layers());
    let all = [
        difference_unless(
            cross.gate == Gate::Tanh,
            "model.cross_attention.gate",
            cross.gate,
            "\"tanh\"",
        ),
        difference_unless(groups, "model.cross_attention.every", cross.every, &divisor),
        difference_unless_square(of),
    ];
    Declined {
        differences: all.into_iter().flatten().collect(),
        ..Declined::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let (model, image, text) = parts(of)?;
    let StemConfig::Patches(patches) = &image.stem else {
        return None;
    };
    let [channels, height, _] = of.shape.image?;
    if !declined(of).differences.is_empty() {
        return None;
    }
    let (of_text, of_image) = (
        summarize(&text.stack, &text.depth())?,
        summarize(&image.stack, &image.depth())?,
    );
    let crossed = model
        .cross_attention
        .attention
        .as_ref()
        .map(AttentionConfig::heads);
    let mut perceiver = json!({ "use_resampler": model.resampler.is_some() });
    if let Some(resampler) = &model.resampler {
        let heads = resampler.attention.heads();
        perceiver["resampler_n_latents"] = json!(resampler.n_latents);
        perceiver["resampler_depth"] = json!(resampler.n_layers);
        perceiver["resampler_n_heads"] = json!(heads.n_heads);
        perceiver["resampler_head_dim"] = json!(heads.d_head(image.stack.d_model));
        perceiver["qk_layer_norms_perceiver"] = json!(!heads.qk_norm.is_none());
    }
    let mut written = json!({
        "architectures": [CLASS],
        "vocab_size": of.shape.vocab_size,
        "additional_vocab_size": 0,
        "alpha_type": "float",
        "max_position_embeddings": of.shape.context,
        "hidden_size": text.stack.d_model,
        "num_hidden_layers": of_text.layers,
        "num_attention_heads": of_text.heads.n_heads,
        "intermediate_size": of_text.d_ff,
        "hidden_act": of_text.activation,
        "rms_norm_eps": of_text.eps,
        "dropout": of_text.dropout.residual,
        "tie_word_embeddings": text.tie_embeddings,
        "cross_layer_interval": model.cross_attention.every,
        "qk_layer_norms": crossed.is_some_and(|heads| !heads.qk_norm.is_none()),
        "use_resampler": model.resampler.is_some(),
        "perceiver_config": perceiver,
        "vision_config": {
            "embed_dim": image.stack.d_model,
            "image_size": height,
            "patch_size": patches.size,
            "num_channels": channels,
            "num_hidden_layers": of_image.layers,
            "num_attention_heads": of_image.heads.n_heads,
            "intermediate_size": of_image.d_ff,
            "hidden_act": of_image.activation,
            "layer_norm_eps": of_image.eps,
            "attention_dropout": of_image.dropout.attention,
        },
    });
    add_rotary(&mut written, rotary(&text.stack)?, "rope_theta");
    Some(written)
}
