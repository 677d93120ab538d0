//! Refused preference experiments, with the places of their faults.

use super::runs::{PREFERRED, file, with_base};
use crate::in_folder::{refused, run, text};
use serde_json::json;
use std::fs;

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let folder = with_base();
    let at = folder.path();
    let lines = text(at, "pairs.jsonl");
    for (line, wanted) in [
        (
            json!({ "prompt": "ab ", "chosen": "cc" }),
            "pairs.jsonl:25: no field `rejected`",
        ),
        (
            json!({ "prompt": "ab ", "chosen": "cc", "rejected": "cc" }),
            "pairs.jsonl:25: `chosen` and `rejected` are the same",
        ),
        (
            json!({ "prompt": "ab ", "chosen": "cc", "rejected": "XY" }),
            "pairs.jsonl:25: ",
        ),
    ] {
        fs::write(at.join("pairs.jsonl"), format!("{lines}{line}\n")).unwrap();
        let said = refused(at, &["train", "preferred.toml", "--quiet"]);
        assert!(said.contains(wanted), "{line}: {said}");
    }
    fs::write(at.join("pairs.jsonl"), &lines).unwrap();
    let long = "b".repeat(30);
    let long = json!({ "prompt": format!("{long} "), "chosen": "a", "rejected": "b" });
    fs::write(at.join("pairs.jsonl"), format!("{lines}{long}\n")).unwrap();
    let output = run(at, &["check", "preferred.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.contains("1 pair(s) of the"),
        "{said}"
    );
    let nothing = PREFERRED.replace("[init]\nfrom = \"checkpoints/base\"", "");
    file(
        at,
        "nothing",
        &format!("{nothing}[tokenizer]\nkind = \"char\"\n"),
    );
    let said = refused(at, &["check", "nothing.toml"]);
    assert!(said.contains("has no reference: set [init] from"), "{said}");
    let hides =
        "cannot hide documents from each other, which [data] kind = \"preferences\" requires";
    for (sets, wanted) in [
        (
            vec!["model.attention={kind=\"memory_compressed\", n_heads=2}"],
            hides,
        ),
        (vec!["task.beta=0.0"], "beta = 0.0 must be above 0"),
        (vec!["task.label_smoothing=0.5"], "below 0.5"),
        (
            vec!["task.label_smoothing=0.1", "task.loss=\"hinge\""],
            "has no effect with loss = \"hinge\"",
        ),
        (
            vec!["task.reference_checkpoint=2"],
            "reference_checkpoint has no effect without reference",
        ),
        (
            vec!["task.reference=checkpoints/none"],
            "[task] reference = \"checkpoints/none\"",
        ),
        (
            vec!["init.checkpoint=\"average:2\""],
            "a reference must be a single checkpoint",
        ),
        (
            vec!["task={kind=\"causal_lm\"}"],
            "provides a better and a worse text",
        ),
        (vec!["data.context=4"], "the minimum is 8"),
    ] {
        let sets: Vec<&str> = sets.into_iter().flat_map(|set| ["--set", set]).collect();
        let said = refused(at, &[&["check", "preferred.toml"][..], &sets].concat());
        assert!(said.contains(wanted), "{sets:?}: {said}");
    }
}
