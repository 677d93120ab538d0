//! Characters, bytes and pretrained files: published ids, exact round trips, the ids of the `tokenizers` library.

use std::path::Path;

use super::{prose, shared, tokenizer_config};
use formwork::tokenizer::{KINDS, Tokenizer, TokenizerConfig};

fn pretrained(path: &Path) -> Tokenizer {
    let path = path.to_str().unwrap();
    let config = format!("kind = \"pretrained\"\npath = {path:?}");
    Tokenizer::build(&tokenizer_config(&config), &[]).unwrap()
}

const ODD: &[&str] = &[
    "",
    "plain",
    " \t\r\n\u{0}\u{7f}",
    "e\u{301} ﬁ ﬀ ª ①",
    "日本語 中文 한국어 ไทย עברית العربية",
    "👩‍👩‍👧‍👦 🇨🇭 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "\u{feff}\u{200b}\u{202e}abc\u{2028}\u{fffd}",
    "\u{10ffff}\u{e000}\u{d7ff}",
];

#[test]
fn published_ids_of_pretrained_tokenizers() {
    let Some(root) = shared("tokenizers") else {
        return;
    };
    let hello = "Hello world, transformers!";
    let gpt2 = pretrained(&root.join("gpt2"));
    assert_eq!(gpt2.encode(hello).unwrap(), [15496, 995, 11, 6121, 364, 0]);
    assert_eq!(gpt2.vocab_size(), 50257);
    assert_eq!(gpt2.end_of_text(), Some(50256));
    assert_eq!(gpt2.encode("a<|endoftext|>b").unwrap(), [64, 50256, 65]);
    let uncased = pretrained(&root.join("bert_base_uncased"));
    assert_eq!(
        uncased.encode_framed(hello).unwrap(),
        [101, 7592, 2088, 1010, 19081, 999, 102]
    );
    assert_eq!(
        uncased.encode(hello).unwrap(),
        [7592, 2088, 1010, 19081, 999]
    );
    assert_eq!(uncased.vocab_size(), 30522);
    let cased = pretrained(&root.join("bert_base_cased/vocab.txt"));
    assert_eq!(
        cased.encode_framed(hello).unwrap(),
        [101, 8667, 1362, 117, 11303, 1468, 106, 102]
    );
    assert_eq!(cased.vocab_size(), 28996);
    assert_eq!(cased.id("[MASK]"), Some(103));
    let t5 = pretrained(&root.join("t5/tokenizer.json"));
    let german = "translate English to German: That is good.";
    assert_eq!(
        t5.encode_framed(german).unwrap(),
        [13959, 1566, 12, 2968, 10, 466, 19, 207, 5, 1]
    );
    assert_eq!(t5.vocab_size(), 32100);
    assert_eq!(t5.end_of_text(), Some(1));
    for text in ODD {
        assert_eq!(gpt2.decode(&gpt2.encode(text).unwrap()), **text);
    }
}

#[test]
fn pieces_of_a_long_text_give_the_ids_of_the_whole() {
    let Some(root) = shared("tokenizers") else {
        return;
    };
    let text = std::fs::read_to_string(shared("tinyshakespeare/input.txt").unwrap()).unwrap();
    for folder in ["gpt2", "bert_base_uncased"] {
        let tokenizer = pretrained(&root.join(folder));
        let whole = tokenizer.encode(&text).unwrap();
        assert!(
            tokenizer.encode_long(text.as_bytes()).unwrap() == whole,
            "{folder}"
        );
    }
}

#[test]
fn characters_and_bytes_come_back() {
    let all = ODD.concat();
    for config in [
        "kind = \"char\"",
        "kind = \"byte\"",
        "kind = \"byte\"\nend_of_text = \"<|e|>\"",
    ] {
        let tokenizer = Tokenizer::build(&tokenizer_config(config), &[&all]).unwrap();
        for text in ODD {
            let ids = tokenizer.encode(text).unwrap();
            assert_eq!(tokenizer.decode(&ids), **text, "{config}");
            assert!(ids.iter().all(|id| (*id as usize) < tokenizer.vocab_size()));
        }
        for id in 0..tokenizer.vocab_size() as u32 {
            assert_eq!(tokenizer.id(&tokenizer.token(id).unwrap()), Some(id));
        }
        assert_eq!(tokenizer.token(tokenizer.vocab_size() as u32), None);
        assert_eq!(tokenizer.decode(&[9_999_999]), "\u{fffd}");
    }
}

/// The direct implementations for characters and bytes give the ids of the library for the same file, special tokens included.
#[test]
fn the_direct_paths_equal_the_library() {
    let all = ODD.concat();
    let folder = super::Folder::new();
    let path = folder.dir.path().join("tokenizer.json");
    for config in [
        "kind = \"char\"\nunknown = \"<unk>\"\nend_of_text = \"<|end|>\"\nspecial_tokens = [\"<|end|>2\"]",
        "kind = \"byte\"\nend_of_text = \"<|end|>\"\nspecial_tokens = [\"<|end|>2\"]",
    ] {
        let tokenizer = Tokenizer::build(&tokenizer_config(config), &[&all]).unwrap();
        tokenizer.save(&path).unwrap();
        let library = tokenizers::Tokenizer::from_file(&path).unwrap();
        assert_eq!(library.get_vocab_size(true), tokenizer.vocab_size());
        let joined = format!("{all}<|end|>x<|end|>2<|end|><|en");
        for text in ODD.iter().copied().chain([joined.as_str()]) {
            let theirs = library.encode_fast(text, false).unwrap();
            assert_eq!(
                tokenizer.encode(text).unwrap(),
                theirs.get_ids(),
                "{config} {text:?}"
            );
            assert_eq!(
                tokenizer.decode(theirs.get_ids()),
                library.decode(theirs.get_ids(), false).unwrap()
            );
        }
    }
}

