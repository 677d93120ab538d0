//! Distillation: its losses and 50 steps of a tiny DistilBERT under a tiny BERT against PyTorch
//! (`tests/goldens/make_distillation.py` is the oracle). For every task that can be distilled: a student that equals its
//! teacher, micro-batches, and the absence of the teacher's parameters.

mod pixels;
mod runs;
mod tasks;

use crate::batches;
use crate::goldens::TOLERANCE;
use crate::goldens_encoders as encoders;
use crate::names;
use crate::oracle::{Oracle, difference, values};
use crate::trajectory::{Recipe, Steps, compare_ends, follow, uneven};
use crate::transfer::{import, values_of};
use burn::tensor::{Device, Tensor, TensorData};
use formwork::data::Batch;
use formwork::data::batch::{Content, TextBatch};
use formwork::data::masked::masking::Pairs;
use formwork::interop::rename::{Orientation, Table};
use formwork::model::EncoderConfig;
use formwork::nn::position::learned::LearnedConfig;
use formwork::task::distillation::{Distillation, DistillationConfig, losses};
use formwork::task::{AnyTask, Objective};

/// A tensor of the oracle.
fn tensor<const D: usize>(oracle: &Oracle, name: &str, device: &Device) -> Tensor<D> {
    let array = oracle.array(name);
    Tensor::from_data(TensorData::new(array.values, array.shape), device)
}

/// Checks the value of a loss and its gradient with respect to `x` against the oracle's.
fn check<const D: usize>(oracle: &Oracle, name: &str, x: &Tensor<D>, loss: Tensor<1>) {
    let theirs = oracle.array(name).values[0];
    let gradients = loss.backward();
    let ours = loss.into_scalar::<f32>();
    assert!(
        (ours / theirs - 1.0).abs() < 1e-5,
        "{name}: {ours} and {theirs}"
    );
    let found: Vec<f32> = x.grad(&gradients).unwrap().into_data().iter().collect();
    let off = difference(&found, &oracle.array(&format!("{name}.grad")).values);
    assert!(off < TOLERANCE, "{name}: the gradient is off by {off:e}");
}

#[test]
fn losses_and_their_gradients_are_pytorch_s() {
    let oracle = Oracle::open("distillation_losses");
    let (plain, tracked) = (Device::flex(), Device::flex().autodiff());
    let teacher = tensor::<2>(&oracle, "teacher", &plain);
    for (name, temperature) in [("soft_1", 1.0), ("soft_2", 2.0), ("soft_4", 4.0)] {
        let x = tensor::<2>(&oracle, "student", &tracked).require_grad();
        let loss = losses::soft(x.clone(), teacher.clone(), temperature);
        check(&oracle, name, &x, loss);
    }
    let x = tensor::<2>(&oracle, "student", &tracked).require_grad();
    check(&oracle, "label", &x, losses::label(x.clone(), teacher));
    let x = tensor::<3>(&oracle, "hidden", &tracked).require_grad();
    let taught = tensor::<3>(&oracle, "taught", &plain);
    let (_, counted) = oracle.integers("counted");
    let counted: Vec<f32> = counted.iter().map(|flag| *flag as f32).collect();
    let counted = Tensor::<1>::from_data(TensorData::new(counted, [10]), &tracked);
    let loss = losses::cosine(x.clone(), taught.clone(), Some(counted));
    check(&oracle, "cosine", &x, loss);
    // Without a selection, all positions count.
    let all = losses::cosine(Tensor::from_inner(taught.clone()), taught, None);
    assert!(values(all)[0].abs() < 1e-5);
}

