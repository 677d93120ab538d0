//! Which files of a folder are read as text, and how a `.json` file is read.

use super::{Folder, data_config, tokenizer_config};
use formwork::data::{Data, Request, Shape, Tokenizers, View};
use formwork::error::Result;

const LINES: &[u8] = b"{\"text\": \"one two\"}\n{\"text\": \"three\"}\n";

fn prepare(folder: &Folder, keys: &str) -> Result<Data> {
    let keys = format!(
        "kind = \"text\"\nvalid_fraction = 0.0\ncontext = 4\nwindows = \"contiguous\"\n{keys}"
    );
    folder.prepare(&keys, "kind = \"byte\"")
}

fn refused(folder: &Folder, keys: &str) -> String {
    prepare(folder, keys).err().unwrap().to_string()
}

#[test]
fn a_folder_of_a_hub_gives_its_rows_alone() {
    let folder = Folder::with(&[
        ("hub/README.md", b"# A card"),
        ("hub/dataset_infos.json", b"{\"default\": {}}"),
        ("hub/data/train.jsonl", LINES),
        ("plain/README.md", b"# A text"),
        ("plain/a.txt", b"one two three"),
    ]);
    let data = prepare(&folder, "path = \"hub\"").unwrap();
    assert_eq!(data.documents, 2);
    // one two, three, each followed by a line break.
    assert_eq!(data.tokens.train, 7 + 1 + 5 + 1);
    assert_eq!(data.notes.len(), 1);
    let named = ": README.md, dataset_infos.json left out";
    assert!(data.notes[0].contains(named), "{:?}", data.notes);
    let data = prepare(
        &folder,
        "path = [\"hub/data/train.jsonl\", \"hub/README.md\"]",
    )
    .unwrap();
    assert_eq!((data.documents, data.notes.len()), (3, 0));
    let data = prepare(&folder, "path = \"plain\"").unwrap();
    assert_eq!((data.documents, data.notes.len()), (2, 0));
}

#[test]
fn a_json_file_is_lines_or_is_refused() {
    let folder = Folder::with(&[
        ("lines.json", LINES),
        ("marked.json", &[&b"\xEF\xBB\xBF\n"[..], LINES].concat()),
        ("array.json", b"[{\"text\": \"one two\"}]"),
        ("whole.json", b"{\n  \"text\": \"one two\"\n}\n"),
        ("words.json", b"one two three"),
    ]);
    for path in ["lines.json", "marked.json"] {
        let data = prepare(&folder, &format!("path = \"{path}\"")).unwrap();
        assert_eq!(data.documents, 2, "{path}");
    }
    assert_eq!(
        prepare(&folder, "path = \"words.json\"").unwrap().documents,
        1
    );
    let array = refused(&folder, "path = \"array.json\"");
    assert!(array.contains("array.json is a JSON array"), "{array}");
    let whole = refused(&folder, "path = \"whole.json\"");
    assert!(whole.contains("one object per line"), "{whole}");
    for path in ["array.json", "whole.json"] {
        let keys = format!("path = \"{path}\"\ndocuments = \"files\"");
        assert_eq!(prepare(&folder, &keys).unwrap().documents, 1, "{path}");
    }
}

#[test]
fn keys_of_plain_text_need_plain_text() {
    let folder = Folder::with(&[("a.jsonl", LINES), ("b.txt", b"one\n\ntwo\n")]);
    for key in [
        "documents = \"blank_lines\"",
        "document_separator = \"\\n\\n\"",
    ] {
        let name = key.split(' ').next().unwrap();
        let told = refused(&folder, &format!("path = \"a.jsonl\"\n{key}"));
        assert!(
            told.starts_with(&format!("[data] {name} has no effect")),
            "{told}"
        );
        let both = format!("path = [\"a.jsonl\", \"b.txt\"]\n{key}");
        assert_eq!(prepare(&folder, &both).unwrap().documents, 4, "{key}");
    }
}

