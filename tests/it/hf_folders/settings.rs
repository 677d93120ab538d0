//! Generation settings of a folder's generation_config.json: kept with the run, used by `generate` and `translate`, exported
//! unchanged; settings without effect are listed.

use super::files::copy;
use super::ties::import;
use super::{fixture, shown};
use crate::binary::{failure, output, piped, shipped};
use serde_json::{Value, json};
use std::path::Path;

const NAME: &str = "generation_config.json";

fn settings(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join(NAME)).unwrap()).unwrap()
}

/// The tiny GPT-2 with words as tokens.
pub(super) fn gpt2(settings: &Value) -> tempfile::TempDir {
    let folder = copy(&fixture("gpt2_1"));
    let vocab: serde_json::Map<String, Value> =
        (0..37).map(|id| (format!("w{id}"), json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "w36"},
    });
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(folder.path().join(NAME), settings.to_string()).unwrap();
    folder
}

fn generated(run: &Path, flags: &[&str]) -> String {
    let run = shown(run);
    let all = ["generate", &run, "--prompt", "w3 w4 w5", "--seed", "3"];
    output(&[&all, flags].concat())
}

#[test]
fn a_decoder_continues_as_its_folder_says() {
    let said = json!({
        "do_sample": true, "temperature": 0.6, "top_p": 0.9, "min_p": 0.02, "top_k": 7, "repetition_penalty": 1.4, "max_new_tokens": 9,
        "num_beams": 3, "length_penalty": 2.0, "no_repeat_ngram_size": 2, "encoder_no_repeat_ngram_size": 2, "mystery_key": 5, "eos_token_id": [0, 35],
    });
    let (folder, work) = (gpt2(&said), tempfile::tempdir().unwrap());
    let (run, exported) = (work.path().join("run"), work.path().join("exported"));
    let told = import(folder.path(), &run);
    for listed in [
        "num_beams = 3",
        "length_penalty = 2.0",
        "encoder_no_repeat_ngram_size = 2",
        "mystery_key = 5",
    ] {
        assert!(told.contains(listed), "{listed}: {told}");
    }
    for used in [
        "temperature",
        "top_k",
        "min_p",
        "repetition_penalty",
        " no_repeat_ngram_size",
        "eos_token_id",
    ] {
        assert!(!told.contains(&format!("{used} = ")), "{used}: {told}");
    }
    let same = [
        "--tokens",
        "9",
        "--temperature",
        "0.6",
        "--top-k",
        "7",
        "--top-p",
        "0.9",
        "--min-p",
        "0.02",
        "--repetition-penalty",
        "1.4",
        "--no-repeat-ngram-size",
        "2",
    ];
    let plain = generated(&run, &[]);
    assert_eq!(plain, generated(&run, &same));
    assert_eq!(plain.split_whitespace().count(), 12, "{plain}");
    // Each flag overrides its own setting.
    let fewer = generated(&run, &["--tokens", "4"]);
    assert!(plain.starts_with(fewer.trim_end()), "{plain} {fewer}");
    assert_ne!(plain, generated(&run, &["--temperature", "0"]));
    assert_ne!(plain, generated(&run, &["--repetition-penalty", "9"]));
    output(&["export", &shown(&run), &shown(&exported)]);
    assert_eq!(settings(&exported), said);
    // Greedy tokens, a length that includes the prompt, and an end token given by its id.
    let greedy = generated(
        &run,
        &[
            "--temperature",
            "0",
            "--repetition-penalty",
            "1",
            "--no-repeat-ngram-size",
            "0",
        ],
    );
    let words: Vec<&str> = greedy.split_whitespace().collect();
    let end: u32 = words[5][1..].parse().unwrap();
    let first = words[3..]
        .iter()
        .position(|word| *word == words[5])
        .unwrap();
    let said = json!({"max_length": 10, "eos_token_id": [0, end]});
    let (folder, again) = (gpt2(&said), work.path().join("again"));
    import(folder.path(), &again);
    let found = generated(&again, &[]);
    let found: Vec<&str> = found.split_whitespace().collect();
    assert_eq!(found, words[..3 + first]);
    let longer = "w1 ".repeat(10);
    let (status, why) = failure(&["generate", &shown(&again), "--prompt", &longer]);
    assert_eq!(status, 2, "{why}");
    assert!(
        why.contains("max_length = 10") && why.contains("--tokens"),
        "{why}"
    );
    output(&[
        "generate",
        &shown(&again),
        "--prompt",
        &longer,
        "--tokens",
        "1",
    ]);
}

