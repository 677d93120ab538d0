//! Times the training step of a mixture of experts against that of a single expert as a dense or gated layer: forward and
//! backward, without and with the optimizer's step. Prints milliseconds and their ratio; 8 experts with 2 per token do twice
//! the arithmetic.
//!
//! run: cargo bench --bench experts
//!      RAYON_NUM_THREADS=1 cargo bench --bench experts -- --cpu     # processor time, on a machine that does other work (Linux)

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Tensor};
use formwork::nn::feed_forward::moe::{ExpertConfig, Moe, MoeConfig};
use formwork::nn::feed_forward::{Activation, Dense, DenseConfig, Gated, GatedConfig};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::layer::{Layer, LayerContext};
use formwork::nn::pass::{Draws, Pass};
use formwork::train::optim::{OptimizerConfig, build};
use formwork::train::parameters::name_parameters;

/// The same allocator as in the binary, which keeps large buffers mapped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns the median times of two functions in milliseconds, run alternately.
fn medians(mut a: impl FnMut(), mut b: impl FnMut()) -> [f64; 2] {
    let rounds = 15;
    let mut times = [Vec::new(), Vec::new()];
    let cpu = std::env::args().any(|argument| argument == "--cpu");
    let timed = |f: &mut dyn FnMut()| {
        let (start, before) = (Instant::now(), cpu.then(on_cpu));
        f();
        match before {
            Some(before) => on_cpu() - before,
            None => start.elapsed().as_secs_f64() * 1e3,
        }
    };
    for round in 0..rounds + 2 {
        let both = [timed(&mut a), timed(&mut b)];
        if round >= 2 {
            times[0].push(both[0]);
            times[1].push(both[1]);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[rounds / 2]
    })
}

/// Returns the CPU time of the calling thread in milliseconds.
fn on_cpu() -> f64 {
    let known = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = known.split_whitespace().next().unwrap();
    nanoseconds.parse::<f64>().unwrap() / 1e6
}

/// Runs one forward and backward pass to the input and all parameters, and returns the parameters' gradients.
fn step<M: Module>(
    layer: &M,
    x: &Tensor<3>,
    f: impl Fn(&M, Tensor<3>) -> Tensor<3>,
) -> GradientsParams {
    let y = f(layer, x.clone().detach().require_grad());
    let seed = y.clone().detach();
    GradientsParams::from_grads((y * seed).sum().backward(), layer)
}

/// Runs a layer outside a model.
fn alone<L: Layer>(layer: &L, x: Tensor<3>) -> Tensor<3> {
    let pass = Pass::evaluation();
    let length = x.dims()[1];
    layer.forward(x, &mut LayerContext::standalone(length, &pass))
}

/// Runs one training step of a layer with its optimizer.
fn stepped<M: Module>(
    state: &mut Option<(M, ModuleOptimizer)>,
    x: &Tensor<3>,
    f: impl Fn(&M, Tensor<3>) -> Tensor<3>,
) {
    if let Some((layer, mut optimizer)) = state.take() {
        let gradients = step(&layer, x, f);
        let layer = optimizer.step(1e-5, layer, gradients);
        *state = Some((layer, optimizer));
    }
}

fn compare<M: Module>(
    name: &str,
    dense: M,
    f: impl Fn(&M, Tensor<3>) -> Tensor<3>,
    moe: Moe,
    x: &Tensor<3>,
) {
    let g = |moe: &Moe, x: Tensor<3>| {
        let pass = Pass::training(Draws {
            seed: 1,
            step: 0,
            first_row: 0,
        });
        let y = moe.mix(x, None, &pass);
        let losses = pass.losses().into_iter();
        losses.fold(y, |y, loss| {
            y + (loss.mean * loss.coefficient).reshape([1, 1, 1])
        })
    };
    let [a, b] = medians(|| drop(step(&dense, x, &f)), || drop(step(&moe, x, g)));
    let (dense, moe) = (name_parameters(dense), name_parameters(moe));
    let adamw = OptimizerConfig::default();
    let of_dense = build(&adamw, &dense).unwrap();
    let of_moe = build(&adamw, &moe).unwrap();
    let mut dense = Some((dense, of_dense));
    let mut moe = Some((moe, of_moe));
    let [c, d] = medians(|| stepped(&mut dense, x, &f), || stepped(&mut moe, x, g));
    println!(
        "{name:<36}{a:>9.1}{b:>9.1}{:>7.2}{c:>9.1}{d:>9.1}{:>7.2}",
        b / a,
        d / c
    );
}

fn main() {
    let device = Device::flex().autodiff();
    println!(
        "{:<36}{:>25}{:>25}",
        "ms: dense, 8 experts top 2, quotient", "step", "with AdamW"
    );
    for [batch, seq, d_model] in [[8, 128, 128], [8, 256, 256], [16, 128, 512], [4, 512, 512]] {
        let init = Init::new(&device, 1, InitConfig::default(), 1, 1.0);
        let x = Tensor::random(
            [batch, seq, d_model],
            Distribution::Normal(0.0, 1.0),
            &device,
        );
        let mixture = |expert: ExpertConfig| {
            Moe::new(
                &MoeConfig {
                    expert,
                    ..MoeConfig::default()
                },
                d_model,
                0.0,
                &init,
            )
        };
        let shape = format!("[{batch}, {seq}, {d_model}]");
        let config = DenseConfig {
            activation: Activation::Gelu,
            ..DenseConfig::default()
        };
        compare(
            &format!("dense {shape}"),
            Dense::new(&config, d_model, 0.0, &init),
            alone,
            mixture(ExpertConfig::Dense(config.clone())),
            &x,
        );
        let config = GatedConfig::default();
        compare(
            &format!("gated {shape}"),
            Gated::new(&config, d_model, 0.0, &init),
            alone,
            mixture(ExpertConfig::Gated(config.clone())),
            &x,
        );
    }
}
