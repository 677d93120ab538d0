//! Transcription runs through the commands: trained, evaluated, used to transcribe, resumed.

use crate::binary::{failure, formwork, output};
use crate::in_folder::{goes_on_to_the_same_bits, trained};
use crate::inspect::looked::json;
use std::fs;
use std::path::Path;

/// An experiment on one or two digits, recognised by their tones.
pub const DIGITS: &str = r#"name = "digits"
[model]
kind = "speech_encoder_decoder"
n_encoder_layers = 1
n_decoder_layers = 1
d_model = 32
position = { kind = "learned" }
encoder_position = { kind = "sinusoidal", layout = "halves", endpoint = true }
attention = { kind = "multi_head", n_heads = 2, key_bias = false }
feed_forward = { kind = "dense", d_ff = 64 }
[data]
kind = "dialled_digits"
digits = [1, 2]
seconds = 0.6
n_mels = 32
noise = 0.001
held_out = 0.2
valid_items = 12
[task]
kind = "transcription"
[decode]
metrics = ["wer", "cer", "exact_match"]
[optimizer]
kind = "adamw"
lr = 5e-3
[schedule]
kind = "cosine"
warmup_steps = 20
[train]
steps = 300
batch_size = 16
checkpoint_every = 150
"#;

/// A WAV file with 16 bits at 16 kHz.
pub fn wav(samples: &[f32]) -> Vec<u8> {
    let size = 2 * samples.len() as u32;
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((36 + size).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16u32.to_le_bytes());
    bytes.extend([1u16, 1].map(u16::to_le_bytes).concat());
    bytes.extend([16_000u32, 32_000].map(u32::to_le_bytes).concat());
    bytes.extend([2u16, 16].map(u16::to_le_bytes).concat());
    bytes.extend(b"data");
    bytes.extend(size.to_le_bytes());
    for x in samples {
        bytes.extend(((x * 32_767.0) as i16).to_le_bytes());
    }
    bytes
}

/// The tones of some digits, each followed by a pause.
pub fn dialled(digits: &str) -> Vec<f32> {
    let (rows, columns) = ([697.0, 770.0, 852.0, 941.0], [1209.0, 1336.0, 1477.0]);
    let mut samples = vec![0.0; 800];
    for digit in digits.bytes() {
        let key = usize::from(digit - b'0');
        let (row, column) = match key {
            0 => (3, 1),
            key => ((key - 1) / 3, (key - 1) % 3),
        };
        for n in 0..1600 {
            let wave = |hertz: f64| (std::f64::consts::TAU * hertz * f64::from(n) / 16_000.0).sin();
            samples.push((0.2 * (wave(rows[row]) + wave(columns[column]))) as f32);
        }
        samples.extend([0.0; 1280]);
    }
    samples
}

#[test]
fn a_run_writes_what_it_hears() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), DIGITS);
    let scores = json(&output(&["eval", &run, "--json"]));
    for name in ["wer", "cer", "exact_match", "perplexity", "accuracy"] {
        assert!(scores[name].is_number(), "{name}: {scores}");
    }
    let journal = fs::read_to_string(Path::new(&run).join("metrics.jsonl")).unwrap();
    assert!(journal.contains("\"wer\""), "evaluations write transcripts");
    let file = folder.path().join("7.wav");
    fs::write(&file, wav(&dialled("7"))).unwrap();
    let file = file.display().to_string();
    let greedy = output(&["transcribe", &run, &file, "--beam", "1"]);
    let text = greedy.trim_end().strip_prefix(&format!("{file}: "));
    let text = text.unwrap_or_else(|| panic!("{greedy}"));
    assert!(!text.is_empty(), "{greedy}");
    assert!(text.chars().all(|c| c.is_ascii_digit()), "{greedy}");
    let best = json(&output(&[
        "transcribe",
        &run,
        &file,
        "--n-best",
        "3",
        "--beam",
        "4",
        "--json",
    ]));
    assert_eq!(best["input"], *file);
    let best = best["transcripts"].as_array().unwrap();
    let scores: Vec<f64> = best.iter().map(|t| t["score"].as_f64().unwrap()).collect();
    assert!(
        scores.len() == 3 && scores.is_sorted_by(|a, b| a >= b),
        "{scores:?}"
    );
    // A recording of two parts has the texts of both.
    let long = folder.path().join("long.wav");
    let mut samples = dialled("7");
    samples.resize(9600, 0.0);
    samples.extend(dialled("7"));
    fs::write(&long, wav(&samples)).unwrap();
    let long = long.display().to_string();
    let both = output(&["transcribe", &run, &long, "--beam", "1"]);
    assert_eq!(both.trim_end(), format!("{long}: {text} {text}"));
    // Of several files, those that can be read are transcribed.
    let missing = folder.path().join("missing.wav").display().to_string();
    let several = formwork(&["transcribe", &run, &file, &missing, &long, "--beam", "1"])
        .output()
        .unwrap();
    let told = String::from_utf8(several.stdout).unwrap();
    assert_eq!(told, format!("{greedy}{both}"));
    let said = String::from_utf8(several.stderr).unwrap();
    assert!(
        several.status.code() == Some(1)
            && said.contains("missing.wav")
            && said.contains("1 of 3 recordings could not be read"),
        "{said}"
    );
    for (arguments, told) in [
        (
            &[&long[..], "--n-best", "2", "--beam", "2"][..],
            "--n-best works only on recordings that are read in one part",
        ),
        (&[&file, "--beam", "0"], "--beam 0 is not between"),
        (
            &[&file, "--language", "de"],
            "the run's vocabulary has no token <|de|>",
        ),
        (
            &[&file, "--set", "data.seconds=2"],
            "only keys that begin with `decode.` can be set",
        ),
        (&[&missing], "missing.wav"),
    ] {
        let (status, said) = failure(&[&["transcribe", &run][..], arguments].concat());
        assert!(
            status == 2 && said.contains(told),
            "{arguments:?}: {status} {said}"
        );
    }
    let vectors = missing.replace(".wav", ".npy");
    for (command, told) in [
        (
            &["generate", &run, "--prompt", "1"][..],
            "does not continue text",
        ),
        (
            &["encode", &run, &file, "--out", &vectors],
            "use formwork transcribe",
        ),
        (&["translate", &run], "does not generate texts from texts"),
    ] {
        let (status, said) = failure(command);
        assert!(
            status == 2 && said.contains(told),
            "{command:?}: {status} {said}"
        );
    }
}

#[test]
fn a_run_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = DIGITS
        .replace("steps = 300", "steps = 20")
        .replace("warmup_steps = 20", "warmup_steps = 2")
        .replace("checkpoint_every = 150", "checkpoint_every = 10")
        .replace("d_model = 32", "d_model = 32\ndropout = 0.1");
    let whole = goes_on_to_the_same_bits(folder.path(), &experiment, [10, 20]);
    // Exported as a Hugging Face folder and imported again, with an unusual number of mel bands and a length that is no whole
    // second.
    let at = |name: &str| folder.path().join(name).display().to_string();
    output(&["export", &whole, &at("exported")]);
    output(&["import", &at("exported"), &at("again")]);
    let config = json(&fs::read_to_string(folder.path().join("exported/config.json")).unwrap());
    assert_eq!(config["model_type"], "whisper");
    assert_eq!(config["max_source_positions"], 30);
    let processor = folder.path().join("exported/preprocessor_config.json");
    let processor = json(&fs::read_to_string(processor).unwrap());
    assert_eq!(
        (&processor["feature_size"], &processor["n_samples"]),
        (&32.into(), &9600.into())
    );
}
