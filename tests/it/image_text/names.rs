//! Image classes named by texts: `eval --prompt` and `classify --class`.

use super::runs::{SHAPES, embeddings, pictures};
use crate::binary::{failure, formwork, output};
use crate::in_folder::{trained, written};
use crate::inspect::looked::json;
use std::collections::BTreeSet;
use std::path::PathBuf;

const ALONE: &str = "kind = \"captioned_shapes\"\nsize = 16\ncolours = 4\nshapes = 2\nalone = 1.0\nvalid_items = 0\n";

fn folder_of(made: &[(PathBuf, String)]) -> String {
    let class = made[0].0.parent().unwrap();
    class.parent().unwrap().display().to_string()
}

/// Accuracy is that of the nearest class embedding by `encode`; folder names are class names.
#[test]
fn labelled_images_are_told_by_the_names_of_their_classes() {
    let work = tempfile::tempdir().unwrap();
    let run = trained(work.path(), SHAPES);
    let made = pictures(&work.path().join("pictures"), ALONE, 40);
    let folder = folder_of(&made);
    let classes: BTreeSet<&str> = made.iter().map(|(_, caption)| &caption[2..]).collect();
    let classes: Vec<&str> = classes.into_iter().collect();
    assert!(classes.len() > 4, "{classes:?}");
    let arguments = [
        "eval",
        &run,
        "--data",
        &folder,
        "--prompt",
        "a {}",
        "--json",
        "--confusion",
    ];
    let scores = json(&output(&arguments));
    let accuracy = scores["accuracy"].as_f64().unwrap();
    assert!(accuracy > 0.3, "{scores}");
    // A relative folder is resolved from the working directory, even if the run has one of that name.
    pictures(&work.path().join("run/pictures"), ALONE, 3);
    let mut relative = arguments;
    relative[3] = "pictures";
    let ended = formwork(&relative).current_dir(work.path()).output();
    let same = json(&String::from_utf8(ended.unwrap().stdout).unwrap());
    assert_eq!(same["loss"], scores["loss"]);
    assert_eq!(scores["classes"].as_array().unwrap().len(), classes.len());
    assert!(scores["f1"].is_number() && scores["top5_accuracy"].is_number());

    let at = |name: &str| work.path().join(name).display().to_string();
    let lines: String = classes.iter().map(|class| format!("a {class}\n")).collect();
    let lines = written(work.path(), "classes.txt", &lines);
    let mut files = vec!["encode".to_string(), run.clone(), lines];
    files.extend(made.iter().map(|(path, _)| path.display().to_string()));
    files.extend(["--out".into(), at("v.safetensors")]);
    output(&files);
    let (vectors, width) = embeddings(&at("v.safetensors"));
    let (texts, images) = vectors.split_at(classes.len() * width);
    let product = |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let hits = images
        .chunks(width)
        .zip(&made)
        .filter(|(image, (_, caption))| {
            let nearest = texts.chunks(width).map(|text| product(image, text));
            let nearest: Vec<f32> = nearest.collect();
            let best = (0..classes.len()).max_by(|a, b| nearest[*a].total_cmp(&nearest[*b]));
            classes[best.unwrap()] == &caption[2..]
        });
    let wanted = hits.count() as f64 / made.len() as f64;
    assert!((accuracy - wanted).abs() < 1e-9, "{accuracy} and {wanted}");

    // Giving the same names explicitly, or a text twice, changes nothing; two different texts make another class embedding.
    let mut named = vec![
        "eval", &run, "--data", &folder, "--json", "--prompt", "a {}", "--prompt", "a {}",
    ];
    classes
        .iter()
        .for_each(|class| named.extend(["--class", class]));
    let again = json(&output(&named));
    assert_eq!(again["accuracy"], scores["accuracy"]);
    let near = |a: &serde_json::Value, b: &serde_json::Value| {
        (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-5
    };
    assert!(near(&again["loss"], &scores["loss"]), "{again} {scores}");
    let both = json(&output(&[
        "eval",
        &run,
        "--data",
        &folder,
        "--json",
        "--prompt",
        "a {}",
        "--prompt",
        "{} above a {}",
    ]));
    assert!(!near(&both["loss"], &scores["loss"]), "{both}");

    // For a single picture: probabilities of all classes, the most likely first.
    let mut arguments = vec!["classify", &run, "--json", "--prompt", "a {}", "--top", "9"];
    classes
        .iter()
        .for_each(|class| arguments.extend(["--class", class]));
    let picture = made[0].0.display().to_string();
    arguments.push(&picture);
    let told = json(&output(&arguments));
    let told = told["classes"].as_array().unwrap();
    assert_eq!(told.len(), classes.len());
    let sum: f64 = told
        .iter()
        .map(|class| class["probability"].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-4, "{sum}");
}

#[test]
fn what_cannot_be_told_is_refused() {
    let work = tempfile::tempdir().unwrap();
    let run = trained(work.path(), &SHAPES.replace("steps = 400", "steps = 25"));
    let made = pictures(&work.path().join("pictures"), ALONE, 10);
    let (folder, picture) = (folder_of(&made), made[0].0.display().to_string());
    let long = format!("{} {{}}", "red ".repeat(60));
    let damaged = written(work.path(), "damaged.png", "no picture");
    for (arguments, expected) in [
        (
            vec!["classify", &run, &picture],
            "has no fixed classes; name each class with --class",
        ),
        (
            vec!["classify", &run, &picture, "--class", "cat"],
            "one class is given; classification needs at least two",
        ),
        (
            vec![
                "classify", &run, &picture, "--class", "red", "--class", "red",
            ],
            "class \"red\" is named twice",
        ),
        (
            vec!["classify", &run, &picture, "--class", "red", "--class", " "],
            "is empty; give the name of a class",
        ),
        (
            vec![
                "classify", &run, &picture, "--class", "red", "--class", "blue", "--prompt", &long,
            ],
            "tokens that the run reads",
        ),
        (
            vec![
                "classify", &run, &picture, "--class", "a", "--class", "b", "--prompt", "x",
            ],
            "must contain {}, the placeholder for the name",
        ),
        (
            vec![
                "classify", &run, &damaged, "--class", "red", "--class", "blue",
            ],
            "damaged.png",
        ),
        (
            vec![
                "eval", &run, "--data", &folder, "--prompt", "a {}", "--beam", "2",
            ],
            "--beam",
        ),
        (
            vec!["classify", &run, "--text", "a red circle"],
            "predicts neither classes nor numbers",
        ),
        (
            vec!["eval", &run, "--prompt", "a {}"],
            "give the images with --data",
        ),
        (
            vec![
                "eval", &run, "--data", &folder, "--class", "cat", "--class", "dog",
            ],
            "name all of them, in the order of their labels",
        ),
        (
            vec!["eval", &run, "--confusion"],
            "does not predict classes",
        ),
        (
            vec!["eval", &run, "--data", &folder],
            "is generated and reads no files",
        ),
        (
            vec!["encode", &run, &picture, "--out", "x.npy", "--pool", "mean"],
            "remove --layer and --pool",
        ),
        (
            vec!["encode", &run, &picture, "--out", "x.npy", "--layer", "1"],
            "remove --layer and --pool",
        ),
        (
            vec!["inspect", &run, "attention"],
            "reads images and texts with separate networks",
        ),
        (
            vec!["inspect", &run, "rollout"],
            "reads images and texts with separate networks",
        ),
        (
            vec!["inspect", &run, "gradients"],
            "compares the rows of a batch",
        ),
    ] {
        let (status, said) = failure(&arguments);
        assert_eq!(status, 2, "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let out = work.path().join("filters").display().to_string();
    output(&["inspect", &run, "filters", "--out", &out]);
}
