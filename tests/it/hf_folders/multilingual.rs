//! Models that translate between languages (`tests/goldens/make_multilingual.py` makes them with transformers 5.24): the
//! language token around a source, the one that begins a target, and translations between two languages.

use super::files::copy;
use super::hostile::refused;
use super::shown;
use super::ties::{config, import};
use crate::binary::{failure, output, piped, shipped};
use formwork::tokenizer::{MarkNames, Tokenizer, hf};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    shipped("tests/fixtures/multilingual").join(name)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Reads the rows of `expected.json`.
fn expected(name: &str, key: &str) -> Vec<Vec<Value>> {
    let file = read(&folder(name).join("expected.json"));
    let rows = file[key].as_array().unwrap().iter();
    rows.map(|row| row.as_array().unwrap().clone()).collect()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn tokenizer(name: &str) -> Tokenizer {
    hf::read(&folder(name)).unwrap().unwrap().tokenizer
}

/// Imports, translates between all pairs of languages, exports; the exported folder must be the same model with the same ids.
fn translates(name: &str, usual: &str) {
    let read_by = tokenizer(name);
    for row in expected(name, "sources") {
        let (language, text) = (word(&row[0]), word(&row[1]));
        let ids: Vec<u32> = serde_json::from_value(row[2].clone()).unwrap();
        let named = read_by.with_named_source_language(language).unwrap();
        assert_eq!(named.encode_framed(text).unwrap(), ids, "{name}: {row:?}");
        if language == usual {
            let own = read_by.encode_framed(text).unwrap();
            assert_eq!(own, ids, "{name}: {row:?}");
        }
    }
    let work = tempfile::tempdir().unwrap();
    let at = |part: &str| shown(&work.path().join(part));
    output(&["import", &shown(&folder(name)), &at("run")]);
    output(&["export", &at("run"), &at("exported")]);
    output(&["import", &at("exported"), &at("again")]);
    let written = expected(name, "written");
    let mut pairs: Vec<[&str; 2]> = written.iter().map(|r| [word(&r[0]), word(&r[1])]).collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), 9);
    for [source, target] in pairs {
        let rows = || {
            written
                .iter()
                .filter(|r| word(&r[0]) == source && word(&r[1]) == target)
        };
        let lines =
            |at: usize| -> String { rows().map(|r| format!("{}\n", word(&r[at]))).collect() };
        for run in ["run", "again"] {
            let flags = [
                "translate",
                &at(run),
                "--beam",
                "1",
                "--source-language",
                source,
                "--target-language",
                target,
            ];
            let said = piped(&flags, &lines(2));
            assert_eq!(said, lines(3), "{name}: {run}, {source} to {target}");
        }
    }
}

#[test]
fn mbart_50() {
    translates("mbart_50", "de_DE");
}

#[test]
fn m2m_100() {
    translates("m2m_100", "__en__");
}

#[test]
fn nllb_200() {
    translates("nllb_200", "eng_Latn");
}

/// A language that a folder forces begins every target; users of transformers can choose others in the exported folder.
#[test]
fn a_forced_language_is_that_of_targets() {
    let work = tempfile::tempdir().unwrap();
    let (run, out) = (work.path().join("run"), work.path().join("out"));
    import(&folder("mbart_50"), &run);
    let kept = Tokenizer::load(&run.join("tokenizer.json")).unwrap();
    assert_eq!(kept.target_language(), kept.id("en_XX"));
    let opening = [kept.id("</s>"), kept.id("en_XX")].map(Option::unwrap);
    assert_eq!(kept.target_prefix().unwrap(), opening);
    let rows = expected("mbart_50", "written");
    let wanted = rows
        .iter()
        .find(|r| r[0] == "de_DE" && r[1] == "en_XX")
        .unwrap();
    let said = piped(
        &["translate", &shown(&run), "--beam", "1"],
        word(&wanted[2]),
    );
    assert_eq!(said.trim(), word(&wanted[3]));
    output(&["export", &shown(&run), &shown(&out)]);
    let said = read(&out.join("tokenizer_config.json"));
    assert_eq!(said["tokenizer_class"], "MBart50Tokenizer");
    assert_eq!(said["src_lang"], "de_DE");
    let generation = read(&out.join("generation_config.json"));
    assert_eq!(generation["forced_bos_token_id"], json!(opening[1]));
}

