//! Heads of decoders that read whole texts, in all families whose classes share them: `ForSequenceClassification` has a
//! projection without bias, `score`, on the hidden state of the last token; the body by itself gives text embeddings.

use super::{Family, HfShape, text_heads};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::ModelConfig;
use crate::task::text_embedding::TextEmbeddingConfig;
use crate::task::whole_text::Pooling;
use crate::task::{CausalLmConfig, TaskConfig};
use serde_json::{Value, json};

/// The families whose classes for whole texts have this head.
const FAMILIES: [&str; 28] = [
    "bloom",
    "deepseek_v2",
    "deepseek_v3",
    "diffllama",
    "falcon",
    "gemma",
    "gemma2",
    "gpt2",
    "gpt_neo",
    "gpt_neox",
    "gpt_oss",
    "gptj",
    "llama",
    "mistral",
    "mixtral",
    "mpt",
    "olmo",
    "olmo2",
    "openai-gpt",
    "opt",
    "phi",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_next",
    "smollm3",
    "stablelm",
    "starcoder2",
];

/// The endings of language model classes.
const LANGUAGE_MODEL_ENDINGS: [&str; 2] = ["ForCausalLM", "LMHeadModel"];

/// Sets the task of the class on a decoder, if the class reads whole texts.
pub(super) fn apply_head(hf: &HfConfig, family: &Family, of: &mut HfShape) {
    let class = hf.architecture().unwrap_or_default();
    if has_sequence_head(family, of) {
        apply_body(hf, class, of);
    }
    if has_sequence_head(family, of) && class.ends_with(text_heads::SEQUENCE_ENDING) {
        of.task = without_bias(text_heads::sequence_task(hf, 0.0, &mut of.shape));
        if let Some(id) = hf.get("pad_token_id").and_then(Value::as_u64) {
            hf.warn(format!(
                "{class} of transformers reads the last token that is not `pad_token_id` = {id}; this model reads the last \
                 token of a text, which is a different one if the text ends with that token"
            ));
        }
    }
}

/// The names of the matrix of an LM head.
const HEADS: [&str; 2] = ["lm_head.weight", "embed_out.weight"];

/// Makes a body without a head a text embedding model, if the head is not tied to the embeddings and not among the weights.
fn apply_body(hf: &HfConfig, class: &str, of: &mut HfShape) {
    let is_body = class.ends_with(text_heads::BODY) && !is_language_model(class);
    let tied = matches!(&of.model, ModelConfig::Decoder(config) if config.tie_embeddings);
    if is_body && !tied && hf.has_weights() && !HEADS.iter().any(|head| hf.has_tensor(head)) {
        set_text_embedding(of);
        hf.warn(format!(
            "{class} has no language model head: the run produces text embeddings (text_embedding), and a run of another task can start from it"
        ));
    }
}

/// Whether a class is a language model.
pub(in crate::interop) fn is_language_model(class: &str) -> bool {
    LANGUAGE_MODEL_ENDINGS
        .iter()
        .any(|ending| class.ends_with(ending))
}

/// The classes of a family whose language model class is `writer`, for a message.
pub(in crate::interop) fn classes(family: &Family, writer: &str) -> String {
    let name = LANGUAGE_MODEL_ENDINGS
        .iter()
        .find_map(|ending| writer.strip_suffix(ending));
    match name.filter(|_| FAMILIES.contains(&family.model_type)) {
        Some(name) => format!(
            "{writer}, {name}{} and {name}Model",
            text_heads::SEQUENCE_ENDING
        ),
        None => writer.to_owned(),
    }
}

