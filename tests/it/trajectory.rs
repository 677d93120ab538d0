//! Fifty steps of training against PyTorch (`tests/goldens/make_trajectory.py` is the oracle): the same initial weights and
//! batches, two micro-batches of unequal weight per step, clipping, AdamW with three parameter groups, warmup and cosine.
//! Losses, gradient norms, learning rates and final weights agree.
//!
//! The functions that follow an oracle's curves are also used for other tasks.

use crate::batches;
use crate::oracle::{Oracle, difference, hf_folder};
use crate::oracle::{decoder_of, decoder_table};
use crate::transfer::Arrays;
use burn::tensor::Device;
use formwork::data::Batch;
use formwork::interop::{read_hf, to_hf};
use formwork::model::AnyLanguageModel;
use formwork::task::{CausalLm, CausalLmConfig, Objective, StepOutput, TrainableModel};
use formwork::train::gradients::accumulate;
use formwork::train::optim::{self, AdamwConfig, GroupConfig, OptimizerConfig};
use formwork::train::parameters::name_parameters;
use formwork::train::schedule::{DecayConfig, ScheduleConfig};

/// Largest distance from PyTorch's curves: losses by difference, norms by ratio.
const NEAR: f64 = 1e-4;

/// The training settings of an oracle.
pub struct Recipe {
    pub optimizer: OptimizerConfig,
    pub schedule: ScheduleConfig,
}

impl Recipe {
    /// A peak rate of 1e-2 with weight decay, ten warmup steps and a cosine: the settings of most oracles.
    pub fn usual(betas: [f64; 2]) -> Self {
        Self {
            optimizer: OptimizerConfig::Adamw(AdamwConfig {
                lr: 1e-2,
                betas,
                eps: 1e-6,
                weight_decay: 0.1,
                ..AdamwConfig::default()
            }),
            schedule: ScheduleConfig::Cosine(DecayConfig {
                warmup_steps: 10,
                ..DecayConfig::default()
            }),
        }
    }
}

/// Returns the two micro-batches of a step, which must differ in their number of scored positions.
pub fn uneven(step: usize, batch: impl Fn(usize, usize) -> Batch) -> Vec<Batch> {
    let micros = vec![batch(step, 0), batch(step, 1)];
    assert_ne!(micros[0].scored, micros[1].scored);
    batches::in_one_step(micros, step)
}

/// A tensor `[step, micro-batch, row, …]` with one part of the batches of all steps.
pub struct Steps {
    pub shape: Vec<usize>,
    values: Vec<i32>,
}

impl Steps {
    pub fn of(oracle: &Oracle, name: &str) -> Self {
        let (shape, values) = oracle.integers(name);
        Self { shape, values }
    }

    /// Returns the values of one micro-batch.
    pub fn micro(&self, step: usize, micro: usize) -> Vec<i32> {
        let size: usize = self.shape[2..].iter().product();
        let from = (step * self.shape[1] + micro) * size;
        self.values[from..from + size].to_vec()
    }
}

/// Name of an oracle's curve, and the value of a step that is compared with it.
pub type Curve<'a> = (&'a str, fn(&StepOutput) -> f64);

