//! Labels that stand for no class: labels that no training row has, and empty cells.

use super::Folder;
use super::masked::viewed;
use formwork::data::{Data, View};
use formwork::error::Result;

fn read(folder: &Folder, keys: &str) -> Result<Data> {
    let data = format!("kind = \"labelled_text\"\n{keys}");
    let tokenizer = Some("kind = \"char\"");
    viewed(&folder.places(), &data, tokenizer, &View::Plain, 7)
}

fn told(folder: &Folder, keys: &str) -> String {
    let error = read(folder, keys).err().expect(keys);
    error.to_string()
}

/// The message has one remedy, which names all classes.
#[test]
fn a_label_that_no_training_row_has_is_told_with_its_remedy() {
    let folder = Folder::with(&[
        ("train.tsv", b"good\tpos\nbad\tneg\nfine\tpos\n"),
        ("valid.tsv", b"good\tpos\nodd\tx\n"),
    ]);
    let keys = "path = \"train.tsv\"\nvalid_path = \"valid.tsv\"\n";
    let error = told(&folder, keys);
    assert!(error.contains("valid.tsv:2: unknown label `x`"), "{error}");
    assert!(error.contains("labels of the training rows"), "{error}");
    let classes = "classes = [\"neg\", \"pos\", \"x\"]";
    assert!(error.ends_with(classes), "{error}");
    let data = read(&folder, &format!("{keys}{classes}")).unwrap();
    assert_eq!(data.shape.classes, ["neg", "pos", "x"]);
    let error = told(&folder, &format!("{keys}classes = [\"neg\", \"pos\"]"));
    assert!(!error.contains("training rows"), "{error}");
}

/// An empty label has to be named as a class.
#[test]
fn an_empty_label_is_no_class_of_itself() {
    let folder = Folder::with(&[
        ("some.tsv", b"good\tpos\nbad\tneg\nfine\t \n"),
        (
            "some.jsonl",
            b"{\"text\": \"a\", \"label\": \"b\"}\n{\"text\": \"c\", \"label\": \"\"}\n",
        ),
        ("none.tsv", b"good\t\nbad\t\n"),
        ("whole.tsv", b"good\tpos\nbad\tneg\nfine\tpos\n"),
    ]);
    let alone = |path: &str| format!("path = {path:?}\nvalid_fraction = 0.0\n");
    for (keys, place) in [
        (alone("some.tsv"), "some.tsv:3: "),
        (alone("some.jsonl"), "some.jsonl:2: "),
        (
            format!("{}classes = [\"neg\", \"pos\"]", alone("some.tsv")),
            "some.tsv:3: ",
        ),
        (
            "path = \"whole.tsv\"\nvalid_path = \"some.tsv\"".into(),
            "some.tsv:3: ",
        ),
    ] {
        let error = told(&folder, &keys);
        let says = format!("{place}the label is empty; remove the row");
        assert!(error.contains(&says), "{error}");
    }
    let error = told(&folder, &alone("none.tsv"));
    assert!(error.contains("no training row has a label"), "{error}");
    let named = format!("{}classes = [\"\", \"neg\", \"pos\"]", alone("some.tsv"));
    assert_eq!(
        read(&folder, &named).unwrap().shape.classes,
        ["", "neg", "pos"]
    );
}

/// Bytes that are not UTF-8 are reported with their line, in every table.
#[test]
fn lines_that_are_not_utf_8_are_named() {
    let folder = Folder::with(&[
        ("a.tsv", b"good\tpos\nbad\tneg\ncaf\xe9\tpos\n"),
        ("a.csv", b"good,pos\r\nb\xe9,neg\r\n"),
    ]);
    for (path, place) in [
        ("a.tsv", "a.tsv:3: the line is not UTF-8 (byte 3 of it)"),
        ("a.csv", "a.csv:2: the line is not UTF-8 (byte 1 of it)"),
    ] {
        let error = told(&folder, &format!("path = {path:?}\nvalid_fraction = 0.0"));
        assert!(error.contains(place), "{error}");
        assert!(error.ends_with("convert the file"), "{error}");
    }
}

/// A folder as on a hub: each file's ending gives its format, and files that describe the others are not read as data.
#[test]
fn the_files_of_a_folder_say_how_they_are_written() {
    let rows = b"{\"text\": \"good\", \"label\": 1}\n{\"text\": \"bad\", \"label\": 0}\n";
    let folder = Folder::with(&[
        ("hub/README.md", b"# A card"),
        ("hub/dataset_infos.json", b"{}"),
        ("hub/state.json", b"{}"),
        ("hub/data/a.jsonl", rows),
        ("hub/data/b.tsv", b"fine\t1\n"),
        ("tables/a.csv", b"label,text\n1,good\n0,bad\n"),
    ]);
    let alone = |path: &str| format!("path = {path:?}\nvalid_fraction = 0.0\n");
    let data = read(&folder, &alone("hub")).unwrap();
    assert_eq!((data.train.len(), data.shape.classes.len()), (3, 2));
    let data = read(&folder, &format!("{}header = true", alone("tables"))).unwrap();
    assert_eq!((data.train.len(), data.shape.classes.len()), (2, 2));
    let error = told(&folder, &format!("{}text = \"text\"", alone("tables")));
    assert!(
        error.contains("has no header; set header = true"),
        "{error}"
    );
    let error = told(&folder, &format!("{}text = 1", alone("hub")));
    assert!(error.contains("have names; use a name"), "{error}");
}

/// -1 beside classes numbered from 0 means "no label" in Hugging Face's tables.
#[test]
fn minus_one_beside_numbers_from_zero_on_is_no_class() {
    let folder = Folder::with(&[
        ("none.tsv", b"good\t1\nbad\t0\nfine\t-1\n"),
        ("signs.tsv", b"good\t1\nbad\t-1\nfine\t1\n"),
        ("null.jsonl", b"{\"text\": \"a\", \"label\": null}\n"),
    ]);
    let alone = |path: &str| format!("path = {path:?}\nvalid_fraction = 0.0\n");
    let error = told(&folder, &alone("none.tsv"));
    assert!(error.contains("none.tsv:3: the label is -1"), "{error}");
    assert!(error.contains("remove such rows"), "{error}");
    let named = format!("{}classes = [\"-1\", \"0\", \"1\"]", alone("none.tsv"));
    assert_eq!(read(&folder, &named).unwrap().shape.classes.len(), 3);
    let signs = read(&folder, &alone("signs.tsv")).unwrap();
    assert_eq!(signs.shape.classes, ["-1", "1"]);
    let error = told(&folder, &alone("null.jsonl"));
    assert!(error.ends_with("null.jsonl:1: `label` is empty"), "{error}");
}
