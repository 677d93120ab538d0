//! Augmentation: operations against torchvision's, rates, and draws that are a function of (seed, draw).

use super::Folder;
use super::images::{RAW, bytes, idx, image, prepared};
use crate::oracle::Oracle;
use formwork::data::batch::Content;
use formwork::data::images::blur::blurred;
use formwork::data::images::mix::beta;
use formwork::data::images::operations::Operation;
use formwork::data::images::resize::resize;
use formwork::data::loader::{BatchSize, Order, step_batches};
use formwork::data::{Data, SearchPath};
use formwork::rng::{Purpose, Stream};

fn shape(dims: &[usize]) -> [usize; 3] {
    dims.try_into().unwrap()
}

#[test]
fn operations_are_torchvisions() {
    let oracle = Oracle::open("image_ops");
    let check = |operation: Operation, name: &str, of: &str| {
        let (dims, image) = oracle.bytes(of);
        let ours = operation.apply(image, shape(&dims));
        assert_eq!(ours, oracle.bytes(name).1, "{name}");
    };
    for factor in [0.5, 1.5] {
        let named = |name: &str| format!("{name}_{factor}");
        check(Operation::Brightness(factor), &named("brightness"), "image");
        check(Operation::Color(factor), &named("color"), "image");
        check(Operation::Contrast(factor), &named("contrast"), "image");
        check(Operation::Sharpness(factor), &named("sharpness"), "image");
    }
    for (operation, name) in [
        (Operation::AutoContrast, "autocontrast"),
        (Operation::Posterize(4), "posterize_4"),
        (Operation::Solarize(128.0), "solarize_128"),
        (Operation::Solarize(0.0), "invert"),
        (Operation::Rotate(15.0), "rotate_15"),
        (Operation::ShearX(0.3), "shear_x_0.3"),
        (Operation::ShearY(0.3), "shear_y_0.3"),
        (Operation::TranslateX(3.0), "translate_x_3"),
        (Operation::TranslateY(3.0), "translate_y_3"),
        (Operation::Equalize, "image"),
        (Operation::Posterize(8), "image"),
        (Operation::Identity, "image"),
    ] {
        check(operation, name, "image");
    }
    check(Operation::Equalize, "equalize", "large");
}

#[test]
fn hues_are_colorsys_s_and_blur_is_a_convolution() {
    let oracle = Oracle::open("views");
    let (dims, image) = oracle.bytes("image");
    let check = |ours: &[u8], name: &str| {
        let (_, theirs) = oracle.bytes(name);
        let off = ours.iter().zip(&theirs).map(|(a, b)| a.abs_diff(*b));
        let off: Vec<u8> = off.collect();
        // Single precision may round differently from double.
        assert!(off.iter().all(|off| *off <= 1), "{name}");
        let other = off.iter().filter(|off| **off > 0).count();
        assert!(other * 50 < off.len(), "{name}: {other} of {}", off.len());
    };
    for by in [0.1, -0.3] {
        let ours = Operation::Hue(by).apply(image.clone(), shape(&dims));
        check(&ours, &format!("hue_{by}"));
    }
    for sigma in [0.4, 1.5] {
        let ours = blurred(&image, shape(&dims), sigma);
        check(&ours, &format!("blur_{sigma}"));
    }
}

#[test]
fn resizing_is_torchvisions() {
    let oracle = Oracle::open("image_ops");
    let (dims, image) = oracle.bytes("image");
    let ours = resize(&image, shape(&dims), [7, 9]);
    let (_, theirs) = oracle.bytes("resize_7x9_antialias");
    assert_eq!(ours, theirs);
}

/// Data with one image of 12 x 12 whose pixels all differ (1 to 144), and one white image.
fn numbered(augment: &str) -> (Folder, Data) {
    let mut pixels: Vec<u8> = (1..=144).collect();
    pixels.extend([255; 144]);
    let folder = Folder::with(&[
        ("images", &idx(&pixels, 12, 12)),
        ("labels", &idx(&[0, 1], 0, 0)),
    ]);
    let keys = format!(
        "kind = \"images\"\npath = \"images\"\nlabels = \"labels\"\nvalid_path = \"images\"\nvalid_labels = \"labels\"\n\
         augment = {{ {augment} }}\n{RAW}"
    );
    let data = prepared(&folder.places(), &keys, 5).unwrap();
    (folder, data)
}

const DRAWS: u64 = 6000;

