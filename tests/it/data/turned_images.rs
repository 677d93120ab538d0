//! Pictures are read as viewers show them: rotated by their EXIF orientation (`tests/goldens/make_exif.py`).

use crate::oracle::Oracle;
use formwork::data::images::decode::{decode, shape_of};

#[test]
fn every_orientation_is_pil_s() {
    let oracle = Oracle::open("exif");
    let bytes = |name: &str| {
        let (shape, values) = oracle.integers(name);
        (shape, values.iter().map(|x| *x as u8).collect::<Vec<u8>>())
    };
    let jpegs = (1..=8).map(|n| (format!("file.{n}"), format!("pixels.{n}")));
    let png = ("png.file".to_string(), "png.pixels".to_string());
    for (file, pixels) in jpegs.chain([png]) {
        let (_, content) = bytes(&file);
        let (shape, expected) = bytes(&pixels);
        let found = shape_of(&content, &file).unwrap();
        assert_eq!(found.as_slice(), shape, "{file}");
        let ours = decode(&content, &file, found, None).unwrap();
        // JPEG decoders differ in rounding.
        let off = ours
            .iter()
            .zip(&expected)
            .map(|(a, b)| a.abs_diff(*b))
            .max();
        assert!(off.unwrap() <= 3, "{file} is off by {off:?}");
    }
}
