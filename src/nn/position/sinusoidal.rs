//! Fixed sinusoidal positions: PE(p, 2i) = sin(p / base^(2i/d)), PE(p, 2i+1) = cos of the same
//! (Vaswani et al. 2017, section 3.5), added to the embeddings. No limit in length.

use super::{Kind, Places, PositionScheme, PositionShape};
use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "sinusoidal",
    summary: "fixed sines and cosines added to the embeddings",
    source: "Vaswani et al. 2017, section 3.5",
    example: "{ kind = \"sinusoidal\", base = 10000.0 }",
};

/// The knobs of sinusoidal positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SinusoidalConfig {
    /// Longest wavelength over 2π.
    pub base: f64,
}

impl Default for SinusoidalConfig {
    fn default() -> Self {
        Self { base: 10_000.0 }
    }
}

/// Adds the table's rows.
#[derive(Module, Debug)]
pub struct Sinusoidal {
    d_model: usize,
    base: f64,
    context: usize,
}

impl Sinusoidal {
    /// The scheme for a model of this shape.
    pub fn new(config: &SinusoidalConfig, shape: &PositionShape) -> Self {
        Self {
            d_model: shape.d_model,
            base: config.base,
            context: shape.context,
        }
    }
}

/// Rows `from..from + len` of the table, row-major `[len, d]`.
pub fn table(from: usize, len: usize, d: usize, base: f64) -> Vec<f32> {
    let mut values = Vec::with_capacity(len * d);
    for p in from..from + len {
        for j in 0..d {
            let angle = p as f64 / base.powf((j / 2 * 2) as f64 / d as f64);
            values.push(if j % 2 == 0 { angle.sin() } else { angle.cos() } as f32);
        }
    }
    values
}

impl PositionScheme for Sinusoidal {
    fn embed(&self, x: Tensor<3>, at: &Places) -> Tensor<3> {
        let [_, seq, d] = x.dims();
        let (from, len) = match at.ids {
            Some(_) => (0, self.context.max(at.offset + seq)),
            None => (at.offset, seq),
        };
        let data = TensorData::new(table(from, len, self.d_model, self.base), [len, d]);
        let table = Tensor::<2>::from_data(data, &x.device());
        let rows = match at.ids {
            Some(_) => super::rows(table, seq, at),
            None => table.unsqueeze_dim(0),
        };
        x + rows
    }
}
