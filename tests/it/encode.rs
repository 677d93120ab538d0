//! `encode`: embeddings of texts and images, against the hidden states that `infer` gives for the same inputs, which are tested
//! against transformers.

mod kinds;

use crate::binary::output;
use crate::infer::Given;
use crate::inspect::looked::{images, inferred, json, run, told, trained};
use formwork::tokenizer::Tokenizer;
use safetensors::tensor::SafeTensors;
use serde_json::Value;
use std::fs;
use std::path::Path;

const LINES: [&str; 3] = [
    "the farmer and the fox",
    "a fox",
    "there is a farmer near the river .",
];

fn encoded(run: &str, file: &str, out: &str, more: &[&str]) -> String {
    output(&[&["encode", run, file, "--out", out], more].concat())
}

/// Reads shape and values of a file in NumPy's format.
fn numpy(path: &str) -> (String, Vec<f32>) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8(bytes[10..10 + length].to_vec()).unwrap();
    assert!(
        (10 + length).is_multiple_of(64) && header.ends_with('\n'),
        "{header:?}"
    );
    let values = bytes[10 + length..].as_chunks().0.iter();
    (header, values.map(|b| f32::from_le_bytes(*b)).collect())
}

fn near(ours: &[f32], theirs: &[f32], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!(
            (ours - theirs).abs() < 2e-6 * (1.0 + theirs.abs()),
            "{what}: {ours} {theirs}"
        );
    }
}

fn mean(states: &[f32], width: usize) -> Vec<f32> {
    let rows = states.len() / width;
    let column = |at: usize| {
        states
            .iter()
            .skip(at)
            .step_by(width)
            .map(|x| f64::from(*x))
            .sum::<f64>()
    };
    (0..width)
        .map(|at| (column(at) / rows as f64) as f32)
        .collect()
}

/// Returns the hidden states of each text of a run that frames its texts, by a layer's name.
fn states(run: &str, name: &str) -> Vec<Vec<f32>> {
    let tokenizer = Tokenizer::load(&Path::new(run).join("tokenizer.json")).unwrap();
    let of_line = |line: &&str| {
        let ids: Vec<i32> = tokenizer
            .encode_framed(line)
            .unwrap()
            .into_iter()
            .map(|id| id as i32)
            .collect();
        let ids = Given::i32(&[1, ids.len()], &ids);
        let arrays = inferred(run, &[("input_ids".into(), ids)].into(), "--hidden-states");
        arrays[name].values.clone()
    };
    LINES.iter().map(of_line).collect()
}

#[test]
fn texts_have_the_vectors_of_their_hidden_states() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "masked", trained::MASKED);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (texts, out) = (path("texts.txt"), path("x.npy"));
    fs::write(&texts, LINES.join("\n") + "\n").unwrap();
    let last = states(&run, "last_hidden_state");
    for (flags, wanted) in [
        (
            &[][..],
            last.iter().map(|x| mean(x, 16)).collect::<Vec<_>>(),
        ),
        (
            &["--pool", "cls"],
            last.iter().map(|x| x[..16].to_vec()).collect(),
        ),
        (
            &["--pool", "last"],
            last.iter().map(|x| x[x.len() - 16..].to_vec()).collect(),
        ),
        (
            &["--layer", "0", "--batch-size", "2"],
            states(&run, "hidden_states.0")
                .iter()
                .map(|x| mean(x, 16))
                .collect(),
        ),
    ] {
        let said = encoded(&run, &texts, &out, flags);
        assert!(
            said.contains("vectors of 16 numbers for inputs 1 to 3"),
            "{said}"
        );
        let (header, values) = numpy(&out);
        assert!(
            header.contains("'<f4'") && header.contains("(3, 16,)"),
            "{header}"
        );
        near(&values, &wanted.concat(), &format!("{flags:?}"));
    }
    // The same as JSON lines, normalised to length 1.
    let lines = path("x.jsonl");
    encoded(&run, &texts, &lines, &["--normalize"]);
    for ((line, text), state) in fs::read_to_string(&lines)
        .unwrap()
        .lines()
        .zip(LINES)
        .zip(&last)
    {
        let line = json(line);
        assert_eq!(line["input"], text);
        let vector: Vec<f32> = numbers(&line["vector"]);
        let mut wanted = mean(state, 16);
        let length = wanted.iter().map(|x| x * x).sum::<f32>().sqrt();
        wanted.iter_mut().for_each(|x| *x /= length);
        near(&vector, &wanted, text);
    }
    // All positions, padded with zeros.
    let all = path("x.safetensors");
    encoded(&run, &texts, &all, &["--pool", "none"]);
    let bytes = fs::read(&all).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor("embeddings").unwrap();
    let longest = last.iter().map(|x| x.len() / 16).max().unwrap();
    assert_eq!(view.shape(), [3, longest, 16]);
    let values: Vec<f32> = view
        .data()
        .as_chunks()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    for (row, state) in values.chunks(longest * 16).zip(&last) {
        near(&row[..state.len()], state, "all positions");
        assert!(row[state.len()..].iter().all(|x| *x == 0.0));
    }
    let lengths = file
        .tensor("lengths")
        .unwrap()
        .data()
        .as_chunks()
        .0
        .to_vec();
    let lengths: Vec<usize> = lengths
        .into_iter()
        .map(|b| i64::from_le_bytes(b) as usize * 16)
        .collect();
    assert_eq!(lengths, last.iter().map(Vec::len).collect::<Vec<_>>());
    encoded(&run, &texts, &lines, &["--pool", "none"]);
    let first = json(fs::read_to_string(&lines).unwrap().lines().next().unwrap());
    assert_eq!(
        first["vectors"].as_array().unwrap().len() * 16,
        last[0].len()
    );
}

