//! Named models: fragments of experiment files with published shapes.
//!
//! A preset is one TOML file beside this one. It holds the `[model]` table of an experiment and published facts about
//! the model: its vocabulary and context or its image, and its parameter count in the reference
//! implementation. To add a preset, add a file and its line in [`PRESETS`].

use super::ModelConfig;
use crate::data::{Shape, SpeechShape};
use crate::error::{Error, Result, nearest, suggestion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The origin of the numbers, and decisions on points that the source leaves open.
    pub source: String,
    /// Number of tokens in the published vocabulary; 0 for a model that only reads images.
    #[serde(default)]
    pub vocab_size: usize,
    /// Longest input of the published model in tokens; 0 for a model that only reads images.
    #[serde(default)]
    pub context: usize,
    /// Channels, height and width of the published model's images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<[usize; 3]>,
    /// Mel bands and frames of the published model's audio clips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speech: Option<SpeechShape>,
    /// Number of parameters; tied matrices count once, a task's classifier does not count.
    pub params: u64,
    /// The `[model]` table.
    pub model: ModelConfig,
}

impl Preset {
    /// Returns the data shape of the published model.
    pub fn shape(&self) -> Shape {
        Shape {
            image: self.image,
            speech: self.speech,
            ..Shape::of_text(self.context, self.vocab_size)
        }
    }

    /// Describes the model's inputs in words.
    pub fn inputs(&self) -> String {
        let texts = format!("vocabulary {}, context {}", self.vocab_size, self.context);
        if let Some(speech) = self.speech {
            return format!("recordings {}, {texts}", speech.describe());
        }
        match self.image {
            Some([channels, height, width]) => {
                let images = format!("images {channels}x{height}x{width}");
                match self.vocab_size {
                    0 => images,
                    _ => format!("{images}, {texts}"),
                }
            }
            None => texts,
        }
    }
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("presets/", $name, ".toml")))),*]
    };
}

/// Names and TOML texts of all presets.
const PRESETS: &[(&str, &str)] = presets![
    "nano",
    "openai-gpt",
    "gpt2",
    "gpt2-medium",
    "gpt2-large",
    "gpt2-xl",
    "gpt3-small",
    "gpt3-medium",
    "gpt3-large",
    "gpt3-xl",
    "gpt3-2.7b",
    "gpt3-6.7b",
    "gpt3-13b",
    "gpt3-175b",
    "gpt-neo-125m",
    "gpt-neo-1.3b",
    "gpt-neo-2.7b",
    "opt-125m",
    "opt-1.3b",
    "llama-7b",
    "llama-13b",
    "llama-33b",
    "llama-65b",
    "llama2-7b",
    "llama2-13b",
    "llama2-70b",
    "llama3-8b",
    "llama3-70b",
    "llama3.1-8b",
    "llama3.2-1b",
    "llama3.2-3b",
    "tinyllama-1.1b",
    "smollm2-135m",
    "mistral-7b-v0.2",
    "mixtral-8x7b",
    "deepseek-v2-lite",
    "deepseek-v2",
    "deepseek-v3",
    "gpt-oss-20b",
    "gpt-oss-120b",
    "qwen2-0.5b",
    "qwen3-0.6b",
    "qwen3-next-80b-a3b",
    "olmo-1b",
    "olmo-7b",
    "olmo2-1b",
    "olmoe-1b-7b",
    "smollm3-3b",
    "phi-1.5",
    "phi-2",
    "phi-3-mini-4k",
    "starcoder2-3b",
    "stablelm-2-1.6b",
    "diff-transformer-3b",
    "gemma-2b",
    "gemma2-2b",
    "gemma3-270m",
    "gemma3-1b",
    "falcon-7b",
    "gpt-neox-20b",
    "pythia-70m",
    "pythia-160m",
    "pythia-410m",
    "pythia-1.4b",
    "mpt-7b",
    "retro-172m",
    "retro-425m",
    "retro-1.5b",
    "retro-7.5b",
    "bloom-560m",
    "bloom-7b1",
    "bloom",
    "transformer-xl-enwik8-12",
    "transformer-xl-enwik8-18",
    "transformer-xl-enwik8-24",
    "transformer-xl-wt103",
    "transformer-xl-wt103-large",
    "vit-tiny-16",
    "vit-small-16",
    "vit-base-16",
    "vit-base-32",
    "vit-large-16",
    "vit-huge-14",
    "deit-small",
    "deit-base",
    "swin-tiny",
    "swin-small",
    "swin-base",
    "swin-large",
    "swinv2-tiny",
    "swinv2-small",
    "swinv2-base",
    "dinov2-small",
    "dinov2-base",
    "dinov2-large",
    "dinov2-giant",
    "dinov3-small",
    "dinov3-small-plus",
    "dinov3-base",
    "dinov3-large",
    "dinov3-huge-plus",
    "dinov3-7b",
    "beit-base",
    "beit-large",
    "vit-r26-small-32",
    "vit-r50-base-16",
    "vit-r50-large-32",
    "clip-vit-b-32",
    "clip-vit-b-16",
    "clip-vit-l-14",
    "siglip-base",
    "idefics-9b",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "bit-r50x1",
    "bit-r50x3",
    "bit-r101x1",
    "bit-r101x3",
    "bit-r152x2",
    "bit-r152x4",
    "bert-tiny",
    "bert-mini",
    "bert-small",
    "bert-medium",
    "bert-base",
    "bert-large",
    "roberta-base",
    "roberta-large",
    "roformer-base",
    "transformer-tiny",
    "transformer-base",
    "transformer-big",
    "bart-base",
    "marian-base",
    "t5-small",
    "al-rfou-12",
    "al-rfou-64",
    "t5-base",
    "t5-large",
    "t5-3b",
    "t5-11b",
    "t5-v1.1-small",
    "t5-v1.1-base",
    "t5-v1.1-large",
    "t5-v1.1-xl",
    "t5-v1.1-xxl",
    "mt5-small",
    "mt5-base",
    "mt5-large",
    "mt5-xl",
    "mt5-xxl",
    "bart-large",
    "mbart-large-50",
    "m2m100-418m",
    "m2m100-1.2b",
    "nllb-200-600m",
    "nllb-200-1.3b",
    "nllb-200-3.3b",
    "pegasus-large",
    "falcon-40b",
    "distilbert-base",
    "electra-small",
    "electra-base",
    "electra-large",
    "roformer-small",
    "fnet-base",
    "fnet-large",
    "xlnet-base",
    "xlnet-large",
    "modernbert-base",
    "modernbert-large",
    "albert-base-v2",
    "albert-large-v2",
    "albert-xlarge-v2",
    "albert-xxlarge-v2",
    "deberta-base",
    "deberta-large",
    "deberta-xlarge",
    "deberta-v3-xsmall",
    "deberta-v3-small",
    "deberta-v3-base",
    "deberta-v3-large",
    "bigbird-roberta-base",
    "sparse-transformer-enwik8",
    "linformer-base",
    "t-dmca",
    "t-dmca-moe-128",
    "t-dmca-moe-256",
    "longformer-base-4096",
    "led-base-16384",
    "reformer-enwik8",
    "mamba-130m",
    "mamba-370m",
    "mamba-790m",
    "mamba-1.4b",
    "mamba-2.8b",
    "mamba2-130m",
    "mamba2-370m",
    "mamba2-780m",
    "mamba2-1.3b",
    "mamba2-2.7b",
    "rwkv-4-169m",
    "rwkv-4-430m",
    "rwkv-4-1.5b",
    "rwkv-4-3b",
    "rwkv-4-7b",
    "rwkv-4-14b",
    "whisper-tiny",
    "whisper-base",
    "whisper-small",
    "whisper-medium",
    "whisper-large-v3",
    "whisper-large-v3-turbo",
    "wav2vec2-base",
    "wav2vec2-large-lv60",
    "hubert-base",
    "hubert-large",
];

