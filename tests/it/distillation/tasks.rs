//! All tasks that can be distilled.

use crate::batches::{self, cut, in_one_step};
use crate::cases::{VOCAB, pairs, texts};
use crate::oracle::{difference, values};
use crate::transfer::{gradients_of, put, values_of};
use burn::module::Module;
use burn::tensor::Device;
use burn::train::InferenceStep;
use formwork::data::batch::{Content, ImageBatch, TextBatch};
use formwork::data::{Batch, Shape};
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::pass::Pass;
use formwork::task::{KINDS, Objective, Task, TaskConfig};
use formwork::train::gradients::accumulate;
use formwork::train::parameters::{list, materialize, name_parameters};
use serde_json::{Value, json};

/// A task, a model that learns it, and a batch.
struct Case {
    of: Value,
    model: Value,
    batch: Batch,
}

fn images() -> ImageBatch {
    let pixels = (0..4 * 3 * 16).map(|i| (i * i % 13) as f32 / 13.0 - 0.5);
    ImageBatch {
        pixels: pixels.collect(),
        shape: [3, 4, 4],
        labels: vec![0, 2, 1, 0],
        mixed: None,
        views: None,
    }
}

fn cases() -> Vec<Case> {
    let text = || texts(&[0, 2, 1, 0]);
    let tokens = || Content::Text(texts(&[0, 1, 1, 0]));
    let classes = || TextBatch {
        targets: Vec::new(),
        ..text()
    };
    let case = |of: Value, model: &str, content: Content| Case {
        of,
        model: json!({ "kind": model, "d_model": 16, "attention": { "kind": "multi_head", "n_heads": 2 } }),
        batch: batches::of(content, 4),
    };
    let unlabelled = TextBatch {
        labels: None,
        segments: None,
        ..text()
    };
    let mut image = case(
        json!({ "kind": "image_classification" }),
        "vision",
        Content::Images(images()),
    );
    image.model["stem"] = json!({ "kind": "patches", "size": 2 });
    vec![
        case(
            json!({ "kind": "masked_lm", "pairs": "next_sentence" }),
            "encoder",
            tokens(),
        ),
        case(
            json!({ "kind": "causal_lm" }),
            "decoder",
            Content::Text(unlabelled),
        ),
        case(
            json!({ "kind": "translation", "label_smoothing": 0.1 }),
            "encoder_decoder",
            Content::Pairs(pairs()),
        ),
        case(
            json!({ "kind": "translation" }),
            "decoder",
            Content::Pairs(pairs()),
        ),
        case(
            json!({ "kind": "text_classification" }),
            "encoder",
            Content::Text(classes()),
        ),
        image,
        case(
            json!({ "kind": "span_corruption" }),
            "encoder_decoder",
            Content::Pairs(pairs()),
        ),
        case(
            json!({ "kind": "denoising" }),
            "encoder_decoder",
            Content::Pairs(pairs()),
        ),
    ]
}

impl Case {
    fn name(&self) -> String {
        format!("{} on {}", self.of["kind"], self.model["kind"])
    }

    /// Builds the task of this seed, with its parameters named.
    fn fresh(&self, task: &TaskConfig, model: &Value, seed: u64) -> Objective {
        let shape = Shape {
            classes: ["a", "b", "c"].map(Into::into).to_vec(),
            image: Some([3, 4, 4]),
            ..Shape::of_text(9, VOCAB as usize)
        };
        let device = Device::flex().autodiff();
        let inputs = BuildContext {
            shape: &shape,
            seed,
            device: &device,
        };
        let model: ModelConfig = serde_json::from_value(model.clone()).unwrap();
        let task = task.init(&model, &inputs, false).unwrap();
        materialize(name_parameters(task))
    }

    /// Builds a student of seed 5 with one layer and further model keys, under a teacher of seed `teacher` with `layers`
    /// layers.
    fn taught(&self, keys: &Value, more: &Value, teacher: u64, layers: usize) -> Objective {
        let mut config = json!({ "kind": "distillation", "teacher": "nowhere", "of": self.of });
        for (key, value) in keys.as_object().unwrap() {
            config[key] = value.clone();
        }
        let of: TaskConfig = serde_json::from_value(self.of.clone()).unwrap();
        let task: TaskConfig = serde_json::from_value(config).unwrap();
        let deep = |layers: usize| {
            let mut model = self.model.clone();
            let keys: &[&str] = match model["kind"].as_str() {
                Some("encoder_decoder") => &["n_encoder_layers", "n_decoder_layers"],
                _ => &["n_layers"],
            };
            for key in keys {
                model[*key] = json!(layers);
            }
            model
        };
        let mut own = deep(1);
        for (key, value) in more.as_object().unwrap() {
            own[key] = value.clone();
        }
        let student = self.fresh(&task, &own, 5);
        let teacher = self.fresh(&of, &deep(layers), teacher);
        Objective(student.0.with_teacher(teacher.0))
    }
}