#[test]
fn a_field_may_lie_inside_of_another() {
    let folder = Folder::with(&[(
        "a.jsonl",
        b"{\"m\": {\"text\": \"one\"}}\n{\"m.text\": \"two\"}\n{\"m\": null}\n",
    )]);
    let data = prepare(&folder, "path = \"a.jsonl\"\nfield = \"m.text\"").unwrap();
    assert_eq!(data.documents, 2);
    let none = refused(&folder, "path = \"a.jsonl\"\nfield = \"m.texts\"");
    assert!(none.contains("no field `m.texts`"), "{none}");
}

/// Returns the text between two others.
fn between<'t>(text: &'t str, before: &str, behind: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{text}"));
    let (found, _) = rest.split_once(behind).unwrap_or_else(|| panic!("{text}"));
    found
}

#[test]
fn several_splits_of_a_folder_are_told_with_keys_that_read_them() {
    let folder = Folder::with(&[
        ("hub/README.md", b"# A card"),
        ("hub/data/train-0.jsonl", LINES),
        ("hub/data/train-1.jsonl", LINES),
        ("hub/data/test-0.jsonl", LINES),
    ]);
    let told = refused(&folder, "path = \"hub\"");
    let keys = between(&told, "one key for each split, ", "; the pattern");
    let keys = keys.replace(", test_path", "\ntest_path");
    let data = prepare(&folder, &keys).unwrap();
    assert_eq!(data.documents, 4, "{keys}");
    assert!(data.test.is_some());
    let all = between(&told, "the pattern ", " matches all");
    let data = prepare(&folder, &format!("path = {all}")).unwrap();
    assert_eq!(data.documents, 6, "{all}");
    let told = refused(
        &folder,
        "path = \"hub/data/train-0.jsonl\"\ntest_path = \"hub\"",
    );
    assert!(told.starts_with("[data] test_path = "), "{told}");
    let nested = Folder::with(&[
        ("hub/README.md", b"# A card"),
        ("hub/train.jsonl", LINES),
        ("hub/test.ndjson", LINES),
        ("hub/more/0.jsonl", LINES),
    ]);
    let told = refused(&nested, "path = \"hub\"");
    let all = between(&told, "the patterns ", " match all");
    let data = prepare(&nested, &format!("path = {all}")).unwrap();
    assert_eq!(data.documents, 6, "{all}");
}

/// The `data.json` of a run of an earlier version does not record files that are distinguished today.
#[test]
fn runs_of_earlier_versions_read_files_as_they_did() {
    let folder = Folder::with(&[
        ("hub/README.md", b"# A card"),
        ("hub/train.jsonl", LINES),
        ("hub/test.jsonl", LINES),
        ("lines.json", LINES),
    ]);
    let tokenizer = tokenizer_config("kind = \"byte\"");
    let read = |path: &str, run: Option<&Shape>| -> Result<Data> {
        let keys = format!("kind = \"text\"\nvalid_fraction = 0.0\ncontext = 4\npath = {path:?}");
        let request = Request {
            run_shape: run,
            tokenizer: Some(&tokenizer),
            saved_tokenizers: &Tokenizers::default(),
            places: &folder.places(),
            seed: 7,
            view: &View::Plain,
            compares_answers: false,
            retrieval: None,
        };
        formwork::data::prepare(&data_config(&keys), &request)
    };
    let old = Shape::of_text(4, 256);
    let data = read("hub", Some(&old)).unwrap();
    assert_eq!((data.documents, data.notes.len()), (5, 0));
    assert!(!data.shape.files_distinguished);
    let data = read("lines.json", Some(&old)).unwrap();
    assert_eq!(data.documents, 1);
    let new = read("lines.json", None).unwrap();
    assert_eq!((new.documents, new.shape.files_distinguished), (2, true));
    let again = read("lines.json", Some(&new.shape)).unwrap();
    assert_eq!(
        (again.documents, again.shape.files_distinguished),
        (2, true)
    );
    assert!(read("hub", Some(&new.shape)).is_err());
}
