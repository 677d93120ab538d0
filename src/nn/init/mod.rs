//! Initial weights, with schemes named as in the papers, drawn from the counter-based generator.
//!
//! Matrix number i of a part of a model (`stack 3 attention`) draws from the stream (seed, init, i, part). A model's initial
//! weights therefore depend only on its shape and seed, and models that differ in one part begin with the same weights in all
//! others: runs of an ablation with the same seed are paired. Parameters are lazy: a model can be built, counted and planned
//! without allocating it.

pub mod config;
pub mod t5;

use crate::rng::{self, Purpose, Stream};
use burn::module::{Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
pub use config::{Gpt2InitConfig, InitConfig, KINDS, TruncatedNormalInitConfig, XavierInitConfig};
use std::cell::Cell;
pub use t5::T5InitConfig;

/// How the initial weights of a model are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct InitSettings {
    /// The scheme.
    pub scheme: InitConfig,
    /// Ratio of the model's width to the width that the scheme's deviations are meant for ([`crate::stack::mup`]); 1 without μP.
    pub width_ratio: f64,
}

impl From<InitConfig> for InitSettings {
    fn from(scheme: InitConfig) -> Self {
        Self {
            scheme,
            width_ratio: 1.0,
        }
    }
}

impl From<&InitConfig> for InitSettings {
    fn from(scheme: &InitConfig) -> Self {
        scheme.clone().into()
    }
}

impl From<&Self> for InitSettings {
    fn from(initial: &Self) -> Self {
        initial.clone()
    }
}

/// The function of a matrix in the model, as far as its initialisation depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixRole {
    /// Keys and all matrices without a more specific role.
    Inner,
    /// A projection from inputs whose number does not depend on the model's width, such as an image's pixels.
    Input,
    /// Queries: T5 draws them so that scores need no 1/√d_head.
    Query {
        /// Width of a head.
        d_head: usize,
    },
    /// A table of biases that are added to scores, which are products of vectors of the residual stream.
    ScoreBias {
        /// Width of the residual stream.
        d_model: usize,
    },
    /// Values and the first feed-forward matrices: DeepNorm scales them.
    Value,
    /// A projection whose result is added to the residual stream: GPT-2 and DeepNorm scale it.
    Residual,
    /// A table of vectors that is looked up.
    Embedding,
    /// An untied LM head: small, so that the initial loss of a model is ln V.
    Head,
}

/// Builds the parameters of a model, or of one of its parts.
pub struct Init<'a> {
    device: &'a Device,
    seed: u64,
    settings: InitSettings,
    residuals: usize,
    beta: f64,
    part: u64,
    next: Cell<u64>,
}

impl<'a> Init<'a> {
    /// Creates the builder of a model. `residuals` is the number of additions to the residual stream (2 per layer); `beta` is
    /// DeepNorm's factor on values, outputs and feed-forward matrices (1 otherwise).
    pub fn new(
        device: &'a Device,
        seed: u64,
        initial: impl Into<InitSettings>,
        residuals: usize,
        beta: f64,
    ) -> Self {
        Self {
            device,
            seed,
            settings: initial.into(),
            residuals: residuals.max(1),
            beta,
            part: 0,
            next: Cell::new(0),
        }
    }

    /// Creates the builder of the heads that a task adds to a model; their draws do not depend on the model.
    pub fn of_heads(device: &'a Device, seed: u64, initial: impl Into<InitSettings>) -> Self {
        Self::new(device, seed, initial, 1, 1.0).part("heads")
    }

    /// Returns the builder of a part of the model, whose draws do not depend on which other parts exist.
    pub fn part(&self, part: &str) -> Self {
        Self {
            device: self.device,
            seed: self.seed,
            settings: self.settings.clone(),
            residuals: self.residuals,
            beta: self.beta,
            part: rng::part_coordinate(self.part, part),
            next: Cell::new(0),
        }
    }

