//! Runs on images and their texts through the commands.

use crate::binary::{output, shipped};
use crate::in_folder::{goes_on_to_the_same_bits, trained, written};
use crate::inspect::looked::json;
use formwork::data::batch::Item;
use formwork::data::{self, DataConfig, Request, SearchPath, Tokenizers, View};
use formwork::tokenizer::Tokenizer;
use safetensors::tensor::SafeTensors;
use std::fs;
use std::path::{Path, PathBuf};

/// An experiment on pictures of one or two shapes.
pub const SHAPES: &str = r#"name = "shapes"
[model]
kind = "two_towers"
d_joint = 24
[model.image]
kind = "vision"
n_layers = 2
d_model = 32
stem = { kind = "patches", size = 4 }
attention = { kind = "multi_head", n_heads = 2 }
embedding_norm = true
[model.text]
kind = "decoder"
n_layers = 2
d_model = 24
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 2 }
[data]
kind = "captioned_shapes"
size = 16
colours = 4
shapes = 2
alone = 0.5
held_out = 0.2
valid_items = 40
[task]
kind = "image_text"
[optimizer]
kind = "adamw"
lr = 2e-3
[schedule]
kind = "cosine"
warmup_steps = 20
[train]
steps = 400
batch_size = 32
checkpoint_every = 200
"#;

/// Reads the array of a file that `encode` wrote, and its width.
pub fn embeddings(path: &str) -> (Vec<f32>, usize) {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor("embeddings").unwrap();
    let values = view.data().as_chunks().0.iter();
    let values = values.map(|b| f32::from_le_bytes(*b)).collect();
    (values, view.shape()[1])
}

/// Writes `count` training pictures of one shape as PNG files, in a folder for each caption without its article:
/// `red_circle/7.png`.
pub fn pictures(folder: &Path, data: &str, count: usize) -> Vec<(PathBuf, String)> {
    let config: DataConfig = toml::from_str(data).unwrap();
    let request = Request {
        tokenizer: None,
        saved_tokenizers: &Tokenizers::default(),
        run_shape: None,
        places: &SearchPath::new(None),
        seed: 7,
        view: &View::EncodedSeparately,
        compares_answers: false,
        retrieval: None,
    };
    let data = data::prepare(&config, &request).unwrap();
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let mut made = Vec::new();
    for sample in 0..count as u64 {
        let Item::Captioned(item) = data.train.get(sample, sample).unwrap() else {
            panic!("captioned images");
        };
        let ids = &item.caption[1..item.caption.len() - 1];
        let caption = words(tokenizer, ids);
        let class = folder.join(caption.trim_start_matches("a ").replace(' ', "_"));
        fs::create_dir_all(&class).unwrap();
        let path = class.join(format!("{sample}.png"));
        let [_, height, width] = item.image.shape;
        let plane = height * width;
        // The generator's mean and deviation.
        let byte = |value: f32| ((value * 0.25 + 0.5) * 255.0).round() as u8;
        let bytes: Vec<u8> = (0..plane)
            .flat_map(|at| [0, 1, 2].map(|c| byte(item.image.pixels[c * plane + at])))
            .collect();
        let image = image::RgbImage::from_raw(width as u32, height as u32, bytes).unwrap();
        image.save(&path).unwrap();
        made.push((path, caption));
    }
    made
}

