//! Pathfinder: circles are connected if and only if a flood fill over lit pixels says so, both classes have the same
//! statistics, and images are reproducible.

use super::images::image;
use super::{get, prepared};
use formwork::data::synthetic::pathfinder::drawing::{Drawing, Place};
use formwork::data::{Data, DataSet, PathfinderConfig, SearchPath, Split};

/// Brightness from which a pixel is lit. Lit pixels whose squared distance is at most `NEAR` are neighbours, which joins the
/// dashes of a path, but not two paths.
const LIT: u8 = 72;
const NEAR: i32 = 10;

fn generated(keys: &str, seed: u64) -> Data {
    let places = SearchPath::with_folders(None, Vec::new(), "none".into());
    prepared(
        &format!("kind = \"pathfinder\"\n{keys}"),
        None,
        &places,
        seed,
    )
    .unwrap()
}

/// Whether a flood fill that begins at one circle reaches the other.
fn joined(drawing: &Drawing, size: usize) -> bool {
    let at = |(x, y): Place| (x as i32, y as i32);
    let number = |(x, y): (i32, i32)| y as usize * size + x as usize;
    let [from, to] = drawing.circles.map(at);
    let mut reached = vec![false; size * size];
    let mut next = vec![from];
    while let Some((x, y)) = next.pop() {
        for (dx, dy) in (-3..=3).flat_map(|dx| (-3..=3).map(move |dy| (dx, dy))) {
            let place = (x + dx, y + dy);
            let side = 0..size as i32;
            let inside = side.contains(&place.0) && side.contains(&place.1);
            if !inside || dx * dx + dy * dy > NEAR {
                continue;
            }
            let place_number = number(place);
            if drawing.pixels[place_number] >= LIT && !reached[place_number] {
                reached[place_number] = true;
                next.push(place);
            }
        }
    }
    reached[number(to)]
}

#[test]
fn a_flood_says_what_the_label_says() {
    for (size, length, distractors, distractor_length, count) in
        [(32, 6, 2, 2, 400), (24, 4, 1, 2, 100), (64, 14, 4, 4, 100)]
    {
        let config = PathfinderConfig {
            size,
            length,
            distractors,
            distractor_length,
            ..PathfinderConfig::default()
        };
        assert!(config.faults().is_empty());
        for sample in 0..count {
            let drawing = config.drawing(3, Split::Train, sample).unwrap();
            for (x, y) in drawing.circles {
                assert_eq!(drawing.pixels[y as usize * size + x as usize], 255);
            }
            assert_eq!(joined(&drawing, size), drawing.joined, "{size}: {sample}");
        }
    }
}

#[test]
fn neither_light_nor_distance_tells_the_classes() {
    let config = PathfinderConfig::default();
    let mut light = [0.0; 2];
    let mut apart = [0.0; 2];
    let mut count = [0.0; 2];
    for sample in 0..1000 {
        let drawing = config.drawing(1, Split::Train, sample).unwrap();
        let class = usize::from(drawing.joined);
        let [a, b] = drawing.circles;
        count[class] += 1.0;
        light[class] += drawing.pixels.iter().map(|p| f64::from(*p)).sum::<f64>();
        apart[class] += f64::from((a.0 - b.0).hypot(a.1 - b.1));
    }
    // 1,000 coin tosses: 3 deviations are 47.
    assert!((count[1] - 500.0_f64).abs() < 60.0, "{count:?}");
    let mean = |sums: [f64; 2]| [sums[0] / count[0], sums[1] / count[1]];
    let (light, apart) = (mean(light), mean(apart));
    assert!((light[0] / light[1] - 1.0).abs() < 0.01, "{light:?}");
    assert!((apart[0] - apart[1]).abs() < 1.0, "{apart:?}");
}

#[test]
fn held_out_images_are_balanced_and_the_same_for_every_seed() {
    let keys = "valid_items = 40\ntest_items = 10";
    let (one, other) = (generated(keys, 1), generated(keys, 2));
    let valid = |data: &Data, sample| image(data.valid.as_deref().unwrap(), sample, 0);
    let labels: i32 = (0..40).map(|n| valid(&one, n).label).sum();
    assert_eq!(labels, 20);
    assert_eq!(valid(&one, 7), valid(&other, 7));
    assert_ne!(valid(&one, 7), image(one.test.as_deref().unwrap(), 7, 0));
    let train = |data: &Data| image(data.train.as_ref(), 7, 0);
    assert_eq!(train(&one), image(one.train.as_ref(), 7, 9));
    assert_ne!(train(&one), train(&other));
    assert_ne!(train(&one), valid(&one, 7));
    assert_eq!(one.shape.classes, ["apart", "joined"]);
}

#[test]
fn a_sequence_is_the_image_row_by_row() {
    let (images, texts) = (generated("", 1), generated("sequence = true", 1));
    let shape = &texts.shape;
    assert_eq!(
        (shape.context, shape.vocab_size, shape.image),
        (1024, 256, None)
    );
    let (picture, text) = (image(images.train.as_ref(), 5, 0), get(&texts.train, 5));
    assert_eq!(text.label, Some(picture.label));
    let (mean, std) = (images.shape.mean[0], images.shape.std[0]);
    let value = |pixel: &f32| ((pixel * std + mean) * 255.0).round() as i32;
    assert_eq!(
        text.inputs,
        picture.pixels.iter().map(value).collect::<Vec<_>>()
    );
    assert_eq!(texts.train.size(5), 1024);
}

#[test]
fn paths_without_room_are_refused() {
    let places = SearchPath::with_folders(None, Vec::new(), "none".into());
    let keys = "kind = \"pathfinder\"\nsize = 16\nlength = 12\nvalid_items = 0";
    let error = prepared(keys, None, &places, 1).err().unwrap().to_string();
    assert!(
        error.contains("size = 16 hardly has room for two paths of length = 12"),
        "{error}"
    );
}

/// A config that is accepted when a run begins has room for all of its images; overcrowding is reported then.
#[test]
fn crowded_images_are_refused_when_a_run_begins() {
    let crowded = |size: usize| PathfinderConfig {
        size,
        length: 3,
        distractors: 1,
        distractor_length: 2,
        valid_items: 8,
        ..PathfinderConfig::default()
    };
    let places = SearchPath::with_folders(None, Vec::new(), "none".into());
    for size in 16..26 {
        let config = crowded(size);
        let keys = format!(
            "kind = \"pathfinder\"\nsize = {size}\nlength = 3\ndistractors = 1\ndistractor_length = 2\nvalid_items = 8"
        );
        match prepared(&keys, None, &places, 5) {
            Ok(_) => {
                for sample in 0..2000 {
                    config.drawing(5, Split::Train, sample).unwrap();
                }
            }
            Err(error) => assert!(error.to_string().contains("hardly has room"), "{error}"),
        }
    }
}
