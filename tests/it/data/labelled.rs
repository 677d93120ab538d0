//! Labelled texts: tables of every form, classes, fractions, real sets, and faults.

use super::masked::{text, viewed};
use super::{Folder, gzip, shared};
use formwork::data::{Data, Split, View};
use formwork::error::Result;

const CHARS: &str = "kind = \"char\"";
const WORDPIECE: &str = "kind = \"wordpiece\"\nvocab_size = 600";

fn labelled(folder: &Folder, keys: &str, tokenizer: &str) -> Result<Data> {
    let data = format!("kind = \"labelled_text\"\n{keys}");
    viewed(&folder.places(), &data, Some(tokenizer), &View::Plain, 7)
}

/// Returns the texts and classes of a split.
pub fn rows(data: &Data, split: Split) -> Vec<(String, String)> {
    let source = data.source(split).unwrap();
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    (0..source.len() as u64)
        .map(|sample| {
            let item = text(source.as_ref(), sample, 0);
            assert!(item.targets.is_empty());
            assert_eq!(source.size(sample), item.inputs.len());
            let ids: Vec<u32> = item.inputs.iter().map(|id| *id as u32).collect();
            let class = data.shape.classes[item.label.unwrap() as usize].clone();
            (tokenizer.decode(&ids), class)
        })
        .collect()
}

#[test]
fn tables_of_every_form() {
    let folder = Folder::with(&[
        ("a.tsv", b"\xEF\xBB\xBFgood \"one\"\t1\nbad\t0\n"),
        ("b.csv", b"label,words\r\n1,\"good \"\"one\"\"\"\r\n0,bad\r\n"),
        ("c.jsonl", b"{\"text\": \"good \\\"one\\\"\", \"label\": 1}\n\n{\"label\": \"0\", \"text\": \"bad\"}\n"),
        ("d.tsv.gz", &gzip(b"good \"one\"\t1\nbad\t0\n")),
    ]);
    let expected = [("good \"one\"", "1"), ("bad", "0")].map(|(a, b)| (a.into(), b.into()));
    for keys in [
        "path = \"a.tsv\"",
        "path = \"b.csv\"\nheader = true\ntext = \"words\"\nlabel = \"label\"",
        "path = \"b.csv\"\nheader = true\ntext = 2\nlabel = 1",
        "path = \"c.jsonl\"",
        "path = \"d.tsv.gz\"",
    ] {
        let data = labelled(&folder, &format!("{keys}\nvalid_fraction = 0.0"), CHARS).unwrap();
        assert_eq!(rows(&data, Split::Train), expected, "{keys}");
        assert_eq!(data.shape.classes, ["0", "1"]);
        assert!(data.valid.is_none());
    }
}

#[test]
fn names_of_classes() {
    let folder = Folder::with(&[("a.tsv", b"x\t10\ny\t9\n"), ("b.tsv", b"x\tno\ny\tyes\n")]);
    let read = |keys: &str| {
        let keys = format!("{keys}\nvalid_fraction = 0.0");
        let data = labelled(&folder, &keys, CHARS).unwrap();
        rows(&data, Split::Train)
            .into_iter()
            .map(|(_, class)| class)
            .collect::<Vec<_>>()
    };
    // Numbers stand for the names in ascending order; names stand for themselves.
    assert_eq!(
        read("path = \"a.tsv\"\nclasses = [\"low\", \"high\"]"),
        ["high", "low"]
    );
    assert_eq!(
        read("path = \"b.tsv\"\nclasses = [\"yes\", \"no\", \"maybe\"]"),
        ["no", "yes"]
    );
}

