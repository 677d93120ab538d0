//! Image processors that are stored outside their own file, and those with special keys.

use super::{folder, processor, read_json, told};
use formwork::data::Shape;
use formwork::data::images::{Filter, Fit};
use formwork::interop::image_processor;
use serde_json::{Value, json};

/// Version 5 of transformers writes the settings of image and text processors into the combined processor's file, which takes
/// precedence if both files exist.
#[test]
fn settings_are_read_from_the_whole_processor_s_file() {
    let of_images = json!({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 36},
                           "crop_size": {"height": 32, "width": 32}, "image_std": [0.5, 0.5, 0.5], "do_convert_rgb": true});
    let whole =
        json!({"image_processor": of_images, "processor_class": "CLIPProcessor"}).to_string();
    let other = json!({"size": 16}).to_string();
    let (name, processor) = (image_processor::NAME, image_processor::PROCESSOR);
    for files in [
        vec![(processor, whole.as_bytes())],
        vec![(processor, whole.as_bytes()), (name, other.as_bytes())],
    ] {
        let dir = folder(&files);
        let found = image_processor::read(dir.path()).unwrap().unwrap();
        assert_eq!((found.size, found.std), (Some([32, 32]), vec![0.5; 3]));
        assert_eq!(found.fit.and_then(|fit| fit.shorter), Some(36));
        assert_eq!(found.ignored, ["do_convert_rgb"]);
    }
    // Earlier versions wrote no such object.
    let older: &[u8] = br#"{"processor_class": "CLIPProcessor"}"#;
    let dir = folder(&[(processor, older)]);
    assert!(image_processor::read(dir.path()).unwrap().is_none());
    let dir = folder(&[(processor, older), (name, other.as_bytes())]);
    let found = image_processor::read(dir.path()).unwrap().unwrap();
    assert_eq!(found.size, Some([16, 16]));
    for (text, words) in [
        (r#"{"image_processor": 3}"#, "`image_processor` = 3"),
        (
            r#"{"image_processor": {"do_pad": true}}"#,
            "`do_pad` = true",
        ),
        ("[]", "is not a JSON object"),
    ] {
        let dir = folder(&[(processor, text.as_bytes())]);
        let message = told(dir.path(), image_processor::read(dir.path()));
        assert!(
            message.contains("processor_config.json: ") && message.contains(words),
            "{message}"
        );
    }
}

/// The Idefics class has its own name and keys, and stretches images.
#[test]
fn idefics_has_a_file_of_its_own() {
    let shape = Shape {
        image: Some([3, 28, 28]),
        mean: vec![0.5; 3],
        std: vec![0.25; 3],
        fit: Some(Fit::default()),
        ..Shape::default()
    };
    let dir = folder(&[]);
    let notes = image_processor::write(dir.path(), &shape, "idefics").unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    let written = read_json(&dir.path().join(image_processor::NAME));
    assert_eq!(written["image_processor_type"], "IdeficsImageProcessor");
    assert_eq!(
        (&written["image_size"], &written["image_num_channels"]),
        (&json!(28), &json!(3))
    );
    let mut again = Shape::default();
    let found = image_processor::read(dir.path()).unwrap().unwrap();
    found.apply(&mut again);
    assert_eq!(again, shape);
    let cut = Shape {
        fit: Some(Fit {
            shorter: Some(32),
            ..Fit::default()
        }),
        ..shape
    };
    let notes = image_processor::write(dir.path(), &cut, "idefics").unwrap();
    assert!(notes[0].contains("cropping"), "{notes:?}");
}

