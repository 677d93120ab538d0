//! Conversations: chat templates against transformers, training on messages, and `formwork chat`.

mod learnt;

use crate::binary::{failure, output, piped};
use formwork::data::{
    self, ConversationsConfig, DataConfig, Paths, Request, SearchPath, Tokenizers, View,
};
use formwork::tokenizer::chat::{Answers, Conversation};
use formwork::tokenizer::{ChatTemplate, Tokenizer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Output of transformers, or of a script in benches/ for templates of published models.
fn golden() -> Value {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/chat.json");
    let path = std::env::var_os("FORMWORK_CHAT_GOLDEN").map_or(own, PathBuf::from);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn tokenizer(golden: &Value) -> Tokenizer {
    let json = serde_json::to_vec(&golden["tokenizer"]).unwrap();
    Tokenizer::from_json(json, Path::new("chat.json")).unwrap()
}

fn template(golden: &Value, name: &str) -> Result<ChatTemplate, String> {
    let tokens = BTreeMap::from([
        ("bos_token".to_owned(), "<s>".to_owned()),
        ("eos_token".to_owned(), "</s>".to_owned()),
    ]);
    let template = ChatTemplate::new(golden["templates"][name].as_str().unwrap(), tokens)?;
    template.with_date(golden["date"].as_str().unwrap())
}

fn conversation(chat: &Value) -> Conversation {
    Conversation {
        messages: chat["messages"].as_array().unwrap().clone(),
        tools: chat.get("tools").cloned(),
        ..Conversation::default()
    }
}

#[test]
fn templates_write_what_transformers_writes() {
    let golden = golden();
    let tokenizer = tokenizer(&golden);
    let mut wrong = Vec::new();
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let name = case["template"].as_str().unwrap();
        let chat = &golden["chats"][case["chat"].as_u64().unwrap() as usize];
        let asks = case["asks"].as_bool().unwrap();
        let what = format!("{name}, chat {}, asks {asks}", case["chat"]);
        let made = template(&golden, name).and_then(|t| t.render(&conversation(chat), asks));
        match (made, case["text"].as_str()) {
            (Ok(text), Some(wanted)) if text == wanted => {
                let ids = tokenizer.encode(&text).unwrap();
                assert_eq!(json!(ids), case["ids"], "{what}");
            }
            (Err(_), None) => {}
            (made, wanted) => wrong.push(format!("{what}: {made:?}\n  in place of {wanted:?}")),
        }
    }
    let (count, all) = (wrong.len(), cases.len());
    assert!(wrong.is_empty(), "{count} of {all}:\n{}", wrong.join("\n"));
}

/// Returns the inputs and targets that data makes of a conversation.
fn targets(golden: &Value, name: &str, chat: &Value) -> (Vec<i32>, Vec<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("chats.jsonl"), format!("{chat}\n")).unwrap();
    fs::write(
        at("template.jinja"),
        golden["templates"][name].as_str().unwrap(),
    )
    .unwrap();
    let config = DataConfig::Conversations(Box::new(ConversationsConfig {
        path: Paths(vec![at("chats.jsonl")]),
        valid_fraction: Some(0.0),
        template: Some(at("template.jinja")),
        date: golden["date"].as_str().map(String::from),
        context: 2000,
        ..ConversationsConfig::default()
    }));
    let saved = Tokenizers {
        chat: template(golden, name).ok(),
        ..Tokenizers::single(tokenizer(golden))
    };
    let places = SearchPath::new(Some(folder.path()));
    let request = Request {
        tokenizer: None,
        saved_tokenizers: &saved,
        run_shape: None,
        places: &places,
        seed: 0,
        view: &View::Plain,
        compares_answers: false,
        retrieval: None,
    };
    let data = data::prepare(&config, &request).unwrap();
    let item = data.train.get(0, 0).unwrap().text().unwrap();
    (item.inputs, item.targets)
}

