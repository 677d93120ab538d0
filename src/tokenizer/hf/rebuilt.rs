//! Rules that a class of transformers 5 rebuilds when it reads a `tokenizer.json`: some classes take only vocabulary, merges,
//! frame and compiled normalizer from the file, and set the other rules by the settings beside it. A general class reads the file
//! as it is.

use super::byte_level;
use super::family::{Family, Files, NamedFamily};
use super::sentencepiece::{self, metaspace, words};
use super::settings::Settings;
use super::tokenizer_json::NAME;
use super::write::REBUILDS;
use crate::tokenizer::Tokenizer;
use serde_json::{Value, json};

/// A note for a tokenizer in a folder that names a general class, if transformers reads its model type with a class that rebuilds
/// rules, and the file has other rules.
pub fn rebuild_note(tokenizer: &Tokenizer, model_type: &str) -> Option<String> {
    if !REBUILDS.contains(&model_type) {
        return None;
    }
    let file: Value = serde_json::from_slice(tokenizer.json()).unwrap_or_default();
    let mut theirs = file.clone();
    byte_level::use_qwen2_rules(&mut theirs, &Settings::default());
    let same = theirs == file && file["model"]["type"] == "BPE";
    (!same).then(|| {
        format!(
            "AutoTokenizer of transformers 5 reads folders with model_type = \"{model_type}\" with a class that builds its own rules around the \
             vocabulary, but {NAME} has different ones; PreTrainedTokenizerFast.from_pretrained reads them unchanged"
        )
    })
}

/// Replaces the rules in the file that the folder's class rebuilds.
pub(super) fn apply_class_rules(file: &mut Value, settings: &Settings) {
    if !file.is_object() || settings.class.as_deref().is_some_and(Family::is_general) {
        return;
    }
    if let NamedFamily::Family(Family::Bert) = Family::named(settings, Files::Words) {
        bert(file, settings);
    }
    match Family::named(settings, Files::Merges) {
        NamedFamily::Family(Family::Qwen2) => byte_level::use_qwen2_rules(file, settings),
        NamedFamily::Family(_) => apply_prefix_space(file, settings),
        NamedFamily::Unknown(_) | NamedFamily::Nothing => {}
    }
    if file["model"]["type"] != "Unigram" {
        return;
    }
    // FNet uses ALBERT's class, and its file is read unchanged; XLNet has no family here.
    let own = |class: &str, model: &str| match settings.class.as_deref() {
        Some(named) => named == class,
        None => settings.model_type.as_deref() == Some(model),
    };
    if own("AlbertTokenizer", "albert") {
        albert(file, settings);
    } else if own("XLNetTokenizer", "xlnet") {
        xlnet(file, settings);
    } else if own("XLMRobertaTokenizer", "xlm-roberta") {
        set_word_splitting(file, settings.flag("add_prefix_space").unwrap_or(true));
    } else if let NamedFamily::Family(Family::T5) = Family::named(settings, Files::Pieces) {
        t5(file);
    }
}

/// Whether a blank is added before a text is set by a key beside the file; without the key none is added.
fn apply_prefix_space(file: &mut Value, settings: &Settings) {
    if file["pre_tokenizer"]["type"] == "ByteLevel" {
        let prefix = settings.flag("add_prefix_space").unwrap_or(false);
        file["pre_tokenizer"]["add_prefix_space"] = json!(prefix);
    }
}

/// For BERT's classes, transformers reads these keys instead of the file's settings.
fn bert(file: &mut Value, settings: &Settings) {
    let normalizer = &mut file["normalizer"];
    if normalizer["type"] != "BertNormalizer" {
        return;
    }
    for (key, place) in [
        ("do_lower_case", "lowercase"),
        ("strip_accents", "strip_accents"),
        ("tokenize_chinese_chars", "handle_chinese_chars"),
    ] {
        if let Some(on) = settings.flag(key) {
            normalizer[place] = json!(on);
        }
    }
}

/// The steps of a normaliser.
fn steps(normalizer: &Value) -> Vec<Value> {
    match normalizer["normalizers"].as_array() {
        Some(steps) => steps.clone(),
        None => Vec::from_iter((!normalizer.is_null()).then(|| normalizer.clone())),
    }
}

/// The compiled step of a file's normalizer.
fn compiled(file: &Value) -> Option<Value> {
    let mut steps = steps(&file["normalizer"]).into_iter();
    steps.find(|step| step["type"] == "Precompiled")
}

/// ALBERT's rules, with `keep_accents`, `do_lower_case` and `add_prefix_space`.
fn albert(file: &mut Value, settings: &Settings) {
    let keeps = settings.flag("keep_accents").unwrap_or(false);
    let rules = sentencepiece::albert_rules(settings, [keeps, true], compiled(file));
    set_normalizer(file, rules);
    set_word_splitting(file, settings.flag("add_prefix_space").unwrap_or(true));
}

/// XLNet's rules: its class ignores `keep_accents` and `add_prefix_space`.
fn xlnet(file: &mut Value, settings: &Settings) {
    let rules = sentencepiece::albert_rules(settings, [false, false], compiled(file));
    set_normalizer(file, rules);
    set_word_splitting(file, true);
}

/// Sets a normalizer of these steps. Older files also join blanks in a last step, which has no effect on words split at blanks.
fn set_normalizer(file: &mut Value, wanted: Vec<Value>) {
    let joins = |step: &Value| step["type"] == "Replace" && step["pattern"]["Regex"] == " {2,}";
    let mut own = steps(&file["normalizer"]);
    own.retain(|step| !joins(step));
    if own != wanted {
        file["normalizer"] = json!({"type": "Sequence", "normalizers": wanted});
    }
}

/// Splits words at blanks, each with `▁` before it if `prefix`.
fn set_word_splitting(file: &mut Value, prefix: bool) {
    let parts = &file["pre_tokenizer"]["pretokenizers"];
    let metaspace = &parts[1];
    // Older files use this key instead.
    let own = match metaspace["prepend_scheme"].as_str() {
        Some(scheme) => scheme != "never",
        None => metaspace["add_prefix_space"] == true,
    };
    let of_words = parts[0]["type"] == "WhitespaceSplit"
        && metaspace["type"] == "Metaspace"
        && parts.as_array().is_some_and(|parts| parts.len() == 2);
    if !of_words || own != prefix {
        (file["pre_tokenizer"], file["decoder"]) = sentencepiece::word_splitting(prefix);
    }
}

/// transformers 5 takes the pieces and the compiled normalizer from a file of T5's class, and rebuilds the rest: a word
/// after a special token also gets its blank.
fn t5(file: &mut Value) {
    file["normalizer"] = compiled(file).unwrap_or_default();
    file["pre_tokenizer"] = words();
    file["decoder"] = metaspace("always", true);
}
