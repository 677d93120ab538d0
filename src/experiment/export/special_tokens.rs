//! Sets the ids of special tokens in the config.json of an exported folder.

use crate::data::speech;
use crate::experiment::open::OpenedRun;
use crate::interop::generation;
use crate::model::Use;
use crate::tokenizer::{TextMarks, Tokenizer};
use serde_json::Value;

/// Adds the padding token to the config.json of a decoder for classification or regression: its class finds the end of a text
/// by it.
pub(super) fn add_padding_token(
    mut config: Value,
    opened: &OpenedRun,
    notes: &mut Vec<String>,
) -> Value {
    let of_texts =
        [Use::TextClasses, Use::TextRegression].contains(&opened.experiment.task.network_use());
    let decoder = opened.experiment.model.kind() == "decoder";
    if !decoder || !of_texts || !config["pad_token_id"].is_null() {
        return config;
    }
    let tokenizer = opened.tokenizers.text.as_ref();
    match tokenizer.and_then(Tokenizer::pad) {
        Some(id) => config["pad_token_id"] = id.into(),
        None => notes.push(
            "the tokenizer has no padding token (`pad_token_id`); without one, transformers' class reads one text at a time".into(),
        ),
    }
    config
}

/// Encoder families whose class has a separate id for the token after a text.
const SEPARATOR_FAMILIES: [&str; 3] = ["big_bird", "longformer", "modernbert"];

/// Adds the special tokens to the config.json of a text model. A model that was imported without a tokenizer keeps the ids of
/// its folder, and so does an imported encoder with a tokenizer. An imported encoder-decoder keeps them except for the
/// decoder's start token.
pub(super) fn add_special_tokens(mut config: Value, opened: &OpenedRun, imported: bool) -> Value {
    if opened.tokenizers.text.is_none() && imported {
        return config;
    }
    let marks = text_marks(opened);
    match opened.experiment.model.kind() {
        "decoder" => generation::add_marks(&mut config, marks),
        "encoder_decoder" | "speech_encoder_decoder" => {
            if !imported {
                generation::add_marks(&mut config, marks);
            }
            generation::add_start(&mut config, marks);
        }
        "encoder" if !imported => {
            generation::add_marks(&mut config, marks);
            add_framing_ids(&mut config, opened);
        }
        _ => {}
    }
    add_padding_id(&mut config);
    config
}

/// Families whose classes pad texts to whole chunks or windows themselves; the padding id they use is masked from all tokens.
const SELF_PADDING_FAMILIES: [&str; 2] = ["led", "reformer"];

/// Adds a padding id if there is none and the class fails without one.
fn add_padding_id(config: &mut Value) {
    let family = config["model_type"].as_str().unwrap_or_default();
    if SELF_PADDING_FAMILIES.contains(&family) && config["pad_token_id"].is_null() {
        config["pad_token_id"] = 0.into();
    }
}

/// Turns off layer dropping in the config.json of a run that was not imported: the class of M2M-100 skips layers by default.
pub(super) fn disable_layer_drop(mut config: Value) -> Value {
    if config["model_type"] == "m2m_100" {
        for key in ["encoder_layerdrop", "decoder_layerdrop"] {
            config[key] = 0.0_f64.into();
        }
    }
    config
}

/// A note if the class of M2M-100 derives positions from another padding id than the vocabulary's.
pub(super) fn position_offset_note(config: &Value, opened: &OpenedRun) -> Option<String> {
    let from = config["pad_token_id"].as_u64();
    let from = from.filter(|_| config["model_type"] == "m2m_100")?;
    let pad = text_marks(opened)
        .pad
        .filter(|pad| u64::from(*pad) != from)?;
    Some(format!(
        "the class counts positions from `pad_token_id` = {from}, and texts with that token get other positions there: the \
         tokenizer pads with {pad}; a run with [model] position.first = {} gets the same positions",
        pad + 1
    ))
}