#[test]
fn texts_for_texts_are_searched_for_as_the_folder_says() {
    let bart = copy(&shipped("tests/fixtures/bart_writes"));
    let mut said = settings(bart.path());
    for (key, value) in [
        ("max_length", json!(6)),
        ("num_beams", json!(3)),
        ("length_penalty", json!(0.5)),
        ("early_stopping", json!(true)),
        ("no_repeat_ngram_size", json!(2)),
        ("encoder_no_repeat_ngram_size", json!(3)),
        ("repetition_penalty", json!(1.5)),
    ] {
        said[key] = value;
    }
    let write = |said: &Value| std::fs::write(bart.path().join(NAME), said.to_string()).unwrap();
    write(&said);
    let work = tempfile::tempdir().unwrap();
    let (run, exported) = (work.path().join("run"), work.path().join("exported"));
    let told = import(bart.path(), &run);
    for listed in [
        "encoder_no_repeat_ngram_size = 3",
        "repetition_penalty = 1.5",
    ] {
        assert!(told.contains(listed), "{listed}: {told}");
    }
    for used in ["forced_bos", "early_stopping", "max_length", "num_beams"] {
        assert!(!told.contains(used), "{used}: {told}");
    }
    let resolved = std::fs::read_to_string(run.join("resolved.toml")).unwrap();
    for key in [
        "at_limit = \"any\"",
        "done_when = \"full\"",
        "first = 0",
        "beam = 3",
    ] {
        assert!(resolved.contains(key), "{key}: {resolved}");
    }
    let lines = "north east <mask> up\nfour one <mask>\n";
    let written = piped(&["translate", &shown(&run)], lines);
    assert_eq!(
        written,
        piped(&["translate", &shown(&run), "--beam", "3"], lines)
    );
    // `</s> <s>` and four words: a text that was cut off has no end token.
    for line in written.lines() {
        assert_eq!(line.split_whitespace().count(), 4, "{written}");
    }
    output(&["export", &shown(&run), &shown(&exported)]);
    assert_eq!(settings(&exported), said);
    said["forced_bos_token_id"] = json!(21);
    write(&said);
    let run = work.path().join("other");
    let (status, why) = failure(&["import", &shown(bart.path()), &shown(&run)]);
    assert_eq!(status, 2, "{why}");
    assert!(why.contains("`forced_bos_token_id` = 21"), "{why}");
    assert!(!run.exists());
}

/// transformers ends texts after 20 tokens if a folder gives no maximum length, and runs keep that.
#[test]
fn a_folder_without_a_length_of_texts_is_told() {
    let bart = copy(&shipped("tests/fixtures/bart_writes"));
    let mut said = settings(bart.path());
    let work = tempfile::tempdir().unwrap();
    for (name, length, told) in [("without", None, true), ("with", Some(30), false)] {
        let keys = said.as_object_mut().unwrap();
        keys.retain(|key, _| !["max_length", "max_new_tokens"].contains(&key.as_str()));
        if let Some(length) = length {
            said["max_length"] = json!(length);
        }
        std::fs::write(bart.path().join(NAME), said.to_string()).unwrap();
        let found = import(bart.path(), &work.path().join(name));
        assert_eq!(found.contains("max_len_b = 19"), told, "{found}");
    }
}

const DECODER: &str = "name = \"ends\"
[tokenizer]
kind = \"byte\"
end_of_text = \"<end>\"
[data]
kind = \"text\"
path = \"text.txt\"
context = 16
[task]
kind = \"causal_lm\"
[optimizer]
kind = \"sgd\"
lr = 0.1
[train]
steps = 1
batch_size = 1
";

/// Classes of transformers have default ids for special tokens that config.json does not name: GPT-2's ends texts with 50256,
/// LLaMA's with 2.
#[test]
fn a_decoder_says_which_tokens_begin_and_end_texts() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    std::fs::write(at("text.txt"), "the cat sat on the mat\n".repeat(20)).unwrap();
    let small =
        "n_layers = 1\nd_model = 16\nattention = { n_heads = 2 }\nfeed_forward = { d_ff = 32 }\n";
    for preset in ["gpt2", "llama-7b"] {
        let text = format!("{DECODER}[model]\npreset = \"{preset}\"\n{small}");
        let (file, run, out) = (at("x.toml"), at(preset), at(&format!("{preset}-hf")));
        std::fs::write(&file, text).unwrap();
        output(&["train", &file, "--quiet", "--run", &run]);
        output(&["export", &run, &out]);
        let said = super::ties::config(Path::new(&out));
        // The first id after the bytes ends a text, and no token begins one.
        for (key, id) in [
            ("bos_token_id", Value::Null),
            ("eos_token_id", json!(256)),
            ("pad_token_id", Value::Null),
        ] {
            assert_eq!(said.get(key), Some(&id), "{preset}: {key}");
        }
        assert_eq!(settings(Path::new(&out))["eos_token_id"], 256, "{preset}");
    }
}

/// Reformer's class pads texts to whole chunks by itself, and fails if no padding id is given.
#[test]
fn a_reformer_says_the_id_that_its_class_fills_texts_up_with() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    std::fs::write(at("text.txt"), "the cat sat on the mat\n".repeat(20)).unwrap();
    let model = "[model]
kind = \"decoder\"
d_model = 16
tie_embeddings = false
head_bias = true
norm = { kind = \"layer\", eps = 1e-12 }
reversible = { join = \"concatenation\" }
position = { kind = \"axial\", axial_shape = [4, 4], axial_widths = [6, 10] }
[[model.layers]]
attention = { kind = \"local\", n_heads = 2, d_head = 6, bias = false, block = 4, look_back = 1 }
feed_forward = { kind = \"dense\", activation = \"relu\", d_ff = 24 }
[[model.layers]]
attention = { kind = \"lsh\", n_heads = 2, d_head = 6, bias = false, rounds = 2, buckets = [4], chunk = 4, look_back = 1 }
feed_forward = { kind = \"dense\", activation = \"relu\", d_ff = 24 }
";
    let (file, run, out) = (at("x.toml"), at("run"), at("hf"));
    std::fs::write(&file, format!("{DECODER}{model}")).unwrap();
    output(&["train", &file, "--quiet", "--run", &run]);
    output(&["export", &run, &out]);
    let said = super::ties::config(Path::new(&out));
    assert_eq!(said["model_type"], "reformer");
    assert_eq!(said["pad_token_id"], 0);
}
