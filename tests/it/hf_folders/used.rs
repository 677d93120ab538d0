//! An imported model on examples from files: images are fitted as its processor says, in `eval` as in `classify`.

use super::{fixture, shown};
use crate::binary::output;
use serde_json::Value;

/// The loss over a folder of images follows from the probabilities that `classify` gives them one by one. No image has the
/// model's aspect ratio, with which stretching and cropping would be alike.
#[test]
fn images_are_fitted_in_eval_as_in_classify() {
    let work = tempfile::tempdir().unwrap();
    let (run, images) = (shown(&work.path().join("run")), work.path().join("images"));
    output(&["import", &shown(&fixture("resnet_1")), &run]);
    let json = |words: &[&str]| -> Value { serde_json::from_str(&output(words)).unwrap() };
    let mut expected = 0.0;
    for (number, class) in ["LABEL_0", "LABEL_1", "LABEL_2"].into_iter().enumerate() {
        let folder = images.join(class);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.png");
        let (width, height) = [(60, 31), (25, 90), (47, 47)][number];
        let byte = |x: u32| (x % 256) as u8;
        image::RgbImage::from_fn(width, height, |x, y| {
            image::Rgb([
                byte(x * y + 9),
                byte(5 * x + 40 * number as u32),
                byte(3 * y),
            ])
        })
        .save(&file)
        .unwrap();
        let found = json(&["classify", &run, &shown(&file), "--json", "--top", "3"]);
        let classes = found["classes"].as_array().unwrap();
        let own = classes.iter().find(|c| c["class"] == class).unwrap();
        expected -= own["probability"].as_f64().unwrap().ln() / 3.0;
    }
    let scores = json(&["eval", &run, "--data", &shown(&images), "--json"]);
    let loss = scores["loss"].as_f64().unwrap();
    assert!((loss - expected).abs() < 1e-4, "{loss}, not {expected}");
}
