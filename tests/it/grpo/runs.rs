//! Runs that learn from their own completions: resumed exactly, also between two updates of one sampling; evaluated, used and
//! exported as language models; rewarded by another run; and trained on conversations.

use crate::in_folder::{DECODER, experiment, good, refused, resumes_exactly, text};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The training tables of the decoder's experiment.
const TRAINING: &str = r#"[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 6
batch_size = 4
micro_batch_size = 2
checkpoint_every = 3
keep_last = 3
log_every = 1
"#;

const SUMS: &str = r#"
[data]
kind = "arithmetic"
digits = 1
valid_items = 8
[task]
kind = "causal_lm"
"#;

pub const REWARDED: &str = r#"
[init]
from = "checkpoints/base"
[data]
kind = "arithmetic"
digits = 1
valid_items = 8
[task]
kind = "grpo"
group_size = 16
updates = 2
reward = { kind = "contains" }
"#;

pub fn file(folder: &Path, name: &str, tables: &str) {
    experiment(folder, name, &[DECODER, TRAINING, tables]);
}

/// Creates a folder with a trained base run.
pub fn with_base() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "base", SUMS);
    file(folder.path(), "rewarded", REWARDED);
    // Some of its answers are right, so that rewards differ within groups.
    let long = ["--set", "train.steps=60"];
    good(
        folder.path(),
        &[&["train", "base.toml", "--quiet"][..], &long].concat(),
    );
    folder
}

/// Returns the lines of a journal without times and memory.
fn journal(folder: &Path, run: &str) -> Vec<Value> {
    let lines = text(folder, &format!("checkpoints/{run}/metrics.jsonl"));
    let lines = lines.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        let of_machine = ["_per_s", "elapsed", "memory"];
        fields.retain(|name, _| of_machine.iter().all(|part| !name.contains(part)));
        line
    });
    lines.collect()
}

#[test]
fn a_run_resumes_exactly_between_two_updates_of_one_sampling() {
    let folder = with_base();
    let at = folder.path();
    good(at, &["check", "rewarded.toml"]);
    good(at, &["plan", "rewarded.toml", "--no-probe"]);
    // The third step is the first of two updates of its sampling.
    resumes_exactly(at, "rewarded", [3, 6]);
    let kept = "checkpoints/resumed/steps/00000003/state.safetensors";
    assert!(at.join(kept).is_file(), "the completions");
    let train = |run: &str| -> Vec<Value> {
        let lines = journal(at, run).into_iter();
        lines.filter(|line| line["split"] == "train").collect()
    };
    assert_eq!(train("rewarded"), train("resumed"));
    let lines = train("rewarded");
    assert_eq!(lines.len(), 6);
    let differ = lines.iter().filter(|line| line["reward_std"] != json!(0.0));
    assert!(differ.count() > 2, "{lines:?}");
    for metric in [
        "reward",
        "reward_std",
        "frac_reward_zero_std",
        "kl",
        "clip_ratio",
        "completion_length",
        "truncated",
    ] {
        assert!(lines[5][metric].is_number(), "{metric}: {}", lines[5]);
    }
    // Both updates of a sampling use the same completions.
    for pair in lines.chunks(2) {
        assert_eq!(pair[0]["reward"], pair[1]["reward"]);
        assert_eq!(pair[0]["completion_length"], pair[1]["completion_length"]);
    }
    let said = good(at, &["eval", "checkpoints/rewarded"]);
    assert!(
        said.contains("reward") && said.contains("exact_match"),
        "{said}"
    );
    assert!(!said.contains("perplexity"), "{said}");
}

#[test]
fn a_policy_is_used_and_exported_as_a_language_model() {
    let folder = with_base();
    let at = folder.path();
    let one = [
        "--set",
        "task.updates=1",
        "--set",
        "task.beta=0.0",
        "--set",
        "task.loss=\"dr_grpo\"",
    ];
    good(
        at,
        &[&["train", "rewarded.toml", "--quiet"][..], &one].concat(),
    );
    assert!(
        !at.join("checkpoints/rewarded/teacher.json").exists(),
        "no reference"
    );
    assert!(
        !at.join("checkpoints/rewarded/steps/00000006/state.safetensors")
            .exists()
    );
    // The base run is no longer needed.
    fs::rename(at.join("checkpoints/base"), at.join("moved")).unwrap();
    good(at, &["eval", "checkpoints/rewarded"]);
    good(
        at,
        &[
            "generate",
            "checkpoints/rewarded",
            "--prompt",
            "1+2=",
            "--tokens",
            "3",
        ],
    );
    good(at, &["export", "checkpoints/rewarded", "exported"]);
    let config: Value = serde_json::from_str(&text(at, "exported/config.json")).unwrap();
    assert_eq!(config["architectures"], json!(["GPT2LMHeadModel"]));
    let back = SUMS.replace("[data]", "[init]\nfrom = \"checkpoints/rewarded\"\n[data]");
    file(at, "back", &back);
    good(at, &["train", "back.toml", "--quiet"]);
}