fn numbers(value: &Value) -> Vec<f32> {
    let values = value.as_array().unwrap().iter();
    values.map(|x| x.as_f64().unwrap() as f32).collect()
}

#[test]
fn images_have_their_class_token_or_their_mean() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (picture, out) = (path("a.png"), path("x.npy"));
    image::GrayImage::from_fn(16, 16, |x, y| image::Luma([(x * y) as u8]))
        .save(&picture)
        .unwrap();
    for (name, experiment) in [
        ("vision", trained::VISION),
        ("pooled", trained::POOLED),
        ("resnet", trained::RESNET),
    ] {
        let run = run(folder.path(), name, experiment);
        let mut inputs = images(&run, 1);
        let pixels = formwork::experiment::open::open(
            Path::new(&run),
            formwork::experiment::run_contents::CheckpointChoice::Best,
            None,
        )
        .map(|opened| {
            formwork::data::images::read_image(Path::new(&picture), &opened.shape)
                .unwrap()
                .pixels
        })
        .unwrap();
        inputs.insert("pixel_values".into(), Given::f32(&[1, 1, 16, 16], &pixels));
        let arrays = inferred(&run, &inputs, "--hidden-states");
        encoded(&run, &picture, &out, &[]);
        let (_, values) = numpy(&out);
        let last = &arrays["last_hidden_state"].values;
        match name {
            "vision" => near(&values, &last[..16], name),
            "pooled" => near(&values, &mean(last, 16), name),
            _ => near(&values, &arrays["pooler_output"].values, name),
        }
        encoded(&run, &picture, &out, &["--pool", "none"]);
        let (header, all) = numpy(&out);
        let positions = if name == "vision" {
            17
        } else {
            all.len() / values.len()
        };
        assert!(
            header.contains(&format!("(1, {positions}, {},)", values.len())),
            "{header}"
        );
        assert_eq!(all.len(), last.len(), "{name}");
        if name == "vision" {
            near(&all, last, name);
            encoded(&run, &picture, &out, &["--pool", "mean"]);
            near(&numpy(&out).1, &mean(&last[16..], 16), "patches");
        } else {
            told(
                &["encode", &run, &picture, "--out", &out, "--pool", "cls"],
                "no class token",
            );
        }
        if name == "resnet" {
            // An early feature map has more positions than the last one.
            encoded(&run, &picture, &out, &["--layer", "1"]);
            let map = &arrays["hidden_states.1"];
            let places: usize = map.shape[2..].iter().product();
            let means = map.values.chunks(places).map(|plane| mean(plane, 1)[0]);
            near(&numpy(&out).1, &means.collect::<Vec<_>>(), "an early map");
        }
        told(
            &["encode", &run, &picture, "--out", &out, "--pool", "last"],
            "no last one",
        );
    }
}
