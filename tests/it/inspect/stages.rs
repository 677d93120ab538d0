//! Image networks whose attention, if any, cannot be drawn: every aspect that needs it gives the reason.

use super::looked::{run, trained};
use crate::binary::failure;

/// A small Swin Transformer.
const SWIN: &str = "[model]\nkind = \"swin\"\npatch_size = 2\nwindow = 4\nstages = [2, 1]\nd_model = 8\nn_heads = [2, 4]\n[data]\n\
    kind = \"shapes\"\nsize = 16\nvalid_items = 12\n[task]\nkind = \"image_classification\"\n";

#[test]
fn attention_that_is_not_kept_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, experiment, why) in [
        (
            "swin",
            SWIN,
            "has attention within windows of images, whose weights are not kept",
        ),
        ("resnet", trained::RESNET, "has no attention"),
    ] {
        let run = run(folder.path(), name, experiment);
        let out = folder.path().join("out").display().to_string();
        let wanted = format!("the model (kind = \"{name}\") {why}");
        for aspect in ["attention", "rollout"] {
            let (status, said) = failure(&["inspect", &run, aspect, "--out", &out]);
            assert_eq!(status, 2, "{said}");
            assert!(said.contains(&wanted), "{said}");
        }
        let inputs = folder.path().join("in").display().to_string();
        let arguments = ["infer", &run, "--inputs", &inputs, "--outputs", &out];
        let (status, said) = failure(&[&arguments[..], &["--attentions"]].concat());
        assert_eq!(status, 2, "{said}");
        assert!(
            said.contains(&format!("--attentions: {wanted}; remove it")),
            "{said}"
        );
        let (status, said) = failure(&["inspect", &run, "positions", "--out", &out]);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("has no positions to show"), "{said}");
        assert_eq!(
            said.contains("by distance within a window"),
            name == "swin",
            "{said}"
        );
    }
}
