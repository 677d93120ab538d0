//! Faults of encoders of audio samples, of their task and of their data, each reported with the line of the key.

use super::runs::DIGITS;
use crate::binary::failure;
use crate::in_folder::written;

#[test]
fn what_cannot_be_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, expected) in [
        (
            "n_mels = 0",
            "n_mels = 40",
            "n_mels = 40 produces log-mel features, but the model reads samples; set n_mels = 0",
        ),
        (
            "n_mels = 0",
            "n_mels = 0\naugment = { time_masks = 1 }",
            "augment masks bands and frames of log-mel features, but n_mels = 0 reads samples",
        ),
        (
            "n_mels = 0",
            "n_mels = 16\nnormalize = true",
            "normalize = true has no effect on log-mel features",
        ),
        (
            "strides = [8, 4, 4]",
            "strides = [8, 4]",
            "strides = [8, 4] has 2 numbers, but widths has 3",
        ),
        (
            "sizes = [16, 4, 4]",
            "sizes = [16, 0, 4]",
            "sizes = [16, 0, 4] must be a list of 1 to 64 numbers, each from 1 to 64",
        ),
        (
            "groups = 4",
            "groups = 5",
            "groups = 5 does not divide the channels, d_model = 32",
        ),
        (
            "d_model = 32",
            "d_model = 32\nmasks = { time_share = 1.5 }",
            "time_share = 1.5 must be between 0 and 1",
        ),
        (
            "d_model = 32",
            "d_model = 32\nmasks = { time_width = 3 }",
            "time_width and time_least have no effect without time_share",
        ),
        (
            "kind = \"ctc\"",
            "kind = \"transcription\"",
            "[task] kind = \"transcription\" is not for [model] kind = \"speech_encoder\"",
        ),
        (
            "kind = \"ctc\"",
            "kind = \"ctc\"\nreduction = \"max\"",
            "reduction",
        ),
        (
            "[decode]",
            "[decode]\nsearch = { beam = 3 }",
            "search has no effect: [task] kind = \"ctc\" uses the most likely character of each frame",
        ),
        (
            "[decode]",
            "[decode]\nvalid_beam = 3",
            "valid_beam has no effect",
        ),
    ] {
        let text = DIGITS.replace(from, to);
        assert_ne!(text, DIGITS, "{from}");
        let file = written(folder.path(), "x.toml", &text);
        let (status, said) = failure(&["check", &file]);
        assert!(status == 2 && said.contains(expected), "{to}\n{said}");
        assert!(said.contains("x.toml:"), "{said}");
    }
}

/// Whisper reads features instead of samples, and text data has no recordings.
#[test]
fn other_networks_and_data_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let whisper = "name = \"x\"\nmodel.preset = \"whisper-tiny\"\ntask.kind = \"transcription\"\n\
                   data = { kind = \"dialled_digits\", seconds = 30.0, n_mels = 0 }\n\
                   optimizer = { kind = \"adamw\", lr = 1e-3 }\ntrain = { steps = 1, batch_size = 1 }\n";
    let file = written(folder.path(), "whisper.toml", whisper);
    let (status, said) = failure(&["check", &file]);
    let rule = "n_mels = 0 produces samples, but the model reads log-mel features";
    assert!(status == 2 && said.contains(rule), "{said}");
    let texts = DIGITS.replace(
        "kind = \"dialled_digits\"\ndigits = [1, 2]\nseconds = 0.6\nn_mels = 0\nnoise = 0.001\nheld_out = 0.2\n",
        "kind = \"grammar\"\n",
    );
    assert_ne!(texts, DIGITS);
    let file = written(folder.path(), "texts.toml", &texts);
    let (status, said) = failure(&["check", &file]);
    assert!(status == 2 && said.contains("recordings"), "{said}");
}
