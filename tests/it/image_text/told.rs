//! Faults of two towers and their task, each reported with the line of the key.

use super::runs::SHAPES;
use crate::binary::{failure, formwork};
use crate::in_folder::{trained, written};
use crate::infer::{Given, write_inputs};
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn what_cannot_be_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let task = "kind = \"image_text\"";
    let with = |keys: &str| format!("{task}\n{keys}");
    let text = "kind = \"decoder\"\nn_layers = 2\nd_model = 24";
    for (from, to, expected) in [
        (
            "d_joint = 24",
            "d_joint = 0",
            ":4: [model] d_joint = 0 is not between 1",
        ),
        (
            "d_joint = 24",
            "d_joint = 24\ntemperature = 0.001",
            ":5: [model] temperature = 0.001 must be at least 0.01",
        ),
        ("d_joint = 24", "d_join = 24", "did you mean `d_joint`"),
        ("kind = \"vision\"", "kind = \"decoder\"", "[model.image]"),
        (
            "kind = \"vision\"\nn_layers = 2\nd_model = 32\nstem = { kind = \"patches\", size = 4 }",
            "kind = \"encoder\"\nn_layers = 2\nd_model = 32",
            ":6: [model.image] kind = \"encoder\" does not read images; use \"vision\", \"resnet\" or \"swin\"",
        ),
        (
            text,
            "kind = \"encoder_decoder\"\nd_model = 24",
            ":13: [model.text] kind = \"encoder_decoder\" does not read texts; use \"decoder\", \"encoder\", \"recurrent\" or \"convolutional\"",
        ),
        (
            "size = 4 }",
            "size = 5 }",
            ":9: [model.image.stem] size = 5 does not divide images of 16 by 16",
        ),
        (
            "d_model = 24\nposition",
            "d_model = 25\nposition",
            ":15: [model.text] d_model = 25 is not a multiple of",
        ),
        (
            "position = { kind = \"learned\" }\nattention",
            "position = { kind = \"sinusoidal_2d\" }\nattention",
            "[model.text.position] kind = \"sinusoidal_2d\" is for images, but a decoder reads sequences of tokens",
        ),
        (
            "d_model = 32",
            "d_model = 32\ndropout = 1.5",
            ":9: [model.image] dropout = 1.5 must be at least 0",
        ),
        (
            "d_model = 32",
            "d_model = 32\ndistillation_token = true",
            "distillation_token = true has no effect: two towers do not learn from a teacher",
        ),
        (
            "d_model = 24\nposition",
            "d_model = 24\ntie_embeddings = false\nposition",
            "[model.text] tie_embeddings = false has no effect: two towers predict no tokens",
        ),
        (
            "d_joint = 24",
            "d_joint = 24\nimage_projection = false",
            ":4: [model] d_joint = 24 differs from the width of image vectors, which image_projection = false leaves unprojected: \
             set d_joint = 32",
        ),
        (
            "d_joint = 24",
            "d_joint = 24\nlogit_bias = -100.5",
            ":5: [model] logit_bias = -100.5 is not between -100 and 100",
        ),
        (
            "d_joint = 24",
            "d_joint = 24\nlogit_bias = -9.0",
            ":5: [model] logit_bias = -9.0 has no effect with [task] loss = \"softmax\"",
        ),
        (
            "d_joint = 24",
            "d_joint = 24\nprojection_bais = true",
            "did you mean `projection_bias`",
        ),
        (
            "d_model = 32",
            "d_model = 32\npooling = \"atention\"",
            "did you mean `attention`",
        ),
        (
            "d_model = 32",
            "d_model = 32\npooling = \"attention\"\ndistillation_token = true",
            "distillation_token = true needs a class token",
        ),
        (task, &with("loss = \"sigmod\""), "did you mean `sigmoid`"),
        (
            task,
            &with("fill = 900"),
            "[task] fill = 900 is not a token: the vocabulary has",
        ),
        (task, &with("fill = -1"), "fill"),
        ("d_model = 32", "d_modle = 32", "did you mean `d_model`"),
        (
            task,
            &with("pooling = \"first\""),
            "pooling = \"first\" needs an encoder",
        ),
        (
            task,
            &with("group = 1"),
            "group = 1 leaves no other pair to compare with",
        ),
        (
            task,
            &with("group = 5"),
            "group = 5 does not divide batch_size = 32",
        ),
        (
            task,
            &with("end = { kind = \"tokn\", id = 3 }"),
            "did you mean `token`",
        ),
        (
            task,
            "kind = \"image_classification\"",
            "reads images, but [data] kind = \"captioned_shapes\" provides images with a caption",
        ),
        (
            task,
            "kind = \"text_embedding\"",
            "is not for [model] kind = \"two_towers\"",
        ),
        (
            "batch_size = 32",
            "batch_size = 32\nmicro_batch_size = 8",
            "set [task] group to compare fewer",
        ),
        (
            "alone = 0.5",
            "alone = 1.5",
            "alone = 1.5 must be between 0 and 1",
        ),
        (
            "colours = 4",
            "colours = 9",
            "colours = 9 must be between 2 and 8",
        ),
        (
            "[optimizer]",
            "[init]\nlayer_lr_decay = 0.9\n[optimizer]",
            "layer_lr_decay depends on the depth of one stack, but the model has several networks",
        ),
        (
            "kind = \"captioned_shapes\"\nsize = 16\ncolours = 4\nshapes = 2\nalone = 0.5\nheld_out = 0.2\nvalid_items = 40",
            "kind = \"shapes\"",
            "no pairs of texts that can be encoded separately, and no captions",
        ),
    ] {
        let experiment = SHAPES.replacen(from, to, 1);
        assert_ne!(experiment, SHAPES, "{from}");
        let file = written(folder.path(), "wrong.toml", &experiment);
        let (status, said) = failure(&["check", &file]);
        assert_eq!(status, 2, "{to}: {said}");
        assert!(said.contains(expected), "{to}: {said}");
        assert!(said.contains("wrong.toml"), "{to}: {said}");
    }
    let file = written(folder.path(), "right.toml", SHAPES);
    let checked = formwork(&["check", &file]).output().unwrap();
    assert!(checked.status.success());
}

