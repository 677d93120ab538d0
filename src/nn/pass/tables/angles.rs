//! Tables of angles with which layers rotate vectors.

use super::{is_usable_with, lock};
use crate::kernel::replay;
use crate::nn::pass::Pass;
use burn::tensor::{Device, Tensor, TensorData};

/// The angles n·θ^(−2i/d) of positions n and of pairs i of d numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Angles {
    /// θ, the base of the wavelengths.
    pub theta: f64,
    /// d, the width that is rotated pair by pair.
    pub numbers: usize,
    /// The positions n.
    pub positions: Vec<usize>,
}

/// Angles with their cosines and sines.
pub(super) type CachedAngles = (Angles, [Tensor<2>; 2]);

impl Angles {
    /// Returns the cosines and sines of the angles, each `[positions, pairs]`.
    pub fn tables(&self, device: &Device) -> [Tensor<2>; 2] {
        let (d, pairs) = (self.numbers, self.numbers / 2);
        let frequency = |pair: usize| self.theta.powf(-2.0 * pair as f64 / d as f64);
        let frequencies: Vec<f64> = (0..pairs).map(frequency).collect();
        let each = |at: &usize| {
            let at = *at as f64;
            frequencies.iter().map(move |f| at * f)
        };
        let values: Vec<f64> = self.positions.iter().flat_map(each).collect();
        [f64::cos, f64::sin].map(|of| {
            let values: Vec<f32> = values.iter().map(|x| of(*x) as f32).collect();
            let shape = [self.positions.len(), pairs];
            replay::floats(TensorData::new(values, shape), device)
        })
    }
}

impl Pass {
    /// Returns the cosines and sines of these angles for vectors like `x`, from the cache if the previous request was the same.
    pub fn tables(&self, angles: Angles, x: &Tensor<3>) -> [Tensor<2>; 2] {
        let mut kept = lock(&self.tables.angles);
        if let Some((known, tables)) = &*kept
            && *known == angles
            && is_usable_with(&tables[0], x)
        {
            return tables.clone();
        }
        let tables = angles.tables(&x.device());
        let tables = tables.map(|table| table.cast(x.dtype()));
        *kept = Some((angles, tables.clone()));
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_those_of_the_vectors_that_they_turn() {
        let pass = Pass::evaluation();
        let angles = |positions| Angles {
            theta: 100.0,
            numbers: 4,
            positions: (0..positions).collect(),
        };
        let x = |device: &Device| Tensor::<3>::zeros([1, 1, 4], device);
        let (plain, tracked) = (Device::flex(), Device::flex().autodiff());
        let [cos, sin] = pass.tables(angles(3), &x(&plain));
        assert_eq!((cos.dims(), cos.is_autodiff()), ([3, 2], false));
        let slow = 100.0_f64.powf(-0.5);
        let wanted = [0.0, 0.0, 1.0, slow, 2.0, 2.0 * slow].map(|x| x.sin() as f32);
        assert_eq!(sin.into_data().try_to_vec::<f32>().unwrap(), wanted);
        // Other tables are requested in between, then the first ones again.
        let [cos, _] = pass.tables(angles(3), &x(&tracked));
        assert!(cos.is_autodiff());
        assert_eq!(pass.tables(angles(2), &x(&tracked))[0].dims(), [2, 2]);
        assert_eq!(pass.tables(angles(3), &x(&plain))[0].dims(), [3, 2]);
    }
}
