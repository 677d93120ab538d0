//! Messages about faults in data.

use super::{Folder, gzip, prepared, tokenizer_config};
use formwork::data::files::packed;
use formwork::tokenizer::Tokenizer;

const CHAR: &str = "kind = \"char\"";

fn message(folder: &Folder, data: &str, tokenizer: &str) -> String {
    let error = folder
        .prepare(data, tokenizer)
        .err()
        .expect("this configuration is wrong");
    error
        .to_string()
        .replace(&folder.dir.path().display().to_string(), "DIR")
}

fn text(rest: &str) -> String {
    format!("kind = \"text\"\npath = \"t.txt\"\n{rest}")
}

#[test]
fn faults_of_sense() {
    let folder = Folder::with(&[("t.txt", b"some text to read from")]);
    for (data, expected) in [
        (
            "kind = \"text\"".into(),
            "[data] `path` is missing; name a file or folder of text, or a list of them",
        ),
        (
            text("valid_path = []"),
            "[data] `valid_path` is empty; remove it or name a file",
        ),
        (text("context = 0"), "[data] context = 0 must be at least 1"),
        (
            text("valid_fraction = 1.5"),
            "[data] valid_fraction must be at least 0 and below 1\n[data] valid_fraction and \
          test_fraction leave nothing to train on",
        ),
        (
            text("test_fraction = 0.95"),
            "[data] valid_fraction and test_fraction leave nothing to train on",
        ),
        (
            text("valid_path = \"t.txt\"\nvalid_fraction = 0.1"),
            "[data] valid_fraction has no effect beside valid_path; remove one of them",
        ),
        (
            text("across_documents = false"),
            "[data] across_documents = false needs windows = \"documents\"",
        ),
        (
            text("field = \"x\"\ndocument_separator = \"y\""),
            "[data] `field` is for JSON lines, but `document_separator` is for plain text; remove one of them",
        ),
        (
            text("document_separator = \"\""),
            "[data] document_separator is empty; use \"\\n\\n\" to separate at blank lines",
        ),
        (
            "kind = \"arithmetic\"\ndigits = 0".into(),
            "[data] digits = 0 must be between 1 and 9",
        ),
        (
            "kind = \"arithmetic\"\noperations = [\"/\"]".into(),
            "[data] operations contains `/`; allowed: `+`, `-`, `*`",
        ),
        (
            "kind = \"arithmetic\"\noperations = []".into(),
            "[data] operations is empty; allowed: `+`, `-`, `*`",
        ),
        (
            "kind = \"copy\"\nheld_out = 0.6\ntest_items = 5".into(),
            "[data] held_out = 0.6 must be above 0 and leave problems to train on",
        ),
        (
            "kind = \"sort\"\nsymbols = 100".into(),
            "[data] symbols = 100 must be between 2 and 62",
        ),
        (
            "kind = \"reverse\"\nmin_length = 20".into(),
            "[data] min_length must be at most length = 12",
        ),
        (
            "kind = \"random_tokens\"\nvocab_size = 0".into(),
            "[data] vocab_size = 0 must be between 1 and 2147483647",
        ),
        (
            "kind = \"copy\"\nlength = 1\nsymbols = 2\nheld_out = 0.000001".into(),
            "[data] there are too few different problems to hold some out for the valid split; make them longer, or set \
             valid_items = 0",
        ),
    ] {
        let data: String = data;
        assert_eq!(message(&folder, &data, CHAR), expected, "{data}");
    }
    let none = prepared(&text(""), None, &folder.places(), 1)
        .err()
        .unwrap();
    assert_eq!(
        none.to_string(),
        "[data] kind = \"text\" needs a [tokenizer]; the simplest is kind = \"char\""
    );
    assert_eq!(none.exit_status(), 2);
    assert_eq!(
        message(&folder, "kind = \"arithmetic\"", "kind = \"byte\""),
        "[tokenizer] kind = \"byte\" has no effect: arithmetic has its own alphabet; remove [tokenizer]"
    );
    assert_eq!(
        message(
            &folder,
            "kind = \"copy\"",
            "kind = \"char\"\nunknown = \"?!\""
        ),
        "[tokenizer] kind = \"char\" has no effect: copy has its own alphabet; remove [tokenizer]"
    );
}

