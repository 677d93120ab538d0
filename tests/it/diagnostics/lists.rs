//! Tables in lists: each fault is reported with the line of its own key and the number of its table.

use super::{judged, judged_at};
use formwork::nn::attention;
use std::fs;

/// An experiment with a decoder; the model's other lines start at line 5.
fn text(model: &str, rest: &str) -> String {
    format!(
        "name = \"x\"\ntask = \"causal_lm\"\ndata = {{ kind = \"random_tokens\", vocab_size = 7, context = 8 }}\n[model]\n\
         {model}\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n{rest}[train]\nsteps = 1\nbatch_size = 1\n"
    )
}

fn says(text: &str, wanted: &str) {
    match judged(text, &[]) {
        Ok(_) => panic!("nothing is wrong with\n{text}"),
        Err(error) => assert_eq!(error.to_string(), wanted, "{text}"),
    }
}

/// A decoder of two groups; the lines of the second start at line 11.
fn second(lines: &str) -> String {
    text(
        &format!(
            "kind = \"decoder\"\nd_model = 16\n[[model.layers]]\n# the first\nattention = {{ kind = \"multi_head\" }}\n\
             [[model.layers]]\n{lines}"
        ),
        "",
    )
}

#[test]
fn faults_of_sense_have_the_line_and_the_number_of_their_group() {
    says(
        &second("attention = \"multi_head\"\nrepeat = 0"),
        "x.toml:12: [[model.layers]] 2: repeat = 0 is not between 1 and 1000",
    );
    says(
        &second("repeat = 2"),
        "x.toml:10: [[model.layers]] 2: a group has no layer that mixes positions; add attention = { … } or mixer = { … }",
    );
    says(
        &second("[model.layers.attention]\nkind = \"multi_head\"\n\nsoftcap = -1.0"),
        "x.toml:14: [[model.layers]] 2 attention: softcap = -1.0 must be above 0",
    );
    says(
        &second(
            "attention.kind = \"multi_head\"\nattention.qk_norm = { kind = \"rms\", eps = 0.0 }",
        ),
        "x.toml:12: [[model.layers]] 2 attention.qk_norm: eps = 0.0 must be above 0",
    );
    says(
        &second("attention = { kind = \"multi_head\", n_heads = 3 }"),
        "x.toml:6: [model] d_model = 16 is not a multiple of [[model.layers]] 2 attention n_heads = 3; change one, or set d_head",
    );
    // Faults in several groups, each reported at its own line.
    says(
        &second(
            "repeat = 0\nattention = \"multi_head\"\n[[model.layers]]\nattention = \"multi_head\"\nrepeat = 0",
        ),
        "x.toml:11: [[model.layers]] 2: repeat = 0 is not between 1 and 1000\n\
         x.toml:15: [[model.layers]] 3: repeat = 0 is not between 1 and 1000",
    );
}

#[test]
fn positions_of_a_group_alone() {
    let of_group =
        |kind: &str| format!("attention = \"multi_head\"\nposition = {{ kind = \"{kind}\" }}");
    says(
        &second(&of_group("learned")),
        "x.toml:12: [[model.layers]] 2 position: kind = \"learned\" cannot be the scheme of only some blocks; allowed: `none`, \
         `rotary`, `alibi`; set it as the [model] position",
    );
    says(
        &second(&of_group("none")),
        "x.toml:12: [[model.layers]] 2 position: kind = \"none\" has no effect: the model's position = \"learned\" does not act \
         in attention; remove it",
    );
    says(
        &second("mixer = { kind = \"lstm\" }\nposition = \"rotary\""),
        "x.toml:12: [[model.layers]] 2 position: kind = \"rotary\" has no effect: the group has no attention; remove position",
    );
    says(
        &second("attention = \"multi_head\"\nposition = { kind = \"rotary\", theta = -1.0 }"),
        "x.toml:12: [[model.layers]] 2 position: theta = -1.0 must be above 0",
    );
    says(
        &second("attention = { kind = \"multi_head\", qk_norm_across = true }"),
        "x.toml:11: [[model.layers]] 2 attention: qk_norm_across = true has no effect without a qk_norm; set qk_norm = { kind = \
         \"rms\" }, or remove it",
    );
}

