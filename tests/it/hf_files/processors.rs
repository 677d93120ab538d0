//! Image processors in other places than a file of their own, and those with keys of their own.

use super::{folder, read_json, told};
use formwork::data::Shape;
use formwork::data::images::Fit;
use formwork::interop::image_processor;
use serde_json::json;

/// Version 5 of transformers writes the settings of processors of images and texts into the file of the whole, and takes them from
/// there where both files are.
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

/// The class of Idefics has a name and keys of its own, and stretches images.
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
    assert!(notes[0].contains("cut out"), "{notes:?}");
}
