//! Images with captions, from tables and from the generator.

use super::runs::SHAPES;
use crate::binary::{failure, output};
use crate::in_folder::{trained, written};
use formwork::data::batch::{CaptionedItem, Item};
use formwork::data::{
    self, Data, DataConfig, Request, SearchPath, Source, Split, Tokenizers, View,
};
use formwork::error::Result;
use formwork::tokenizer::TokenizerConfig;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Prepares data from these keys for the task; texts are tokenized by words.
pub fn prepared(folder: &Path, keys: &str, tokenizer: bool) -> Result<Data> {
    let config: DataConfig = toml::from_str(keys).unwrap();
    let place = |path: &Path| folder.join(path);
    let words: TokenizerConfig = toml::from_str("kind = \"word\"").unwrap();
    let request = Request {
        tokenizer: tokenizer.then_some(&words),
        saved_tokenizers: &Tokenizers::default(),
        run_shape: None,
        places: &SearchPath::new(None),
        seed: 3,
        view: &View::EncodedSeparately,
        compares_answers: false,
        retrieval: None,
    };
    data::prepare(&config.with_paths(place), &request)
}

fn item(source: &dyn Source, sample: u64, draw: u64) -> CaptionedItem {
    match source.get(sample, draw).unwrap() {
        Item::Captioned(item) => item,
        other => panic!("{other:?}"),
    }
}

/// Writes an image of one colour, 4 by 4.
fn image(folder: &Path, name: &str, colour: [u8; 3]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::RgbImage::from_pixel(4, 4, image::Rgb(colour))
        .save(path)
        .unwrap();
}

const RAW: &str = "mean = [0.0, 0.0, 0.0]\nstd = [1.0, 1.0, 1.0]\n";

/// Returns the text of a caption.
fn words(data: &Data, caption: &[i32]) -> String {
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let words = caption[1..caption.len() - 1].iter();
    let words = words.map(|id| tokenizer.token(*id as u32).unwrap());
    words.collect::<Vec<_>>().join(" ")
}

fn pictures(folder: &Path) {
    for (name, colour) in [
        ("red.png", [255, 0, 0]),
        ("green.png", [0, 255, 0]),
        ("blue.png", [0, 0, 255]),
    ] {
        image(folder, name, colour);
    }
}

/// Every format of a table gives the same examples.
#[test]
fn tables_name_images_and_their_captions() {
    let folder = tempfile::tempdir().unwrap();
    pictures(folder.path());
    let rows = [
        ("red.png", "a red wall"),
        ("green.png", "grass"),
        ("red.png", "a door"),
        ("blue.png", "the sea"),
    ];
    let tsv: String = rows.iter().map(|(i, c)| format!("{i}\t{c}\n")).collect();
    let csv: String = rows.iter().map(|(i, c)| format!("\"{c}\",{i}\n")).collect();
    let jsonl: String = rows
        .iter()
        .map(|(i, c)| format!("{{\"file_name\": \"{i}\", \"text\": \"{c}\"}}\n"))
        .collect();
    written(folder.path(), "t.tsv", &tsv);
    written(folder.path(), "t.csv", &format!("says,picture\n{csv}"));
    written(folder.path(), "t.jsonl", &jsonl);
    fs::create_dir(folder.path().join("tables")).unwrap();
    written(&folder.path().join("tables"), "t.tsv", &tsv);
    for keys in [
        "path = \"t.tsv\"",
        "path = \"t.jsonl\"",
        "path = \"t.csv\"\nheader = true\nimage = \"picture\"\ncaption = \"says\"",
        "path = \"tables/t.tsv\"\nimages = \"\"",
    ] {
        let keys = match keys.contains("images") {
            true => keys.replace("images = \"\"", &format!("images = {:?}", folder.path())),
            false => keys.to_owned(),
        };
        let all = format!("kind = \"captioned_images\"\n{RAW}valid_fraction = 0.0\n{keys}");
        let data = prepared(folder.path(), &all, true).unwrap();
        assert_eq!(data.train.len(), 3, "{keys}");
        assert_eq!(data.shape.image, Some([3, 4, 4]), "{keys}");
        let mut said = BTreeSet::new();
        for sample in 0..3 {
            for draw in 0..20 {
                let item = item(data.train.as_ref(), sample, draw);
                let red = item.image.pixels[0];
                said.insert(format!("{red} {}", words(&data, &item.caption)));
            }
        }
        let wanted = ["0 grass", "0 the sea", "1 a door", "1 a red wall"];
        assert!(said.iter().eq(wanted.iter()), "{keys}: {said:?}");
    }
}

