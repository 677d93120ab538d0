//! Keys that do not fit completions sampled by the model itself: refused with their places.

use super::runs::{REWARDED, file, with_base};
use crate::in_folder::refused;

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let folder = with_base();
    let at = folder.path();
    for (sets, wanted) in [
        (
            vec!["task.group_size=1"],
            "group_size = 1 is not between 2 and 4096",
        ),
        (
            vec!["task.temperature=0.0"],
            "temperature = 0.0 must be above 0",
        ),
        (vec!["task.top_k=0"], "top_k = 0 must be at least 1"),
        (vec!["task.top_k=1"], "all completions of a group are equal"),
        (vec!["task.top_p=1.5"], "top_p = 1.5 is not in (0, 1]"),
        (vec!["task.max_new_tokens=0"], "allows no tokens"),
        (
            vec!["task.max_new_tokens=40"],
            "max_new_tokens = 40 does not fit: rows have 6 tokens",
        ),
        (
            vec!["task.updates=0"],
            "updates = 0 is not between 1 and 1024",
        ),
        (
            vec!["task.updates=1", "task.epsilon=0.2"],
            "epsilon = 0.2 has no effect with updates = 1",
        ),
        (vec!["task.epsilon=1.0"], "epsilon = 1.0 must be below 1"),
        (
            vec!["task.epsilon_high=-0.1"],
            "epsilon_high = -0.1 must be above 0",
        ),
        (vec!["task.beta=-1.0"], "beta = -1.0"),
        (
            vec!["task.beta=0.0", "task.reference=checkpoints/base"],
            "reference has no effect with beta = 0.0",
        ),
        (
            vec!["task.reference_checkpoint=2"],
            "reference_checkpoint has no effect without reference",
        ),
        (
            vec!["task.loss=\"dapo\""],
            "micro_batch_size = 2 splits a step of 4 prompts",
        ),
        (
            vec!["train.batch_tokens=64"],
            "set batch_size, the prompts of a step",
        ),
        (vec!["train.dtype=\"bf16\""], "16 bits cannot represent"),
        (
            vec!["train.spike_factor=3.0"],
            "spike_factor = 3.0 is a multiple of a mean loss above 0",
        ),
        (vec!["task.reward={kind=\"exact\", path=\"x\"}"], "path"),
        (
            vec!["model.kind=\"encoder\""],
            "is not for [model] kind = \"encoder\"",
        ),
    ] {
        let sets: Vec<&str> = sets.into_iter().flat_map(|set| ["--set", set]).collect();
        let said = refused(at, &[&["check", "rewarded.toml"][..], &sets].concat());
        assert!(said.contains(wanted), "{sets:?}: {said}");
    }
    let said = refused(at, &["lr-find", "rewarded.toml"]);
    assert!(said.contains("has no learning-rate range test"), "{said}");
    assert!(said.contains("rewarded.toml:"), "{said}");
    let arithmetic = "kind = \"arithmetic\"\ndigits = 1\nvalid_items = 8";
    for (data, wanted) in [
        (
            "kind = \"right_and_wrong\"\ndigits = 1",
            "provides a better and a worse text",
        ),
        (
            "kind = \"random_tokens\"\nvocab_size = 20\ncontext = 8",
            "have no answers that mark where a prompt ends",
        ),
    ] {
        file(at, "other", &REWARDED.replace(arithmetic, data));
        let said = refused(at, &["check", "other.toml"]);
        assert!(said.contains(wanted), "{data}: {said}");
    }
    let alone = REWARDED.replace("[init]\nfrom = \"checkpoints/base\"\n", "");
    file(at, "alone", &alone);
    let said = refused(at, &["check", "alone.toml"]);
    assert!(said.contains("has no reference: set [init] from"), "{said}");
}
