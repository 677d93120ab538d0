//! Attention in windows of a map (Liu et al. 2021, section 3.2).
//!
//! A map is cut into windows of w by w positions, and a position attends to those of its window: windows are rows of the batch.
//! Every second block shifts the map up and to the left by half a window before it is cut. Positions shifted out re-enter at the
//! other end; a window that then has positions from both ends keeps them apart, as rows keep documents apart. Each head adds a
//! learned number for the rows and columns between query and key; each block has its own table of these numbers.
//!
//! A map that windows do not divide is padded with zeros below and to the right, after the norm and before the projections to
//! queries, keys and values. Padding is attended to like other positions (as in Hugging Face's `SwinModel`).

use super::bias::WindowBias;
use super::config::{StageShape, SwinConfig};
use super::cosines::{Cosines, Scores};
use crate::kernel::{self, Documents};
use crate::nn::attention::multi_head::MultiHead;
use crate::nn::attention::{AttentionShape, Visibility};
use crate::nn::feed_forward::Dense;
use crate::nn::init::Init;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::pass::Pass;
use crate::nn::position::Span;
use crate::nn::role::{Declaration, Place, Roles};
use crate::stack::recompute_block;
use crate::stack::residual::{Residual, ResidualConfig};
use burn::module::Module;
use burn::tensor::Tensor;

/// The plain or the shifted windows of a stage, with their mask, for a batch of maps.
#[derive(Clone, Debug)]
pub(super) struct WindowPass {
    windows: Windows,
    visible: Visibility,
}

impl WindowPass {
    /// Returns the windows of block number `block` of a stage.
    pub(super) fn of(stage: &StageShape, block: usize, batch: usize) -> Self {
        let windows = Windows::of(stage, block);
        let visible = windows.visible(batch);
        Self { windows, visible }
    }
}

/// The windows of a map.
#[derive(Clone, Copy, Debug)]
struct Windows {
    /// Rows and columns of the map.
    map: [usize; 2],
    /// Rows and columns of the map with padding.
    filled: [usize; 2],
    /// Side of a window in positions.
    side: usize,
    /// Rows and columns by which the map is shifted.
    shift: usize,
}

impl Windows {
    /// Returns the windows of block number `block` of a stage.
    fn of(stage: &StageShape, block: usize) -> Self {
        Self {
            map: stage.map,
            filled: stage.padded_map(),
            side: stage.window,
            shift: stage.shift(block),
        }
    }

    /// Number of windows along rows and columns.
    fn counts(&self) -> [usize; 2] {
        self.filled.map(|side| side / self.side)
    }

    /// Number of windows of a map.
    fn count(&self) -> usize {
        let [below, beside] = self.counts();
        below * beside
    }

    /// Cuts the positions of a map, row by row, into windows: `[batch, rows·cols, d]` → `[batch·windows, side·side, d]`.
    fn partition(&self, x: Tensor<3>) -> Tensor<3> {
        let ([batch, _, d], [rows, cols]) = (x.dims(), self.map);
        let ([below, beside], side) = (self.counts(), self.side);
        let map = pad_map(x.reshape([batch, rows, cols, d]), self.filled);
        let map = roll(roll(map, 1, self.shift), 2, self.shift);
        map.reshape([batch, below, side, beside, side, d])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([batch * below * beside, side * side, d])
    }

    /// Undoes [`Self::cut`] and drops padding: `[batch·windows, side·side, d]` → `[batch, rows·cols, d]`.
    fn reverse(&self, x: Tensor<3>) -> Tensor<3> {
        let ([all, _, d], [rows, cols]) = (x.dims(), self.map);
        let ([below, beside], side) = (self.counts(), self.side);
        let (batch, [high, wide]) = (all / self.count(), self.filled);
        let map = x
            .reshape([batch, below, beside, side, side, d])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([batch, high, wide, d]);
        let map = match self.shift {
            0 => map,
            shift => roll(roll(map, 1, high - shift), 2, wide - shift),
        };
        let map = match self.filled == self.map {
            true => map,
            false => map.narrow(1, 0, rows).narrow(2, 0, cols),
        };
        map.reshape([batch, rows * cols, d])
    }

