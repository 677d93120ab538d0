//! Messages about faults in image data.

use super::images::{archive, coloured, grey, idx, prepared};
use super::{Folder, data_config, gzip};

fn message(folder: &Folder, data: &str) -> String {
    let data = format!("kind = \"images\"\n{data}");
    let error = prepared(&folder.places(), &data, 1).err();
    let error = error.expect("this configuration is wrong").to_string();
    error.replace(&folder.dir.path().display().to_string(), "DIR")
}

#[test]
fn faults_of_sense() {
    let folder = Folder::new();
    for (data, expected) in [
        (
            "",
            "[data] `path` is missing; name a file of images, a folder with a folder for each class, or a list of files",
        ),
        (
            "path = \"x\"\nvalid_path = []",
            "[data] `valid_path` is empty; remove it or name a file",
        ),
        (
            "path = \"x\"\nformat = \"idx\"",
            "[data] IDX images need `labels`, the file of their labels",
        ),
        (
            "path = \"x\"\nformat = \"folder\"\nlabels = \"y\"",
            "[data] labels has no effect: only IDX images have their labels in a separate file; remove it",
        ),
        (
            "path = [\"x\", \"y\"]\nformat = \"folder\"",
            "[data] `path` names several files, but only CIFAR files and tables are read one after the other",
        ),
        (
            "path = \"x\"\ntest_labels = \"y\"",
            "[data] test_labels has no effect without test_path",
        ),
        (
            "path = \"x\"\nvalid_path = \"y\"\nvalid_fraction = 0.1",
            "[data] valid_fraction has no effect beside valid_path; remove one of them",
        ),
        (
            "path = \"x\"\nvalid_fraction = 0.6\ntest_fraction = 0.4",
            "[data] valid_fraction and test_fraction leave nothing to train on",
        ),
        (
            "path = \"x\"\nchannels = 2",
            "[data] channels must be 1 (grey) or 3 (colour)",
        ),
        (
            "path = \"x\"\nsize = [0, 8]",
            "[data] size must be [height, width], each between 1 and 4096",
        ),
        (
            "path = \"x\"\nclasses = [\"a\", \"a\"]",
            "[data] classes must contain each name only once",
        ),
        (
            "path = \"x\"\nmean = [0.5]",
            "[data] mean and std must both contain one number for each channel",
        ),
        (
            "path = \"x\"\nmean = [0.5]\nstd = [0.0]",
            "[data] std = [0.0] must be between 1e-6 and 1: pixels are between 0 and 1",
        ),
        (
            "path = \"x\"\nmean = [123.675]\nstd = [58.395]",
            "[data] mean = [123.675] must be between -1 and 1: pixels are between 0 and 1; if it is for pixels from 0 to 255, set [0.485]\n\
             [data] std = [58.395] must be between 1e-6 and 1: pixels are between 0 and 1; if it is for pixels from 0 to 255, set [0.229]",
        ),
        (
            "path = \"x\"\nchannels = 1\naugment = { jitter = { contrast = 0.1, saturation = 0.4 } }",
            "[data.augment.jitter] saturation = 0.4 has no effect on grey images (channels = 1); remove it",
        ),
        (
            "path = \"x\"\nsize = [8, 12]\naugment = { crop = 9 }",
            "[data.augment] crop = 9 must be at most 8, the shorter side of the images",
        ),
        (
            "path = \"x\"\naugment = { erase = 1.5, mixup = -1.0, rand_augment = { n = 0, magnitude = 31 } }",
            "[data.augment] erase = 1.5 must be between 0 and 1\n[data.augment] mixup = -1 must be between 0 and 1000; 0 is \
             none\n[data.augment.rand_augment] n = 0 must be between 1 and 14\n[data.augment.rand_augment] magnitude = 31 must be between 0 and 30",
        ),
    ] {
        assert_eq!(message(&folder, data), expected, "{data}");
    }
    for wrong in [
        "agument = {}",
        "augment = { flop = true }",
        "format = \"png\"",
    ] {
        let text = format!("kind = \"images\"\npath = \"x\"\n{wrong}");
        assert!(toml::from_str::<formwork::data::DataConfig>(&text).is_err());
    }
    for (data, expected) in [
        (
            "kind = \"shapes\"\nclasses = 9",
            "[data] classes = 9 must be between 2 and 8",
        ),
        (
            "kind = \"shapes\"\nsize = 4",
            "[data] size = 4 must be between 12 and 1024",
        ),
        (
            "kind = \"random_images\"\nwidth = 0",
            "[data] width = 0 must be between 1 and 4096",
        ),
    ] {
        assert_eq!(data_config(data).faults(None), [expected]);
    }
}

