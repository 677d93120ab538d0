//! The sigmoid loss and its gradients against torch (`tests/goldens/make_siglip.py`), and a run that is exported and imported.

use super::runs::{embeddings, pictures};
use crate::binary::output;
use crate::in_folder::{trained, written};
use crate::inspect::looked::json;
use crate::oracle::{Oracle, difference};
use burn::tensor::{Device, Tensor, TensorData};
use formwork::task::image_text::sigmoid::pairwise;
use formwork::task::text_embedding::losses::{Groups, normalize_rows};

fn given<const D: usize>(oracle: &Oracle, name: &str, device: &Device) -> Tensor<D> {
    let array = oracle.array(name);
    Tensor::from_data(TensorData::new(array.values, array.shape), device).require_grad()
}

/// Gradients of embeddings, of the scale's logarithm and of the bias, over all rows and over groups, the last of which is
/// smaller.
#[test]
fn the_loss_and_its_gradients_are_those_of_torch() {
    let (oracle, device) = (Oracle::open("sigmoid_loss"), Device::flex().autodiff());
    for (name, group) in [("all", 7), ("grouped", 4)] {
        let [u, v] = ["u", "v"].map(|name| given::<2>(&oracle, name, &device));
        let [t, b] = ["t", "b"].map(|name| given::<1>(&oracle, name, &device));
        let scaled = |cosines: Tensor<2>| {
            let scale: Tensor<2> = t.clone().exp().reshape([1, 1]);
            let bias: Tensor<2> = b.clone().reshape([1, 1]);
            cosines * scale + bias
        };
        let (images, texts) = (normalize_rows(u.clone()), normalize_rows(v.clone()));
        let loss = pairwise(&images, &texts, scaled, Groups::of(group)).loss / 7.0;
        let gradients = loss.backward();
        let ours = loss.into_scalar::<f32>();
        let theirs = oracle.array(&format!("{name}.loss")).values[0];
        assert!(
            (ours / theirs - 1.0).abs() < 1e-5,
            "{name}: {ours} and {theirs}"
        );
        let of_vectors = [(&u, "u"), (&v, "v")].map(|(x, by)| (x.grad(&gradients), by));
        let of_numbers = [(&t, "t"), (&b, "b")].map(|(x, by)| (x.grad(&gradients), by));
        let of_vectors = of_vectors.map(|(x, by)| (x.unwrap().into_data(), by));
        let of_numbers = of_numbers.map(|(x, by)| (x.unwrap().into_data(), by));
        for (ours, by) in of_vectors.into_iter().chain(of_numbers) {
            let ours: Vec<f32> = ours.iter().collect();
            let theirs = oracle.array(&format!("{name}.grad_{by}")).values;
            let off = difference(&ours, &theirs);
            assert!(off < 2e-5, "{name}: the gradient by {by} is off by {off:e}");
        }
    }
}

/// Three images that are nearest to their own text, and one that is not.
#[test]
fn hits_are_images_whose_own_text_has_the_highest_score() {
    let device = Device::flex();
    let images = Tensor::<2>::from_floats([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], &device);
    let texts = Tensor::<2>::from_floats([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], &device);
    let found = pairwise(
        &images,
        &texts,
        |cosines| cosines * 10.0 - 10.0,
        Groups::of(3),
    );
    assert_eq!(found.hits.into_scalar::<f32>(), 2.0);
    // Scores of matching pairs are 0, 0 and −4; those of the others 0, −2, −4 and three times −10.
    let of = |score: f64| (1.0 + (-score).exp()).ln();
    let wanted = 2.0 * of(0.0) + of(-4.0) + of(0.0) + 3.0 * of(10.0) + of(4.0) + of(2.0);
    let loss = f64::from(found.loss.into_scalar::<f32>());
    assert!((loss - wanted).abs() < 1e-4, "{loss} and {wanted}");
}

/// An experiment on pictures of one or two shapes with the sigmoid loss.
const PAIRS: &str = r#"name = "pairs"
[model]
kind = "two_towers"
d_joint = 32
image_projection = false
projection_bias = true
[model.image]
kind = "vision"
n_layers = 2
d_model = 32
stem = { kind = "patches", size = 4 }
pooling = "attention"
attention = { kind = "multi_head", n_heads = 2 }
[model.text]
kind = "encoder"
n_layers = 2
d_model = 24
segments = 0
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
loss = "sigmoid"
pooling = "last"
fill = 0
[optimizer]
kind = "adamw"
lr = 2e-3
[schedule]
kind = "cosine"
warmup_steps = 5
[train]
steps = 40
batch_size = 32
"#;

/// A run is exported as Hugging Face's SigLIP class, including the bias, and gives the same embeddings after import.
#[test]
fn a_run_goes_out_as_siglip_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let run = trained(folder.path(), PAIRS);
    let scores = json(&output(&["eval", &run, "--json"]));
    assert!(scores["loss"].is_number() && scores["image_to_text_recall_1"].is_number());
    output(&["export", &run, &at("out")]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let config = json(&read("config.json"));
    assert_eq!(config["model_type"], "siglip");
    assert_eq!(config["text_config"]["pad_token_id"], 0);
    output(&["import", &at("out"), &at("again")]);
    let data = "kind = \"captioned_shapes\"\nsize = 16\ncolours = 4\nshapes = 2\nvalid_items = 0\n";
    let made = pictures(&folder.path().join("pictures"), data, 1);
    let picture = made[0].0.display().to_string();
    let lines = format!("{}\na red circle\n", made[0].1);
    let lines = written(folder.path(), "lines.txt", &lines);
    let vectors = |run: &str, out: &str| {
        output(&["encode", run, &lines, &picture, "--out", &at(out)]);
        embeddings(&at(out))
    };
    let (first, second) = (
        vectors(&run, "one.safetensors"),
        vectors(&at("again"), "two.safetensors"),
    );
    assert_eq!((first.1, first.0.len()), (32, 3 * 32));
    let off = difference(&second.0, &first.0);
    assert!(off < 1e-5, "other directions, by {off:e}");
}
