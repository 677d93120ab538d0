//! How the tokenizer class of transformers 5 interprets a folder's files.

use super::{folder, golden, goldens, hold, read};
use serde_json::{Value, json};

/// BERT's class lower-cases by default, even with a cased vocabulary.
#[test]
fn a_vocabulary_alone_is_read_lower_cased() {
    let Some(dir) = folder(&[("bert_base_cased/vocab.txt", "vocab.txt")], &[]) else {
        return;
    };
    let found = read(dir.path());
    assert!(found.notes[0].contains("lower-cased"), "{:?}", found.notes);
    let ids = |text: &str| found.tokenizer.encode(text).unwrap();
    assert_eq!(ids("Hello Paris"), ids("hello paris"));
}

/// T5's class rebuilds the processing steps of a tokenizer.json around its pieces: a word after a special token keeps its
/// blank.
#[test]
fn t5_s_class_reads_pieces_alone() {
    let files = [("t5/tokenizer.json", "tokenizer.json")];
    let config = [("config.json", json!({"model_type": "t5"}))];
    let Some(dir) = folder(&files, &config) else {
        return;
    };
    let tokenizer = read(dir.path()).tokenizer;
    hold("t5", &tokenizer, &golden()["vocabularies"]["t5_model"]);
}

/// If a class of byte-level vocabularies reads the folder, tokenizer_config.json decides whether a blank precedes a text, and
/// BERT's switches apply to BERT's class. A generic class reads tokenizer.json as it is. The ids are those of transformers
/// 5.24.
#[test]
fn settings_beside_a_tokenizer_json_count_where_its_class_reads_them() {
    let with = |tokenizer: Value, settings: Value| {
        let files = [
            ("tokenizer.json", tokenizer),
            ("tokenizer_config.json", settings),
        ];
        let dir = folder(&[], &files).unwrap();
        read(dir.path()).tokenizer.encode("ab").unwrap()
    };
    let bytes = |prefix: bool| {
        let words = json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": true});
        let vocab = json!({"a": 0, "b": 1, "Ġ": 2, "Ġa": 3, "<|endoftext|>": 4});
        json!({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": words, "post_processor": null,
               "decoder": words, "model": {"type": "BPE", "vocab": vocab, "merges": [["Ġ", "a"]]}})
    };
    for (prefix, class, said, wanted) in [
        (false, "GPT2Tokenizer", None, [0, 1]),
        (false, "GPT2Tokenizer", Some(true), [3, 1]),
        (false, "RobertaTokenizerFast", Some(true), [3, 1]),
        (false, "PreTrainedTokenizerFast", Some(true), [0, 1]),
        (true, "GPT2Tokenizer", None, [0, 1]),
        (true, "GPT2Tokenizer", Some(true), [3, 1]),
        (true, "PreTrainedTokenizerFast", None, [3, 1]),
    ] {
        let settings = json!({"tokenizer_class": class, "add_prefix_space": said});
        assert_eq!(
            with(bytes(prefix), settings),
            wanted,
            "{prefix} {class} {said:?}"
        );
    }
    let words = || {
        let vocab = json!({"[UNK]": 0, "ab": 1, "[CLS]": 2, "[SEP]": 3, "[PAD]": 4, "[MASK]": 5});
        json!({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null,
               "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                              "lowercase": true},
               "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
               "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                         "max_input_chars_per_word": 100, "vocab": vocab}})
    };
    for (class, wanted) in [("BertTokenizer", 0), ("PreTrainedTokenizerFast", 1)] {
        let settings = json!({"tokenizer_class": class, "do_lower_case": false});
        let files = [
            ("tokenizer.json", words()),
            ("tokenizer_config.json", settings),
        ];
        let dir = folder(&[], &files).unwrap();
        let found = read(dir.path()).tokenizer.encode("AB").unwrap();
        assert_eq!(found, [wanted], "{class}");
    }
}

/// LLaMA's class rebuilds the blank rules of a tokenizer.json from `legacy` beside it; here those of the file are kept.
#[test]
fn rules_of_blanks_that_llama_s_class_makes_anew_are_told() {
    let made = read(&goldens().join("sentencepiece/llama")).tokenizer;
    let file: Value = serde_json::from_slice(made.json()).unwrap();
    for (legacy, told) in [(true, false), (false, true)] {
        let settings = json!({"tokenizer_class": "LlamaTokenizer", "legacy": legacy});
        let files = [
            ("tokenizer.json", file.clone()),
            ("tokenizer_config.json", settings),
        ];
        let dir = folder(&[], &files).unwrap();
        let notes = read(dir.path()).notes.join("\n");
        assert_eq!(
            notes.contains("different whitespace rules"),
            told,
            "{notes}"
        );
    }
}

/// Some classes take pieces and the compiled normaliser from tokenizer.json, and rules from the settings beside it: ALBERT's
/// and XLNet's decide on lower case and accents, and these and XLM-RoBERTa's on a blank before a text. FNet's reads the file as
/// it is. The ids are those of transformers 5.24.
#[test]
fn classes_of_pieces_make_their_rules_anew() {
    let file = |lower: bool, prefix: &str| {
        let names = [
            "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "▁", "E", "Ab", "ab", "É", "e", "▁Ab",
            "▁ab",
        ];
        let vocab: Vec<Value> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                json!([
                    name,
                    if at < 5 {
                        0.0
                    } else {
                        -3.0 - 0.1 * (13 - at) as f64
                    }
                ])
            })
            .collect();
        let mut steps = vec![];
        if lower {
            steps.extend([
                json!({"type": "NFKD"}),
                json!({"type": "StripAccents"}),
                json!({"type": "Lowercase"}),
            ]);
        }
        let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": prefix, "split": true});
        json!({"version": "1.0", "added_tokens": [], "post_processor": null,
               "normalizer": {"type": "Sequence", "normalizers": steps},
               "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
               "decoder": metaspace, "model": {"type": "Unigram", "unk_id": 1, "vocab": vocab}})
    };
    let read = |file: Value, settings: Value| {
        let files = [
            ("tokenizer.json", file),
            ("tokenizer_config.json", settings),
        ];
        let dir = folder(&[], &files).unwrap();
        let tokenizer = read(dir.path()).tokenizer;
        let ids = tokenizer.encode("Ab É").unwrap();
        ids.into_iter()
            .map(|id| tokenizer.token(id).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (lowered, kept) = (["▁ab", "▁", "e"], ["▁Ab", "▁", "É"]);
    for class in ["AlbertTokenizer", "AlbertTokenizerFast"] {
        for lower in [true, false] {
            assert_eq!(
                read(file(lower, "always"), json!({"tokenizer_class": class})),
                lowered
            );
            let settings =
                json!({"tokenizer_class": class, "do_lower_case": false, "keep_accents": true});
            assert_eq!(read(file(lower, "always"), settings), kept);
        }
    }
    let settings = json!({"tokenizer_class": "AlbertTokenizer", "add_prefix_space": false});
    assert_eq!(read(file(true, "always"), settings), ["ab", "e"]);
    for (class, lower, wanted) in [
        ("FNetTokenizer", true, lowered),
        ("FNetTokenizer", false, kept),
        ("PreTrainedTokenizerFast", false, kept),
        ("XLNetTokenizer", true, ["▁Ab", "▁", "E"]),
        ("XLMRobertaTokenizer", false, kept),
    ] {
        let settings = json!({"tokenizer_class": class, "keep_accents": true});
        assert_eq!(read(file(lower, "always"), settings), wanted, "{class}");
    }
    let settings = json!({"tokenizer_class": "XLNetTokenizer", "do_lower_case": true});
    assert_eq!(read(file(false, "never"), settings), lowered);
    let settings = json!({"tokenizer_class": "XLMRobertaTokenizer"});
    assert_eq!(read(file(false, "never"), settings), kept);
}

/// Qwen2's class composes characters, splits words by its own rule, and puts a blank before a text if the settings say so. A
/// folder of its model type that names a generic class is read as it is, and the message says that other programs read it
/// differently. The ids are those of transformers 5.24.
#[test]
fn qwen2_s_class_makes_its_rules_anew() {
    let file = || {
        let words = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
        let vocab = json!({"a": 0, "b": 1, "Ġ": 2, "Ġa": 3, "e": 4, "Ì": 5, "ģ": 6, "Ã": 7, "©": 8, "<|endoftext|>": 9});
        json!({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": words, "post_processor": null,
               "decoder": words, "model": {"type": "BPE", "vocab": vocab, "merges": [["Ġ", "a"]]}})
    };
    for (class, prefix, wanted, told) in [
        (Some("Qwen2Tokenizer"), None, vec![0, 1, 2, 7, 8], false),
        (
            Some("Qwen2TokenizerFast"),
            Some(true),
            vec![3, 1, 2, 7, 8],
            false,
        ),
        (None, None, vec![0, 1, 2, 7, 8], false),
        (
            Some("PreTrainedTokenizerFast"),
            None,
            vec![3, 1, 2, 4, 5, 6],
            true,
        ),
    ] {
        let settings = json!({"tokenizer_class": class, "add_prefix_space": prefix});
        let files = [
            ("tokenizer.json", file()),
            ("tokenizer_config.json", settings),
            ("config.json", json!({"model_type": "qwen2"})),
        ];
        let dir = folder(&[], &files).unwrap();
        let found = read(dir.path());
        assert_eq!(
            found.tokenizer.encode("ab e\u{301}").unwrap(),
            wanted,
            "{class:?}"
        );
        let notes = found.notes.join("\n");
        assert_eq!(
            notes.contains("reads folders with model_type = \"qwen2\""),
            told,
            "{notes}"
        );
    }
}