/// Returns the words of the text that these ids encode.
fn words(tokenizer: &Tokenizer, ids: &[i32]) -> String {
    let words = ids.iter().map(|id| tokenizer.token(*id as u32).unwrap());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn pictures_find_captions_and_encode_gives_what_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), SHAPES);
    let scores = json(&output(&["eval", &run, "--json"]));
    let of = |name: &str| {
        scores[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {scores}"))
    };
    // With 24 held-out captions, chance is 1/24 for the first one and 10/24 for the first ten.
    for way in ["image_to_text", "text_to_image"] {
        assert!(of(&format!("{way}_recall_1")) > 0.15, "{scores}");
        assert!(of(&format!("{way}_recall_10")) > 0.7, "{scores}");
    }
    let at = |name: &str| folder.path().join(name).display().to_string();
    let data = "kind = \"captioned_shapes\"\nsize = 16\ncolours = 4\nshapes = 2\nalone = 1.0\nvalid_items = 0\n";
    let made = pictures(&folder.path().join("pictures"), data, 12);
    let lines: String = made
        .iter()
        .map(|(_, caption)| format!("{caption}\n"))
        .collect();
    let lines = written(folder.path(), "lines.txt", &lines);
    let images: Vec<String> = made
        .iter()
        .map(|(path, _)| path.display().to_string())
        .collect();
    let out = at("both.safetensors");
    let mut arguments = vec!["encode", &run, &lines];
    arguments.extend(images.iter().map(String::as_str));
    arguments.extend(["--out", &out, "--batch-size", "5"]);
    output(&arguments);
    let (vectors, width) = embeddings(&out);
    assert_eq!((width, vectors.len()), (24, 2 * 12 * 24));
    for row in vectors.chunks(width) {
        let length: f32 = row.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
    // On average, a picture is closer to its own caption than to the others.
    let (texts, pictures) = vectors.split_at(12 * width);
    let cosine = |a: usize, b: usize| -> f32 {
        let (a, b) = (
            &texts[a * width..][..width],
            &pictures[b * width..][..width],
        );
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    };
    let own: f32 = (0..12).map(|n| cosine(n, n)).sum::<f32>() / 12.0;
    let all: f32 = (0..144).map(|n| cosine(n / 12, n % 12)).sum::<f32>() / 144.0;
    assert!(own > all + 0.1, "{own} and {all}");
}

#[test]
fn a_run_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    goes_on_to_the_same_bits(folder.path(), SHAPES, [200, 400]);
}

/// The tokenizer of a CLIP folder gives the ids of transformers' `CLIPTokenizer`, including lower case and word ends, and a
/// framed text has the same embedding as its padded array.
#[test]
fn a_folder_of_clip_reads_texts_as_transformers_does() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let fixture = shipped("tests/fixtures/hf/clip_1").display().to_string();
    output(&["import", &fixture, &at("run")]);
    let tokenizer = Tokenizer::load(&folder.path().join("run/tokenizer.json")).unwrap();
    // Ids of CLIPTokenizer, transformers 5.23.
    for (text, ids) in [
        ("A PHOTO of  a Cat.", vec![81, 37, 80, 78, 37, 75, 73, 82]),
        (
            "to the cat, 7!",
            vec![81, 79, 19, 7, 41, 75, 82, 70, 82, 82],
        ),
    ] {
        assert_eq!(tokenizer.encode_framed(text).unwrap(), ids, "{text}");
        let frame = tokenizer.frame().unwrap();
        let inside: Vec<i32> = tokenizer
            .encode(text)
            .unwrap()
            .iter()
            .map(|id| *id as i32)
            .collect();
        let framed: Vec<u32> = frame.around(&inside).iter().map(|id| *id as u32).collect();
        assert_eq!(framed, ids, "{text}");
    }
    let lines = written(folder.path(), "lines.txt", "a photo of a cat\n");
    output(&[
        "encode",
        &at("run"),
        &lines,
        "--out",
        &at("one.safetensors"),
    ]);
    let text = tokenizer.encode_framed("a photo of a cat").unwrap();
    let (one, width) = embeddings(&at("one.safetensors"));
    // Padded with the end token, as the tokenizer pads rows, without a mask.
    let mut ids: Vec<i32> = text.iter().map(|id| *id as i32).collect();
    ids.resize(12, 82);
    let given = std::collections::BTreeMap::from([
        (
            "input_ids".to_string(),
            crate::infer::Given::i64(&[1, 12], &ids),
        ),
        (
            "pixel_values".to_string(),
            crate::infer::Given::f32(&[1, 3, 12, 12], &[0.1; 3 * 12 * 12]),
        ),
    ]);
    crate::infer::write_inputs(Path::new(&at("in.safetensors")), &given);
    output(&[
        "infer",
        &at("run"),
        "--inputs",
        &at("in.safetensors"),
        "--outputs",
        &at("out.safetensors"),
    ]);
    let found = crate::infer::read_outputs(Path::new(&at("out.safetensors")));
    let found = &found["text_embeds"];
    assert_eq!(found.shape, [1, width]);
    for (a, b) in found.values.iter().zip(&one) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}