/// BEiT's and DINOv3's processors have their own defaults; a centre crop needs resized images.
#[test]
fn defaults_of_beit_and_dinov3_and_a_cut_without_resizing() {
    let read = |class: &str| {
        let config = json!({ "image_processor_type": class });
        processor(&config).1.unwrap().unwrap()
    };
    let beit = read("BeitImageProcessor");
    let stretched = Fit {
        filter: Filter::Bicubic,
        ..Fit::default()
    };
    assert_eq!((beit.size, beit.fit), (Some([224, 224]), Some(stretched)));
    let dinov3 = read("DINOv3ViTImageProcessorFast");
    let fit = Some(Fit::default());
    assert_eq!((dinov3.size, dinov3.fit), (Some([224, 224]), fit));
    let near = |ours: &[f32], theirs: [f32; 3]| {
        ours.len() == 3 && ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 1e-5)
    };
    assert!(near(&dinov3.mean, [0.485, 0.456, 0.406]), "{dinov3:?}");
    assert!(near(&dinov3.std, [0.229, 0.224, 0.225]), "{dinov3:?}");
    let cut = json!({"do_resize": false, "do_center_crop": true, "crop_size": 16});
    let (dir, found) = processor(&cut);
    let message = told(dir.path(), found);
    let words = "`do_center_crop` = true with `do_resize` = false";
    assert!(message.contains(words), "{message}");
}

/// Expected values come from `AutoImageProcessor.from_pretrained` of transformers 5.24 for folders with these files, and from
/// the shape of its output.
#[test]
fn files_that_leave_keys_out_have_the_defaults_of_their_class() {
    let read = |settings: Value, model_type: &str| {
        let config = json!({ "model_type": model_type }).to_string();
        let dir = folder(&[
            ("preprocessor_config.json", settings.to_string().as_bytes()),
            ("config.json", config.as_bytes()),
        ]);
        image_processor::read(dir.path()).unwrap().unwrap()
    };
    let (half, whole) = (vec![0.5_f32; 3], Some([224, 224]));
    let bicubic = Fit {
        filter: Filter::Bicubic,
        ..Fit::default()
    };
    let cut = Fit {
        stretched: Some([256, 256]),
        ..bicubic
    };
    let old = json!({"feature_extractor_type": "BeitFeatureExtractor"});
    let larger = json!({"feature_extractor_type": "BeitFeatureExtractor", "do_center_crop": true, "size": 256});
    let smaller = json!({
        "image_processor_type": "BeitImageProcessor", "do_center_crop": true, "size": 256, "crop_size": 200,
    });
    for (settings, size, fit) in [
        (json!({}), whole, bicubic),
        (json!({"do_center_crop": true}), whole, bicubic),
        (old, whole, bicubic),
        (larger, whole, cut),
        (smaller, Some([200, 200]), cut),
    ] {
        let found = read(settings.clone(), "beit");
        assert_eq!((found.size, found.fit), (size, Some(fit)), "{settings}");
        assert_eq!([found.mean, found.std], [half.clone(), half.clone()]);
    }
    let shorter = Some(Fit {
        shorter: Some(224),
        ..bicubic
    });
    let bare = |model_type: &str| read(json!({"do_normalize": true}), model_type);
    for kind in ["dinov2", "clip", "bit"] {
        let found = bare(kind);
        assert_eq!((found.size, found.fit), (whole, shorter), "{kind}");
        assert!((found.mean[0] - 0.48145466).abs() < 1e-6, "{kind}");
    }
    let deit = bare("deit");
    assert_eq!((deit.size, deit.fit), (whole, Some(cut)));
    let vit = read(json!({}), "vit");
    assert_eq!((vit.size, vit.fit), (None, Some(Fit::default())));
    // Its class has no crop size.
    let (dir, found) =
        processor(&json!({"image_processor_type": "ViTImageProcessor", "do_center_crop": true}));
    let message = told(dir.path(), found);
    let words = "`do_center_crop` = true without `crop_size`";
    assert!(message.contains(words), "{message}");
}

/// Levit's processor resizes beyond the size in its file before it crops; SigLIP 2's keeps the aspect ratio of images.
#[test]
fn classes_that_make_pixels_in_ways_of_their_own_are_told() {
    for class in ["LevitImageProcessor", "Siglip2ImageProcessor", "ViTHybrid"] {
        let keys = json!({"image_processor_type": class, "size": {"height": 24, "width": 24}});
        let (dir, found) = processor(&keys);
        let message = told(dir.path(), found);
        let words = format!("`image_processor_type` = \"{class}\" is not known");
        assert!(message.contains(&words), "{message}");
    }
    // The default is 384 without a crop in transformers 5.24.
    let convnext = processor(&json!({"image_processor_type": "ConvNextImageProcessorFast"}));
    assert_eq!(convnext.1.unwrap().unwrap().size, Some([384, 384]));
}
