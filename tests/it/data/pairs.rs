//! Parallel text: readers, splits, filters and vocabularies, on tiny files.

use std::collections::BTreeSet;
use std::sync::Arc;

use formwork::data::{
    Data, DataConfig, ExampleForm, Item, PairItem, Request, SearchPath, Source, Split, Tokenizers,
    View, prepare,
};
use formwork::error::Result;
use formwork::tokenizer::{Tokenizer, TokenizerConfig};

/// Files in a temporary folder.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn with(files: &[(&str, &[u8])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        Self(dir)
    }

    fn places(&self) -> SearchPath {
        let real = SearchPath::new(None).roots().to_vec();
        SearchPath::with_folders(Some(self.0.path()), real, self.0.path().join("cache"))
    }

    pub(super) fn prepare(&self, data: &str, tokenizer: &str) -> Result<Data> {
        self.prepare_again(data, tokenizer, &Tokenizers::default())
    }

    pub(super) fn prepare_again(
        &self,
        data: &str,
        tokenizer: &str,
        saved: &Tokenizers,
    ) -> Result<Data> {
        let data: DataConfig = toml::from_str(data).unwrap();
        let tokenizer: Option<TokenizerConfig> =
            (!tokenizer.is_empty()).then(|| toml::from_str(tokenizer).unwrap());
        let request = Request {
            run_shape: None,
            tokenizer: tokenizer.as_ref(),
            saved_tokenizers: saved,
            places: &self.places(),
            seed: 7,
            view: &View::default(),
            compares_answers: false,
            retrieval: None,
        };
        prepare(&data, &request)
    }

    pub(super) fn refused(&self, data: &str, tokenizer: &str) -> String {
        match self.prepare(data, tokenizer) {
            Ok(_) => panic!("not refused: {data}"),
            Err(e) => e.to_string(),
        }
    }
}

pub(super) const CHAR: &str = "kind = \"char\"";

pub(super) fn pair(source: &Arc<dyn Source>, sample: u64) -> PairItem {
    match source.get(sample, sample).unwrap() {
        Item::Pair(pair) => pair,
        other => panic!("{other:?} is no pair"),
    }
}

/// Returns all pairs as texts without special tokens.
pub(super) fn texts(data: &Data, source: &Arc<dyn Source>) -> Vec<(String, String)> {
    let text = |tokenizer: Option<&Tokenizer>, ids: &[i32]| {
        let ids: Vec<u32> = ids.iter().map(|id| *id as u32).collect();
        tokenizer.unwrap().decode_text(&ids)
    };
    (0..source.len() as u64)
        .map(|sample| {
            let pair = pair(source, sample);
            (
                text(data.tokenizers.text.as_ref(), &pair.source),
                text(data.tokenizers.target_tokenizer(), &pair.target),
            )
        })
        .collect()
}

pub(super) fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let each = pairs.iter();
    each.map(|(s, t)| ((*s).to_owned(), (*t).to_owned()))
        .collect()
}

pub(super) const LINES: &str =
    "kind = \"pairs\"\nsource = \"a.en\"\ntarget = \"a.de\"\nvalid_fraction = 0.0";
pub(super) const TABLE: &str = "kind = \"pairs\"\nvalid_fraction = 0.0\n";

#[test]
fn aligned_lines_plain_or_gzipped_one_file_or_several() {
    let zipped = super::gzip("vier\n".as_bytes());
    let folder = Folder::with(&[
        ("a.en", "\u{FEFF}one\u{2028}x \ntwo\r\nthree".as_bytes()),
        ("a.de", "eins\nzwei\n drei\n".as_bytes()),
        ("b.en", b"four\n"),
        ("b.de.gz", &zipped),
    ]);
    let data = folder.prepare(LINES, CHAR).unwrap();
    let expected = owned(&[("one\u{2028}x", "eins"), ("two", "zwei"), ("three", "drei")]);
    assert_eq!(texts(&data, &data.train), expected);
    assert!(data.valid.is_none() && data.test.is_none() && data.pairs.train.is_none());
    let several = "kind = \"pairs\"\nsource = [\"a.en\", \"b.en\"]\ntarget = [\"a.de\", \"b.de\"]\n\
                   valid_source = \"b.en\"\nvalid_target = \"b.de.gz\"";
    let data = folder.prepare(several, CHAR).unwrap();
    assert_eq!(data.train.len(), 4);
    let valid = data.valid.as_ref().unwrap();
    assert_eq!(texts(&data, valid), owned(&[("four", "vier")]));
    assert_eq!(valid.split(), Split::Valid);
    let held_out = data.pairs.valid.as_ref().unwrap();
    assert_eq!(held_out.sources, ["four"]);
    assert_eq!(held_out.references, [["vier"]]);
    assert_eq!((data.left_out, data.shape.context), (0, 256));
}