/// A student that equals its teacher has no loss against it; its own loss is that of its task.
#[test]
fn a_student_that_equals_its_teacher_has_no_loss_against_it() {
    for case in cases() {
        let name = case.name();
        let task = case.taught(&json!({}), &json!({}), 5, 1);
        let same = accumulate(&task, vec![case.batch.clone()]).output;
        for loss in ["soft_loss", "cosine_loss"] {
            let found = same.metrics[loss].mean();
            assert!(found.abs() < 1e-5, "{name}: {loss} {found}");
        }
        let of: TaskConfig = serde_json::from_value(case.of.clone()).unwrap();
        let mut model = case.model.clone();
        for key in ["n_layers", "n_encoder_layers", "n_decoder_layers"] {
            let two = model["kind"] == "encoder_decoder";
            if two == (key != "n_layers") {
                model[key] = json!(1);
            }
        }
        let twin = case.fresh(&of, &model, 5);
        let alone = accumulate(&twin, vec![case.batch.clone()]).output;
        let off = same.loss.mean() / alone.loss.mean() - 1.0;
        assert!(off.abs() < 1e-5, "{name}: {off:e}");
        assert_eq!(same.loss.weight, alone.loss.weight, "{name}");
        assert_eq!(same.items, alone.items, "{name}");
        // Evaluations are the task's own, bit for bit.
        let evaluated =
            |task: &Objective| InferenceStep::step(&task.valid(), case.batch.clone().into());
        assert_eq!(evaluated(&task), evaluated(&twin), "{name}");
    }
}

#[test]
fn the_teacher_teaches_and_stays_out_of_sight() {
    for case in cases() {
        let name = case.name();
        let task = case.taught(&json!({}), &json!({}), 6, 2);
        let alone = case.taught(&json!({}), &json!({}), 7, 1);
        let paths = |task: &Objective| list(task).into_iter().map(|p| p.path);
        assert!(paths(&task).eq(paths(&alone)), "{name}");
        let output = accumulate(&task, vec![case.batch.clone()]).output;
        for loss in ["soft_loss", "cosine_loss"] {
            assert!(output.metrics[loss].mean() > 1e-4, "{name}: {loss}");
            assert!(output.added.contains(loss), "{name}: {loss}");
        }
        // The soft term by itself has a gradient; terms of weight 0 are not computed.
        let keys = json!({ "hard": 0.0, "cosine": 0.0 });
        let soft = case.taught(&keys, &json!({}), 6, 2);
        let gradient = accumulate(&soft, vec![case.batch.clone()]);
        let before = values_of(&soft);
        assert!(gradient.norm > 0.0, "{name}");
        assert!(!gradient.output.metrics.contains_key("cosine_loss"));
        assert!(values_of(&soft) == before);
    }
}

#[test]
fn micro_batches_equal_one_batch() {
    let dropping = json!({ "dropout": 0.2 });
    for case in cases() {
        if matches!(case.batch.content, Content::Images(_)) {
            continue;
        }
        let name = case.name();
        let task = case.taught(&json!({}), &dropping, 6, 2);
        let parts = vec![cut(&case.batch, 0..1, false), cut(&case.batch, 1..4, false)];
        let one = accumulate(&task, in_one_step(vec![case.batch.clone()], 3));
        let two = accumulate(&task, in_one_step(parts, 3));
        for (metric, sum) in &one.output.metrics {
            let other = two.output.metrics[metric];
            let off = (sum.sum - other.sum).abs();
            let scale = sum.sum.abs().max(sum.weight);
            assert!(off < 2e-5 * scale, "{name}: {metric} is off by {off:e}");
            assert_eq!(sum.weight, other.weight, "{name}: {metric}");
        }
        let theirs = gradients_of(&task, &two.gradients);
        for (path, ours) in gradients_of(&task, &one.gradients) {
            let off = difference(&ours.values, &theirs[&path].values);
            assert!(off < 1e-4, "{name}: {path} is off by {off:e}");
        }
    }
}

