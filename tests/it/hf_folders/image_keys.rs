//! Keys of config.json and preprocessor_config.json in image folders: those of published folders, of classifiers trained with
//! other losses, faulty ones, and sizes that differ.

use super::files::copy;
use super::hostile::refused;
use super::ties::{config, import, with_keys};
use super::{fixture, shown};
use crate::binary::{failure, formwork};
use serde_json::{Value, json};
use std::path::Path;

/// Copies a fixture with other keys in its config.json.
fn with(name: &str, keys: &[(&str, Value)]) -> tempfile::TempDir {
    let folder = copy(&fixture(name));
    with_keys(folder.path(), keys);
    folder
}

/// Returns the error lines of an import that fails.
fn errors(folder: &Path) -> Vec<String> {
    let work = tempfile::tempdir().unwrap();
    let run = shown(&work.path().join("run"));
    let (_, said) = failure(&["import", &shown(folder), &run]);
    let lines = said.lines().filter(|line| line.starts_with("error:"));
    lines.map(String::from).collect()
}

/// Reads the keys of `microsoft/swin-tiny-patch4-window7-224`.
#[test]
fn the_keys_of_published_swin_folders_are_read() {
    let keys = [
        ("path_norm", json!(true)),
        ("encoder_stride", json!(32)),
        ("hidden_size", json!(8)),
        ("num_layers", json!(2)),
        ("initializer_range", json!(0.02)),
        ("torch_dtype", json!("float32")),
        ("transformers_version", json!("4.16.0.dev0")),
        ("dtype", Value::Null),
        ("out_features", Value::Null),
        ("out_indices", Value::Null),
        ("stage_names", Value::Null),
    ];
    let folder = with("swin_1", &keys);
    let work = tempfile::tempdir().unwrap();
    import(folder.path(), &work.path().join("run"));
}

/// Sizes for which the class of version 2 cuts other windows, or cannot compute relative distances.
#[test]
fn faulty_keys_of_the_second_version_of_swin_are_told() {
    for (key, value, words) in [
        (
            "image_size",
            json!(14),
            "makes Swinv2ForImageClassification divide the feature map of stage 1 into other windows",
        ),
        (
            "image_size",
            json!([16, 4]),
            "makes Swinv2ForImageClassification divide the feature map of stage 0 into other windows",
        ),
        (
            "pretrained_window_sizes",
            json!([1, 0]),
            "`pretrained_window_sizes` = [1,0] is not a list of window sizes",
        ),
        (
            "pretrained_window_sizes",
            json!([4]),
            "`pretrained_window_sizes` = [4] must be one size for each of `depths` = [1, 1]",
        ),
        (
            "use_absolute_embeddings",
            json!(true),
            "`use_absolute_embeddings` = true",
        ),
    ] {
        let found = errors(with("swinv2_1", &[(key, value)]).path());
        assert_eq!(found.len(), 1, "{key}: {found:?}");
        assert!(found[0].contains(words), "{key}: {found:?}");
    }
}

/// The error for DINO's first version says that it is a ViT.
#[test]
fn the_first_version_of_dino_is_refused() {
    let folder = with("dinov2_1", &[("model_type", json!("dino"))]);
    let words = ["`model_type` \"dino\" cannot be imported: its networks are those of `vit`"];
    refused("dino", folder.path(), &words);
}

/// Values that DINOv3's class interprets differently or rejects.
#[test]
fn faulty_keys_of_dinov3_are_told() {
    for (key, value, words) in [
        (
            "pos_embed_rescale",
            json!(0.5),
            "`pos_embed_rescale` = 0.5 must be at least 1.0",
        ),
        ("pos_embed_shift", json!(-0.5), "`pos_embed_shift` = -0.5"),
        ("rope_theta", json!(0.0), "`rope_theta` = 0.0"),
        (
            "value_bias",
            json!(false),
            "`query_bias` = true and `value_bias` = false",
        ),
        (
            "num_register_tokens",
            json!(-1),
            "`num_register_tokens` = -1 is not",
        ),
        (
            "num_attention_heads",
            json!(8),
            "makes heads of 2 elements, which must be a multiple of 4",
        ),
        (
            "patch_size",
            json!(4),
            "`patch_size` = 4 by 4 must be a square that divides",
        ),
        (
            "architectures",
            json!(["DINOv3ViTBackbone"]),
            "`architectures` = [\"DINOv3ViTBackbone\"] cannot be imported; DINOv3ViTModel can, with a randomly initialised classifier",
        ),
    ] {
        let found = errors(with("dinov3_vit_1", &[(key, value)]).path());
        assert_eq!(found.len(), 1, "{key}: {found:?}");
        assert!(found[0].contains(words), "{key}: {found:?}");
    }
}

