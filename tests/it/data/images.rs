//! Images: each format's content is read, split, normalised and named correctly.

use std::io::Cursor;
use std::path::Path;

use super::{Folder, data_config, gzip, shared};
use formwork::data::batch::ImageItem;
use formwork::data::catalog::manifest::Manifest;
use formwork::data::images::read_image;
use formwork::data::{Data, Item, SearchPath, Source, Split};
use formwork::error::Result;

pub fn prepared(places: &SearchPath, data: &str, seed: u64) -> Result<Data> {
    super::prepared(data, None, places, seed)
}

pub fn image(source: &dyn Source, sample: u64, draw: u64) -> ImageItem {
    match source.get(sample, draw).unwrap() {
        Item::Image(item) => item,
        other => panic!("{other:?}"),
    }
}

/// Returns pixels as bytes, for data with mean 0 and deviation 1.
pub fn bytes(item: &ImageItem) -> Vec<u8> {
    let byte = |p: &f32| (p * 255.0).round() as u8;
    item.pixels.iter().map(byte).collect()
}

/// Keys that leave bytes unchanged.
pub const RAW: &str = "mean = [0.0]\nstd = [1.0]\n";
pub const RAW3: &str = "mean = [0.0, 0.0, 0.0]\nstd = [1.0, 1.0, 1.0]\n";

/// An IDX file of images `height` x `width`, or of labels if both are 0.
pub fn idx(values: &[u8], height: u32, width: u32) -> Vec<u8> {
    let mut file = vec![0, 0, 8, if height == 0 { 1 } else { 3 }];
    let count = values.len() as u32 / (height * width).max(1);
    file.extend(count.to_be_bytes());
    if height > 0 {
        file.extend(height.to_be_bytes());
        file.extend(width.to_be_bytes());
    }
    file.extend(values);
    file
}

/// An image file of one colour.
pub fn coloured(colour: [u8; 3], height: u32, width: u32, format: image::ImageFormat) -> Vec<u8> {
    let picture = image::RgbImage::from_pixel(width, height, image::Rgb(colour));
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, format).unwrap();
    file.into_inner()
}

pub fn grey(values: &[u8], height: u32, width: u32) -> Vec<u8> {
    let picture = image::GrayImage::from_raw(width, height, values.to_vec()).unwrap();
    let mut file = Cursor::new(Vec::new());
    picture
        .write_to(&mut file, image::ImageFormat::Png)
        .unwrap();
    file.into_inner()
}

pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, *content).unwrap();
    }
    gzip(&tar.into_inner().unwrap())
}

#[test]
fn idx_files_plain_and_gzipped() {
    let pixels: Vec<u8> = (0..24).map(|i| i * 10).collect();
    let folder = Folder::with(&[
        ("images", &idx(&pixels, 2, 3)),
        ("labels.gz", &gzip(&idx(&[2, 0, 1, 2], 0, 0))),
        ("test.gz", &gzip(&idx(&pixels[6..12], 2, 3))),
        ("test-labels", &idx(&[1], 0, 0)),
    ]);
    let keys = "kind = \"images\"\npath = \"images\"\nlabels = \"labels\"\nvalid_fraction = 0.0\n\
                test_path = \"test\"\ntest_labels = \"test-labels\"\n";
    let data = prepared(&folder.places(), &format!("{keys}{RAW}"), 1).unwrap();
    assert_eq!(data.shape.image, Some([1, 2, 3]));
    assert_eq!(data.shape.classes, ["0", "1", "2"]);
    assert!(data.valid.is_none());
    assert_eq!((data.train.len(), data.train.split()), (4, Split::Train));
    let labels: Vec<i32> = (0..4).map(|i| image(&*data.train, i, i).label).collect();
    assert_eq!(labels, [2, 0, 1, 2]);
    assert_eq!(bytes(&image(&*data.train, 3, 0)), pixels[18..]);
    let test = data.test.unwrap();
    assert_eq!((test.len(), test.split()), (1, Split::Test));
    let item = image(&*test, 0, 0);
    assert_eq!((item.label, bytes(&item)), (1, pixels[6..12].to_vec()));
    // In colour, and larger.
    let keys =
        format!("{keys}channels = 3\nsize = [4, 6]\nclasses = [\"a\", \"b\", \"c\"]\n{RAW3}");
    let data = prepared(&folder.places(), &keys, 1).unwrap();
    assert_eq!(data.shape.image, Some([3, 4, 6]));
    assert_eq!(data.shape.classes, ["a", "b", "c"]);
    let pixels = image(&*data.train, 0, 0).pixels;
    assert_eq!((pixels.len(), &pixels[..24]), (72, &pixels[48..]));
}

