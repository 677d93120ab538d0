//! A small decoder for every kind of every family: what the contract tests run over.

use formwork::model::DecoderConfig;
use formwork::nn::attention::AttentionConfig;
use formwork::nn::attention::multi_head::MultiHeadConfig;
use formwork::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig, GatedConfig};
use formwork::nn::norm::{NoNormConfig, NormConfig, RmsNormConfig};
use formwork::nn::position::{self, PositionConfig};
use formwork::stack::NormPlacement;

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
        n_layers: 2,
        d_model: 16,
        attention: attention(2, |_| {}),
        ..DecoderConfig::default()
    };
    let mut all = Vec::new();
    use NormPlacement::{Deepnorm, Parallel, Post, Pre, Sandwich};
    for placement in [Pre, Post, Sandwich, Parallel, Deepnorm] {
        let placed = DecoderConfig {
            norm_placement: placement,
            ..base.clone()
        };
        for kind in position::KINDS {
            let config = DecoderConfig {
                position: position(kind.kind),
                ..placed.clone()
            };
            all.push((format!("{placement:?} with position {}", kind.kind), config));
        }
        let config = DecoderConfig {
            norm: NormConfig::Rms(RmsNormConfig::default()),
            ..placed
        };
        all.push((format!("{placement:?} with RMS norm"), config));
    }
    let mut add = |name: &str, change: &dyn Fn(&mut DecoderConfig)| {
        let mut config = base.clone();
        change(&mut config);
        all.push((name.to_string(), config));
    };
    add("no norm", &|c| c.norm = NormConfig::None(NoNormConfig {}));
    add("separate parallel norms", &|c| {
        c.norm_placement = NormPlacement::Parallel;
        c.shared_parallel_norm = Some(false);
    });
    add("multi-query", &|c| c.attention = attention(1, |_| {}));
    add("normalised queries, capped scores", &|c| {
        c.attention = attention(4, |a| {
            a.qk_norm = NormConfig::Rms(RmsNormConfig::default());
            a.softcap = Some(5.0);
            a.d_head = Some(6);
        });
    });
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
            c.feed_forward = FeedForwardConfig::Dense(DenseConfig {
                activation,
                ..DenseConfig::default()
            });
        });
        add(&format!("gated {activation:?}"), &|c| {
            c.feed_forward = FeedForwardConfig::Gated(GatedConfig {
                activation,
                ..GatedConfig::default()
            });
        });
    }
    all
}