/// Admin measures both towers in the same passes, so both must use the same examples.
#[test]
fn scales_of_skips_that_are_measured_on_other_examples_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let with = |image: &str, text: &str| {
        let keys = |own: &str| {
            format!("\nnorm_placement = \"post\"\nresidual_scale = {{ kind = \"admin\"{own} }}\n")
        };
        let model = SHAPES.replacen("d_model = 32\n", &format!("d_model = 32{}", keys(image)), 1);
        model.replacen("d_model = 24\n", &format!("d_model = 24{}", keys(text)), 1)
    };
    for (image, text, line) in [
        (", examples = 8", ", examples = 16", 19),
        (", examples = 8", "", 10),
        ("", ", examples = 16", 19),
    ] {
        let file = written(folder.path(), "wrong.toml", &with(image, text));
        let (status, said) = failure(&["check", &file]);
        assert_eq!(status, 2, "{said}");
        let other = match text {
            "" => 32,
            _ => 16,
        };
        let expected = format!(
            "wrong.toml:{line}: [model.text.residual_scale] examples = {other} differs from examples ="
        );
        assert!(said.contains(&expected), "{image}, {text}: {said}");
    }
    let file = written(
        folder.path(),
        "right.toml",
        &with(", examples = 8", ", examples = 8"),
    );
    let checked = formwork(&["check", &file]).output().unwrap();
    assert!(checked.status.success());
}

/// If one of the two networks keeps no attention weights, `infer` writes only those of the other, and says so.
#[test]
fn weights_that_are_not_written_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let swin = "kind = \"swin\"\npatch_size = 2\nwindow = 2\nstages = [1, 1]\nd_model = 8\nn_heads = [1, 2]\n";
    let from = SHAPES.find("kind = \"vision\"").unwrap();
    let to = SHAPES.find("[model.text]").unwrap();
    let text = [&SHAPES[..from], swin, &SHAPES[to..]].concat();
    let text = text
        .replace("steps = 400", "steps = 2")
        .replace("warmup_steps = 20", "warmup_steps = 1")
        .replace("checkpoint_every = 200\n", "");
    let run = trained(folder.path(), &text);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let given = BTreeMap::from([
        ("input_ids".to_string(), Given::i64(&[1, 4], &[0, 1, 2, 3])),
        (
            "pixel_values".to_string(),
            Given::f32(&[1, 3, 16, 16], &[0.1; 3 * 16 * 16]),
        ),
    ]);
    write_inputs(Path::new(&at("in.safetensors")), &given);
    let (inputs, outputs) = (at("in.safetensors"), at("out.safetensors"));
    let files = ["--inputs", &inputs, "--outputs", &outputs];
    let arguments = [&["infer", &run, "--attentions"], &files[..]].concat();
    let said = formwork(&arguments).output().unwrap();
    let said = String::from_utf8(said.stderr).unwrap();
    let wanted = "--attentions: [model.image] (kind = \"swin\") has attention within windows of images, whose weights are not \
                  kept; only the other network's weights are written";
    assert!(said.contains(wanted), "{said}");
}