#[test]
fn what_is_trained_on_has_mean_0_and_deviation_1() {
    let pixels: Vec<u8> = (0..4000u32).map(|i| (i * i % 251) as u8).collect();
    let folder = Folder::with(&[
        ("images", &idx(&pixels, 2, 5)),
        ("labels", &idx(&[0; 400], 0, 0)),
    ]);
    let keys = "kind = \"images\"\npath = \"images\"\nlabels = \"labels\"\nvalid_fraction = 0.25\ntest_fraction = 0.25";
    let data = prepared(&folder.places(), keys, 1).unwrap();
    let sizes = [
        &data.train,
        data.source(Split::Valid).unwrap(),
        data.source(Split::Test).unwrap(),
    ];
    assert_eq!(sizes.map(|s| s.len()), [200, 100, 100]);
    let all: Vec<f64> = (0..200)
        .flat_map(|i| image(&*data.train, i, i).pixels)
        .map(f64::from)
        .collect();
    let mean = all.iter().sum::<f64>() / 2000.0;
    let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 2000.0;
    assert!(
        mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-5,
        "{mean} {variance}"
    );
    // The statistics are stored in the shape, which reading single files for classification uses.
    let json = serde_json::to_value(&data.shape).unwrap();
    assert_eq!(json["mean"].as_array().unwrap().len(), 1);
    // The split is the same for every seed, and no image is in two parts of it.
    let other = prepared(&folder.places(), keys, 2).unwrap();
    assert_eq!(other.shape, data.shape);
    for sample in 0..100 {
        let valid = |data: &Data| image(&**data.valid.as_ref().unwrap(), sample, sample);
        assert_eq!(valid(&data), valid(&other));
    }
}

#[test]
fn records_of_cifar() {
    let record = |labels: &[u8], value: u8| -> Vec<u8> {
        let pixels = (0..3072u32).map(|i| value.wrapping_add((i / 1024) as u8));
        labels.iter().copied().chain(pixels).collect()
    };
    let two = [record(&[3], 10), record(&[9], 20)].concat();
    let folder = Folder::with(&[
        ("a.bin", &two),
        ("b.bin.gz", &gzip(&record(&[0], 30))),
        ("fine.bin", &record(&[1, 99], 40)),
        (
            "all.tar.gz",
            &archive(&[("batches/a.bin", &two), ("batches/b.bin", &two)]),
        ),
    ]);
    let of = |path: &str| {
        let keys = format!("kind = \"images\"\npath = {path}\nvalid_fraction = 0.0\n{RAW3}");
        prepared(&folder.places(), &keys, 1).unwrap()
    };
    let data = of("[\"a.bin\", \"b.bin\"]");
    assert_eq!((data.train.len(), data.shape.image), (3, Some([3, 32, 32])));
    assert_eq!(data.shape.classes[3], "cat");
    let item = image(&*data.train, 2, 0);
    let pixels = bytes(&item);
    assert_eq!(
        (item.label, pixels[0], pixels[1024], pixels[3071]),
        (0, 30, 31, 32)
    );
    let data = of("\"fine.bin\"");
    assert_eq!(
        (image(&*data.train, 0, 0).label, data.shape.classes.len()),
        (99, 100)
    );
    let data = of("\"all.tar.gz/batches/b.bin\"");
    assert_eq!((image(&*data.train, 1, 0).label, data.train.len()), (9, 2));
}