/// Both captions of an image are in the same split, and an evaluation reads the first.
#[test]
fn an_image_is_in_one_split() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = String::new();
    for number in 0..20u8 {
        image(folder.path(), &format!("{number}.png"), [number * 10, 0, 0]);
        table += &format!("{number}.png\tfirst {number}\n{number}.png\tsecond {number}\n");
    }
    written(folder.path(), "t.tsv", &table);
    let keys =
        format!("kind = \"captioned_images\"\n{RAW}path = \"t.tsv\"\nvalid_fraction = 0.25\n");
    let data = prepared(folder.path(), &keys, true).unwrap();
    let valid = data.source(Split::Valid).unwrap();
    assert_eq!((data.train.len(), valid.len()), (15, 5));
    let shades = |source: &dyn Source| -> BTreeSet<u32> {
        let samples = 0..source.len() as u64;
        samples
            .map(|n| item(source, n, n).image.pixels[0].to_bits())
            .collect()
    };
    let (train, held) = (shades(data.train.as_ref()), shades(valid.as_ref()));
    assert!(train.is_disjoint(&held) && train.len() + held.len() == 20);
    for sample in 0..5 {
        let caption = item(valid.as_ref(), sample, 17).caption;
        assert_eq!(caption, item(valid.as_ref(), sample, 4).caption);
    }
}

/// Training images are augmented, evaluation images are not.
#[test]
fn training_images_are_augmented() {
    let folder = tempfile::tempdir().unwrap();
    pictures(folder.path());
    let table = "red.png\ta\ngreen.png\tb\nblue.png\tc\n";
    written(folder.path(), "t.tsv", table);
    let keys = format!(
        "kind = \"captioned_images\"\n{RAW}path = \"t.tsv\"\nvalid_path = \"t.tsv\"\naugment = {{ crop = 2 }}\n"
    );
    let data = prepared(folder.path(), &keys, true).unwrap();
    let all = |source: &dyn Source| -> BTreeSet<String> {
        let draws = 0..30;
        let seen = draws.map(|draw| format!("{:?}", item(source, 0, draw).image.pixels));
        seen.collect()
    };
    assert!(all(data.train.as_ref()).len() > 5);
    assert_eq!(all(data.source(Split::Valid).unwrap().as_ref()).len(), 1);
}

#[test]
fn faulty_tables_are_told_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    pictures(folder.path());
    written(folder.path(), "broken.png", "no image");
    for (name, table, keys, expected) in [
        (
            "a.tsv",
            "red.png\ta\nred2.png\tb\n",
            "",
            "a.tsv:2: there is no image",
        ),
        (
            "b.tsv",
            "red.png\ta\ngreen.png\t \n",
            "",
            "b.tsv:2: the caption is empty",
        ),
        (
            "c.tsv",
            "red.png\ta\nbroken.png\tb\n",
            "",
            "c.tsv:2: the image",
        ),
        (
            "d.tsv",
            "red.png\n",
            "",
            "d.tsv:1: no column 2: the row has 1",
        ),
        (
            "e.csv",
            "picture,text\nred.png,a\n",
            "header = true\nimage = \"pictur\"\ncaption = \"text\"",
            "e.csv:1: no column `pictur`; did you mean `picture`?",
        ),
        (
            "f.jsonl",
            "{\"file\": \"red.png\", \"text\": \"a\"}\n",
            "",
            "f.jsonl:1: no field `file_name`",
        ),
        ("g.tsv", "", "", "g.tsv has no rows"),
        (
            "h.parquet",
            "x",
            "",
            "captions are read from TSV, CSV or JSONL",
        ),
        (
            "i.tsv",
            "red.png\ta\n",
            "context = 2",
            "context = 2 is too short",
        ),
        (
            "j.tsv",
            "red.png\ta\n",
            "augment = { mixup = 0.2 }",
            "mixup and cutmix mix classes",
        ),
        (
            "k.tsv",
            "red.png\ta\n",
            "size = [0, 4]",
            "size must be [height, width]",
        ),
    ] {
        written(folder.path(), name, table);
        let keys =
            format!("kind = \"captioned_images\"\npath = {name:?}\nvalid_fraction = 0.0\n{keys}");
        let error = prepared(folder.path(), &keys, true).err().unwrap();
        let said = error.to_string();
        assert!(said.contains(expected), "{name}: {said}");
    }
}

