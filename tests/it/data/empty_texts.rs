//! Empty texts in labelled data and conversations: the message gives their number and the place of the first one.

use super::Folder;

#[test]
fn empty_labelled_texts_are_told() {
    let folder = Folder::with(&[
        (
            "train.tsv",
            b"good\tpos\n \tneg\nbad\tneg\n\tpos\nfine words\tpos\n",
        ),
        ("valid.tsv", b"nice\tpos\n\tneg\n"),
        ("pairs.tsv", b"good\tbad\tpos\nbad\t \tneg\n"),
    ]);
    let notes = |keys: &str| {
        let data = format!("kind = \"labelled_text\"\n{keys}");
        let tokenizer = "kind = \"wordpiece\"\nvocab_size = 40";
        folder.prepare(&data, tokenizer).unwrap().notes
    };
    let told = notes("path = \"train.tsv\"\nvalid_path = \"valid.tsv\"");
    let [told] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert!(
        told.starts_with("2 empty texts to train on, 1 to validate on, the first at "),
        "{told}"
    );
    assert!(
        told.ends_with("train.tsv:2: the model reads no words of them"),
        "{told}"
    );
    let told = notes("path = \"pairs.tsv\"\npair = 2\nlabel = 3\nvalid_fraction = 0.0");
    assert!(
        told[0].starts_with("1 empty text to train on") && told[0].contains("pairs.tsv:2"),
        "{told:?}"
    );
    let none = notes("path = \"pairs.tsv\"\nlabel = 3\nvalid_fraction = 0.0");
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn empty_messages_are_told() {
    let chat = |answer: &str| {
        format!(
            "{{\"messages\": [{{\"role\": \"user\", \"content\": \"a\"}}, {{\"role\": \"assistant\", \"content\": \"{answer}\"}}]}}\n"
        )
    };
    let rows = [chat("one"), chat(""), chat("two"), chat(" ")].concat();
    let folder = Folder::with(&[("chats.jsonl", rows.as_bytes())]);
    let keys = "kind = \"conversations\"\npath = \"chats.jsonl\"\nvalid_fraction = 0.0";
    let notes = folder.prepare(keys, "kind = \"byte\"").unwrap().notes;
    let told = notes
        .iter()
        .find(|note| note.contains("empty message"))
        .unwrap();
    assert!(
        told.starts_with("2 conversations with an empty message to train on, the first at "),
        "{told}"
    );
    assert!(
        told.ends_with("chats.jsonl:2: the model also learns empty answers"),
        "{told}"
    );
}
