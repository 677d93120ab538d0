//! Encoder-decoders on pairs: the special tokens that export writes, and Marian's two tokenizers over one vocabulary.

use super::files::copy;
use super::ties::{config, import};
use super::{fixture, shown};
use crate::binary::{failure, output, shipped};
use formwork::train::run_manifest;
use serde_json::Value;
use std::path::Path;

const TRAINED: &str = "[optimizer]
kind = \"sgd\"
lr = 0.1
[train]
steps = 1
batch_size = 2
[data]
kind = \"pairs\"
source = \"a.txt\"
target = \"b.txt\"
valid_source = \"a.txt\"
valid_target = \"b.txt\"
max_len = 16
";

/// A folder with three pairs of texts.
fn pairs() -> tempfile::TempDir {
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("a.txt"), "one\ntwo\nsix\n").unwrap();
    std::fs::write(work.path().join("b.txt"), "eins\nzwei\nsechs\n").unwrap();
    work
}

fn json(dir: &str, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(Path::new(dir).join(name)).unwrap()).unwrap()
}

/// Classes of transformers have default ids for absent keys. Marian's is no token of a small vocabulary. They derive the
/// decoder's inputs from `labels` with `decoder_start_token_id`.
#[test]
fn an_encoder_decoder_says_which_tokens_are_special() {
    let work = pairs();
    let at = |name: &str| shown(&work.path().join(name));
    for (preset, heads) in [
        ("bart-base", "{ n_heads = 2 }"),
        ("marian-base", "{ n_heads = 2 }"),
        ("t5-small", "{ n_heads = 2, d_head = 8 }"),
    ] {
        let text = format!(
            "name = \"ids\"\n{TRAINED}[tokenizer]\nkind = \"byte\"\n[task]\nkind = \"translation\"\n[model]\n\
             preset = \"{preset}\"\nn_encoder_layers = 1\nn_decoder_layers = 1\nd_model = 16\nattention = {heads}\n\
             feed_forward = {{ d_ff = 32 }}\n"
        );
        let (file, run, out) = (at("x.toml"), at(preset), at(&format!("{preset}-hf")));
        std::fs::write(&file, text).unwrap();
        output(&["train", &file, "--quiet", "--run", &run]);
        output(&["export", &run, &out]);
        let (said, generation) = (
            config(Path::new(&out)),
            json(&out, "generation_config.json"),
        );
        for key in [
            "bos_token_id",
            "eos_token_id",
            "pad_token_id",
            "decoder_start_token_id",
        ] {
            assert!(
                said[key].as_u64().is_some_and(|id| id >= 256),
                "{preset}: {key} of {said}"
            );
            assert_eq!(said[key], generation[key], "{preset}: {key}");
        }
        assert_ne!(said["eos_token_id"], said["pad_token_id"], "{preset}");
    }
}

/// `source.spm` and `target.spm` split texts differently, and `vocab.json` numbers the pieces of both: one vocabulary, one
/// embedding table.
#[test]
fn marian_s_two_tokenizers_are_one_vocabulary() {
    let work = pairs();
    let at = |name: &str| shown(&work.path().join(name));
    let (imported, tuned, out) = (at("marian"), at("tuned"), at("out"));
    output(&["import", &shown(&fixture("marian_3")), &imported]);
    let scores = output(&[
        "eval",
        &imported,
        "--data",
        &at("a.txt"),
        &at("b.txt"),
        "--json",
    ]);
    let scores: Value = serde_json::from_str(&scores).unwrap();
    assert!(
        scores["loss"].is_number() && scores["bleu"].is_number(),
        "{scores}"
    );
    let further = format!(
        "extends = \"marian/resolved.toml\"\nname = \"tuned\"\n{TRAINED}[init]\nfrom = {imported:?}\n"
    );
    std::fs::write(at("tuned.toml"), further).unwrap();
    output(&["train", &at("tuned.toml"), "--quiet", "--run", &tuned]);
    let shape = json(&tuned, "data.json");
    assert!(
        shape.get("source_vocab_size").is_none_or(Value::is_null),
        "{shape}"
    );
    output(&["eval", &tuned, "--json"]);
    output(&["export", &tuned, &out]);
    let said = config(Path::new(&out));
    assert_eq!(said["share_encoder_decoder_embeddings"], true);
    assert_eq!(said["decoder_start_token_id"], 352);
    for side in ["tokenizer.json", "target_tokenizer.json"] {
        let [before, after] = [&imported, &tuned].map(|run| json(run, side));
        assert_eq!(before["model"], after["model"], "{side}");
    }
    for side in ["source.spm", "target.spm"] {
        assert!(Path::new(&out).join(side).is_file(), "{side}");
    }
}

