//! HF's names of our keys, so that a fault in a model made from a config.json can quote the file.

use serde_json::Value;

/// Our keys, and their names in HF's files.
const KEYS: [(&str, &[&str]); 33] = [
    ("axial_shape", &["axial_pos_shape"]),
    ("axial_widths", &["axial_pos_embds_dim"]),
    ("block", &["block_size", "local_attn_chunk_length"]),
    (
        "buckets",
        &[
            "relative_attention_num_buckets",
            "position_buckets",
            "num_buckets",
        ],
    ),
    ("chunk", &["lsh_attn_chunk_length"]),
    (
        "context",
        &[
            "max_position_embeddings",
            "n_positions",
            "max_seq_len",
            "seq_length",
        ],
    ),
    ("clamp", &["swiglu_limit"]),
    ("d_embedding", &["embedding_size"]),
    (
        "d_ff",
        &[
            "intermediate_size",
            "n_inner",
            "d_ff",
            "ffn_hidden_size",
            "ffn_dim",
            "feed_forward_size",
            "hidden_dim",
        ],
    ),
    ("d_head", &["head_dim", "d_kv", "attention_head_size"]),
    ("d_key", &["linear_key_head_dim"]),
    ("d_nope", &["qk_nope_head_dim"]),
    ("d_rope", &["qk_rope_head_dim"]),
    ("d_value", &["v_head_dim"]),
    ("groups", &["n_group"]),
    ("kv_rank", &["kv_lora_rank"]),
    ("q_rank", &["q_lora_rank"]),
    ("shared", &["n_shared_experts"]),
    ("top_groups", &["topk_group"]),
    ("d_model", &["hidden_size", "n_embd", "d_model", "dim"]),
    (
        "fraction",
        &["partial_rotary_factor", "rotary_pct", "rotary_dim"],
    ),
    (
        "look_ahead",
        &["lsh_num_chunks_after", "local_num_chunks_after"],
    ),
    (
        "look_back",
        &["lsh_num_chunks_before", "local_num_chunks_before"],
    ),
    (
        "max_distance",
        &["relative_attention_max_distance", "max_relative_positions"],
    ),
    (
        "n_experts",
        &["num_local_experts", "n_routed_experts", "num_experts"],
    ),
    (
        "n_heads",
        &[
            "num_attention_heads",
            "n_head",
            "num_heads",
            "n_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
        ],
    ),
    ("n_key_heads", &["linear_num_key_heads"]),
    (
        "n_kv_heads",
        &["num_key_value_heads", "num_kv_heads", "n_head_kv"],
    ),
    (
        "n_layers",
        &[
            "num_hidden_layers",
            "n_layer",
            "num_layers",
            "n_layers",
            "encoder_layers",
            "decoder_layers",
        ],
    ),
    ("rounds", &["num_hashes"]),
    ("segments", &["type_vocab_size"]),
    ("top_k", &["num_experts_per_tok"]),
    (
        "window",
        &[
            "sliding_window",
            "window_size",
            "attention_window",
            "local_attention",
        ],
    ),
];

/// Finds our keys in a message and returns what a config.json says under HF's names of them.
pub fn hf_keys(config: &Value, message: &str) -> Vec<String> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let words: Vec<&str> = message.split(|c| !word(c)).collect();
    let named = KEYS.iter().filter(|(ours, _)| words.contains(ours));
    let keys = named.flat_map(|(_, theirs)| *theirs);
    let keys = keys.filter(|key| !config[**key].is_null());
    keys.map(|key| format!("`{key}` = {}", config[*key]))
        .collect()
}
