//! Decoders that classify or encode texts, through the commands: begun from a language model, used, exported and imported
//! again.

use crate::binary::{failure, output};
use crate::in_folder::written;
use std::fs;
use std::path::Path;

const DECODER: &str = r#"name = "parity"
[model]
kind = "decoder"
n_layers = 2
d_model = 16
norm_placement = "pre"
position = { kind = "learned", max_len = 16 }
attention = { kind = "multi_head", n_heads = 2, bias = true }
feed_forward = { kind = "dense", activation = "gelu_tanh", bias = true }
[tokenizer]
kind = "bpe"
vocab_size = 280
[data]
kind = "labelled_text"
path = "parity.tsv"
valid_fraction = 0.2
context = 16
[task]
kind = "text_classification"
head_bias = false
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 20
batch_size = 8
"#;

fn trained(folder: &Path, name: &str, text: &str) -> String {
    let rows = (0..120).map(|n| format!("{n}\t{}\n", n % 2));
    written(folder, "parity.tsv", &rows.collect::<String>());
    let file = written(folder, &format!("{name}.toml"), text);
    let run = folder.join(name).display().to_string();
    output(&["train", &file, "--quiet", "--run", &run]);
    run
}

fn classes(run: &str) -> String {
    output(&["classify", run, "--text", "17", "--json"]).replace(run, "")
}

#[test]
fn a_decoder_of_classes_goes_out_and_in_again() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", DECODER);
    let at = |name: &str| folder.path().join(name).display().to_string();
    output(&["export", &run, &at("out")]);
    let config = fs::read_to_string(folder.path().join("out/config.json")).unwrap();
    assert!(
        config.contains("\"GPT2ForSequenceClassification\""),
        "{config}"
    );
    // The class finds the end of a text by the padding token.
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert!(config["pad_token_id"].is_u64(), "{config}");
    output(&["import", &at("out"), &at("again")]);
    assert_eq!(classes(&run), classes(&at("again")));

    for (from, to) in [
        ("head_bias = false", "pooling = \"last\""),
        ("head_bias = false", "head_bias = false\npooling = \"mean\""),
    ] {
        let other = trained(folder.path(), "other", &DECODER.replace(from, to));
        let (status, said) = failure(&["export", &other, &at("none")]);
        assert_eq!(status, 2);
        assert!(said.contains("head_bias = false"), "{said}");
        fs::remove_dir_all(&other).unwrap();
    }
}

/// A classifier takes over a language model's network and gets a new head.
#[test]
fn a_language_model_goes_on_as_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    written(
        folder.path(),
        "digits.txt",
        &"12 13 14 15 16 17 18 19\n".repeat(60),
    );
    let text = "[data]\nkind = \"text\"\npath = \"digits.txt\"\ncontext = 16\nvalid_fraction = 0.2\n[task]\nkind = \"causal_lm\"\n";
    let (model, rest) = DECODER.split_once("[data]").unwrap();
    let (_, rest) = rest.split_once("[optimizer]").unwrap();
    let language = format!("{model}{text}[optimizer]{rest}");
    let language = trained(folder.path(), "language", &language);
    let own = "[tokenizer]\nkind = \"bpe\"\nvocab_size = 280\n";
    let classifier = format!(
        "{}[init]\nfrom = {language:?}\nnew = [\"^head\"]\n",
        DECODER.replace(own, "")
    );
    let run = trained(folder.path(), "classes", &classifier);
    assert!(classes(&run).contains("17"));
    let (status, said) = failure(&[
        "check",
        &written(
            folder.path(),
            "first.toml",
            &DECODER.replace("head_bias = false", "pooling = \"first\""),
        ),
    ]);
    assert!(
        status == 2 && said.contains("use \"last\" or \"mean\""),
        "{said}"
    );
    // The bias of the LM head is not a bias of the task's head; an extended file may set it.
    for (task, bias) in [
        ("kind = \"text_classification\"", "false"),
        ("kind = \"text_embedding\"", "true"),
    ] {
        let own = DECODER
            .replace("kind = \"text_classification\"\nhead_bias = false", task)
            .replace("n_layers", &format!("head_bias = {bias}\nn_layers"));
        let file = written(folder.path(), "own.toml", &own);
        let (status, said) = failure(&["check", "--keys-only", &file]);
        let says = "[model] head_bias has no effect: it applies to scores of the vocabulary";
        assert!(status == 2 && said.contains(says), "{said}");
    }
    let below = DECODER.replace("n_layers", "head_bias = true\nn_layers");
    written(folder.path(), "below.toml", &below);
    let above = written(
        folder.path(),
        "above.toml",
        "extends = \"below.toml\"\nname = \"above\"\n",
    );
    output(&["check", "--keys-only", &above]);
    // In a causal stack, the position for "no answer" has read nothing.
    let questions = DECODER
        .replace(
            "kind = \"text_classification\"\nhead_bias = false",
            "kind = \"question_answering\"",
        )
        .replace("kind = \"labelled_text\"", "kind = \"questions\"");
    let file = written(folder.path(), "questions.toml", &questions);
    let (status, said) = failure(&["check", &file]);
    assert!(
        status == 2 && said.contains("is not for [model] kind = \"decoder\""),
        "{said}"
    );
}
