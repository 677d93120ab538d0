//! Faults of sense of `[train] replay`; replayed steps are tested in `on_device`.

use crate::binary::{failure, shipped};

#[test]
fn keys_that_do_not_go_with_it_are_faults() {
    let file = shipped("experiments/smoke/tiny.toml");
    for (sets, words) in [
        (
            &[][..],
            "replay = true has no effect: device = \"flex\" cannot record launches",
        ),
        (
            &["optimizer={kind=\"lamb\",lr=1e-3}"],
            "replay = true needs an optimizer that updates weights and moments in place: [optimizer] kind = \"adamw\"",
        ),
        (
            &["train.on_divergence=\"skip\""],
            "replay = true needs steps without decisions of the host",
        ),
        (
            &["train.spike_factor=3.0"],
            "replay = true needs steps without decisions of the host",
        ),
        (
            &["train.carry_state=true"],
            "replay = true cannot record the state that rows pass on",
        ),
        (
            &["train.dtype=\"bf16\""],
            "replay = true needs dtype = \"f32\" or \"mixed_bf16\"",
        ),
    ] {
        let mut arguments = vec!["check".to_string(), file.display().to_string()];
        for set in [&["train.replay=true"], sets].concat() {
            arguments.extend(["--set".into(), set.to_string()]);
        }
        let (status, message) = failure(&arguments);
        assert_eq!(status, 2, "{message}");
        assert!(message.contains(words), "{words}: {message}");
    }
}
