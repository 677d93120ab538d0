//! Runs that begin from an imported one, exported as folders of its family if they have the layers of its class.

use super::padding::exported;
use super::shown;
use super::ties::config;
use crate::binary::{failure, formwork, output};
use std::path::Path;

const BERT: &str = "preset = \"bert-base\"\nn_layers = 1\nd_model = 16\nattention = { n_heads = 2 }\n\
                    feed_forward = { d_ff = 32 }\nposition = { kind = \"learned\" }\n";

/// A run of masked-token prediction has no pooler, which the class for text classification needs.
#[test]
fn a_run_that_lost_its_family_is_told_so_when_it_begins() {
    let (work, run, out) = exported("kind = \"byte\"\n", BERT);
    output(&["export", &run, &out]);
    let at = |name: &str| shown(&work.path().join(name));
    let imported = at("bert");
    output(&["import", &out, &imported]);
    let rows = "good film\tpos\nbad film\tneg\n".repeat(6);
    std::fs::write(at("rows.tsv"), rows).unwrap();
    let begun = |name: &str, pooler: &str, new: &str| {
        let text = format!(
            "extends = \"bert/resolved.toml\"\nname = \"tuned\"\ntask = {{ kind = \"text_classification\" }}\n\
             [model]\n{pooler}[data]\nkind = \"labelled_text\"\npath = \"rows.tsv\"\ncontext = 12\n\
             [init]\nfrom = {imported:?}\nnew = [{new}]\nskip = [\"^head\"]\n\
             [optimizer]\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 2\n"
        );
        std::fs::write(at("tuned.toml"), text).unwrap();
        let run = at(name);
        let file = at("tuned.toml");
        let arguments = ["train", &file, "--plain", "--run", &run];
        let done = formwork(&arguments).output().unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        assert!(done.status.success(), "{said}");
        (run, said)
    };
    let lost = "unlike the other run, this run cannot be exported as a Hugging Face folder";
    let why = "nearest to `bert`, but model.pooler is false instead of true";
    let (plain, said) = begun("plain", "", "\"^head\"");
    assert!(said.contains(lost) && said.contains(why), "{said}");
    let (status, said) = failure(&["export", &plain, &at("none")]);
    assert!(status == 2 && said.contains(why), "{said}");

    let (pooled, said) = begun("pooled", "pooler = true\n", "\"^head\", \"pooler\"");
    assert!(!said.contains(lost), "{said}");
    output(&["export", &pooled, &at("again")]);
    assert_eq!(config(Path::new(&at("again")))["model_type"], "bert");

    // An imported run's training settings are placeholders, and a run that would inherit them is refused.
    let file = at("tuned.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (text, _) = text.split_once("[optimizer]").unwrap();
    std::fs::write(&file, text).unwrap();
    let (status, said) = failure(&["check", &file]);
    assert_eq!(status, 2, "{said}");
    for part in [
        "[optimizer] lr = 0.001 is a placeholder",
        "[train] steps = 1 is a placeholder",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // `lr-find` looks for the learning rate itself and has its own steps.
    let warm = ["--set", "schedule.warmup_steps=50"];
    let tried = [&["lr-find", &file, "--steps", "10", "--json"], &warm[..]].concat();
    assert!(output(&tried).contains("\"lr\""));
    let own = ["--set", "optimizer.lr=2e-5", "--set", "train.epochs=1"];
    output(&[&["check", &file][..], &own].concat());
}
