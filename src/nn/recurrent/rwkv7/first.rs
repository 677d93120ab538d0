//! Initial values of the vectors of RWKV-7's time mixing: functions of a channel and of the layer, as the authors' code has them
//! (`train_temp` of RWKV-LM).

use crate::nn::layer::BlockShape;
use crate::nn::token_shift::depth;

/// α of all channels.
pub(super) const REPLACED: f32 = 1.02;

/// ρ of all channels.
pub(super) const BONUS: f32 = -0.04;

/// The place of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    /// Among all, from 0 to 1.
    at: f32,
    /// In its head, from −1 to 1, with its square's size.
    in_head: f32,
}

impl Channel {
    /// Channel `i` of `d`, in heads of `d_head`.
    pub(super) fn new(i: usize, d: usize, d_head: usize) -> Self {
        let place = |i: usize, of: usize| i as f32 / (of.max(2) - 1) as f32;
        let in_head = 2.0 * place(i % d_head, d_head) - 1.0;
        Self {
            at: place(i, d),
            in_head: in_head * in_head.abs(),
        }
    }

    /// w₀ of a layer.
    pub(super) fn decay(self, shape: &BlockShape) -> f32 {
        let power = 1.0 + depth(shape).powf(0.3);
        6.0 * self.at.powf(power) - 5.5 + 2.5 * self.in_head
    }

    /// a₀.
    pub(super) fn rate(self) -> f32 {
        0.3 * self.in_head + 0.4 * (self.at - 0.5) - 0.19
    }

    /// v₀.
    pub(super) fn value(self) -> f32 {
        0.73 - 0.4 * (self.at - 0.5)
    }

    /// ξ.
    pub(super) fn removed(self) -> f32 {
        0.71 - 0.1 * (self.at - 0.5)
    }
}

/// The scale of a layer's norm.
pub(super) fn gain(shape: &BlockShape) -> f32 {
    let share = (shape.layer + 1) as f32 / shape.blocks.max(1) as f32;
    share.powf(0.7)
}
