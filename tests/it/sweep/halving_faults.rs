//! Faults of rungs.

use super::Place;
use crate::binary::formwork;

#[test]
fn wrong_rungs_are_refused_with_line_and_key() {
    let place = Place::new();
    let axes = "[ablation.axes]\n\"model.n_layers\" = [1, 2]\n";
    for (table, more, expected) in [
        (
            "halving = { first = 3 }",
            "",
            "wrong.toml:7: [ablation.halving] arm `n_layers=1` is not evaluated at the rung of step 3; [ablation.halving] first must be a multiple of train.eval_every = 2",
        ),
        (
            "halving = { first = 0 }",
            "",
            "wrong.toml:7: [ablation.halving] first = 0 must be 1 or more",
        ),
        (
            "halving = { first = 2, eta = 1 }",
            "",
            "wrong.toml:7: [ablation.halving] eta = 1 must be between 2 and 10000",
        ),
        (
            "halving = { first = 20 }",
            "",
            "wrong.toml:7: [ablation.halving] first = 20 must be below the 20 steps of the arms",
        ),
        (
            "halving = { frist = 2 }",
            "",
            "wrong.toml:7: [ablation.halving] has no key `frist`; did you mean `first`?",
        ),
        (
            "halving = { eta = 2 }",
            "",
            "wrong.toml:7: [ablation.halving] needs the key `first`",
        ),
        (
            "halving = { first = 2 }\nbaseline = \"n_layers=1\"",
            "",
            "wrong.toml:8: [ablation] baseline has no effect with halving",
        ),
        (
            "halving = { first = 2 }",
            "match = \"flops\"\n",
            "trains for 1",
        ),
    ] {
        let file = place.file("wrong", &format!("seeds = 1\n{table}\n{more}{axes}"));
        for command in ["sweep", "check"] {
            let mut command = formwork(&[command, "--set", "train.eval_every=2"]);
            let output = command.arg(&file).output().unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{table}: {told}");
            assert!(told.contains(expected), "{table}: {told}");
        }
    }
}

#[test]
fn arms_whose_values_do_not_compare_are_not_ranked() {
    let place = Place::new();
    let axes = "[ablation.axes]\n\"data.symbols\" = [4, 8]\n";
    let file = place.file(
        "other",
        &format!("seeds = 1\nhalving = {{ first = 2 }}\n{axes}"),
    );
    for command in ["sweep", "check"] {
        let mut command = formwork(&[command, "--set", "train.eval_every=2"]);
        let output = command.arg(&file).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        let expected = "other.toml:7: [ablation.halving] cannot rank the arms by loss: they measure it differently or on \
             different examples, because they differ in data.symbols: 4 | 8; remove halving";
        assert!(told.contains(expected), "{told}");
    }
}
