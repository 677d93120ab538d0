//! Tokenizers of Hugging Face folders: the ids of transformers 5 (`tests/goldens/make_tokenizers.py`) for real vocabularies on
//! 10,000 lines of WikiText-2 and for small SentencePiece models, the ids of the SentencePiece library for models without a
//! class, and the messages about damaged folders.

mod alone;
mod classes;
mod faults;

use flate2::read::GzDecoder;
use formwork::tokenizer::hf::{self, HfTokenizer, ModelInputs};
use formwork::tokenizer::{Tokenizer, TokenizerConfig};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Path of a file of the development data. Without FORMWORK_DATA there is none, and the test says so; with it, the file must
/// exist.
fn data(path: &str) -> Option<PathBuf> {
    let Some(folders) = std::env::var_os("FORMWORK_DATA") else {
        eprintln!("left out: FORMWORK_DATA is not set, so {path} is not here");
        return None;
    };
    let found = std::env::split_paths(&folders)
        .map(|folder| folder.join(path))
        .find(|p| p.exists());
    Some(found.unwrap_or_else(|| panic!("{path} is not in FORMWORK_DATA")))
}

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens")
}

fn golden() -> Value {
    serde_json::from_slice(&std::fs::read(goldens().join("tokenizers.json")).unwrap()).unwrap()
}

fn read(dir: &Path) -> HfTokenizer {
    hf::read(dir).unwrap().unwrap()
}

/// A folder with copies of files of the development data, and some that the test writes.
fn folder(copied: &[(&str, &str)], written: &[(&str, Value)]) -> Option<TempDir> {
    let dir = tempfile::tempdir().unwrap();
    for (from, to) in copied {
        std::fs::copy(data(&format!("tokenizers/{from}"))?, dir.path().join(to)).unwrap();
    }
    for (name, value) in written {
        std::fs::write(dir.path().join(name), value.to_string()).unwrap();
    }
    Some(dir)
}

fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

/// Compares ids with the golden: difficult lines in full, lines of WikiText-2 by digest.
fn hold(name: &str, tokenizer: &Tokenizer, golden: &Value) {
    hold_all_but(&[], name, tokenizer, golden);
}

