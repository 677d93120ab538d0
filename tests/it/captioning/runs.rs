//! Captioning runs through the commands: trained, evaluated by generated captions, resumed, used.

use crate::binary::{failure, formwork, output};
use crate::image_text::runs::pictures;
use crate::in_folder::{goes_on_to_the_same_bits, trained, written};
use crate::inspect::looked::json;
use std::fs;
use std::path::Path;

/// An experiment on pictures of one or two shapes.
pub const CAPTIONS: &str = r#"name = "captions"
[model]
kind = "vision_language"
[model.image]
kind = "vision"
n_layers = 2
d_model = 32
stem = { kind = "patches", size = 4 }
attention = { kind = "multi_head", n_heads = 2 }
[model.resampler]
n_latents = 4
n_layers = 1
[model.cross_attention]
every = 2
feed_forward = { kind = "dense", d_ff = 48 }
[model.text]
kind = "decoder"
n_layers = 2
d_model = 24
attention = { kind = "multi_head", n_heads = 2 }
position = { kind = "learned" }
[data]
kind = "captioned_shapes"
size = 16
colours = 3
shapes = 2
alone = 0.5
held_out = 0.2
valid_items = 20
[task]
kind = "captioning"
[optimizer]
kind = "adamw"
lr = 3e-3
[schedule]
kind = "cosine"
warmup_steps = 20
[train]
steps = 300
batch_size = 32
checkpoint_every = 150
"#;

fn colours(caption: &str) -> Vec<&str> {
    let words = caption.split_whitespace();
    words
        .filter(|word| ["red", "green", "blue"].contains(word))
        .collect()
}

#[test]
fn a_run_writes_captions_of_pictures() {
    let folder = tempfile::tempdir().unwrap();
    // Without gates, since these open slowly.
    let experiment = CAPTIONS
        .replace("every = 2", "every = 1\ngate = \"none\"")
        .replace("[model.resampler]\nn_latents = 4\nn_layers = 1\n", "")
        .replace("steps = 300", "steps = 600");
    let run = trained(folder.path(), &experiment);
    let scores = json(&output(&["eval", &run, "--json"]));
    let of = |name: &str| {
        scores[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {scores}"))
    };
    // Without the picture, perplexity is at least 1.8.
    assert!(of("perplexity") < 1.5 && of("accuracy") > 0.7, "{scores}");
    assert!(of("bleu") > 10.0 && of("chrf") > 40.0, "{scores}");
    let journal = fs::read_to_string(Path::new(&run).join("metrics.jsonl")).unwrap();
    assert!(journal.contains("\"bleu\""), "evaluations write captions");
    let data = "kind = \"captioned_shapes\"\nsize = 16\ncolours = 3\nshapes = 2\nalone = 1.0\nvalid_items = 0\n";
    let made = pictures(&folder.path().join("pictures"), data, 8);
    let mut right = 0;
    for (path, caption) in &made {
        let file = path.display().to_string();
        // Captions by search are the same one by one as in a batch, and the most likely one of a beam comes first.
        let greedy = output(&["caption", &run, &file, "--beam", "1"]);
        let text = greedy
            .trim()
            .strip_prefix(&format!("{file}: "))
            .unwrap()
            .to_owned();
        right += usize::from(colours(&text) == colours(caption));
        let drawn = output(&[
            "caption",
            &run,
            &file,
            "--samples",
            "1",
            "--temperature",
            "0",
        ]);
        assert_eq!(drawn, greedy, "{caption}");
        let best = json(&output(&[
            "caption", &run, &file, "--n-best", "3", "--beam", "4", "--json",
        ]));
        let best = best["captions"].as_array().unwrap();
        assert_eq!(best.len(), 3);
        let scores: Vec<f64> = best.iter().map(|c| c["score"].as_f64().unwrap()).collect();
        assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
        let begun = output(&["caption", &run, &file, "--prompt", "a blue", "--beam", "2"]);
        assert!(begun.contains(": a blue "), "{begun}");
    }
    assert!(right >= 6, "{right} of {} colours", made.len());
    let file = made[0].0.display().to_string();
    let draw = |seed: &str| {
        let flags = ["--samples", "4", "--temperature", "1.5", "--seed", seed];
        output(&[&["caption", &run, &file][..], &flags].concat())
    };
    assert_eq!(draw("1"), draw("1"));
    assert_ne!(draw("1"), draw("2"));
    let use_of = |flags: &[&str]| failure(&[&["caption", &run, &file][..], flags].concat());
    for (flags, told) in [
        (&["--beam", "0"][..], "--beam 0 is not between"),
        (&["--samples", "0"], "--samples 0 is not between"),
        (&["--samples", "2", "--top-p", "2"], "top_p = 2"),
        (&["--samples", "2", "--min-p", "2"], "min_p = 2"),
        (
            &["--prompt", "a red circle left of a blue square left"],
            "tokens with its special token, but the model reads",
        ),
    ] {
        let (status, said) = use_of(flags);
        assert!(
            status == 2 && said.contains(told),
            "{flags:?}: {status} {said}"
        );
    }
    let (status, said) = failure(&["generate", &run, "--prompt", "a"]);
    assert!(
        status == 2 && said.contains("does not continue text"),
        "{said}"
    );
}

#[test]
fn a_run_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = CAPTIONS
        .replace("steps = 300", "steps = 20")
        .replace("warmup_steps = 20", "warmup_steps = 2")
        .replace("checkpoint_every = 150", "checkpoint_every = 10")
        .replace(
            "n_layers = 2\nd_model = 24",
            "n_layers = 2\nd_model = 24\ndropout = 0.1",
        );
    goes_on_to_the_same_bits(folder.path(), &experiment, [10, 20]);
}