#[test]
fn a_run_of_rewards_tells_rewards() {
    let folder = with_base();
    let at = folder.path();
    let judge = "[data]\nkind = \"right_and_wrong\"\ndigits = 1\nvalid_items = 8\n[task]\nkind = \"reward\"\n";
    file(at, "judge", judge);
    good(at, &["train", "judge.toml", "--quiet"]);
    let reward = "task.reward={kind=\"run\", path=\"checkpoints/judge\", too_long=-1.0}";
    good(at, &["train", "rewarded.toml", "--quiet", "--set", reward]);
    let print: Value = serde_json::from_str(&text(at, "checkpoints/rewarded/reward.json")).unwrap();
    assert_eq!(print["sha256"].as_str().unwrap().len(), 64);
    good(at, &["eval", "checkpoints/rewarded"]);
    let resolved = text(at, "checkpoints/rewarded/resolved.toml");
    assert!(resolved.contains("../judge"), "{resolved}");
    // The same weights elsewhere make the same run; other weights make another one.
    let other = [
        "train",
        "judge.toml",
        "--quiet",
        "--set",
        "seed=2",
        "--set",
        "name=other",
    ];
    good(at, &other);
    let resume = [
        "resume",
        "checkpoints/rewarded",
        "--set",
        "train.steps=7",
        "--set",
    ];
    let said = refused(
        at,
        &[&resume[..], &["task.reward.path=checkpoints/other"]].concat(),
    );
    assert!(
        said.contains("is not the one that the run began with"),
        "{said}"
    );
    for (set, wanted) in [
        (
            "task.reward={kind=\"run\", path=\"checkpoints/judge\"}",
            "set too_long",
        ),
        (
            "task.reward={kind=\"run\", path=\"checkpoints/base\"}",
            "computes no rewards",
        ),
        (
            "task.reward={kind=\"run\", path=\"checkpoints/none\"}",
            "[task.reward] path",
        ),
        (
            "task.reward={kind=\"run\", path=\"checkpoints/judge\", checkpoint=\"average:2\"}",
            "rewards come from one checkpoint",
        ),
    ] {
        let said = refused(
            at,
            &["train", "rewarded.toml", "--quiet", "--fresh", "--set", set],
        );
        assert!(said.contains(wanted), "{set}: {said}");
    }
    let judge = judge.replace("digits = 1", "digits = 1\noperations = [\"-\"]");
    file(at, "minus", &judge);
    good(at, &["train", "minus.toml", "--quiet"]);
    let set = "task.reward={kind=\"run\", path=\"checkpoints/minus\", too_long=-1.0}";
    let said = refused(
        at,
        &["train", "rewarded.toml", "--quiet", "--fresh", "--set", set],
    );
    assert!(said.contains("has another tokenizer"), "{said}");
}

#[test]
fn conversations_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let row = |n: usize| json!({ "question": format!("{} more?", n % 5), "answer": format!("it is {}", n % 5 + 1) });
    let rows: String = (0..20).map(|n| format!("{}\n", row(n))).collect();
    fs::write(at.join("asked.jsonl"), rows).unwrap();
    let turns = "[[data.turns]]\nrole = \"user\"\ncontent = \"{{ question }}\"\n[[data.turns]]\nrole = \"assistant\"\ncontent = \"{{ answer }}\"\n";
    let data =
        format!("[data]\nkind = \"conversations\"\npath = \"asked.jsonl\"\ncontext = 96\n{turns}");
    let base =
        format!("{data}[tokenizer]\nkind = \"byte\"\n[decode.sampling]\nend = [10]\n[task]\n");
    file(at, "base", &format!("{base}kind = \"causal_lm\"\n"));
    good(at, &["train", "base.toml", "--quiet"]);
    let task = "kind = \"grpo\"\nbeta = 0.0\ngroup_size = 2\nmax_new_tokens = 8\nreward = { kind = \"number\" }\n";
    file(at, "rewarded", &format!("{base}{task}"));
    let begun = [
        "train",
        "rewarded.toml",
        "--quiet",
        "--set",
        "init.from=checkpoints/base",
    ];
    good(at, &begun);
    good(at, &["eval", "checkpoints/rewarded"]);
    // The end tokens of completions affect what is learned, so they cannot change.
    let resume = ["resume", "checkpoints/rewarded", "--set", "train.steps=7"];
    let other = ["--set", "decode.sampling.end=[11]"];
    let said = refused(at, &[&resume[..], &other].concat());
    assert!(
        said.contains("this key cannot change when a run is resumed"),
        "{said}"
    );
    // A template that ends with no special token needs the end token's id.
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
    fs::write(at.join("plain.jinja"), template).unwrap();
    let plain = [
        "train",
        "rewarded.toml",
        "--fresh",
        "--set",
        "data.template=plain.jinja",
        "--set",
        "decode.sampling.end=[]",
    ];
    let said = refused(at, &plain);
    assert!(said.contains("set [decode.sampling] end"), "{said}");
}
