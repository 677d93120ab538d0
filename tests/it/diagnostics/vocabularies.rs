//! Messages about vocabulary keys that contradict each other.

use super::{judged, says};

/// An experiment with these keys of the model and of the task.
fn text(model: &str, task: &str) -> String {
    format!(
        "name = \"x\"\n[model]\nkind = \"decoder\"\nd_model = 16\n{model}\n[task]\nkind = \"causal_lm\"\n{task}\n[data]\nkind = \
         \"random_tokens\"\nvocab_size = 70\ncontext = 8\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = \
         1\nbatch_size = 1\n"
    )
}

fn adaptive(keys: &str) -> String {
    format!("vocabulary = {{ kind = \"adaptive\"{keys} }}")
}

#[test]
fn an_adaptive_vocabulary_has_sense() {
    let right = adaptive(", cutoffs = [20, 40], div_val = 4, tie_projs = \"tails\"");
    judged(&text(&right, ""), &[]).unwrap();
    for (keys, rule) in [
        ("", "cutoffs = [] must be one or more ids above 0"),
        (", cutoffs = [0, 4]", "cutoffs = [0, 4] must be"),
        (", cutoffs = [9, 9]", "each above the one before it"),
        (
            ", cutoffs = [20, 40], div_val = 5",
            "div_val = 5 leaves no elements for the vectors of the last of 3 clusters: 16 / 5^2 is below 1",
        ),
        (
            ", cutoffs = [20], div_val = 0",
            "div_val = 0 is not between 1 and",
        ),
        (
            ", cutoffs = [20], d_embed = 0",
            "d_embed = 0 is not between 1 and",
        ),
        (
            ", cutoffs = [20], tie_projs = \"all\"",
            "tie_projs has no effect: with div_val = 1 and vectors of d_model elements there are no projections",
        ),
        (
            ", cutoffs = [20], tie_proj = \"all\"",
            "did you mean `tie_projs`?",
        ),
    ] {
        says(&text(&adaptive(keys), ""), rule);
    }
}

#[test]
fn keys_of_others_that_an_adaptive_vocabulary_has_no_use_for() {
    let right = adaptive(", cutoffs = [20]");
    says(
        &text(&right, "label_smoothing = 0.1"),
        "label_smoothing spreads probability over the whole vocabulary",
    );
    let model = format!("{right}\nhead_bias = true\ntie_embeddings = false");
    says(
        &text(&model, ""),
        "head_bias = true has no effect with vocabulary = \"adaptive\"",
    );
}
