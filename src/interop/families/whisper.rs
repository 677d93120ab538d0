//! Whisper (Radford et al. 2022): pre-norm stacks with BART's names. The encoder follows two convolutions over log-mel features,
//! and has sinusoids whose sines all precede their cosines; the decoder has learned positions. Keys have no bias.

use super::declined::{Declined, difference_unless};
use super::stack_summary::{positions, summarize};
use super::{Family, HfShape, bart, layer_norm};
use crate::data::{Shape, SpeechShape};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::speech::SpeechStemConfig;
use crate::model::{ModelConfig, SpeechEncoderDecoderConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::nn::position::sinusoidal::{Layout, SinusoidalConfig};
use crate::stack::{LayerGroup, StackConfig};
use crate::task::{TaskConfig, TranscriptionConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "whisper",
    summary: "Whisper: two convolutions over log-mel features, an encoder, and a decoder that writes the text",
    read,
    write,
    table,
    declined: Some(declined),
};

const CLASS: &str = "WhisperForConditionalGeneration";

/// Frames of a recording per position of the encoder.
const FRAMES: usize = 2;

/// The sinusoids of the encoder.
const SINUSOIDS: SinusoidalConfig = SinusoidalConfig {
    base: 10_000.0,
    layout: Layout::Halves,
    endpoint: true,
    first: 0,
};

fn read(hf: &HfConfig) -> HfShape {
    bart::require_class(hf, &[CLASS, "WhisperModel"]);
    hf.only("use_weighted_layer_sum", false);
    for key in [
        // The class computes a factor from this key but does not use it.
        "scale_embedding",
        // A key of a classifier of recordings.
        "classifier_proj_size",
        // A key of word timestamps.
        "median_filter_width",
        // Keys of masks on features in training.
        "apply_spec_augment",
        "mask_time_prob",
        "mask_time_length",
        "mask_time_min_masks",
        "mask_feature_prob",
        "mask_feature_length",
        "mask_feature_min_masks",
        // A key of generation: how a text begins.
        "forced_decoder_ids",
    ] {
        hf.get(key);
    }
    let n = hf.count(&["encoder_layers", "num_hidden_layers"], 4);
    hf.only("num_hidden_layers", n);
    let m = hf.count(&["decoder_layers"], 4);
    let activation = hf.activation("activation_function", "gelu");
    let (reads, writes) = (
        side(hf, "encoder", activation),
        side(hf, "decoder", activation),
    );
    let context = hf.count(&["max_target_positions"], 448);
    let tied = hf.flag("tie_word_embeddings", true);
    let (encoder_layers, decoder_layers) = groups([&reads, &writes], [n, m]);
    let speech = SpeechShape {
        n_mels: hf.count(&["num_mel_bins"], 80),
        n_frames: FRAMES.saturating_mul(hf.count(&["max_source_positions"], 1500)),
        normalized: false,
    };
    HfShape {
        model: ModelConfig::SpeechEncoderDecoder(SpeechEncoderDecoderConfig {
            n_encoder_layers: Some(n),
            n_decoder_layers: Some(m),
            encoder_layers,
            decoder_layers,
            encoder_position: Some(PositionConfig::Sinusoidal(SINUSOIDS)),
            tie_embeddings: tied,
            stack: StackConfig {
                d_model: hf.count(&["d_model"], 384),
                norm: layer_norm(1e-5),
                position: PositionConfig::Learned(LearnedConfig {
                    max_len: Some(context),
                    ..LearnedConfig::default()
                }),
                attention: reads.0,
                feed_forward: reads.1,
                dropout: hf.real("dropout", 0.0),
                dropout_attention: Some(hf.real("attention_dropout", 0.0)),
                dropout_feed_forward: Some(hf.real("activation_dropout", 0.0)),
                ..StackConfig::default()
            },
            ..SpeechEncoderDecoderConfig::default()
        }),
        task: TaskConfig::Transcription(TranscriptionConfig::default()),
        shape: Shape {
            speech: Some(speech),
            ..Shape::of_text(context, hf.count(&["vocab_size"], 51865))
        },
    }
}

/// The attention and feed-forward layers of one side.
type Layers = (AttentionConfig, FeedForwardConfig);

fn side(hf: &HfConfig, name: &str, activation: Activation) -> Layers {
    let attention = AttentionConfig::MultiHead(MultiHeadConfig {
        n_heads: hf.count(&[&format!("{name}_attention_heads")], 6),
        key_bias: Some(false),
        ..MultiHeadConfig::default()
    });
    let feed_forward = FeedForwardConfig::Dense(DenseConfig {
        d_ff: Some(hf.count(&[&format!("{name}_ffn_dim")], 1536)),
        activation,
        bias: true,
        ..DenseConfig::default()
    });
    (attention, feed_forward)
}

/// One group of layers for each side, if the sides differ.
fn groups([reads, writes]: [&Layers; 2], [n, m]: [usize; 2]) -> (Vec<LayerGroup>, Vec<LayerGroup>) {
    if reads == writes {
        return (Vec::new(), Vec::new());
    }
    let group = |side: &Layers, cross: Option<AttentionConfig>, repeat| LayerGroup {
        repeat,
        attention: Some(side.0.clone()),
        feed_forward: Some(side.1.clone()),
        cross,
        ..LayerGroup::default()
    };
    (
        vec![group(reads, None, n)],
        vec![group(writes, Some(writes.0.clone()), m)],
    )
}

/// The network, if it is of this kind.
fn network(of: &HfShape) -> Option<&SpeechEncoderDecoderConfig> {
    match &of.model {
        ModelConfig::SpeechEncoderDecoder(config) => Some(config),
        _ => None,
    }
}

/// The differences from what the keys can express.
fn declined(of: &HfShape) -> Declined {
    let Some(config) = network(of) else {
        return Declined::default();
    };
    let speech = of.shape.speech.unwrap_or_default();
    let own = PositionConfig::Sinusoidal(SINUSOIDS);
    let usual = SpeechStemConfig::default();
    let even = speech.n_frames.is_multiple_of(FRAMES);
    let found = [
        difference_unless(
            config.encoder_position() == &own,
            "model.encoder_position.kind",
            config.encoder_position().facts().kind().kind,
            "{ kind = \"sinusoidal\", layout = \"halves\", endpoint = true }",
        ),
        difference_unless(
            config.stem.size == usual.size,
            "model.stem.size",
            config.stem.size,
            "3",
        ),
        difference_unless(
            config.stem.strides == usual.strides,
            "model.stem.strides",
            &config.stem.strides,
            "[1, 2]",
        ),
        difference_unless(
            config.stem.activation == usual.activation,
            "model.stem.activation",
            super::stack_summary::activation_name(config.stem.activation),
            "gelu",
        ),
        difference_unless(
            even,
            "the number of frames",
            speech.n_frames,
            "an even number",
        ),
    ];
    Declined {
        differences: found.into_iter().flatten().collect(),
        ..Declined::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let (config, TaskConfig::Transcription(_)) = (network(of)?, &of.task) else {
        return None;
    };
    let speech = of.shape.speech?;
    if !declined(of).differences.is_empty() {
        return None;
    }
    let reads = summarize(&config.stack, &config.encoder_depth())?;
    let writes = summarize(&config.stack, &config.decoder_depth())?;
    Some(json!({
        "architectures": [CLASS],
        "vocab_size": of.shape.vocab_size,
        "num_mel_bins": speech.n_mels,
        "max_source_positions": config.clip_positions(speech),
        "max_target_positions": positions(&config.stack, of.shape.context),
        "d_model": config.stack.d_model,
        "encoder_layers": reads.layers,
        "decoder_layers": writes.layers,
        "encoder_attention_heads": reads.heads.n_heads,
        "decoder_attention_heads": writes.heads.n_heads,
        "encoder_ffn_dim": reads.d_ff,
        "decoder_ffn_dim": writes.d_ff,
        "activation_function": reads.activation,
        "dropout": reads.dropout.residual,
        "attention_dropout": reads.dropout.attention,
        "activation_dropout": reads.dropout.feed_forward,
        "tie_word_embeddings": config.tie_embeddings,
        "is_encoder_decoder": true,
    }))
}

fn table(of: &HfShape) -> Table {
    let Some(config) = network(of) else {
        unreachable!("the family reads encoder-decoders of recordings alone")
    };
    let speech = of.shape.speech.unwrap_or_default();
    let (d, size) = (config.stack.d_model, config.stem.size);
    let mut table = Table::new("model.");
    for (number, inputs) in [speech.n_mels, d].into_iter().enumerate() {
        let theirs = format!("model.encoder.conv{}", number + 1);
        let ours = format!("model.stem.convolutions.{number}");
        table.reshaped(
            format!("{theirs}.weight"),
            format!("{ours}.weight"),
            vec![d, inputs, size],
        );
        table.same(format!("{theirs}.bias"), format!("{ours}.bias"));
    }
    let rows = config.clip_positions(speech);
    let name = "model.encoder.embed_positions.weight".to_owned();
    table.constant(name, vec![rows, d], true, move || {
        SINUSOIDS.table(0, rows, d)
    });
    table.same(
        "model.decoder.embed_tokens.weight",
        "model.embedding.weight",
    );
    bart::stacks(&mut table, [config.encoder_depth(), config.decoder_depth()]);
    table.same("proj_out.weight", "model.head.weight");
    if config.tie_embeddings {
        table.ignored.push("proj_out.weight");
    }
    table
}
