//! The KV cache: keys and values of the tokens already decoded.
//!
//! Capacity grows by doubling, so that appending a token costs O(1) amortised and most appends write in place. A caller that
//! knows how many tokens will come reserves room for them. If later queries see only the newest tokens, older ones are dropped:
//! room for about twice as many as they see is enough for any text.

use crate::nn::state::DecodingState;
use burn::tensor::{Int, Tensor};
use std::ops::Range;

/// One layer's keys and values, `[batch, kv heads, length, d_head]`.
#[derive(Clone, Debug, Default)]
pub struct LayerCache {
    stored: Option<(Tensor<4>, Tensor<4>)>,
    len: usize,
    /// Position of the first stored token.
    first: usize,
    reserved: usize,
    /// A table of the position scheme, shared by all rows.
    distances: Option<Tensor<3>>,
}

impl LayerCache {
    /// Returns the number of tokens read, including dropped ones.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of rows stored.
    pub fn rows(&self) -> usize {
        let stored = self.stored.as_ref();
        stored.map_or(0, |(keys, _)| keys.dims()[0])
    }

    /// Returns the number of tokens that there is room for.
    pub fn capacity(&self) -> usize {
        let stored = self.stored.as_ref();
        stored.map_or(0, |(keys, _)| keys.dims()[2])
    }

    /// Returns the table `[heads, rows, d_head]` that the position scheme keeps from token to token.
    pub fn distances(&mut self) -> &mut Option<Tensor<3>> {
        &mut self.distances
    }

    /// Returns the keys and values of a memory, which are computed at the first call.
    pub fn get_or_compute(
        &mut self,
        compute: impl FnOnce() -> (Tensor<4>, Tensor<4>),
    ) -> (Tensor<4>, Tensor<4>) {
        let (keys, values) = self.stored.get_or_insert_with(compute).clone();
        self.len = keys.dims()[2];
        (keys, values)
    }

    /// Returns the keys and values of all tokens read, if none was dropped; `None` before the first token.
    pub fn all(&self) -> Option<(Tensor<4>, Tensor<4>)> {
        let (keys, values) = self.stored.as_ref()?;
        let read = |x: &Tensor<4>| x.clone().narrow(2, 0, self.len - self.first);
        Some((read(keys), read(values)))
    }

    /// Appends the keys and values of new tokens. Returns those of the `reach` tokens before them (of all tokens if `None`) and
    /// of the new ones. No later query may ask for more.
    pub fn append(
        &mut self,
        key: Tensor<4>,
        value: Tensor<4>,
        reach: Option<usize>,
    ) -> (Tensor<4>, Tensor<4>) {
        let [batch, heads, new, d] = key.dims();
        let (before, len) = (self.len, self.len + new);
        // The first position that the first new query sees, and the first that a later query sees.
        let since = |at: usize| reach.map_or(0, |reach| at.saturating_sub(reach));
        let (seen, later) = (since(before), since(len));
        let all = |slots: Range<usize>| [0..batch, 0..heads, slots, 0..d];
        let old = all(seen - self.first.min(seen)..before - self.first);
        let stored = self.stored.take();
        self.len = len;
        if later >= before {
            // Later queries see only new tokens.
            let tail = |x: &Tensor<4>| x.clone().slice(all(later - before..new));
            let room = self.new_capacity(len - later, reach);
            let (keys, values) = (tail(&key), tail(&value));
            self.stored = Some((with_capacity(keys, room), with_capacity(values, room)));
            self.first = later;
            let behind = |x: Tensor<4>, new| Tensor::cat(vec![x.slice(old.clone()), new], 2);
            return match stored {
                Some((keys, values)) if seen < before => (behind(keys, key), behind(values, value)),
                _ => (key, value),
            };
        }
        let Some((mut keys, mut values)) = stored else {
            unreachable!("earlier tokens are stored")
        };
        if keys.dims()[2] < len - self.first {
            let room = self.new_capacity(len - seen, reach);
            keys = with_capacity(keys.slice(old.clone()), room);
            values = with_capacity(values.slice(old), room);
            self.first = seen;
        }
        let place = all(before - self.first..len - self.first);
        let keys = keys.slice_assign(place.clone(), key);
        let values = values.slice_assign(place, value);
        let result = all(seen - self.first..len - self.first);
        let result = (
            keys.clone().slice(result.clone()),
            values.clone().slice(result),
        );
        self.stored = Some((keys, values));
        result
    }

