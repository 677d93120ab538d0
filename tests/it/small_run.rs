//! A small in-memory training run, for the tests of checkpoints and interruptions.

use burn::module::{Module, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor, TensorData};
use formwork::rng::{Purpose, Stream};
use formwork::train::checkpoint::{self, Checkpoint, CheckpointContents, State, weights_hash};
use formwork::train::ema::Ema;
use formwork::train::optim::{self, OptimizerConfig};
use formwork::train::parameters::{self, name_parameters};
use formwork::train::run_dir::{Existing, RunDir};
use std::path::{Path, PathBuf};

#[derive(Module, Debug)]
pub struct Layer {
    pub weight: Param<Tensor<2>>,
    pub bias: Option<Param<Tensor<1>>>,
}

#[derive(Module, Debug)]
pub struct Net {
    pub blocks: Vec<Layer>,
    pub head: Param<Tensor<2>>,
}

fn tensor<const D: usize>(stream: &mut Stream, shape: [usize; D], device: &Device) -> Tensor<D> {
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| stream.normal())
        .collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

pub fn net(width: usize, seed: u64) -> Net {
    let device = Device::default().autodiff();
    let mut stream = Stream::new(seed, Purpose::Init, (0, 0, 0));
    let mut layer = |bias: bool| Layer {
        weight: Param::from_tensor(tensor(&mut stream, [width, width], &device)),
        bias: bias.then(|| Param::from_tensor(tensor(&mut stream, [width], &device))),
    };
    name_parameters(Net {
        blocks: vec![layer(true), layer(false)],
        head: Param::from_tensor(tensor(&mut stream, [width, 3], &device)),
    })
}

/// A small in-memory training run, whose gradients are random functions of the step.
pub struct Run {
    pub net: Net,
    pub optimizer: ModuleOptimizer,
    pub ema: Option<Ema<Net>>,
    pub state: State,
}

impl Run {
    pub fn new(width: usize) -> Self {
        let net = net(width, 1);
        Self {
            optimizer: optim::build(&OptimizerConfig::default(), &net).unwrap(),
            ema: Some(Ema::new(0.9, &net)),
            net,
            state: State::default(),
        }
    }

    pub fn step(mut self) -> Self {
        let device = Device::default();
        let mut gradients = GradientsParams::new();
        for (i, p) in parameters::list(&self.net).iter().enumerate() {
            let mut stream = Stream::new(2, Purpose::Split, (self.state.step, i as u64, 0));
            match p.shape[..] {
                [n] => gradients.register(p.id, tensor(&mut stream, [n], &device)),
                [n, m] => gradients.register(p.id, tensor(&mut stream, [n, m], &device)),
                _ => unreachable!("the net has vectors and matrices"),
            }
        }
        self.net = self.optimizer.step(1e-2, self.net, gradients);
        self.ema = self.ema.map(|ema| ema.update(&self.net));
        self.state.step += 1;
        self.state.window.loss += 1.0 / 3.0;
        self
    }

    pub fn steps(self, n: u64) -> Self {
        (0..n).fold(self, |run, _| run.step())
    }

    pub fn save(&self, run: &RunDir, keep_last: usize) -> PathBuf {
        self.try_save(run, keep_last).unwrap()
    }

    pub fn try_save(&self, run: &RunDir, keep_last: usize) -> formwork::error::Result<PathBuf> {
        let parts = CheckpointContents {
            model: &self.net,
            optimizer: &self.optimizer,
            ema: self.ema.as_ref(),
            carried: None,
            state: &self.state,
        };
        checkpoint::save(run, &parts, keep_last)
    }

    pub fn load(saved: &Checkpoint, width: usize) -> Self {
        // Other initial weights: everything must come from the files.
        let net = saved.load_model(net(width, 99)).unwrap();
        let optimizer = optim::build(&OptimizerConfig::default(), &net).unwrap();
        Self {
            optimizer: saved.load_optimizer(optimizer, &net).unwrap(),
            ema: Some(saved.load_ema(0.9, &net).unwrap()),
            state: saved.state().clone(),
            net,
        }
    }

    pub fn hashes(&self) -> [String; 2] {
        let average = self.ema.as_ref().unwrap().model();
        [weights_hash(&self.net), weights_hash(average)]
    }
}

pub fn folder() -> (tempfile::TempDir, RunDir) {
    let temp = tempfile::tempdir().unwrap();
    let run = RunDir::create(temp.path().join("run"), Existing::Refuse).unwrap();
    (temp, run)
}

pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap())
        .map(|e| {
            (
                e.file_name().into_string().unwrap(),
                std::fs::read(e.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}
