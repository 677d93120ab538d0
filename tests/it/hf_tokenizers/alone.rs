//! SentencePiece models that no class reads: ids and texts of the SentencePiece library
//! (`tests/goldens/make_sentencepiece.py`), and messages about such models.

use super::{goldens, ids, read};
use crate::binary::{failure, formwork, output};
use formwork::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn golden() -> Value {
    let path = goldens().join("sentencepiece_alone.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn model(name: &str) -> PathBuf {
    let folder = goldens().join("sentencepiece_alone");
    folder.join(format!("{name}.model"))
}

fn pretrained(path: &Path) -> Tokenizer {
    let config = json!({"kind": "pretrained", "path": path});
    Tokenizer::build(&serde_json::from_value(config).unwrap(), &[]).unwrap()
}

/// Compares ids and texts. Known differences: a text that is only a symbol has no `▁` before it here, and unigram models read a
/// `▁` of the text itself differently (`plain.rs`).
fn hold(name: &str, tokenizer: &Tokenizer, golden: &Value) {
    let tokens = golden["tokens"].as_u64().unwrap();
    assert_eq!(tokenizer.vocab_size() as u64, tokens, "{name}");
    for line in golden["lines"].as_array().unwrap() {
        let text = line[0].as_str().unwrap();
        let (found, wanted) = (tokenizer.encode(text).unwrap(), ids(&line[1]));
        if text.contains('▁') && name.starts_with("unigram") {
            continue;
        }
        if text == "foo" && name.ends_with("_symbols") {
            assert_eq!(found, wanted[1..], "{name}");
            continue;
        }
        assert_eq!(found, wanted, "{name}: {text:?}");
        if let Some(text) = line[2].as_str() {
            assert_eq!(tokenizer.decode(&found), text, "{name}");
        }
    }
}

#[test]
fn models_alone_give_the_ids_and_texts_of_sentencepiece() {
    let golden = golden();
    for name in [
        "bpe",
        "bpe_symbols",
        "bpe_bytes",
        "bpe_across",
        "unigram_bytes",
        "unigram_symbols",
    ] {
        let tokenizer = pretrained(&model(name));
        hold(name, &tokenizer, &golden["models"][name]);
        // In a folder, it is found by its name.
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(model(name), folder.path().join("tokenizer.model")).unwrap();
        let again = pretrained(folder.path());
        assert_eq!(again.fingerprint(), tokenizer.fingerprint(), "{name}");
    }
}

/// LLaMA's pieces if no file names a class: transformers, from 5.24 on, and SentencePiece put no special token before a text.
#[test]
fn llama_s_pieces_alone_are_read_by_their_own_rules() {
    let dir = tempfile::tempdir().unwrap();
    let model = goldens().join("sentencepiece/llama/tokenizer.model");
    std::fs::copy(model, dir.path().join("tokenizer.model")).unwrap();
    let alone = pretrained(dir.path());
    hold("llama", &alone, &golden()["models"]["llama"]);
    assert!(alone.notes().is_empty(), "{:?}", alone.notes());
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
    let found = read(dir.path());
    assert_eq!(found.tokenizer.fingerprint(), alone.fingerprint());
    assert!(
        found.notes[0].contains("add_bos_token"),
        "{:?}",
        found.notes
    );
    // If a file beside it asks for the special token, texts get it.
    let asked = r#"{"add_bos_token": true}"#;
    std::fs::write(dir.path().join("tokenizer_config.json"), asked).unwrap();
    let found = read(dir.path());
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let framed = found.tokenizer.encode_framed("a").unwrap();
    assert_eq!(framed, [vec![1], alone.encode("a").unwrap()].concat());
}

#[test]
fn pieces_are_counted_in_bytes_of_the_text() {
    let tokenizer = pretrained(&model("bpe_bytes"));
    let id = |token: &str| tokenizer.id(token).unwrap();
    let bytes = ["▁the", "▁", "<0x41>"].map(|token| tokenizer.bytes_of(id(token)));
    assert_eq!(bytes, [4, 1, 1]);
    assert!(tokenizer.begins_word(Some(id("s")), id("▁the")));
    assert!(!tokenizer.begins_word(Some(id("▁the")), id("s")));
}

#[test]
fn models_that_cannot_be_read_and_symbols_that_are_lost_are_told() {
    let why = Tokenizer::pretrained(&model("suffix")).unwrap_err();
    let why = why.to_string();
    assert!(
        why.contains("suffix.model") && why.contains("treat_whitespace_as_suffix"),
        "{why}"
    );
    let path = model("bpe_symbols").display().to_string();
    let shown = formwork(&["tokenize", &path, "a b"]).output().unwrap();
    let said = String::from_utf8(shown.stderr).unwrap();
    assert!(shown.status.success(), "{said}");
    assert!(
        said.contains("user-defined symbol \"a b\" is never found"),
        "{said}"
    );
}

/// Files beside a vocabulary determine how it is read: ids equal those of transformers, except where a key of the experiment
/// says otherwise.
#[test]
fn vocabularies_are_read_as_the_files_beside_them_say() {
    let deberta = pretrained(&goldens().join("sentencepiece/deberta"));
    super::hold("deberta", &deberta, &super::golden()["small"]["deberta"]);
    let folder = tempfile::tempdir().unwrap();
    let vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n";
    std::fs::write(folder.path().join("vocab.txt"), vocab).unwrap();
    let of = |lowercase: Option<bool>| {
        let config = json!({"kind": "pretrained", "path": folder.path(), "lowercase": lowercase});
        let built = Tokenizer::build(&serde_json::from_value(config).unwrap(), &[]);
        built.unwrap().encode_framed("A b").unwrap()
    };
    assert_eq!(of(None), [2, 5, 6, 3]);
    let said = folder.path().join("tokenizer_config.json");
    std::fs::write(said, r#"{"do_lower_case": false}"#).unwrap();
    assert_eq!(of(None), [2, 1, 6, 3]);
    assert_eq!(of(Some(true)), [2, 5, 6, 3]);
}

/// `tokenize` reads folders as `kind = "pretrained"` does.
#[test]
fn folders_of_files_are_tokenized_with() {
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().display().to_string();
    let (status, said) = failure(&["tokenize", &shown, "a b"]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("is not a run and contains no tokenizer (none of tokenizer.json"),
        "{said}"
    );
    let from = goldens().join("sentencepiece/deberta");
    for (own, name) in [("vocab.json", "encoder.json"), ("merges.txt", "vocab.bpe")] {
        std::fs::copy(from.join(own), folder.path().join(name)).unwrap();
    }
    let text: Value =
        serde_json::from_str(&output(&["tokenize", &shown, "a b", "--json"])).unwrap();
    let tokenizer = pretrained(folder.path());
    assert_eq!(ids(&text["ids"]), tokenizer.encode("a b").unwrap());
}