/// Maps HF's `DistilBertForMaskedLM` to [`formwork::task::MaskedLm`].
fn distilbert(layers: usize) -> Table {
    let mut table = Table::new("");
    let embeddings = "distilbert.embeddings";
    for (name, path) in [
        ("word_embeddings", "model.embedding.weight"),
        ("position_embeddings", "model.position.table"),
    ] {
        table.same(format!("{embeddings}.{name}.weight"), path);
    }
    table.norm(&format!("{embeddings}.LayerNorm"), "model.embedding_norm");
    for layer in 0..layers {
        let theirs = format!("distilbert.transformer.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        for (name, path) in [
            ("attention.q_lin", "attention.query"),
            ("attention.k_lin", "attention.key"),
            ("attention.v_lin", "attention.value"),
            ("attention.out_lin", "attention.output"),
            ("ffn.lin1", "feed_forward.up"),
            ("ffn.lin2", "feed_forward.down"),
        ] {
            let (name, path) = (format!("{theirs}.{name}"), format!("{ours}.{path}"));
            table.linear(&name, &path, Orientation::OutIn);
        }
        for (name, path) in [
            ("sa_layer_norm", "attention_residual.norm"),
            ("output_layer_norm", "feed_forward_residual.norm"),
        ] {
            table.norm(&format!("{theirs}.{name}"), &format!("{ours}.{path}"));
        }
    }
    table.linear("vocab_transform", "head.transform", Orientation::OutIn);
    table.norm("vocab_layer_norm", "head.norm");
    table.same("vocab_projector.bias", "head.bias");
    table
}

fn distillation() -> DistillationConfig {
    let keys = serde_json::json!({ "teacher": "nowhere", "of": { "kind": "masked_lm" } });
    serde_json::from_value(keys).unwrap()
}

#[test]
fn fifty_steps_under_a_teacher_are_pytorch_s() {
    let oracle = Oracle::open("trajectory_distillation");
    let device = Device::flex().autodiff();
    let deep = encoders::config(LearnedConfig::default(), 2, 1e-12, false);
    let shallow = EncoderConfig {
        n_layers: Some(1),
        segments: 0,
        ..deep.clone()
    };
    let table = distilbert(1);
    let student = import(
        encoders::task(&shallow, Pairs::None, 16, &device),
        &table,
        &oracle.arrays(|name| name.strip_prefix("start.")),
    );
    let teacher = import(
        encoders::task(&deep, Pairs::None, 16, &device),
        &names::bert(2),
        &oracle.arrays(|name| name.strip_prefix("teacher.")),
    );
    let task = Distillation::new(AnyTask::MaskedLm(student.0), &distillation());
    let task = task.with_teacher(AnyTask::MaskedLm(teacher.0));
    let task = Objective(AnyTask::Distillation(task));
    let read = |name: &str| Steps::of(&oracle, name);
    let (inputs, mask, targets) = (read("input_ids"), read("attention_mask"), read("labels"));
    let (rows, cols) = (inputs.shape[2], inputs.shape[3]);
    let batch = |step: usize, micro: usize| -> Batch {
        let mask = mask.micro(step, micro);
        let lengths = mask
            .chunks(cols)
            .map(|row| row.iter().map(|m| *m as usize).sum());
        let texts = TextBatch {
            inputs: inputs.micro(step, micro),
            targets: targets.micro(step, micro),
            lengths: Some(lengths.collect()),
            cols,
            ..TextBatch::default()
        };
        batches::of(Content::Text(texts), rows)
    };
    let recipe = Recipe::usual([0.9, 0.98]);
    let batches = |step| uneven(step, batch);
    let unequal = |step: &usize| batch(*step, 0).tokens != batch(*step, 1).tokens;
    assert!((0..50).filter(unequal).count() > 40);
    let task = follow(
        task,
        &oracle,
        &recipe,
        batches,
        &[
            ("losses_soft", |output| output.metrics["soft_loss"].mean()),
            ("losses_hard", |output| output.loss.mean()),
            ("losses_cosine", |output| {
                output.metrics["cosine_loss"].mean()
            }),
        ],
    );
    // Only the student's parameters.
    compare_ends(&oracle, &table.export(&values_of(&task)), 1e-3);
}
