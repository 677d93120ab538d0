//! Tokenizers of Hugging Face folders: exported files, settings of a folder beside its vocabulary, and messages about damaged
//! files.

use crate::hf_files::{folder, read_json, told};
use formwork::error::Error;
use formwork::tokenizer::hf::{self, ModelInputs};
use formwork::tokenizer::{MarkNames, Tokenizer, TokenizerConfig};
use serde_json::{Value, json};
use std::path::Path;

const TEXT: &str = "The cat sat on the mat. The dog didn't: it ran, and the cat sat there still.\n";

#[test]
fn a_written_tokenizer_is_read_back_as_the_same() {
    let configs = [
        r#"{"kind": "char", "unknown": "<unk>", "end_of_text": "<|endoftext|>"}"#,
        r#"{"kind": "byte", "end_of_text": "<|endoftext|>"}"#,
        r#"{"kind": "bpe", "vocab_size": 300}"#,
        r#"{"kind": "wordpiece", "vocab_size": 80}"#,
        r#"{"kind": "unigram", "vocab_size": 60}"#,
    ];
    for config in configs {
        let config: TokenizerConfig = serde_json::from_str(config).unwrap();
        let names = MarkNames {
            begin: Some("<begin>".into()),
            ..MarkNames::default()
        };
        let made = Tokenizer::build(&config.with_marks(&names), &[TEXT]).unwrap();
        let made = made.with_marks(&names).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let by = ModelInputs {
            max_length: Some(64),
            ..ModelInputs::default()
        };
        assert_eq!(hf::write(dir.path(), &made, by).unwrap().len(), 3);
        let written = std::fs::read_to_string(dir.path().join("tokenizer.json")).unwrap();
        assert!(
            !written.contains("\"end_of_text\"") && !written.contains("\"mark\""),
            "{config:?}"
        );
        let roles = read_json(&dir.path().join("tokenizer_config.json"));
        assert_eq!(roles["bos_token"], "<begin>", "{config:?}");
        assert_eq!(
            roles["model_input_names"],
            json!(["input_ids", "attention_mask"])
        );
        let found = hf::read(dir.path()).unwrap().unwrap();
        assert_eq!(found.max_length, Some(64));
        let again = found.tokenizer;
        assert_eq!(
            again.encode_framed(TEXT).unwrap(),
            made.encode_framed(TEXT).unwrap()
        );
        assert_eq!(again.marks().unwrap(), made.marks().unwrap(), "{config:?}");
        assert_eq!(again.end_of_text(), made.end_of_text(), "{config:?}");
        assert_eq!(again.specials(), made.specials(), "{config:?}");
    }
}

