//! The same kinds in encoders and encoder-decoders, and configurations that only these have.

use super::{attention, plain, position};
use formwork::model::encoder::pooler::PoolerInput;
use formwork::model::{DecoderConfig, EncoderConfig, EncoderDecoderConfig, MaskDecoderConfig};
use formwork::nn::attention::AttentionConfig;
use formwork::nn::attention::multi_head::MultiHeadConfig;
use formwork::nn::attention::sliding_window::SlidingWindowConfig;
use formwork::nn::feed_forward::Activation;
use formwork::stack::{NormPlacement, StackConfig};

/// Encoders of every kind, and configurations that only encoders have.
pub fn encoders() -> Vec<(String, EncoderConfig)> {
    let of = |c: DecoderConfig| EncoderConfig {
        n_layers: c.n_layers,
        layers: c.layers,
        stack: c.stack,
        embedding_norm: c.embedding_norm,
        embedding_scale: c.embedding_scale,
        tie_embeddings: c.tie_embeddings,
        ..EncoderConfig::default()
    };
    let mut all: Vec<_> = plain().map(|(n, c)| (n, of(c))).collect();
    let base = all[0].1.clone();
    let bare = EncoderConfig {
        segments: 0,
        head_transform: false,
        head_bias: false,
        ..base.clone()
    };
    all.push(("no segments, a bare head".into(), bare));
    let own_product = EncoderConfig {
        tie_embeddings: false,
        head_bias: false,
        pooler: true,
        ..base
    };
    all.push(("a pooler, an untied head".into(), own_product));
    all.extend(mask_decoders());
    all.extend(super::attentions::encoders());
    let reads_first = EncoderConfig {
        pooler_input: PoolerInput::First,
        ..with_transforms()
    };
    all.push(("transforms before its heads".into(), reads_first));
    all.extend(fourier());
    all
}

/// Fourier transforms in place of attention, in all blocks and in every second one.
fn fourier() -> [(String, EncoderConfig); 2] {
    let group = "[[layers]]\nmixer = { kind = \"fourier\" }\nfeed_forward = { kind = \"dense\" }";
    let attending = "[[layers]]\nattention = { kind = \"multi_head\", n_heads = 4 }\nfeed_forward = { kind = \"dense\" }";
    let of = |keys: &str, groups: &str| -> EncoderConfig {
        let position = "position = { kind = \"learned\" }";
        toml::from_str(&format!("d_model = 16\n{position}\n{keys}\n{groups}")).unwrap()
    };
    let keys = "n_layers = 2\nd_embedding = 12\ndropout_after_projection = true\nnorm_placement = \"post\"\nembedding_norm = true";
    let both = format!("{group}\n{attending}");
    [
        (
            "Fourier transforms behind a projection".into(),
            of(keys, group),
        ),
        (
            "Fourier transforms and attention in turn".into(),
            of("", &both),
        ),
    ]
}

/// An encoder whose heads all begin with a dense layer without bias, a nonlinearity and a norm; the head for whole texts reads
/// the mean over positions.
pub fn with_transforms() -> EncoderConfig {
    EncoderConfig {
        n_layers: Some(2),
        embedding_norm: true,
        pooler: true,
        pooler_activation: Some(Activation::Gelu),
        pooler_bias: false,
        pooler_norm: true,
        pooler_input: PoolerInput::Mean,
        token_transform: true,
        head_transform_bias: false,
        stack: StackConfig {
            d_model: 16,
            first_norm: Some(false),
            position: position("rotary"),
            ..StackConfig::default()
        },
        ..EncoderConfig::default()
    }
}

/// Encoders with a mask decoder, which knows the positions of masked tokens: one and three steps, with windows and without.
fn mask_decoders() -> Vec<(String, EncoderConfig)> {
    let of = |steps, placement, attention| EncoderConfig {
        n_layers: Some(2),
        embedding_norm: true,
        segments: 2,
        mask_decoder: Some(MaskDecoderConfig {
            steps,
            max_len: None,
        }),
        stack: StackConfig {
            d_model: 16,
            norm_placement: placement,
            position: position("disentangled"),
            attention,
            ..StackConfig::default()
        },
        ..EncoderConfig::default()
    };
    let windows = AttentionConfig::SlidingWindow(SlidingWindowConfig {
        heads: MultiHeadConfig::default(),
        window: 3,
        dilation: None,
        global: None,
    });
    let whole = attention(4, |heads| heads.key_bias = Some(false));
    let kinds = [
        (1, NormPlacement::Post, windows.clone()),
        (3, NormPlacement::Pre, whole.clone()),
        (2, NormPlacement::Parallel, windows),
        (2, NormPlacement::Post, whole),
    ];
    kinds
        .into_iter()
        .map(|(steps, placement, attention)| {
            let name = format!("{placement:?}, a mask decoder of {steps} steps, {attention:?}");
            (name, of(steps, placement, attention))
        })
        .collect()
}

/// Encoder-decoders of every kind, and configurations that only they have.
pub fn encoder_decoders() -> Vec<(String, EncoderDecoderConfig)> {
    let of = |c: DecoderConfig| EncoderDecoderConfig {
        n_encoder_layers: c.n_layers,
        n_decoder_layers: c.n_layers,
        stack: c.stack,
        embedding_norm: c.embedding_norm,
        embedding_scale: c.embedding_scale,
        tie_embeddings: c.tie_embeddings,
        head_scale: c.head_scale,
        vocabulary: c.vocabulary,
        ..EncoderDecoderConfig::default()
    };
    // A decoder with cross-attention has no reversible form.
    let kinds = plain().filter(|(_, c)| c.stack.reversible.is_none());
    let mut all: Vec<_> = kinds.map(|(n, c)| (n, of(c))).collect();
    let base = all[0].1.clone();
    let separate = EncoderDecoderConfig {
        share_embeddings: false,
        tie_embeddings: false,
        head_bias: true,
        ..base.clone()
    };
    all.push(("nothing shared".into(), separate));
    let uneven = EncoderDecoderConfig {
        n_encoder_layers: Some(3),
        n_decoder_layers: Some(1),
        ..base
    };
    all.push(("three layers and one".into(), uneven));
    all
}
