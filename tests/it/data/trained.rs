//! Training BPE, WordPiece and Unigram: the same text gives the same file, and the library's merges where it has such a
//! trainer.

use std::collections::BTreeSet;

use super::{prose, shared, tokenizer_config};
use formwork::tokenizer::Tokenizer;

const TRAINED: &[&str] = &[
    "kind = \"bpe\"\nvocab_size = 600",
    "kind = \"wordpiece\"\nvocab_size = 300",
    "kind = \"wordpiece\"\nvocab_size = 300\nlowercase = false\nmin_frequency = 1",
    "kind = \"unigram\"\nvocab_size = 300",
];

#[test]
fn the_same_text_gives_the_same_file() {
    // Many ties, and characters that occur only once.
    let text = prose(800) + "αβγδεζηθικλμνξο\nzyxwvutsrqponmlkjihgfedcba\nabab cdcd efef\n";
    let (first, second) = text.split_at(text.find('\n').unwrap() + 1);
    for config in TRAINED {
        let config = tokenizer_config(config);
        let once = Tokenizer::build(&config, &[&text]).unwrap();
        for _ in 0..3 {
            assert_eq!(
                Tokenizer::build(&config, &[&text]).unwrap().fingerprint(),
                once.fingerprint(),
                "{config:?}"
            );
        }
        // Counts are summed over documents.
        let parts = Tokenizer::build(&config, &[first, second]).unwrap();
        assert_eq!(parts.fingerprint(), once.fingerprint(), "{config:?}");
    }
}

#[test]
fn exact_kinds_give_the_text_back() {
    let text = prose(300);
    let odd = "  two  blanks\n\n\ttab é\u{301} böl ";
    for config in [TRAINED[0], TRAINED[3]] {
        let tokenizer = Tokenizer::build(&tokenizer_config(config), &[&text, odd]).unwrap();
        for text in [text.as_str(), odd, ""] {
            assert_eq!(
                tokenizer.decode(&tokenizer.encode(text).unwrap()),
                text,
                "{config}"
            );
        }
    }
}

#[test]
fn unseen_characters() {
    let text = prose(300);
    let tokenizer = |config| Tokenizer::build(&tokenizer_config(config), &[&text]).unwrap();
    let bpe = tokenizer(TRAINED[0]);
    assert_eq!(bpe.decode(&bpe.encode("日 ka").unwrap()), "日 ka");
    let wordpiece = tokenizer(TRAINED[1]);
    assert_eq!(
        wordpiece.encode("日").unwrap(),
        [wordpiece.id("[UNK]").unwrap()]
    );
    let unigram = tokenizer(TRAINED[3]);
    assert_eq!(
        unigram.encode("日").unwrap(),
        [unigram.id("<unk>").unwrap()]
    );
}

#[test]
fn sizes_are_kept_and_special_tokens_placed() {
    let text = prose(800);
    for config in TRAINED {
        let wanted = if config.contains("600") { 600 } else { 300 };
        let tokenizer = Tokenizer::build(&tokenizer_config(config), &[&text]).unwrap();
        assert!(
            tokenizer.vocab_size() <= wanted,
            "{config}: {}",
            tokenizer.vocab_size()
        );
        assert!(
            tokenizer.vocab_size() > wanted * 2 / 3,
            "{config}: {}",
            tokenizer.vocab_size()
        );
        assert!(tokenizer.end_of_text().is_some());
    }
    let bpe = Tokenizer::build(&tokenizer_config(TRAINED[0]), &[&text]).unwrap();
    assert_eq!(bpe.end_of_text(), Some(bpe.vocab_size() as u32 - 1));
    let wordpiece = Tokenizer::build(&tokenizer_config(TRAINED[1]), &[&text]).unwrap();
    assert_eq!(wordpiece.id("[MASK]"), Some(4));
    assert_eq!(wordpiece.encode_framed("ka").unwrap()[0], 2);
}

/// On a real text, the merges equal those of the `tokenizers` crate's own trainer.
#[test]
fn merges_equal_the_library_trainer() {
    use tokenizers::models::bpe::{BPE, BpeTrainer};
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    let text = match shared("tinyshakespeare/input.txt") {
        Some(path) => std::fs::read_to_string(path).unwrap()[..400_000].to_owned(),
        None => prose(5000),
    };
    let ours = tokenizer_config("kind = \"bpe\"\nvocab_size = 1001");
    let ours = Tokenizer::build(&ours, &[&text]).unwrap();
    let mut library = tokenizers::Tokenizer::new(BPE::default());
    library.with_pre_tokenizer(Some(ByteLevel::default().add_prefix_space(false)));
    let mut trainer = tokenizers::models::TrainerWrapper::BpeTrainer(
        BpeTrainer::builder()
            .vocab_size(1000)
            .min_frequency(2)
            .show_progress(false)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build(),
    );
    library
        .train(&mut trainer, [text.as_str()].into_iter())
        .unwrap();
    let theirs: BTreeSet<(u32, String)> = library
        .get_vocab(true)
        .into_iter()
        .map(|(t, i)| (i, t))
        .collect();
    let ours: BTreeSet<(u32, String)> = (0..1000).map(|i| (i, ours.token(i).unwrap())).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn faults_of_sizes() {
    let message = |config: &str| {
        let error = Tokenizer::build(&tokenizer_config(config), &[&prose(50)]).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        message("kind = \"bpe\"\nvocab_size = 100"),
        "[tokenizer] vocab_size = 100 is too small: 256 bytes and 1 special tokens need 257"
    );
    assert_eq!(
        message("kind = \"wordpiece\"\nvocab_size = 3"),
        "[tokenizer] vocab_size = 3 is too small: there are 5 special tokens"
    );
    assert!(message("kind = \"wordpiece\"\nvocab_size = 8").starts_with(
        "[tokenizer] vocab_size = 8 is too small: the characters of the training text and 5 special tokens need "
    ));
    assert!(message("kind = \"unigram\"\nvocab_size = 8").contains("special tokens need"));
    assert_eq!(
        message("kind = \"bpe\"\nend_of_text = \"\""),
        "[tokenizer] end_of_text = \"\" is not a token; name a token or remove the key"
    );
    assert_eq!(
        Tokenizer::build(&tokenizer_config("kind = \"unigram\""), &["", ""])
            .unwrap_err()
            .to_string(),
        "[data] path: the training text is empty: a unigram tokenizer has nothing to learn from"
    );
}

/// No blanks, a single character, only blanks, control characters: the result is a tokenizer or an error.
#[test]
fn odd_training_texts_never_panic() {
    let texts = [
        "a".repeat(20_000),
        "ab".repeat(5_000),
        " \n\t ".repeat(500),
        "\0\0\u{1}\u{7f}".repeat(50),
        "日本語".repeat(2_000),
        "👩‍👩‍👧‍👦".repeat(200),
        "x".into(),
        "\n".into(),
    ];
    for text in &texts {
        for config in TRAINED {
            if let Ok(tokenizer) = Tokenizer::build(&tokenizer_config(config), &[text]) {
                let ids = tokenizer.encode(text).unwrap();
                assert!(ids.iter().all(|id| (*id as usize) < tokenizer.vocab_size()));
                if !config.contains("wordpiece") {
                    assert!(
                        tokenizer.decode(&ids) == *text,
                        "{config}: {:?}",
                        text.get(..8)
                    );
                }
            }
        }
    }
}