#[test]
fn folders_and_archives_of_them() {
    use image::ImageFormat::{Jpeg, Png};
    let files: [(&str, &[u8]); 6] = [
        ("train/cat/2.jpeg", &coloured([200, 100, 50], 8, 8, Jpeg)),
        ("train/cat/10.png", &grey(&[7; 64], 8, 8)),
        ("train/ant/x.PNG", &coloured([1, 2, 3], 4, 16, Png)),
        ("train/ant/notes.txt", b"not an image"),
        ("train/.hidden/x.png", b"not an image"),
        ("test/cat/1.png", &coloured([9, 9, 9], 8, 8, Png)),
    ];
    let folder = Folder::with(&files);
    folder.write("packed.tar.gz", &archive(&files));
    for root in ["", "packed.tar.gz/"] {
        let keys = format!(
            "kind = \"images\"\npath = \"{root}train\"\ntest_path = \"{root}test\"\nvalid_fraction = 0.0\n{RAW3}"
        );
        let data = prepared(&folder.places(), &keys, 1).unwrap();
        assert_eq!(data.shape.classes, ["ant", "cat"]);
        // The size is that of the first image, and the channels are three since one image has colour.
        assert_eq!(data.shape.image, Some([3, 4, 16]));
        let of = |sample| image(&*data.train, sample, sample);
        let labels: Vec<i32> = (0..3).map(|i| of(i).label).collect();
        assert_eq!((data.train.len(), labels), (3, vec![0, 1, 1]));
        let corner = |item: ImageItem| [0, 64, 128].map(|at| bytes(&item)[at]);
        assert_eq!(corner(of(0)), [1, 2, 3]);
        assert_eq!(corner(of(1)), [7, 7, 7]);
        for (read, written) in corner(of(2)).into_iter().zip([200u8, 100, 50]) {
            assert!(read.abs_diff(written) <= 2, "{read} {written}");
        }
        // A class keeps its number if test images lack it.
        assert_eq!(image(&**data.test.as_ref().unwrap(), 0, 0).label, 1);
    }
    // A single file, read as by the model that was trained on them.
    let keys = "kind = \"images\"\npath = \"train\"\nvalid_fraction = 0.0\nclasses = [\"cat\", \"ant\", \"none\"]";
    let data = prepared(&folder.places(), keys, 1).unwrap();
    assert_eq!(image(&*data.train, 0, 0).label, 1);
    let file = folder.dir.path().join("train/cat/10.png");
    let read = read_image(&file, &data.shape).unwrap();
    assert_eq!(read.pixels, image(&*data.train, 1, 0).pixels);
}

#[test]
fn an_archive_is_found_and_anchored_like_a_file() {
    let folder = Folder::with(&[
        ("data/set/x.tar.gz", b"not read"),
        ("near.tgz", b"not read"),
    ]);
    let (places, root) = (folder.places(), folder.dir.path());
    let inside = Path::new("set/x.tar.gz/train");
    let found = places.resolve(inside).unwrap();
    assert_eq!(found, root.join("data").join(inside));
    assert_eq!(places.anchored(inside), inside);
    let near = root.canonicalize().unwrap().join("near.tgz/a/b");
    assert_eq!(places.anchored(Path::new("near.tgz/a/b")), near);
    assert!(places.resolve(Path::new("set/y.tar.gz/train")).is_err());
}

#[test]
fn the_manifests_show_how_they_are_read() {
    for name in ["fashion_mnist", "cifar10"] {
        let example: toml::Table = toml::from_str(&Manifest::find(name).unwrap().example).unwrap();
        let config = data_config(&toml::to_string(&example["data"]).unwrap());
        assert_eq!((config.kind(), config.faults(None)), ("images", Vec::new()));
    }
}

