//! Initial values of the vectors of RWKV-7's time mixing: functions of the channel and the layer, as in the authors' code
//! (`train_temp` of RWKV-LM).

use crate::nn::layer::BlockShape;
use crate::nn::token_shift::relative_depth;

/// Initial α of all channels.
pub(super) const INITIAL_ALPHA: f32 = 1.02;

/// Initial ρ of all channels.
pub(super) const INITIAL_RHO: f32 = -0.04;

/// The position of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    /// Position among all channels, from 0 to 1.
    at: f32,
    /// Position in its head, from −1 to 1, squared with its sign kept.
    in_head: f32,
}

impl Channel {
    /// Returns the position of channel `i` of `d`, in heads of `d_head`.
    pub(super) fn new(i: usize, d: usize, d_head: usize) -> Self {
        let place = |i: usize, of: usize| i as f32 / (of.max(2) - 1) as f32;
        let in_head = 2.0 * place(i % d_head, d_head) - 1.0;
        Self {
            at: place(i, d),
            in_head: in_head * in_head.abs(),
        }
    }

    /// Returns the initial w₀ of a layer.
    pub(super) fn decay(self, shape: &BlockShape) -> f32 {
        let power = 1.0 + relative_depth(shape).powf(0.3);
        6.0 * self.at.powf(power) - 5.5 + 2.5 * self.in_head
    }

    /// Returns the initial a₀.
    pub(super) fn rate(self) -> f32 {
        0.3 * self.in_head + 0.4 * (self.at - 0.5) - 0.19
    }

    /// Returns the initial v₀.
    pub(super) fn value(self) -> f32 {
        0.73 - 0.4 * (self.at - 0.5)
    }

    /// Returns the initial ξ.
    pub(super) fn removal(self) -> f32 {
        0.71 - 0.1 * (self.at - 0.5)
    }
}

/// Returns the initial scale of a layer's norm.
pub(super) fn gain(shape: &BlockShape) -> f32 {
    let share = (shape.layer + 1) as f32 / shape.blocks.max(1) as f32;
    share.powf(0.7)
}