/// Faults that the keys do not show are found when the files are read.
#[test]
fn changes_that_do_not_fit_the_images() {
    let png = grey(&[1; 4], 2, 2);
    let folder = Folder::with(&[("all/a/1.png", &png), ("all/b/2.png", &png)]);
    let of = |augment: &str| {
        let keys = "path = \"all\"\nvalid_fraction = 0.0";
        message(&folder, &format!("{keys}\naugment = {augment}"))
    };
    assert_eq!(
        of("{ jitter = { saturation = 0.4 } }"),
        "[data.augment.jitter] saturation = 0.4 has no effect on grey images (channels = 1); remove it"
    );
    assert_eq!(
        of("{ crop = 4096 }"),
        "[data.augment] crop = 4096 must be at most 2, the shorter side of the images"
    );
}

#[test]
fn damaged_files() {
    let images = idx(&[5; 12], 2, 3);
    let images_of_one = idx(&[5; 6], 2, 3);
    let mut long = images.clone();
    long.push(0);
    let folder = Folder::with(&[
        ("images", &images),
        ("cut", &images[..20]),
        ("header", &images[..9]),
        ("long", &long),
        ("labels", &idx(&[0, 1], 0, 0)),
        ("three", &idx(&[0, 1, 2], 0, 0)),
        ("one", &images_of_one),
        ("label", &idx(&[0], 0, 0)),
        ("none", &[0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3]),
        ("no-label", &idx(&[], 0, 0)),
        ("text", b"some text"),
        ("cut.gz", &gzip(&images)[..20]),
        ("a.bin", &[0; 3000]),
        ("b.bin", &[10; 3073]),
    ]);
    let idx_of = |images: &str, labels: &str| {
        let keys = format!("path = {images:?}\nlabels = {labels:?}\nformat = \"idx\"");
        message(&folder, &keys)
    };
    let path = |path: &str| message(&folder, &format!("path = {path:?}"));
    assert_eq!(
        idx_of("images", "three"),
        "DIR/images contains 2 images, but DIR/three contains 3 labels; they do not belong together"
    );
    assert_eq!(
        idx_of("cut", "labels"),
        "DIR/cut: its header announces 2 x 2 x 3 values, but 4 follow; the file is damaged"
    );
    assert_eq!(
        idx_of("long", "labels"),
        "DIR/long: its header announces 2 x 2 x 3 values, but 13 follow; the file is damaged"
    );
    assert_eq!(
        idx_of("header", "labels"),
        "DIR/header: truncated inside its header of 16 bytes"
    );
    assert_eq!(
        idx_of("labels", "images"),
        "DIR/labels: not IDX images: it begins with [00, 00, 08, 01], not with [00, 00, 08, 03]"
    );
    assert_eq!(
        idx_of("none", "no-label"),
        "[data] path = \"none\": DIR/none contains no image"
    );
    assert!(idx_of("cut.gz", "labels").starts_with("DIR/cut.gz is a damaged gzip file: "));
    assert_eq!(
        message(
            &folder,
            "path = \"images\"\nlabels = \"labels\"\nclasses = [\"a\"]"
        ),
        "[data] path = \"images\": image 1 of DIR/images has the label 1, but there are 1 classes"
    );
    assert_eq!(
        message(&folder, "path = \"one\"\nlabels = \"label\""),
        "[data] 1 image(s) cannot be split by fractions; set valid_path, or set valid_fraction = 0"
    );
    assert_eq!(
        path("images"),
        "[data] IDX images need `labels`, the file of their labels"
    );
    assert_eq!(
        path("text"),
        "[data] path = \"text\": DIR/text is neither IDX images nor whole records of CIFAR, nor a folder, archive or table of images; it may \
         be damaged; `format` sets a format: `idx`, `cifar`, `cifar100`, `folder`, `table`"
    );
    assert_eq!(
        message(&folder, "path = \"a.bin\"\nformat = \"cifar\""),
        "DIR/a.bin: 3000 bytes are not a whole number of records of 3073 bytes; the file is truncated, or is not CIFAR-10"
    );
    assert_eq!(
        path("b.bin"),
        "DIR/b.bin: image 0 has the label 10; CIFAR-10 has labels below 10"
    );
    assert_eq!(
        message(
            &folder,
            "path = \"images\"\nlabels = \"labels\"\nvalid_fraction = 0.0\nmean = [0.0, 0.0]\nstd = [1.0, 1.0]"
        ),
        "[data] mean and std have 2 number(s), but the images have 1 channel(s)"
    );
}