#[test]
fn the_real_sets() {
    if shared("fashion_mnist").is_none() {
        return;
    }
    let keys = "kind = \"images\"\npath = \"fashion_mnist/train-images-idx3-ubyte\"\n\
                labels = \"fashion_mnist/train-labels-idx1-ubyte\"\nvalid_fraction = 0.05\n\
                test_path = \"fashion_mnist/t10k-images-idx3-ubyte\"\n\
                test_labels = \"fashion_mnist/t10k-labels-idx1-ubyte\"";
    let data = prepared(&SearchPath::new(None), keys, 1).unwrap();
    let len = |split| data.source(split).unwrap().len();
    assert_eq!(Split::ALL.map(len), [57_000, 3_000, 10_000]);
    assert_eq!(
        (data.shape.image, data.shape.classes.len()),
        (Some([1, 28, 28]), 10)
    );
    // The values commonly used for the whole training set.
    assert!(
        (data.shape.mean[0] - 0.2860).abs() < 1e-3 && (data.shape.std[0] - 0.3530).abs() < 1e-3
    );

    let keys = "kind = \"images\"\npath = \"cifar10/subset_train.bin\"\ntest_path = \"cifar10/subset_test.bin\"\n\
                valid_fraction = 0.0";
    let exact = prepared(&SearchPath::new(None), keys, 1).unwrap();
    assert_eq!(
        (exact.train.len(), exact.test.as_ref().unwrap().len()),
        (5_085, 1_017)
    );
    assert_eq!(exact.shape.classes[8], "ship");

    let keys =
        "kind = \"images\"\npath = \"cifar10/cifar10_jpeg_full.tar.gz/test\"\nvalid_fraction = 0.0";
    let lossy = prepared(&SearchPath::new(None), keys, 1).unwrap();
    assert_eq!(
        (lossy.train.len(), lossy.shape.image),
        (10_000, Some([3, 32, 32]))
    );
    assert_eq!(lossy.shape.classes, exact.shape.classes);
    // The first frog of one set is close to the first frog of the other.
    let test = exact.test.unwrap();
    let frog = (0..1_017)
        .find(|i| image(&*test, *i, *i).label == 6)
        .unwrap();
    let frog = image(&*test, frog, frog).pixels;
    let copy = image(&*lossy.train, 6_000, 0).pixels;
    let difference: f32 = frog.iter().zip(&copy).map(|(a, b)| (a - b).abs()).sum();
    assert!(difference / 3072.0 < 0.2, "{}", difference / 3072.0);
}

#[test]
fn fewer_training_images_are_some_of_more() {
    let folder = Folder::new();
    let pixels: Vec<u8> = (0..60).collect();
    folder.write("images", &idx(&pixels, 1, 1));
    folder.write("labels", &idx(&[0; 60], 0, 0));
    let seen = |keys: &str| -> Vec<u8> {
        let data = format!(
            "kind = \"images\"\npath = \"images\"\nlabels = \"labels\"\nvalid_fraction = 0.5\n{RAW}{keys}"
        );
        let data = prepared(&folder.places(), &data, 1).unwrap();
        let all = (0..data.train.len() as u64).map(|n| bytes(&image(data.train.as_ref(), n, 0))[0]);
        all.collect()
    };
    let (all, twenty, five) = (seen(""), seen("train_items = 20"), seen("train_items = 5"));
    assert_eq!((all.len(), twenty.len(), five.len()), (30, 20, 5));
    assert!(five.iter().all(|n| twenty.contains(n)) && twenty.iter().all(|n| all.contains(n)));
    assert_ne!(five, twenty[..5]);
    let many = "kind = \"images\"\npath = \"images\"\nlabels = \"labels\"\ntrain_items = 61\nvalid_fraction = 0.0\n";
    let error = prepared(&folder.places(), many, 1).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("there are 60 images to train on"),
        "{error}"
    );
}
