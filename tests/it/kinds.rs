//! A small model for every kind of every family: the models of the contract tests.

mod attentions;
mod mixers;
mod networks;
mod norms;
mod positions;

pub use attentions::{kinds, regrouping, regrouping_kinds};
use burn::tensor::{Device, Int, Tensor};
use formwork::data::Shape;
use formwork::model::BuildContext;
use formwork::model::DecoderConfig;
use formwork::model::LanguageModel;
use formwork::model::decoder::DecoderInput;
use formwork::nn::attention::multi_head::MultiHeadConfig;
use formwork::nn::attention::sliding_window::SlidingWindowConfig;
use formwork::nn::attention::{AttentionConfig, ReadingDirection};
use formwork::nn::feed_forward::moe::{ExpertConfig, MoeConfig};
use formwork::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig, GatedConfig};
use formwork::nn::norm::{NoNormConfig, NormConfig, RmsNormConfig};
use formwork::nn::pass::Pass;
use formwork::nn::position::{self, PositionConfig};
use formwork::stack::{LayerGroup, NormPlacement, StackConfig};
pub use networks::{encoder_decoders, encoders, with_transforms};
use serde_json::json;

/// Parses a position scheme by its kind, with small sizes.
fn position(kind: &str) -> PositionConfig {
    let keys = match kind {
        // Test texts are short.
        "fire" => json!({ "kind": kind, "threshold": 4 }),
        _ => json!({ "kind": kind }),
    };
    serde_json::from_value(keys).unwrap()
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

/// Returns a name and a config for every kind of every family, each in a small decoder.
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
    use NormPlacement::{Deepnorm, Parallel, Post, Pre, ResPost, Sandwich};
    for placement in [Pre, Post, Sandwich, ResPost, Parallel, Deepnorm] {
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
    add(
        "queries and keys normalised across heads, zero-centred norms",
        &|c| {
            let norm = RmsNormConfig {
                zero_centered: true,
                ..RmsNormConfig::default()
            };
            c.stack.norm = NormConfig::Rms(norm.clone());
            c.stack.attention = attention(2, |a| {
                a.qk_norm = NormConfig::Rms(norm.clone());
                a.qk_norm_across = true;
            });
            c.head_softcap = Some(1.5);
        },
    );
    let relative = ["shaw", "transformer_xl", "disentangled"];
    for kind in ["none", "alibi", "relative_bias", "rotary"]
        .into_iter()
        .chain(relative)
    {
        for dilation in [None, Some(vec![1, 2, 1, 3])] {
            add(&format!("windows of 3, {dilation:?}, {kind}"), &|c| {
                c.stack.position = position(kind);
                c.stack.attention = AttentionConfig::SlidingWindow(SlidingWindowConfig {
                    heads: MultiHeadConfig {
                        n_heads: 4,
                        n_kv_heads: Some(2),
                        ..MultiHeadConfig::default()
                    },
                    window: 3,
                    dilation: dilation.clone(),
                    global: None,
                });
            });
        }
    }
    for (name, keys) in positions::of_their_own() {
        add(&name, &|c| {
            c.stack.position = serde_json::from_value(keys.clone()).unwrap()
        });
    }
    add("memory", &|c| {
        c.stack.position = position("rotary");
        c.stack.attention = attention(2, |a| a.memory = 64);
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
        Activation::QuickGelu,
        Activation::Sigmoid,
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
    let gated = ExpertConfig::Gated(GatedConfig {
        d_ff: Some(12),
        ..GatedConfig::default()
    });
    let mixtral = MoeConfig {
        n_experts: 3,
        expert: gated,
        balance_loss: 0.0,
        z_loss: 0.1,
        ..MoeConfig::default()
    };
    add("experts, no balance", &|c| {
        c.stack.feed_forward = FeedForwardConfig::Moe(mixtral.clone());
    });
    add("switch with a capacity", &|c| {
        c.stack.feed_forward = FeedForwardConfig::Moe(MoeConfig {
            n_experts: 2,
            top_k: 1,
            expert: ExpertConfig::Dense(DenseConfig::default()),
            capacity_factor: Some(1.2),
            balance_loss: 0.1,
            ..MoeConfig::default()
        });
    });
    for (name, keys) in [
        (
            "shared experts, sigmoids",
            json!({ "shared": 2, "score": "sigmoid", "scale": 1.5 }),
        ),
        (
            "groups of experts",
            json!({
                "n_experts": 4, "groups": 2, "top_groups": 1, "shared": 1, "normalize_weights": false,
            }),
        ),
    ] {
        add(name, &|c| {
            let mut all = json!({ "kind": "moe", "n_experts": 3, "balance_loss": 0.1 });
            all["expert"] = json!({ "kind": "gated", "d_ff": 6 });
            let more = keys.as_object().unwrap().clone();
            all.as_object_mut().unwrap().extend(more);
            c.stack.feed_forward = serde_json::from_value(all).unwrap();
        });
    }
    add("diverse heads", &|c| {
        c.stack.attention = attention(2, |a| a.head_diversity = 0.5);
    });
    add("a window in turn, a layer without feed-forward", &|c| {
        c.n_layers = Some(4);
        c.stack.dropout_feed_forward = Some(0.1);
        let window = serde_json::json!({ "kind": "sliding_window", "n_heads": 4, "window": 3 });
        c.layers = vec![
            LayerGroup {
                attention: Some(attention(2, |_| {})),
                ..LayerGroup::default()
            },
            LayerGroup {
                attention: Some(serde_json::from_value(window).unwrap()),
                feed_forward: Some(FeedForwardConfig::default()),
                ..LayerGroup::default()
            },
        ];
    });
    for (tied, keys) in [
        (true, json!({ "cutoffs": [5, 11] })),
        (
            true,
            json!({ "cutoffs": [5, 11], "div_val": 2, "tie_projs": "tails" }),
        ),
        (
            false,
            json!({ "cutoffs": [7], "d_embed": 6, "bias": false }),
        ),
    ] {
        add(&format!("adaptive vocabulary, {keys}"), &|c| {
            let mut keys = keys.clone();
            keys["kind"] = "adaptive".into();
            c.vocabulary = serde_json::from_value(keys).unwrap();
            c.tie_embeddings = tied;
        });
    }
    for (name, keys) in crate::sharing::configs() {
        add(&name, &|c| *c = crate::sharing::with(c, &keys));
    }
    add("dense and experts in turn", &|c| {
        c.n_layers = None;
        let group = |feed_forward| LayerGroup {
            attention: Some(attention(2, |_| {})),
            feed_forward: Some(feed_forward),
            ..LayerGroup::default()
        };
        c.layers = vec![
            group(FeedForwardConfig::default()),
            group(FeedForwardConfig::Moe(mixtral.clone())),
        ];
    });
    for (name, keys) in crate::reversible::configs() {
        add(&name, &|c| *c = crate::sharing::with(c, &keys));
    }
    let by_keys = mixers::mixers().into_iter();
    let by_keys = by_keys.chain(positions::by_layer()).chain(norms::placed());
    for (name, keys) in by_keys {
        add(&name, &|c| *c = crate::sharing::with(c, &keys));
    }
    all.extend(attentions::decoders());
    all
}

/// Whether a step's gradient depends on how it is cut into micro-batches: the only contract that a layer may declare not to
/// keep.
pub fn couples_rows(config: &DecoderConfig) -> bool {
    let depth = config.depth();
    let mut blocks = config.stack.blocks(&depth);
    blocks.any(|block| {
        block
            .feed_forward
            .is_some_and(|layer| layer.couples_micro_batches())
    })
}

/// Whether the source of a prefix language model can see all of itself in every layer.
pub fn shows_prefixes(config: &DecoderConfig) -> bool {
    let depth = config.depth();
    let mut blocks = config.stack.blocks(&depth);
    let prefix = |c: &AttentionConfig| c.facts().abilities().prefix;
    blocks.all(|block| block.attention.is_none_or(prefix))
}

/// Whether layers add losses: these are means over the tokens of one stack, which rows of pairs and padding weight differently.
fn adds_losses(config: &DecoderConfig) -> bool {
    let device = Device::flex();
    let model = config.init(&BuildContext {
        shape: &Shape::of_text(4, 17),
        seed: 1,
        device: &device,
    });
    let pass = Pass::evaluation();
    let ids = Tensor::<2, Int>::zeros([1, 3], &device);
    model.forward(DecoderInput::new(ids), None, &pass);
    !pass.losses().is_empty()
}

/// Decoders whose layers add no loss and can attend in both directions.
fn plain() -> impl Iterator<Item = (String, DecoderConfig)> {
    let both_ways = |config: &DecoderConfig| {
        let depth = config.depth();
        let mut blocks = config.stack.blocks(&depth);
        let reads = |c: &AttentionConfig| c.facts().abilities().reads != ReadingDirection::Causal;
        blocks.all(|block| {
            let looks_back = block
                .feed_forward
                .is_some_and(|layer| layer.reads_earlier_positions());
            block.mixer.is_none() && !looks_back && block.attention.is_none_or(reads)
        })
    };
    let all = all().into_iter();
    all.filter(move |(_, config)| both_ways(config) && !adds_losses(config))
}
