//! Preference runs: from texts and from messages, resumed exactly, with the reference that they began with, and used and
//! exported without it.

use crate::in_folder::{DECODER, experiment, good, refused, resumes_exactly, text, weights};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Further keys of the decoder, and the training tables.
const TRAINING: &str = r#"dropout = 0.1
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 4
batch_size = 4
micro_batch_size = 2
checkpoint_every = 2
keep_last = 3
"#;

/// A language model of letters.
const BASE: &str = r#"
[data]
kind = "text"
path = "corpus.txt"
context = 16
[tokenizer]
kind = "char"
end_of_text = "\n"
[task]
kind = "causal_lm"
"#;

pub const PREFERRED: &str = r#"
[init]
from = "checkpoints/base"
[data]
kind = "preferences"
path = "pairs.jsonl"
valid_fraction = 0.25
context = 16
[task]
kind = "preference"
"#;

pub fn file(folder: &Path, name: &str, tables: &str) {
    experiment(folder, name, &[DECODER, TRAINING, tables]);
}

/// Writes a text of letters, and pairs in which the better text has a letter twice.
fn files(folder: &Path) {
    let letter = |n: usize| char::from(b'a' + (n % 4) as u8);
    let word = |n: usize| format!("{}{}{}", letter(n), letter(n / 4), letter(n * n + 1));
    let corpus: String = (0..200)
        .map(|n| format!("{} {}\n", word(n), word(n + 7)))
        .collect();
    fs::write(folder.join("corpus.txt"), corpus).unwrap();
    let pair = |n: usize| {
        let (a, b) = (letter(n), letter(n + 1));
        let pair = json!({ "prompt": format!("{} ", word(n)), "chosen": format!("{a}{a}"), "rejected": format!("{a}{b}{b}") });
        format!("{pair}\n")
    };
    let pairs: String = (0..24).map(pair).collect();
    fs::write(folder.join("pairs.jsonl"), pairs).unwrap();
}

/// Creates a folder with a trained base run.
pub fn with_base() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    files(folder.path());
    file(folder.path(), "base", BASE);
    file(folder.path(), "preferred", PREFERRED);
    good(folder.path(), &["train", "base.toml", "--quiet"]);
    folder
}

#[test]
fn a_run_from_texts_resumes_exactly_and_is_used_as_a_language_model() {
    let folder = with_base();
    let at = folder.path();
    good(at, &["check", "preferred.toml"]);
    good(at, &["plan", "preferred.toml", "--no-probe"]);
    resumes_exactly(at, "preferred", [2, 4]);
    assert!(weights(at, "preferred", 4) != weights(at, "base", 4));
    let journal = text(at, "checkpoints/preferred/metrics.jsonl");
    assert!(journal.contains("reward_accuracy") && journal.contains("reward_margin"));
    assert!(!journal.contains("perplexity"), "{journal}");
    let print: Value =
        serde_json::from_str(&text(at, "checkpoints/preferred/teacher.json")).unwrap();
    let begun: Value = serde_json::from_str(&text(at, "checkpoints/preferred/init.json")).unwrap();
    assert_eq!(print["sha256"], begun[0]["sha256"]);
    let said = good(at, &["eval", "checkpoints/preferred"]);
    assert!(
        said.contains("reward_accuracy") && !said.contains("perplexity"),
        "{said}"
    );
    // Runs of both tasks can begin from each other.
    let back = BASE.replace("[task]", "[init]\nfrom = \"checkpoints/preferred\"\n[task]");
    let back = back.replace("[tokenizer]\nkind = \"char\"\nend_of_text = \"\\n\"\n", "");
    file(at, "back", &back);
    good(at, &["train", "back.toml", "--quiet"]);
    // Without its reference, a policy generates and is exported; a comparison with the reference is refused.
    fs::rename(at.join("checkpoints/base"), at.join("moved")).unwrap();
    let written = [
        "generate",
        "checkpoints/preferred",
        "--prompt",
        "ab",
        "--tokens",
        "3",
    ];
    good(at, &written);
    good(at, &["export", "checkpoints/preferred", "exported"]);
    let config: Value = serde_json::from_str(&text(at, "exported/config.json")).unwrap();
    assert_eq!(config["architectures"], json!(["GPT2LMHeadModel"]));
    let said = refused(at, &["eval", "checkpoints/preferred"]);
    assert!(
        said.contains("[init] from") && said.contains("where it is now"),
        "{said}"
    );
    // The same weights elsewhere are the same reference; other weights are another one.
    let further = [
        "resume",
        "checkpoints/preferred",
        "--quiet",
        "--set",
        "train.steps=5",
    ];
    good(at, &[&further[..], &["--set", "init.from=moved"]].concat());
    good(
        at,
        &[
            "train",
            "base.toml",
            "--quiet",
            "--set",
            "seed=2",
            "--run",
            "other",
        ],
    );
    let other = ["--set", "train.steps=6", "--set", "init.from=other"];
    let said = refused(
        at,
        &[&["resume", "checkpoints/preferred"][..], &other].concat(),
    );
    assert!(
        said.contains("is not the reference that the run began with"),
        "{said}"
    );
}

