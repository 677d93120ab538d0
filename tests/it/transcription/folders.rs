//! Folders of Whisper through the commands: tokens that begin a text, audio settings, languages.

use crate::binary::{failure, formwork, output, shipped, shown};
use crate::inspect::looked::json;
use formwork::data::speech::marks;
use formwork::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Copies the folder, adds the files of a model with two languages, and changes one file.
fn hub(work: &Path, file: &str, change: impl Fn(&mut Value)) -> PathBuf {
    let folder = work.join("hub");
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(shipped("tests/fixtures/hf/whisper_hub")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let path = folder.join(file);
    let mut value = json(&fs::read_to_string(&path).unwrap());
    change(&mut value);
    fs::write(&path, value.to_string()).unwrap();
    folder
}

fn opening(run: &str) -> Vec<String> {
    let path = Path::new(run).join("tokenizer.json");
    let tokenizer = Tokenizer::from_json(fs::read(&path).unwrap(), &path).unwrap();
    let edges = marks(&tokenizer).unwrap();
    let all = edges.around(&[]);
    all.into_iter()
        .map(|id| tokenizer.token(id as u32).unwrap())
        .collect()
}

#[test]
fn generation_settings_say_how_a_text_begins() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| work.path().join(name).display().to_string();
    let folder = hub(work.path(), "generation_config.json", |_| ());
    let import = |folder: &Path, run: &str| {
        let made = formwork(&["import", &folder.display().to_string(), run])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", shown(&made));
        shown(&made)
    };
    let said = import(&folder, &at("run"));
    assert!(said.contains("leave the language of a text open"), "{said}");
    let wanted = [
        "<|startoftranscript|>",
        "<|en|>",
        "<|transcribe|>",
        "<|notimestamps|>",
        "<|endoftext|>",
    ];
    assert_eq!(opening(&at("run")), wanted);
    // Exported and imported again.
    output(&["export", &at("run"), &at("exported")]);
    output(&["import", &at("exported"), &at("again")]);
    assert_eq!(opening(&at("again")), wanted);
    let exported = fs::read_to_string(work.path().join("exported/generation_config.json")).unwrap();
    assert_eq!(json(&exported)["forced_decoder_ids"][0], json!([1, null]));
    // The language is left open, and the file has no table of language tokens.
    let bare = |config: &mut Value| {
        config.as_object_mut().unwrap().remove("lang_to_id");
    };
    let said = import(
        &hub(work.path(), "generation_config.json", bare),
        &at("bare"),
    );
    assert!(said.contains("leave the language of a text open"), "{said}");
    assert_eq!(opening(&at("bare")), wanted);
    // The file sets the language.
    let german = hub(work.path(), "generation_config.json", |config| {
        let id = config["lang_to_id"]["<|de|>"].clone();
        config["forced_decoder_ids"][0][1] = id;
    });
    let said = import(&german, &at("german"));
    assert!(!said.contains("leave the language"), "{said}");
    assert_eq!(opening(&at("german"))[1], "<|de|>");
}

#[test]
fn settings_of_sound_are_those_of_the_model() {
    for (key, value, told) in [
        (
            "sampling_rate",
            json!(8000),
            "`sampling_rate` = 8000 must be 16000",
        ),
        (
            "feature_size",
            json!(80),
            "`feature_size` = 80 must be 5, `num_mel_bins` of config.json",
        ),
        ("chunk_length", json!(30), "`chunk_length` = 30 seconds"),
        ("do_normalize", json!(true), "`do_normalize` = true"),
        ("preemphasis", json!(0.97), "`preemphasis` is not known"),
    ] {
        let work = tempfile::tempdir().unwrap();
        let folder = hub(work.path(), "preprocessor_config.json", |config| {
            config[key] = value.clone();
        });
        let run = work.path().join("run").display().to_string();
        let (status, said) = failure(&["import", &folder.display().to_string(), &run]);
        assert!(status == 2 && said.contains(told), "{key}: {said}");
    }
}

/// A second of silence serves as well as any sound: words come from random weights, and only the first tokens are tested.
#[test]
fn languages_are_asked_for() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| work.path().join(name).display().to_string();
    let folder = hub(work.path(), "generation_config.json", |_| ());
    output(&["import", &folder.display().to_string(), &at("run")]);
    let flac = shipped("tests/goldens/speech.flac").display().to_string();
    let words =
        |more: &[&str]| output(&[&["transcribe", &at("run"), &flac, "--json"][..], more].concat());
    let score = |text: &str| {
        json(text.lines().next().unwrap())["transcripts"][0]["score"]
            .as_f64()
            .unwrap()
    };
    let plain = words(&[]);
    assert_eq!(words(&["--language", "en"]), plain);
    assert_ne!(score(&words(&["--language", "de"])), score(&plain));
    assert_ne!(score(&words(&["--translate"])), score(&plain));
    let (status, said) = failure(&["transcribe", &at("run"), &flac, "--language", "fr"]);
    assert!(status == 2 && said.contains("no token <|fr|>"), "{said}");
}