#[test]
fn pairs_are_framed_and_the_longer_text_is_cut() {
    let folder = Folder::with(&[("a.tsv", b"0\tabcdefgh\txyz\n1\tab\tvwxyz\n")]);
    let keys =
        "path = \"a.tsv\"\ntext = 2\npair = 3\nlabel = 1\ncontext = 10\nvalid_fraction = 0.0";
    let data = labelled(&folder, keys, CHARS).unwrap();
    let expected = [
        ("[CLS]abcd[SEP]xyz[SEP]", "0"),
        ("[CLS]ab[SEP]vwxyz[SEP]", "1"),
    ]
    .map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()));
    assert_eq!(rows(&data, Split::Train), expected);
    assert_eq!(data.cut.train, 1);
    let item = text(data.train.as_ref(), 0, 0);
    assert_eq!(item.segments.unwrap(), [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
    // BPE gets RoBERTa's frame; single texts of characters get none.
    let keys = "path = \"a.tsv\"\ntext = 2\nlabel = 1\ncontext = 5\nvalid_fraction = 0.0";
    let data = labelled(&folder, keys, "kind = \"bpe\"\nvocab_size = 260").unwrap();
    assert_eq!(rows(&data, Split::Train)[0].0, "<s>abc</s>");
    let data = labelled(&folder, keys, CHARS).unwrap();
    assert_eq!(rows(&data, Split::Train)[0].0, "abcde");
    assert_eq!((data.cut.train, data.cut.valid), (1, 0));
    let data = labelled(&folder, &keys.replace("= 5", "= 8"), CHARS).unwrap();
    assert_eq!(data.cut.train, 0);
}

#[test]
fn fractions_are_random_rows_and_always_the_same() {
    let table: String = (0..200)
        .map(|i| format!("text {i:03}\t{}\n", i / 100))
        .collect();
    let folder = Folder::with(&[("a.tsv", table.as_bytes())]);
    let keys = "path = \"a.tsv\"\nvalid_fraction = 0.2\ntest_fraction = 0.1";
    let data = labelled(&folder, keys, CHARS).unwrap();
    let split = |split| rows(&data, split);
    let all = [split(Split::Train), split(Split::Valid), split(Split::Test)];
    assert_eq!([140, 40, 20], [all[0].len(), all[1].len(), all[2].len()]);
    let texts = all.iter().flatten().map(|(text, _)| text.as_str());
    let texts: std::collections::BTreeSet<_> = texts.collect();
    assert_eq!(texts.len(), 200);
    // The table is sorted by label, yet both classes are held out.
    let ones = all[1].iter().filter(|(_, class)| class == "1").count();
    assert!((8..=32).contains(&ones), "{ones}");
}

#[test]
fn what_is_wrong_with_a_table_is_said() {
    let folder = Folder::with(&[
        ("a.tsv", b"good\t1\nbad\t0\n"),
        ("new.tsv", b"fine\t1\nodd\t2\n"),
        ("short.tsv", b"good\t1\nbad\n"),
        ("wide.csv", b"label,text\n1,good,\n0,bad, really bad\n"),
        ("later.tsv", b"good\t1\nbad\t0\tor worse\n"),
        ("named.tsv", b"sentence\tlabel\ngood\t1\nbad\t0\n"),
        ("empty.tsv", b""),
        ("one.tsv", b"a\t1\nb\t1\n"),
        ("blank.tsv", b"a\t1\n\"\"\t0\n\t0\n"),
        ("c.jsonl", b"{\"text\": \"good\", \"lable\": 1}\n"),
        ("table.dat", b"a\t1\n"),
        ("german.csv", b"text;label\r\ngood;1\r\nbad;0\r\n"),
        ("crlf.csv", b"text,label\r\ngood,1\r\nbad\r\n"),
        ("bad.tsv", b"a\xFF\t1\n"),
    ]);
    let says = |keys: &str, part: &str| {
        let keys = format!("{keys}\nvalid_fraction = 0.0");
        let error = labelled(&folder, &keys, CHARS)
            .err()
            .expect(part)
            .to_string();
        assert!(error.contains(part), "{error}\nlacks {part}");
    };
    let named = "path = \"named.tsv\"\nheader = true\nlabel = 2\n";
    says(
        &format!("{named}text = \"sentance\""),
        "no column `sentance`; did you mean `sentence`?",
    );
    says(
        "path = \"named.tsv\"\ntext = \"sentence\"",
        "set header = true",
    );
    says(
        "path = \"named.tsv\"\nvalid_path = \"a.tsv\"\nheader = [\"train\"]\ntext = \"sentence\"",
        "set header = true",
    );
    says(
        "path = \"short.tsv\"",
        "short.tsv:2: no column 2: the row has 1",
    );
    says(
        "path = \"wide.csv\"\nheader = true\ntext = \"text\"\nlabel = \"label\"",
        "wide.csv:3: the row has 3 columns, but the first line has 2; put texts that contain a delimiter in quotes",
    );
    says(
        "path = \"later.tsv\"",
        "later.tsv:2: the row has 3 columns, but the first line has 2; remove the delimiters from its texts",
    );
    says("path = \"empty.tsv\"", "has no rows");
    says("path = \"empty.tsv\"\nheader = true", "has no rows");
    says(
        "path = \"one.tsv\"",
        "`1` is the only label of the training rows",
    );
    says("path = \"blank.tsv\"", "blank.tsv:3: the text is empty");
    says(
        "path = \"c.jsonl\"",
        "c.jsonl:1: no field `label`; did you mean `lable`?",
    );
    says("path = \"table.dat\"", "set format");
    let header = "header = true\ntext = \"text\"\nlabel = \"label\"";
    says(
        &format!("path = \"german.csv\"\n{header}"),
        "german.csv:1: the first line is one column and contains `;`, but CSV separates columns with commas",
    );
    says(
        &format!("path = \"crlf.csv\"\n{header}"),
        "crlf.csv:3: no column 2: the row has 1",
    );
    says(
        "path = \"bad.tsv\"",
        "bad.tsv:1: the line is not UTF-8 (byte 1 of it)",
    );
    says("path = \"a.tsv\"\ntext = 2", "the same column");
    says(
        "path = \"a.tsv\"\nheader = [\"test\"]",
        "test_path is not set",
    );
    says("path = \"a.tsv\"\ncontext = 1", "too short");
    says("path = \"a.tsv\"\nclasses = [\"x\"]", "at least two names");
    says(
        "path = \"a.tsv\"\nclasses = [\"good\", \"bad\", \"odd\"]",
        "a.tsv:1: unknown label `1`; allowed",
    );
    says(
        "path = \"c.jsonl\"\nheader = true",
        "no effect on JSON lines",
    );
    let keys = "path = \"a.tsv\"\nvalid_path = \"new.tsv\"";
    let error = labelled(&folder, keys, "kind = \"byte\"")
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("new.tsv:2: unknown label `2`"), "{error}");
    let error = labelled(&folder, "path = \"a.tsv\"\nvalid_fraction = 0.1", CHARS);
    assert!(
        error
            .err()
            .unwrap()
            .to_string()
            .contains("too few for its fraction")
    );
}