#[test]
fn the_tokens_of_answers_are_those_that_transformers_marks() {
    let golden = golden();
    let mut seen = 0;
    for case in golden["cases"].as_array().unwrap() {
        let Some(answers) = case["answers"].as_array() else {
            continue;
        };
        if case["asks"] == true {
            continue;
        }
        let chat = &golden["chats"][case["chat"].as_u64().unwrap() as usize];
        let (inputs, targets) = targets(&golden, case["template"].as_str().unwrap(), chat);
        let ids = case["ids"].as_array().unwrap();
        let id = |at: usize| ids[at].as_i64().unwrap() as i32;
        let wanted: Vec<i32> = (1..ids.len())
            .map(|at| match answers[at] == 1 {
                true => id(at),
                false => data::NOT_SCORED,
            })
            .collect();
        assert_eq!(inputs, (0..ids.len() - 1).map(id).collect::<Vec<_>>());
        assert_eq!(targets, wanted, "{case}");
        seen += 1;
    }
    assert!(seen > 2, "{seen}");
}

#[test]
fn last_answers_are_found_where_a_template_rewrites_earlier_ones() {
    let golden = golden();
    let template = template(&golden, "thinking").unwrap();
    let chat = conversation(&golden["chats"][1]);
    let rendered = template.render_with_answers(&chat, Answers::All);
    let why = rendered.unwrap_err();
    let names = ["message 5", "answers = \"last\""];
    assert!(names.iter().all(|name| why.contains(name)), "{why}");
    let last = template.render_with_answers(&chat, Answers::Last).unwrap();
    assert_eq!(
        &last.text[last.answers[0].clone()],
        "Is there more?<|im_end|>\n"
    );
}

const HEAD: &str = r#"name = "own"
seed = 3
[model]
kind = "decoder"
n_layers = 2
d_model = 48
attention = { kind = "multi_head", n_heads = 2 }
[optimizer]
kind = "adamw"
lr = 5e-3
[train]
steps = 150
batch_size = 8
eval_every = 150
[task]
kind = "causal_lm"
"#;

/// Conversations in which the user names a colour and asks for its position in a list.
fn chats(count: usize) -> String {
    let colours = ["red", "blue", "green", "pink"];
    let line = |i: usize| {
        let (one, other) = (i % 4, (i / 4) % 4);
        json!({"messages": [
            {"role": "user", "content": format!("Say {}.", colours[one])},
            {"role": "assistant", "content": colours[one]},
            {"role": "user", "content": format!("And {}?", colours[other])},
            {"role": "assistant", "content": format!("{} {}", colours[one], colours[other])},
        ]})
        .to_string()
    };
    (0..count).map(|i| line(i) + "\n").collect()
}

fn project(tables: &str, files: &[(&str, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), format!("{HEAD}{tables}")).unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn trained(folder: &Path, more: &[&str]) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    let (file, run) = (at("own.toml"), at("run"));
    let mut arguments = vec!["train", &file, "--quiet", "--run", &run];
    arguments.extend(more);
    output(&arguments);
    run
}

const CHATS: &str = r#"[tokenizer]
kind = "char"
[data]
kind = "conversations"
path = "chats.jsonl"
valid_path = "valid.jsonl"
context = 160
"#;

#[test]
fn a_model_learns_to_answer_and_remembers_the_conversation() {
    let files = [("chats.jsonl", chats(64)), ("valid.jsonl", chats(16))];
    let folder = project(CHATS, &files);
    let run = trained(folder.path(), &[]);
    let scores: Value = serde_json::from_str(&output(&["eval", &run, "--json"])).unwrap();
    assert_eq!(scores["exact_match"], 1.0, "{scores}");
    assert!(scores["bits_per_byte"].as_f64().unwrap() < 0.2, "{scores}");

    let said = [
        "chat",
        &run,
        "--temperature",
        "0",
        "--message",
        "Say blue.",
        "--message",
        "And pink?",
        "--json",
    ];
    let answers: Vec<Value> = output(&said)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers[0]["text"], "blue");
    assert_eq!(answers[1]["text"], "blue pink");
    let prompt = "<|im_start|>user\nSay blue.<|im_end|>\n<|im_start|>assistant\nblue<|im_end|>\n<|im_start|>user\nAnd \
                  pink?<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(answers[1]["prompt"], prompt);
    // An empty line on standard input begins a new conversation.
    let lines = piped(
        &["chat", &run, "--temperature", "0"],
        "Say red.\nAnd blue?\n\nSay green.\n",
    );
    assert_eq!(lines, "red\nred blue\ngreen\n");
}

