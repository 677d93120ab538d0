//! CTC runs through the commands: trained, evaluated, used to transcribe, resumed.

use crate::binary::{failure, output};
use crate::in_folder::{goes_on_to_the_same_bits, trained};
use crate::inspect::looked::json;
use crate::transcription::{dialled, wav};
use std::fs;
use std::path::Path;

/// One or two digits, recognised by their tones.
pub const DIGITS: &str = r#"name = "digits"
[model]
kind = "speech_encoder"
n_layers = 1
d_model = 32
norm_placement = "post"
embedding_norm = true
position = { kind = "none" }
features = { widths = [32, 32, 32], sizes = [16, 4, 4], strides = [8, 4, 4] }
convolutional_positions = { size = 8, groups = 4 }
attention = { kind = "multi_head", n_heads = 2 }
feed_forward = { kind = "dense", d_ff = 64 }
[data]
kind = "dialled_digits"
digits = [1, 2]
seconds = 0.6
n_mels = 0
noise = 0.001
held_out = 0.2
valid_items = 12
[task]
kind = "ctc"
[decode]
metrics = ["wer", "cer", "exact_match"]
[optimizer]
kind = "adamw"
lr = 3e-3
[schedule]
kind = "cosine"
warmup_steps = 20
[train]
steps = 300
batch_size = 16
checkpoint_every = 150
"#;

#[test]
fn a_run_spells_what_it_hears() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), DIGITS);
    let scores = json(&output(&["eval", &run, "--json"]));
    for name in ["wer", "cer", "exact_match", "loss"] {
        assert!(scores[name].is_number(), "{name}: {scores}");
    }
    assert!(scores["perplexity"].is_null(), "{scores}");
    let journal = fs::read_to_string(Path::new(&run).join("metrics.jsonl")).unwrap();
    assert!(journal.contains("\"wer\""), "evaluations write transcripts");
    let file = folder.path().join("7.wav");
    fs::write(&file, wav(&dialled("7"))).unwrap();
    let file = file.display().to_string();
    let said = output(&["transcribe", &run, &file]);
    let text = said.trim_end().strip_prefix(&format!("{file}: "));
    let text = text.unwrap_or_else(|| panic!("{said}"));
    assert!(text.chars().all(|c| c.is_ascii_digit()), "{said}");
    let one = json(&output(&["transcribe", &run, &file, "--json"]));
    assert_eq!(one["transcripts"][0]["text"], *text);
    assert!(one["transcripts"][0]["score"].as_f64().unwrap() < 0.0);
    // A recording of two contexts is transcribed in parts, and one that is shorter than a frame is transcribed, too.
    let long = folder.path().join("long.wav");
    let mut samples = dialled("7");
    samples.resize(9600, 0.0);
    samples.extend(&samples.clone());
    fs::write(&long, wav(&samples)).unwrap();
    let long = long.display().to_string();
    output(&["transcribe", &run, &long]);
    let short = folder.path().join("short.wav");
    fs::write(&short, wav(&[0.1; 5])).unwrap();
    output(&["transcribe", &run, &short.display().to_string()]);
    for (arguments, told) in [
        (
            &[&file[..], "--beam", "4"][..],
            "--beam or --n-best does not apply to a run of ctc",
        ),
        (
            &[&file, "--language", "de"],
            "--language does not apply to a run of ctc",
        ),
        (
            &[&file, "--translate"],
            "--translate does not apply to a run of ctc",
        ),
    ] {
        let (status, said) = failure(&[&["transcribe", &run][..], arguments].concat());
        assert!(
            status == 2 && said.contains(told),
            "{arguments:?}: {status} {said}"
        );
    }
    let vectors = folder.path().join("vectors.jsonl");
    let out = vectors.display().to_string();
    let encode = ["encode", &run, &file, &long, "--out", &out];
    let said = output(&[&encode[..], &["--pool", "none"]].concat());
    assert!(
        said.contains("vectors of 32 numbers for inputs 1 to 2"),
        "{said}"
    );
    let lines = fs::read_to_string(&vectors).unwrap();
    // 3,680 samples give 459, then 114, then 28 frames; the longer recording is cut to 9,600 samples.
    let frames = lines
        .lines()
        .map(|line| json(line)["vectors"].as_array().unwrap().len());
    assert_eq!(frames.collect::<Vec<_>>(), [28, 74]);
    let (status, said) = failure(&[&encode[..], &["--pool", "cls"]].concat());
    assert!(
        status == 2 && said.contains("no class token; use mean"),
        "{said}"
    );
}

#[test]
fn a_run_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = DIGITS
        .replace("steps = 300", "steps = 20")
        .replace("warmup_steps = 20", "warmup_steps = 2")
        .replace("checkpoint_every = 150", "checkpoint_every = 10")
        .replace(
            "d_model = 32",
            "d_model = 32\ndropout = 0.1\nmasks = { time_share = 0.2, time_width = 4 }",
        );
    goes_on_to_the_same_bits(folder.path(), &experiment, [10, 20]);
}
