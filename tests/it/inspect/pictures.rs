//! `inspect` on runs of every kind, as a user runs it: results, files and faults.

use super::looked::{images, inferred, json, numbers, parameter, run, told, trained};
use crate::binary::output;
use formwork::inspect::rollout::rollouts;
use formwork::inspect::weights::Weights;
use formwork::nn::record::AttentionKey;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Returns the weights that `infer --attentions` writes for one row.
pub(super) fn weights(
    arrays: &crate::transfer::Arrays,
    row: usize,
    layers: usize,
) -> BTreeMap<AttentionKey, Weights> {
    let layer = |layer: usize| {
        let array = &arrays[&format!("attentions.{layer}")];
        let [_, heads, queries, keys] = array.shape[..] else {
            panic!("attention weights have four dimensions")
        };
        let size = heads * queries * keys;
        let at = AttentionKey {
            network: String::new(),
            is_cross: false,
            layer,
        };
        let values = array.values[row * size..][..size].to_vec();
        let weights = Weights {
            heads,
            queries,
            keys,
            values,
        };
        (at, weights)
    };
    (0..layers).map(layer).collect()
}

#[test]
fn an_image_transformer_from_all_sides() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "vision", trained::VISION);
    let arrays = inferred(&run, &images(&run, 3), "--attentions");
    // The rollout from each image's patches to its class token.
    let found = json(&output(&[
        "inspect",
        &run,
        "rollout",
        "--examples",
        "3",
        "--json",
    ]));
    let examples = found["examples"].as_array().unwrap();
    assert_eq!(examples.len(), 3);
    let names: Vec<&Value> = examples.iter().map(|example| &example["example"]).collect();
    assert_eq!(
        names,
        ["0", "4", "8"],
        "by their numbers in the split of 12"
    );
    for (row, example) in examples.iter().enumerate() {
        let of_network = &example["networks"][0];
        assert_eq!(of_network["read_at"], "first");
        let wanted = rollouts(&weights(&arrays, row, 2))
            .remove("")
            .unwrap()
            .unwrap();
        let ours = numbers(&of_network["read"]);
        assert_eq!(ours.len(), 16);
        for (ours, wanted) in ours.iter().zip(&wanted.row(0)[1..]) {
            assert!((ours - wanted).abs() < 1e-6, "{ours} {wanted}");
        }
    }
    // The weights of one layer for one image.
    let arguments = [
        "inspect",
        &run,
        "attention",
        "--example",
        "0",
        "--layer",
        "1",
        "--json",
    ];
    let found = json(&output(&arguments));
    let map = &found["attention"][0];
    assert_eq!(
        (&map["layer"], &map["heads"], &map["keys"]),
        (&1.into(), &2.into(), &17.into())
    );
    let ours: Vec<f64> = map["weights"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|head| head.as_array().unwrap().iter().flat_map(numbers))
        .collect();
    let theirs = &arrays["attentions.1"].values[..ours.len()];
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!((ours - f64::from(*theirs)).abs() < 1e-6, "{ours} {theirs}");
    }
    let found = json(&output(&["inspect", &run, "attention", "--json"]));
    assert_eq!(
        (&found["distance_in"], &found["examples"]),
        (&"pixels".into(), &12.into())
    );
    assert_eq!(found["heads"].as_array().unwrap().len(), 4);
    let found = json(&output(&["inspect", &run, "filters", "--json"]));
    assert_eq!(
        (&found["filters"], &found["shape"]),
        (&16.into(), &serde_json::json!([1, 4, 4]))
    );
    assert!((numbers(&found["variance"]).iter().sum::<f64>() - 1.0).abs() < 1e-6);
    // The filters are the rows of the stored matrix; checked are their mean, and their variance along the first component.
    let (shape, weight) = parameter(&run, "model.stem.projection.weight");
    assert_eq!(shape, [16, 16]);
    let first = numbers(&found["components"][0]);
    let along = |row: &[f64]| row.iter().zip(&first).map(|(x, y)| x * y).sum::<f64>();
    let spread = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
    };
    let rows: Vec<&[f64]> = weight.chunks(16).collect();
    let column = |at: usize| rows.iter().map(|row| row[at]).collect::<Vec<_>>();
    let whole: f64 = (0..16).map(|at| spread(&column(at))).sum();
    let share = spread(&rows.iter().map(|row| along(row)).collect::<Vec<_>>()) / whole;
    assert!(
        (share - numbers(&found["variance"])[0]).abs() < 1e-6,
        "{share}"
    );
    // An external picture of another size.
    let picture = folder.path().join("picture.png");
    image::GrayImage::from_fn(20, 24, |x, y| image::Luma([(x * y) as u8]))
        .save(&picture)
        .unwrap();
    let picture = picture.display().to_string();
    let shown = output(&["inspect", &run, "rollout", "--image", &picture]);
    assert!(shown.contains("rollout.png"), "{shown}");
    for name in [
        "attention",
        "attention_map",
        "rollout",
        "filters",
        "filters_alone",
    ] {
        let path = Path::new(&run).join(format!("inspect/{name}.png"));
        let drawn = image::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(drawn.width() > 100 && drawn.height() > 100, "{name}");
    }
    told(
        &["inspect", &run, "attention", "--text", "a"],
        "reads images",
    );
    told(
        &["inspect", &run, "attention", "--example", "12"],
        "0 to 11",
    );
    told(
        &[
            "inspect",
            &run,
            "attention",
            "--example",
            "1",
            "--layer",
            "2",
        ],
        "are 0, 1",
    );
    told(
        &["inspect", &run, "attention", "--layer", "1"],
        "--layer has no effect",
    );
    told(
        &["inspect", &run, "rollout", "--step", "3"],
        "--step has no effect",
    );
    told(
        &["inspect", &run, "filters", "--example", "3"],
        "--example has no effect",
    );
    told(
        &["inspect", &run, "gradients", "--image", &picture],
        "--image has no effect",
    );
    told(&["inspect", &run, "context"], "a language model");
    told(&["inspect", &run, "rolout"], "did you mean `rollout`");
    told(&["inspect", &run, &run, "rollout"], "one run");
}

