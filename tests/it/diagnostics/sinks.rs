//! Faults of attention sinks and gates where the kind of attention does not support them.

use super::{RIGHT, judged, says};

fn edited(old: &str, new: &str) -> String {
    assert!(RIGHT.contains(old));
    RIGHT.replace(old, new)
}

#[test]
fn sinks_where_they_have_no_place() {
    let with = |keys: &str| edited("n_heads = 6, n_kv_heads = 2", keys);
    let placed = with("n_heads = 6, n_kv_heads = 2, sinks = \"learned\"");
    assert!(judged(&placed, &[]).is_ok());
    let kinds = ["linear", "local", "performer"];
    for kind in kinds {
        let set = format!("model.attention={{ kind = \"{kind}\", n_heads = 6, sinks = \"zero\" }}");
        let error = judged(RIGHT, &[set])
            .expect_err("sinks have no place")
            .to_string();
        let rule = format!("kind = \"{kind}\" does not support sinks here");
        assert!(error.contains(&rule), "{error}");
    }
    let rotary = "{ kind = \"rotary\", theta = 10000.0 }";
    let distances = placed.replace(rotary, "\"shaw\"");
    says(
        &distances,
        "sinks cannot be combined with distance vectors (kind = \"shaw\")",
    );
    says(
        &with("n_heads = 6, n_kv_heads = 2, sinks = \"learnt\""),
        "learned",
    );
    says(
        &with("n_heads = 6, n_kv_heads = 2, gate = \"element\""),
        "elementwise",
    );
}
