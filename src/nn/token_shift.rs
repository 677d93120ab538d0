//! Layers that look a few positions back: their state, and RWKV's mix of each position with the one before it (Peng et al. 2023,
//! arXiv:2305.13048, section 3.1), with the authors' initial values (appendix E).

use super::init::Init;
use super::layer::BlockShape;
use super::role::{Roles, WEIGHT};
use crate::kernel::Sequences;
use crate::kernel::short_convolution::{ShortConvolution, available_positions, short_convolution};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};

/// Returns the relative depth of a block: 0 for the first one, 1 for the last.
pub(super) fn relative_depth(shape: &BlockShape) -> f32 {
    shape.layer as f32 / (shape.blocks.max(2) - 1) as f32
}

/// Returns the exponent of the initial μ: 1 for the first block, almost 0 for the last.
pub(super) fn mix_exponent(shape: &BlockShape) -> f32 {
    1.0 - shape.layer as f32 / shape.blocks.max(1) as f32
}

/// Roles of the parameters of [`Mix`].
pub const ROLES: Roles = Roles::new("Mix", &[("share", WEIGHT)]);

/// A mix of each position with the one before it: μ⊙x_t + (1 − μ)⊙x_{t−1} (equations 11 to 15).
#[derive(Module, Debug)]
pub struct Mix {
    /// μ, `[d_model]`: the weight of the position itself.
    pub share: Param<Tensor<1>>,
}

impl Mix {
    /// Builds a mix over `d` channels; the initial μ of channel i is (i/d)^power + more.
    pub fn new(d: usize, power: f32, more: f32, init: &Init) -> Self {
        let share = move |i: usize| (i as f32 / d as f32).powf(power) + more;
        Self {
            share: init.values(d, share),
        }
    }

    /// Mixes `x` `[batch, seq, d]`; the shape stays the same. `before` `[batch, d]` is the position before the first one.
    pub fn forward(
        &self,
        x: Tensor<3>,
        before: Option<Tensor<2>>,
        sequences: &Sequences,
    ) -> Tensor<3> {
        // The parameter is read once, so that the parts of its gradient are added in one order.
        let share = self.share.val().unsqueeze_dim::<2>(1);
        let earlier = share.clone().neg() + 1.0;
        let mix = ShortConvolution {
            weight: Tensor::cat(vec![earlier, share], 1),
            x,
            bias: None,
            before,
            silu: false,
        };
        short_convolution(mix, sequences)
    }
}

/// Returns the newest `count` positions of each row of `x` `[batch, seq, d]`, oldest first, as `[batch, count·d]`. A row with
/// fewer positions is preceded by those of `before`; positions of another sequence than the newest are zero.
pub fn last_positions(
    x: &Tensor<3>,
    before: Option<Tensor<2>>,
    sequences: &Sequences,
    count: usize,
) -> Tensor<2> {
    let ([batch, seq, d], device) = (x.dims(), x.device());
    let x = x.clone().detach();
    if count == 0 {
        return Tensor::zeros([batch, 0], &device);
    }
    let lengths = sequences.lengths.as_ref();
    let end = |row: usize| lengths.map_or(seq, |all| all[row].min(seq));
    let plain = lengths.is_none() && sequences.begins.is_none();
    if plain && seq >= count {
        let last = x.narrow(1, seq - count, count);
        return last.reshape([batch, count * d]);
    }
    let before = match before {
        Some(before) => before.reshape([batch, count, d]),
        None => Tensor::zeros([batch, count, d], &device),
    };
    let all = Tensor::cat(vec![before, x], 1);
    let of_row = |row: usize| {
        let row_of = all.clone().narrow(0, row, 1);
        row_of.narrow(1, end(row), count)
    };
    let last = match lengths {
        Some(_) => Tensor::cat((0..batch).map(of_row).collect(), 0),
        None => all.narrow(1, seq, count),
    };
    let seen = (0..batch).map(|row| {
        let reach = available_positions(sequences, [row, seq], count - 1);
        match end(row) {
            0 => count,
            end => reach.take(end).last().unwrap_or_default() + 1,
        }
    });
    let last = match sequences.begins {
        Some(_) => last * recency_mask(seen, count, &device),
        None => last,
    };
    last.reshape([batch, count * d])
}

/// Returns factors `[batch, count, 1]`: 1 for the newest `seen` of each row's `count` positions, else 0.
fn recency_mask(seen: impl Iterator<Item = usize>, count: usize, device: &Device) -> Tensor<3> {
    let of_row = |seen: usize| (0..count).map(move |i| f32::from(u8::from(count - i <= seen)));
    let factors: Vec<f32> = seen.flat_map(of_row).collect();
    let batch = factors.len() / count;
    Tensor::from_data(TensorData::new(factors, [batch, count, 1]), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_of_the_newest_sequence() {
        let device = Device::flex();
        let values: Vec<f32> = (1..=12).map(|x| x as f32).collect();
        let x = Tensor::<3>::from_data(TensorData::new(values, [3, 4, 1]), &device);
        let before = Tensor::from_data([[-3.0_f32, -2.0, -1.0]; 3], &device);
        let read = |sequences: &Sequences| {
            let kept = last_positions(&x, Some(before.clone()), sequences, 3);
            kept.into_data().iter::<f32>().collect::<Vec<_>>()
        };
        let none = Sequences::default();
        assert_eq!(
            read(&none),
            [2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 10.0, 11.0, 12.0]
        );
        let lengths = Sequences {
            lengths: Some([0, 1, 4].into()),
            ..none.clone()
        };
        let kept = [-3.0, -2.0, -1.0, -2.0, -1.0, 5.0, 10.0, 11.0, 12.0];
        assert_eq!(read(&lengths), kept);
        let begins = |at: usize| (0..12).map(|i| i == at).collect::<Vec<_>>();
        let sequences = Sequences {
            begins: Some(begins(11).into()),
            ..lengths.clone()
        };
        let kept = [-3.0, -2.0, -1.0, -2.0, -1.0, 5.0, 0.0, 0.0, 12.0];
        assert_eq!(read(&sequences), kept);
        let sequences = Sequences {
            begins: Some(begins(4).into()),
            ..lengths
        };
        let kept = [-3.0, -2.0, -1.0, 0.0, 0.0, 5.0, 10.0, 11.0, 12.0];
        assert_eq!(read(&sequences), kept);
    }
}