/// Without a class token, the mean over all patches is read; a convolutional network has filters and no attention.
#[test]
fn images_without_a_class_token() {
    let folder = tempfile::tempdir().unwrap();
    let pooled = run(folder.path(), "pooled", trained::POOLED);
    let found = json(&output(&[
        "inspect",
        &pooled,
        "rollout",
        "--example",
        "2",
        "--json",
    ]));
    let read = &found["examples"][0]["networks"][0];
    assert_eq!(read["read_at"], "mean");
    assert!((numbers(&read["read"]).iter().sum::<f64>() - 1.0).abs() < 1e-6);
    output(&["inspect", &pooled, "attention", "--example", "2"]);
    output(&["inspect", &pooled, "positions"]);
    let resnet = run(folder.path(), "resnet", trained::RESNET);
    let found = json(&output(&["inspect", &resnet, "filters", "--json"]));
    assert_eq!(found["filters"], 8);
    output(&["inspect", &resnet, "gradients", "--examples", "3"]);
    for aspect in ["attention", "rollout", "positions"] {
        told(&["inspect", &resnet, aspect], "resnet");
    }
}

#[test]
fn texts_are_looked_at_token_by_token() {
    let folder = tempfile::tempdir().unwrap();
    let masked = run(folder.path(), "masked", trained::MASKED);
    let found = json(&output(&[
        "inspect",
        &masked,
        "attention",
        "--examples",
        "4",
        "--json",
    ]));
    for head in found["heads"].as_array().unwrap() {
        assert!(head["mean_distance"].as_f64().unwrap() > 0.0, "{head}");
        assert!(head["entropy"].as_f64().unwrap() > 0.0, "{head}");
    }
    let arguments = [
        "inspect",
        &masked,
        "rollout",
        "--text",
        "a farmer and a fox",
        "--json",
    ];
    let found = json(&output(&arguments));
    let read = &found["examples"][0]["networks"][0];
    let tokens = read["tokens"].as_array().unwrap();
    assert_eq!(
        (tokens.len(), &tokens[0], &read["read_at"]),
        (7, &"[CLS]".into(), &"mean".into())
    );
    assert_eq!(read["rollout"].as_array().unwrap().len(), 7);
    told(
        &["inspect", &masked, "rollout", "--image", "x.png"],
        "reads texts",
    );
    told(&["inspect", &masked, "filters"], "does not read images");

    let pairs = run(folder.path(), "pairs", trained::PAIRS);
    let arguments = [
        "inspect",
        &pairs,
        "attention",
        "--text",
        "7 March 1998",
        "--pair",
        "1998-03-07",
        "--layer",
        "0",
        "--json",
    ];
    let found = json(&output(&arguments));
    let places: Vec<&Value> = found["attention"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| &a["network"])
        .collect();
    assert_eq!(places, ["decoder", "cross", "encoder"]);
    let cross = &found["attention"][1];
    // The source with its end token, and the target behind its begin token.
    assert_eq!(
        (&cross["queries"], &cross["keys"]),
        (&11.into(), &13.into())
    );
    assert_eq!(found["target_tokens"].as_array().unwrap().len(), 11);
    for name in ["encoder", "decoder", "cross"] {
        let path = Path::new(&pairs).join(format!("inspect/attention_map_{name}.svg"));
        let svg = fs::read_to_string(path).unwrap();
        assert!(svg.contains("data:image/png;base64,"), "{name}");
    }
    let placed = trained::PAIRS.replace("relative_bias", "learned");
    let placed = self::run(folder.path(), "placed", &placed);
    let long = "1998-03-07 ".repeat(40);
    told(
        &[
            "inspect",
            &placed,
            "attention",
            "--text",
            "7 March 1998",
            "--pair",
            &long,
        ],
        "the model has positions for",
    );
    // If no target text is given, the run generates one.
    let drawn = || {
        output(&["inspect", &pairs, "rollout", "--text", "7 March 1998"]);
        fs::read(Path::new(&pairs).join("inspect/rollout_encoder.png")).unwrap()
    };
    assert!(drawn() == drawn(), "figures are the same bytes again");

    let alibi = run(folder.path(), "alibi", trained::ALIBI);
    let found = json(&output(&[
        "inspect", &alibi, "rollout", "--text", "1+2=3", "--json",
    ]));
    let read = &found["examples"][0]["networks"][0];
    assert_eq!(
        (&read["read_at"], numbers(&read["read"]).len()),
        (&"last".into(), 5)
    );
    let both = ["--text", "1", "--pair", "2"];
    told(
        &[&["inspect", &alibi, "attention"][..], &both].concat(),
        "single texts",
    );
    // An encoder with two segments reads both texts.
    output(&[&["inspect", &masked, "attention"][..], &both].concat());
    // A decoder does not attend to later tokens.
    for (at, row) in read["rollout"].as_array().unwrap().iter().enumerate() {
        assert!(numbers(row)[at + 1..].iter().all(|x| *x == 0.0), "{at}");
    }
    let found = json(&output(&["inspect", &alibi, "attention", "--json"]));
    assert_eq!(found["heads"].as_array().unwrap().len(), 4);
}