/// A micro-batch without a scored position contributes neither soft targets nor infinities.
#[test]
fn nothing_scored_teaches_by_its_states_alone() {
    let case = cases().remove(0);
    let task = case.taught(&json!({}), &json!({}), 6, 2);
    let nothing = cut(&case.batch, 2..3, true);
    assert_eq!(nothing.scored, 0);
    let found = accumulate(&task, in_one_step(vec![nothing], 0));
    let soft = found.output.metrics["soft_loss"];
    assert_eq!((soft.sum, soft.weight), (0.0, 0.0));
    assert!(found.output.metrics["cosine_loss"].sum > 0.0);
    assert!(found.norm.is_finite() && found.norm > 0.0);
}

/// The teacher's most likely class replaces its distribution (Touvron et al. 2021).
#[test]
fn hard_labels_are_the_teacher_s_classes() {
    for case in cases() {
        let classes = ["text_classification", "image_classification"];
        if !classes.contains(&case.of["kind"].as_str().unwrap()) {
            continue;
        }
        let keys = json!({ "hard_labels": true, "soft": 0.5, "hard": 0.5, "cosine": 0.0 });
        let task = case.taught(&keys, &json!({}), 6, 2);
        let output = accumulate(&task, vec![case.batch.clone()]).output;
        assert!(output.metrics["label_loss"].mean() > 0.0);
        assert!(!output.metrics.contains_key("soft_loss"));
        assert_eq!(output.metrics["label_loss"].weight, 4.0);
    }
}

/// A vision transformer with a distillation token (Touvron et al. 2021, section 4).
fn with_a_token() -> Case {
    let mut case = cases().remove(5);
    case.model["distillation_token"] = json!(true);
    case.model["position"] = json!({ "kind": "learned" });
    case
}

#[test]
fn a_token_of_its_own_learns_from_the_teacher() {
    let case = with_a_token();
    let plain = cases().remove(5);
    for hard_labels in [true, false] {
        let keys = json!({ "hard_labels": hard_labels, "hard": 0.0, "cosine": 0.0 });
        let of: TaskConfig = serde_json::from_value(plain.of.clone()).unwrap();
        let teacher = plain.fresh(&of, &plain.model, 6);
        let task = case.taught(&keys, &json!({}), 6, 1);
        let task = Objective(task.0.with_teacher(teacher.0));
        let gradient = accumulate(&task, vec![case.batch.clone()]);
        let gradients = gradients_of(&task, &gradient.gradients);
        let moved = |path: &str| gradients[path].values.iter().any(|x| *x != 0.0);
        assert!(moved("distilled_head.weight") && moved("model.distillation_token"));
        assert!(!moved("head.weight"));
    }
}

/// The scores of a model with two heads are the mean of both.
#[test]
fn two_heads_give_the_mean_of_their_scores() {
    let case = with_a_token();
    let of: TaskConfig = serde_json::from_value(case.of.clone()).unwrap();
    let task = case.fresh(&of, &case.model, 5);
    let logits = |task: &Objective| {
        let classifier = task.networks().image_classifier.unwrap();
        values(classifier.logits(&images(), &Pass::evaluation()))
    };
    let without = |head: &str| {
        let mut arrays = values_of(&task);
        for (path, array) in &mut arrays {
            if path.starts_with(head) {
                array.values.fill(0.0);
            }
        }
        logits(&put(task.clone(), &arrays))
    };
    let halves = without("head.").into_iter().zip(without("distilled_head."));
    let sums: Vec<f32> = halves.map(|(a, b)| a + b).collect();
    assert!(difference(&sums, &logits(&task)) < 1e-5);
    // Without a teacher, the mean of both heads is trained.
    let gradient = accumulate(&task, vec![case.batch.clone()]);
    let gradients = gradients_of(&task, &gradient.gradients);
    for path in ["head.weight", "distilled_head.weight"] {
        assert!(gradients[path].values.iter().any(|x| *x != 0.0), "{path}");
    }
}

/// Tasks that declare that they can be distilled provide what distillation needs.
#[test]
fn tasks_that_can_be_distilled_do() {
    let able: Vec<String> = cases()
        .iter()
        .map(|case| case.of["kind"].as_str().unwrap().to_string())
        .collect();
    for kind in KINDS {
        let text = format!("task = {}", kind.example);
        let table: toml::Table = toml::from_str(&text).unwrap();
        let config: TaskConfig = table["task"].clone().try_into().unwrap();
        let says = config.facts().can_be_distilled();
        assert!(
            !says || able.iter().any(|able| able == kind.kind),
            "{}",
            kind.kind
        );
    }
    for case in cases() {
        let of: TaskConfig = serde_json::from_value(case.of.clone()).unwrap();
        assert!(of.facts().can_be_distilled());
        let task = case.fresh(&of, &case.model, 1);
        assert!(task.0.as_distillable().is_some(), "{}", case.name());
    }
}
