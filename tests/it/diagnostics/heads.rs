//! Keys of the layers before an encoder's heads.

use super::says;

/// An encoder with further lines, whose task has these keys.
fn text(model: &str, task: &str) -> String {
    format!(
        "name = \"x\"\ndata = {{ kind = \"grammar\" }}\ntask = {{ {task} }}\n[model]\nkind = \"encoder\"\nd_model = 16\n\
         {model}\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 1\n"
    )
}

#[test]
fn keys_of_a_pooler_that_is_not_there() {
    for (line, key) in [
        ("pooler_activation = \"gelu\"", "pooler_activation"),
        ("pooler_bias = false", "pooler_bias = false"),
        ("pooler_norm = true", "pooler_norm = true"),
        ("pooler_input = \"mean\"", "pooler_input = \"mean\""),
    ] {
        says(
            &text(line, "kind = \"masked_lm\""),
            &format!(
                "x.toml:7: [model] {key} has no effect without a pooler; set pooler = true or remove it"
            ),
        );
    }
}

#[test]
fn a_task_that_reads_the_first_position_of_a_mean() {
    says(
        &text(
            "pooler = true\npooler_input = \"mean\"",
            "kind = \"masked_lm\", pairs = \"next_sentence\"",
        ),
        "x.toml:8: [model] pooler_input = \"mean\" reads all positions, but [task] pairs and [task] pooling = \"first\" read the \
         first position; remove one of these keys",
    );
    says(
        &text(
            "pooler = true\npooler_norm = true\nnorm = \"none\"",
            "kind = \"masked_lm\"",
        ),
        "x.toml:8: [model] pooler_norm = true has no effect: norm is \"none\"; remove it",
    );
}

#[test]
fn a_bias_of_a_transform_that_is_not_there() {
    says(
        &text(
            "head_transform = false\nhead_transform_bias = false",
            "kind = \"masked_lm\"",
        ),
        "x.toml:8: [model] head_transform_bias = false has no effect without a transform; set head_transform = true or remove it",
    );
}