#[test]
fn tables() {
    let json = br#"{"source": ["One.", "Two."], "target": ["first ", "second"], "id": 3}

{"source": "three", "target": "third"}
"#;
    let folder = Folder::with(&[
        ("t.tsv", b"a b\tA B\t\nc\tC\n"),
        ("3.tsv", b"a b\tA B\tx\nc\tC\ty\n"),
        ("h.tsv", b"label\tquestion\tanswer\n0\twhy\tbecause\n"),
        ("t.jsonl", json),
    ]);
    let read = |keys: &str| {
        let data = folder.prepare(&format!("{TABLE}{keys}"), CHAR).unwrap();
        texts(&data, &data.train)
    };
    let first_two = owned(&[("a b", "A B"), ("c", "C")]);
    assert_eq!(read("path = \"t.tsv\""), first_two);
    let named = "path = \"3.tsv\"\nsource_field = 2\ntarget_field = 3";
    assert_eq!(read(named), owned(&[("A B", "x"), ("C", "y")]));
    let named = "path = \"h.tsv\"\nsource_field = \"question\"\ntarget_field = \"answer\"";
    assert_eq!(read(named), owned(&[("why", "because")]));
    let first = owned(&[("One. Two.", "first"), ("three", "third")]);
    assert_eq!(read("path = \"t.jsonl\""), first);
    let all = owned(&[
        ("One. Two.", "first"),
        ("One. Two.", "second"),
        ("three", "third"),
    ]);
    assert_eq!(read("path = \"t.jsonl\"\nall_references = true"), all);
    // In evaluation, a source is one example with all its references.
    let keys = "path = \"t.jsonl\"\nvalid_path = \"t.jsonl\"\nall_references = true";
    let data = folder.prepare(&format!("{TABLE}{keys}"), CHAR).unwrap();
    assert_eq!(texts(&data, data.valid.as_ref().unwrap()), first);
    let held_out = data.pairs.valid.unwrap();
    assert_eq!(held_out.references[0], ["first", "second"]);
}

/// As in the translation data of transformers' scripts: each line has an object keyed by language.
#[test]
fn fields_may_lie_inside_of_others() {
    let lines = br#"{"translation": {"en": "one", "de": "eins"}}
{"translation": {"en": "two", "de": ["zwei", "zwo"]}, "id": 1}
{"translation.en": "three", "translation.de": "drei"}
"#;
    let folder = Folder::with(&[("t.jsonl", lines)]);
    let keys = format!("{TABLE}path = \"t.jsonl\"\nsource_field = \"translation.en\"\n");
    let both = format!("{keys}target_field = \"translation.de\"");
    let data = folder.prepare(&both, CHAR).unwrap();
    let expected = owned(&[("one", "eins"), ("two", "zwei"), ("three", "drei")]);
    assert_eq!(texts(&data, &data.train), expected);
    let why = folder.refused(&format!("{keys}target_field = \"translation.fr\""), CHAR);
    let told = "t.jsonl:1: no field `translation.fr`; did you mean `translation.";
    assert!(why.contains(told), "{why}");
    let why = folder.refused(&keys, CHAR);
    assert!(why.contains("no field `target`"), "{why}");
    assert!(
        why.contains("allowed: `translation.en`, `translation.de`"),
        "{why}"
    );
}

