//! The decoding state of latent attention: one narrow vector per position, whatever the number of heads.

use crate::nn::state::DecodingState;
use burn::tensor::{Int, Tensor};

/// Normalised latents followed by the shared keys, `[batch, 1, positions, kv_rank + d_rope]`.
#[derive(Clone, Debug, Default)]
pub struct LatentCache {
    stored: Option<Tensor<4>>,
    len: usize,
    reserved: usize,
}

impl LatentCache {
    /// Returns the number of positions read.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of values stored per position.
    pub fn width(&self) -> usize {
        self.stored.as_ref().map_or(0, |stored| stored.dims()[3])
    }

    /// Appends the vectors of new positions and returns those of all positions. Capacity grows by doubling, as in the KV cache.
    pub(super) fn append(&mut self, new: Tensor<4>) -> Tensor<4> {
        let [batch, _, positions, width] = new.dims();
        let (before, len) = (self.len, self.len + positions);
        let all = |slots| [0..batch, 0..1, slots, 0..width];
        let stored = match self.stored.take() {
            Some(stored) if stored.dims()[2] >= len => stored,
            shorter => {
                let doubled = len.next_power_of_two().max(16);
                let room = [self.reserved, doubled][usize::from(self.reserved < len)];
                let room = Tensor::<4>::zeros([batch, 1, room, width], &new.device());
                let room = room.cast(new.dtype());
                match shorter {
                    Some(old) => {
                        let old = old.slice(all(0..before));
                        room.slice_assign(all(0..before), old)
                    }
                    None => room,
                }
            }
        };
        let stored = stored.slice_assign(all(before..len), new);
        self.stored = Some(stored.clone());
        self.len = len;
        stored.narrow(2, 0, len)
    }
}

impl DecodingState for LatentCache {
    fn select(&mut self, rows: &Tensor<1, Int>) {
        self.stored = self.stored.take().map(|x| x.select(0, rows.clone()));
    }

    fn reserve(&mut self, positions: usize) {
        self.reserved = positions;
    }

    fn clone_box(&self) -> Box<dyn DecodingState> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::LatentCache;
    use burn::tensor::{Device, Tensor, TensorData};

    #[test]
    fn positions_come_back_in_their_order_and_room_doubles() {
        let mut kept = LatentCache::default();
        for new in [3, 1, 40, 1] {
            let before = kept.len();
            let numbers: Vec<f32> = (before..before + new).map(|x| x as f32).collect();
            let numbers = TensorData::new(numbers, [1, 1, new, 1]);
            let all = kept.append(Tensor::from_data(numbers, &Device::flex()));
            let wanted: Vec<f32> = (0..before + new).map(|x| x as f32).collect();
            assert_eq!(all.into_data().iter::<f32>().collect::<Vec<_>>(), wanted);
        }
        let room = kept.stored.unwrap().dims()[2];
        assert_eq!((kept.len, room), (45, 64));
    }
}
