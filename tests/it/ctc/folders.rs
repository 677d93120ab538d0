//! Folders of wav2vec 2.0 and HuBERT through the commands: character vocabularies, audio settings, and export.

use crate::binary::{failure, output, shipped};
use crate::hf_folders::files::read;
use crate::inspect::looked::json;
use crate::oracle::{Oracle, difference, hf_folder};
use crate::transcription::{dialled, wav};
use formwork::tokenizer::Tokenizer;
use safetensors::SafeTensors;
use serde_json::{Value, json as object};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Creates a folder with an oracle's model and the files of its processor.
pub fn hub(name: &str, settings: &Value, vocab: &Value) -> TempDir {
    let oracle = Oracle::open(name);
    let weights = oracle.arrays(|name| name.strip_prefix("weight."));
    let folder = hf_folder(&oracle.config(), &weights);
    let put = |name: &str, value: &Value| {
        fs::write(folder.path().join(name), value.to_string()).unwrap();
    };
    put("preprocessor_config.json", settings);
    put("vocab.json", vocab);
    put(
        "tokenizer_config.json",
        &object!({ "unk_token": "<unk>", "pad_token": "<pad>", "do_lower_case": false }),
    );
    folder
}

pub fn settings() -> Value {
    object!({
        "feature_extractor_type": "Wav2Vec2FeatureExtractor", "feature_size": 1, "sampling_rate": 16000, "padding_side": "right",
        "padding_value": 0.0, "do_normalize": true, "return_attention_mask": false,
    })
}

/// Nine tokens, of which `pad` is the padding.
pub fn vocab(pad: usize) -> Value {
    let mut rest = (0..9).filter(|id| *id != pad);
    let mut all = object!({ "<pad>": pad });
    for token in ["<unk>", "|", "A", "B", "C", "D", "E", "'"] {
        all[token] = rest.next().into();
    }
    all
}

fn tokenizer(run: &str) -> Tokenizer {
    let path = Path::new(run).join("tokenizer.json");
    Tokenizer::from_json(fs::read(&path).unwrap(), &path).unwrap()
}

#[test]
fn folders_go_in_and_out_with_their_processors() {
    for (name, pad) in [("wav2vec2", 0), ("wav2vec2_stable", 3), ("hubert", 0)] {
        let work = tempfile::tempdir().unwrap();
        let at = |name: &str| work.path().join(name).display().to_string();
        let folder = hub(name, &settings(), &vocab(pad));
        output(&["import", &folder.path().display().to_string(), &at("run")]);
        let characters = tokenizer(&at("run"));
        let ids = characters.encode("AB C'D?").unwrap();
        let id = |token: &str| characters.id(token).unwrap();
        let wanted = ["A", "B", "|", "C", "'", "D", "<unk>"].map(id);
        assert_eq!(ids, wanted, "{name}");
        assert_eq!(characters.decode_text(&ids[..6]), "AB C'D", "{name}");
        assert_eq!(characters.pad(), Some(pad as u32), "{name}");
        let file = work.path().join("7.wav");
        fs::write(&file, wav(&dialled("7"))).unwrap();
        let file = file.display().to_string();
        let said = output(&["transcribe", &at("run"), &file]);
        output(&["export", &at("run"), &at("exported")]);
        let exported = |name: &str| {
            json(&fs::read_to_string(work.path().join("exported").join(name)).unwrap())
        };
        assert_eq!(exported("vocab.json"), vocab(pad), "{name}");
        let sound = exported("preprocessor_config.json");
        assert_eq!(sound["do_normalize"], true);
        assert_eq!(
            sound["return_attention_mask"],
            name == "wav2vec2_stable",
            "{name}"
        );
        let tokens = exported("tokenizer_config.json");
        assert_eq!(tokens["tokenizer_class"], "Wav2Vec2CTCTokenizer");
        let config = exported("config.json");
        assert_eq!(config["pad_token_id"], pad, "{name}");
        output(&["import", &at("exported"), &at("again")]);
        assert_eq!(output(&["transcribe", &at("again"), &file]), said, "{name}");
    }
}

/// `infer` gives the HF class's scores for samples, lengths and labels of a file.
#[test]
fn infer_reads_samples() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| work.path().join(name).display().to_string();
    let folder = hub("wav2vec2_stable", &settings(), &vocab(3));
    output(&["import", &folder.path().display().to_string(), &at("run")]);
    let bytes = fs::read(shipped("tests/goldens/wav2vec2_stable.safetensors")).unwrap();
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let given = ["input_values", "attention_mask", "labels"];
    let inputs = golden.tensors().into_iter();
    let inputs = inputs.filter(|(name, _)| given.contains(&name.as_str()));
    safetensors::serialize_to_file(inputs, None, Path::new(&at("in.safetensors"))).unwrap();
    output(&[
        "infer",
        &at("run"),
        "--inputs",
        &at("in.safetensors"),
        "--outputs",
        &at("out.safetensors"),
    ]);
    let found = read(Path::new(&at("out.safetensors")));
    let (ours, theirs) = (
        &found["logits"],
        Oracle::open("wav2vec2_stable").array("logits"),
    );
    assert_eq!(ours.shape, [3, 26, 9]);
    // The first row fills the file's whole length.
    let row = 26 * 9;
    let off = difference(&ours.values[..row], &theirs.values[..row]);
    assert!(off < 1e-4, "{off:e}");
    let loss = Oracle::open("wav2vec2_stable").array("loss").values[0];
    let ours = found["loss"].values[0];
    assert!((ours - loss).abs() < 1e-4 * loss, "{ours} and {loss}");
}

#[test]
fn settings_that_make_other_inputs_are_told() {
    let upper = object!({ "de": { "A": 0 }, "en": { "A": 0 } });
    for (settings, vocab, told) in [
        (
            object!({ "sampling_rate": 8000 }),
            vocab(0),
            "`sampling_rate` = 8000 must be 16000",
        ),
        (
            object!({ "preemphasis": 0.97 }),
            vocab(0),
            "`preemphasis` is not known",
        ),
        (
            object!({ "do_normalize": "yes" }),
            vocab(0),
            "`do_normalize` = \"yes\" is not true or false",
        ),
        (settings(), upper, "has separate vocabularies for `de`"),
    ] {
        let work = tempfile::tempdir().unwrap();
        let folder = hub("wav2vec2", &settings, &vocab);
        let run = work.path().join("run").display().to_string();
        let (status, said) = failure(&["import", &folder.path().display().to_string(), &run]);
        assert!(status == 2 && said.contains(told), "{told}: {said}");
    }
}
