//! Pairs of a run that begins from another run: sources and targets get the frame of the tokenizer's file.

use super::pairs::{Folder, LINES, pair};
use formwork::data::{Data, Tokenizers};
use formwork::tokenizer::{TokenFraming, Tokenizer, TokenizerConfig};

/// The tokenizer of another run, from a file with this frame around texts.
fn other(around: TokenFraming) -> Tokenizers {
    let config = "kind = \"word\"\nspecial_tokens = [\"<s>\", \"<pad>\", \"</s>\", \"de_DE\"]";
    let config: TokenizerConfig = toml::from_str(config).unwrap();
    let tokenizer = Tokenizer::build(&config, &["one two eins zwei"]).unwrap();
    Tokenizers::single(tokenizer.with_framing(around).unwrap())
}

fn folder() -> Folder {
    Folder::with(&[("a.en", b"one two\n"), ("a.de", b"eins zwei\n")])
}

/// Returns the source and the target of the only pair, as tokens.
fn spelled(data: &Data) -> [String; 2] {
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let pair = pair(&data.train, 0);
    [&pair.source, &pair.target].map(|ids| {
        let tokens = ids.iter().map(|id| tokenizer.token(*id as u32).unwrap());
        tokens.collect::<Vec<_>>().join(" ")
    })
}

#[test]
fn they_stand_in_what_the_file_puts_around_a_text() {
    let folder = folder();
    let framed = other(TokenFraming::Frame);
    let data = folder.prepare_again(LINES, "", &framed).unwrap();
    assert_eq!(
        spelled(&data),
        ["<s> one two </s>", "<s> eins zwei </s>"].map(String::from)
    );
    assert!(data.shape.framed);
    let saved = data.tokenizers.text.unwrap();
    assert_eq!(saved.framing(), saved.frame());
    // If the file has no frame, or only an end token, texts get the end token.
    for around in [TokenFraming::NoTokens, TokenFraming::End] {
        let data = folder.prepare_again(LINES, "", &other(around)).unwrap();
        assert_eq!(
            spelled(&data),
            ["one two </s>", "<s> eins zwei </s>"].map(String::from)
        );
        assert!(!data.shape.framed);
        let saved = data.tokenizers.text.unwrap();
        let read = saved.encode_framed("one").unwrap();
        assert_eq!(saved.token(*read.last().unwrap()).unwrap(), "</s>");
        assert_eq!(read.len(), 2);
    }
}

#[test]
fn marks_are_named_of_the_other_runs_tokens() {
    let folder = folder();
    let framed = other(TokenFraming::Frame);
    let marks = |name: &str| format!("{LINES}\nmarks = {{ begin = \"{name}\" }}");
    let data = folder.prepare_again(&marks("de_DE"), "", &framed).unwrap();
    assert_eq!(
        spelled(&data),
        ["<s> one two </s>", "de_DE <s> eins zwei </s>"].map(String::from)
    );
    // All target tokens except the first are scored: nine bytes of text, four tokens.
    assert_eq!(data.bytes_per_token.train, Some(9.0 / 4.0));
    let (own, theirs) = (data.tokenizers.text.unwrap(), framed.text.as_ref().unwrap());
    assert!(own.encodes_like(theirs));
    assert_ne!(own.fingerprint(), theirs.fingerprint());
    let ended = other(TokenFraming::End);
    let data = folder.prepare_again(&marks("de_DE"), "", &ended).unwrap();
    assert_eq!(
        spelled(&data),
        ["one two </s>", "de_DE eins zwei </s>"].map(String::from)
    );
    let why = folder
        .prepare_again(&marks("de_D"), "", &framed)
        .err()
        .unwrap()
        .to_string();
    assert!(
        why.contains("\"de_D\" is not a token of the vocabulary; did you mean `de_DE`?"),
        "{why}"
    );
}
