//! Files beside the model in a Hugging Face folder, imported and exported: image processors and generation settings.

mod generation;
mod processors;

use crate::oracle::Oracle;
use formwork::data::Shape;
use formwork::data::images::normalise::Normalise;
use formwork::data::images::{Filter, Fit};
use formwork::error::Error;
use formwork::interop::image_processor::{self, ImageProcessor};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

pub fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

pub fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns the error message without the folder's name, and checks that it is an error of the input.
pub fn told<T>(dir: &Path, result: formwork::error::Result<T>) -> String {
    let Err(error) = result else {
        panic!("accepted")
    };
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    error
        .to_string()
        .replace(&format!("{}/", dir.display()), "")
}

fn processor(config: &Value) -> (TempDir, formwork::error::Result<Option<ImageProcessor>>) {
    let dir = folder(&[("preprocessor_config.json", config.to_string().as_bytes())]);
    let found = image_processor::read(dir.path());
    (dir, found)
}

#[test]
fn image_processors_are_mean_deviation_and_fit() {
    let vit = json!({"image_processor_type": "ViTImageProcessor", "size": {"height": 24, "width": 32}, "resample": 2,
                     "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.25, 0.2], "do_rescale": true,
                     "rescale_factor": 0.00392156862745098, "size_divisor": null});
    let found = processor(&vit).1.unwrap().unwrap();
    assert_eq!(found.size, Some([24, 32]));
    assert_eq!(
        (found.mean.clone(), found.std.clone()),
        (vec![0.5, 0.4, 0.3], vec![0.5, 0.25, 0.2])
    );
    assert_eq!(found.ignored, ["size_divisor"]);
    let mut shape = Shape::default();
    found.apply(&mut shape);
    assert_eq!(shape.image, Some([3, 24, 32]));
    // Without rescaling, mean and deviation are in units of bytes.
    let bytes = json!({"do_rescale": false, "image_mean": 127.5, "image_std": 255.0, "size": 16});
    let found = processor(&bytes).1.unwrap().unwrap();
    assert_eq!((found.mean, found.std), (vec![0.5; 3], vec![1.0; 3]));
    // ConvNext's processor, which ResNet folders use.
    let convnext = json!({"feature_extractor_type": "ConvNextFeatureExtractor", "size": {"shortest_edge": 224},
                          "crop_pct": 0.875, "resample": 3});
    let found = processor(&convnext).1.unwrap().unwrap();
    let fit = Fit {
        filter: Filter::Bicubic,
        shorter: Some(256),
        stretched: None,
    };
    assert_eq!((found.size, found.fit), (Some([224, 224]), Some(fit)));
    found.apply(&mut shape);
    assert_eq!(shape.image, Some([3, 24, 32]), "the model's own size stays");
    // Exported files are read back as the same shape.
    for shape in [
        Shape {
            fit: Some(Fit::default()),
            ..shape.clone()
        },
        Shape {
            image: Some([3, 224, 224]),
            ..shape.clone()
        },
    ] {
        let dir = folder(&[]);
        assert!(
            image_processor::write(dir.path(), &shape, "vit")
                .unwrap()
                .is_empty()
        );
        let mut again = Shape::default();
        image_processor::read(dir.path())
            .unwrap()
            .unwrap()
            .apply(&mut again);
        assert_eq!(
            again,
            Shape {
                context: 0,
                vocab_size: 0,
                classes: Vec::new(),
                ..shape
            }
        );
    }
    let wrong = json!({"size": {"shortest_edge": 9}, "resample": 1, "image_std": [0.0, 1, 1], "do_pad": true, "do_resize": 1});
    let (dir, found) = processor(&wrong);
    let message = told(dir.path(), found);
    for part in [
        "`do_pad` = true",
        "`image_std`",
        "`resample` = 1",
        "`do_resize` = 1",
        "without `do_center_crop`",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

/// Defaults of CLIP's, Bit's, DeiT's, SigLIP's and ConvNext's processors that differ from those of other classes, and how
/// CLIP's and ConvNext's read a single number.
#[test]
fn processors_have_defaults_and_numbers_of_their_own() {
    let read = |config: Value| processor(&config).1.unwrap().unwrap();
    let bicubic = |shorter: usize| {
        Some(Fit {
            filter: Filter::Bicubic,
            shorter: Some(shorter),
            stretched: None,
        })
    };
    let clip = json!({"image_processor_type": "CLIPImageProcessor", "size": 24, "crop_size": 16});
    let found = read(clip);
    assert_eq!((found.size, found.fit), (Some([16, 16]), bicubic(24)));
    let bit = read(json!({"image_processor_type": "BitImageProcessor", "do_convert_rgb": true}));
    assert_eq!((bit.size, bit.fit), (Some([224, 224]), bicubic(224)));
    let near = |ours: &[f32], theirs: [f32; 3]| {
        ours.len() == 3 && ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 1e-5)
    };
    for found in [found, bit] {
        assert!(near(&found.mean, [0.48145, 0.45783, 0.40821]), "{found:?}");
        assert!(near(&found.std, [0.26863, 0.26130, 0.27578]), "{found:?}");
    }
    let whole = json!({"image_processor_type": "CLIPImageProcessor", "size": {"height": 9, "width": 8}, "do_center_crop": false});
    assert_eq!(read(whole).size, Some([9, 8]));
    // 32 / 0.875, rounded down.
    let convnext = read(json!({"image_processor_type": "ConvNextImageProcessor", "size": 32}));
    assert_eq!((convnext.size, convnext.fit), (Some([32, 32]), bicubic(36)));
    let stretched = |stretched: Option<[usize; 2]>| {
        Some(Fit {
            filter: Filter::Bicubic,
            shorter: None,
            stretched,
        })
    };
    let deit = read(json!({"image_processor_type": "DeiTImageProcessor"}));
    let fit = stretched(Some([256, 256]));
    assert_eq!((deit.size, deit.fit), (Some([224, 224]), fit));
    let siglip = read(json!({"image_processor_type": "SiglipImageProcessor"}));
    let keys = json!({"image_processor_type": "IdeficsImageProcessor", "image_size": 28, "image_num_channels": 3});
    let idefics = read(keys);
    assert_eq!(
        (idefics.size, idefics.fit),
        (Some([28, 28]), stretched(None))
    );
    assert!(
        near(&idefics.mean, [0.48145, 0.45783, 0.40821]),
        "{idefics:?}"
    );
    assert!(idefics.ignored.is_empty(), "{idefics:?}");
    assert_eq!(
        (siglip.size, siglip.fit),
        (Some([224, 224]), stretched(None))
    );
}

#[test]
fn pixels_are_those_of_the_processors() {
    let oracle = Oracle::open("image_processors");
    let (dims, image) = oracle.bytes("image");
    let from = [dims[0], dims[1], dims[2]];
    let configs: Value = serde_json::from_str(&oracle.config()).unwrap();
    for (name, config) in configs.as_object().unwrap() {
        let found = processor(config).1.unwrap().unwrap();
        let mut shape = Shape::default();
        found.apply(&mut shape);
        let wanted = shape.image.unwrap();
        let bytes = found.fit.unwrap().apply(&image, from, wanted).unwrap();
        let ours = Normalise::new(&shape.mean, &shape.std, 3).apply(&bytes);
        for backend in ["torchvision", "pil"] {
            let theirs = oracle.array(&format!("{name}.{backend}"));
            assert_eq!(theirs.shape, wanted, "{name}");
            let area = wanted[1] * wanted[2];
            let levels = ours.iter().zip(&theirs.values).enumerate();
            let levels = levels.map(|(at, (a, b))| ((a - b) * 255.0 * shape.std[at / area]).abs());
            let (other, most) = levels.fold((0, 0.0f32), |(n, most), d| {
                (n + usize::from(d > 0.5), most.max(d))
            });
            println!(
                "{name} {backend}: {other} of {} differ, by {most} at most",
                ours.len()
            );
            // The two backends differ from each other by 1 of 255 where a value lies between two bytes.
            assert!(
                most < 1.01 && other * 50 < ours.len(),
                "{name} {backend}: {other} by {most}"
            );
        }
    }
}

#[test]
fn images_that_a_fit_cannot_have_are_refused() {
    let fit = |shorter: usize| Fit {
        shorter: Some(shorter),
        ..Fit::default()
    };
    let image = vec![0; 3 * 2 * 900];
    let refused = |fit: Fit, wanted: [usize; 3]| {
        fit.apply(&image, [3, 2, 900], wanted)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(fit(8), [3, 9, 8]).contains("9 x 8 are cut out"));
    assert!(refused(fit(4096), [3, 8, 8]).contains("more than"));
    assert_eq!(
        fit(8).apply(&image, [3, 2, 900], [3, 8, 8]).unwrap().len(),
        3 * 64
    );
}
