//! Fixed sinusoidal positions: PE(p, 2i) = sin(p / base^(2i/d)), PE(p, 2i+1) = cos of the same angle (Vaswani et al. 2017,
//! section 3.5), added to the embeddings. There is no limit on the length.
//!
//! Marian and the authors' tensor2tensor place all sines first and then all cosines: the same numbers in another order, which
//! matters for weights trained with it. In tensor2tensor, as in Whisper and M2M-100, the longest wavelength is 2π·base itself:
//! the angle of pair i of n is p / base^(i/(n−1)). fairseq, and so M2M-100, counts p from 2.

use super::facts::{ActsOn, KnownSizes, PositionFacts};
use super::{Kind, PositionScheme, PositionShape, TokenPositions};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::replay;
use crate::one_table::is_usual;
use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "sinusoidal",
    summary: "fixed sines and cosines added to the embeddings",
    source: "Vaswani et al. 2017, section 3.5",
    example: "{ kind = \"sinusoidal\", base = 10000.0, layout = \"interleaved\" }",
};

/// Settings of sinusoidal positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SinusoidalConfig {
    /// Longest wavelength divided by 2π. Source: Vaswani et al. 2017, section 3.5.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub base: f64,
    /// Order of sines and cosines.
    pub layout: Layout,
    /// Whether the longest wavelength is exactly 2π·base instead of one step shorter.
    /// Source: Vaswani et al. 2018, Tensor2Tensor; Radford et al. 2022, Whisper.
    #[serde(skip_serializing_if = "is_usual")]
    pub endpoint: bool,
    /// Number of the first position (M2M-100 and NLLB: 2, after the number of padding). Source: Fan et al. 2020, fairseq.
    #[schemars(range(max = MAX_POSITIONS))]
    #[serde(skip_serializing_if = "is_usual")]
    pub first: usize,
}

/// Order of sines and cosines in a position's vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Alternating: sines at even elements, cosines at odd ones, as in the paper.
    #[default]
    Interleaved,
    /// All sines, then all cosines (Marian).
    Halves,
}

impl Default for SinusoidalConfig {
    fn default() -> Self {
        Self {
            base: 10_000.0,
            layout: Layout::Interleaved,
            endpoint: false,
            first: 0,
        }
    }
}

impl SinusoidalConfig {
    /// Returns the rows of positions `from..from + len`, row-major `[len, d]`.
    pub fn table(&self, from: usize, len: usize, d: usize) -> Vec<f32> {
        let sines = d.div_ceil(2);
        // The exponent of pair i is i divided by this.
        let parts = match self.endpoint {
            true => (sines.max(2) - 1) as f64,
            false => d as f64 / 2.0,
        };
        let divisor = |i: usize| self.base.powf(i as f64 / parts);
        // The divisor of a position for each pair.
        let divisors: Vec<f64> = (0..sines).map(divisor).collect();
        let mut values = Vec::with_capacity(len * d);
        let from = from + self.first;
        for p in from..from + len {
            for j in 0..d {
                let (i, sine) = match self.layout {
                    Layout::Interleaved => (j / 2, j % 2 == 0),
                    Layout::Halves => (j % sines, j < sines),
                };
                let angle = p as f64 / divisors[i];
                values.push(if sine { angle.sin() } else { angle.cos() } as f32);
            }
        }
        values
    }
}

impl PositionFacts for SinusoidalConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Embeddings
    }

    fn faults(&self, _: &KnownSizes, at: &mut TableFaults) {
        at.positive("base", self.base);
        if self.first > MAX_POSITIONS {
            let rule = format!("first = {} must be {MAX_POSITIONS} at most", self.first);
            at.fault(&["first"], rule);
        }
    }
}

/// Adds fixed sines and cosines to the embeddings.
#[derive(Module, Debug)]
pub struct Sinusoidal {
    d_model: usize,
    #[module(skip)]
    config: SinusoidalConfig,
    context: usize,
}

impl Sinusoidal {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &SinusoidalConfig, shape: &PositionShape) -> Self {
        Self {
            d_model: shape.d_model,
            config: config.clone(),
            context: shape.context,
        }
    }
}

/// Returns rows `from..from + len` of the table with the paper's wavelengths, row-major `[len, d]`.
pub fn table(from: usize, len: usize, d: usize, base: f64, layout: Layout) -> Vec<f32> {
    let config = SinusoidalConfig {
        base,
        layout,
        ..SinusoidalConfig::default()
    };
    config.table(from, len, d)
}

impl PositionScheme for Sinusoidal {
    fn embed(&self, x: Tensor<3>, at: &TokenPositions) -> Tensor<3> {
        let [_, seq, d] = x.dims();
        let (from, len) = match at.ids {
            Some(_) => (0, self.context.max(at.offset + seq)),
            None => (at.offset, seq),
        };
        let values = self.config.table(from, len, self.d_model);
        let data = TensorData::new(values, [len, d]);
        let table = replay::floats::<2>(data, &x.device());
        let rows = match at.ids {
            Some(_) => super::lookup_rows(table, seq, at),
            None => table.unsqueeze_dim(0),
        };
        x + rows
    }
}
