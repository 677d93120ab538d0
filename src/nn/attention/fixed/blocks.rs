//! The keys that the heads of the fixed pattern see, and the order in which they are stored for the kernel.

use super::super::{AttentionInputs, KeyWeighing};
use super::state::Summaries;
use crate::kernel::{self, Documents, KeyPattern, Pattern, Positional, Query, Visibility, replay};
use crate::nn::layer::LayerContext;
use crate::nn::position::Span;
use crate::nn::state::LayerState;
use burn::tensor::{Tensor, TensorData};
use std::ops::Range;

/// The layout of blocks and their summaries.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedBlocks {
    pub stride: usize,
    pub summary: usize,
    /// Number of the first heads, which see only their own block.
    pub local: usize,
    pub merged: bool,
}

impl FixedBlocks {
    /// Returns the first position of the block that contains `position`.
    fn block_start(self, position: usize) -> usize {
        position / self.stride * self.stride
    }

    /// Returns how many of the first `positions` positions are summaries.
    pub fn summaries(self, positions: usize) -> usize {
        let rest = positions % self.stride;
        positions / self.stride * self.summary + (rest + self.summary).saturating_sub(self.stride)
    }

    /// Returns whether a head sees its own block, and whether it sees summaries.
    fn sees(self, head: usize) -> [bool; 2] {
        let local = head < self.local;
        [self.merged || local, self.merged || !local]
    }

    /// Returns the positions of the summaries with these numbers.
    fn summary_positions(self, numbers: Range<usize>) -> impl Iterator<Item = usize> {
        let before = self.stride - self.summary;
        numbers.map(move |n| n / self.summary * self.stride + before + n % self.summary)
    }
}

/// The pattern for keys in the order of the text.
impl KeyPattern for FixedBlocks {
    fn keys_of_query(&self, query: Query, _: usize, see: &mut dyn FnMut(Range<usize>)) {
        let (start, end) = (self.block_start(query.position), query.position + 1);
        let [own, summaries] = self.sees(query.head);
        if summaries {
            let last = if own { start } else { end };
            for block in (0..last).step_by(self.stride) {
                let from = block + self.stride - self.summary;
                if from < last {
                    see(from..last.min(block + self.stride));
                }
            }
        }
        if own {
            see(start..end);
        }
    }

    fn by_head(&self) -> bool {
        !self.merged
    }
}

/// The pattern for keys that follow copies of summaries: the copies come first, then the keys from position `base` on.
#[derive(Debug)]
struct SummaryOrder {
    blocks: FixedBlocks,
    copies: usize,
    base: usize,
}

impl KeyPattern for SummaryOrder {
    fn keys_of_query(&self, query: Query, _: usize, see: &mut dyn FnMut(Range<usize>)) {
        let Self {
            blocks,
            copies,
            base,
        } = *self;
        let position = query.position - copies + base;
        let start = blocks.block_start(position);
        let [own, summaries] = blocks.sees(query.head);
        if summaries {
            let before = if own { start } else { position + 1 };
            see(0..blocks.summaries(before));
        }
        if own {
            see(copies + start - base..query.position + 1);
        }
    }

    fn by_head(&self) -> bool {
        !self.blocks.merged
    }
}

impl SummaryOrder {
    /// Translates the visibility rules of the text to this order of keys.
    fn translate(self, visible: Visibility) -> Visibility {
        let (copies, base) = (self.copies, self.base);
        let behind = |length: &usize| copies + length.saturating_sub(base);
        let documents = visible.documents.map(|documents| {
            let [rows, keys] = documents.dims();
            let of_row = |row| {
                let row = documents.row(row);
                let copied = self
                    .blocks
                    .summary_positions(0..copies)
                    .map(move |at| row[at]);
                copied.chain(row[base..].iter().copied())
            };
            let numbers: Vec<i32> = (0..rows).flat_map(of_row).collect();
            Documents::new(&numbers, copies + keys - base)
        });
        Visibility {
            lengths: visible.lengths.map(|all| all.iter().map(behind).collect()),
            documents,
            pattern: Some(Pattern::new(self)),
            ..visible
        }
    }
}

/// Selects keys or values `[batch, heads, keys, d_head]` at these positions.
fn select_positions(x: &Tensor<4>, places: impl Iterator<Item = usize>) -> Tensor<4> {
    let places: Vec<i32> = places.map(|at| at as i32).collect();
    let places = TensorData::new(places.clone(), [places.len()]);
    let places = replay::integers(places, &x.device());
    x.clone().select(2, places)
}

impl FixedBlocks {
    /// Concatenates keys or values in the kernel's order: `earlier` summaries, the summaries among `own`, which begins at
    /// position `base`, and `own` itself.
    fn concat_in_order(
        self,
        earlier: Option<Tensor<4>>,
        own: Tensor<4>,
        SummaryOrder { copies, base, .. }: &SummaryOrder,
    ) -> Tensor<4> {
        let before = self.summaries(*base);
        if *copies == 0 {
            return own;
        }
        let late = (before < *copies).then(|| {
            let places = self.summary_positions(before..*copies);
            select_positions(&own, places.map(|at| at - base))
        });
        let parts = [earlier, late, Some(own)];
        Tensor::cat(parts.into_iter().flatten().collect(), 2)
    }

    /// Keeps the keys and values up to position `end` that later queries see; no summaries if no head sees any.
    fn keep_summaries(
        self,
        kept: &mut Summaries,
        own: &[Tensor<4>; 2],
        SummaryOrder { copies, base, .. }: &SummaryOrder,
        end: usize,
    ) {
        let start = self.block_start(end);
        let summaries = self.summaries(*base)..self.summaries(start);
        if *copies > 0 && !summaries.is_empty() {
            let places = || {
                self.summary_positions(summaries.clone())
                    .map(|at| at - base)
            };
            let [k, v] = own.each_ref().map(|x| select_positions(x, places()));
            kept.summary_cache.append(k, v, None);
        }
        let rest = || start - base..end - base;
        kept.newest = (start < end).then(|| own.each_ref().map(|x| select_positions(x, rest())));
    }
}

impl KeyWeighing for FixedBlocks {
    fn weigh(&self, attended: AttentionInputs, cx: &mut LayerContext) -> Tensor<4> {
        let Span { offset, keys, .. } = cx.span;
        let attended = attended.restricted_to(*self);
        if offset == 0 {
            attended.observe(cx);
        }
        let AttentionInputs {
            q,
            k,
            v,
            positional: relations,
            options,
            ..
        } = attended;
        let summarised = self.merged || self.local < q.dims()[1];
        let order = SummaryOrder {
            blocks: *self,
            copies: if summarised { self.summaries(keys) } else { 0 },
            base: self.block_start(offset),
        };
        let kept = cx.state.as_deref_mut();
        let (earlier, own) = match kept.and_then(LayerState::decoding_state_mut::<Summaries>) {
            Some(kept) => {
                let earlier = kept.summary_cache.all();
                let own = kept.append_to_newest([k, v]);
                self.keep_summaries(kept, &own, &order, keys);
                (earlier, own)
            }
            None => (None, [k, v]),
        };
        let (earlier_k, earlier_v) = earlier.unzip();
        let [k, v] = own;
        let k = self.concat_in_order(earlier_k, k, &order);
        let v = self.concat_in_order(earlier_v, v, &order);
        let relations = Positional {
            offset: order.copies + offset - order.base,
            visible: order.translate(cx.visible.clone()),
            ..relations
        };
        kernel::attention(q, k, v, relations, options)
    }

    fn empty_state(&self) -> LayerState {
        LayerState::decoding(Summaries::default())
    }
}