#[test]
fn saved_tokenizers_are_the_same_tokenizers() {
    let text = prose(300);
    let folder = super::Folder::new();
    for kind in KINDS.iter().filter(|k| k.kind != "pretrained") {
        let example: toml::Table = toml::from_str(kind.example).unwrap();
        let mut table = example["tokenizer"].clone();
        if let Some(size) = table.get_mut("vocab_size") {
            *size = 400.into();
        }
        let config: TokenizerConfig = table.try_into().unwrap();
        assert_eq!(config.kind(), kind.kind);
        let tokenizer = Tokenizer::build(&config, &[&text]).unwrap();
        let path = folder.dir.path().join(format!("{}.json", kind.kind));
        tokenizer.save(&path).unwrap();
        let loaded = Tokenizer::load(&path).unwrap();
        assert_eq!(
            loaded.fingerprint(),
            tokenizer.fingerprint(),
            "{}",
            kind.kind
        );
        assert_eq!(loaded.end_of_text(), tokenizer.end_of_text());
        assert_eq!(loaded.vocab_size(), tokenizer.vocab_size());
        assert_eq!(
            loaded.encode(&text).unwrap(),
            tokenizer.encode(&text).unwrap()
        );
    }
}

#[test]
fn the_end_of_text_is_kept() {
    let folder = super::Folder::new();
    let path = folder.dir.path().join("tokenizer.json");
    let config = "kind = \"char\"\nend_of_text = \"<STOP>\"\nspecial_tokens = [\"<|endoftext|>\"]";
    let tokenizer = Tokenizer::build(&tokenizer_config(config), &["abc"]).unwrap();
    assert_eq!(tokenizer.end_of_text(), Some(3));
    tokenizer.save(&path).unwrap();
    assert_eq!(Tokenizer::load(&path).unwrap().end_of_text(), Some(3));
    let other = format!("kind = \"pretrained\"\npath = {path:?}\nend_of_text = \"<|endoftext|>\"");
    let other = Tokenizer::build(&tokenizer_config(&other), &[]).unwrap();
    assert_eq!(other.end_of_text(), Some(4));
    assert_ne!(other.fingerprint(), tokenizer.fingerprint());
}

/// In a list of names, the line break is the end-of-text token of each.
#[test]
fn a_character_of_the_text_may_end_it() {
    let config = "kind = \"char\"\nend_of_text = \"\\n\"\nunknown = \"<unk>\"";
    let tokenizer = Tokenizer::build(&tokenizer_config(config), &["emma\nava\n"]).unwrap();
    assert_eq!(tokenizer.vocab_size(), 6);
    assert_eq!(tokenizer.end_of_text(), Some(0));
    assert_eq!(tokenizer.encode("\nam?").unwrap(), [0, 1, 3, 5]);
}

#[test]
fn unseen_characters_are_an_error_or_the_unknown_token() {
    let strict = Tokenizer::build(&tokenizer_config("kind = \"char\""), &["ab"]).unwrap();
    assert_eq!(
        strict.encode("a€").unwrap_err().to_string(),
        "the character '€' (U+20AC) does not occur in the text that the tokenizer was trained on; remove it, or train with [tokenizer] unknown = \
         \"<unk>\" or kind = \"byte\""
    );
    let lenient = tokenizer_config("kind = \"char\"\nunknown = \"<unk>\"");
    let lenient = Tokenizer::build(&lenient, &["ab"]).unwrap();
    assert_eq!(lenient.encode("a€b").unwrap(), [0, 2, 1]);
    assert_eq!(lenient.decode(&[0, 2, 1]), "a<unk>b");
}

/// Damaged files are errors, in whatever way they are damaged.
#[test]
fn damaged_files_never_panic() {
    use formwork::rng::{Purpose, Stream};
    let folder = super::Folder::new();
    let text = prose(60);
    for kind in [
        "char",
        "byte",
        "bpe\"\nvocab_size = \"",
        "wordpiece",
        "unigram",
    ] {
        let config = match kind {
            "char" | "byte" => format!("kind = \"{kind}\""),
            _ => format!(
                "kind = \"{}\"\nvocab_size = 300",
                kind.split('"').next().unwrap()
            ),
        };
        let good = Tokenizer::build(&tokenizer_config(&config), &[&text]).unwrap();
        let path = folder.dir.path().join("t.json");
        good.save(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut stream = Stream::new(3, Purpose::Split, (0, 0, 0));
        for round in 0..300 {
            let mut bad = bytes.clone();
            if round % 3 == 0 {
                bad.truncate(stream.below(bytes.len() as u64) as usize);
            } else {
                for _ in 0..1 + stream.below(4) {
                    let at = stream.below(bad.len() as u64) as usize;
                    bad[at] = b"0123456789\"{}[],:ax"[stream.below(19) as usize];
                }
            }
            std::fs::write(&path, &bad).unwrap();
            if let Ok(tokenizer) = Tokenizer::load(&path) {
                let _ = tokenizer
                    .encode("some text <unk>")
                    .map(|ids| tokenizer.decode(&ids));
            }
        }
    }
}