#[test]
fn unknown_keys() {
    let error =
        toml::from_str::<formwork::data::DataConfig>("kind = \"text\"\npaht = \"x\"").unwrap_err();
    assert!(
        error.to_string().contains("unknown field `paht`"),
        "{error}"
    );
    let error =
        toml::from_str::<formwork::data::DataConfig>("kind = \"copy\"\nlenght = 3").unwrap_err();
    assert!(
        error.to_string().contains("unknown field `lenght`"),
        "{error}"
    );
    let error =
        toml::from_str::<formwork::data::DataConfig>("kind = \"text\"\npath = 3").unwrap_err();
    assert!(
        error.to_string().contains("a path or a list of paths"),
        "{error}"
    );
}

#[test]
fn files_that_are_missing_or_wrong() {
    let mut cut = gzip(super::prose(50).as_bytes());
    cut.truncate(100);
    // A mebibyte of blanks compresses to a kilobyte; concatenated gzip members are one file.
    let blanks = gzip(&vec![b' '; 1 << 20]);
    let (bomb, fine) = (blanks.repeat(65), blanks.repeat(3));
    let folder = Folder::with(&[
        ("t.txt", b"abc"),
        ("bomb.txt.gz", &bomb),
        ("fine.txt.gz", &fine),
        ("empty.txt", b""),
        ("wide.txt", b"a\0 \0t\0a\0l\0e\0"),
        ("latin1.txt", b"caf\xe9 and more text"),
        (
            "latin1.jsonl",
            b"{\"text\": \"a\"}\n\n{\"text\": \"caf\xe9\"}\n",
        ),
        ("cut.txt.gz", &cut),
        ("bad.jsonl", b"{\"text\": \"a\"}\n{\"text\": "),
        ("keys.jsonl", b"{\"txt\": \"a\", \"n\": 1}"),
        ("number.jsonl", b"{\"text\": 3}"),
        ("list.jsonl", b"[1]"),
    ]);
    std::fs::create_dir(folder.dir.path().join("nothing")).unwrap();
    let of = |path: &str, rest: &str| {
        message(
            &folder,
            &format!("kind = \"text\"\npath = {path:?}\n{rest}"),
            CHAR,
        )
    };
    assert_eq!(
        of("no.txt", ""),
        "[data] no file or folder `no.txt`; looked in DIR, DIR/data"
    );
    assert_eq!(
        of("tinyshakespeare/input.txt", ""),
        "[data] no file or folder `tinyshakespeare/input.txt`; looked in DIR, DIR/data; fetch it with: formwork data \
         pull tinyshakespeare"
    );
    assert_eq!(
        of("tinyshakespear/input.txt", ""),
        "[data] no file or folder `tinyshakespear/input.txt`; looked in DIR, DIR/data; did you mean the data set \
         `tinyshakespeare`?"
    );
    assert_eq!(
        of("nothing", ""),
        "[data] no file is in the folder DIR/nothing"
    );
    assert_eq!(
        of("empty.txt", ""),
        "[data] path: the training text is empty: a char tokenizer has nothing to learn from"
    );
    assert_eq!(
        of("t.txt", "context = 4\nvalid_fraction = 0.0"),
        "[data] the train split has 3 token(s), and context = 4 needs at least 5; use more text, a larger fraction or a \
         smaller context"
    );
    assert_eq!(
        of("latin1.txt", ""),
        "DIR/latin1.txt is not UTF-8 (byte 3 of its text); convert it, or use [tokenizer] kind = \"byte\""
    );
    assert_eq!(
        of("wide.txt", ""),
        "DIR/wide.txt contains NUL bytes and looks like UTF-16; save it as UTF-8"
    );
    // Byte tokens are no remedy for JSON, which is UTF-8.
    for tokenizer in [CHAR, "kind = \"byte\""] {
        let data = "kind = \"text\"\npath = \"latin1.jsonl\"";
        assert_eq!(
            message(&folder, data, tokenizer),
            "DIR/latin1.jsonl:3: the line is not UTF-8 (byte 13 of it); convert the file"
        );
    }
    assert!(of("cut.txt.gz", "").starts_with("DIR/cut.txt.gz is a damaged gzip file: "));
    assert_eq!(
        of("bomb.txt.gz", ""),
        format!(
            "DIR/bomb.txt.gz has {} bytes but unpacks to more than 67108864, which is unlikely for data; if it is correct, \
             unpack it manually",
            bomb.len()
        )
    );
    let blanks = packed::content(&folder.dir.path().join("fine.txt.gz")).unwrap();
    assert_eq!(blanks.len(), 3 << 20);
    assert!(of("bad.jsonl", "").starts_with("DIR/bad.jsonl:2: not JSON: "));
    assert_eq!(
        of("keys.jsonl", ""),
        "DIR/keys.jsonl:1: no field `text`; did you mean `txt`?; set [data] field"
    );
    assert_eq!(
        of("number.jsonl", ""),
        "DIR/number.jsonl:1: `text` is neither a string nor a list of strings"
    );
    assert_eq!(of("list.jsonl", ""), "DIR/list.jsonl:1: not a JSON object");
    assert_eq!(
        of("t.txt", "windows = \"documents\"\nvalid_fraction = 0.0"),
        "[data] windows = \"documents\" needs a token between documents; set [tokenizer] end_of_text = \"<|endoftext|>\""
    );
    assert_eq!(
        of("t.txt", "windows = \"documents\""),
        "[data] 1 document(s) cannot be split by fractions; create more documents with `document_separator`, JSONL or a folder, or set valid_path"
    );
}