/// The reason why no Hugging Face class has the task's head, although its network may be supported.
pub(in crate::interop) fn unsupported_head(of: &HfShape) -> Option<&'static str> {
    let (pooling, bias) = match &of.task {
        TaskConfig::TextClassification(c) => (c.pooling, c.head_bias),
        TaskConfig::MultiLabel(c) => (c.pooling, c.head_bias),
        TaskConfig::Regression(c) => (c.pooling, c.head_bias),
        _ => return None,
    };
    let (last, first) = (
        matches!(pooling, None | Some(Pooling::Last)),
        matches!(pooling, None | Some(Pooling::First)),
    );
    match &of.model {
        ModelConfig::Decoder(_) if !last || bias != Some(false) => Some(
            "Hugging Face's decoders classify texts from the last position with a head without a bias; set [task] pooling = \
             \"last\" and head_bias = false",
        ),
        ModelConfig::Encoder(_) if !first || bias == Some(false) => Some(
            "Hugging Face's encoders classify texts from the first position with a head with a bias; set [task] pooling = \
             \"first\" and head_bias = true",
        ),
        _ => None,
    }
}

/// Makes a decoder's body a text embedding model.
pub(in crate::interop) fn set_text_embedding(of: &mut HfShape) {
    if let (ModelConfig::Decoder(_), TaskConfig::CausalLm(_)) = (&of.model, &of.task) {
        of.task = TaskConfig::TextEmbedding(TextEmbeddingConfig::default());
    }
}

fn has_sequence_head(family: &Family, of: &HfShape) -> bool {
    matches!(of.model, ModelConfig::Decoder(_)) && FAMILIES.contains(&family.model_type)
}

fn without_bias(task: TaskConfig) -> TaskConfig {
    match task {
        TaskConfig::TextClassification(mut c) => {
            c.head_bias = Some(false);
            TaskConfig::TextClassification(c)
        }
        TaskConfig::MultiLabel(mut c) => {
            c.head_bias = Some(false);
            TaskConfig::MultiLabel(c)
        }
        TaskConfig::Regression(mut c) => {
            c.head_bias = Some(false);
            TaskConfig::Regression(c)
        }
        other => other,
    }
}

/// The class ending of a decoder's task that reads whole texts: at the last position, with a head without a bias.
fn ending(of: &HfShape) -> Option<&'static str> {
    let ModelConfig::Decoder(_) = &of.model else {
        return None;
    };
    let (pooling, bias) = match &of.task {
        TaskConfig::TextClassification(c) => (c.pooling, c.head_bias),
        TaskConfig::MultiLabel(c) => (c.pooling, c.head_bias),
        TaskConfig::Regression(c) => (c.pooling, c.head_bias),
        TaskConfig::TextEmbedding(_) => return Some(text_heads::BODY),
        _ => return None,
    };
    let last = matches!(pooling, None | Some(Pooling::Last));
    (last && bias == Some(false)).then_some(text_heads::SEQUENCE_ENDING)
}

/// A config.json of this shape: that of the language model, with the class of the task.
pub(super) fn write(family: &Family, of: &HfShape) -> Option<Value> {
    let Some(ending) = ending(of) else {
        return (family.write)(of);
    };
    let writer = HfShape {
        task: TaskConfig::CausalLm(CausalLmConfig::default()),
        ..of.clone()
    };
    let mut written = (family.write)(&writer)?;
    let class = written["architectures"][0].as_str()?;
    let name = LANGUAGE_MODEL_ENDINGS
        .iter()
        .find_map(|writer| class.strip_suffix(writer))?;
    let known = text_heads::is_body(&of.task) || FAMILIES.contains(&family.model_type);
    if !known {
        return None;
    }
    written["architectures"] = json!([format!("{name}{ending}")]);
    text_heads::write(&mut written, of);
    Some(written)
}

/// The table of the parameters of a model of this shape.
pub(super) fn table(family: &Family, of: &HfShape) -> Table {
    let mut table = (family.table)(of);
    match ending(of) {
        Some(text_heads::SEQUENCE_ENDING) => table.linear("score", "head", Orientation::OutIn),
        // The LM head, if the file has one.
        Some(_) => table.ignored.extend(["lm_head.weight", "lm_head.bias"]),
        None => {}
    }
    table
}