#[test]
fn what_a_folder_says_of_special_tokens_holds() {
    let plain = Tokenizer::build(
        &serde_json::from_str(r#"{"kind": "bpe", "vocab_size": 300}"#).unwrap(),
        &[TEXT],
    )
    .unwrap();
    let size = plain.vocab_size() as u32;
    let config = json!({"eos_token": "<|im_end|>", "pad_token": {"content": "<|pad|>"}, "chat_template": "{{ x }}",
                        "additional_special_tokens": ["<|tool|>", ""], "model_max_length": 1e30, "bos_token": ""});
    let config = config.to_string();
    let dir = folder(&[
        ("tokenizer.json", plain.json()),
        ("tokenizer_config.json", config.as_bytes()),
        ("chat_template.jinja", b""),
    ]);
    let found = hf::read(dir.path()).unwrap().unwrap();
    let tokenizer = &found.tokenizer;
    // Tokens that the vocabulary lacks are appended in the order of transformers.
    let added = ["<|im_end|>", "<|pad|>", "<|tool|>"].map(|name| tokenizer.id(name));
    assert_eq!(added, [Some(size), Some(size + 1), Some(size + 2)]);
    assert_eq!(tokenizer.end_of_text(), Some(size));
    assert_eq!(
        tokenizer.marks().map(|m| (m.end, m.pad)).ok(),
        None,
        "nothing begins a text"
    );
    assert_eq!(
        tokenizer.encode("a<|tool|>").unwrap().last(),
        Some(&(size + 2))
    );
    assert_eq!(found.ignored, [""; 0]);
    // The separate template file is empty.
    let chat = found.chat.unwrap();
    assert_eq!(chat.template(), "{{ x }}");
    assert_eq!(chat.tokens()["eos_token"], "<|im_end|>");
    assert!(hf::read(folder(&[]).path()).unwrap().is_none());
}

/// If a folder has several chat templates, the one named `tool_use` writes conversations with tools; both forms of storage are
/// imported and exported.
#[test]
fn a_template_for_tools_is_taken_and_given_back() {
    let plain = Tokenizer::build(
        &serde_json::from_str(r#"{"kind": "bpe", "vocab_size": 300}"#).unwrap(),
        &[TEXT],
    )
    .unwrap();
    let all = json!([{"name": "rag", "template": "r"}, {"name": "tool_use", "template": "{{ tools|length }}"},
                     {"name": "default", "template": "d"}]);
    let listed = json!({ "chat_template": all }).to_string();
    let listed = folder(&[
        ("tokenizer.json", plain.json()),
        ("tokenizer_config.json", listed.as_bytes()),
    ]);
    let found = hf::read(listed.path()).unwrap().unwrap();
    let chat = found.chat.unwrap();
    assert_eq!(
        (chat.template(), chat.tool_use()),
        ("d", Some("{{ tools|length }}"))
    );
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("`rag` are not used") && !notes.contains("`tool_use` are"),
        "{notes}"
    );
    // In the form that transformers writes.
    let other = folder(&[("tokenizer.json", plain.json())]);
    hf::write_chat_template(other.path(), &chat).unwrap();
    let beside = other
        .path()
        .join("additional_chat_templates/tool_use.jinja");
    assert_eq!(
        std::fs::read_to_string(beside).unwrap(),
        "{{ tools|length }}"
    );
    let again = hf::read(other.path()).unwrap().unwrap();
    assert_eq!(again.ignored, [""; 0]);
    let again = again.chat.unwrap();
    assert_eq!(
        (again.template(), again.tool_use()),
        ("d", Some("{{ tools|length }}"))
    );
}

#[test]
fn damaged_tokenizers_are_told_apart() {
    let sentencepiece = std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/goldens/sentencepiece/llama/tokenizer.model"),
    )
    .unwrap();
    let vocab = br#"{"a": 0, "b": 1, "ab": 2}"#.as_slice();
    let bpe = |vocab: Value, merges: Value| {
        let file = json!({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocab, "merges": merges}});
        file.to_string().into_bytes()
    };
    let longer = bpe(json!({"ab": 0, "a": 1}), json!([["ab", "a"]]));
    let far = bpe(json!({"a": 4_000_000_000u32}), json!([]));
    let map = json!({"version": "1.0", "added_tokens": [], "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]]},
                     "normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAA/P8="}});
    let map = map.to_string().into_bytes();
    type Case<'a> = (&'a [(&'a str, &'a [u8])], &'a str);
    let cases: &[Case] = &[
        (
            &[("vocab.txt", b"[UNK]\na\n\xff\n")],
            "vocab.txt:3: is not UTF-8",
        ),
        (
            &[("vocab.txt", b"[UNK]\na\nb\na\n")],
            "vocab.txt:4: the token `a` is already at line 2",
        ),
        (
            &[("vocab.txt", b"a\n")],
            "vocab.txt: is not a WordPiece vocabulary: it has no `[UNK]`",
        ),
        (
            &[("vocab.json", br#"{"a": 0, "b": 0}"#), ("merges.txt", b"")],
            "the tokens `a` and `b` both have the id 0",
        ),
        (
            &[("vocab.json", br#"{"a": -1}"#), ("merges.txt", b"")],
            "the token `a` has the id -1",
        ),
        (
            &[("vocab.json", br#"{"a": 4000000000}"#), ("merges.txt", b"")],
            "without large gaps",
        ),
        (
            &[
                ("vocab.json", vocab),
                ("merges.txt", b"#version: 0.2\na b\na\n"),
            ],
            "merges.txt:3: a merge must be two tokens",
        ),
        (
            &[("vocab.json", vocab), ("merges.txt", b"b a\n")],
            "merges.txt:1: `ba` of the merge `b a` is not in the vocabulary",
        ),
        (
            &[("vocab.json", b"[]"), ("merges.txt", b"")],
            "vocab.json: is not a JSON object",
        ),
        (
            &[("tokenizer.model", &sentencepiece[..100])],
            "tokenizer.model: is not a SentencePiece model",
        ),
        (&[("tokenizer.model", b"")], "it has no pieces"),
        (
            &[("tokenizer.model", b"\x0a\xff\xff\xff\xff\x0f")],
            "tokenizer.model: is not a SentencePiece model",
        ),
        (
            &[("tokenizer.json", &longer)],
            "makes a token that is not in the vocabulary",
        ),
        (&[("tokenizer.json", &far)], "without large gaps"),
        (
            &[("tokenizer.json", &map)],
            "precompiled_charsmap is damaged",
        ),
        (
            &[("tokenizer.json", b"{}")],
            "tokenizer.json is not a tokenizer",
        ),
        (
            &[("tokenizer.json", b"{\"a\": ")],
            "tokenizer.json: is not a tokenizer",
        ),
        (
            &[
                ("spiece.model", &sentencepiece),
                (
                    "tokenizer_config.json",
                    br#"{"tokenizer_class": "PegasusTokenizer"}"#,
                ),
            ],
            "spiece.model: belongs to the class PegasusTokenizer",
        ),
        (
            &[
                ("vocab.txt", b"[UNK]\n"),
                (
                    "tokenizer_config.json",
                    br#"{"added_tokens_decoder": {"9": {"content": "x"}}}"#,
                ),
            ],
            "vocab.txt: ends before the id 1, but the next added token, `x`, has the id 9",
        ),
        (
            &[
                ("vocab.txt", b"[UNK]\n"),
                ("tokenizer_config.json", br#"{"pad_token": 7}"#),
            ],
            "`pad_token` = 7 is not a token",
        ),
        (
            &[
                ("vocab.txt", b"[UNK]\n"),
                ("added_tokens.json", br#"{"x": 5000000000}"#),
            ],
            "added_tokens.json: the token `x`",
        ),
    ];
    for (files, expected) in cases {
        let dir = folder(files);
        let message = told(dir.path(), hf::read(dir.path()));
        assert!(message.contains(expected), "{message}\nnot {expected}");
    }
}

#[test]
fn no_cut_or_changed_byte_of_a_model_is_a_panic() {
    let whole = std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/sentencepiece/t5/spiece.model"),
    )
    .unwrap();
    let dir = folder(&[]);
    let path = dir.path().join("spiece.model");
    let hold = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        match hf::read(dir.path()) {
            // A changed score or letter still makes a valid model, which must encode any text.
            Ok(found) => drop(
                found
                    .unwrap()
                    .tokenizer
                    .encode("ﬁne … \u{200b}e\u{301} a<<user>>b <ctl>"),
            ),
            Err(error) => assert!(matches!(error, Error::Invalid(_)), "{error:?}"),
        }
    };
    for cut in (0..whole.len()).step_by(97) {
        hold(&whole[..cut]);
    }
    for number in 0..300 {
        let mut changed = whole.clone();
        // The character map is at the end, and each of its bytes belongs to an offset.
        let place = whole.len() - 1 - number * 7 % whole.len();
        changed[place] ^= 1 << (number % 8);
        hold(&changed);
    }
}