/// A tokenizer file of three words, one of which has this id.
fn with_id(id: u32) -> Vec<u8> {
    let file = serde_json::json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "b": id}, "unk_token": "<unk>"},
    });
    serde_json::to_vec(&file).unwrap()
}

#[test]
fn tokenizer_files_that_are_wrong() {
    let folder = Folder::with(&[
        ("t.txt", b"some text to read from"),
        ("t.json", b"{\"model\": 3}"),
        ("cut.json", b"{\"model\": "),
        ("far.json", &with_id(4_294_967_294)),
        ("near.json", &with_id(60_000)),
        ("vocab.txt", b"a\nb\na\n"),
        ("other/vocab.txt", b"a\nb\n"),
    ]);
    std::fs::create_dir(folder.dir.path().join("nothing")).unwrap();
    let of = |path: &str| {
        message(
            &folder,
            &text(""),
            &format!("kind = \"pretrained\"\npath = {path:?}"),
        )
    };
    assert!(of("t.json").starts_with("DIR/t.json is not a tokenizer: "));
    assert!(of("cut.json").starts_with("DIR/cut.json is not a tokenizer: "));
    assert_eq!(
        of("far.json"),
        "DIR/far.json is not a tokenizer: the token `b` has the id 4294967294, but there are 3 tokens; ids must be below 65542, without large gaps"
    );
    let near = Tokenizer::load(&folder.dir.path().join("near.json")).unwrap();
    assert_eq!(near.vocab_size(), 60_001);
    assert_eq!(
        of("vocab.txt"),
        "DIR/vocab.txt:3: the token `a` occurs twice"
    );
    assert_eq!(
        of("other"),
        "DIR/other/vocab.txt is not a WordPiece vocabulary: it has no [UNK]"
    );
    assert_eq!(
        of("nothing"),
        "[tokenizer] DIR/nothing has none of tokenizer.json, vocab.json + merges.txt, encoder.json + vocab.bpe, \
         vocab.txt, spiece.model, tokenizer.model, spm.model, sentencepiece.bpe.model"
    );
    assert_eq!(
        of(""),
        "[tokenizer] kind = \"pretrained\" needs `path`: a tokenizer.json or its folder"
    );
    let faults =
        tokenizer_config("kind = \"byte\"\nend_of_text = \"x\"\nspecial_tokens = [\"x\"]").faults();
    assert_eq!(faults, ["[tokenizer] the special token `x` is given twice"]);
}
