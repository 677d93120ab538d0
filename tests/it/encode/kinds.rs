//! Runs that compare, generate and continue texts; faults.

use super::{encoded, mean, near, numpy};
use crate::binary::output;
use crate::infer::Given;
use crate::inspect::looked::{inferred, json, run, told, trained};
use formwork::tokenizer::Tokenizer;
use safetensors::tensor::SafeTensors;
use std::fs;
use std::path::Path;

/// The two texts that a run compares are encoded separately: the head over [u; v; u ∘ v; u − v] gives its classes.
#[test]
fn towers_are_encoded_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let rows: String = (0..40)
        .map(|i| format!("{}\t{} and {}\t{}\n", i % 2, i, i * i, i + 1))
        .collect();
    fs::write(folder.path().join("pairs.tsv"), rows).unwrap();
    let experiment = "[model]\nkind = \"encoder\"\nn_layers = 1\nd_model = 16\nattention = { kind = \"multi_head\", n_heads = 2 }\n\
        [tokenizer]\nkind = \"wordpiece\"\nvocab_size = 60\n[data]\nkind = \"labelled_text\"\npath = \"pairs.tsv\"\nlabel = 1\n\
        text = 2\npair = 3\ncontext = 24\nvalid_fraction = 0.2\n[task]\nkind = \"text_classification\"\ntowers = true\n\
        pooling = \"mean\"\n";
    let run = run(folder.path(), "towers", experiment);
    let (texts, out) = (path("texts.txt"), path("x.npy"));
    fs::write(&texts, "7 and 49\n8\n").unwrap();
    encoded(&run, &texts, &out, &[]);
    let (_, vectors) = numpy(&out);
    let (u, v) = vectors.split_at(16);
    let of = |f: fn(f32, f32) -> f32| u.iter().zip(v).map(|(u, v)| f(*u, *v)).collect::<Vec<_>>();
    let features = [u.to_vec(), v.to_vec(), of(|u, v| u * v), of(|u, v| u - v)].concat();
    let bytes = fs::read(Path::new(&run).join("best/model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let array = |name: &str| -> Vec<f32> {
        let view = file.tensor(name).unwrap();
        view.data()
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect()
    };
    let (weight, bias) = (array("head.weight"), array("head.bias"));
    let score = |class: usize| {
        let each = features.iter().zip(&weight[class * 64..]);
        f64::from(bias[class] + each.map(|(x, w)| x * w).sum::<f32>())
    };
    let wanted = 1.0 / (1.0 + (score(1) - score(0)).exp());
    let found = json(&output(&[
        "classify", &run, "--text", "7 and 49", "--pair", "8", "--json",
    ]));
    let classes = found["classes"].as_array().unwrap();
    let zero = classes.iter().find(|class| class["class"] == "0").unwrap();
    assert!(
        (zero["probability"].as_f64().unwrap() - wanted).abs() < 1e-5,
        "{found} {wanted}"
    );
    told(&["inspect", &run, "attention"], "towers");
}

#[test]
fn texts_that_write_texts_and_faults() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let pairs = run(folder.path(), "pairs", trained::PAIRS);
    let (texts, out) = (path("texts.txt"), path("x.npy"));
    fs::write(&texts, "7 March 1998\nthe 3rd of May 2001\n").unwrap();
    encoded(&pairs, &texts, &out, &[]);
    let (_, both) = numpy(&out);
    let tokenizer = Tokenizer::load(&Path::new(&pairs).join("tokenizer.json")).unwrap();
    let end = tokenizer.id("</s>").unwrap();
    let ids: Vec<i32> = tokenizer
        .encode("7 March 1998")
        .unwrap()
        .into_iter()
        .chain([end])
        .map(|id| id as i32)
        .collect();
    let inputs = [
        ("input_ids".into(), Given::i32(&[1, ids.len()], &ids)),
        ("decoder_input_ids".into(), Given::i32(&[1, 1], &[1])),
    ];
    let arrays = inferred(&pairs, &inputs.into(), "--hidden-states");
    near(
        &both[..16],
        &mean(&arrays["encoder_last_hidden_state"].values, 16),
        "encoder",
    );

    let alibi = run(folder.path(), "alibi", trained::ALIBI);
    fs::write(&texts, "1+2=3\n").unwrap();
    encoded(&alibi, &texts, &out, &["--pool", "last"]);
    let tokenizer = Tokenizer::load(&Path::new(&alibi).join("tokenizer.json")).unwrap();
    let ids: Vec<i32> = tokenizer
        .encode("1+2=3")
        .unwrap()
        .into_iter()
        .map(|id| id as i32)
        .collect();
    let inputs = [("input_ids".into(), Given::i32(&[1, ids.len()], &ids))];
    let arrays = inferred(&alibi, &inputs.into(), "--hidden-states");
    let last = &arrays["last_hidden_state"].values;
    near(&numpy(&out).1, &last[last.len() - 16..], "last");

    let before = fs::read(&out).unwrap();
    told(
        &["encode", &alibi, &texts, "--out", &out, "--pool", "cls"],
        "no class token",
    );
    told(
        &["encode", &alibi, &texts, "--out", &out, "--pool", "first"],
        "no class token",
    );
    told(
        &["encode", &alibi, &texts, "--out", &out, "--layer", "9"],
        "0 to 2",
    );
    told(
        &["encode", &alibi, &texts, "--out", &path("x.csv")],
        "allowed: `safetensors`, `npy`, `jsonl`",
    );
    told(
        &["encode", &alibi, &texts, "--out", &path("x.npx")],
        "did you mean `npy`",
    );
    told(
        &["encode", &alibi, &path("none.txt"), "--out", &out],
        "none.txt",
    );
    fs::write(&texts, "1+2=3\n1+é\n").unwrap();
    told(&["encode", &alibi, &texts, "--out", &out], "texts.txt:2");
    fs::write(&texts, "1+2=3\n\n").unwrap();
    told(&["encode", &alibi, &texts, "--out", &out], "texts.txt:2");
    fs::write(&texts, b"1+2=3\n\xff\n").unwrap();
    told(&["encode", &alibi, &texts, "--out", &out], "texts.txt:2");
    fs::write(&texts, "").unwrap();
    told(&["encode", &alibi, &texts, "--out", &out], "no line");
    let rows = path("rows.jsonl");
    fs::write(&rows, "{\"text\": \"1+2=3\"}\n").unwrap();
    told(
        &["encode", &alibi, &rows, "--out", &out],
        "the lines of this file are JSON",
    );
    fs::remove_file(&rows).unwrap();
    assert!(
        before == fs::read(&out).unwrap(),
        "a fault leaves what was there"
    );
    assert_eq!(
        fs::read_dir(folder.path())
            .unwrap()
            .filter(|e| e.as_ref().unwrap().path().is_file())
            .count(),
        4
    );
}
