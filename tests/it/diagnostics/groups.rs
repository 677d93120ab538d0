//! Layers in groups: correct forms, and the messages about wrong ones.

use super::judged;
use formwork::experiment::resolved_toml;
use formwork::model::ModelConfig;

/// An experiment with these lines in its `[model]`.
fn text(model: &str) -> String {
    format!(
        "name = \"x\"\n[model]\nd_model = 16\n{model}\n[task]\nkind = \"causal_lm\"\n[data]\nkind = \"random_tokens\"\n\
         vocab_size = 7\ncontext = 8\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 1\n"
    )
}

/// A decoder with a group of these lines.
fn group(lines: &str) -> String {
    format!("[[model.layers]]\n{lines}\n")
}

const DENSE: &str =
    "attention = { kind = \"multi_head\", n_heads = 2 }\nfeed_forward = { kind = \"dense\" }";
const BANDED: &str = "attention = { kind = \"sliding_window\", n_heads = 2, window = 3 }\nfeed_forward = { kind = \"gated\" }";

fn says(model: &str, rule: &str) {
    match judged(&text(model), &[]) {
        Ok(_) => panic!("nothing is wrong with\n{model}"),
        Err(error) => {
            let found = error.to_string();
            assert!(found.contains(rule), "{found}\n  wanted {rule}");
            assert_eq!(error.exit_status(), 2);
        }
    }
}

#[test]
fn groups_are_read_and_their_resolved_form_is_the_same() {
    let groups = group(&format!("repeat = 2\n{DENSE}")) + &group(BANDED);
    for (depth, blocks) in [("", 3), ("n_layers = 6\n", 6)] {
        let loaded = judged(&text(&format!("kind = \"decoder\"\n{depth}{groups}")), &[]).unwrap();
        let ModelConfig::Decoder(model) = &loaded.experiment.model else {
            panic!("a decoder");
        };
        assert_eq!((model.n_layers(), model.layers.len()), (blocks, 2));
        let resolved = resolved_toml(&loaded.experiment);
        // Keys that the groups replace are not written out.
        let model_table = resolved.split("[task]").next().unwrap();
        assert_eq!(model_table.matches("multi_head").count(), 1, "{resolved}");
        let again = judged(&resolved, &[]).unwrap_or_else(|e| panic!("{e}\n{resolved}"));
        assert_eq!(again.experiment, loaded.experiment);
    }
}

#[test]
fn a_group_has_keys_of_its_own() {
    let of = |lines: &str| format!("kind = \"decoder\"\n{}", group(lines));
    says(
        &of(&format!("{DENSE}\nrepeats = 2")),
        "did you mean `repeat`?",
    );
    says(
        &of("repeat = 2"),
        "a group has no layer that mixes positions",
    );
    says(
        &of(&format!("repeat = 0\n{DENSE}")),
        "repeat = 0 is not between 1 and 1000",
    );
    says(
        &of("attention = { kind = \"multi_head\", n_heads = 3 }"),
        "d_model = 16 is not a multiple of",
    );
    says(
        &of(&format!("{DENSE}\ncross = {{ kind = \"multi_head\" }}")),
        "cross has no effect: the stack has no memory to attend to",
    );
}

#[test]
fn groups_agree_with_what_stands_beside_them() {
    let groups = group(DENSE) + &group(BANDED);
    says(
        &format!("kind = \"decoder\"\nn_layers = 3\n{groups}"),
        "n_layers = 3 is not a multiple of 2, the number of blocks in [[model.layers]]",
    );
    says(
        &format!("kind = \"decoder\"\nfeed_forward = {{ kind = \"gated\" }}\n{groups}"),
        "feed_forward has no effect: the layers are in [[model.layers]]",
    );
    let unlike = group(DENSE) + &group("attention = { kind = \"multi_head\", n_heads = 4 }");
    says(
        &format!("kind = \"decoder\"\nposition = {{ kind = \"rotary\" }}\n{unlike}"),
        "the position scheme has one shape for all layers",
    );
    // Learned positions are added to the embeddings, so heads may differ.
    judged(&text(&format!("kind = \"decoder\"\n{unlike}")), &[]).unwrap();
}

/// Attention entropy is measured if some layer has attention weights; the resolved experiment says whether it is.
#[test]
fn a_sweep_over_attentions_may_measure() {
    for (kind, measured) in [("multi_head", true), ("linear", false)] {
        let model = format!(
            "kind = \"decoder\"\nattention = {{ kind = \"{kind}\", n_heads = 2 }}\n[diagnostics]\nevery = 1"
        );
        let loaded = judged(&text(&model), &[]).unwrap();
        let found = loaded.experiment.diagnostics.unwrap().attention_entropy;
        assert_eq!(found, measured, "{kind}");
        let resolved = resolved_toml(&loaded.experiment);
        let again = judged(&resolved, &[]).unwrap().experiment;
        assert_eq!(again.diagnostics, loaded.experiment.diagnostics, "{kind}");
    }
}