    /// Returns the capacity to allocate when `needed` tokens must be stored at once.
    fn new_capacity(&self, needed: usize, reach: Option<usize>) -> usize {
        let doubled = match self.reserved < self.len {
            true => needed.next_power_of_two().max(16),
            false => self.reserved,
        };
        match reach.map(|reach| (reach, 2 * reach + 16)) {
            None => doubled,
            Some((reach, most)) if needed > reach => most.max(needed),
            Some((_, most)) => doubled.min(most),
        }
    }
}

impl DecodingState for LayerCache {
    /// Reorders the rows, as beam search does with its hypotheses.
    fn select(&mut self, rows: &Tensor<1, Int>) {
        if let Some((keys, values)) = self.stored.take() {
            let pick = |x: Tensor<4>| x.select(0, rows.clone());
            self.stored = Some((pick(keys), pick(values)));
        }
    }

    fn reserve(&mut self, tokens: usize) {
        self.reserved = tokens;
    }

    fn clone_box(&self) -> Box<dyn DecodingState> {
        Box::new(self.clone())
    }
}

/// Appends new keys and values to old ones, if there are any.
pub(super) fn append_to(old: Option<[Tensor<4>; 2]>, [k, v]: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
    match old {
        Some([old_k, old_v]) => [
            Tensor::cat(vec![old_k, k], 2),
            Tensor::cat(vec![old_v, v], 2),
        ],
        None => [k, v],
    }
}

/// Returns a copy of `x` with capacity for `room` positions.
fn with_capacity(x: Tensor<4>, room: usize) -> Tensor<4> {
    let [batch, heads, used, d] = x.dims();
    let room = Tensor::zeros([batch, heads, room, d], &x.device());
    room.slice_assign([0..batch, 0..heads, 0..used, 0..d], x)
}

#[cfg(test)]
mod tests {
    use super::LayerCache;
    use burn::tensor::{Device, Tensor, TensorData};

    /// Tokens whose value is their own position.
    fn tokens(from: usize, len: usize) -> Tensor<4> {
        let numbers: Vec<f32> = (from..from + len).map(|x| x as f32).collect();
        Tensor::from_data(TensorData::new(numbers, [1, 1, len, 1]), &Device::flex())
    }

    #[test]
    fn a_query_gets_the_tokens_that_it_reaches_and_memory_stays_the_same() {
        for (reach, first) in [
            (None, 5),
            (Some(4), 1),
            (Some(4), 3),
            (Some(4), 50),
            (Some(0), 2),
        ] {
            let mut cache = LayerCache::default();
            let mut most = 0;
            for new in [first].into_iter().chain([1; 40]).chain([3, 7, 1, 2]) {
                let before = cache.len();
                let (new_keys, new_values) = (tokens(before, new), tokens(before, new));
                let (keys, values) = cache.append(new_keys, new_values, reach);
                let from = reach.map_or(0, |reach: usize| before.saturating_sub(reach));
                let wanted: Vec<f32> = (from..before + new).map(|x| x as f32).collect();
                for x in [keys, values] {
                    assert_eq!(x.into_data().iter::<f32>().collect::<Vec<_>>(), wanted);
                }
                assert_eq!(cache.len(), before + new);
                most = most.max(cache.capacity());
            }
            assert!(reach.is_none_or(|reach| most <= 2 * reach + 16), "{most}");
        }
    }
}
