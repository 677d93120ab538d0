//! What a class of transformers 5 makes anew of a `tokenizer.json`: a class with rules of its own takes vocabulary, merges, frame and
//! compiled normaliser of the file, and its rules from the settings beside it. A general class reads the file as it is.

use super::byte_level;
use super::family::{Family, Files, Named};
use super::sentencepiece::{self, metaspace, words};
use super::settings::Settings;
use super::whole::NAME;
use super::write::REBUILDS;
use crate::tokenizer::Tokenizer;
use serde_json::{Value, json};

/// What is said of a tokenizer in a folder of such a model type that names a general class, where the class of the type has other rules.
pub fn read_otherwise(tokenizer: &Tokenizer, model_type: &str) -> Option<String> {
    if !REBUILDS.contains(&model_type) {
        return None;
    }
    let file: Value = serde_json::from_slice(tokenizer.json()).unwrap_or_default();
    let mut theirs = file.clone();
    byte_level::as_qwen2(&mut theirs, &Settings::default());
    let same = theirs == file && file["model"]["type"] == "BPE";
    (!same).then(|| {
        format!(
            "AutoTokenizer of transformers 5 reads folders with model_type = \"{model_type}\" with a class that makes its own rules around \
             the vocabulary, and {NAME} has others: PreTrainedTokenizerFast.from_pretrained reads them as they are"
        )
    })
}

/// Puts into the file what the class of its folder makes anew.
pub(super) fn as_its_class(file: &mut Value, settings: &Settings) {
    if !file.is_object() || settings.class.as_deref().is_some_and(Family::is_general) {
        return;
    }
    if let Named::Family(Family::Bert) = Family::named(settings, Files::Words) {
        bert(file, settings);
    }
    match Family::named(settings, Files::Merges) {
        Named::Family(Family::Qwen2) => byte_level::as_qwen2(file, settings),
        Named::Family(_) => before_a_text(file, settings),
        Named::Unknown(_) | Named::Nothing => {}
    }
    if file["model"]["type"] != "Unigram" {
        return;
    }
    // FNet's class is ALBERT's, and reads the file as it is; XLNet's has a family for no other files.
    let own = |class: &str, model: &str| match settings.class.as_deref() {
        Some(named) => named == class,
        None => settings.model_type.as_deref() == Some(model),
    };
    if own("AlbertTokenizer", "albert") {
        albert(file, settings);
    } else if own("XLNetTokenizer", "xlnet") {
        xlnet(file, settings);
    } else if own("XLMRobertaTokenizer", "xlm-roberta") {
        cut(file, settings.flag("add_prefix_space").unwrap_or(true));
    } else if let Named::Family(Family::T5) = Family::named(settings, Files::Pieces) {
        t5(file);
    }
}

/// Whether a blank stands before a text is said beside the file, and is not where nothing is said.
fn before_a_text(file: &mut Value, settings: &Settings) {
    if file["pre_tokenizer"]["type"] == "ByteLevel" {
        let prefix = settings.flag("add_prefix_space").unwrap_or(false);
        file["pre_tokenizer"]["add_prefix_space"] = json!(prefix);
    }
}

/// transformers reads these keys for BERT's classes in place of the file's.
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

/// The compiled step of a file's normaliser.
fn compiled(file: &Value) -> Option<Value> {
    let mut steps = steps(&file["normalizer"]).into_iter();
    steps.find(|step| step["type"] == "Precompiled")
}

/// ALBERT's rules, by `keep_accents`, `do_lower_case` and `add_prefix_space`.
fn albert(file: &mut Value, settings: &Settings) {
    let keeps = settings.flag("keep_accents").unwrap_or(false);
    let rules = sentencepiece::albert_rules(settings, [keeps, true], compiled(file));
    normalised(file, rules);
    cut(file, settings.flag("add_prefix_space").unwrap_or(true));
}

/// XLNet's rules: its class passes over `keep_accents` and `add_prefix_space`.
fn xlnet(file: &mut Value, settings: &Settings) {
    let rules = sentencepiece::albert_rules(settings, [false, false], compiled(file));
    normalised(file, rules);
    cut(file, true);
}

/// Sets a normaliser of these steps. Files of older versions join blanks in a last step, which words between blanks need not.
fn normalised(file: &mut Value, wanted: Vec<Value>) {
    let joins = |step: &Value| step["type"] == "Replace" && step["pattern"]["Regex"] == " {2,}";
    let mut own = steps(&file["normalizer"]);
    own.retain(|step| !joins(step));
    if own != wanted {
        file["normalizer"] = json!({"type": "Sequence", "normalizers": wanted});
    }
}

/// Words between blanks, each with `▁` before it or none.
fn cut(file: &mut Value, prefix: bool) {
    let parts = &file["pre_tokenizer"]["pretokenizers"];
    let metaspace = &parts[1];
    // Files of older versions say it so.
    let own = match metaspace["prepend_scheme"].as_str() {
        Some(scheme) => scheme != "never",
        None => metaspace["add_prefix_space"] == true,
    };
    let of_words = parts[0]["type"] == "WhitespaceSplit"
        && metaspace["type"] == "Metaspace"
        && parts.as_array().is_some_and(|parts| parts.len() == 2);
    if !of_words || own != prefix {
        (file["pre_tokenizer"], file["decoder"]) = sentencepiece::cut(prefix);
    }
}

/// transformers 5 takes the pieces and the compiled normaliser of a file of T5's class, and makes the rest anew: a word
/// after a mark gets its blank.
fn t5(file: &mut Value) {
    file["normalizer"] = compiled(file).unwrap_or_default();
    file["pre_tokenizer"] = words();
    file["decoder"] = metaspace("always", true);
}
