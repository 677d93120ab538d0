//! The weighing of keys in the heads of the strided pattern: the last keys through a window, every stride-th in runs.

use super::super::{AttentionInputs, KeyWeighing};
use super::runs::{Runs, indices};
use crate::kernel::{
    self, AttentionOptions, Documents, DropKey, KeyPattern, Positional, Query, ScoreBias,
    Visibility, Window,
};
use crate::nn::layer::LayerContext;
use crate::rng::part_coordinate;
use burn::tensor::Tensor;
use std::ops::Range;

/// The pattern: the last keys in the first heads, every stride-th key in the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strides {
    /// The stride l.
    pub stride: usize,
    /// Number of the first heads, which see the last keys.
    pub local: usize,
}

impl KeyPattern for Strides {
    fn keys_of_query(&self, query: Query, _: usize, see: &mut dyn FnMut(Range<usize>)) {
        let (position, stride) = (query.position, self.stride);
        if query.head < self.local {
            return see(position.saturating_sub(stride)..position + 1);
        }
        for key in (position % stride..=position).step_by(stride) {
            see(key..key + 1);
        }
    }

    fn by_head(&self) -> bool {
        true
    }
}

impl KeyWeighing for Strides {
    fn weigh(&self, attended: AttentionInputs, cx: &mut LayerContext) -> Tensor<4> {
        let plain = attended.positional.visible.pattern.clone();
        let attended = attended.restricted_to(*self);
        let [_, heads, queries, keys, _] = attended.dims();
        let from_start = attended.positional.offset == 0 && queries == keys;
        let by_distance = !matches!(attended.positional.bias, ScoreBias::Dense(_));
        if !by_distance || !(from_start || queries == 1) {
            // Keys stay in their order if a text is continued by more than one position.
            return attended.softmax(cx);
        }
        attended.observe(cx);
        let mut attended = attended.repeat_kv_heads();
        attended.positional.visible.pattern = plain;
        let local = self.local.min(heads);
        let mut parts = Vec::with_capacity(2);
        if local > 0 {
            parts.push(self.attend_last(attended.heads(0..local)));
        }
        if local < heads {
            let others = attended.heads(local..heads);
            parts.push(match from_start {
                true => self.attend_in_runs(others),
                false => self.attend_newest(others),
            });
        }
        Tensor::cat(parts, 1)
    }
}

impl Strides {
    /// Applies attention to the last keys.
    fn attend_last(self, mut heads: AttentionInputs) -> Tensor<4> {
        heads.positional.visible.window = Some(Window {
            before: self.stride,
            after: 0,
            dilation: [].into(),
        });
        let AttentionInputs {
            q,
            k,
            v,
            positional: relations,
            options,
            ..
        } = heads;
        kernel::attention(q, k, v, relations, options)
    }

    /// Applies attention of each position to those with the same remainder, as runs.
    fn attend_in_runs(self, heads: AttentionInputs) -> Tensor<4> {
        let [_, _, positions, _, _] = heads.dims();
        let AttentionInputs {
            q,
            k,
            v,
            positional: relations,
            options,
            ..
        } = heads;
        let runs = Runs {
            stride: self.stride,
            positions,
            length: positions.div_ceil(self.stride),
        };
        let [q, k, v] = [q, k, v].map(|x| runs.to_runs(x));
        let relations = Positional {
            visible: runs.visible(relations.visible),
            bias: runs.bias(relations.bias),
            ..relations
        };
        let y = kernel::attention(q, k, v, relations, self.options(options));
        runs.undo_runs(y)
    }

    /// Applies attention of a single query, the newest, to every stride-th key.
    fn attend_newest(self, heads: AttentionInputs) -> Tensor<4> {
        let [_, _, _, keys, _] = heads.dims();
        let AttentionInputs {
            q,
            k,
            v,
            positional: relations,
            options,
            ..
        } = heads;
        let position = relations.offset;
        let places: Vec<usize> = (position % self.stride..keys)
            .step_by(self.stride)
            .collect();
        let number = places.len();
        let pick = indices(&places, &k.device());
        let Visibility {
            causal,
            lengths,
            documents,
            ..
        } = relations.visible;
        let before = |length: &usize| places.iter().filter(|at| *at < length).count();
        let relations = Positional {
            offset: number - 1,
            bias: match relations.bias {
                ScoreBias::ByDistance(bias) => ScoreBias::ByDistance(bias.select(1, pick.clone())),
                other => other,
            },
            visible: Visibility {
                causal,
                lengths: lengths.map(|all| all.iter().map(before).collect()),
                documents: documents.map(|documents| {
                    let rows = 0..documents.dims()[0];
                    let of_row = |row| places.iter().map(move |at| (row, *at));
                    let numbers = rows.flat_map(of_row);
                    let numbers: Vec<i32> =
                        numbers.map(|(row, at)| documents.row(row)[at]).collect();
                    Documents::new(&numbers, number)
                }),
                ..Visibility::default()
            },
            ..relations
        };
        let [k, v] = [k, v].map(|x| x.select(2, pick.clone()));
        kernel::attention(q, k, v, relations, self.options(options))
    }

    /// Keys the dropout of weights separately from that of the first heads, with one row for each run.
    fn options(self, options: AttentionOptions) -> AttentionOptions {
        let apart = |key: DropKey| DropKey {
            first_row: key.first_row * self.stride as u64,
            site: part_coordinate(key.site, "strided"),
            ..key
        };
        AttentionOptions {
            dropout: options.dropout.map(apart),
            ..options
        }
    }
}
