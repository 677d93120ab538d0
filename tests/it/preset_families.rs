//! Presets of released models can be written as models of their Hugging Face families.

use formwork::data::Shape;
use formwork::data::masked::masking::Pairs;
use formwork::interop::export::target;
use formwork::interop::families::HfShape;
use formwork::model::preset::parse_preset;
use formwork::task::{
    CausalLmConfig, ImageClassificationConfig, MaskedLmConfig, PermutedLmConfig, TaskConfig,
    TranscriptionConfig, TranslationConfig,
};

/// A preset is written as the config.json of its family, including keys for which the class has another default.
#[test]
fn presets_are_models_of_their_families() {
    let causal = TaskConfig::CausalLm(CausalLmConfig::default());
    let masked = TaskConfig::MaskedLm(MaskedLmConfig::default());
    let in_order = TaskConfig::PermutedLm(PermutedLmConfig::default());
    let following = TaskConfig::MaskedLm(MaskedLmConfig {
        pairs: Pairs::NextSentence,
        ..MaskedLmConfig::default()
    });
    let pairs = TaskConfig::Translation(TranslationConfig::default());
    let speech = TaskConfig::Transcription(TranscriptionConfig::default());
    let images = TaskConfig::ImageClassification(ImageClassificationConfig::default());
    for (name, task, family, wanted) in [
        (
            "t5-11b",
            &pairs,
            "t5",
            &[("d_kv", 128), ("num_heads", 128), ("d_ff", 65536)][..],
        ),
        (
            "t5-v1.1-xxl",
            &pairs,
            "t5",
            &[("d_model", 4096), ("num_decoder_layers", 24)],
        ),
        (
            "mt5-xl",
            &pairs,
            "mt5",
            &[("vocab_size", 250_112), ("d_ff", 5120)],
        ),
        (
            "bart-large",
            &pairs,
            "bart",
            &[("encoder_layers", 12), ("d_model", 1024)],
        ),
        (
            "falcon-40b",
            &causal,
            "falcon",
            &[("num_kv_heads", 8), ("num_ln_in_parallel_attn", 2)],
        ),
        (
            "gpt-neo-1.3b",
            &causal,
            "gpt_neo",
            &[("window_size", 256), ("num_layers", 24), ("num_heads", 16)],
        ),
        (
            "gpt-neo-2.7b",
            &causal,
            "gpt_neo",
            &[("hidden_size", 2560), ("intermediate_size", 10_240)],
        ),
        (
            "distilbert-base",
            &masked,
            "distilbert",
            &[("n_layers", 6), ("dim", 768)],
        ),
        (
            "electra-small",
            &masked,
            "electra",
            &[("embedding_size", 128), ("hidden_size", 256)],
        ),
        (
            "electra-large",
            &masked,
            "electra",
            &[("embedding_size", 1024), ("num_hidden_layers", 24)],
        ),
        (
            "bigbird-roberta-base",
            &following,
            "big_bird",
            &[("block_size", 64), ("num_random_blocks", 3)],
        ),
        (
            "roformer-small",
            &masked,
            "roformer",
            &[("embedding_size", 384), ("vocab_size", 50_000)],
        ),
        (
            "xlnet-large",
            &in_order,
            "xlnet",
            &[("d_inner", 4096), ("n_layer", 24)],
        ),
        (
            "fnet-large",
            &following,
            "fnet",
            &[("hidden_size", 1024), ("type_vocab_size", 4)],
        ),
        (
            "modernbert-base",
            &masked,
            "modernbert",
            &[
                ("local_attention", 128),
                ("global_attn_every_n_layers", 3),
                ("intermediate_size", 1152),
            ],
        ),
        (
            "longformer-base-4096",
            &masked,
            "longformer",
            &[("max_position_embeddings", 4098), ("hidden_size", 768)],
        ),
        (
            "led-base-16384",
            &pairs,
            "led",
            &[
                ("max_encoder_position_embeddings", 16_384),
                ("max_decoder_position_embeddings", 1024),
            ],
        ),
        (
            "opt-1.3b",
            &causal,
            "opt",
            &[("ffn_dim", 8192), ("max_position_embeddings", 2048)],
        ),
        (
            "phi-2",
            &causal,
            "phi",
            &[("intermediate_size", 10_240), ("num_key_value_heads", 32)],
        ),
        (
            "phi-3-mini-4k",
            &causal,
            "phi3",
            &[("sliding_window", 2047), ("vocab_size", 32_064)],
        ),
        (
            "olmoe-1b-7b",
            &causal,
            "olmoe",
            &[("num_experts", 64), ("num_experts_per_tok", 8)],
        ),
        (
            "starcoder2-3b",
            &causal,
            "starcoder2",
            &[("num_key_value_heads", 2), ("sliding_window", 4096)],
        ),
        (
            "stablelm-2-1.6b",
            &causal,
            "stablelm",
            &[("num_hidden_layers", 24), ("intermediate_size", 5632)],
        ),
        (
            "pegasus-large",
            &pairs,
            "pegasus",
            &[("encoder_layers", 16), ("decoder_layers", 16)],
        ),
        (
            "mbart-large-50",
            &pairs,
            "mbart",
            &[("vocab_size", 250_054), ("d_model", 1024)],
        ),
        (
            "nllb-200-3.3b",
            &pairs,
            "m2m_100",
            &[("decoder_layers", 24), ("pad_token_id", 1)],
        ),
        (
            "whisper-large-v3-turbo",
            &speech,
            "whisper",
            &[
                ("num_mel_bins", 128),
                ("decoder_layers", 4),
                ("max_source_positions", 1500),
            ],
        ),
        (
            "deit-small",
            &images,
            "deit",
            &[("hidden_size", 384), ("patch_size", 16)],
        ),
        (
            "dinov2-large",
            &images,
            "dinov2",
            &[("mlp_ratio", 4), ("image_size", 518)],
        ),
        (
            "dinov2-giant",
            &images,
            "dinov2",
            &[("mlp_ratio", 4), ("hidden_size", 1536)],
        ),
        (
            "swinv2-small",
            &images,
            "swinv2",
            &[("window_size", 8), ("image_size", 256)],
        ),
        (
            "beit-base",
            &images,
            "beit",
            &[("hidden_size", 768), ("num_hidden_layers", 12)],
        ),
        (
            "dinov3-small",
            &images,
            "dinov3_vit",
            &[("num_register_tokens", 4), ("intermediate_size", 1536)],
        ),
        (
            "dinov3-7b",
            &images,
            "dinov3_vit",
            &[("num_hidden_layers", 40), ("hidden_size", 4096)],
        ),
    ] {
        let preset = parse_preset(name).unwrap();
        let classes = preset.image.map_or(0..0, |_| 0..3);
        let shape = HfShape {
            shape: Shape {
                classes: classes.map(|class| class.to_string()).collect(),
                ..preset.shape()
            },
            // A pooler that the task does not read is not in the task's class.
            model: preset.model.restricted_to(&task.facts().demand()),
            task: task.clone(),
        };
        let config = target(&shape, task.kind(), Some(family), None).unwrap();
        let config = config.config;
        for (key, number) in wanted {
            assert_eq!(config[key], *number, "{name}: {key}");
        }
        let gated = name.contains("v1.1") || name.starts_with("mt5");
        if family.ends_with("t5") {
            let projection = if gated { "gated-gelu" } else { "relu" };
            assert_eq!(config["feed_forward_proj"], projection, "{name}");
            assert_eq!(config["tie_word_embeddings"], !gated, "{name}");
        }
        // Some families have a single key for dropout, so its rate must be the same everywhere.
        let undropped = gated || family == "whisper";
        let rate = if undropped { 0.0 } else { 0.1 };
        let key = if family.ends_with("t5") {
            "dropout_rate"
        } else {
            "dropout"
        };
        if config.get(key).is_some() {
            assert_eq!(config[key], rate, "{name}: {key}");
        }
    }
}

/// The kinds of layers, from first to last, as listed in the published file.
#[test]
fn gpt_neo_sees_everything_and_a_window_in_turn() {
    let preset = parse_preset("gpt-neo-125m").unwrap();
    let shape = HfShape {
        shape: preset.shape(),
        model: preset.model,
        task: TaskConfig::CausalLm(CausalLmConfig::default()),
    };
    let neo = |shape: &HfShape| target(shape, shape.task.kind(), Some("gpt_neo"), None);
    let config = neo(&shape).unwrap().config;
    let types = serde_json::json!([[["global", "local"], 6]]);
    assert_eq!(config["attention_types"], types);
    let kinds = config["attention_layers"].as_array().unwrap();
    assert_eq!(kinds.len(), 12);
    assert!(
        kinds
            .chunks(2)
            .all(|pair| pair[0] == "global" && pair[1] == "local")
    );
    // A model with biases on queries, keys and values does not belong to the family.
    let preset = parse_preset("gpt3-small").unwrap();
    let other = HfShape {
        shape: preset.shape(),
        model: preset.model,
        task: shape.task,
    };
    assert!(neo(&other).is_err());
}
