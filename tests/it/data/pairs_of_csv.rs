//! Parallel text in CSV.

use super::pairs::{CHAR, Folder, TABLE, owned, texts};

/// CSV has quotes where a text needs them; columns are given by number, by names of the first line, or default.
#[test]
fn tables_with_commas() {
    let folder = Folder::with(&[
        ("t.csv", b"a,A\n\"b, c\",\"say \"\"B\"\"\"\n"),
        ("h.csv", b"id,en,de\n0,\"one\ntwo\",eins\n"),
        ("u.csv", b"target,source\nA,a\n"),
    ]);
    let read = |keys: &str| {
        let data = folder.prepare(&format!("{TABLE}{keys}"), CHAR).unwrap();
        texts(&data, &data.train)
    };
    let plain = owned(&[("a", "A"), ("b, c", "say \"B\"")]);
    assert_eq!(read("path = \"t.csv\""), plain);
    let turned = owned(&[("A", "a"), ("say \"B\"", "b, c")]);
    let keys = "path = \"t.csv\"\nsource_field = 2\ntarget_field = 1";
    assert_eq!(read(keys), turned);
    let keys = "path = \"h.csv\"\nsource_field = \"en\"\ntarget_field = \"de\"";
    assert_eq!(read(keys), owned(&[("one\ntwo", "eins")]));
    assert_eq!(read("path = \"u.csv\""), owned(&[("a", "A")]));
}

#[test]
fn faults_of_commas_and_quotes_have_their_places() {
    let folder = Folder::with(&[("t.csv", b"a,b\nc\n"), ("q.csv", b"a,\"b\nc,d\n")]);
    for (keys, expected) in [
        ("path = \"t.csv\"", "t.csv:2: no column 2: the row has 1"),
        (
            "path = \"t.csv\"\nsource_field = \"q\"\ntarget_field = \"b\"",
            "t.csv:1: no column `q`",
        ),
        (
            "path = \"q.csv\"",
            "q.csv:1: a quote is opened and never closed; close it",
        ),
    ] {
        let why = folder.refused(&format!("{TABLE}{keys}"), CHAR);
        assert!(why.contains(expected), "{keys}: {why}");
        assert!(!why.contains("quoting"), "{why}");
    }
}
