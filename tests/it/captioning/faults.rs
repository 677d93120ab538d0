//! Faults of decoders that read images and of their task, each reported with the line of the key.

use super::runs::CAPTIONS;
use crate::binary::failure;
use crate::in_folder::written;

#[test]
fn what_cannot_be_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let cross = "every = 2\nfeed_forward = { kind = \"dense\", d_ff = 48 }";
    for (from, to, expected) in [
        (
            "every = 2",
            "every = 0",
            "[model.cross_attention] every = 0 is not between 1",
        ),
        (
            "every = 2",
            "every = 5",
            "[model.cross_attention] every = 5 is more than the 2 blocks of the decoder; every = 2 adds one block, before the \
             first",
        ),
        ("every = 2", "ever = 2", "did you mean `every`"),
        (
            cross,
            "every = 2\nfeed_forward = { kind = \"rwkv\" }",
            "[model.cross_attention.feed_forward] kind = \"rwkv\" carries a state",
        ),
        (
            cross,
            "every = 2\nattention = { kind = \"sliding_window\", n_heads = 2 }",
            "[model.cross_attention.attention] kind = \"sliding_window\" has no effect in cross-attention",
        ),
        (
            cross,
            "every = 2\nattention = { kind = \"multi_head\", n_heads = 5 }",
            "is not a multiple of [model.cross_attention.attention] n_heads = 5",
        ),
        (
            "n_latents = 4",
            "n_latents = 0",
            "[model.resampler] n_latents = 0 is not between 1",
        ),
        (
            "n_latents = 4",
            "n_latents = 4\nattention = { kind = \"multi_head\", n_heads = 3 }",
            "is not a multiple of [model.resampler.attention] n_heads = 3",
        ),
        (
            "kind = \"vision\"\nn_layers = 2\nd_model = 32\nstem = { kind = \"patches\", size = 4 }",
            "kind = \"encoder\"\nn_layers = 2\nd_model = 32",
            "[model.image] kind = \"encoder\" does not read images; use \"vision\", \"resnet\" or \"swin\"",
        ),
        (
            "kind = \"decoder\"",
            "kind = \"encoder\"",
            "[model.text] kind = \"encoder\" has no decoder blocks that can attend to an image; use \"decoder\"",
        ),
        (
            "d_model = 24",
            "d_model = 24\nreversible = { join = \"sum\" }",
            "[model.text] reversible has two streams",
        ),
        (
            "d_model = 32",
            "d_model = 32\ndistillation_token = true",
            "distillation_token = true has no effect: this network does not learn from a teacher",
        ),
        (
            "d_model = 32",
            "d_model = 32\npooling = \"attention\"",
            "[model.image] pooling = \"attention\" has no effect: this network attends to each patch",
        ),
        (
            "kind = \"captioning\"",
            "kind = \"captioning\"\nlabel_smoothing = 1.0",
            "[task] label_smoothing = 1.0 must be at least 0 and below 1",
        ),
        (
            "kind = \"captioning\"",
            "kind = \"image_text\"",
            "kind = \"image_text\" is not for [model] kind = \"vision_language\"; use \"two_towers\"",
        ),
        (
            "kind = \"captioned_shapes\"",
            "kind = \"shapes\"",
            "[task] kind = \"captioning\" reads images with a caption",
        ),
    ] {
        assert!(CAPTIONS.contains(from), "{from}");
        let mut text = CAPTIONS.replace(from, to);
        if to.contains("\"shapes\"") {
            text = text.replace(
                "colours = 3\nshapes = 2\nalone = 0.5\nheld_out = 0.2\nvalid_items = 20\n",
                "",
            );
        }
        let file = written(folder.path(), "x.toml", &text);
        let (status, told) = failure(&["check", &file]);
        assert_eq!(status, 2, "{to}: {told}");
        assert!(told.contains(expected), "{to}: {told}");
        let placed = told.lines().any(|line| line.contains("x.toml:"));
        assert!(placed, "{to}: {told}");
    }
}