    /// Returns the builder of the same part with another scaling of the residual stream's projections.
    pub fn with_residual_scaling(self, residuals: usize, beta: f64) -> Self {
        Self {
            residuals: residuals.max(1),
            beta,
            ..self
        }
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// Returns the seed and the part of the model, for draws other than initial weights.
    pub fn seed_and_part(&self) -> [u64; 2] {
        [self.seed, self.part]
    }

    /// Builds a table of vectors, `[entries, d]`.
    pub fn table(&self, entries: usize, d: usize) -> Param<Tensor<2>> {
        self.table_of(entries, d, MatrixRole::Embedding)
    }

    /// Builds a table with a row for each of `entries`, `[entries, d]`, drawn according to `role`.
    pub fn table_of(&self, entries: usize, d: usize, role: MatrixRole) -> Param<Tensor<2>> {
        let draw = self.distribution(entries, d, role);
        let stream = self.stream();
        self.lazy_parameter([entries, d], move |n| draw.fill(stream.clone(), n))
    }

    /// Builds a table of vectors that are initially zero, `[entries, d]`.
    pub fn zeros(&self, entries: usize, d: usize) -> Param<Tensor<2>> {
        self.lazy_parameter([entries, d], |n| vec![0.0; n])
    }

    /// Builds the weight of a linear map, `[d_out, d_in]`. Values are drawn input by input.
    pub fn linear(&self, d_in: usize, d_out: usize, role: MatrixRole) -> Param<Tensor<2>> {
        let draw = self.distribution(d_in, d_out, role);
        let stream = self.stream();
        self.lazy_parameter([d_out, d_in], move |n| {
            let drawn = draw.fill(stream.clone(), n);
            let mut turned = vec![0.0; n];
            for (i, outputs) in drawn.chunks(d_out.max(1)).enumerate() {
                for (o, number) in outputs.iter().enumerate() {
                    turned[o * d_in + i] = *number;
                }
            }
            turned
        })
    }

    /// Builds a vector of `len` equal values (gains and biases).
    pub fn vector(&self, len: usize, value: f32) -> Param<Tensor<1>> {
        self.lazy_parameter([len], move |n| vec![value; n])
    }

    /// Builds a vector of `len` values, each a function of its index.
    pub fn values(
        &self,
        len: usize,
        value: impl Fn(usize) -> f32 + Send + Sync + 'static,
    ) -> Param<Tensor<1>> {
        self.lazy_parameter([len], move |n| (0..n).map(&value).collect())
    }

    /// Builds a tensor whose elements are each a function of a uniform draw between 0 and 1, whatever the scheme.
    pub fn uniform<const D: usize>(
        &self,
        shape: [usize; D],
        value: impl Fn(f32) -> f32 + Send + Sync + 'static,
    ) -> Param<Tensor<D>> {
        let stream = self.stream();
        self.lazy_parameter(shape, move |n| {
            let mut stream = stream.clone();
            (0..n).map(|_| value(stream.uniform())).collect()
        })
    }

    /// Builds a tensor of draws from a normal distribution around 0, whatever the scheme.
    pub fn normal<const D: usize>(&self, shape: [usize; D], std: f32) -> Param<Tensor<D>> {
        let stream = self.stream();
        self.lazy_parameter(shape, move |n| {
            let mut stream = stream.clone();
            (0..n).map(|_| stream.normal() * std).collect()
        })
    }

    /// Builds a matrix from `d_in` to `d_out` for each of `count` experts, `[count, d_out, d_in]`.
    pub fn matrices(
        &self,
        count: usize,
        [d_in, d_out]: [usize; 2],
        role: MatrixRole,
    ) -> Param<Tensor<3>> {
        let draw = self.distribution(d_in, d_out, role);
        // The streams are created lazily: there may be very many, and plans draw none of them.
        let (seed, part) = (self.seed, self.part);
        let first = self.next.replace(self.next.get() + count as u64);
        self.lazy_parameter([count, d_out, d_in], move |_| {
            let streams = (first..first + count as u64)
                .map(|index| Stream::new(seed, Purpose::Init, (index, part, 0)));
            let draws = streams.map(|stream| draw.fill(stream, d_in * d_out));
            draws.collect::<Vec<_>>().concat()
        })
    }

    /// Builds `count` random maps along positions that preserve distances (Johnson and Lindenstrauss), each `[k, positions]`,
    /// stacked on top of each other, whatever the scheme: normal with variance 1/k (Wang et al. 2020, theorem 2).
    pub fn random_projection(&self, positions: usize, k: usize, count: usize) -> Param<Tensor<2>> {
        let draw = Distribution::Normal(1.0 / (k.max(1) as f64).sqrt());
        let stream = self.stream();
        self.lazy_parameter([count * k, positions], move |n| {
            draw.fill(stream.clone(), n)
        })
    }

    /// Builds the kernel of a convolution, `[outputs, inputs, rows, columns]`, whatever the scheme: normal with variance
    /// 2/(outputs·rows·columns) (He et al. 2015, equation 14).
    pub fn kernel(&self, shape: [usize; 4]) -> Param<Tensor<4>> {
        let [outputs, _, rows, columns] = shape;
        let draw = Distribution::Normal((2.0 / (outputs * rows * columns) as f64).sqrt());
        let stream = self.stream();
        self.lazy_parameter(shape, move |n| draw.fill(stream.clone(), n))
    }

    fn stream(&self) -> Stream {
        let index = self.next.replace(self.next.get() + 1);
        Stream::new(self.seed, Purpose::Init, (index, self.part, 0))
    }

    fn lazy_parameter<const D: usize>(
        &self,
        shape: [usize; D],
        values: impl Fn(usize) -> Vec<f32> + Send + Sync + 'static,
    ) -> Param<Tensor<D>> {
        Param::uninitialized(
            ParamId::new(),
            move |device, require_grad| {
                let data = TensorData::new(values(shape.iter().product()), shape);
                let tensor = Tensor::<D>::from_data(data, device);
                if require_grad {
                    tensor.require_grad()
                } else {
                    tensor
                }
            },
            self.device.clone(),
            true,
            shape.into(),
        )
    }

    fn distribution(&self, d_in: usize, d_out: usize, role: MatrixRole) -> Distribution {
        let beta = match role {
            MatrixRole::Value | MatrixRole::Residual => self.beta,
            MatrixRole::Inner
            | MatrixRole::Input
            | MatrixRole::Query { .. }
            | MatrixRole::ScoreBias { .. }
            | MatrixRole::Embedding
            | MatrixRole::Head => 1.0,
        };
        let width = self.settings.width_ratio;
        let small = |std: f64| match role {
            MatrixRole::Head => std.min(0.5 / (d_in as f64 / width).sqrt()) / width,
            MatrixRole::Inner
            | MatrixRole::Query { .. }
            | MatrixRole::Value
            | MatrixRole::Residual => std * beta / width.sqrt(),
            MatrixRole::Input | MatrixRole::ScoreBias { .. } | MatrixRole::Embedding => std * beta,
        };
        match &self.settings.scheme {
            InitConfig::Gpt2(c)
                if role == MatrixRole::Residual && c.depth_scaled && beta == 1.0 =>
            {
                Distribution::Normal(small(c.std) / (self.residuals as f64).sqrt())
            }
            InitConfig::Gpt2(c) => Distribution::Normal(small(c.std)),
            InitConfig::Xavier(c) => match role {
                MatrixRole::Embedding | MatrixRole::ScoreBias { .. } => {
                    Distribution::Normal(c.embedding_std)
                }
                MatrixRole::Head => Distribution::Normal(small(c.embedding_std)),
                MatrixRole::Input => {
                    let fans = d_in as f64 + d_out as f64 / width;
                    Distribution::Uniform(c.gain * beta * (6.0 / fans).sqrt())
                }
                _ => Distribution::Uniform(c.gain * beta * (6.0 / (d_in + d_out) as f64).sqrt()),
            },
            InitConfig::TruncatedNormal(c) => Distribution::Truncated(small(c.std)),
            InitConfig::T5(c) => Distribution::Normal(beta * c.std(d_in, role)),
        }
    }
}

/// A distribution around zero.
#[derive(Clone, Copy, Debug)]
enum Distribution {
    Normal(f64),
    Truncated(f64),
    Uniform(f64),
}

impl Distribution {
    fn fill(self, mut stream: Stream, n: usize) -> Vec<f32> {
        (0..n)
            .map(|_| match self {
                Self::Normal(std) => stream.normal() * std as f32,
                Self::Uniform(bound) => (stream.uniform() * 2.0 - 1.0) * bound as f32,
                Self::Truncated(std) => loop {
                    let x = stream.normal();
                    if x.abs() <= 2.0 {
                        break x * std as f32;
                    }
                },
            })
            .collect()
    }
}