/// Returns the names of all presets, small families first.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    PRESETS.iter().map(|(name, _)| *name)
}

/// Maximum number of names with a common prefix that a message lists.
const MAX_PREFIX_MATCHES: usize = 12;

/// Suggestion for an unknown name: the nearest name, the names that begin with it, or all names.
pub fn suggest_preset(name: &str) -> String {
    let begun: Vec<String> = names()
        .filter(|known| !name.is_empty() && known.starts_with(name))
        .map(|known| format!("`{known}`"))
        .collect();
    let nearest = nearest(name, names());
    match begun.as_slice() {
        [only] if nearest.is_none() => format!("; did you mean {only}?"),
        [_, ..] if nearest.is_none() && begun.len() <= MAX_PREFIX_MATCHES => {
            format!("; did you mean one of {}?", begun.join(", "))
        }
        _ => suggestion(name, names()),
    }
}

/// Returns the presets that add a size to a name (`name-small`), as `preset = …` keys; none if there are more than 12.
pub fn sized_variants(name: &str) -> Vec<String> {
    let sized = |known: &&str| {
        let size = known.strip_prefix(name);
        !name.is_empty() && size.is_some_and(|size| size.starts_with('-'))
    };
    let sizes: Vec<String> = names()
        .filter(sized)
        .map(|known| format!("preset = \"{known}\""))
        .collect();
    match sizes.len() {
        ..=MAX_PREFIX_MATCHES => sizes,
        _ => Vec::new(),
    }
}

/// Returns the TOML text of a preset.
pub fn text(name: &str) -> Option<&'static str> {
    let mut presets = PRESETS.iter();
    presets.find_map(|(known, text)| (*known == name).then_some(*text))
}

/// Parses a preset by name.
///
/// # Errors
/// If there is no preset of this name; the error suggests the nearest one.
pub fn parse_preset(name: &str) -> Result<Preset> {
    let near = suggest_preset(name);
    let unknown = || Error::usage(format!("there is no preset `{name}`{near}"));
    let text = text(name).ok_or_else(unknown)?;
    toml::from_str(text).map_err(|error| Error::run(format!("preset {name}: {error}")))
}
