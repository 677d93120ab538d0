//! A teacher trained on pixels of another normalisation reads them in its own normalisation.

use crate::batches;
use crate::oracle::{difference, values};
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::data::batch::{Batch, Content, ImageBatch};
use formwork::data::images::normalise::{Normalise, Renormalise};
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::pass::Pass;
use formwork::task::distillation::losses;
use formwork::task::{Objective, Task, TaskConfig};
use formwork::train::gradients::accumulate;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

const OURS: [[f32; 2]; 2] = [[0.3, 0.4], [0.2, 0.3]];
const THEIRS: [[f32; 2]; 2] = [[0.0, 0.5], [0.4, 1.0]];

/// Four images of 2 × 4 × 4 in this normalisation (mean and deviation).
fn batch([mean, std]: [[f32; 2]; 2]) -> Batch {
    let normalise = Normalise::new(&mean, &std, 2);
    let image = |n: u32| -> Vec<u8> {
        let pixels = (0..32).map(|i| (i * i * (n + 3) % 251) as u8);
        pixels.collect()
    };
    let images = ImageBatch {
        pixels: (0..4).flat_map(|n| normalise.apply(&image(n))).collect(),
        shape: [2, 4, 4],
        labels: vec![0, 2, 1, 0],
        mixed: None,
        views: None,
    };
    batches::of(Content::Images(images), 4)
}

fn task(config: &Value, seed: u64) -> Objective {
    let shape = Shape {
        classes: ["a", "b", "c"].map(Into::into).to_vec(),
        image: Some([2, 4, 4]),
        ..Shape::default()
    };
    let device = Device::flex().autodiff();
    let inputs = BuildContext {
        shape: &shape,
        seed,
        device: &device,
    };
    let model = json!({ "kind": "vision", "d_model": 16, "n_layers": 1, "stem": { "kind": "patches", "size": 2 },
        "attention": { "kind": "multi_head", "n_heads": 2 } });
    let model: ModelConfig = serde_json::from_value(model).unwrap();
    let config: TaskConfig = serde_json::from_value(config.clone()).unwrap();
    let task = config.init(&model, &inputs, false).unwrap();
    materialize(name_parameters(task))
}

#[test]
fn a_teacher_reads_pixels_in_its_own_normalisation() {
    let of = json!({ "kind": "image_classification" });
    let config = json!({ "kind": "distillation", "teacher": "nowhere", "of": of, "temperature": 1.0, "cosine": 0.0 });
    let [mean, std] = &OURS;
    let pixels = Renormalise::between([mean, std], [&THEIRS[0], &THEIRS[1]], 2);
    let teacher = task(&of, 6);
    let student = |pixels: Option<Renormalise>| {
        let student = task(&config, 5).0.with_teacher(teacher.clone().0);
        Objective(student.with_pixels(pixels))
    };
    let soft = |pixels: Option<Renormalise>| {
        let output = accumulate(&student(pixels), vec![batch(OURS)]).output;
        output.metrics["soft_loss"].mean()
    };
    let scores = |task: &Objective, batch: &Batch| {
        let outputs = task
            .0
            .as_distillable()
            .unwrap()
            .outputs(batch, &Pass::evaluation());
        outputs.scores
    };
    // A student of seed 5 equals the plain task of seed 5.
    let ours = scores(&task(&of, 5), &batch(OURS));
    let theirs = scores(&teacher, &batch(THEIRS));
    let wanted = losses::soft(ours, theirs.clone().inner(), 1.0);
    let wanted = f64::from(values(wanted)[0]) / 4.0;
    let (found, unturned) = (soft(pixels.clone()), soft(None));
    assert!((found / wanted - 1.0).abs() < 1e-4, "{found} and {wanted}");
    assert!(
        (unturned / wanted - 1.0).abs() > 1e-3,
        "{unturned} and {wanted}"
    );
    let turned = teacher.0.as_distillable().unwrap();
    let turned = turned.outputs_renormalised(&batch(OURS), &pixels.unwrap(), &Pass::evaluation());
    let off = difference(&values(turned.scores), &values(theirs));
    assert!(off < 1e-5, "{off:e}");
}