/// A BART decoder first reads `</s>` and the token that begins a text; transformers writes the latter if the folder forces it.
#[test]
fn export_says_which_token_stands_behind_the_first_one() {
    let work = pairs();
    let at = |name: &str| shown(&work.path().join(name));
    let bart = copy(&shipped("tests/fixtures/bart_writes"));
    let settings = bart.path().join("generation_config.json");
    let mut said = json(&shown(bart.path()), "generation_config.json");
    said.as_object_mut().unwrap().remove("forced_bos_token_id");
    std::fs::write(&settings, said.to_string()).unwrap();
    output(&["import", &shown(bart.path()), &at("bart")]);
    let further = format!(
        "extends = \"bart/resolved.toml\"\nname = \"tuned\"\n{TRAINED}[init]\nfrom = {:?}\n",
        at("bart")
    );
    std::fs::write(at("tuned.toml"), further).unwrap();
    output(&["train", &at("tuned.toml"), "--quiet", "--run", &at("tuned")]);
    output(&["export", &at("tuned"), &at("out")]);
    let written = json(&at("out"), "generation_config.json");
    assert_eq!(written["decoder_start_token_id"], 2);
    assert_eq!(written["forced_bos_token_id"], 0, "{written}");
}

/// A decoder's first token (`</s>` in BART, `<pad>` in Marian) is not the one that begins a text.
#[test]
fn a_folder_s_own_settings_of_its_tokenizer_go_out_again() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    let bart = shipped("tests/fixtures/bart_writes");
    output(&["import", &shown(&bart), &at("bart")]);
    output(&["export", &at("bart"), &at("bart-hf")]);
    let before = json(&shown(&bart), "tokenizer_config.json");
    let after = json(&at("bart-hf"), "tokenizer_config.json");
    let map = json(&at("bart-hf"), "special_tokens_map.json");
    for (key, token) in before.as_object().unwrap() {
        if key.ends_with("_token") {
            assert_eq!(&after[key], token, "{key}");
            assert_eq!(&map[key], token, "{key}");
        }
    }
    assert_eq!(
        config(Path::new(&at("bart-hf")))["decoder_start_token_id"],
        2
    );
    let told = import(&fixture("marian_3"), Path::new(&at("marian")));
    assert!(!told.contains("_lang"), "it is kept: {told}");
    output(&["export", &at("marian"), &at("marian-hf")]);
    let after = json(&at("marian-hf"), "tokenizer_config.json");
    for (key, said) in [
        ("source_lang", "en"),
        ("target_lang", "fr"),
        ("eos_token", "</s>"),
        ("pad_token", "<pad>"),
    ] {
        assert_eq!(after[key], said, "{key}");
    }
    assert!(after.get("bos_token").is_none(), "{after}");
    // Damaged settings of a run are an error instead of being left out silently.
    let kept = Path::new(&at("marian")).join("hf_tokenizer_config.json");
    std::fs::write(&kept, "[\"en\"]").unwrap();
    run_manifest::seal(Path::new(&at("marian"))).unwrap();
    let (_, said) = failure(&["export", &at("marian"), &at("again")]);
    assert!(
        said.contains("hf_tokenizer_config.json is damaged: it is not a JSON object"),
        "{said}"
    );
}