/// Trains as an oracle did and compares every loss, norm and rate with its curves. Returns the trained model.
pub fn follow<M: TrainableModel>(
    model: M,
    oracle: &Oracle,
    recipe: &Recipe,
    batches: impl Fn(usize) -> Vec<Batch>,
    losses: &[Curve],
) -> M {
    let mut model = name_parameters(model);
    let curves: Vec<Vec<f64>> = losses
        .iter()
        .map(|(name, _)| oracle.doubles(name))
        .collect();
    let (norms, rates) = (oracle.doubles("norms"), oracle.doubles("rates"));
    let steps = norms.len();
    let mut optimizer = optim::build(&recipe.optimizer, &model).unwrap();
    let mut worst = (0.0f64, 0.0f64);
    for step in 0..steps {
        let mut gradient = accumulate(&model, batches(step));
        gradient.clip(&model, 1.0);
        let base = recipe.optimizer.lr();
        let lr = recipe.schedule.lr(base, step as u64, steps as u64);
        model = optimizer.step(lr, model, gradient.gradients);
        for ((name, loss), curve) in losses.iter().zip(&curves) {
            let (loss, theirs) = (loss(&gradient.output), curve[step]);
            let off = (loss - theirs).abs();
            assert!(off < NEAR, "step {step}: {name} {loss}, PyTorch's {theirs}");
            worst.0 = worst.0.max(off);
        }
        let (norm, theirs) = (gradient.norm, norms[step]);
        let off = (norm / theirs - 1.0).abs();
        assert!(off < NEAR, "step {step}: norm {norm}, PyTorch's {theirs}");
        worst.1 = worst.1.max(off);
        assert!(
            (lr / rates[step] - 1.0).abs() < 1e-12,
            "rate of step {step}"
        );
    }
    println!(
        "losses within {:.1e}, norms within {:.1e}",
        worst.0, worst.1
    );
    assert!(norms.iter().any(|&norm| norm > 1.0), "nothing was clipped");
    model
}

/// Compares trained weights with the oracle's, under its names.
pub fn compare_ends(oracle: &Oracle, ours: &Arrays, tolerance: f64) {
    let end = oracle.arrays(|name| name.strip_prefix("end."));
    assert!(ours.keys().eq(end.keys()));
    let mut worst = (0.0, "");
    for (name, theirs) in &end {
        let off = compare_end(name, &ours[name].values, &theirs.values);
        assert!(off < tolerance, "{name} ends {off:e} away");
        if off > worst.0 {
            worst = (off, name);
        }
    }
    println!("ends within {:.1e}, at {}", worst.0, worst.1);
}

/// Like [`difference`], but without key biases: these shift all scores of a query alike, so their gradient is rounding noise,
/// which AdamW turns into whole steps.
fn compare_end(name: &str, ours: &[f32], theirs: &[f32]) -> f64 {
    let keys = ["key.bias", "k_lin.bias", "k_proj.bias"];
    if keys.iter().any(|key| name.ends_with(key)) {
        return 0.0;
    }
    if !name.ends_with("c_attn.bias") && !name.ends_with("in_proj_bias") {
        return difference(ours, theirs);
    }
    let third = theirs.len() / 3;
    let queries = difference(&ours[..third], &theirs[..third]);
    queries.max(difference(&ours[2 * third..], &theirs[2 * third..]))
}

fn recipe() -> Recipe {
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
    Recipe {
        optimizer,
        schedule,
    }
}

#[test]
fn fifty_steps_are_pytorch_s() {
    let oracle = Oracle::open("trajectory");
    let device = Device::flex().autodiff();
    let start = oracle.arrays(|name| name.strip_prefix("start."));
    let dir = hf_folder(&oracle.config(), &start);
    let hf = read_hf(dir.path(), &[]).unwrap();
    let decoder = decoder_of(&hf, &device).unwrap();
    let config = CausalLmConfig::default();
    let task = Objective(CausalLm::new(decoder, &config, 0, false));
    let inputs = Steps::of(&oracle, "inputs");
    let targets = Steps::of(&oracle, "targets");
    let rows = inputs.shape[2];
    let batches = |step: usize| {
        let micro = |micro: usize| {
            let (inputs, targets) = (inputs.micro(step, micro), targets.micro(step, micro));
            batches::of_texts(&inputs, &targets, rows)
        };
        let micros: Vec<Batch> = (0..inputs.shape[1]).map(micro).collect();
        assert_ne!(micros[0].scored, micros[1].scored);
        batches::in_one_step(micros, step)
    };
    let task = follow(
        task,
        &oracle,
        &recipe(),
        batches,
        &[("losses", |output| output.loss.mean())],
    );
    let AnyLanguageModel::Decoder(decoder) = &task.model else {
        unreachable!("a decoder learned");
    };
    compare_ends(&oracle, &to_hf(decoder, &decoder_table(&hf)), 1e-4);
}
