//! Images and classes in table columns, as Hugging Face's `datasets` writes them (tests/goldens/make_pictures.py).

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::images::{self, RAW3, bytes, image};
use super::{Folder, get};
use formwork::data::Data;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens/columnar")
        .join(name)
}

fn folder(tables: &[&str]) -> Folder {
    let folder = Folder::new();
    for table in tables {
        std::fs::copy(golden(table), folder.dir.path().join(table)).unwrap();
    }
    folder
}

fn prepared(folder: &Folder, keys: &str) -> Result<Data, String> {
    let data = format!("kind = \"images\"\nvalid_fraction = 0.0\n{RAW3}{keys}");
    images::prepared(&folder.places(), &data, 7).map_err(|e| e.to_string())
}

/// Class names, labels, and the pixels that PIL decodes from each image.
fn expected() -> (Vec<String>, Vec<i32>, Vec<Vec<u8>>) {
    let text = std::fs::read_to_string(golden("pictures.json")).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let byte = |value: &Value| value.as_u64().unwrap() as u8;
    let names = list(&found["names"]);
    let labels = list(&found["labels"]);
    let planes = list(&found["planes"]).into_iter();
    (
        names.iter().map(|n| n.as_str().unwrap().into()).collect(),
        labels.iter().map(|n| n.as_i64().unwrap() as i32).collect(),
        planes
            .map(|image| {
                let planes = list(&image).into_iter();
                planes
                    .flat_map(|plane| list(&plane))
                    .map(|p| byte(&p))
                    .collect()
            })
            .collect(),
    )
}

#[test]
fn images_and_names_of_classes_are_those_that_were_written() {
    let (names, labels, pixels) = expected();
    let tables = ["pictures.parquet", "pictures.arrow", "two_labels.parquet"];
    let folder = folder(&tables);
    for keys in [
        "path = \"pictures.parquet\"",
        "path = \"pictures.arrow\"",
        "path = \"pic*.parquet\"\nimage = \"image\"",
        "path = \"two_labels.parquet\"\nlabel = \"fine_label\"",
    ] {
        let data = prepared(&folder, keys).unwrap();
        assert_eq!(data.shape.classes, names, "{keys}");
        assert_eq!(data.shape.image, Some([3, 4, 3]));
        assert_eq!(data.train.len(), 12, "{keys}");
        for at in 0..12 {
            let found = image(data.train.as_ref(), at as u64, 0);
            assert_eq!(found.label, labels[at], "{keys} {at}");
            assert_eq!(bytes(&found), pixels[at], "{keys} {at}");
        }
    }
    // Other names for the same classes, in another order.
    let renamed = "path = \"pictures.parquet\"\nclasses = [\"a\", \"b\", \"c\"]";
    let data = prepared(&folder, renamed).unwrap();
    assert_eq!(data.shape.classes, ["a", "b", "c"]);
    assert_eq!(image(data.train.as_ref(), 1, 0).label, 1);
    let ordered = "path = \"pictures.parquet\"\nclasses = [\"ant\", \"moose\", \"zebra\"]";
    let data = prepared(&folder, ordered).unwrap();
    assert_eq!(image(data.train.as_ref(), 0, 0).label, 2);
}

#[test]
fn bytes_without_metadata_have_their_labels_for_classes() {
    let (_, _, pixels) = expected();
    let folder = folder(&["bytes.parquet"]);
    let data = prepared(&folder, "path = \"bytes.parquet\"").unwrap();
    assert_eq!(data.shape.classes, ["no", "yes"]);
    for at in 0..5 {
        let found = image(data.train.as_ref(), at as u64, 0);
        assert_eq!(
            (found.label, bytes(&found)),
            (at % 2, pixels[at as usize].clone())
        );
    }
    // A JPEG of one colour; compression changes values by at most 3.
    let jpeg = bytes(&image(data.train.as_ref(), 5, 0));
    for (at, pixel) in jpeg.iter().enumerate() {
        let colour = [200u8, 60, 20][at / 12];
        assert!(pixel.abs_diff(colour) <= 3, "{pixel} is not {colour}");
    }
}

#[test]
fn tables_that_hold_no_such_images_are_refused() {
    let folder = folder(&[
        "two_labels.parquet",
        "paths.parquet",
        "pictures.parquet",
        "snappy.parquet",
    ]);
    for (keys, expected) in [
        (
            "path = \"two_labels.parquet\"",
            "it is not clear which of the columns `img.bytes`, `img.path`, `fine_label`, `coarse_label` contains the labels; set \
             `label`",
        ),
        (
            "path = \"paths.parquet\"",
            "row 1 has no bytes in column `image`; a table must contain its images, not their paths",
        ),
        (
            "path = \"pictures.parquet\"\nimage = \"label\"",
            "column `label` contains Int64, not bytes of files or structs with a field `bytes`",
        ),
        (
            "path = \"pictures.parquet\"\nimage = \"imaeg\"",
            "no column `imaeg`",
        ),
        (
            "path = \"pictures.parquet\"\nclasses = [\"one\", \"two\"]",
            "the image in row 1 of ",
        ),
        (
            "path = \"snappy.parquet\"",
            "contains the images; set `image`",
        ),
    ] {
        let found = prepared(&folder, keys).err().unwrap();
        assert!(found.contains(expected), "{keys}: {found}");
    }
}

#[test]
fn texts_have_the_names_of_their_classes_in_the_order_of_the_metadata() {
    let folder = folder(&["sentiment.parquet", "unlabelled.parquet"]);
    let prepare = |keys: &str| {
        let keys = format!("kind = \"labelled_text\"\nvalid_fraction = 0.0\n{keys}");
        folder.prepare(&keys, "kind = \"char\"")
    };
    let data = prepare("path = \"sentiment.parquet\"").unwrap();
    assert_eq!(data.shape.classes, ["neg", "pos"]);
    let classes: Vec<_> = (0..4).map(|at| get(&data.train, at).label).collect();
    assert_eq!(classes, [Some(0), Some(1), Some(1), Some(0)]);
    let data = prepare("path = \"sentiment.parquet\"\nclasses = [\"bad\", \"good\"]").unwrap();
    assert_eq!(data.shape.classes, ["bad", "good"]);
    assert_eq!(get(&data.train, 1).label, Some(1));
    let refused = prepare("path = \"sentiment.parquet\"\ntest_path = \"unlabelled.parquet\"");
    let refused = refused.err().unwrap().to_string();
    assert!(
        refused.ends_with(
            "unlabelled.parquet: row 1 has the label -1, but the classes of its column are 0 to 1; Hugging Face writes -1 \
             for rows without a label, as in the test splits of benchmarks"
        ),
        "{refused}"
    );
}

#[test]
fn a_row_without_a_text_is_no_document_in_json_lines_either() {
    let folder = Folder::with(&[(
        "a.jsonl",
        b"{\"text\": \"one\"}\n{\"text\": null}\n{\"text\": \"two\"}\n",
    )]);
    let keys = "kind = \"text\"\npath = \"a.jsonl\"\nvalid_fraction = 0.0\ncontext = 4\nwindows = \"contiguous\"";
    let data = folder.prepare(keys, "kind = \"byte\"").unwrap();
    // one⏎two⏎
    assert_eq!(data.tokens.train, 8);
}