/// Files of images with several captions each: training draws one of them, evaluation compares with all.
#[test]
fn captions_of_files_are_learned_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let data = "kind = \"captioned_shapes\"\nsize = 16\ncolours = 3\nshapes = 2\nalone = 1.0\nvalid_items = 0\n";
    let made = pictures(&folder.path().join("pictures"), data, 24);
    let lines = made.iter().map(|(path, caption)| {
        let path = path.strip_prefix(folder.path()).unwrap().display();
        format!("{path}\t{caption}\n{path}\tthere is {caption}\n")
    });
    let table = written(folder.path(), "captions.tsv", &lines.collect::<String>());
    let (before, _) = CAPTIONS.split_once("[data]").unwrap();
    let (_, after) = CAPTIONS.split_once("[task]").unwrap();
    let experiment = format!(
        "{before}[data]\nkind = \"captioned_images\"\npath = {table:?}\nvalid_fraction = 0.25\ncontext = 10\n\
         [tokenizer]\nkind = \"word\"\n[decode]\nmetrics = [\"bleu\", \"exact_match\"]\n[decode.sampling]\nmax_length = 3\n\
         [task]{after}"
    );
    let experiment = experiment.replace("steps = 300", "steps = 40");
    let run = trained(folder.path(), &experiment);
    let scores = json(&output(&["eval", &run, "--json", "--beam", "2"]));
    for name in ["bleu", "exact_match", "perplexity"] {
        assert!(scores[name].is_number(), "{name}: {scores}");
    }
    let scores = json(&output(&["eval", &run, "--json", "--data", &table]));
    assert!(scores["bleu"].is_number(), "{scores}");
    let file = made[0].0.display().to_string();
    // An image that cannot be read does not prevent captions of the others.
    let damaged = written(folder.path(), "damaged.png", "no image");
    let done = formwork(&["caption", &run, &damaged, &file])
        .output()
        .unwrap();
    let [told, said] = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(told.starts_with(&format!("{file}: ")), "{told}");
    assert!(
        said.contains("damaged.png") && said.contains("1 of 2 images could not be read"),
        "{said}"
    );
    // The token that begins a caption is one of the three.
    let drawn = output(&["caption", &run, &file, "--samples", "3"]);
    let words = drawn.lines().map(|line| {
        let text = line.strip_prefix(&format!("{file}:")).unwrap();
        text.split_whitespace().count()
    });
    assert!(words.max().unwrap() <= 2, "{drawn}");
    let long = ["--samples", "1", "--prompt", "a red circle"];
    let (status, said) = failure(&[&["caption", &run, &file][..], &long].concat());
    assert!(
        status == 2 && said.contains("max_length = 3 limits prompt and caption"),
        "{said}"
    );
}