    /// Returns the mask of windows for `batch` maps: positions see each other if they were neighbours before the shift.
    fn visible(&self, batch: usize) -> Visibility {
        if self.shift == 0 {
            return Visibility::default();
        }
        let keys = self.side * self.side;
        let numbers = self.regions().repeat(batch);
        Visibility {
            documents: Some(Documents::new(&numbers, keys)),
            ..Visibility::default()
        }
    }

    /// Returns the regions of a shifted map's positions, window by window; positions of a window see each other if their regions
    /// agree.
    fn regions(&self) -> Vec<i32> {
        let ([below, beside], side) = (self.counts(), self.side);
        let region = |place: usize, all: usize| {
            i32::from(place + side >= all) + i32::from(place + self.shift >= all)
        };
        let [high, wide] = self.filled;
        let mut regions = Vec::with_capacity(high * wide);
        for window in 0..below * beside {
            let (first_row, first_col) = (window / beside * side, window % beside * side);
            for place in 0..side * side {
                let (row, col) = (first_row + place / side, first_col + place % side);
                regions.push(3 * region(row, high) + region(col, wide));
            }
        }
        regions
    }
}

/// Pads a map `[batch, rows, cols, d]` with zeros below and to the right, to these rows and columns.
pub(super) fn pad_map(x: Tensor<4>, [high, wide]: [usize; 2]) -> Tensor<4> {
    let filled = |x: Tensor<4>, dim: usize, to: usize| {
        let mut dims = x.dims();
        if dims[dim] == to {
            return x;
        }
        dims[dim] = to - dims[dim];
        let zeros = Tensor::<4>::zeros(dims, (&x.device(), x.dtype()));
        Tensor::cat(vec![x, zeros], dim)
    };
    filled(filled(x, 1, high), 2, wide)
}

/// Moves the first `by` positions of a dimension to its end.
fn roll(x: Tensor<4>, dim: usize, by: usize) -> Tensor<4> {
    if by == 0 {
        return x;
    }
    let rest = x.dims()[dim] - by;
    let first = x.clone().narrow(dim, 0, by);
    Tensor::cat(vec![x.narrow(dim, by, rest), first], dim)
}

/// Places of the parameters of a [`SwinBlock`].
pub const ROLES: Roles = Roles::new(
    "SwinBlock",
    &[
        ("attention", Declaration::Place(Place::Mixer)),
        ("position", Declaration::Place(Place::Mixer)),
        ("cosines", Declaration::Place(Place::Mixer)),
        ("attention_residual", Declaration::Place(Place::Mixer)),
        ("feed_forward", Declaration::Place(Place::FeedForward)),
        (
            "feed_forward_residual",
            Declaration::Place(Place::FeedForward),
        ),
    ],
);

/// A block: x + attention(norm(x)) in windows, then x + feed_forward(norm(x)); or with the norms after both layers.
#[derive(Module, Debug)]
pub struct SwinBlock {
    /// Attention between the positions of a window.
    pub attention: MultiHead,
    /// The position bias of a window.
    pub position: WindowBias,
    /// The learned factor on cosines, if scores are cosines.
    pub cosines: Option<Cosines>,
    /// The residual connection around attention.
    pub attention_residual: Residual,
    /// The feed-forward layer.
    pub feed_forward: Dense,
    /// The residual connection around the feed-forward layer.
    pub feed_forward_residual: Residual,
    drop_path: f64,
}

impl SwinBlock {
    /// Builds block number `block` of a stage. `trained` is the window side that a network of distances was trained with (0 for
    /// the stage's own).
    pub fn new(
        config: &SwinConfig,
        (stage, trained): (&StageShape, usize),
        block: usize,
        init: &Init,
    ) -> Self {
        let (d, side) = (stage.width, stage.window);
        let heads = config.heads(stage.heads);
        let shape = AttentionShape {
            dropout: config.attention_dropout(),
            ..AttentionShape::standalone(d, side * side)
        };
        let joined = ResidualConfig::plain(config.dropout);
        let residual =
            |init: &Init| Residual::new(config.norm_placement, &config.norm, d, joined, init);
        let feed_forward = config.feed_forward(d);
        Self {
            attention: MultiHead::new(&heads, &shape, &init.part("attention")),
            position: WindowBias::new(config.position_bias, trained, stage, &init.part("position")),
            cosines: match config.scores {
                Scores::Products => None,
                Scores::Cosines => Some(Cosines::new(stage.heads, &init.part("cosines"))),
            },
            attention_residual: residual(init),
            feed_forward: Dense::new(&feed_forward, d, 0.0, &init.part("feed_forward")),
            feed_forward_residual: residual(init),
            drop_path: config.path_at(stage.blocks_before + block),
        }
    }

