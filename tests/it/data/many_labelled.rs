//! Texts with any number of classes each: tables of every form, and faults.

use super::Folder;
use super::masked::{text, viewed};
use formwork::data::{Data, Split, View};
use formwork::error::Result;

fn read(folder: &Folder, keys: &str) -> Result<Data> {
    let data = format!("kind = \"labelled_text\"\nvalid_fraction = 0.0\n{keys}");
    viewed(
        &folder.places(),
        &data,
        Some("kind = \"char\""),
        &View::Plain,
        7,
    )
}

fn classes(data: &Data) -> Vec<Vec<&str>> {
    let source = data.source(Split::Train).unwrap();
    let of = |sample| {
        let item = text(source.as_ref(), sample, 0);
        assert!(item.label.is_none());
        let all = item.classes.unwrap().into_iter();
        all.map(|class| data.shape.classes[class as usize].as_str())
            .collect()
    };
    (0..source.len() as u64).map(of).collect()
}

fn folder() -> Folder {
    Folder::with(&[
        ("a.tsv", b"good one\tjoy, love\nbad\t\nodd\tlove\n"),
        ("b.csv", b"words,kinds\ngood one,love|joy|joy\nbad,\nodd, love\n"),
        ("c.jsonl", b"{\"text\": \"good one\", \"tags\": [\"joy\", \"love\"]}\n{\"text\": \"bad\", \"tags\": []}\n{\"text\": \"odd\", \"tags\": \"love\"}\n"),
        ("d.csv", b"id,words,joy,love\n1,good one,1,1.0\n2,bad,0,false\n3,odd,0,1\n"),
        ("e.jsonl", b"{\"text\": \"good one\", \"joy\": true, \"love\": 1}\n{\"text\": \"bad\", \"joy\": 0, \"love\": 0}\n{\"text\": \"odd\", \"joy\": 0, \"love\": 1}\n"),
        ("f.csv", b"words,joy,love\nx,1,0\ny,-1,0\n"),
        ("h.jsonl", b"{\"row\": {\"text\": \"good one\", \"tags\": [\"joy\", \"love\"]}}\n{\"row\": {\"text\": \"bad\", \"tags\": []}}\n{\"row\": {\"text\": \"odd\", \"tags\": \"love\"}}\n"),
        ("g.jsonl", b"{\"text\": \"x\", \"tags\": [[\"joy\"]]}\n"),
    ])
}

#[test]
fn tables_of_every_form() {
    let folder = folder();
    for keys in [
        "path = \"a.tsv\"\nlabels = 2",
        "path = \"b.csv\"\nheader = true\ntext = \"words\"\nlabels = \"kinds\"\nlabel_separator = \"|\"",
        "path = \"c.jsonl\"\nlabels = \"tags\"",
        "path = \"d.csv\"\nheader = true\ntext = \"words\"\nindicators = [\"joy\", \"love\"]",
        "path = \"e.jsonl\"\nindicators = [\"joy\", \"love\"]",
        "path = \"h.jsonl\"\ntext = \"row.text\"\nlabels = \"row.tags\"",
    ] {
        let data = read(&folder, keys).unwrap_or_else(|e| panic!("{keys}: {e}"));
        assert_eq!(data.shape.classes, ["joy", "love"], "{keys}");
        let expected: [&[&str]; 3] = [&["joy", "love"], &[], &["love"]];
        assert_eq!(classes(&data), expected, "{keys}");
    }
    // In the order of the experiment's list, with a class that no row has.
    let named = "path = \"a.tsv\"\nlabels = 2\nclasses = [\"love\", \"fear\", \"joy\"]";
    let data = read(&folder, named).unwrap();
    assert_eq!(classes(&data)[0], ["love", "joy"]);
}

#[test]
fn faults_name_their_row() {
    let folder = folder();
    let says = |keys: &str, wanted: &str| {
        let error = read(&folder, keys).err().map(|e| e.to_string());
        let error = error.unwrap_or_else(|| panic!("{keys} is taken"));
        assert!(error.contains(wanted), "{keys}: {error}");
    };
    let header = "header = true\ntext = \"words\"";
    says(
        &format!("path = \"f.csv\"\n{header}\nindicators = [\"joy\", \"love\"]"),
        "f.csv:3: column `joy` contains `-1`; an indicator must be 1",
    );
    says(
        &format!("path = \"d.csv\"\n{header}\nindicators = [\"joy\", \"lova\"]"),
        "no column `lova`; did you mean `love`?",
    );
    says(
        "path = \"g.jsonl\"\nlabels = \"tags\"",
        "g.jsonl:1: `tags` is neither a list of labels",
    );
    says(
        "path = \"c.jsonl\"\nlabels = \"tagz\"",
        "no field `tagz`; did you mean `tags`?",
    );
    says(
        "path = \"a.tsv\"\nlabels = 2\nclasses = [\"joy\", \"fear\"]",
        "a.tsv:1: unknown label `love`",
    );
    says(
        "path = \"a.tsv\"\nlabels = 2\nlabel = 2",
        "label has no effect beside labels",
    );
    says(
        "path = \"a.tsv\"\nlabels = 2\nscore = 2",
        "labels has no effect beside score",
    );
    says(
        "path = \"a.tsv\"\nlabels = 2\njoin = true",
        "join has no effect beside labels",
    );
    says(
        "path = \"a.tsv\"\nlabel_separator = \"|\"",
        "label_separator has no effect without labels",
    );
    says(
        "path = \"a.tsv\"\nlabels = 2\nlabel_separator = \"\"",
        "label_separator = \"\" must not be empty",
    );
    says(
        "path = \"a.tsv\"\nindicators = [\"joy\", \"love\"]",
        "set header = true",
    );
    says(
        &format!("path = \"d.csv\"\n{header}\nindicators = [\"joy\"]"),
        "must contain at least two columns",
    );
    says(
        &format!(
            "path = \"d.csv\"\n{header}\nindicators = [\"joy\", \"love\"]\nclasses = [\"a\", \"b\"]"
        ),
        "classes has no effect beside indicators",
    );
}