fn hold_all_but(others: &[&str], name: &str, tokenizer: &Tokenizer, golden: &Value) {
    assert_eq!(
        tokenizer.vocab_size() as u64,
        golden["tokens"].as_u64().unwrap(),
        "{name}"
    );
    let mut wrong = Vec::new();
    for line in golden["hard"].as_array().unwrap() {
        let text = line[0].as_str().unwrap();
        let framed = tokenizer.encode_framed(text).unwrap();
        if others.contains(&text) {
            assert_ne!(framed, ids(&line[1]), "{text:?} is no difference any more");
            continue;
        }
        if framed != ids(&line[1]) {
            wrong.push(format!("{text:?}: {framed:?}, not {}", line[1]));
        } else if tokenizer.encode(text).unwrap() != ids(&line[2]) {
            wrong.push(format!("{text:?} without a frame"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{name}: {} lines\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let Some(lines) = lines() else { return };
    let blocks = golden["blocks"].as_array().unwrap();
    for (number, (lines, block)) in lines.chunks(100).zip(blocks).enumerate() {
        let (mut digest, mut count) = (Sha256::new(), 0);
        for line in lines {
            let ids = tokenizer.encode_framed(line).unwrap();
            count += ids.len();
            ids.iter().for_each(|id| digest.update(id.to_le_bytes()));
        }
        let hex: String = digest
            .finalize()
            .iter()
            .take(8)
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(
            json!([hex, count]),
            *block,
            "{name}, lines {} on",
            100 * number
        );
    }
}

/// Reads the first 10,000 lines of WikiText-2's training text.
fn lines() -> Option<Vec<String>> {
    let file = std::fs::File::open(data("wikitext2/train.txt.gz")?).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    Some(text.split('\n').take(10_000).map(str::to_owned).collect())
}

const GPT2: [(&str, &str); 2] = [
    ("gpt2/encoder.json", "vocab.json"),
    ("gpt2/vocab.bpe", "merges.txt"),
];

#[test]
fn gpt2s_ids_are_those_of_transformers() {
    let Some(dir) = folder(&GPT2, &[]) else {
        return;
    };
    let found = read(dir.path());
    hold("gpt2", &found.tokenizer, &golden()["vocabularies"]["gpt2"]);
    assert_eq!(found.tokenizer.end_of_text(), Some(50256));
    assert_eq!((found.ignored.len(), found.notes.len()), (0, 0));
    // The same files under OpenAI's names.
    let files = [(GPT2[0].0, "encoder.json"), (GPT2[1].0, "vocab.bpe")];
    let Some(dir) = folder(&files, &[]) else {
        return;
    };
    let openai = read(dir.path()).tokenizer;
    assert_eq!(openai.fingerprint(), found.tokenizer.fingerprint());
}

#[test]
fn berts_ids_are_those_of_transformers() {
    for (name, lower) in [("bert_base_uncased", true), ("bert_base_cased", false)] {
        let vocab = format!("{name}/vocab.txt");
        let config = [(
            "tokenizer_config.json",
            json!({"do_lower_case": lower, "model_max_length": 512}),
        )];
        let Some(dir) = folder(&[(&vocab, "vocab.txt")], &config) else {
            return;
        };
        let found = read(dir.path());
        hold(name, &found.tokenizer, &golden()["vocabularies"][name]);
        assert_eq!(found.max_length, Some(512));
        let frame = found.tokenizer.frame().unwrap();
        assert_eq!([frame.begin, frame.end], [101, 102]);
    }
}

#[test]
fn t5s_ids_are_those_of_transformers() {
    let Some(dir) = folder(&[("t5/tokenizer.json", "tokenizer.json")], &[]) else {
        return;
    };
    let found = read(dir.path());
    hold("t5", &found.tokenizer, &golden()["vocabularies"]["t5"]);
    let kept = std::fs::read(dir.path().join("tokenizer.json")).unwrap();
    assert!(
        found.tokenizer.json() == kept,
        "a tokenizer.json is kept as it is"
    );
    // The same pieces as a SentencePiece model.
    let file: Value = serde_json::from_slice(&kept).unwrap();
    std::fs::remove_file(dir.path().join("tokenizer.json")).unwrap();
    std::fs::write(dir.path().join("spiece.model"), t5_model(&file)).unwrap();
    let found = read(dir.path());
    assert_eq!(found.files, ["spiece.model"]);
    hold(
        "t5_model",
        &found.tokenizer,
        &golden()["vocabularies"]["t5_model"],
    );
}

/// A length-delimited field of a protocol buffer.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut left = bytes.len();
    while left >= 128 {
        out.push(left as u8 | 128);
        left >>= 7;
    }
    out.push(left as u8);
    out.extend(bytes);
    out
}

fn piece(text: &str, score: f32, sort: u8) -> Vec<u8> {
    let score = [&[2 << 3 | 5][..], &score.to_le_bytes()].concat();
    field(
        1,
        &[field(1, text.as_bytes()), score, vec![3 << 3, sort]].concat(),
    )
}

/// Builds T5's SentencePiece model from its tokenizer.json.
fn t5_model(file: &Value) -> Vec<u8> {
    let mut model = Vec::new();
    for entry in file["model"]["vocab"].as_array().unwrap() {
        let (text, score) = (entry[0].as_str().unwrap(), entry[1].as_f64().unwrap());
        let sort = match text {
            "<pad>" | "</s>" => 3,
            "<unk>" => 2,
            text if text.starts_with("<extra_id_") => continue,
            _ => 1,
        };
        model.extend(piece(text, score as f32, sort));
    }
    let map = file["normalizer"]["normalizers"][0]["precompiled_charsmap"]
        .as_str()
        .unwrap();
    let map = base64(map);
    model.extend(field(3, &field(2, &map)));
    model
}

fn base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for c in text.bytes().take_while(|c| *c != b'=') {
        bits = bits << 6 | digits.iter().position(|d| *d == c).unwrap() as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

#[test]
fn sentencepiece_models_give_the_ids_of_transformers() {
    let golden = golden();
    for name in ["t5", "albert", "xlm_roberta", "llama", "deberta_v2"] {
        let found = read(&goldens().join("sentencepiece").join(name));
        hold(name, &found.tokenizer, &golden["small"][name]);
    }
    let llama = read(&goldens().join("sentencepiece/llama"));
    assert!(llama.ignored.is_empty() && llama.chat.is_some());
    assert_eq!(llama.max_length, None);
    let marks = llama.tokenizer.marks().unwrap();
    assert_eq!((marks.begin, marks.end), (1, 2));
}

/// Byte-level BPE with BERT's special tokens.
#[test]
fn deberta_s_ids_are_those_of_transformers() {
    let found = read(&goldens().join("sentencepiece/deberta"));
    hold("deberta", &found.tokenizer, &golden()["small"]["deberta"]);
    let marks = found.tokenizer.marks().unwrap();
    assert_eq!((marks.begin, marks.end), (1, 2));
    assert_eq!(found.tokenizer.mask(), Some(4));
}

/// Tokenizers of source and target written as Marian's files and read again give the same ids: Marian's own, and two that were
/// trained here, with different ids on each side.
#[test]
fn pairs_of_tokenizers_are_written_as_marian_s() {
    let trained = |text: &str| {
        let config: TokenizerConfig =
            serde_json::from_value(json!({"kind": "unigram", "vocab_size": 40})).unwrap();
        Tokenizer::build(&config, &[text]).unwrap()
    };
    let marian = read(&goldens().join("sentencepiece/marian"));
    let pairs = [
        (marian.tokenizer, marian.target.unwrap(), false),
        (
            trained("the cat sat on the mat\nand the dog sat on the log "),
            trained("le chat est sur le tapis\net le chien dort "),
            true,
        ),
    ];
    for (source, target, separate) in pairs {
        let dir = tempfile::tempdir().unwrap();
        let written = hf::write_pair(dir.path(), [&source, &target], ModelInputs::default());
        assert_eq!(written.unwrap(), Ok(()));
        assert_eq!(dir.path().join("target_vocab.json").exists(), separate);
        let again = read(dir.path());
        for (ours, again) in [(source, again.tokenizer), (target, again.target.unwrap())] {
            assert_eq!(ours.vocab_size(), again.vocab_size());
            for text in [
                "the cat",
                "le chien\nest là",
                "",
                "a day of 000 classes, historic",
            ] {
                let ids = ours.encode(text).unwrap();
                assert_eq!(again.encode(text).unwrap(), ids, "{text:?}");
            }
        }
    }
    // A model of characters cannot be written as a SentencePiece model: the reason is reported, and nothing is written.
    let chars: TokenizerConfig = serde_json::from_value(json!({"kind": "char"})).unwrap();
    let chars = Tokenizer::build(&chars, &["abc"]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let why = hf::write_pair(dir.path(), [&chars, &chars], ModelInputs::default());
    assert!(why.unwrap().unwrap_err().contains("not a unigram model"));
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
}

#[test]
fn marians_two_models_share_the_ids_of_its_vocabulary() {
    let golden = &golden()["small"]["marian"];
    let found = read(&goldens().join("sentencepiece/marian"));
    // Exceptions that `marian.rs` documents: written-out blanks, and language codes inside a text.
    let others = ["▁ underline ▁▁", "Hello >>fr<< there"];
    hold_all_but(&others, "marian", &found.tokenizer, golden);
    let target = found.target.unwrap();
    for line in golden["target"].as_array().unwrap() {
        let text = line[0].as_str().unwrap();
        if others.contains(&text) {
            continue;
        }
        assert_eq!(
            target.encode_framed(text).unwrap(),
            ids(&line[1]),
            "{text:?}"
        );
    }
}
