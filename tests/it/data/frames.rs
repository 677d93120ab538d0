//! The frames that saved tokenizers put around texts are what models read, as in Hugging Face transformers
//! (`tests/goldens/make_tokenizer_frames.py` makes the oracle).

use crate::binary::{output, shipped};
use formwork::tokenizer::Tokenizer;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

fn golden() -> Value {
    let file = shipped("tests/goldens/tokenizer_frames.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<i32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Returns the tokens that a model of this task reads, for one text or two.
fn read(tokenizer: &Tokenizer, name: &str, text: &str, pair: Option<&str>) -> Vec<i32> {
    let encoded = |text: &str| -> Vec<i32> {
        let ids = tokenizer.encode(text).unwrap();
        ids.into_iter().map(|id| id as i32).collect()
    };
    let pair = pair.map(encoded);
    match name.rsplit_once('_').unwrap().1 {
        "masked" | "classes" => {
            let frame = tokenizer.frame().unwrap();
            match pair {
                None => frame.around(&encoded(text)),
                Some(pair) => frame.around_both(&encoded(text), &pair).0,
            }
        }
        "translation" => {
            let end = tokenizer.marks().unwrap().end as i32;
            let first = [encoded(text), vec![end]].concat();
            match pair {
                None => first,
                Some(pair) => [first, pair, vec![end]].concat(),
            }
        }
        "causal" => [encoded(text), pair.unwrap_or_default()].concat(),
        other => panic!("{other}"),
    }
}

fn trained(folder: &Path, case: &Value) -> Tokenizer {
    let name = case["name"].as_str().unwrap();
    let (file, run) = (folder.join(format!("{name}.toml")), folder.join(name));
    fs::write(&file, case["experiment"].as_str().unwrap()).unwrap();
    let shown = |path: &Path| path.display().to_string();
    output(&["train", &shown(&file), "--run", &shown(&run), "--quiet"]);
    let saved = run.join("tokenizer.json");
    let digest: String = Sha256::digest(fs::read(&saved).unwrap())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    // The file is the same that transformers read.
    assert_eq!(case["digest"].as_str(), Some(digest.as_str()), "{name}");
    Tokenizer::load(&saved).unwrap()
}

#[test]
fn transformers_reads_texts_from_a_saved_tokenizer_as_the_model_does() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let text = golden["text"].as_str().unwrap();
    fs::write(folder.path().join("text.txt"), text).unwrap();
    let lines = text.lines().chain(text.lines()).enumerate();
    let table: String = lines
        .map(|(n, line)| format!("{line}\t{}\n", n % 2))
        .collect();
    fs::write(folder.path().join("pairs.tsv"), table).unwrap();
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let tokenizer = trained(folder.path(), case);
        let list = |key: &str| case[key].as_array().unwrap().iter();
        for (text, theirs) in list("texts").zip(list("ids")) {
            let ours = read(&tokenizer, name, text.as_str().unwrap(), None);
            assert_eq!(ours, ids(theirs), "{name}: {text}");
        }
        for (pair, theirs) in list("pairs").zip(list("pair_ids")) {
            let (first, second) = (pair[0].as_str().unwrap(), pair[1].as_str());
            let ours = read(&tokenizer, name, first, second);
            assert_eq!(ours, ids(theirs), "{name}: {pair}");
        }
    }
}