/// The class has no classifier, which import and export report; the range of training positions is imported and exported.
#[test]
fn a_classifier_of_dinov3_stays_behind() {
    let work = tempfile::tempdir().unwrap();
    let [run, out] = ["run", "out"].map(|part| work.path().join(part));
    let folder = with("dinov3_vit_1", &[("architectures", Value::Null)]);
    let said = import(folder.path(), &run);
    assert!(
        said.contains("DINOv3ViTModel has no classifier: it is initialised randomly"),
        "{said}"
    );
    let done = formwork(&["export", &shown(&run), &shown(&out)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(
        said.contains(
            "DINOv3ViTModel has no classifier: the run's classifier is not in the folder"
        ),
        "{said}"
    );
    let keys = config(&out);
    assert_eq!(keys["architectures"], json!(["DINOv3ViTModel"]));
    assert_eq!(keys["pos_embed_rescale"], json!(2.0));
    assert_eq!(keys["pos_embed_shift"], Value::Null);
}

#[test]
fn classifiers_that_tell_several_classes_or_numbers_are_refused() {
    for name in [
        "vit_1",
        "deit_1",
        "resnet_1",
        "bit_1",
        "swin_1",
        "dinov2_1",
        "dinov2_with_registers_1",
    ] {
        for (key, value, words) in [
            (
                "problem_type",
                json!("multi_label_classification"),
                "`problem_type` = \"multi_label_classification\": each score of the folder is about its own class alone",
            ),
            (
                "problem_type",
                json!("regression"),
                "`problem_type` = \"regression\": the scores of the folder are numbers",
            ),
            (
                "problem_type",
                json!("other"),
                "`problem_type` = \"other\" is not supported; it must be \"single_label_classification\"",
            ),
        ] {
            let what = format!("{name}: {key} = {value}");
            refused(&what, with(name, &[(key, value)]).path(), &[words]);
        }
        let folder = with(
            name,
            &[("problem_type", json!("single_label_classification"))],
        );
        let work = tempfile::tempdir().unwrap();
        import(folder.path(), &work.path().join("run"));
    }
}

/// Placeholders for faulty values cause no further faults.
#[test]
fn a_faulty_key_of_swin_is_one_error() {
    for (key, value, words) in [
        ("embed_dim", json!(0), "`embed_dim` = 0 is not"),
        ("image_size", json!(0), "`image_size` = 0 is not"),
        ("patch_size", json!(0), "`patch_size` = 0 is not"),
        ("depths", json!([]), "`depths` = [] is not"),
        ("depths", json!([0, 3]), "`depths` = [0,3] is not"),
        ("num_heads", json!([0, 2]), "`num_heads` = [0,2] is not"),
        (
            "window_size",
            json!(99),
            "`window_size` = 99 is larger than the smallest feature map, 4 by 4 in stage 1, for which SwinForImageClassification \
             has no position table; the maximum is 4",
        ),
    ] {
        let found = errors(with("swin_1", &[(key, value)]).path());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(words), "{found:?}");
    }
    let found = errors(with("vit_1", &[("image_size", json!(0))]).path());
    assert_eq!(found.len(), 1, "{found:?}");
}

/// Released folders of DINOv2 have positions for 518 by 518 pixels, and a processor that crops to 224 by 224. Swin's windows
/// are unchanged if its maps are large enough for them.
#[test]
fn settings_of_images_of_another_size_are_told() {
    for (name, side, [shorter, crop], fitted, resampled) in [
        ("dinov2_1", 15, [12, 10], 18, true),
        ("dinov2_with_registers_1", 15, [12, 10], 18, true),
        ("dinov3_vit_1", 15, [12, 10], 18, false),
        ("swin_1", 16, [12, 10], 20, true),
        ("swin_1", 16, [30, 24], 20, false),
    ] {
        let folder = copy(&fixture(name));
        let settings = json!({
            "image_processor_type": "BitImageProcessor",
            "size": {"shortest_edge": shorter},
            "crop_size": crop,
        });
        let file = folder.path().join("preprocessor_config.json");
        std::fs::write(file, settings.to_string()).unwrap();
        let work = tempfile::tempdir().unwrap();
        let run = work.path().join("run");
        let said = import(folder.path(), &run);
        let reads = format!(
            "produce {crop} by {crop} pixels, but its config.json has {side} by {side}: the run reads"
        );
        let beginning = format!("[data] size = [{crop}, {crop}], [init] from");
        assert!(said.contains(&reads), "{said}");
        assert!(said.contains(&beginning), "{said}");
        let table = said.contains("[init] resample = [\"position\"]");
        assert_eq!(table, resampled, "{said}");
        let antialiased = said.contains("resample_antialias = true");
        assert_eq!(antialiased, name.contains("registers"), "{said}");
        // The crop keeps its proportion of the image.
        let data = std::fs::read(run.join("data.json")).unwrap();
        let data: Value = serde_json::from_slice(&data).unwrap();
        assert_eq!(data["fit"]["shorter"], json!(fitted), "{data}");
    }
    let work = tempfile::tempdir().unwrap();
    let said = import(&fixture("dinov2_1"), &work.path().join("run"));
    assert!(!said.contains("the run reads"), "{said}");
}