#[test]
fn folders_that_are_wrong() {
    let png = grey(&[1; 4], 2, 2);
    let files: [(&str, &[u8]); 3] = [
        ("train/a/1.png", &png),
        ("train/b/2.png", &png),
        ("test/c/3.png", &png),
    ];
    let folder = Folder::with(&files);
    let jpeg = coloured([1, 2, 3], 8, 8, image::ImageFormat::Jpeg);
    folder.write("broken/a/1.png", &png[..40]);
    folder.write("broken/b/1.jpg", &jpeg[..100]);
    folder.write("cut/a/1.jpg", &jpeg[..jpeg.len() - 2]);
    folder.write("text/a/1.png", b"text");
    folder.write("other/a/1.bmp", b"BM");
    folder.write("loose/1.png", &png);
    folder.write("empty/a/readme.txt", b"nothing");
    folder.write("all.tar.gz", &archive(&files));
    folder.write("damaged.tar.gz", &gzip(&[7; 2000]));
    let path = |path: &str| message(&folder, &format!("path = {path:?}\nvalid_fraction = 0.0"));
    assert_eq!(
        path("all.tar.gz"),
        "[data] path = \"all.tar.gz\": DIR/all.tar.gz/test/c is a folder, but images must be in DIR/all.tar.gz/CLASS/; if `test` contains the \
         classes, set the path to `DIR/all.tar.gz/test`"
    );
    assert_eq!(
        path("all.tar.gz/valid"),
        "[data] path = \"all.tar.gz/valid\": the archive DIR/all.tar.gz contains no file at `valid`; its top level contains `train`, `test`"
    );
    assert!(path("damaged.tar.gz").starts_with("DIR/damaged.tar.gz is a damaged archive: "));
    assert!(path("broken").starts_with("DIR/broken/a/1.png cannot be read as PNG or JPEG: "));
    assert_eq!(
        path("cut"),
        "DIR/cut/a/1.jpg cannot be read as PNG or JPEG: the file is truncated"
    );
    assert!(path("text").starts_with("DIR/text/a/1.png cannot be read as PNG or JPEG: "));
    assert_eq!(
        path("other"),
        "[data] path = \"other\": DIR/other/a/1.bmp is not a PNG or JPEG file; convert it"
    );
    assert_eq!(
        path("loose"),
        "[data] path = \"loose\": the image DIR/loose/1.png is not in a class; put images in a folder for each class"
    );
    assert_eq!(
        path("empty"),
        "[data] path = \"empty\": DIR/empty contains no image; it needs a folder for each class with .png, .jpg or .jpeg files"
    );
    assert_eq!(
        message(
            &folder,
            "path = \"train\"\ntest_path = \"test\"\nvalid_fraction = 0.0"
        ),
        "[data] test_path = \"test\": DIR/test has a folder `c`, which is not one of the classes; did you mean `a`?"
    );
    assert_eq!(
        path("nowhere"),
        "[data] no file or folder `nowhere`; looked in DIR, DIR/data"
    );
}
