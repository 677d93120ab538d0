//! Adapters of a run that begins from a run with adapters: they apply to the merged weights.

use super::peft::{adapter, base};
use super::{floats, shown, tensors};
use crate::binary::{formwork, output, shown as printed};
use std::path::Path;

/// Returns standard error of a command that must succeed.
fn told(arguments: &[&str]) -> String {
    let ended = formwork(arguments).output().unwrap();
    assert!(ended.status.success(), "{}", printed(&ended));
    String::from_utf8(ended.stderr).unwrap()
}

#[test]
fn second_adapters_belong_to_the_folder_of_their_own_base() {
    let work = tempfile::tempdir().unwrap();
    let at = |part: &str| shown(&work.path().join(part));
    let (hf, peft) = (shown(&base("llama_1")), shown(&adapter("llama_1")));
    output(&["import", &hf, &at("first"), "--adapter", &peft]);
    let said = told(&["export", &at("first"), &at("of-first"), "--adapter"]);
    assert!(!said.contains("merged"), "{said}");
    let text = format!(
        "extends = {:?}\nname = \"second\"\n[init]\nfrom = {:?}\n[data]\nkind = \"random_tokens\"\nvocab_size = 37\ncontext = 8\n\
         [optimizer]\nkind = \"adamw\"\nlr = 1e-2\n[train]\nsteps = 3\nbatch_size = 2\n",
        at("first/resolved.toml"),
        at("first")
    );
    std::fs::write(at("second.toml"), text).unwrap();
    let said = told(&["train", &at("second.toml"), "--run", &at("second")]);
    assert!(
        said.contains("its adapters are merged into the weights"),
        "{said}"
    );
    let said = told(&["export", &at("second"), &at("adapter"), "--adapter"]);
    let wanted = format!("formwork export {} DIR --base", at("second"));
    assert!(said.contains(&wanted), "{said}");
    // The base folder that the message names has the first run's weights with its adapters merged; with it, the second run is
    // recovered.
    output(&["export", &at("second"), &at("base"), "--base"]);
    output(&["export", &at("first"), &at("whole-first")]);
    output(&[
        "import",
        &at("base"),
        &at("again"),
        "--adapter",
        &at("adapter"),
    ]);
    output(&["export", &at("second"), &at("whole")]);
    output(&["export", &at("again"), &at("whole-again")]);
    let of = |folder: &str| tensors(&Path::new(&at(folder)).join("model.safetensors"));
    let near = |one: &str, other: &str, within: f32| {
        let (one, other) = (of(one), of(other));
        assert!(one.keys().eq(other.keys()));
        for (name, (_, bytes)) in &one {
            let pairs = floats(bytes).into_iter().zip(floats(&other[name].1));
            let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far <= within, "{name}: {far:e}");
        }
    };
    near("base", "whole-first", 0.0);
    near("whole", "whole-again", 1e-6);
}
