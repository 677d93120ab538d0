//! A task that learns from another run's network, which `experiment` opens and passes in frozen: neither tasks nor the step
//! loop know a path.

use crate::batches;
use crate::binary::output;
use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use formwork::data::{Batch, NOT_SCORED};
use formwork::experiment::open::open;
use formwork::experiment::run_contents::CheckpointChoice;
use formwork::kernel;
use formwork::model::decoder::DecoderInput;
use formwork::nn::pass::Pass;
use formwork::stack::state::ModelState;
use formwork::task::{AnyTask, Divisor, Frozen, Objective, Scored, Task};
use formwork::train::gradients::accumulate;
use formwork::train::optim;
use formwork::train::parameters::name_parameters;

const VOCAB: usize = 13;
const TEACHER: &str = r#"
name = "teacher"
[model]
kind = "decoder"
n_layers = 1
d_model = 8
attention = { kind = "multi_head", n_heads = 2 }
[data]
kind = "random_tokens"
vocab_size = 13
context = 6
valid_items = 0
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-1
[train]
steps = 4
batch_size = 2
"#;

/// A table of next-token logits, taught by a language model (Hinton et al. 2015).
#[derive(Module, Debug)]
struct Student {
    table: Param<Tensor<2>>,
    teacher: Frozen<AnyTask>,
}

impl Student {
    /// Returns the teacher's logits `[positions, vocab]`, without gradients.
    fn taught(&self, batch: &Batch) -> Tensor<2> {
        let texts = batch.text().unwrap();
        let decoder = self.teacher.networks().language_model.unwrap();
        let ids = TensorData::new(texts.inputs.clone(), [batch.rows, texts.cols]);
        let ids = Tensor::<2, Int>::from_data(ids, &Device::flex());
        let hidden = decoder.forward(DecoderInput::new(ids), None, &Pass::evaluation());
        let logits = decoder.vocabulary_head().logits(hidden);
        logits.reshape([batch.rows * texts.cols, VOCAB])
    }
}

impl Task for Student {
    fn score(&self, batch: &Batch, _: &Pass, _: Option<&mut ModelState>) -> Scored {
        let texts = batch.text().unwrap();
        let table = self.table.val();
        let ids = TensorData::new(texts.inputs.clone(), [1, texts.inputs.len()]);
        let ids = Tensor::<2, Int>::from_data(ids, &table.device());
        let scores = kernel::embedding(table, ids).reshape([texts.inputs.len(), VOCAB]);
        let wanted = Tensor::from_inner(activation::softmax(self.taught(batch), 1));
        let mut scored = Scored::new(kernel::soft_cross_entropy_sum(scores, wanted), 0);
        scored.loss.over = Divisor::Tokens;
        scored
    }

    fn seed(&self) -> u64 {
        0
    }
}

#[test]
fn a_task_learns_from_the_network_of_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("teacher.toml"), TEACHER).unwrap();
    output(&[
        "train",
        &path("teacher.toml"),
        "--quiet",
        "--run",
        &path("run"),
    ]);
    let opened = || open(&folder.path().join("run"), CheckpointChoice::Latest, None).unwrap();
    let device = Device::flex().autodiff();
    let mut task = name_parameters(Objective(Student {
        table: Param::from_tensor(Tensor::zeros([VOCAB, VOCAB], &device)),
        teacher: Frozen::new(opened().model.0),
    }));
    let inputs: Vec<i32> = (0..24).map(|i| (i * 5 + i * i) % VOCAB as i32).collect();
    let batch = batches::of_texts(&inputs, &[NOT_SCORED; 24], 4);
    let values = |x: Tensor<2>| -> Vec<f32> { x.into_data().iter::<f32>().collect() };
    let before = values(task.taught(&batch));
    let optimizer = serde_json::json!({ "kind": "adamw", "lr": 0.2 });
    let optimizer: optim::OptimizerConfig = serde_json::from_value(optimizer).unwrap();
    let mut optimizer = optim::build(&optimizer, &task).unwrap();
    let mut losses = Vec::new();
    for _ in 0..40 {
        let gradient = accumulate(&task, vec![batch.clone()]);
        losses.push(gradient.output.loss.mean());
        task = optimizer.step(0.2, task, gradient.gradients);
    }
    assert!((losses[0] - (VOCAB as f64).ln()).abs() < 1e-5);
    assert!(losses[39] < 0.95 * losses[0], "{losses:?}");
    // The teacher equals its run bit for bit, after the steps as before them.
    assert_eq!(values(task.taught(&batch)), before);
    let fresh = Student {
        table: task.table.clone(),
        teacher: Frozen::new(opened().model.0),
    };
    assert_eq!(values(fresh.taught(&batch)), before);
}
