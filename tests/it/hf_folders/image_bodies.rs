//! Image networks without a classifier (`ViTModel`): imported runs with an initialised classifier, from which others begin;
//! messages of import about folders without image settings; and reasons why a model belongs to no image family.

use super::files::{self, copy};
use super::ties::{config, import, with_keys};
use super::{fixture, infer, shown};
use crate::binary::{formwork, output};
use crate::oracle::write_safetensors;
use formwork::interop::families::HfShape;
use formwork::interop::weights::Array;
use formwork::interop::{export, read_config};
use formwork::model::{ModelConfig, VisionConfig};
use formwork::task::TaskConfig;
use formwork::task::whole_text::Pooling;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A classifier's folder as its network alone would be saved: without the classifier and the names' prefix, with a pooler.
fn body(name: &str, class: &str, prefix: &str) -> tempfile::TempDir {
    let folder = copy(&fixture(name));
    let keys = [
        ("architectures", json!([class])),
        ("id2label", Value::Null),
        ("label2id", Value::Null),
    ];
    with_keys(folder.path(), &keys);
    let weights = folder.path().join("model.safetensors");
    let found = files::read(&weights).into_iter();
    let found = found.filter_map(|(key, numbers)| {
        let array = Array {
            shape: numbers.shape,
            values: numbers.values,
        };
        Some((key.strip_prefix(prefix)?.to_owned(), array))
    });
    let mut tensors: BTreeMap<String, Array> = found.collect();
    let pooler = Array {
        shape: vec![2, 2],
        values: vec![1.0; 4],
    };
    tensors.insert("pooler.dense.weight".into(), pooler);
    write_safetensors(&weights, &tensors);
    folder
}

#[test]
fn a_network_without_a_classifier_is_imported() {
    for (name, class, prefix) in [
        ("vit_1", "ViTModel", "vit."),
        ("deit_1", "DeiTModel", "deit."),
        ("resnet_1", "ResNetModel", "resnet."),
        ("bit_1", "BitModel", "bit."),
        ("swin_1", "SwinModel", "swin."),
        ("swinv2_1", "Swinv2Model", "swinv2."),
        ("dinov2_1", "Dinov2Model", "dinov2."),
        ("beit_1", "BeitModel", "beit."),
        (
            "dinov2_with_registers_1",
            "Dinov2WithRegistersModel",
            "dinov2_with_registers.",
        ),
    ] {
        let folder = body(name, class, prefix);
        let work = tempfile::tempdir().unwrap();
        let [run, exported, again] =
            ["run", "exported", "again"].map(|part| work.path().join(part));
        let said = import(folder.path(), &run);
        let told = format!("{class} has no classifier");
        for part in [told.as_str(), "pooler.dense.weight", "new = [\"head\"]"] {
            assert!(said.contains(part), "{name}: {said}");
        }
        let found = infer(folder.path(), "reference", &shown(&run), &[]);
        let expected = files::read(&folder.path().join("reference.safetensors"));
        for key in ["last_hidden_state", "pooler_output"] {
            let Some(theirs) = expected.get(&format!("expected.{key}")) else {
                continue;
            };
            let ours = found[key].values.iter();
            let off = ours.zip(&theirs.values).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f32::max) < 1e-4, "{name}: {key}");
        }
        assert_eq!(found["logits"].shape, [2, 2], "{name}");
        // It is exported as a classifier, and remains one.
        output(&["export", &shown(&run), &shown(&exported)]);
        assert_ne!(config(&exported)["architectures"], json!([class]));
        assert!(!import(&exported, &again).contains("has no classifier"));
        let second = infer(folder.path(), "reference", &shown(&again), &[]);
        assert!(
            found == second,
            "{name}: an exported folder is another model"
        );
    }
}

/// A classifier's folder without its head is damaged.
#[test]
fn a_classifier_without_its_head_is_refused() {
    let folder = body("vit_1", "ViTForImageClassification", "vit.");
    let words = ["tensor `classifier.weight` [2, 16] is missing"];
    super::hostile::refused("no head", folder.path(), &words);
    let folder = body("vit_1", "ViTForMaskedImageModeling", "vit.");
    let words = [
        "ViTForImageClassification can, and so can ViTModel, with a randomly initialised classifier",
    ];
    super::hostile::refused("another head", folder.path(), &words);
}

/// Keys of DINOv2 with values that its class interprets differently or rejects; and the rate of drop path, which is reported.
#[test]
fn other_networks_of_dinov2() {
    for (name, key, value, words) in [
        (
            "dinov2_1",
            "image_size",
            json!([10, 15]),
            "Dinov2ForImageClassification has positions for square images only",
        ),
        (
            "dinov2_1",
            "layerscale_value",
            json!(0.0),
            "`layerscale_value` = 0.0 must be above 0",
        ),
        (
            "dinov2_with_registers_1",
            "num_register_tokens",
            json!(0),
            "`num_register_tokens` = 0 is not a whole number of at least 1",
        ),
    ] {
        let folder = copy(&fixture(name));
        with_keys(folder.path(), &[(key, value)]);
        super::hostile::refused(key, folder.path(), &[words]);
    }
    let folder = copy(&fixture("dinov2_1"));
    with_keys(folder.path(), &[("drop_path_rate", json!(0.25))]);
    let work = tempfile::tempdir().unwrap();
    let said = import(folder.path(), &work.path().join("run"));
    assert!(said.contains("`drop_path_rate` = 0.25"), "{said}");
}

