//! The systems with their files, presets and objectives.

/// A system.
pub struct System {
    /// Name of its file.
    pub name: &'static str,
    /// The published model that the file makes small.
    pub preset: &'static str,
    /// Kind of its objective, and the objective's keys as JSON.
    pub task: (&'static str, &'static str),
    /// Keys of the preset that differ in more than a number.
    pub changed: &'static [&'static str],
}

const fn system(
    name: &'static str,
    preset: &'static str,
    task: (&'static str, &'static str),
    changed: &'static [&'static str],
) -> System {
    System {
        name,
        preset,
        task,
        changed,
    }
}

const NEXT: (&str, &str) = ("causal_lm", "{}");
const MASKED: (&str, &str) = ("masked_lm", r#"{"pairs":"none"}"#);

/// All systems.
pub const SYSTEMS: &[System] = &[
    system(
        "transformer",
        "transformer-base",
        ("translation", r#"{"label_smoothing":0.1}"#),
        &[],
    ),
    system(
        "bert",
        "bert-base",
        ("masked_lm", r#"{"pairs":"next_sentence"}"#),
        &[],
    ),
    system("roberta", "roberta-base", MASKED, &[]),
    system(
        "sentence_bert",
        "bert-base",
        ("text_embedding", r#"{"symmetric":true}"#),
        &[],
    ),
    system("distilbert", "distilbert-base", ("distillation", "{}"), &[]),
    system(
        "albert",
        "albert-base-v2",
        ("masked_lm", r#"{"pairs":"sentence_order"}"#),
        &[],
    ),
    system("electra", "electra-small", ("replaced_token", "{}"), &[]),
    system("deberta", "deberta-base", MASKED, &[]),
    system(
        "deberta_v3",
        "deberta-v3-base",
        ("replaced_token", r#"{"embeddings":"disentangled"}"#),
        &[],
    ),
    system("roformer", "roformer-base", MASKED, &[]),
    system(
        "fnet",
        "fnet-base",
        ("masked_lm", r#"{"pairs":"next_sentence"}"#),
        &[],
    ),
    system("xlnet", "xlnet-base", ("permuted_lm", "{}"), &[]),
    system("modernbert", "modernbert-base", MASKED, &[]),
    system("bigbird", "bigbird-roberta-base", MASKED, &[]),
    system("gpt", "openai-gpt", NEXT, &[]),
    system("gpt2", "gpt2", NEXT, &[]),
    system("gpt3", "gpt3-small", NEXT, &[]),
    system("gpt_neo", "gpt-neo-125m", NEXT, &[]),
    system("llama", "llama-7b", NEXT, &[]),
    system("olmo", "olmo-1b", NEXT, &[]),
    system("olmo2", "olmo2-1b", NEXT, &[]),
    system("smollm3", "smollm3-3b", NEXT, &[]),
    system("diff_transformer", "diff-transformer-3b", NEXT, &[]),
    // Rotary positions of windows, with a base for shorter texts.
    system("gemma3", "gemma3-270m", NEXT, &[]),
    system("mamba", "mamba-130m", NEXT, &[]),
    system("mamba2", "mamba2-130m", NEXT, &[]),
    system("rwkv", "rwkv-4-169m", NEXT, &[]),
    system("mixtral", "mixtral-8x7b", NEXT, &[]),
    system("deepseek_v2", "deepseek-v2", NEXT, &[]),
    system("deepseek_v3", "deepseek-v3", NEXT, &[]),
    system("qwen3_next", "qwen3-next-80b-a3b", NEXT, &[]),
    system("gpt_oss", "gpt-oss-20b", NEXT, &[]),
    system("retro", "retro-172m", NEXT, &[]),
    system("falcon", "falcon-7b", NEXT, &[]),
    system("t5", "t5-small", ("span_corruption", "{}"), &[]),
    system("mt5", "mt5-small", ("span_corruption", "{}"), &[]),
    system("bart", "bart-base", ("denoising", "{}"), &[]),
    system(
        "longformer",
        "longformer-base-4096",
        ("masked_lm", r#"{"pairs":"none","global_tokens":"special"}"#),
        &[],
    ),
    // Groups of layers, with smaller sizes inside the list.
    system(
        "led",
        "led-base-16384",
        ("translation", r#"{"global_tokens":"first"}"#),
        &[],
    ),
    system("vit", "vit-base-16", ("image_classification", "{}"), &[]),
    system(
        "deit",
        "deit-small",
        ("distillation", r#"{"hard_labels":true}"#),
        &[],
    ),
    system("swin", "swin-tiny", ("image_classification", "{}"), &[]),
    system("swinv2", "swinv2-tiny", ("image_classification", "{}"), &[]),
    system(
        "dinov2",
        "dinov2-small",
        ("image_classification", "{}"),
        &[],
    ),
    system("beit", "beit-base", ("image_classification", "{}"), &[]),
    system(
        "dinov3",
        "dinov3-small",
        ("image_classification", "{}"),
        &[],
    ),
    system("clip", "clip-vit-b-32", ("image_text", "{}"), &[]),
    system(
        "siglip",
        "siglip-base",
        (
            "image_text",
            r#"{"loss":"sigmoid","pooling":"last","fill":0}"#,
        ),
        &[],
    ),
    system(
        "flamingo",
        "idefics-9b",
        ("captioning", "{}"),
        // Its image network is that of the CLIP run.
        &["image.feed_forward.activation"],
    ),
    system("whisper", "whisper-tiny", ("transcription", "{}"), &[]),
    system("wav2vec2", "wav2vec2-base", ("ctc", "{}"), &[]),
    // With a stem for images of 28 pixels.
    system(
        "resnet",
        "resnet18",
        ("image_classification", "{}"),
        &["stem"],
    ),
    system(
        "bit",
        "bit-r50x1",
        ("image_classification", "{}"),
        &["stem"],
    ),
    system(
        "hybrid",
        "vit-r26-small-32",
        ("image_classification", "{}"),
        &["stem.stem"],
    ),
    system("sparse_transformer", "sparse-transformer-enwik8", NEXT, &[]),
    system("linformer", "linformer-base", MASKED, &[]),
    system("t_dmca", "t-dmca", ("translation", "{}"), &[]),
    system("transformer_xl", "transformer-xl-enwik8-12", NEXT, &[]),
    system("reformer", "reformer-enwik8", NEXT, &[]),
    system(
        "al_rfou",
        "al-rfou-12",
        (
            "causal_lm",
            r#"{"positions":"all","intermediate_layers":true,"second_target":0.5}"#,
        ),
        &[],
    ),
];
