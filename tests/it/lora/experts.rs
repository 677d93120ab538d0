//! Adapters in families whose modules `peft` treats as experts: adapters that `peft` would lose are not exported.

use super::peft::base;
use super::shown;
use crate::binary::{failure, output};

/// Trains adapters on the weights of `targets`, from an imported model with 37 tokens.
fn run(model: &str, targets: &str, work: &std::path::Path) -> String {
    let at = |part: &str| shown(&work.join(part));
    output(&["import", &shown(&base(model)), &at("base")]);
    let text = format!(
        "extends = {:?}\nname = \"adapters\"\n[init]\nfrom = {:?}\n[data]\nkind = \"random_tokens\"\nvocab_size = 37\ncontext = 8\n\
         [lora]\nrank = 2\ntargets = [{targets:?}]\n[optimizer]\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 2\n",
        at("base/resolved.toml"),
        at("base")
    );
    std::fs::write(at("adapters.toml"), text).unwrap();
    output(&[
        "train",
        &at("adapters.toml"),
        "--quiet",
        "--run",
        &at("run"),
    ]);
    at("run")
}

#[test]
fn adapters_that_peft_loses_are_refused() {
    for (model, targets, module) in [
        (
            "deepseek_v3_1",
            r"\.(gate|up|down)\.weight$",
            "model.layers.0.mlp.down_proj",
        ),
        (
            "qwen3_next_1",
            r"feed_forward\.shared",
            "model.layers.0.mlp.shared_expert.down_proj",
        ),
        // Adapters of keys and values become one module of twice the rank, which is not refused; the router is.
        (
            "deepseek_v3_1",
            r"router|attention",
            "model.layers.1.mlp.gate",
        ),
    ] {
        let work = tempfile::tempdir().unwrap();
        let run = run(model, targets, work.path());
        let to = shown(&work.path().join("adapter"));
        let (status, said) = failure(&["export", &run, &to, "--adapter"]);
        assert_eq!(status, 2, "{said}");
        for word in [module, "export the merged model without --adapter"] {
            assert!(said.contains(word), "{model}: `{word}` is not in\n{said}");
        }
        assert!(!std::path::Path::new(&to).exists());
        output(&["export", &run, &to]);
    }
}

#[test]
fn adapters_of_attention_and_of_routers_of_one_rank_are_written() {
    for (model, targets) in [
        ("deepseek_v3_1", "attention"),
        ("deepseek_v3_1", "router|query"),
        ("qwen3_next_1", "router|attention"),
        ("olmoe_1", "router|query"),
        ("mixtral_1", "router|query"),
    ] {
        let work = tempfile::tempdir().unwrap();
        let run = run(model, targets, work.path());
        let to = shown(&work.path().join("adapter"));
        output(&["export", &run, &to, "--adapter"]);
    }
}
