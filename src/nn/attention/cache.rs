//! Keys and values of the tokens that were already decoded.
//!
//! Room is taken in steps that double, so that appending a token costs O(1) amortised and most appends write
//! in place; whoever knows how many tokens will come reserves room for them.

use burn::tensor::{Int, Tensor};

/// One layer's keys and values, `[batch, kv heads, length, d_head]`.
#[derive(Clone, Debug, Default)]
pub struct LayerCache {
    stored: Option<(Tensor<4>, Tensor<4>)>,
    len: usize,
    reserved: usize,
}

impl LayerCache {
    /// Tokens stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is stored yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The next growth makes room for so many tokens in all at least.
    pub fn reserve(&mut self, tokens: usize) {
        self.reserved = tokens;
    }

    /// The keys and values of a memory: computed when they are first asked for.
    pub fn kept(
        &mut self,
        compute: impl FnOnce() -> (Tensor<4>, Tensor<4>),
    ) -> (Tensor<4>, Tensor<4>) {
        let (keys, values) = self.stored.get_or_insert_with(compute).clone();
        self.len = keys.dims()[2];
        (keys, values)
    }

    /// The same cache for other rows: row i becomes that of `rows[i]`, as beam search reorders its hypotheses.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        if let Some((keys, values)) = self.stored.take() {
            let pick = |x: Tensor<4>| x.select(0, rows.clone());
            self.stored = Some((pick(keys), pick(values)));
        }
    }

    /// Appends the keys and values of new tokens and returns those of all tokens.
    pub fn append(&mut self, key: Tensor<4>, value: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        let [batch, heads, new, d] = key.dims();
        let len = self.len + new;
        let room = len.next_power_of_two().max(16);
        let room = if self.reserved < len {
            room
        } else {
            self.reserved
        };
        let (keys, values) = match self.stored.take() {
            Some((keys, values)) if keys.dims()[2] >= len => (keys, values),
            Some((keys, values)) => (grown(keys, self.len, room), grown(values, self.len, room)),
            None => {
                let empty = || Tensor::zeros([batch, heads, room, d], &key.device());
                (empty(), empty())
            }
        };
        let place = [0..batch, 0..heads, self.len..len, 0..d];
        let keys = keys.slice_assign(place.clone(), key);
        let values = values.slice_assign(place, value);
        let all = [0..batch, 0..heads, 0..len, 0..d];
        let result = (keys.clone().slice(all.clone()), values.clone().slice(all));
        self.stored = Some((keys, values));
        self.len = len;
        result
    }
}

/// A copy of `x` with room for `room` positions, of which the first `used` are kept.
fn grown(x: Tensor<4>, used: usize, room: usize) -> Tensor<4> {
    let [batch, heads, _, d] = x.dims();
    let room = Tensor::zeros([batch, heads, room, d], &x.device());
    let place = [0..batch, 0..heads, 0..used, 0..d];
    room.slice_assign(place.clone(), x.slice(place))
}
