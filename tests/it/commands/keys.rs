//! `schema` and `list keys`: the description of experiment files for editors and users, compared with the shipped files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use super::json;
use crate::binary::{experiments, failure, output};

/// A validator for the schema that the program prints.
pub(super) struct Validator {
    schemas: Schemas,
    own: SchemaIndex,
}

impl Validator {
    /// Returns what is wrong with a file, if anything.
    pub(super) fn fault(&self, file: &Value) -> Option<String> {
        let judged = self.schemas.validate(file, self.own);
        judged.err().map(|fault| format!("{fault:#}"))
    }
}

pub(super) fn validator() -> Validator {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler
        .add_resource("schema.json", json(&output(&["schema"])))
        .unwrap();
    let own = compiler.compile("schema.json", &mut schemas).unwrap();
    Validator { schemas, own }
}

/// Reads a TOML file as JSON.
pub(super) fn read(path: &std::path::Path) -> Value {
    let table: toml::Table = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    serde_json::to_value(table).unwrap()
}

#[test]
fn every_shipped_experiment_is_valid_by_the_schema() {
    let validator = validator();
    let mut wrong = Vec::new();
    for path in experiments() {
        if let Some(fault) = validator.fault(&read(&path)) {
            wrong.push(format!("{}: {fault}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sets a value at a dotted path.
pub(super) fn put(file: &mut Value, path: &str, value: Value) {
    let mut at = file;
    for name in path.split('.') {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[name];
    }
    *at = value;
}

#[test]
fn forty_wrong_files_are_refused_by_the_schema_and_by_the_program() {
    let attention = json!({ "kind": "multi_head", "n_heads": 4 });
    let wrong = [
        ("nane", json!("x")),
        ("name", json!(7)),
        ("seed", json!("one")),
        ("seed", json!(-1)),
        ("modle", json!({})),
        ("model.kind", json!("decodr")),
        ("model.kind", json!(3)),
        ("model.d_modle", json!(64)),
        ("model.d_model", json!("64")),
        ("model.d_model", json!(-64)),
        ("model.d_model", json!(64.5)),
        ("model.n_layers", json!([2])),
        ("model.norm", json!({ "kind": "rsm" })),
        ("model.norm", json!("layr")),
        ("model.norm", json!({ "kind": "rms", "epsilon": 1e-5 })),
        ("model.norm", json!({ "kind": "rms", "eps": "small" })),
        ("model.norm_placement", json!("before")),
        ("model.position", json!({ "kind": "rotari" })),
        ("model.position", json!({ "kind": "rotary", "thetta": 1e4 })),
        (
            "model.position",
            json!({ "kind": "rotary", "theta": "10000" }),
        ),
        ("model.attention", json!({ "kind": "multi_heads" })),
        (
            "model.attention",
            json!({ "kind": "multi_head", "heads": 4 }),
        ),
        (
            "model.attention",
            json!({ "kind": "multi_head", "n_heads": true }),
        ),
        (
            "model.attention",
            json!({ "kind": "sliding_window", "n_heads": 4, "windows": 8 }),
        ),
        (
            "model.feed_forward",
            json!({ "kind": "gated", "activation": "swich" }),
        ),
        ("model.feed_forward", json!("gatd")),
        ("model.dropout", json!("0.1")),
        ("model.layers", json!({ "repeat": 2 })),
        (
            "model.layers",
            json!([{ "repeats": 2, "attention": attention }]),
        ),
        ("model.preset", json!("gpt5")),
        ("data.kind", json!("tex")),
        ("data.length", json!("six")),
        ("task.kind", json!("causal_language_model")),
        ("task.smoothing", json!(0.1)),
        ("optimizer.kind", json!("adamww")),
        ("optimizer.learning_rate", json!(1e-3)),
        ("optimizer.lr", json!("1e-3")),
        ("schedule.kind", json!("cosin")),
        ("schedule.warmup", json!(5)),
        ("train.step", json!(40)),
        ("train.steps", json!(4.5)),
        ("train.batch_size", json!(-8)),
        ("train.on_divergence", json!("ignore")),
        ("train.dtype", json!("f8")),
        ("train.sample", json!({ "prompts": "x" })),
        ("diagnostics.every", json!("often")),
        ("ablation.seeds", json!("three")),
        ("expect.loss", json!({ "below": 1.0 })),
    ];
    assert!(wrong.len() >= 40);
    let validator = validator();
    let folder = tempfile::tempdir().unwrap();
    let right = read(&crate::binary::shipped("experiments/smoke/tiny.toml"));
    assert_eq!(validator.fault(&right), None);
    for (number, (path, value)) in wrong.into_iter().enumerate() {
        let mut file = right.clone();
        put(&mut file, path, value.clone());
        assert!(
            validator.fault(&file).is_some(),
            "{path} = {value} is valid"
        );
        let written = folder.path().join(format!("{number}.toml"));
        fs::write(&written, toml::to_string(&file).unwrap()).unwrap();
        let (status, said) = failure(&["check", "--keys-only", &written.display().to_string()]);
        assert_eq!(status, 2, "{path} = {value}: {said}");
    }
}

#[test]
fn short_forms_and_layered_files_are_valid() {
    let validator = validator();
    for file in [
        json!({ "extends": "base.toml", "model": { "d_model": 64 } }),
        json!({ "base": "base.toml", "train": { "epochs": 1.5 } }),
        json!({ "name": "x", "model": { "preset": "gpt2", "n_layers": 2 } }),
        json!({ "name": "x", "model": { "kind": "decoder", "norm": "rms", "position": "alibi" } }),
    ] {
        assert_eq!(validator.fault(&file), None, "{file}");
    }
}

#[test]
fn keys_are_listed_by_table_and_alone() {
    let all = output(&["list", "keys"]);
    for table in [
        "model",
        "model.attention",
        "data",
        "train",
        "ablation.arms[]",
        "expect.NAME",
    ] {
        let is_there = |line: &str| line.split("  ").next() == Some(table);
        assert!(all.lines().any(is_there), "{table} is missing in\n{all}");
    }
    let attention = output(&["list", "keys", "model.attention"]);
    assert!(attention.contains("kind = \"multi_head\""), "{attention}");
    assert!(attention.contains("n_heads: whole number"), "{attention}");
    let kind = output(&["list", "keys", "data.labelled_text"]);
    assert!(
        kind.contains("label_separator") && !kind.contains("separate_vocabularies"),
        "{kind}"
    );
    let one = output(&["list", "keys", "train.on_divergence"]);
    assert!(
        one.contains("\"stop\" or \"skip\", default \"stop\""),
        "{one}"
    );
    assert!(!one.contains("batch_size:"), "{one}");
    let kinds = output(&["list", "keys", "schedule.kind"]);
    assert_eq!(kinds, output(&["list", "keys", "schedule"]));
    // A table that occurs at several places is found at each of them.
    output(&["list", "keys", "model.layers[].attention"]);
    let (status, said) = failure(&["list", "keys", "model.atention"]);
    assert_eq!(status, 2);
    assert!(said.contains("did you mean `model.attention`"), "{said}");
    let (_, said) = failure(&["list", "keys", "train.lr"]);
    assert!(said.contains("did you mean `optimizer.lr`?"), "{said}");
    let (status, _) = failure(&["list", "norms", "model.norm"]);
    assert_eq!(status, 2);
}

/// Collects the keys of a file by the path of their table. Arms and ranges contain keys of other tables under dotted names.
fn gather(at: &str, value: &Value, tables: &mut BTreeMap<String, BTreeSet<String>>) {
    const FREE: [&str; 3] = [
        "ablation.axes",
        "ablation.arms.set",
        "ablation.random.ranges",
    ];
    match value {
        Value::Object(_) if FREE.contains(&at) => {}
        Value::Object(table) => {
            for (key, value) in table {
                if !["", "expect"].contains(&at) && !["kind", "preset"].contains(&key.as_str()) {
                    tables.entry(at.into()).or_default().insert(key.clone());
                }
                let dot = if at.is_empty() { "" } else { "." };
                gather(&format!("{at}{dot}{key}"), value, tables);
            }
        }
        Value::Array(items) => items
            .iter()
            .filter(|item| item.is_object())
            .for_each(|item| gather(at, item, tables)),
        _ => {}
    }
}

#[test]
fn every_table_of_a_shipped_file_is_found_with_its_keys() {
    let mut tables = BTreeMap::new();
    for path in experiments() {
        gather("", &read(&path), &mut tables);
    }
    assert!(tables.len() > 60, "{} tables", tables.len());
    for (table, keys) in tables {
        let listed = output(&["list", "keys", &table]);
        for key in keys {
            let is_it = |line: &str| line.starts_with(&format!("  {key}: "));
            assert!(listed.lines().any(is_it), "{table}.{key} in\n{listed}");
        }
    }
}

#[test]
fn tables_in_lists_and_under_free_names_are_listed() {
    let shows = |path: &str, wanted: &[&str]| {
        let listed = output(&["list", "keys", path]);
        for text in wanted {
            assert!(listed.contains(text), "{path}: no {text} in\n{listed}");
        }
    };
    // First the key in its table, then the keys below it.
    let expect = [
        "expect: table",
        "expect.NAME\n",
        "at_most: number",
        "tolerance: number",
    ];
    shows("expect", &expect);
    shows("[expect]", &expect);
    shows("expect.valid_loss", &expect[2..]);
    shows("expect.valid_loss.at_most", &["at_most: number"]);
    shows(
        "model.layers",
        &[
            "layers: list of table",
            "model.layers[]\n",
            "repeat: whole number",
        ],
    );
    shows("[[ablation.arms]]", &["ablation.arms[]\n", "set: table"]);
    shows(
        "ablation.random.ranges",
        &["\"log\"", "values: list of value"],
    );
    // Inside another place of a table, and where two kinds have tables of different types.
    shows(
        "model.image.attention",
        &["kind = \"multi_head\"", "n_heads: whole number"],
    );
    shows("task.of.masking.share", &["share: number"]);
    shows(
        "model.norm",
        &["kind = \"rms\"", "kind = \"batch\"", "momentum: number"],
    );
    let stem = output(&["list", "keys", "model.stem.norm"]);
    assert!(
        stem.contains("momentum") && !stem.contains("\"rms\""),
        "{stem}"
    );
    for (path, hint) in [
        ("expect.valid_loss.at_mots", "no table or key is called"),
        ("schedule.knd", "did you mean `schedule.kind`?"),
        ("train.kind", "allowed: `batch_size`"),
        ("train.lr", "did you mean `optimizer.lr`?"),
    ] {
        let (status, said) = failure(&["list", "keys", path]);
        assert!(status == 2 && said.contains(hint), "{path}: {said}");
    }
}

#[test]
fn the_page_of_keys_is_the_one_that_the_program_writes() {
    let written = output(&["list", "keys", "--markdown"]);
    let kept = fs::read_to_string(crate::binary::shipped("docs/keys.md")).unwrap();
    assert!(
        written == kept,
        "docs/keys.md is old: formwork list keys --markdown > docs/keys.md"
    );
    for key in ["ema", "patience", "on_divergence", "spike_factor", "epochs"] {
        assert!(kept.contains(&format!("| `{key}` |")), "{key}");
    }
    // | `key` | value | default | meaning | source |
    let cells = |line: &&str| {
        line.replace("\\|", "")
            .split('|')
            .map(|c| c.trim().to_string())
            .collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = kept
        .lines()
        .filter(|l| l.starts_with("| `"))
        .map(|l| cells(&l))
        .collect();
    let without: Vec<&Vec<String>> = rows.iter().filter(|row| row[4].is_empty()).collect();
    assert!(without.is_empty(), "keys without a meaning: {without:#?}");
    for (key, source) in [
        ("`label_smoothing`", "Szegedy et al. 2016, section 7"),
        (
            "`n_kv_heads`",
            "Shazeer 2019; Ainslie et al. 2023, section 2.2",
        ),
        ("`drop_path`", "Huang et al. 2016, section 3"),
        (
            "`halving`",
            "Jamieson and Talwalkar 2016, algorithm 1; Li et al. 2018, section 2",
        ),
    ] {
        let is_there = |row: &&Vec<String>| row[1] == key && row[5] == source;
        assert!(rows.iter().any(|row| is_there(&row)), "{key}: {source}");
    }
    assert!(rows.iter().filter(|row| !row[5].is_empty()).count() > 150);
}
