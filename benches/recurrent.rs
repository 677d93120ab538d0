//! Times training steps of two recurrent layers (forward, backward, AdamW), the same as `lstm_versus_torch.py` runs in
//! PyTorch. Prints one JSON object per cell kind.
//!
//! run: cargo bench --bench recurrent [-- --profile]

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, Tensor};
use formwork::kernel::profile;
use formwork::nn::init::{Init, InitConfig, XavierInitConfig};
use formwork::nn::recurrent::{Recurrent, RecurrentConfig, Sequences};
use formwork::train::optim::{self, OptimizerConfig};

/// The same allocator as in the binary, which keeps large buffers mapped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH: usize = 32;
const SEQ: usize = 128;
const D: usize = 512;
const WARMUP: usize = 3;
const STEPS: usize = 15;

#[derive(Module, Debug)]
struct Net {
    layers: Vec<Recurrent>,
}

fn steps(kind: &str, shown: bool) {
    let device = Device::flex().autodiff();
    let init = InitConfig::Xavier(XavierInitConfig::default());
    let init = Init::new(&device, 0, &init, 1, 1.0);
    let config: RecurrentConfig = toml::from_str(&format!("kind = \"{kind}\"")).unwrap();
    let layer = |number: usize| config.init(D, D, &init.part(&number.to_string()));
    let mut net = Net {
        layers: vec![layer(0), layer(1)],
    };
    let optimizer: OptimizerConfig = toml::from_str("kind = \"adamw\"\nlr = 1e-3").unwrap();
    let mut optimizer = optim::build(&optimizer, &net).unwrap();
    let x = Tensor::<3>::random([BATCH, SEQ, D], Distribution::Normal(0.0, 1.0), &device);
    let mut times = Vec::new();
    for step in 0..WARMUP + STEPS {
        if step == WARMUP && shown {
            profile::start();
        }
        let began = Instant::now();
        let mut y = x.clone();
        for layer in &net.layers {
            y = layer.layer().forward(y, None, &Sequences::default());
        }
        let gradients = y.powi_scalar(2).mean().backward();
        let gradients = GradientsParams::from_grads(gradients, &net);
        net = optimizer.step(1e-3, net, gradients);
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    if shown {
        for (name, spent) in profile::stop() {
            let ms = spent.time.as_secs_f64() * 1e3 / STEPS as f64;
            println!("{name:<32}{:>8}{ms:>10.2} ms a step", spent.calls);
        }
    }
    let mut times = times.split_off(WARMUP);
    times.sort_by(f64::total_cmp);
    println!(
        "{{\"cell\":\"{kind}\",\"step_ms_median\":{:.2}}}",
        times[STEPS / 2]
    );
}

fn main() {
    let shown = std::env::args().any(|arg| arg == "--profile");
    for kind in ["elman", "gru", "lstm"] {
        steps(kind, shown);
    }
}
