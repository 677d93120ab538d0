//! wav2vec 2.0 (Baevski et al. 2020) and HuBERT (Hsu et al. 2021): convolutions over samples, convolutional positions and BART's
//! layers, with character logits at every frame. Base models have norms after layers and a norm over the frames of the first
//! convolution; large ones have norms before layers and in every convolution. Each of these has a key of its own.
//!
//! Models trained without transcripts are imported with their codebooks, wav2vec 2.0's as `contrastive_speech`. Of a body alone, and of
//! HuBERT's, the CTC head is initialised randomly. Padding is always masked here; the class does not mask it in base models if it is
//! given several recordings without a mask.

use super::stack_summary::{activation_name, summarize};
use super::wav2vec2_heads::{PRETRAINING, task, write_ctc, write_pretraining};
use super::wav2vec2_names::table;
use super::{Family, HfShape, bart, layer_norm};
use crate::data::{Shape, SpeechShape};
use crate::interop::HfConfig;
use crate::model::speech_encoder::{
    ConvolutionalPositionsConfig, FeatureMasksConfig, FeatureNorm, SampleFeaturesConfig,
};
use crate::model::{ModelConfig, SpeechEncoderConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::none::NoPositionConfig;
use crate::stack::{NormPlacement, StackConfig};
use crate::task::TaskConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "wav2vec2",
    summary: "wav2vec 2.0: convolutions over samples and an encoder, with character logits for every frame or pretraining codebooks",
    read: |hf| read(hf, "wav2vec2", &CLASSES),
    write: |of| match &of.task {
        TaskConfig::ContrastiveSpeech(task) => write_pretraining(of, task),
        _ => write_ctc(of, CLASSES[0], true),
    },
    table: |of| table(of, "wav2vec2."),
    declined: None,
};

/// The classes whose weights can be imported; the first has a CTC head.
const CLASSES: [&str; 3] = ["Wav2Vec2ForCTC", PRETRAINING, "Wav2Vec2Model"];
/// Frames of the longest recording read at once (30 s), and tokens of its transcript; no file gives either.
const FRAMES: usize = 3000;
const CONTEXT: usize = 1024;

/// Keys of other heads, and of adapters, which [`read`] requires to be off.
const OTHER_HEAD_KEYS: [&str; 16] = [
    "classifier_proj_size",
    "tdnn_dim",
    "tdnn_kernel",
    "tdnn_dilation",
    "xvector_output_dim",
    "adapter_kernel_size",
    "adapter_stride",
    "num_adapter_layers",
    "output_hidden_size",
    "freeze_feat_extract_train",
    "mask_channel_length",
    "mask_channel_min_space",
    "mask_channel_other",
    "mask_channel_prob",
    "mask_channel_selection",
    "no_mask_channel_overlap",
];
/// More such keys, in files of the first versions.
const LEGACY_KEYS: [&str; 7] = [
    "gradient_checkpointing",
    "mask_time_min_space",
    "mask_time_other",
    "mask_time_selection",
    "no_mask_time_overlap",
    "num_feat_extract_layers",
    "tokenizer_class",
];

pub(super) fn read(hf: &HfConfig, body: &str, classes: &[&str]) -> HfShape {
    bart::require_class(hf, classes);
    hf.only("use_weighted_layer_sum", false);
    hf.only("add_adapter", false);
    hf.only("adapter_attn_dim", Value::Null);
    hf.only("conv_pos_batch_norm", false);
    for key in OTHER_HEAD_KEYS.iter().chain(&LEGACY_KEYS) {
        hf.get(key);
    }
    let scored = hf.architecture().is_none_or(|class| class == classes[0]);
    if scored && !hf.has_tensor("lm_head.weight") {
        hf.fault(format!(
            "the weights have no tensor `lm_head.weight`: they contain only the body; set `architectures` = [\"{}\"]",
            classes[2]
        ));
    }
    let stable = hf.flag("do_stable_layer_norm", false);
    let activation = hf.activation("feat_extract_activation", "gelu");
    let d_model = hf.count(&["hidden_size"], 768);
    let dropout = hf.real("hidden_dropout", 0.1);
    let stack = StackConfig {
        d_model,
        norm: layer_norm(hf.real("layer_norm_eps", 1e-5)),
        norm_placement: match stable {
            true => NormPlacement::Pre,
            false => NormPlacement::Post,
        },
        position: PositionConfig::None(NoPositionConfig {}),
        attention: AttentionConfig::MultiHead(MultiHeadConfig {
            n_heads: hf.count(&["num_attention_heads"], 12),
            ..MultiHeadConfig::default()
        }),
        feed_forward: FeedForwardConfig::Dense(DenseConfig {
            d_ff: Some(hf.count(&["intermediate_size"], 3072)),
            activation: hf.activation("hidden_act", "gelu"),
            ..DenseConfig::default()
        }),
        dropout,
        dropout_attention: Some(hf.real("attention_dropout", 0.1)),
        dropout_feed_forward: Some(hf.real("activation_dropout", 0.1)),
        dropout_output: Some(hf.real("final_dropout", 0.1)),
        ..StackConfig::default()
    };
    let masks = masks(hf);
    let masks_frames = masks.time_share > 0.0;
    let blank = hf.typed("pad_token_id", "a token id", Value::as_u64);
    HfShape {
        model: ModelConfig::SpeechEncoder(SpeechEncoderConfig {
            n_layers: Some(hf.count(&["num_hidden_layers"], 12)),
            stack,
            features: SampleFeaturesConfig {
                widths: counts(hf, "conv_dim", [512; 7]),
                sizes: counts(hf, "conv_kernel", [10, 3, 3, 3, 3, 2, 2]),
                strides: counts(hf, "conv_stride", [5, 2, 2, 2, 2, 2, 2]),
                norm: match hf.word("feat_extract_norm", "group") {
                    "layer" => FeatureNorm::Every,
                    "group" => FeatureNorm::First,
                    other => {
                        hf.fault(format!(
                            "`feat_extract_norm` = \"{other}\" must be \"group\" or \"layer\""
                        ));
                        FeatureNorm::First
                    }
                },
                bias: hf.flag("conv_bias", false),
                activation,
            },
            projection_norm: body != "hubert" || hf.flag("feat_proj_layer_norm", true),
            dropout_projection: hf.real("feat_proj_dropout", 0.0),
            masks,
            convolutional_positions: Some(ConvolutionalPositionsConfig {
                size: hf.count(&["num_conv_pos_embeddings"], 128),
                groups: hf.count(&["num_conv_pos_embedding_groups"], 16),
                activation,
            }),
            embedding_norm: !stable,
            ..SpeechEncoderConfig::default()
        }),
        task: task(hf, masks_frames),
        shape: Shape {
            speech: Some(SpeechShape {
                n_mels: 0,
                n_frames: FRAMES,
                normalized: true,
            }),
            blank: Some(blank.unwrap_or(0) as usize),
            ..Shape::of_text(CONTEXT, hf.count(&["vocab_size"], 32))
        },
    }
}

