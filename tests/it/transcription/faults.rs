//! Faults of encoder-decoders that read recordings and of their task, each reported with the line of the key.

use super::runs::DIGITS;
use crate::binary::failure;
use crate::in_folder::written;

#[test]
fn what_cannot_be_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let own = "encoder_position = { kind = \"sinusoidal\", layout = \"halves\", endpoint = true }";
    for (from, to, expected) in [
        (
            "d_model = 32",
            "d_model = 32\nstem = { size = 4 }",
            "[model.stem] size = 4 has no frame in its middle; use 3 or 5",
        ),
        (
            "d_model = 32",
            "d_model = 32\nstem = { strides = [] }",
            "[model.stem] strides = [] must be a list of 1 to 16 steps",
        ),
        (
            "d_model = 32",
            "d_model = 32\nstem = { stride = [1, 2] }",
            "did you mean `strides`",
        ),
        (
            own,
            "encoder_position = { kind = \"rotary\" }",
            "[model.encoder_position] encoder_position = { kind = \"rotary\" } cannot be the scheme of one stack alone",
        ),
        (
            own,
            "encoder_position = { kind = \"learned\", max_len = 20 }",
            "max_len = 20 is shorter than the context of 30",
        ),
        (
            own,
            "encoder_position = { kind = \"learned\" }",
            "encoder_position has no effect: it is the model's position; leave it out",
        ),
        (
            "position = { kind = \"learned\" }\nencoder_position = { kind = \"sinusoidal\", layout = \"halves\", endpoint = true }",
            "position = { kind = \"learned\", max_len = 20 }",
            "[model.position] max_len = 20 has rows for 20 positions, and a recording has 30",
        ),
        (
            "d_model = 32",
            "d_model = 32\nmup = { d_model = 16 }",
            "[model] mup does not know how the convolutions of a stem scale with the width",
        ),
        (
            "kind = \"transcription\"",
            "kind = \"transcription\"\nlabel_smoothing = 1.0",
            "[task] label_smoothing = 1.0 must be at least 0 and below 1",
        ),
        (
            "kind = \"transcription\"",
            "kind = \"captioning\"",
            "[task] kind = \"captioning\" is not for [model] kind = \"speech_encoder_decoder\"; use \"vision_language\"",
        ),
        (
            "kind = \"transcription\"",
            "kind = \"translation\"",
            "[task] kind = \"translation\" reads pairs of texts, but [data] kind = \"dialled_digits\" gives recordings with a transcript",
        ),
        (
            "[decode]",
            "[decode]\nsearch = { max_len_a = 2.0 }",
            "max_len_a has no effect: a recording has no tokens",
        ),
        (
            "[decode]",
            "[decode]\nsampling = { temperature = 0.5 }",
            "sampling has no effect: a text of a recording is searched for",
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