#[test]
fn crops_are_uniform_and_half_are_mirrored() {
    let (_folder, data) = numbered("crop = 2, flip = true");
    let mut counts = [[0u32; 5]; 5];
    let mut mirrored = 0;
    for draw in 0..DRAWS {
        let seen = bytes(&image(&*data.train, 0, draw));
        // The pixel in the middle tells the window's position.
        let at = |row: usize, column: usize| usize::from(seen[row * 12 + column]) - 1;
        let flipped = at(5, 5) > at(5, 6);
        mirrored += u32::from(flipped);
        let corner = if flipped { at(5, 6) } else { at(5, 5) };
        // Column 5 of the unmirrored image is column 6 of the mirrored one.
        counts[corner / 12 - 3][corner % 12 - 3] += 1;
        let black = seen.iter().filter(|p| **p == 0).count();
        let (down, right) = ((corner / 12).abs_diff(5), (corner % 12).abs_diff(5));
        assert_eq!(black, 144 - (12 - down) * (12 - right));
    }
    assert!(
        f64::from(mirrored).abs_diff_below(DRAWS as f64 / 2.0, 200.0),
        "{mirrored}"
    );
    for count in counts.as_flattened() {
        assert!(
            f64::from(*count).abs_diff_below(DRAWS as f64 / 25.0, 70.0),
            "{counts:?}"
        );
    }
    // Validation images are unchanged.
    let valid = data.valid.as_ref().unwrap();
    let expected: Vec<u8> = (1..=144).collect();
    assert_eq!(bytes(&image(&**valid, 0, 7)), expected);
}

trait Near {
    fn abs_diff_below(self, other: f64, limit: f64) -> bool;
}

impl Near for f64 {
    fn abs_diff_below(self, other: f64, limit: f64) -> bool {
        (self - other).abs() < limit
    }
}

#[test]
fn erased_rectangles_have_the_areas_of_the_paper() {
    let (_folder, data) = numbered("erase = 0.25");
    let areas: Vec<f64> = (0..DRAWS)
        .map(|draw| {
            let seen = bytes(&image(&*data.train, 1, draw));
            let black = seen.iter().filter(|p| **p == 0).count();
            black as f64 / 144.0
        })
        .filter(|area| *area > 0.0)
        .collect();
    let rate = areas.len() as f64 / DRAWS as f64;
    assert!(rate.abs_diff_below(0.25, 0.03), "{rate}");
    // Whole pixels round the ends of the range of 2 to 33 %.
    assert!(areas.iter().all(|a| (0.006..0.4).contains(a)));
    let mean = areas.iter().sum::<f64>() / areas.len() as f64;
    assert!(mean.abs_diff_below(0.175, 0.02), "{mean}");
}

#[test]
fn mixed_labels_say_how_much_is_seen_of_each() {
    let (_folder, data) = numbered("mixup = 0.8, cutmix = 1.0");
    let (mut pasted, mut partners, mut shares) = (0, 0, 0.0);
    for draw in 0..DRAWS {
        let item = image(&*data.train, 0, draw);
        let (other, share) = item.mixed.unwrap();
        assert!((0.0..=1.0).contains(&share));
        shares += f64::from(share);
        if other == 0 {
            continue;
        }
        partners += 1;
        let own = image(&**data.valid.as_ref().unwrap(), 0, 0).pixels;
        let white = item.pixels.iter().filter(|p| **p == 1.0).count();
        let kept = own.iter().zip(&item.pixels).filter(|(a, b)| a == b).count();
        if white + kept == 144 {
            pasted += 1;
            assert!((share - kept as f32 / 144.0).abs() < 1e-6);
        } else {
            for (mixed, own) in item.pixels.iter().zip(&own) {
                assert!((mixed - share * own - (1.0 - share)).abs() < 1e-5);
            }
        }
    }
    // Half of the images are mixed with another, half of those by a pasted piece. Mixup keeps half on average. A piece of area
    // u, with s = √u, is cut at the border to (s - s²/4)² on average, so cutmix keeps 0.68, and more as sides are cut to whole
    // pixels.
    assert!(
        f64::from(partners).abs_diff_below(3000.0, 150.0),
        "{partners}"
    );
    assert!(f64::from(pasted).abs_diff_below(1500.0, 150.0), "{pasted}");
    assert!(
        (shares / DRAWS as f64).abs_diff_below(0.61, 0.02),
        "{shares}"
    );
}

#[test]
fn beta_has_its_moments() {
    let mut stream = Stream::new(3, Purpose::Augment, (0, 0, 0));
    for alpha in [0.01, 0.2, 0.8, 1.0, 5.0] {
        let draws: Vec<f64> = (0..20_000).map(|_| beta(alpha, &mut stream)).collect();
        assert!(draws.iter().all(|x| (0.0..=1.0).contains(x)));
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        let expected = 0.25 / (2.0 * alpha + 1.0);
        assert!(mean.abs_diff_below(0.5, 0.015), "{alpha}: {mean}");
        assert!(
            variance.abs_diff_below(expected, 0.006),
            "{alpha}: {variance}"
        );
    }
}

