//! Fifty steps of training against PyTorch (`tests/goldens/make_trajectory.py` is the oracle): the same
//! initial weights and batches, two micro-batches of unequal weight a step, clipping, AdamW with three
//! groups, warm-up and cosine. Losses, gradient norms, learning rates and final weights agree.

use crate::batches;
use crate::oracle::{Oracle, difference, hf_folder};
use burn::tensor::Device;
use formwork::data::Batch;
use formwork::interop::{read_hf, to_hf};
use formwork::task::{CausalLm, CausalLmConfig};
use formwork::train::gradients::accumulate;
use formwork::train::optim::{self, AdamwConfig, GroupConfig, OptimizerConfig};
use formwork::train::parameters::name_parameters;
use formwork::train::schedule::{DecayConfig, ScheduleConfig};

/// What the oracle trained on: `[step, micro-batch, row, token]`.
struct Batches {
    shape: [usize; 4],
    inputs: Vec<i32>,
    targets: Vec<i32>,
}

impl Batches {
    fn of(oracle: &Oracle) -> Self {
        let (shape, inputs) = oracle.integers("inputs");
        Self {
            shape: shape.try_into().unwrap(),
            inputs,
            targets: oracle.integers("targets").1,
        }
    }

    /// The micro-batches of a step.
    fn step(&self, step: usize) -> Vec<Batch> {
        let [_, micros, rows, cols] = self.shape;
        let scored = |targets: &[i32]| targets.iter().filter(|&&t| t >= 0).count();
        let size = rows * cols;
        let all = step * micros * size..(step + 1) * micros * size;
        let step_scored = scored(&self.targets[all.clone()]);
        let inputs = self.inputs[all.clone()].chunks(size);
        let micros = inputs.zip(self.targets[all].chunks(size)).enumerate();
        let batch = |(micro, (inputs, targets)): (usize, (&[i32], &[i32]))| Batch {
            first_row: micro * rows,
            step_scored,
            step: step as u64,
            last: micro + 1 == self.shape[1],
            ..batches::of_texts(inputs, targets, rows)
        };
        micros.map(batch).collect()
    }
}

fn recipe() -> (OptimizerConfig, ScheduleConfig) {
    let optimizer = OptimizerConfig::Adamw(AdamwConfig {
        lr: 1e-2,
        betas: [0.9, 0.95],
        eps: 1e-8,
        weight_decay: 0.1,
        groups: vec![GroupConfig {
            pattern: "embedding".into(),
            lr_scale: Some(0.5),
            weight_decay: Some(0.02),
        }],
        ..AdamwConfig::default()
    });
    let schedule = ScheduleConfig::Cosine(DecayConfig {
        warmup_steps: 10,
        min_lr: Some(1e-3),
        ..DecayConfig::default()
    });
    (optimizer, schedule)
}

#[test]
fn fifty_steps_are_pytorch_s() {
    let oracle = Oracle::open("trajectory");
    let device = Device::flex().autodiff();
    let start = oracle.arrays(|name| name.strip_prefix("start."));
    let dir = hf_folder(&oracle.config(), &start);
    let hf = read_hf(dir.path()).unwrap();
    let decoder = hf.decoder(&device).unwrap();
    let task = CausalLm::new(decoder, &CausalLmConfig::default(), 0, false);
    let mut model = name_parameters(task);
    let batches = Batches::of(&oracle);
    let steps = batches.shape[0];
    let (config, schedule) = recipe();
    let mut optimizer = optim::build(&config, &model).unwrap();
    let losses = oracle.doubles("losses");
    let (norms, rates) = (oracle.doubles("norms"), oracle.doubles("rates"));
    let mut worst = (0.0f64, 0.0f64);
    for step in 0..steps {
        let micros = batches.step(step);
        assert_ne!(micros[0].scored, micros[1].scored);
        let mut gradient = accumulate(&model, micros);
        gradient.clip(&model, 1.0);
        let lr = schedule.lr(config.lr(), step as u64, steps as u64);
        model = optimizer.step(lr, model, gradient.gradients);
        let (loss, theirs) = (gradient.output.loss.mean(), losses[step]);
        let off = (loss - theirs).abs();
        assert!(off < 1e-4, "step {step}: loss {loss}, PyTorch's {theirs}");
        let (norm, theirs) = (gradient.norm, norms[step]);
        let norm_off = (norm / theirs - 1.0).abs();
        assert!(
            norm_off < 1e-4,
            "step {step}: norm {norm}, PyTorch's {theirs}"
        );
        assert!(
            (lr / rates[step] - 1.0).abs() < 1e-12,
            "rate of step {step}"
        );
        worst = (worst.0.max(off), worst.1.max(norm_off));
    }
    println!(
        "losses within {:.1e}, norms within {:.1e}",
        worst.0, worst.1
    );
    let clipped = norms.iter().filter(|&&norm| norm > 1.0).count();
    assert!((1..steps).contains(&clipped), "{clipped} steps clipped");
    let ours = to_hf(&model.model, &hf.table());
    let end = oracle.arrays(|name| name.strip_prefix("end."));
    assert!(ours.keys().eq(end.keys()));
    for (name, theirs) in &end {
        let off = compare_end(name, &ours[name].values, &theirs.values);
        assert!(off < 1e-4, "{name} ends {off:e} away");
    }
}

/// As [`difference`], without the biases of keys: they shift all scores of a query alike, so their
/// gradient is rounding noise, which AdamW blows up to whole steps.
fn compare_end(name: &str, ours: &[f32], theirs: &[f32]) -> f64 {
    if !name.ends_with("c_attn.bias") {
        return difference(ours, theirs);
    }
    let third = theirs.len() / 3;
    let queries = difference(&ours[..third], &theirs[..third]);
    queries.max(difference(&ours[2 * third..], &theirs[2 * third..]))
}