#[test]
fn another_run_may_be_the_reference() {
    let folder = with_base();
    let at = folder.path();
    good(
        at,
        &[
            "train",
            "base.toml",
            "--quiet",
            "--set",
            "seed=2",
            "--set",
            "name=other",
        ],
    );
    let set = [
        "--set",
        "task.reference=checkpoints/other",
        "--set",
        "task.reference_checkpoint=2",
    ];
    good(
        at,
        &[&["train", "preferred.toml", "--quiet"][..], &set].concat(),
    );
    let print: Value =
        serde_json::from_str(&text(at, "checkpoints/preferred/teacher.json")).unwrap();
    assert_eq!(print["step"], 2);
    let resolved = text(at, "checkpoints/preferred/resolved.toml");
    assert!(resolved.contains("../other"), "{resolved}");
    good(at, &["eval", "checkpoints/preferred"]);
    // Adapters on frozen weights, with the initial weights as reference.
    let tables = format!("{PREFERRED}[lora]\nrank = 2\nalpha = 4.0\n");
    file(at, "adapted", &tables);
    good(at, &["train", "adapted.toml", "--quiet"]);
    good(at, &["eval", "checkpoints/adapted"]);
}

#[test]
fn a_run_from_messages_is_written_by_the_template_of_its_base() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let message = |role: &str, content: &str| json!({ "role": role, "content": content });
    let chat = |n: usize| json!({ "messages": [message("user", &format!("say {}", n % 5)), message("assistant", "yes")] });
    let chats: String = (0..20).map(|n| format!("{}\n", chat(n))).collect();
    fs::write(at.join("chats.jsonl"), chats).unwrap();
    let pair = |n: usize| {
        let asked = message("user", &format!("say {}", n % 5));
        match n % 2 {
            0 => {
                json!({ "prompt": [asked], "chosen": [message("assistant", "yes")], "rejected": [message("assistant", "sya")] })
            }
            _ => {
                json!({ "chosen": [asked, message("assistant", "yes")], "rejected": [asked, message("assistant", "no")] })
            }
        }
    };
    let pairs: String = (0..20).map(|n| format!("{}\n", pair(n))).collect();
    fs::write(at.join("pairs.jsonl"), pairs).unwrap();
    let tables = "[data]\nkind = \"conversations\"\npath = \"chats.jsonl\"\ncontext = 64\n[tokenizer]\nkind = \"byte\"\n[task]\n\
                  kind = \"causal_lm\"\n";
    file(at, "base", tables);
    good(at, &["train", "base.toml", "--quiet"]);
    file(
        at,
        "preferred",
        &PREFERRED.replace("context = 16", "context = 64"),
    );
    let ipo = ["--set", "task.loss=\"ipo\"", "--set", "task.beta=0.5"];
    good(
        at,
        &[&["train", "preferred.toml", "--quiet"][..], &ipo].concat(),
    );
    good(at, &["eval", "checkpoints/preferred"]);
    assert!(
        at.join("checkpoints/preferred/chat_template.json")
            .is_file()
    );
    // Pairs of plain texts keep the chat template of their base; a run on them continues texts.
    let said = good(at, &["train", "preferred.toml", "--set", "name=again"]);
    assert!(said.contains("next: formwork chat"), "{said}");
    let pair =
        |n: usize| json!({ "prompt": format!("say {n} "), "chosen": "yes", "rejected": "no" });
    let pairs: String = (0..20).map(|n| format!("{}\n", pair(n))).collect();
    fs::write(at.join("pairs.jsonl"), pairs).unwrap();
    let said = good(at, &["train", "preferred.toml", "--set", "name=plain"]);
    assert!(said.contains("next: formwork generate"), "{said}");
}