    /// Runs the block over the positions of a map, row by row: `[batch, rows·cols, d]` → the same shape. It is recomputed in the
    /// backward pass if the pass says so.
    pub(super) fn forward(&self, x: Tensor<3>, turn: &WindowPass, pass: &Pass) -> Tensor<3> {
        recompute_block(self, x, turn, pass, Self::run)
    }

    fn run(&self, x: Tensor<3>, turn: &WindowPass, pass: &Pass) -> Tensor<3> {
        let WindowPass { windows, visible } = turn;
        let (attended, fed) = (&self.attention_residual, &self.feed_forward_residual);
        let x = attended.apply(x, "attention", self.drop_path, pass, |x| {
            let x = windows.partition(x);
            let x = pass.with_derived_rows(windows.count(), || {
                self.attend_within_windows(x, visible, pass)
            });
            windows.reverse(x)
        });
        let places = x.dims()[1];
        fed.apply(x, "feed_forward", self.drop_path, pass, |x| {
            let mut cx = LayerContext::standalone(places, pass);
            self.feed_forward.forward(x, &mut cx)
        })
    }

    /// Attention between the positions of each window, `[windows, side·side, d]` → the same shape.
    fn attend_within_windows(&self, x: Tensor<3>, visible: &Visibility, pass: &Pass) -> Tensor<3> {
        let places = x.dims()[1];
        let prepared = self.position.prepared(Span::full(places), &x.device());
        let mut cx = LayerContext::standalone(places, pass);
        (cx.visible, cx.prepared) = (visible, &prepared);
        // A record's rows are examples, but these rows are windows, so attention weights are not recorded.
        self.attention.forward_with(x, &mut cx, |heads, _| {
            let heads = match &self.cosines {
                Some(cosines) => cosines.rescale(heads),
                None => heads,
            };
            kernel::attention(heads.q, heads.k, heads.v, heads.positional, heads.options)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn windows(map: [usize; 2], side: usize, shift: usize) -> Windows {
        Windows {
            map,
            filled: map.map(|n| n.next_multiple_of(side)),
            side,
            shift,
        }
    }

    #[test]
    fn windows_are_cut_and_joined() {
        let device = Device::flex();
        for (map, side, shift) in [
            ([4, 4], 2, 0),
            ([4, 6], 2, 1),
            ([5, 7], 3, 1),
            ([2, 2], 2, 0),
        ] {
            let windows = windows(map, side, shift);
            let values: Vec<f32> = (0..2 * map[0] * map[1] * 3).map(|x| x as f32).collect();
            let x = Tensor::<1>::from_data(&values[..], &device);
            let x = x.reshape([2, map[0] * map[1], 3]);
            let cut = windows.partition(x.clone());
            assert_eq!(cut.dims(), [2 * windows.count(), side * side, 3]);
            let back: Vec<f32> = windows.reverse(cut).into_data().iter::<f32>().collect();
            assert_eq!(back, values, "{map:?} {side} {shift}");
        }
    }

    #[test]
    fn places_from_both_ends_are_kept_apart() {
        // Windows of 2×2 in a 4×4 map, shifted by one: the last row and column are those that were first.
        let regions = windows([4, 4], 2, 1).regions();
        assert_eq!(&regions[..4], [0, 0, 0, 0]);
        assert_eq!(&regions[4..8], [1, 2, 1, 2]);
        assert_eq!(&regions[8..12], [3, 3, 6, 6]);
        assert_eq!(&regions[12..], [4, 5, 7, 8]);
        assert_eq!(windows([4, 4], 2, 0).visible(3), Visibility::default());
    }
}
