//! Messages about tables of pairs: header lines, columns that no key names, and pairs that are not read.

use super::pairs::{CHAR, Folder, LINES, TABLE, owned, texts};

#[test]
fn a_line_of_names_is_said_by_a_key_or_by_names() {
    let folder = Folder::with(&[
        ("t.tsv", b"en\tde\none\teins\n"),
        ("u.tsv", b"target\tsource\tid\neins\tone\t1\n"),
        ("t.csv", b"en,de\none,eins\n"),
        ("v.tsv", b"no\tsein\n"),
        ("t.jsonl", br#"{"source": "one", "target": "eins"}"#),
    ]);
    let read = |keys: &str| folder.prepare(&format!("{TABLE}{keys}"), CHAR).unwrap();
    let one = owned(&[("one", "eins")]);
    for keys in [
        "path = \"t.tsv\"\nheader = true",
        "path = \"u.tsv\"\nheader = true",
        "path = \"t.csv\"\nheader = true",
        "path = \"t.tsv\"\nsource_field = \"en\"\ntarget_field = \"de\"",
    ] {
        let data = read(keys);
        assert_eq!(texts(&data, &data.train), one, "{keys}");
    }
    // A header only in the tables of one split.
    let keys = "kind = \"pairs\"\npath = \"t.tsv\"\nvalid_path = \"v.tsv\"\nheader = [\"train\"]";
    let data = folder.prepare(keys, CHAR).unwrap();
    assert_eq!(texts(&data, &data.train), one);
    let valid = data.valid.as_ref().unwrap();
    assert_eq!(texts(&data, valid), owned(&[("no", "sein")]));
    for (keys, expected) in [
        (
            "path = \"u.tsv\"",
            "u.tsv:1: the first line names the columns: set [data] header = true",
        ),
        (
            "path = \"t.tsv\"\nheader = [\"train\", \"valid\"]",
            "header names the valid split, but valid_path is not set",
        ),
        (
            "path = \"t.jsonl\"\nheader = true",
            "header has no effect on JSON lines",
        ),
        (
            "source = \"t.tsv\"\ntarget = \"t.tsv\"\nheader = true",
            "header has no effect without `path`",
        ),
    ] {
        let why = folder.refused(&format!("{TABLE}{keys}"), CHAR);
        assert!(why.contains(expected), "{keys}: {why}");
    }
}

#[test]
fn a_third_column_is_refused_where_no_key_says_which_are_read() {
    let folder = Folder::with(&[
        ("t.tsv", b"one\teins\t\ntwo\tzwei\t7\n"),
        ("h.tsv", b"en\tde\tid\none\teins\t7\n"),
        ("w.tsv", b"one\teins\ntwo\tzwei\tdrei\n"),
        ("t.csv", b"one,eins,7\ntwo,zwei,8\n"),
    ]);
    let which = "name the two columns with [data] source_field and target_field";
    for (keys, place, remedy) in [
        ("path = \"t.tsv\"", "t.tsv:2: the row has 3 columns", which),
        (
            "path = \"h.tsv\"\nheader = true",
            "h.tsv:1: the row has 3 columns",
            which,
        ),
        ("path = \"t.csv\"", "t.csv:1: the row has 3 columns", which),
        (
            "path = \"w.tsv\"\nsource_field = 1\ntarget_field = 2",
            "w.tsv:2: the row has 3 columns, but the first line has 2",
            "remove the tabs from its texts",
        ),
    ] {
        let why = folder.refused(&format!("{TABLE}{keys}"), CHAR);
        assert!(why.contains(place) && why.contains(remedy), "{keys}: {why}");
    }
    for keys in [
        "path = \"t.csv\"\nsource_field = 1\ntarget_field = 2",
        "path = \"t.tsv\"\nsource_field = 1\ntarget_field = 2",
    ] {
        let data = folder.prepare(&format!("{TABLE}{keys}"), CHAR).unwrap();
        let both = owned(&[("one", "eins"), ("two", "zwei")]);
        assert_eq!(texts(&data, &data.train), both, "{keys}");
    }
}

#[test]
fn pairs_that_are_not_read_are_told_by_reason_and_place() {
    let files: &[(&str, &[u8])] = &[
        ("a.en", b"ab\nabcdefgh\n\nabcde\nabcdef\n"),
        ("a.de", b"xy\nx\ny\nxyzw\nxyzxy\n"),
        (
            "t.jsonl",
            b"{\"source\": \"ab\", \"target\": [\"xy\", \"x\"]}\n\n{\"source\": \"\", \"target\": \"y\"}\n",
        ),
    ];
    let folder = Folder::with(files);
    let with = |keys: &str| folder.prepare(keys, CHAR).unwrap();
    let empty = with(LINES).unread.join("|");
    assert!(
        empty.starts_with("1 training pair is left out: 1 with an empty side, the first at ")
            && empty.ends_with("a.en:3"),
        "{empty}"
    );
    let long = with(&format!("{LINES}\nmax_len = 6")).unread.join("|");
    assert!(
        long.starts_with(
            "3 training pairs are left out: 2 too long ([data] max_len = 6), the first at "
        ),
        "{long}"
    );
    assert!(
        long.contains("a.en:2; 1 with an empty side, the first at "),
        "{long}"
    );
    let unequal = with(&format!("{LINES}\nmax_ratio = 1.5")).unread.join("|");
    assert!(
        unequal.contains("1 too unequal in length (max_ratio = 1.5), the first at ")
            && unequal.contains("a.en:2; "),
        "{unequal}"
    );
    // Line numbers are those of the file, though each of several targets is a pair.
    let keys = format!("{TABLE}path = \"t.jsonl\"\nall_references = true");
    let several = with(&keys).unread.join("|");
    assert!(several.ends_with("t.jsonl:3"), "{several}");
    // An evaluation leaves no pair out.
    let keys = format!("{LINES}\nvalid_source = \"a.en\"\nvalid_target = \"a.de\"");
    let notes = with(&keys).notes.join("|");
    assert!(
        notes.starts_with("1 pair of the valid split has an empty side, the first at ")
            && notes.ends_with("a.en:3: evaluations read and score empty sides as they are"),
        "{notes}"
    );
    let why = folder.refused(&format!("{LINES}\nmax_len = 3"), CHAR);
    assert!(
        why.contains("none of the 5 pair(s) is used: 4 too long"),
        "{why}"
    );
}