#[test]
fn faults_of_form_have_the_line_and_the_number_of_their_group() {
    let kinds: Vec<String> = attention::KINDS
        .iter()
        .map(|kind| format!("{:?}", kind.kind))
        .collect();
    says(
        &second("attention = { kind = \"multi_hed\" }"),
        "x.toml:11: [[model.layers]] 2 attention: kind = \"multi_hed\" is not known; did you mean `multi_head`?",
    );
    says(
        &second("[model.layers.attention]\nkind = \"multi_head\"\nheads = 2"),
        "x.toml:13: [[model.layers]] 2 attention has no key `heads`; did you mean `n_heads`?",
    );
    says(
        &second("repeats = 2"),
        "x.toml:11: [[model.layers]] 2 has no key `repeats`; did you mean `repeat`?",
    );
    says(
        &second("attention = { n_heads = 2 }"),
        &format!(
            "x.toml:11: [[model.layers]] 2 attention has no `kind`; it must be one of {}",
            kinds.join(", ")
        ),
    );
    says(
        &second("repeat = \"many\""),
        "x.toml:11: [[model.layers]] 2: repeat = \"many\" must be a whole number, 1 to 1000",
    );
    says(
        &second("feed_forward = 3"),
        "x.toml:11: [[model.layers]] 2: feed_forward = 3 must be a table with a `kind`, or the kind alone as a string",
    );
}

#[test]
fn tables_in_brackets_count_alike() {
    let groups = "kind = \"decoder\"\nd_model = 16\nlayers = [\n  { attention = \"multi_head\" },\n  { attention = \
                  \"multi_head\",\n    repeat = 0 },\n]";
    says(
        &text(groups, ""),
        "x.toml:10: [[model.layers]] 2: repeat = 0 is not between 1 and 1000",
    );
    let optimizer = "groups = [\n  { match = \"norm\", lr_scale = 0.5 },\n  { match = \"bias\" },\n  { match = \"x\", lr_scale \
                     = -1.0 },\n]\n";
    says(
        &text("kind = \"decoder\"", optimizer),
        "x.toml:11: [[optimizer.groups]] 2: group `bias` has no effect; set `lr_scale` or `weight_decay`\n\
         x.toml:12: [[optimizer.groups]] 3: lr_scale = -1 of `x` must be 0 or more",
    );
    let arms = "[[ablation.arms]]\nname = \"a\"\n[[ablation.arms]]\nname = \"a\"\nset = { \"seed\" = 3 }\n";
    says(
        &text("kind = \"decoder\"", arms),
        "x.toml:12: [[ablation.arms]] 2: two arms are named `a`\nx.toml:13: [[ablation.arms]] 2: `seed` cannot be an axis: \
         `seeds` sets how many seeds each arm gets",
    );
}

/// Groups in a file replace those of the file it extends, and faults have the lines of their own file.
#[test]
fn groups_that_are_extended_have_the_lines_of_their_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.toml");
    fs::write(&base, second("attention = \"multi_head\"\nrepeat = 0")).unwrap();
    let above = folder.path().join("above.toml");
    let judge = |text: &str| judged_at(&above, text, &[]).unwrap_err().to_string();
    assert_eq!(
        judge("extends = \"base.toml\"\nseed = 3\n"),
        format!(
            "{}:12: [[model.layers]] 2: repeat = 0 is not between 1 and 1000",
            base.display()
        )
    );
    let own = "extends = \"base.toml\"\n\n[[model.layers]]\nattention = \"multi_head\"\n[[model.layers]]\nattention = \
               \"multi_head\"\n[[model.layers]]\n\nmixer = { kind = \"lstm\" }\nattention = \"multi_head\"\n";
    assert_eq!(
        judge(own),
        format!(
            "{}:9: [[model.layers]] 3: a group has both attention and a mixer; remove one, or make two groups",
            above.display()
        )
    );
}

#[test]
fn a_table_that_is_written_as_a_list_is_told_with_its_line() {
    let right = text(
        "kind = \"decoder\"\nd_model = 16\nn_layers = 1\nattention = \"multi_head\"",
        "",
    );
    judged(&right, &[]).unwrap();
    for (table, line) in [("model", 4), ("optimizer", 9), ("train", 12)] {
        let wrong = right.replace(&format!("[{table}]"), &format!("[[{table}]]"));
        let told = format!(
            "x.toml:{line}: write [{table}], not [[{table}]], which makes a list of tables"
        );
        says(&wrong, &told);
        says(&format!("{wrong}[[{table}]]\nseed = 1\n"), &told);
    }
    for table in ["data", "task", "tokenizer"] {
        let inline = |line: &&str| !line.starts_with(&format!("{table} ="));
        let rest: Vec<&str> = right.lines().filter(inline).collect();
        let wrong = format!("{}\n[[{table}]]\nkind = \"char\"\n", rest.join("\n"));
        let line = rest.len() + 1;
        says(
            &wrong,
            &format!(
                "x.toml:{line}: write [{table}], not [[{table}]], which makes a list of tables"
            ),
        );
    }
    says(
        &second("[[model.layers.attention]]\nkind = \"multi_head\""),
        "x.toml:11: write [model.layers.attention], not [[model.layers.attention]], which makes a list of tables",
    );
    // A list of tables in place of a table.
    says(
        &text(
            "kind = \"decoder\"\n[model.layers]\nattention = \"multi_head\"",
            "",
        ),
        "x.toml:6: [model] layers must be a list, not a table",
    );
}