/// Adds the tokens around a text to the config.json of an encoder whose class has separate ids for them.
fn add_framing_ids(config: &mut Value, opened: &OpenedRun) {
    let family = config["model_type"].as_str().unwrap_or_default();
    let begins = family == "modernbert";
    if !SEPARATOR_FAMILIES.contains(&family) {
        return;
    }
    let frame = opened.tokenizers.text.as_ref().and_then(Tokenizer::frame);
    config["sep_token_id"] = frame.map(|frame| frame.end).into();
    if begins {
        config["cls_token_id"] = frame.map(|frame| frame.begin).into();
    }
}

/// The tokens that a transcript begins with; empty for other runs.
pub(super) fn transcript_prefix(opened: &OpenedRun) -> Vec<u32> {
    let edges = opened.tokenizers.text.as_ref().map(speech::marks);
    match edges {
        Some(Ok(edges)) if opened.experiment.task.network_use() == Use::SpeechToText => {
            edges.before().iter().map(|id| *id as u32).collect()
        }
        _ => Vec::new(),
    }
}

/// The special tokens of the texts that a run generates.
pub(super) fn text_marks(opened: &OpenedRun) -> TextMarks {
    let Some(writer) = opened.tokenizers.target_tokenizer() else {
        return TextMarks::default();
    };
    if let Some(start) = transcript_prefix(opened).first() {
        let last = speech::marks(writer).ok();
        let last = last.and_then(|edges| edges.around(&[]).last().map(|id| *id as u32));
        return TextMarks {
            start: Some(*start),
            begin: last,
            end: last,
            ..writer.text_marks()
        };
    }
    if opened.experiment.task.network_use() != Use::TextToText {
        return writer.text_marks();
    }
    let marks = writer.marks().map(TextMarks::from).unwrap_or_default();
    match opened.experiment.model.kind() {
        "encoder_decoder" => TextMarks {
            // Decoder inputs begin with the end token; targets of BART continue with the token that begins a text.
            opening: writer
                .target_prefix()
                .ok()
                .and_then(|all| all.get(1).copied()),
            begin: writer.begin_of_pairs(),
            ..marks
        },
        _ => marks,
    }
}

/// Adds the tokens around a text to the config.json of a model that compares images with texts: its class finds the end of a
/// text by the end token. If texts are padded to one length, the config.json names the padding token and the end token is not
/// needed.
pub(super) fn add_text_ends(
    mut config: Value,
    opened: &OpenedRun,
    notes: &mut Vec<String>,
) -> Value {
    if opened.experiment.task.network_use() != Use::ImageText {
        return config;
    }
    let tokenizer = opened.tokenizers.text.as_ref();
    if let Some(fill) = config["text_config"]["pad_token_id"].as_u64() {
        notes.extend(padding_note(fill, tokenizer.and_then(Tokenizer::pad)));
        return config;
    }
    let frame = tokenizer.and_then(Tokenizer::frame);
    // Ids of the run's vocabulary replace the class's defaults, which are CLIP's.
    for (key, id) in [
        ("bos_token_id", frame.map(|frame| frame.begin)),
        ("pad_token_id", tokenizer.and_then(Tokenizer::pad)),
    ] {
        if let Some(id) = id {
            config["text_config"][key] = id.into();
        }
    }
    if !config["text_config"]["eos_token_id"].is_null() {
        return config;
    }
    match frame.map(|frame| frame.end) {
        // The class treats an end id of 2 as a sign of CLIP's first files, in which the largest id of a text marks its end.
        Some(2) => notes.push(
            "the end token has the id 2; for this id, transformers' class uses the token with the largest id of a text instead, \
             so its vectors of texts differ"
                .into(),
        ),
        Some(id) => config["text_config"]["eos_token_id"] = id.into(),
        None => notes.push(
            "the tokenizer has no end token (`eos_token_id`), by which transformers' class finds the end of a text, so its \
             vectors of texts differ"
                .into(),
        ),
    }
    config
}

/// A note if the tokenizer pads with another token than the texts were padded with in training.
fn padding_note(fill: u64, pad: Option<u32>) -> Option<String> {
    let other = pad.filter(|pad| u64::from(*pad) != fill)?;
    Some(format!(
        "texts are padded with the token {fill} ([task] fill), but the tokenizer pads with {other}, so its vectors of texts differ"
    ))
}