#[test]
fn packed_rows_are_the_conversations_alone() {
    let files = [("chats.jsonl", chats(64)), ("valid.jsonl", chats(16))];
    let packed = format!("{CHATS}packed = true\n").replace("context = 160", "context = 400");
    let folder = project(&packed, &files);
    let run = trained(folder.path(), &["--set", "train.batch_size=3"]);
    let scores: Value = serde_json::from_str(&output(&["eval", &run, "--json"])).unwrap();
    assert!(scores["accuracy"].as_f64().unwrap() > 0.97, "{scores}");
}

#[test]
fn columns_of_a_table_become_messages() {
    let rows: String = (0..40)
        .map(|i| match i % 2 {
            0 => "a fine film\tgood\n",
            _ => "a dull film\tbad\n",
        })
        .collect();
    let tables = r#"[tokenizer]
kind = "char"
[data]
kind = "conversations"
path = "rows.tsv"
valid_fraction = 0.2
columns = ["text", "label"]
context = 160
[[data.turns]]
role = "user"
content = "Is \"{{ text }}\" good or bad?"
[[data.turns]]
role = "assistant"
content = "{{ label | upper }}"
"#;
    let folder = project(tables, &[("rows.tsv", rows)]);
    let run = trained(folder.path(), &[]);
    let answer = output(&[
        "chat",
        &run,
        "--temperature",
        "0",
        "--message",
        "Is \"a dull film\" good or bad?",
    ]);
    assert_eq!(answer, "BAD\n");
}

#[test]
fn faults_name_the_row_and_the_remedy() {
    let check = |tables: &str, line: &str| {
        let folder = project(
            tables,
            &[
                ("chats.jsonl", format!("{line}\n")),
                ("valid.jsonl", chats(4)),
            ],
        );
        let file = folder.path().join("own.toml").display().to_string();
        let (status, said) = failure(&["train", &file, "--quiet"]);
        assert!(status > 0);
        said
    };
    for (line, parts) in [
        (
            r#"{"text": "x"}"#,
            &["chats.jsonl:1", "`messages`", "`text`", "[[data.turns]]"][..],
        ),
        (
            r#"{"messages": [{"content": "x"}]}"#,
            &["chats.jsonl:1", "message 1", "`role`"],
        ),
        (
            r#"{"messages": [{"role": "user"}]}"#,
            &["chats.jsonl:1", "message 1", "`content`"],
        ),
        (r#"{"messages": "x"}"#, &["chats.jsonl:1", "not JSON"]),
        (
            r#"{"messages": [{"role": "user", "content": "x"}]}"#,
            &["train split", "the role `assistant`", "`user`"],
        ),
        (
            r#"{"messages": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}], "tools": {}}"#,
            &["chats.jsonl:1", "`tools` is not a list"],
        ),
    ] {
        let said = check(CHATS, line);
        assert!(
            parts.iter().all(|part| said.contains(part)),
            "{line}: {said}"
        );
    }
    let misspelt = "[[data.turns]]\nrole = \"assistant\"\ncontent = \"{{ txet }}\"\n";
    let said = check(&format!("{CHATS}{misspelt}"), r#"{"text": "x"}"#);
    assert!(said.contains("`txet`") && said.contains("`text`"), "{said}");
    let broken = format!("{CHATS}[[data.turns]]\nrole = \"user\"\ncontent = \"{{{{ text\"\n");
    let said = check(&broken, r#"{"text": "x"}"#);
    assert!(
        said.contains("turns") && said.contains("assistant") && said.contains("not valid Jinja"),
        "{said}"
    );
}
