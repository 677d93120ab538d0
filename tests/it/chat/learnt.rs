//! Assistant messages that are read but not learned, and templates' dates that no data uses.

use super::{CHATS, chats, golden, project, targets, trained};
use crate::binary::failure;
use serde_json::{Value, json};

/// A conversation of two questions with answers; the answers carry these additional fields.
fn chat([first, second]: [&Value; 2]) -> Value {
    let mut messages = json!([
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "first"},
        {"role": "user", "content": "b"}, {"role": "assistant", "content": "second"},
    ]);
    for (at, fields) in [(1, first), (3, second)] {
        let fields = fields.as_object().unwrap().clone();
        messages[at].as_object_mut().unwrap().extend(fields);
    }
    json!({ "messages": messages })
}

/// Such messages have no targets, and templates do not see the fields that mark them.
#[test]
fn messages_that_are_not_learnt_have_no_targets() {
    let golden = golden();
    let of = |both: [&Value; 2]| targets(&golden, "turns", &chat(both));
    let nothing = json!({});
    let (inputs, all) = of([&nothing, &nothing]);
    let both = of([&json!({ "weight": 1 }), &json!({ "train": true })]);
    assert_eq!(both, (inputs.clone(), all.clone()));
    let scored = |targets: &[i32]| targets.iter().filter(|target| **target >= 0).count();
    let first = of([&nothing, &json!({ "train": false })]);
    let second = of([&json!({ "weight": 0 }), &nothing]);
    for (read, found) in [&first, &second] {
        assert_eq!(*read, inputs);
        let mut kept = found.iter().zip(&all).filter(|(own, _)| **own >= 0);
        assert!(scored(found) > 0 && kept.all(|(own, all)| own == all));
    }
    assert_eq!(scored(&first.1) + scored(&second.1), scored(&all));
}

#[test]
fn other_values_are_refused_where_they_stand() {
    let nothing = json!({});
    for (second, parts) in [
        (
            json!({ "weight": 0.5 }),
            [
                "chats.jsonl:1",
                "message 4 has `weight` = 0.5; it must be 1 or 0",
            ],
        ),
        (
            json!({ "train": 1 }),
            [
                "chats.jsonl:1",
                "message 4 has `train` = 1; it must be true or false",
            ],
        ),
    ] {
        let files = [
            ("chats.jsonl", format!("{}\n", chat([&nothing, &second]))),
            ("valid.jsonl", chats(4)),
        ];
        let folder = project(CHATS, &files);
        let file = folder.path().join("own.toml").display().to_string();
        let (status, said) = failure(&["train", &file, "--quiet"]);
        assert!(
            status == 2 && parts.iter().all(|part| said.contains(part)),
            "{said}"
        );
    }
    let none = [&json!({ "weight": 0 }), &json!({ "train": false })];
    let files = [
        ("chats.jsonl", format!("{}\n", chat(none))),
        ("valid.jsonl", chats(4)),
    ];
    let folder = project(CHATS, &files);
    let file = folder.path().join("own.toml").display().to_string();
    let (status, said) = failure(&["train", &file, "--quiet"]);
    let wanted =
        "every message of the assistant in the train split has `weight` 0 or `train` false";
    assert!(status == 2 && said.contains(wanted), "{said}");
}

#[test]
fn a_date_that_the_template_does_not_ask_for_is_refused() {
    let files = [("chats.jsonl", chats(16)), ("valid.jsonl", chats(4))];
    let folder = project(CHATS, &files);
    let short = ["--set", "train.steps=1", "--set", "train.eval_every=1"];
    let run = trained(folder.path(), &short);
    let (status, said) = failure(&["chat", &run, "--date", "2024-07-26", "--message", "x"]);
    assert!(status == 2, "{said}");
    assert!(
        said.contains("--date 2024-07-26 has no effect: the chat template of"),
        "{said}"
    );
}