/// Held-out captions are never trained on and all differ; a draw is a function of seed and number.
#[test]
fn drawn_pictures_hold_captions_out() {
    let folder = tempfile::tempdir().unwrap();
    let keys = "kind = \"captioned_shapes\"\nsize = 16\ncolours = 3\nshapes = 3\nvalid_items = 30\ntest_items = 30\nheld_out = 0.2\n";
    let data = prepared(folder.path(), keys, false).unwrap();
    let texts = |source: &dyn Source, count: u64| -> Vec<String> {
        (0..count)
            .map(|n| words(&data, &item(source, n, n).caption))
            .collect()
    };
    let train: BTreeSet<String> = texts(data.train.as_ref(), 2000).into_iter().collect();
    let mut held = BTreeSet::new();
    for split in [Split::Valid, Split::Test] {
        let source = data.source(split).unwrap();
        let texts = texts(source.as_ref(), source.len() as u64);
        assert!(texts.len() > 10, "{}", texts.len());
        let different: BTreeSet<String> = texts.iter().cloned().collect();
        assert_eq!(different.len(), texts.len());
        held.extend(different);
    }
    assert!(train.is_disjoint(&held));
    // 9 single things, and 81 pairs in 2 relations.
    assert!(
        train.len() + held.len() <= 9 + 162 && train.len() > 90,
        "{}",
        train.len()
    );
    assert!(train.iter().any(|text| text.split(' ').count() == 3));
    let again = prepared(folder.path(), keys, false).unwrap();
    for sample in [0, 7, 1_000_000] {
        assert_eq!(
            item(data.train.as_ref(), sample, 0),
            item(again.train.as_ref(), sample, 5)
        );
    }
    // If the caption says that red is left of green, the left half has more red than the right one.
    let mut seen = 0;
    for sample in 0..2000 {
        let shown = item(data.train.as_ref(), sample, 0);
        let text = words(&data, &shown.caption);
        if !(text.contains("red") && text.contains("left of a green")) {
            continue;
        }
        let red = |columns: std::ops::Range<usize>| -> f32 {
            let pixels = &shown.image.pixels;
            let at = |row: usize, col: usize| pixels[row * 16 + col] - pixels[256 + row * 16 + col];
            (0..16)
                .flat_map(|row| columns.clone().map(move |col| at(row, col)))
                .sum()
        };
        assert!(red(0..8) > red(8..16), "{text}");
        seen += 1;
    }
    assert!(seen > 10);
}

/// Captions that differ only behind the cut still count as different texts in retrieval.
#[test]
fn captions_that_are_cut_to_one_are_not_one_text() {
    let folder = tempfile::tempdir().unwrap();
    pictures(folder.path());
    let table = "red.png\ta wall in red\ngreen.png\ta wall in green\nblue.png\ta wall in red\n";
    written(folder.path(), "t.tsv", table);
    let keys = format!(
        "kind = \"captioned_images\"\n{RAW}path = \"t.tsv\"\nvalid_fraction = 0.0\ncontext = 4\n"
    );
    let data = prepared(folder.path(), &keys, true).unwrap();
    let [red, green, blue] = [0, 1, 2].map(|n| item(data.train.as_ref(), n, n));
    assert!(red.caption == green.caption && red.caption == blue.caption);
    assert!(red.text == blue.text && red.text != green.text);
}

/// Pictures named in a table are files of the data: a run notices if one has changed.
#[test]
fn a_changed_picture_is_noticed() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().join("pictures");
    fs::create_dir(&folder).unwrap();
    let mut table = String::new();
    for number in 0..8u8 {
        image(&folder, &format!("{number}.png"), [number * 30, 0, 0]);
        table += &format!("{{\"file_name\": \"{number}.png\", \"text\": \"shade {number}\"}}\n");
    }
    written(&folder, "metadata.jsonl", &table);
    let data = format!(
        "[data]\nkind = \"captioned_images\"\npath = {folder:?}\nvalid_fraction = 0.5\n[tokenizer]\nkind = \"word\"\n"
    );
    let shapes = SHAPES.find("[data]").unwrap();
    let task = SHAPES.find("[task]").unwrap();
    let experiment = format!("{}{data}{}", &SHAPES[..shapes], &SHAPES[task..])
        .replace("size = 4 }", "size = 2 }")
        .replace("warmup_steps = 20", "warmup_steps = 1")
        .replace("batch_size = 32", "batch_size = 4")
        .replace("steps = 400", "steps = 3");
    let run = trained(work.path(), &experiment);
    output(&["eval", &run]);
    fs::write(folder.join("3.png"), "another picture").unwrap();
    let (status, said) = failure(&["eval", &run]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("--other-data"), "{said}");
}