/// A run that begins from an imported one reads and writes the languages that its experiment names, and says so in its exported
/// folder.
#[test]
fn a_run_is_trained_between_two_languages() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    fs::write(at("a.txt"), "der Mann\ndie Katze\n").unwrap();
    fs::write(at("b.txt"), "le chat\nun livre\n").unwrap();
    output(&["import", &shown(&folder("nllb_200")), &at("nllb")]);
    let text = format!(
        "extends = \"nllb/resolved.toml\"\nname = \"tuned\"\n[init]\nfrom = {:?}\n[optimizer]\nkind = \"sgd\"\nlr = 0.01\n\
         [train]\nsteps = 1\nbatch_size = 2\n[data]\nkind = \"pairs\"\nsource = \"a.txt\"\ntarget = \"b.txt\"\n\
         valid_source = \"a.txt\"\nvalid_target = \"b.txt\"\nmax_len = 32\n\
         marks = {{ source_language = \"deu_Latn\", target_language = \"fra_Latn\" }}\n",
        at("nllb")
    );
    fs::write(at("tuned.toml"), &text).unwrap();
    output(&["train", &at("tuned.toml"), "--quiet", "--run", &at("tuned")]);
    let kept = Tokenizer::load(Path::new(&at("tuned/tokenizer.json"))).unwrap();
    let id = |name: &str| kept.id(name).unwrap();
    let [german, french, end] = ["deu_Latn", "fra_Latn", "</s>"].map(id);
    assert_eq!(kept.target_prefix().unwrap(), [end, french]);
    let source = kept.encode_framed("der Mann").unwrap();
    assert_eq!((source[0], source.last()), (german, Some(&end)));
    output(&["export", &at("tuned"), &at("out")]);
    let generation = read(Path::new(&at("out/generation_config.json")));
    assert_eq!(generation["forced_bos_token_id"], json!(french));
    assert_eq!(
        config(Path::new(&at("out")))["decoder_start_token_id"],
        json!(end)
    );
    let out = Tokenizer::load(Path::new(&at("out/tokenizer.json"))).unwrap();
    assert_eq!(out.encode_framed("der Mann").unwrap(), source);

    fs::write(at("wrong.toml"), text.replace("fra_Latn", "fra_Latin")).unwrap();
    let (status, said) = failure(&["train", &at("wrong.toml"), "--quiet", "--run", &at("wrong")]);
    let words = "[data.marks] target_language = \"fra_Latin\" is not a token of the vocabulary; did you mean `fra_Latn`?";
    assert!(status == 2 && said.contains(words), "{status}: {said}");
    fs::write(at("wrong.toml"), text.replace("deu_Latn", "deu_Latin")).unwrap();
    let (status, said) = failure(&["train", &at("wrong.toml"), "--quiet", "--run", &at("wrong")]);
    let words = "[data.marks] source_language = \"deu_Latin\" is not a token of the vocabulary; did you mean `deu_Latn`?";
    assert!(status == 2 && said.contains(words), "{status}: {said}");
}

/// Names that are no language, and tokenizer files that have no language tokens.
#[test]
fn other_languages_are_refused() {
    let work = tempfile::tempdir().unwrap();
    let run = work.path().join("run");
    import(&folder("m2m_100"), &run);
    for (flag, words) in [
        (
            "--source-language",
            "--source-language __eng__ is not a token of the vocabulary; did you mean `__en__`?",
        ),
        (
            "--target-language",
            "--target-language __eng__ is not a token of the vocabulary; did you mean `__en__`?",
        ),
    ] {
        let (status, said) = failure(&["translate", &shown(&run), flag, "__eng__"]);
        assert!(status == 2 && said.contains(words), "{status}: {said}");
    }
    let bart = hf::read(&shipped("tests/fixtures/bart_writes"))
        .unwrap()
        .unwrap()
        .tokenizer;
    let name = bart.token(5).unwrap();
    let why = bart.with_named_source_language(&name).unwrap_err();
    assert!(why.contains("none of these tokens is a language"), "{why}");
    let names = MarkNames {
        source_language: Some(name),
        ..MarkNames::default()
    };
    assert!(bart.with_source_language(&names).is_err());
}

/// Impossible files of M2M-100's tokenizer, and impossible keys of its configurations.
#[test]
fn damaged_files_of_languages() {
    let with = |name: &str, file: &str, change: &dyn Fn(&mut Value)| {
        let folder = copy(&folder(name));
        let path = folder.path().join(file);
        let mut value = read(&path);
        change(&mut value);
        fs::write(&path, value.to_string()).unwrap();
        folder
    };
    let settings = "tokenizer_config.json";
    for (name, file, key, value, words) in [
        (
            "m2m_100",
            settings,
            "src_lang",
            json!("eng"),
            "`src_lang` names `__eng__`, which is not a token",
        ),
        (
            "nllb_200",
            settings,
            "src_lang",
            json!("eng"),
            "`src_lang` names `eng`, which is not a token",
        ),
        (
            "m2m_100",
            settings,
            "language_codes",
            json!("m2m"),
            "`language_codes` = \"m2m\" is not a list of languages",
        ),
        (
            "m2m_100",
            "vocab.json",
            "</s>",
            json!(700),
            "has no token with the id 2",
        ),
        (
            "m2m_100",
            "config.json",
            "pad_token_id",
            json!("1"),
            "`pad_token_id` is not the id of a token",
        ),
        (
            "m2m_100",
            "config.json",
            "d_model",
            json!(15),
            "`d_model` = 15 must be even",
        ),
        (
            "m2m_100",
            "config.json",
            "model_type",
            json!("nllb-moe"),
            "`model_type` \"nllb-moe\" cannot be imported: a mixture of experts",
        ),
    ] {
        let changed = with(name, file, &|found| found[key] = value.clone());
        refused(
            &format!("{name}: {key} = {value}"),
            changed.path(),
            &[words],
        );
    }
    let bare = copy(&folder("m2m_100"));
    fs::remove_file(bare.path().join("vocab.json")).unwrap();
    refused(
        "no vocab.json",
        bare.path(),
        &["needs vocab.json beside it"],
    );
}