#[test]
fn operations_are_as_likely_and_as_strong_as_torchvisions() {
    let mut stream = Stream::new(3, Purpose::Augment, (1, 0, 0));
    let mut counts = std::collections::BTreeMap::new();
    let mut negative = 0;
    for _ in 0..14_000 {
        let operation = Operation::draw(15, [3, 32, 40], &mut stream);
        let close = |x: f64, to: f64| assert!((x.abs() - to).abs() < 1e-6, "{operation:?}");
        match operation {
            Operation::ShearX(s) | Operation::ShearY(s) => close(s, 0.15),
            // 20 and 16 times 150/331.
            Operation::TranslateX(by) => close(by, 9.0),
            Operation::TranslateY(by) => close(by, 7.0),
            Operation::Rotate(degrees) => {
                negative += u32::from(degrees < 0.0);
                close(degrees, 15.0);
            }
            Operation::Brightness(f)
            | Operation::Color(f)
            | Operation::Contrast(f)
            | Operation::Sharpness(f) => close(f64::from(f - 1.0), 0.45),
            Operation::Posterize(bits) => assert_eq!(bits, 6),
            Operation::Solarize(from) => assert_eq!(from, 127.5),
            Operation::Identity | Operation::AutoContrast | Operation::Equalize => {}
            Operation::Hue(by) => panic!("RandAugment turned hues by {by}"),
        }
        let name = format!("{operation:?}");
        let name = name.split('(').next().unwrap().to_owned();
        *counts.entry(name).or_insert(0u32) += 1;
    }
    assert_eq!(counts.len(), 14);
    assert!(
        counts.values().all(|n| n.abs_diff(1000) < 130),
        "{counts:?}"
    );
    assert!(negative.abs_diff(500) < 80);
}

#[test]
fn an_example_is_a_function_of_its_numbers() {
    let all = "crop = 2, flip = true, rand_augment = {}, erase = 0.5, mixup = 0.8, cutmix = 1.0";
    let (_folder, data) = numbered(all);
    assert_eq!(image(&*data.train, 1, 9), image(&*data.train, 1, 9));
    assert_ne!(
        image(&*data.train, 1, 9).pixels,
        image(&*data.train, 1, 10).pixels
    );
    let step = |micro: usize| {
        let mut order = Order::new(5, BatchSize::Items(8));
        let batches = step_batches(&*data.train, &mut order, micro, 3).unwrap();
        let mut pixels = Vec::new();
        let mut mixed = Vec::new();
        for batch in batches {
            let Content::Images(content) = batch.content else {
                panic!("images");
            };
            let labels = content.labels.into_iter();
            mixed.extend(labels.zip(content.mixed.unwrap()));
            pixels.extend(content.pixels);
        }
        (pixels, mixed)
    };
    assert_eq!(step(8), step(3));
    assert_eq!(step(8), step(1));
}

fn generated(keys: &str, seed: u64) -> Data {
    prepared(
        &SearchPath::with_folders(None, Vec::new(), "none".into()),
        keys,
        seed,
    )
    .unwrap()
}

#[test]
fn shapes_must_be_looked_at() {
    let data = generated(
        "kind = \"shapes\"\nclasses = 8\nchannels = 3\ntest_items = 50",
        1,
    );
    assert_eq!(data.shape.image, Some([3, 28, 28]));
    assert_eq!(data.shape.classes[..3], ["circle", "square", "triangle"]);
    assert!(data.train.is_endless());
    let images: Vec<_> = (0..4000).map(|i| image(&*data.train, i, i)).collect();
    // Neither brightness nor position tells the class: the mean of each class over its images is grey.
    for class in 0..8 {
        let own: Vec<_> = images.iter().filter(|i| i.label == class).collect();
        assert!(own.len().abs_diff(500) < 90, "{class}: {}", own.len());
        for at in [0, 400, 783, 1200] {
            let mean = own.iter().map(|i| i.pixels[at]).sum::<f32>() / own.len() as f32;
            assert!(mean.abs() < 0.25, "{class} {at}: {mean}");
        }
    }
    let other = generated(
        "kind = \"shapes\"\nclasses = 8\nchannels = 3\ntest_items = 50",
        2,
    );
    assert_ne!(image(&*data.train, 0, 0), image(&*other.train, 0, 0));
    let held_out = |data: &Data| {
        let (valid, test) = (data.valid.as_ref().unwrap(), data.test.as_ref().unwrap());
        assert_eq!((valid.len(), test.len()), (1000, 50));
        [image(&**valid, 3, 3), image(&**test, 3, 3)]
    };
    assert_eq!(held_out(&data), held_out(&other));
    let noise = generated("kind = \"random_images\"\nchannels = 3\nclasses = 5", 1);
    let item = image(&*noise.train, 0, 0);
    let mean = item.pixels.iter().sum::<f32>() / item.pixels.len() as f32;
    assert!(item.shape == [3, 28, 28] && mean.abs() < 0.1 && item.label < 5);
}
