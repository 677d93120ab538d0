//! A small model of each sort for every kind of every family: what the contract tests run over.

use formwork::model::{DecoderConfig, EncoderConfig, EncoderDecoderConfig};
use formwork::nn::attention::AttentionConfig;
use formwork::nn::attention::multi_head::MultiHeadConfig;
use formwork::nn::attention::sliding_window::SlidingWindowConfig;
use formwork::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig, GatedConfig};
use formwork::nn::norm::{NoNormConfig, NormConfig, RmsNormConfig};
use formwork::nn::position::{self, PositionConfig};
use formwork::stack::NormPlacement;
use formwork::stack::StackConfig;

/// A position scheme by its kind, through the example of its row.
fn position(kind: &str) -> PositionConfig {
    serde_json::from_value(serde_json::json!({ "kind": kind })).unwrap()
}

fn attention(n_kv_heads: usize, change: impl FnOnce(&mut MultiHeadConfig)) -> AttentionConfig {
    let mut config = MultiHeadConfig {
        n_heads: 4,
        n_kv_heads: Some(n_kv_heads),
        ..MultiHeadConfig::default()
    };
    change(&mut config);
    AttentionConfig::MultiHead(config)
}

/// A name and a config for every kind of every family, each in a small decoder.
pub fn all() -> Vec<(String, DecoderConfig)> {
    let base = DecoderConfig {
        n_layers: Some(2),
        stack: StackConfig {
            d_model: 16,
            attention: attention(2, |_| {}),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let mut all = Vec::new();
    use NormPlacement::{Deepnorm, Parallel, Post, Pre, Sandwich};
    for placement in [Pre, Post, Sandwich, Parallel, Deepnorm] {
        let placed = DecoderConfig {
            stack: StackConfig {
                norm_placement: placement,
                ..base.stack.clone()
            },
            ..base.clone()
        };
        for kind in position::KINDS {
            let config = DecoderConfig {
                stack: StackConfig {
                    position: position(kind.kind),
                    ..placed.stack.clone()
                },
                ..placed.clone()
            };
            all.push((format!("{placement:?} with position {}", kind.kind), config));
        }
        let config = DecoderConfig {
            stack: StackConfig {
                norm: NormConfig::Rms(RmsNormConfig::default()),
                ..placed.stack.clone()
            },
            ..placed
        };
        all.push((format!("{placement:?} with RMS norm"), config));
    }
    let mut add = |name: &str, change: &dyn Fn(&mut DecoderConfig)| {
        let mut config = base.clone();
        change(&mut config);
        all.push((name.to_string(), config));
    };
    add("no norm", &|c| {
        c.stack.norm = NormConfig::None(NoNormConfig {})
    });
    add("separate parallel norms", &|c| {
        c.stack.norm_placement = NormPlacement::Parallel;
        c.stack.shared_parallel_norm = Some(false);
    });
    add("multi-query", &|c| c.stack.attention = attention(1, |_| {}));
    add("normalised queries, capped scores", &|c| {
        c.stack.attention = attention(4, |a| {
            a.qk_norm = NormConfig::Rms(RmsNormConfig::default());
            a.softcap = Some(5.0);
            a.d_head = Some(6);
        });
    });
    for kind in ["none", "alibi", "relative_bias", "rotary"] {
        for dilation in [None, Some(vec![1, 2, 1, 3])] {
            add(&format!("windows of 3, {dilation:?}, {kind}"), &|c| {
                c.stack.position = position(kind);
                c.stack.attention = AttentionConfig::SlidingWindow(SlidingWindowConfig {
                    n_heads: 4,
                    n_kv_heads: Some(2),
                    window: 3,
                    dilation: dilation.clone(),
                    ..SlidingWindowConfig::default()
                });
            });
        }
    }
    add("untied, scaled", &|c| {
        c.tie_embeddings = false;
        c.embedding_scale = true;
        c.embedding_norm = true;
        c.head_scale = true;
    });
    for activation in [
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::ReluSquared,
    ] {
        add(&format!("dense {activation:?}"), &|c| {
            c.stack.feed_forward = FeedForwardConfig::Dense(DenseConfig {
                activation,
                ..DenseConfig::default()
            });
        });
        add(&format!("gated {activation:?}"), &|c| {
            c.stack.feed_forward = FeedForwardConfig::Gated(GatedConfig {
                activation,
                ..GatedConfig::default()
            });
        });
    }
    all
}

/// The same for encoders, and what only they have.
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
    let mut all: Vec<_> = all().into_iter().map(|(n, c)| (n, of(c))).collect();
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
    all
}

/// The same for encoder-decoders, and what only they have.
pub fn encoder_decoders() -> Vec<(String, EncoderDecoderConfig)> {
    let of = |c: DecoderConfig| EncoderDecoderConfig {
        n_encoder_layers: c.n_layers,
        n_decoder_layers: c.n_layers,
        stack: c.stack,
        embedding_norm: c.embedding_norm,
        embedding_scale: c.embedding_scale,
        tie_embeddings: c.tie_embeddings,
        head_scale: c.head_scale,
        ..EncoderDecoderConfig::default()
    };
    let mut all: Vec<_> = all().into_iter().map(|(n, c)| (n, of(c))).collect();
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
