//! Numbers too large for any machine are refused with their bound, before anything is built.

use super::{Case, all_say, judged_at};
use std::path::Path;

const CASES: &[Case] = &[
    Case {
        title: "a unigram vocabulary beyond all",
        edits: &[(
            r#"kind = "char""#,
            "kind = \"unigram\"\nvocab_size = 9223372036854775807",
        )],
        sets: &[],
        says: "x.toml:17: [tokenizer] vocab_size = 9223372036854775807 must be at most 4000000",
    },
    Case {
        title: "a WordPiece vocabulary beyond all",
        edits: &[(r#"kind = "char""#, r#"kind = "wordpiece""#)],
        sets: &["tokenizer.vocab_size=4000001"],
        says: "--set tokenizer.vocab_size=4000001: [tokenizer] vocab_size = 4000001 must be at most 4000000",
    },
    Case {
        title: "a BPE vocabulary beyond all",
        edits: &[(r#"kind = "char""#, "kind = \"bpe\"\nvocab_size = 4000001")],
        sets: &[],
        says: "x.toml:17: [tokenizer] vocab_size = 4000001 must be at most 4000000",
    },
];

#[test]
fn vocabularies() {
    all_say(CASES);
}

#[test]
fn widths_of_decoding() {
    let path = Path::new("experiments/translation/dates.toml");
    let text =
        std::fs::read_to_string(crate::binary::shipped("experiments/translation/dates.toml"));
    let text = text.unwrap();
    for (set, says) in [
        (
            "decode.search.beam=4097",
            "[decode.search] beam = 4097 is not between 1 and 4096",
        ),
        (
            "decode.batch_size=0",
            "[decode] batch_size = 0 is not between 1 and 4096",
        ),
    ] {
        let error = judged_at(path, &text, &[set.to_string()]).err().unwrap();
        assert_eq!(error.exit_status(), 2);
        assert_eq!(error.to_string(), format!("--set {set}: {says}"));
    }
    let most = ["decode.search.beam=4096".to_string()];
    assert!(judged_at(path, &text, &most).is_ok());
}
