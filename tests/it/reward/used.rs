//! Reward runs in use: on messages, and as judges of continuations.

use super::runs::{REWARDS, predicted, rewards};
use crate::in_folder::{good, refused};
use crate::preference::runs::{file, with_base};
use serde_json::{Value, json};
use std::fs;

#[test]
fn a_run_from_messages_scores_them_as_its_template_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let message = |role: &str, content: &str| json!({ "role": role, "content": content });
    let pair = |n: usize| {
        let asked = message("user", &format!("say {}", n % 5));
        json!({ "prompt": [asked], "chosen": [message("assistant", "yes")], "rejected": [message("assistant", "no")] })
    };
    let pairs: String = (0..20).map(|n| format!("{}\n", pair(n))).collect();
    fs::write(at.join("pairs.jsonl"), pairs).unwrap();
    let tables = "[data]\nkind = \"preferences\"\npath = \"pairs.jsonl\"\nvalid_fraction = 0.25\ncontext = 64\n[tokenizer]\n\
                  kind = \"byte\"\n[task]\nkind = \"reward\"\ncenter_rewards_coefficient = 0.01\n";
    file(at, "rewards", tables);
    good(at, &["train", "rewards.toml", "--quiet"]);
    let scores: Value =
        serde_json::from_str(&good(at, &["eval", "checkpoints/rewards", "--json"])).unwrap();
    assert!(scores["reward_center"].is_number(), "{scores}");
    let run = "checkpoints/rewards";
    let [told] = rewards(at, &[run, "--text", "say 1", "--pair", "yes"])[..] else {
        panic!("one reward");
    };
    let messages = json!({ "messages": [message("user", "say 1"), message("assistant", "yes")] });
    fs::write(at.join("lines.jsonl"), format!("{messages}\nsay 1\tyes\n")).unwrap();
    assert_eq!(rewards(at, &[run, "--input", "lines.jsonl"]), [told, told]);
    let chosen = predicted(at, run);
    let asked = (0..5).map(|n| {
        let asked = format!("say {n}");
        rewards(at, &[run, "--text", &asked, "--pair", "yes"])[0]
    });
    let known: Vec<f64> = asked.collect();
    for [reward, _] in chosen {
        assert!(
            known.iter().any(|known| (known - reward).abs() < 1e-5),
            "{reward}"
        );
    }
    let said = refused(at, &["classify", run, "--text", "yes"]);
    assert!(said.contains("give a prompt with --text"), "{said}");
}

/// The best of several samples is the one with the largest reward.
#[test]
fn the_best_of_several_continuations_has_the_largest_reward() {
    let folder = with_base();
    let at = folder.path();
    file(at, "rewards", REWARDS);
    good(at, &["train", "rewards.toml", "--quiet"]);
    let run = "checkpoints/rewards";
    let draws = [
        "generate",
        "checkpoints/base",
        "--prompt",
        "ab",
        "--tokens",
        "5",
        "--json",
    ];
    let all = good(at, &[&draws[..], &["--samples", "6"]].concat());
    let text_of = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["text"].as_str().unwrap().to_owned()
    };
    let texts: Vec<String> = all.lines().map(text_of).collect();
    let of = |text: &String| rewards(at, &[run, "--text", "ab", "--pair", text])[0];
    let best = texts.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let judged = ["--best-of", "6", "--reward", run];
    let told = good(at, &[&draws[..], &judged].concat());
    let told: Value = serde_json::from_str(&told).unwrap();
    let score = told["score"].as_f64().unwrap();
    assert!((score - best).abs() < 1e-6, "{texts:?} {told}");
    let plain = good(at, &[&draws[..6], &judged].concat());
    assert_eq!(plain, format!("ab{}\n", told["text"].as_str().unwrap()));
    for (flags, wanted) in [
        (vec!["--best-of", "6"], "--reward"),
        (
            vec!["--best-of", "1", "--reward", run],
            "is not between 2 and",
        ),
        (
            vec!["--best-of", "6", "--reward", run, "--temperature", "0"],
            "all continuations are the same",
        ),
        (
            vec!["--best-of", "6", "--reward", "checkpoints/base"],
            "which computes no rewards",
        ),
        (
            vec!["--best-of", "6", "--reward", run, "--samples", "2"],
            "cannot be used with",
        ),
    ] {
        let said = refused(at, &[&draws[..], &flags].concat());
        assert!(said.contains(wanted), "{flags:?}: {said}");
    }
}