/// A list of whole numbers, `usual` if the file has none.
fn counts(hf: &HfConfig, key: &str, usual: [usize; 7]) -> Vec<usize> {
    let list = |value: &Value| -> Option<Vec<usize>> {
        let all = value.as_array()?.iter();
        all.map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok()))
            .collect()
    };
    let found = hf.typed(key, "a list of whole numbers", list);
    found.unwrap_or_else(|| usual.to_vec())
}

/// The masks applied to features in training.
fn masks(hf: &HfConfig) -> FeatureMasksConfig {
    let usual = FeatureMasksConfig::default();
    let [time, channel] = [("time", 0.05, 2), ("feature", 0.0, 0)].map(|(name, share, least)| {
        let least = hf
            .typed(
                &format!("mask_{name}_min_masks"),
                "a whole number",
                Value::as_u64,
            )
            .map_or(least, |n| n as usize);
        let share = hf.real(&format!("mask_{name}_prob"), share);
        let width = hf.count(&[&format!("mask_{name}_length")], 10);
        (share > 0.0).then_some((share, width, least))
    });
    if !hf.flag("apply_spec_augment", true) {
        return usual;
    }
    let off = (0.0, usual.time_width, usual.time_least);
    let (time_share, time_width, time_least) = time.unwrap_or(off);
    let off = (0.0, usual.channel_width, usual.channel_least);
    let (channel_share, channel_width, channel_least) = channel.unwrap_or(off);
    FeatureMasksConfig {
        time_share,
        time_width,
        time_least,
        channel_share,
        channel_width,
        channel_least,
    }
}

/// The network, if it is of this kind.
pub(super) fn network(of: &HfShape) -> Option<&SpeechEncoderConfig> {
    match &of.model {
        ModelConfig::SpeechEncoder(config) => Some(config),
        _ => None,
    }
}

/// Writes a network.
pub(super) fn write(of: &HfShape, class: &str, normed: bool) -> Option<Value> {
    let config = network(of)?;
    let positions = config.convolutional_positions.as_ref()?;
    let (stack, features, masks) = (&config.stack, &config.features, &config.masks);
    let plain = summarize(stack, &config.depth())?;
    let mut written = json!({
        "architectures": [class],
        "vocab_size": of.shape.vocab_size,
        "pad_token_id": of.shape.blank?,
        "hidden_size": stack.d_model,
        "num_hidden_layers": plain.layers,
        "num_attention_heads": plain.heads.n_heads,
        "intermediate_size": plain.d_ff,
        "hidden_act": plain.activation,
        "hidden_dropout": plain.dropout.residual,
        "attention_dropout": plain.dropout.attention,
        "activation_dropout": plain.dropout.feed_forward,
        "final_dropout": plain.dropout.output,
        "feat_proj_dropout": config.dropout_projection,
        "layer_norm_eps": plain.eps,
        "do_stable_layer_norm": stack.norm_placement == NormPlacement::Pre,
        "feat_extract_norm": match features.norm {
            FeatureNorm::First => "group",
            FeatureNorm::Every => "layer",
        },
        "feat_extract_activation": activation_name(features.activation),
        "conv_dim": features.widths,
        "conv_kernel": features.sizes,
        "conv_stride": features.strides,
        "conv_bias": features.bias,
        "num_conv_pos_embeddings": positions.size,
        "num_conv_pos_embedding_groups": positions.groups,
        "apply_spec_augment": !masks.is_none(),
        "mask_time_prob": masks.time_share,
        "mask_time_length": masks.time_width,
        "mask_time_min_masks": masks.time_least,
        "mask_feature_prob": masks.channel_share,
        "mask_feature_length": masks.channel_width,
        "mask_feature_min_masks": masks.channel_least,
        "layerdrop": 0.0,
    });
    if !normed {
        written["feat_proj_layer_norm"] = json!(config.projection_norm);
    }
    Some(written)
}
