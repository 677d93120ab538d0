//! Runs that classify texts and images.

use super::tasks::{ALL, ROWS, SOURCE, SOURCES, VOCAB, ids, near, own_loss, pairs, run};
use super::{Given, Inputs, inferred};
use formwork::data::Shape;
use formwork::data::batch::{Content, TextBatch};

#[test]
fn classes_of_texts() {
    let shape = Shape {
        classes: vec!["a".into(), "b".into(), "c".into()],
        ..Shape::of_text(SOURCE, VOCAB as usize)
    };
    let models = [
        (
            "kind = \"encoder\"\nn_layers = 1\nd_model = 8\nsegments = 0\npooler = true\n\
             attention = { kind = \"multi_head\", n_heads = 2 }",
            "kind = \"text_classification\"",
        ),
        (
            "kind = \"encoder\"\nn_layers = 1\nd_model = 8\nsegments = 0\n\
             attention = { kind = \"multi_head\", n_heads = 2 }",
            "kind = \"text_classification\"\npooling = \"mean\"",
        ),
        (
            "kind = \"recurrent\"\nn_layers = 1\nd_model = 8\ncell = { kind = \"elman\" }",
            "kind = \"text_classification\"",
        ),
    ];
    for (number, (model, task)) in models.into_iter().enumerate() {
        let run = run(model, "kind = \"listops\"", task, &shape);
        let labels = [2, 0, 1];
        let mut inputs = pairs();
        inputs.retain(|name, _| ["input_ids", "attention_mask"].contains(&&name[..]));
        inputs.insert("labels".into(), Given::i64(&[ROWS], &labels));
        let found = inferred(&run.folder, &inputs, &ALL);
        assert_eq!(found["logits"].shape, [ROWS, 3]);
        assert_eq!(found["last_hidden_state"].shape, [ROWS, SOURCE, 8]);
        assert_eq!(found.contains_key("pooler_output"), number == 0);
        assert_eq!(found.contains_key("attentions.0"), number < 2);
        let texts = TextBatch {
            inputs: ids(SOURCE, 1),
            labels: Some(labels.to_vec()),
            lengths: Some(SOURCES.to_vec()),
            cols: SOURCE,
            ..TextBatch::default()
        };
        near(
            f64::from(found["loss"].values[0]),
            own_loss(&run, Content::Text(texts)),
        );
        // A recurrent network has a token vector for each id, and ids that no row contains have zero gradients.
        assert!(found.keys().any(|name| name.starts_with("grad.")));
    }
}

#[test]
fn residual_networks() {
    let shape = Shape {
        image: Some([1, 8, 8]),
        classes: vec!["a".into(), "b".into()],
        ..Shape::default()
    };
    let model = "kind = \"resnet\"\nwidth = 4\nstages = [1, 2]";
    let data = "kind = \"random_images\"\nchannels = 1\nheight = 8\nwidth = 8\nclasses = 2";
    let run = run(model, data, "kind = \"image_classification\"", &shape);
    let pixels: Vec<f32> = (0..ROWS * 64).map(|i| (i as f32 * 0.7).sin()).collect();
    let inputs = Inputs::from([
        ("pixel_values".into(), Given::f32(&[ROWS, 1, 8, 8], &pixels)),
        ("labels".into(), Given::i64(&[ROWS], &[0, 1, 1])),
    ]);
    let found = inferred(&run.folder, &inputs, &["--hidden-states", "--gradients"]);
    let last = &found["last_hidden_state"];
    let [rows, planes, height, width] = last.shape[..] else {
        panic!("{:?}", last.shape)
    };
    let stages = found
        .keys()
        .filter(|name| name.starts_with("hidden_states."))
        .count();
    assert_eq!(found[&format!("hidden_states.{}", stages - 1)], *last);
    let pooled = &found["pooler_output"];
    assert_eq!(pooled.shape, [rows, planes, 1, 1]);
    let area = height * width;
    for (map, mean) in last.values.chunks(area).zip(&pooled.values) {
        let own = map.iter().sum::<f32>() / area as f32;
        assert!((own - mean).abs() < 1e-5);
    }
    let names = found.keys().filter(|name| name.starts_with("grad."));
    assert!(names.clone().count() > 10);
    // Running averages are no parameters.
    assert!(names.clone().all(|name| !name.contains("running")));
}