#[test]
fn what_cannot_be_read_is_said_with_its_place() {
    let folder = Folder::with(&[
        ("a.en", b"1\n2\n3\n"),
        ("a.de", b"1\n2\n"),
        ("t.tsv", b"a\tb\nc\n"),
        ("t.jsonl", br#"{"source": "a", "tgt": "b"}"#),
        ("e.jsonl", br#"{"source": "a", "target": []}"#),
        ("bad.en", b"\xFF\n"),
        ("t.xml", b"a,b\n"),
    ]);
    let why = folder.refused(LINES, CHAR);
    assert!(
        why.contains("a.en has 3 lines") && why.contains("a.de has 2"),
        "{why}"
    );
    for (keys, expected) in [
        ("path = \"t.tsv\"", "t.tsv:2: the line has 1 column(s)"),
        (
            "path = \"t.tsv\"\nsource_field = \"q\"",
            "has no column `q`",
        ),
        ("path = \"t.jsonl\"", "t.jsonl:1: no field `target`"),
        ("path = \"e.jsonl\"", "`target` is an empty list"),
        ("path = \"t.xml\"", "must end in .tsv, .txt, .csv"),
        (
            "source = \"bad.en\"\ntarget = \"a.de\"",
            "bad.en:1: the line is not UTF-8",
        ),
        ("source = \"a.en\"", "1 file(s), but target names 0"),
        ("", "needs `source` and `target`"),
        (
            "path = \"t.tsv\"\nsource = \"a.en\"\ntarget = \"a.de\"",
            "both name files; remove one of them",
        ),
        (
            "path = \"t.tsv\"\nsource_field = 2\ntarget_field = 2",
            "source_field and target_field are both 2: every text would be its own target",
        ),
        (
            "path = \"t.tsv\"\ntarget_field = 1",
            "source_field and target_field are both 1",
        ),
        (
            "path = \"t.jsonl\"\ntarget_field = \"source\"",
            "source_field and target_field are both source",
        ),
        ("path = \"t.tsv\"\nmax_len = 2", "max_len = 2"),
        ("path = \"t.tsv\"\nmax_ratio = 0.5", "max_ratio = 0.5"),
        (
            "source = \"a.en\"\ntarget = \"a.en\"\nsource_field = 1",
            "no effect",
        ),
        (
            "source = \"no.en\"\ntarget = \"a.de\"",
            "no file or folder `no.en`",
        ),
    ] {
        let why = folder.refused(&format!("{TABLE}{keys}"), CHAR);
        assert!(why.contains(expected), "{keys}: {why}");
    }
    let why = folder.refused(&format!("{TABLE}path = \"t.tsv\""), "");
    assert!(why.contains("needs a [tokenizer]"), "{why}");
    let keys = "source = \"a.en\"\ntarget = \"a.en\"\nseparate_vocabularies = true";
    let why = folder.refused(&format!("{TABLE}{keys}"), "kind = \"byte\"");
    assert!(why.contains("separate_vocabularies has no effect"), "{why}");
}

#[test]
fn marks_lengths_and_filters() {
    let files: &[(&str, &[u8])] = &[
        ("a.en", b"ab\nabcdefgh\n\nabcde\nabcdef\n"),
        ("a.de", b"xy\nx\ny\nxyzw\nxyzxy\n"),
    ];
    let folder = Folder::with(files);
    let with = |keys: &str| folder.prepare(&format!("{LINES}\n{keys}"), CHAR).unwrap();
    let data = with("max_len = 6");
    // ab+1 and xy+2 fit; abcdefgh does not; an empty source is always left out; xyzw+2 just fits, abcdef+1 does not.
    assert_eq!(
        texts(&data, &data.train),
        owned(&[("ab", "xy"), ("abcde", "xyzw")])
    );
    assert_eq!(data.left_out, 3);
    let marks = data.tokenizers.text.as_ref().unwrap().marks().unwrap();
    let first = pair(&data.train, 0);
    assert_eq!(first.source.last(), Some(&(marks.end as i32)));
    assert_eq!(first.target[0], marks.begin as i32);
    assert_eq!(first.target[3], marks.end as i32);
    assert_eq!((first.source.len(), first.target.len()), (3, 4));
    assert_eq!((data.train.size(0), data.train.size(1)), (4, 6));
    assert_eq!(data.tokens.train, 3 + 4 + 6 + 6);
    // Cut texts: a source keeps its end token, a target gets none.
    let data = with("max_len = 6\ntruncate = true");
    let cut = pair(&data.train, 3);
    assert_eq!((cut.source.len(), cut.target.len()), (6, 6));
    assert_eq!(cut.source[5], marks.end as i32);
    assert_ne!(cut.target[5], marks.end as i32);
    assert_eq!(data.left_out, 1);
    // Of the four pairs with two sides, the second has a ratio of 8 to 1.
    let data = with("max_ratio = 1.5");
    assert_eq!((data.train.len(), data.left_out), (3, 2));
    let files = "valid_source = \"a.en\"\nvalid_target = \"a.de\"\nmax_len = 6";
    let data = with(files);
    let valid = data.valid.unwrap();
    assert_eq!((valid.len(), valid.size(1)), (5, 6));
    assert_eq!(data.pairs.valid.unwrap().sources[1], "abcdefgh");
    let why = folder.refused(&format!("{LINES}\nmax_len = 3"), CHAR);
    assert!(why.contains("none of the 5 pair(s)"), "{why}");
}

#[test]
fn fractions_are_the_same_for_every_seed_and_miss_nothing() {
    let lines: String = (0..100).map(|i| format!("line {i}\n")).collect();
    let folder = Folder::with(&[("a.en", lines.as_bytes()), ("a.de", lines.as_bytes())]);
    let keys = "kind = \"pairs\"\nsource = \"a.en\"\ntarget = \"a.de\"\ntest_fraction = 0.1";
    let data = folder.prepare(keys, CHAR).unwrap();
    let (valid, test) = (data.valid.as_ref().unwrap(), data.test.as_ref().unwrap());
    assert_eq!((data.train.len(), valid.len(), test.len()), (85, 5, 10));
    let mut all = BTreeSet::new();
    for source in [&data.train, valid, test] {
        all.extend(texts(&data, source));
    }
    assert_eq!(all.len(), 100);
    let held_out: Vec<String> = texts(&data, valid).into_iter().map(|p| p.0).collect();
    assert_eq!(data.pairs.valid.as_ref().unwrap().sources, held_out);
}

#[test]
fn vocabularies_joint_and_separate() {
    let folder = Folder::with(&[("a.en", b"abc\ncab\n"), ("a.de", b"xyzw\nwzyx\n")]);
    let joint = folder.prepare(LINES, CHAR).unwrap();
    // Seven letters and four special tokens.
    assert_eq!(joint.shape.vocab_size, 11);
    assert_eq!(joint.shape.source_vocab_size, None);
    let keys = format!("{LINES}\nseparate_vocabularies = true");
    let data = folder.prepare(&keys, CHAR).unwrap();
    assert_eq!(data.shape.vocab_size, 8);
    assert_eq!(data.shape.source_vocab_size, Some(7));
    assert_eq!(
        texts(&data, &data.train),
        owned(&[("abc", "xyzw"), ("cab", "wzyx")])
    );
    // A run that continues brings its tokenizers and needs no tokenizer config.
    let again = folder.prepare_again(&keys, "", &data.tokenizers).unwrap();
    assert_eq!(texts(&again, &again.train), texts(&data, &data.train));
    let why = folder
        .prepare_again(&keys, "", &joint.tokenizers)
        .err()
        .unwrap();
    assert!(why.to_string().contains("separate_vocabularies"), "{why}");
}

#[test]
fn the_kinds_say_that_they_give_pairs() {
    for kind in ["pairs", "dates", "number_words", "random_pairs"] {
        let config: DataConfig = toml::from_str(&format!("kind = \"{kind}\"")).unwrap();
        assert_eq!(
            (config.kind(), config.data_set().example_form()),
            (kind, ExampleForm::Pairs)
        );
    }
}