/// A classifier for other classes begins from it; a different crop of its images is reported.
#[test]
fn a_classifier_begins_from_a_network_without_one() {
    let folder = body("vit_1", "ViTModel", "vit.");
    let settings = json!({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 18}, "crop_size": 15});
    let file = folder.path().join("preprocessor_config.json");
    std::fs::write(file, settings.to_string()).unwrap();
    let work = tempfile::tempdir().unwrap();
    let (run, tuned) = (work.path().join("run"), work.path().join("tuned"));
    import(folder.path(), &run);
    let file = work.path().join("tuned.toml");
    let experiment = format!(
        "extends = \"run/resolved.toml\"\nname = \"tuned\"\n[data]\nkind = \"shapes\"\nsize = 15\nchannels = 3\nvalid_items = 4\n\
         [init]\nfrom = {run:?}\nnew = [\"^head\"]\n[optimizer]\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 2\n"
    );
    std::fs::write(&file, experiment).unwrap();
    let done = formwork(&["train", &shown(&file), "--run", &shown(&tuned), "--quiet"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    for part in [
        "new: head.weight, head.bias",
        "images resized to a shorter side of 18 and cropped at the centre (here stretched to their size)",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn what_is_done_without_settings_of_images_is_told() {
    let work = tempfile::tempdir().unwrap();
    let said = |name: &str| import(&fixture(name), &work.path().join(name));
    let without = said("vit_2");
    assert!(
        without.contains("no image settings (preprocessor_config.json")
            && !without.contains("tokenizer"),
        "{without}"
    );
    let run = shown(&work.path().join("vit_2"));
    let done = formwork(&["export", &run, &shown(&work.path().join("out"))])
        .output()
        .unwrap();
    let exported = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && !exported.contains("tokenizer"),
        "{exported}"
    );
    assert!(!said("vit_1").contains("image settings"));
    let text = said("gpt2_1");
    assert!(
        text.contains("has no tokenizer") && !text.contains("image settings"),
        "{text}"
    );
}

/// The model of a folder after a change.
fn changed(name: &str, change: impl FnOnce(&mut HfShape)) -> HfShape {
    let value = config(&fixture(name));
    let mut shape = read_config(Path::new("config.json"), value, &[], None)
        .unwrap()
        .shape;
    change(&mut shape);
    shape
}

/// The message gives the nearest family of the same kind and the first difference from it.
#[test]
fn the_nearest_family_and_the_difference_are_named() {
    let pooled = |pooling: Pooling| {
        move |shape: &mut HfShape| {
            if let TaskConfig::ImageText(task) = &mut shape.task {
                task.pooling = Some(pooling);
            }
        }
    };
    let unfilled = changed("siglip_1", |shape| {
        if let TaskConfig::ImageText(task) = &mut shape.task {
            task.fill = None;
        }
    });
    let wide = changed("siglip_1", |shape| shape.shape.image = Some([3, 12, 18]));
    let taught = changed("deit_1", |shape| {
        if let ModelConfig::Vision(vision) = &mut shape.model {
            vision.distillation_token = false;
        }
    });
    let dinov2 = |change: fn(&mut VisionConfig)| {
        changed("dinov2_1", |shape| {
            if let ModelConfig::Vision(vision) = &mut shape.model {
                change(vision);
            }
        })
    };
    let registers = dinov2(|vision| vision.n_registers = 2);
    let odd = dinov2(|vision| {
        let layers = serde_json::from_value(json!({ "kind": "dense", "d_ff": 20 }));
        vision.stack.feed_forward = layers.unwrap();
    });
    let both = dinov2(|vision| {
        let layers = serde_json::from_value(json!({ "kind": "dense", "d_ff": 20 }));
        vision.stack.feed_forward = layers.unwrap();
        vision.n_registers = 2;
    });
    for (shape, wanted, words) in [
        (
            registers,
            Some("dinov2"),
            "the family `dinov2`; without --family it is exported as a `dinov2_with_registers`: model.n_registers is 2 instead of 0",
        ),
        (
            odd.clone(),
            None,
            "nearest to `dinov2`, but model.feed_forward is",
        ),
        (
            both,
            None,
            "nearest to `dinov2_with_registers`, but model.feed_forward is",
        ),
        (
            odd,
            Some("dinov2"),
            "instead of dense or gated layers whose width follows from a whole multiple of model.d_model",
        ),
        (
            changed("vit_1", |_| ()),
            Some("dinov2"),
            "model.residual_scale is {\"kind\":\"none\"} instead of a \"layer_scale\"",
        ),
        (
            unfilled,
            None,
            "nearest to `siglip`, but task.fill is absent instead of the id of a token",
        ),
        (
            changed("siglip_1", pooled(Pooling::Mean)),
            None,
            "nearest to `siglip`, but task.pooling is \"mean\" instead of \"last\"",
        ),
        (
            wide,
            None,
            "nearest to `siglip`, but images are 12 by 18 instead of square",
        ),
        (
            changed("clip_1", pooled(Pooling::Mean)),
            None,
            "nearest to `clip`, but task.pooling is \"mean\" instead of \"last\"",
        ),
        (
            changed("siglip_1", |_| ()),
            Some("clip"),
            "model.text.kind is \"encoder\" instead of \"decoder\"",
        ),
        (
            taught,
            Some("deit"),
            "model.distillation_token is false instead of true",
        ),
        (
            changed("resnet_1", |_| ()),
            Some("bit"),
            "model.norm.kind is \"batch\" instead of \"group\"",
        ),
    ] {
        let why = export::target(&shape, shape.task.kind(), wanted, None).unwrap_err();
        let why = why.to_string();
        assert!(why.contains(words), "{words}: {why}");
    }
}
