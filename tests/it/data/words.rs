//! `[tokenizer] kind = "word"`: words by frequency, `<eos>` at the end of each line, `<unk>` for rare ones.

use super::{Folder, shared, tokenizer_config};
use formwork::data::SearchPath;
use formwork::tokenizer::Tokenizer;

const TEXT: &str = "the cat saw the dog .\nthe dog saw <unk>\n\nthe end .\n";

fn words(keys: &str) -> Tokenizer {
    let config = tokenizer_config(&format!("kind = \"word\"\n{keys}"));
    Tokenizer::build(&config, &[TEXT]).unwrap()
}

fn listed(tokenizer: &Tokenizer) -> Vec<String> {
    let ids = 0..tokenizer.vocab_size() as u32;
    ids.map(|id| tokenizer.token(id).unwrap()).collect()
}

#[test]
fn ids_go_by_frequency() {
    let all = words("");
    assert_eq!(
        listed(&all),
        ["<eos>", "the", ".", "dog", "saw", "<unk>", "cat", "end"]
    );
    // `<unk>` counts the words that are left out, and those that the text itself writes as `<unk>`.
    let frequent = words("min_count = 2");
    assert_eq!(
        listed(&frequent),
        ["<eos>", "the", "<unk>", ".", "dog", "saw"]
    );
    let few = words("vocab_size = 4");
    assert_eq!(listed(&few), ["<unk>", "<eos>", "the", "."]);
    let ended = words("end_of_text = \"<end>\"\nvocab_size = 5");
    assert_eq!(listed(&ended), ["<end>", "<unk>", "<eos>", "the", "."]);
    assert_eq!((all.end_of_text(), ended.end_of_text()), (None, Some(0)));
}

#[test]
fn lines_end_in_a_token_and_blanks_are_not_kept() {
    let tokenizer = words("min_count = 2");
    let ids = tokenizer.encode(" the  zebra\tsaw\r\n\n dog").unwrap();
    assert_eq!(ids, [1, 2, 5, 0, 0, 4]);
    assert_eq!(tokenizer.decode(&ids), "the <unk> saw\n\ndog");
    assert_eq!(tokenizer.decode(&[0, 1]), "\nthe");
    assert_eq!(
        tokenizer.decode(&tokenizer.encode(TEXT).unwrap()),
        TEXT.replace("cat", "<unk>").replace("end", "<unk>")
    );
    assert_eq!((tokenizer.bytes_of(0), tokenizer.bytes_of(4)), (1, 3));
    assert!(tokenizer.is_special(2) && !tokenizer.is_special(0));
    // A long text is encoded in pieces.
    let long = TEXT.repeat(100_000);
    let each = tokenizer.encode(TEXT).unwrap();
    let all = tokenizer.encode(&long).unwrap();
    assert_eq!(all.len(), 100_000 * each.len());
    assert!(all.chunks(each.len()).all(|ids| ids == each));
}

/// Any program that reads the format gets the same ids and texts.
#[test]
fn the_file_is_the_tokenizer() {
    let folder = Folder::new();
    let path = folder.dir.path().join("tokenizer.json");
    let tokenizer = words("end_of_text = \"<end>\"");
    tokenizer.save(&path).unwrap();
    let library = tokenizers::Tokenizer::from_file(&path).unwrap();
    for text in [TEXT, "", "\n", "a dog\n\n the<end>the <eos> x<unk>"] {
        let theirs = library.encode_fast(text, false).unwrap();
        assert_eq!(
            tokenizer.encode(text).unwrap(),
            theirs.get_ids(),
            "{text:?}"
        );
        assert_eq!(
            tokenizer.decode(theirs.get_ids()),
            library.decode(theirs.get_ids(), false).unwrap()
        );
    }
}

#[test]
fn keys_without_sense_are_faults() {
    for (keys, says) in [
        (
            "vocab_size = 2",
            "[tokenizer] vocab_size = 2 is too small: <eos>, <unk> and the special tokens are 2; remove it to keep every word of the training text",
        ),
        (
            "min_count = 0",
            "[tokenizer] min_count = 0 has no effect: every word of the vocabulary occurs at least once; remove it",
        ),
        (
            "min_count = 9",
            "no word of the training text occurs min_count = 9 times; lower [tokenizer] min_count",
        ),
    ] {
        let config = tokenizer_config(&format!("kind = \"word\"\n{keys}"));
        let error = Tokenizer::build(&config, &[TEXT]).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// Vocabulary and token counts of Merity et al. 2016, table 1, with one `<eos>` per line.
#[test]
fn wikitext_2_has_its_published_size() {
    if shared("wikitext2/train.txt").is_none() {
        return;
    }
    let folder = Folder::new();
    let places = SearchPath::with_folders(
        None,
        SearchPath::new(None).roots().to_vec(),
        folder.dir.path().into(),
    );
    let tokenizer = tokenizer_config("kind = \"word\"");
    let data = "kind = \"text\"\npath = \"wikitext2/train.txt\"\nvalid_path = \"wikitext2/valid.txt\"\n\
                test_path = \"wikitext2/test.txt\"";
    let data = super::prepared(data, Some(&tokenizer), &places, 7).unwrap();
    assert_eq!(data.shape.vocab_size, 33_278);
    let tokens = (data.tokens.train, data.tokens.valid, data.tokens.test);
    assert_eq!(tokens, (2_088_628, 217_646, 245_569));
    let words = data.tokenizers.text.as_ref().unwrap();
    let unknown = words.id("<unk>").unwrap();
    // The most frequent words are `the`, `,`, `.`, `of` and `<unk>`.
    assert!(unknown < 10, "{unknown}");
    // 10,797,148 bytes, of which the first line's two are not scored.
    let bytes = data.bytes_per_token.train.unwrap() * 2_088_627.0;
    assert!((bytes - 10_797_147.0).abs() < 1.5, "{bytes}");
}