fn counts(data: &Data) -> Vec<usize> {
    let splits = Split::ALL
        .into_iter()
        .filter_map(|split| data.source(split).ok());
    splits.map(|source| source.len()).collect()
}

fn count(data: &Data, split: Split, class: &str) -> usize {
    rows(data, split).iter().filter(|(_, c)| c == class).count()
}

#[test]
fn the_real_sets() {
    if shared("sst2/train.tsv").is_none() {
        return;
    }
    let folder = Folder::new();
    let read = |keys: &str| {
        let data = format!("kind = \"labelled_text\"\n{keys}");
        let places = formwork::data::SearchPath::new(Some(folder.dir.path()));
        viewed(&places, &data, Some(WORDPIECE), &View::Plain, 1).unwrap()
    };
    let data = read(
        "path = \"sst2/train.tsv\"\nvalid_path = \"sst2/dev.tsv\"\ntest_path = \"sst2/test.tsv\"",
    );
    assert_eq!(counts(&data), [6920, 872, 1821]);
    assert_eq!(data.shape.classes, ["0", "1"]);
    let data = read(
        "path = \"sst2/glue_train_phrases.tsv\"\nheader = [\"train\"]\nvalid_path = \"sst2/dev.tsv\"\n\
         test_path = \"sst2/test.tsv\"",
    );
    assert_eq!(counts(&data), [67349, 872, 1821]);
    let data = read(
        "path = \"mrpc/msr_paraphrase_train.txt\"\ntest_path = \"mrpc/msr_paraphrase_test.txt\"\nheader = true\n\
         label = \"Quality\"\ntext = \"#1 String\"\npair = \"#2 String\"\nvalid_fraction = 0.0",
    );
    assert_eq!(counts(&data), [4076, 1725]);
    assert_eq!(
        (
            count(&data, Split::Train, "1"),
            count(&data, Split::Test, "1")
        ),
        (2753, 1147)
    );
    let data = read(
        "path = \"ag_news/train_10k.tsv\"\ntest_path = \"ag_news/test.tsv\"\nvalid_fraction = 0.0\n\
         classes = [\"World\", \"Sports\", \"Business\", \"Sci/Tech\"]",
    );
    assert_eq!(counts(&data), [10_001, 7600]);
    assert_eq!(count(&data, Split::Train, "Sci/Tech"), 2538);
    let data = read(
        "path = \"ag_news/test.csv\"\ntext = 2\npair = 3\nlabel = 1\nvalid_fraction = 0.0\n\
         classes = [\"World\", \"Sports\", \"Business\", \"Sci/Tech\"]",
    );
    assert_eq!(count(&data, Split::Train, "Sci/Tech"), 1900);
    let data = read(
        "path = \"listops/test_d20s.tsv\"\nlabel = 1\ntext = 2\nleave_out = [\"(\", \")\"]\ncontext = 2000",
    );
    assert_eq!(counts(&data), [9000, 1000]);
    assert!(
        rows(&data, Split::Valid)
            .iter()
            .all(|(text, _)| !text.contains('('))
    );
}

#[test]
fn fewer_rows_to_train_on_are_some_of_more() {
    let table: String = (0..60).map(|i| format!("row {i}\t{}\n", i / 30)).collect();
    let folder = Folder::with(&[("a.tsv", table.as_bytes())]);
    let given = |keys: &str| labelled(&folder, &format!("path = \"a.tsv\"\n{keys}"), CHARS);
    let seen = |keys: &str| rows(&given(keys).unwrap(), Split::Train);
    let (all, twenty, five) = (seen(""), seen("train_items = 20"), seen("train_items = 5"));
    assert_eq!([all.len(), twenty.len(), five.len()], [54, 20, 5]);
    // Rows keep their order, and a smaller number is a subset of a larger one.
    let within = |few: &[(String, String)], many: &[(String, String)]| {
        let mut many = many.iter();
        few.iter().all(|row| many.any(|other| other == row))
    };
    assert!(within(&twenty, &all) && within(&five, &twenty));
    // Held-out rows, classes and vocabulary do not change.
    let few = given("train_items = 1").unwrap();
    assert_eq!(few.shape.classes, ["0", "1"]);
    assert_eq!(
        rows(&few, Split::Valid),
        rows(&given("").unwrap(), Split::Valid)
    );
    for (keys, said) in [
        ("train_items = 55", "but there are 54 rows to train on"),
        ("train_items = 0", "leaves nothing to train on"),
    ] {
        let error = given(keys).err().unwrap().to_string();
        assert!(error.contains(said), "{error}");
    }
}
